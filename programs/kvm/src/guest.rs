//! The guest, whose reads and writes at `DEVICE` are exits.

use std::arch::global_asm;

/// The addresses of its code and of a device.
pub const CODE: u64 = 0x4000_0000;
pub const DEVICE: u64 = 0x0900_0000;

unsafe extern "C" {
    static guest_start: u8;
    static guest_end: u8;
}

/// Its code.
pub fn code() -> &'static [u8] {
    let (start, end) = (&raw const guest_start, &raw const guest_end);
    // SAFETY: both are labels of the block below, in this order.
    unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

global_asm!(
    ".pushsection .rodata.guest, \"a\"",
    ".balign 2048",
    "guest_start:",
    "   b 1f",
    // The second CPU: reports its argument and affinity, then turns off.
    "   ldr x20, =0x09000000",
    "   str x0, [x20, #0x100]",
    "   mrs x0, mpidr_el1",
    "   str x0, [x20, #0x108]",
    "   ldr w0, =0x84000002",
    "   hvc #0",
    "   b .",
    "1: ldr x20, =0x09000000",
    "   adr x0, vectors",
    "   msr vbar_el1, x0",
    // Loads of all sizes. No signed ones: Linux loses the sign.
    "   ldr x0, [x20]",
    "   str x0, [x20, #8]",
    "   ldr w0, [x20, #16]",
    "   str w0, [x20, #24]",
    "   ldrb w0, [x20, #32]",
    "   str x0, [x20, #40]",
    "   ldrh w0, [x20, #48]",
    "   str x0, [x20, #56]",
    "   strb w0, [x20, #57]",
    "   str xzr, [x20, #64]",
    // Hypercalls: PSCI_VERSION, PSCI_FEATURES of CPU_ON, an unknown one, CPU_ON of the other CPU
    // and of one that does not exist.
    "   ldr w0, =0x84000000",
    "   hvc #0",
    "   str x0, [x20, #0x48]",
    "   ldr w0, =0x8400000a",
    "   ldr w1, =0xc4000003",
    "   hvc #0",
    "   str x0, [x20, #0x50]",
    "   ldr w0, =0x8600ff00",
    "   hvc #0",
    "   str x0, [x20, #0x58]",
    "   ldr w0, =0xc4000003",
    "   mov x1, #0x77",
    "   mov x2, #0",
    "   hvc #0",
    "   str x0, [x20, #0x60]",
    "   ldr w0, =0xc4000003",
    "   mov x1, #1",
    "   adr x2, guest_start + 4",
    "   mov x3, #0x55",
    "   hvc #0",
    "   str x0, [x20, #0x68]",
    // Waits until the CPU is off again.
    "2: ldr w0, =0xc4000004",
    "   mov x1, #1",
    "   mov x2, #0",
    "   hvc #0",
    "   cbz x0, 2b",
    "   str x0, [x20, #0x70]",
    // FP registers, and memory at a high address.
    "   mov x0, #3 << 20",
    "   msr cpacr_el1, x0",
    "   isb",
    "   fmov d0, #1.5",
    "   fadd d0, d0, d0",
    "   fmov x0, d0",
    "   str x0, [x20, #0x78]",
    "   ldr x1, =0x40180000",
    "   mov x2, #99",
    "   str x2, [x1]",
    "   ldr x0, [x1]",
    "   str x0, [x20, #0x80]",
    // A register that no guest has, then a jump to unmapped memory: both cause exceptions to EL1.
    "   mrs x0, vbar_el2",
    "   mov x0, #0x70000000",
    "   blr x0",
    "   ldr w0, =0x84000008",
    "   hvc #0",
    "   b .",
    ".ltorg",
    ".balign 2048",
    "vectors:",
    ".rept 16",
    "   .balign 128",
    "   mrs x0, esr_el1",
    "   str x0, [x20, #0x88]",
    "   lsr x0, x0, #26",
    "   cbnz x0, 3f",
    "   mrs x1, elr_el1",
    "   add x1, x1, #4",
    "   msr elr_el1, x1",
    "   eret",
    "3: msr elr_el1, x30",
    "   eret",
    ".endr",
    "guest_end:",
    ".popsection",
);
