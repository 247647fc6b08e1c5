//! RISC-V's specific system calls (Linux, Documentation/arch/riscv/{hwprobe,cmodx}.rst).

use isa::hwprobe::{MAX_KEY, matches};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{MAX_CPUS, cpu, features, tlb};
use crate::arch::vdso::data::PROBES;
use crate::arch::{Entry, Syscall};
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};

/// The system calls that are specific to this architecture, by number.
pub const fn specific_calls() -> [(usize, Syscall, Entry); 2] {
    [
        (258, riscv_hwprobe, Entry::new(riscv_hwprobe)),
        (259, riscv_flush_icache, Entry::new(riscv_flush_icache)),
    ]
}

/// `struct riscv_hwprobe`.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Pair {
    key: i64,
    value: u64,
}

/// RISCV_HWPROBE_WHICH_CPUS.
const WHICH_CPUS: usize = 1;
/// Size of the widest possible CPU set, in bytes.
const SET: usize = MAX_CPUS / 8;

const _: () = assert!(PROBES as i64 == MAX_KEY + 1);

/// The values common to all CPUs, by key, as the vDSO returns them.
pub fn values_by_key() -> [u64; PROBES] {
    let facts = features::features().facts();
    core::array::from_fn(|key| facts.value(key as i64).unwrap_or(0))
}

fn finish(result: Result<()>) -> isize {
    result.map_or_else(Errno::result, |()| 0)
}

extern "C" fn riscv_hwprobe(
    pairs: usize,
    count: usize,
    set_len: usize,
    set: usize,
    flags: usize,
    _: usize,
) -> isize {
    finish(match flags {
        0 => values(pairs, count, set_len, set),
        WHICH_CPUS => which_cpus(pairs, count, set_len, set),
        _ => Err(Errno::EINVAL),
    })
}

/// The online CPUs, as bits.
fn online() -> u64 {
    (0..MAX_CPUS)
        .filter(|&index| cpu::get(index).is_some())
        .fold(0, |set, index| set | 1 << index)
}

/// Reads a program's CPU set; a length of zero gives an empty set.
fn read_set(len: usize, set: usize) -> Result<u64> {
    let mut bytes = [0; SET];
    UserSlice::new(set, len.min(SET)).copy_in(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Fills in the value of each key, which is the same for all harts; unknown keys become -1.
fn values(pairs: usize, count: usize, set_len: usize, set: usize) -> Result<()> {
    if set_len == 0 && set != 0 {
        return Err(Errno::EINVAL);
    }
    if set_len != 0 && read_set(set_len, set)? & online() == 0 {
        return Err(Errno::EINVAL);
    }
    let pairs = UserPtr::<Pair>::new(pairs);
    for index in 0..count {
        let Pair { key, .. } = pairs.add(index).read()?;
        let found = features::features().facts().value(key);
        pairs.add(index).write(&match found {
            Some(value) => Pair { key, value },
            None => Pair { key: -1, value: 0 },
        })?;
    }
    Ok(())
}

/// Reduces the set to the CPUs that have all the given values.
fn which_cpus(pairs: usize, count: usize, set_len: usize, set: usize) -> Result<()> {
    if set_len == 0 || set == 0 {
        return Err(Errno::EINVAL);
    }
    let asked = match read_set(set_len, set)? {
        0 => online(),
        some => some & online(),
    };
    let pairs = UserPtr::<Pair>::new(pairs);
    let mut all = true;
    for index in 0..count {
        let Pair { key, value } = pairs.add(index).read()?;
        match features::features().facts().value(key) {
            Some(has) => all &= matches(key, has, value),
            None => {
                pairs.add(index).write(&Pair { key: -1, value: 0 })?;
                all = false;
            }
        }
    }
    let found = if all { asked } else { 0 };
    UserSlice::new(set, set_len.min(SET)).copy_out(&found.to_ne_bytes())?;
    UserSlice::new(set, set_len).skip(SET).clear()
}

/// SYS_RISCV_FLUSH_ICACHE_LOCAL: only the calling thread executes the written code.
const FLUSH_LOCAL: usize = 1;

extern "C" fn riscv_flush_icache(
    start: usize,
    end: usize,
    flags: usize,
    _: usize,
    _: usize,
    _: usize,
) -> isize {
    if flags & !FLUSH_LOCAL != 0 {
        return Errno::EINVAL.result();
    }
    // The thread may migrate to another hart at any time: so all of them, with or without the flag.
    tlb::sync_icache(start, end.saturating_sub(start));
    0
}
