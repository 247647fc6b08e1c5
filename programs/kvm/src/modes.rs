//! Instructions that a kernel emulates in a guest's 32-bit programs, and the PSTATE with which the
//! guest takes an exception that a kernel injects.

use std::arch::global_asm;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};

use crate::code;
use crate::host::{self, DEVICE, MEMORY, PC, X0, get, machine, set, system};

const PSTATE: u64 = PC + 2;
/// PSTATE of a 32-bit program: A32; the bit for T32; and the flag Z.
const USER32: u64 = 0x10;
const THUMB: u64 = 1 << 5;
const ZERO: u64 = 1 << 30;
/// VBAR_EL1.
const VECTORS: u64 = system(3, 0, 12, 0, 0);
/// The address of the 32-bit program.
const PROGRAM: u64 = MEMORY + 0x200;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    let (vm, _) = machine(kvm, code!(modes_start, modes_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    // A 32-bit program has fifteen 32-bit registers.
    set(&vcpu, X0 | 28, 0x1_0000_0002).expect("x14");
    set(&vcpu, X0 | 30, 0x1_0000_0003).expect("x15");
    for mode in [0x11, 0x12, 0x13, 0x17, 0x1a, 0x1b, 0x1f, 2, USER32] {
        println!("mode {mode:#x}: {:?}", set(&vcpu, PSTATE, mode));
    }
    let numbers = [28, 30].map(|number| get(&vcpu, X0 | number));
    println!("x14, x15: {numbers:x?}");
    println!("pc: {:?}", set(&vcpu, PC, 1 << 32 | PROGRAM));
    println!("pc: {:x?}", get(&vcpu, PC));
    println!("x0: {:?}", set(&vcpu, X0, 1 << 32 | DEVICE));
    println!("x0: {:x?}", get(&vcpu, X0));
    set(&vcpu, X0 | 4, 0x77).expect("x2");
    set(&vcpu, VECTORS, MEMORY + 0x800).expect("vectors");
    println!("T32: {:?}", set(&vcpu, PSTATE, USER32 | THUMB | ZERO));
    (0..9).for_each(|_| told(&mut vcpu));
    host::reset(&vm, &vcpu);
    println!("exceptions:");
    (0..20).for_each(|_| told(&mut vcpu));
}

/// Prints the next access of the guest.
fn told(vcpu: &mut VcpuFd) {
    match vcpu.run() {
        Ok(VcpuExit::MmioWrite(DEVICE, data)) => println!("  {:x}", host::number(data)),
        Ok(VcpuExit::MmioRead(DEVICE, data)) => {
            data[..2].copy_from_slice(&[0x34, 0x12]);
            println!("  reads {} bytes", data.len());
        }
        other => println!("  {other:x?}"),
    }
}

global_asm!(
    ".pushsection .rodata.modes, \"a\"",
    ".balign 2048",
    ".global modes_start, modes_end",
    "modes_start:",
    // Linux skips the first instruction after a reset that interrupts an access to a device.
    "   nop",
    "   ldr x20, =0x0b000000",
    "   adr x0, 9f",
    "   msr vbar_el1, x0",
    "   mov x9, #0",
    // By bits of x9: SCTLR_EL1.SPAN, SCTLR_EL1.DSSBS, PSTATE.PAN, PSTATE.SSBS.
    "1: mrs x0, sctlr_el1",
    "   and x1, x9, #1",
    "   bfi x0, x1, #23, #1",
    "   lsr x1, x9, #1",
    "   bfi x0, x1, #44, #1",
    "   msr sctlr_el1, x0",
    "   isb",
    "   lsr x1, x9, #2",
    "   lsl x1, x1, #22",
    "   and x1, x1, #0x400000",
    "   msr s3_0_c4_c2_3, x1",
    "   lsr x1, x9, #3",
    "   lsl x1, x1, #12",
    "   msr s3_3_c4_c2_6, x1",
    "   mov x1, #0x90000000",
    "   msr nzcv, x1",
    "   msr daif, xzr",
    // Performance monitors, which the guest does not have.
    "   mrs x0, pmcr_el0",
    "   add x9, x9, #1",
    "   cmp x9, #16",
    "   b.ne 1b",
    "2: str xzr, [x20]",
    "   b 2b",
    ".ltorg",
    // T32: reads and writes; the same under ITTEE EQ; 32-bit encodings; a system call.
    ".balign 0x200",
    ".hword 0x6801, 0x6001",
    ".hword 0xbf07, 0x6801, 0x6001, 0x6002, 0x6002, 0x6002",
    ".hword 0xf8d0, 0x1000, 0xf8c0, 0x1000",
    ".hword 0xbf18, 0x6002, 0x6001",
    ".hword 0xdf00",
    ".balign 2048",
    "9:",
    ".rept 16",
    "   .balign 128",
    "   mrs x2, nzcv",
    "   mrs x3, daif",
    "   orr x2, x2, x3",
    "   mrs x3, s3_0_c4_c2_3",
    "   orr x2, x2, x3",
    "   mrs x3, s3_3_c4_c2_6",
    "   orr x2, x2, x3",
    "   mrs x3, esr_el1",
    "   orr x2, x2, x3, lsl #32",
    "   ldr x20, =0x0b000000",
    "   str x2, [x20]",
    "   mrs x2, spsr_el1",
    "   mrs x3, elr_el1",
    "   add x3, x3, #4",
    "   msr elr_el1, x3",
    "   eret",
    ".ltorg",
    ".endr",
    "modes_end:",
    ".popsection",
);
