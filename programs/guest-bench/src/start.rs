//! The entry points of CPUs, and the exception vectors.

use core::arch::global_asm;

use crate::mmu;

/// The size of a stack.
const STACK: usize = 32 << 10;

/// A stack.
#[repr(C, align(16))]
struct Stack([u8; STACK]);

static mut FIRST_STACK: Stack = Stack([0; STACK]);
static mut LAST_STACK: Stack = Stack([0; STACK]);

/// One byte for each CPU: it has started and is parked.
pub static mut PARKED: [u8; crate::cpus::MAX] = [0; crate::cpus::MAX];

unsafe extern "C" {
    /// The entry of a parked CPU. Its context is its index.
    pub safe fn start_parked();
    /// The entry of the receiving CPU.
    pub safe fn start_receiver();
}

global_asm!(
    ".section .head.text, \"ax\"",
    ".global _start",
    "_start:",
    "   mov x19, x0",
    "   adrp x0, __bss_start",
    "   add x0, x0, :lo12:__bss_start",
    "   adrp x1, __bss_end",
    "   add x1, x1, :lo12:__bss_end",
    "1: cmp x0, x1",
    "   b.hs 2f",
    "   stp xzr, xzr, [x0], #16",
    "   b 1b",
    "2: bl translate",
    "   adrp x0, {first}",
    "   add x0, x0, :lo12:{first}",
    "   add sp, x0, #{stack}",
    "   mov x0, x19",
    "   b {main}",
    ".global start_receiver",
    "start_receiver:",
    "   bl translate",
    "   adrp x0, {last}",
    "   add x0, x0, :lo12:{last}",
    "   add sp, x0, #{stack}",
    "   b {receiver}",
    ".global start_parked",
    "start_parked:",
    "   mov x19, x0",
    "   bl translate",
    "   adrp x0, {parked}",
    "   add x0, x0, :lo12:{parked}",
    "   mov w1, #1",
    "   strb w1, [x0, x19]",
    "1: wfi",
    "   b 1b",
    // Enables translation, and sets the vectors.
    "translate:",
    "   adrp x0, vectors",
    "   add x0, x0, :lo12:vectors",
    "   msr vbar_el1, x0",
    "   ldr x0, ={types}",
    "   msr mair_el1, x0",
    "   ldr x0, ={control}",
    "   msr tcr_el1, x0",
    "   adrp x0, {table}",
    "   add x0, x0, :lo12:{table}",
    "   msr ttbr0_el1, x0",
    "   dsb sy",
    "   tlbi vmalle1",
    "   dsb nsh",
    "   isb",
    "   ldr x0, ={system}",
    "   msr sctlr_el1, x0",
    "   isb",
    "   ret",
    ".ltorg",
    // Arm ARM, "Exception vectors": sixteen vectors of 128 bytes. The only expected exceptions come
    // from the current level with SP_ELx.
    ".balign 2048",
    "vectors:",
    ".rept 4",
    "   b unexpected",
    "   .balign 128",
    ".endr",
    "   b unexpected",
    "   .balign 128",
    // Reads the time first: the hypervisor has just let the guest run.
    "   sub sp, sp, #192",
    "   stp x0, x1, [sp]",
    "   mrs x0, cntvct_el0",
    "   b interrupt",
    "   .balign 128",
    ".rept 10",
    "   b unexpected",
    "   .balign 128",
    ".endr",
    "interrupt:",
    "   stp x2, x3, [sp, #16]",
    "   stp x4, x5, [sp, #32]",
    "   stp x6, x7, [sp, #48]",
    "   stp x8, x9, [sp, #64]",
    "   stp x10, x11, [sp, #80]",
    "   stp x12, x13, [sp, #96]",
    "   stp x14, x15, [sp, #112]",
    "   stp x16, x17, [sp, #128]",
    "   stp x18, x29, [sp, #144]",
    "   str x30, [sp, #160]",
    "   bl {handle}",
    "   ldr x30, [sp, #160]",
    "   ldp x18, x29, [sp, #144]",
    "   ldp x16, x17, [sp, #128]",
    "   ldp x14, x15, [sp, #112]",
    "   ldp x12, x13, [sp, #96]",
    "   ldp x10, x11, [sp, #80]",
    "   ldp x8, x9, [sp, #64]",
    "   ldp x6, x7, [sp, #48]",
    "   ldp x4, x5, [sp, #32]",
    "   ldp x2, x3, [sp, #16]",
    "   ldp x0, x1, [sp]",
    "   add sp, sp, #192",
    "   eret",
    "unexpected:",
    "   mrs x0, esr_el1",
    "   mrs x1, elr_el1",
    "   mrs x2, far_el1",
    "   b {unexpected}",
    first = sym FIRST_STACK,
    last = sym LAST_STACK,
    stack = const STACK,
    main = sym crate::main,
    receiver = sym crate::receiver::receive,
    parked = sym PARKED,
    types = const mmu::MEMORY_TYPES,
    control = const mmu::CONTROL,
    system = const mmu::SYSTEM,
    table = sym mmu::TABLE,
    handle = sym crate::irq::handle,
    unexpected = sym unexpected,
);

extern "C" fn unexpected(syndrome: u64, pc: u64, address: u64) -> ! {
    panic!("exception {syndrome:#x} at {pc:#x}, address {address:#x}")
}
