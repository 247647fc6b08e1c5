//! A guest that cleans its caches by set and way, writes translation registers while translation is
//! off, and switches the MMU and the caches on and off.

use std::arch::global_asm;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};

use crate::code;
use crate::host::{self, MEMORY, machine, peek, poke};

/// The offsets in the guest's memory of its translation table, and of a word that it reads and
/// writes.
const TABLE: usize = 0x1000;
const WORD: usize = 0x2000;
/// Descriptors of 1 GiB blocks: the device's memory, and the guest's.
const DEVICES: u64 = 0x401 | 1 << 2;
const NORMAL: u64 = 0x701 | MEMORY;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    let (vm, base) = machine(kvm, code!(caches_start, caches_end));
    poke(base, TABLE, DEVICES);
    poke(base, TABLE + 8, NORMAL);
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    for word in [0x1234, 0x5678] {
        poke(base, WORD, word);
        host::reset(&vm, &vcpu);
        println!("translation registers, by set and way, off:");
        (0..8).for_each(|_| told(&mut vcpu));
        println!("on, off, on:");
        (0..4).for_each(|_| told(&mut vcpu));
        println!("written: {:x}", peek(base, WORD));
    }
}

/// Prints the next number that the guest writes to its device.
fn told(vcpu: &mut VcpuFd) {
    match vcpu.run() {
        Ok(VcpuExit::MmioWrite(host::DEVICE, data)) => println!("  {:x}", host::number(data)),
        other => println!("  {other:x?}"),
    }
}

global_asm!(
    ".pushsection .rodata.caches, \"a\"",
    ".balign 2048",
    ".global caches_start, caches_end",
    "caches_start:",
    // Linux skips the first instruction after a reset that interrupts an access to a device.
    "   nop",
    "   mov x20, #0x0b000000",
    "   adr x0, 9f",
    "   msr vbar_el1, x0",
    ".macro keeps register, value",
    "   ldr x0, =\\value",
    "   msr \\register, x0",
    "   mrs x0, \\register",
    "   str x0, [x20]",
    ".endm",
    "   keeps esr_el1, 0x5600",
    "   keeps far_el1, 0x12340000",
    "   keeps contextidr_el1, 0x77",
    "   keeps ttbr1_el1, 0x40002000",
    // Rt is XZR: the register becomes 0.
    "   msr esr_el1, xzr",
    "   mrs x0, esr_el1",
    "   str x0, [x20]",
    "   dc isw, xzr",
    "   dc csw, xzr",
    "   mov x0, #2",
    "   dc cisw, x0",
    "   dsb sy",
    "   str x0, [x20]",
    // Device memory, and normal write-back; 39 bits from TTBR0, none from TTBR1.
    "   mov x0, #0xff00",
    "   msr mair_el1, x0",
    "   mrs x1, mair_el1",
    "   str x1, [x20]",
    "   ldr x0, =0x280803519",
    "   msr tcr_el1, x0",
    "   ldr x0, =0x40001000",
    "   msr ttbr0_el1, x0",
    "   isb",
    "   mrs x0, ttbr0_el1",
    "   str x0, [x20]",
    // The MMU and the caches: on, by set and way, off, on again.
    "   mrs x2, sctlr_el1",
    "   mov x3, #0x1005",
    "   orr x3, x2, x3",
    "   ldr x4, =0x40002000",
    "   msr sctlr_el1, x3",
    "   isb",
    "   ldr x0, [x4]",
    "   str x0, [x20]",
    "   add x0, x0, #1",
    "   str x0, [x4]",
    "   dc cisw, xzr",
    "   dsb sy",
    "   msr sctlr_el1, x2",
    "   isb",
    "   ldr x0, [x4]",
    "   str x0, [x20]",
    "   add x0, x0, #1",
    "   str x0, [x4]",
    "   msr sctlr_el1, x3",
    "   isb",
    "   ldr x0, [x4]",
    "   str x0, [x20]",
    "   add x0, x0, #1",
    "   str x0, [x4]",
    "   str xzr, [x20]",
    "   b .",
    ".ltorg",
    // An unexpected exception.
    ".balign 2048",
    "9:",
    ".rept 16",
    "   .balign 128",
    "   mrs x0, esr_el1",
    "   str x0, [x20]",
    "   mrs x1, elr_el1",
    "   add x1, x1, #4",
    "   msr elr_el1, x1",
    "   eret",
    ".endr",
    "caches_end:",
    ".popsection",
);
