//! A QEMU plugin that counts the actions of any kernel: fences, translation invalidations, returns
//! from exceptions, reads of ID registers, system-register writes, atomics and instructions, by
//! privilege and by phase.
//!
//!     -plugin file=libcounter.so,out=FILE[,instructions=off][,lines=on][,levels=on][,masked=on]
//!         [,stack=on][,trace=TAG,skip=N,limit=N]
//!
//! A phase lasts from one marker to the next. A marker is an instruction without effect that
//! carries a tag: `movz xzr, #TAG` on arm64, `slti x0, x0, TAG` on RISC-V. It is itself the first
//! instruction of its phase. Before the first marker is the phase `boot`.
//!
//! The privilege of an instruction is decided by its exception level, not by its address: QEMU
//! translates a block for one level, but keeps it for all addresses of its page, under the address
//! where it was first executed. Code that a kernel executed before it switched to its own addresses
//! therefore keeps a physical one in `lines` and `masked`, where addresses are only for human
//! readers; `trace` has the true ones.
//!
//! - On a machine with one CPU, counting is inline and only a marker calls out; with more, each
//!   counted instruction calls out (module `tally` says why). Counts are sums over all CPUs. An
//!   instruction that traps is counted when it starts, so one that faults and is repeated counts
//!   twice.
//! - `lines=on` records, for each phase, the 64-byte lines of physical memory that kernel code
//!   loads from and stores to, on each CPU. Accesses by the processor's own table walks and by
//!   block operations such as DC ZVA are not seen.
//! - `levels=on` also counts instructions by arm64's exception level: 2 is a hypervisor with VHE, 1
//!   the kernels of its guests.
//! - `trace=TAG`, or `trace=any`, records the addresses, words, privilege levels and disassembly of
//!   the first `limit` instructions of a phase with this tag, after it was entered `skip` times.
//!   For one CPU only.
//! - `masked=on` counts none of these, but finds the longest stretches for which the kernel takes
//!   no interrupt, of each program that begins with a marker. For one CPU only.
//! - `stack=on` counts none of these either, but finds how deep the stacks of Stile's threads
//!   become in each system call, where a block of instructions begins: the frame of a function that
//!   executes one block alone is not seen. For one CPU only.
//!
//! Everything is written as JSON, one object per line, when QEMU exits normally. The interface is
//! that of `qemu-plugin.h` of QEMU 10.0, version 4, which Debian does not ship: the part in use is
//! declared in `qemu`.

// A test executable cannot link what QEMU provides, so the users of that are left out there.
#![cfg_attr(test, allow(dead_code))]

mod decode;
#[cfg(not(test))]
mod level;
mod lines;
mod masked;
mod options;
mod phases;
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod qemu;
mod stack;
#[cfg(not(test))]
mod tally;
mod trace;
