//! All entries into the kernel and returns to programs.
//!
//! The design of this file:
//!
//! - **A program's registers are saved at the top of its thread's kernel stack**, to which the
//!   stack pointer of the kernel's exception level points while the program runs. So an entry
//!   stores them without computing an address, and a single load next to the frame finds the
//!   per-CPU data, whose address is in SP_EL0 while the kernel runs.
//! - **Few registers are saved.** Linux's system calls preserve every register but x0, and a called
//!   function preserves x19 to x29 itself (AAPCS64, section 6.1.1). So only x0 to x18, x30, sp, pc
//!   and pstate are stored; the rest is saved when something needs the whole frame: fork, a signal,
//!   an emulated instruction, a trace. A system call's result never passes through memory.
//! - **The exit tests one word**, the thread's `work`.
//! - **Interrupts stay masked in the kernel**, so no entry ever interrupts another one, and an
//!   exception from the kernel is a fault on program memory or a bug.
//!
//! An exception from a program finds its handler in one of three ways, selected by `entry` at boot
//! as a vector base, so that no path tests for the policy. `svc-first` tests for a system call and
//! then for a data abort, the most frequent exceptions: two compares that any branch predictor
//! learns, no load, no indirect branch; the decision is entirely in the instruction stream.
//! `switch` is how compilers implement a switch over the class: a table of offsets, loaded and
//! added, and an indirect branch. `table` is an array of handlers: a dependent load and an indirect
//! branch. Both put a load and a prediction of the branch target in front of every system call, and
//! a kernel should not rely on a predictor that is shared with hostile code.
//!
//! The vector table is that of the Arm ARM's "Exception vectors"; the exception classes are those
//! of ESR_ELx.EC.

use core::arch::global_asm;
use core::mem::offset_of;

use super::cpu::Cpu;
use super::exception::{self, KernelFrame, class};
use super::frame::{Frame, INSTRUCTION, StackTop};
use super::thread::ThreadState;
use super::{KERNEL_STACK_SIZE, syscall};
use crate::arch::work;
use crossings::Kind;

unsafe extern "C" {
    static vectors_svc_first: u8;
    static vectors_switch: u8;
    static vectors_table: u8;
    /// Returns to the program with the whole frame at the stack pointer.
    pub(super) fn to_user();
    /// Sets the stack pointer to `top` and continues as [`to_user`].
    pub(super) fn leave_to_user(top: usize) -> !;
    /// The continuation of an entry made by `full_frame_stub!`: x17 holds the handler.
    pub fn call_with_full_frame();
}

/// The dispatch of synchronous exceptions from programs: `entry`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Tests for a system call, then for a data abort; then a switch.
    SvcFirst,
    /// A switch.
    Switch,
    /// An array of handlers.
    Table,
}

impl Policy {
    /// The values of the parameter `entry`.
    pub const NAMES: [(&'static str, Policy); 3] = [
        ("svc-first", Policy::SvcFirst),
        ("switch", Policy::Switch),
        ("table", Policy::Table),
    ];

    /// The policy's vector base.
    pub(super) fn vectors(self) -> usize {
        match self {
            Policy::SvcFirst => &raw const vectors_svc_first as usize,
            Policy::Switch => &raw const vectors_switch as usize,
            Policy::Table => &raw const vectors_table as usize,
        }
    }
}

const _: () =
    assert!(crossings::SYSCALLS_OFFSET == 0 && crate::arch::syscall::ENTRIES.is_power_of_two());
const _: () = assert!(syscall::NATIVE.is_power_of_two() && abi::compat::FIRST == syscall::NATIVE);
const _: () = assert!(offset_of!(Frame, sp) == offset_of!(Frame, x) + 8 * 31);
const _: () = assert!(
    offset_of!(Frame, pstate) == offset_of!(Frame, pc) + 8 && offset_of!(StackTop, frame) == 0
);
const _: () = assert!(offset_of!(KernelFrame, x) == offset_of!(Frame, x));

global_asm!(
    ".pushsection .text.entry, \"ax\"",
    // Saves the registers that a call may clobber. Leaves the address of the per-CPU data in x18
    // and in SP_EL0, the pc in x16, and the frame's previous pc in `last`.
    ".macro enter_from_user last",
    "   stp x0, x1, [sp, {x}]",
    "   stp x2, x3, [sp, {x} + 8 * 2]",
    "   stp x4, x5, [sp, {x} + 8 * 4]",
    "   stp x6, x7, [sp, {x} + 8 * 6]",
    "   stp x8, x9, [sp, {x} + 8 * 8]",
    "   stp x10, x11, [sp, {x} + 8 * 10]",
    "   stp x12, x13, [sp, {x} + 8 * 12]",
    "   stp x14, x15, [sp, {x} + 8 * 14]",
    "   stp x16, x17, [sp, {x} + 8 * 16]",
    "   str x18, [sp, {x} + 8 * 18]",
    "   mrs x16, sp_el0",
    "   stp x30, x16, [sp, {x} + 8 * 30]",
    "   mrs x16, elr_el1",
    "   mrs x17, spsr_el1",
    "   .ifnb \\last",
    "   ldr \\last, [sp, {pc}]",
    "   .endif",
    "   stp x16, x17, [sp, {pc}]",
    "   ldr x18, [sp, {cpu}]",
    "   msr sp_el0, x18",
    ".endm",
    // Returns to the program: restores everything that `enter_from_user` saved, except x0 and x1.
    // With an argument, the frame's pc is cleared.
    ".macro leave_to_user_but_x0_x1 forgets",
    "   ldp x16, x17, [sp, {pc}]",
    "   .ifnb \\forgets",
    "   str xzr, [sp, {pc}]",
    "   .endif",
    "   msr elr_el1, x16",
    "   msr spsr_el1, x17",
    "   ldp x30, x16, [sp, {x} + 8 * 30]",
    "   msr sp_el0, x16",
    "   ldp x2, x3, [sp, {x} + 8 * 2]",
    "   ldp x4, x5, [sp, {x} + 8 * 4]",
    "   ldp x6, x7, [sp, {x} + 8 * 6]",
    "   ldp x8, x9, [sp, {x} + 8 * 8]",
    "   ldp x10, x11, [sp, {x} + 8 * 10]",
    "   ldp x12, x13, [sp, {x} + 8 * 12]",
    "   ldp x14, x15, [sp, {x} + 8 * 14]",
    "   ldp x16, x17, [sp, {x} + 8 * 16]",
    "   ldr x18, [sp, {x} + 8 * 18]",
    "   eret",
    // Prevents straight-line speculation past ERET (Arm ARM, "Exception return").
    "   dsb nsh",
    "   isb",
    ".endm",
    // The registers that a call preserves.
    ".macro kept op",
    "   \\op x19, x20, [sp, {x} + 8 * 19]",
    "   \\op x21, x22, [sp, {x} + 8 * 21]",
    "   \\op x23, x24, [sp, {x} + 8 * 23]",
    "   \\op x25, x26, [sp, {x} + 8 * 25]",
    "   \\op x27, x28, [sp, {x} + 8 * 27]",
    ".endm",
    // Loads the thread's work word into w9.
    ".macro load_work",
    "   mrs x9, sp_el0",
    "   ldr x9, [x9, {current}]",
    "   ldr w9, [x9, {work}]",
    ".endm",

    // Counts the system call with the table index w9, and calls its handler.
    ".macro call_handler",
    "   csdb",
    "   ldr x10, [x18, {crossings}]",
    "   ldr x11, [x10, x9, lsl #3]",
    "   add x11, x11, #1",
    "   str x11, [x10, x9, lsl #3]",
    "   ldr x10, [x18, {syscalls}]",
    "   ldr x10, [x10, x9, lsl #3]",
    "   blr x10",
    ".endm",

    // Counts a system call that has no table entry, and calls the handler for those, at index
    // `place`, so that a tracer sees it, too.
    ".macro call_unknown place",
    "   ldr x10, [x18, {crossings}]",
    "   ldr x11, [x10, {unknown}]",
    "   add x11, x11, #1",
    "   str x11, [x10, {unknown}]",
    "   ldr x10, [x18, {syscalls}]",
    "   mov w9, \\place",
    "   ldr x10, [x10, x9, lsl #3]",
    "   blr x10",
    ".endm",

    // A system call: the number is in x8, the arguments in x0 to x5.
    ".balign 64",
    "el0_svc:",
    "   cmp w8, {calls}",
    "   b.hs el0_svc_unknown",
    "   and w9, w8, {calls} - 1",
    "   call_handler",
    "el0_svc_return:",
    "   load_work",
    "   cbnz w9, work_after_call",
    "   ldr x1, [sp, {x} + 8 * 1]",
    "   leave_to_user_but_x0_x1",

    "el0_svc_unknown:",
    "   call_unknown {unknown_place}",
    "   b el0_svc_return",

    // A system call of a 32-bit program: the number is in r7, the arguments in r0 to r5. The bits
    // above 32 are UNKNOWN (Arm ARM, "Mapping of the general-purpose registers between the
    // Execution states"). Its table index follows those of the 64-bit calls; w8 holds the number in
    // the form of `Frame::syscall`.
    ".balign 64",
    "el0_svc32:",
    "   cmp w7, {calls32}",
    "   b.hs el0_svc32_private",
    "   add w8, w7, {first32}",
    "   and w9, w8, {entries} - 1",
    "el0_svc32_call:",
    "   mov w0, w0",
    "   mov w1, w1",
    "   mov w2, w2",
    "   mov w3, w3",
    "   mov w4, w4",
    "   mov w5, w5",
    "   call_handler",
    "el0_svc32_return:",
    "   load_work",
    "   cbnz w9, work_after_call32",
    "   ldr x1, [sp, {x} + 8 * 1]",
    "   leave_to_user_but_x0_x1",

    "el0_svc32_private:",
    "   add w8, w7, {first32}",
    "   sub w9, w7, {private_first}",
    "   cmp w9, {private_count}",
    "   b.hs el0_svc32_unknown",
    "   and w9, w9, {private_count} - 1",
    "   add w9, w9, {first32} + {private}",
    "   b el0_svc32_call",

    "el0_svc32_unknown:",
    "   call_unknown {first32} + {unknown_place}",
    "   b el0_svc32_return",

    "work_after_call32:",
    "   ldr w10, [sp, {x}]",
    "   ldrsw x11, [sp, {x} + 8 * 7]",
    "   add x11, x11, {first32}",
    "   str x0, [sp, {x}]",
    "   stp x10, x11, [sp, {orig_x0}]",
    "   b work_with_frame",

    // The result is in x0; the frame still holds the first argument in its place.
    "work_after_call:",
    "   ldr x10, [sp, {x}]",
    "   ldrsw x11, [sp, {x} + 8 * 8]",
    "   str x0, [sp, {x}]",
    "   stp x10, x11, [sp, {orig_x0}]",
    "   b work_with_frame",

    "work_after_trap:",
    "   mov x10, #-1",
    "   str x10, [sp, {syscall}]",
    "work_with_frame:",
    "   kept stp",
    "   str x29, [sp, {x} + 8 * 29]",
    "   mov x29, xzr",
    "1: bl {exit_work}",
    "   load_work",
    "   cbnz w9, 1b",
    "return_whole:",
    "   kept ldp",
    "   ldr x29, [sp, {x} + 8 * 29]",
    "return_but_kept:",
    "   ldp x0, x1, [sp, {x}]",
    "   leave_to_user_but_x0_x1",

    ".global leave_to_user",
    "leave_to_user:",
    "   mov sp, x0",
    ".global to_user",
    "to_user:",
    "   mov x29, xzr",
    "   load_work",
    "   cbnz w9, 1b",
    "   b return_whole",

    // A system call whose handler, in x17, needs the whole frame.
    ".global call_with_full_frame",
    "call_with_full_frame:",
    "   kept stp",
    "   str x29, [sp, {x} + 8 * 29]",
    "   sxtw x9, w8",
    "   stp x0, x9, [sp, {orig_x0}]",
    "   mov x29, xzr",
    "   blr x17",
    "   str x0, [sp, {x}]",
    "   b to_user",

    // A data abort. x16 holds the syndrome.
    ".balign 64",
    "el0_data_abort:",
    "   mov x0, x16",
    "   mrs x1, far_el1",
    "   bl {data_abort}",
    "return_from_trap:",
    "   load_work",
    "   cbnz w9, work_after_trap",
    "   b return_but_kept",

    "el0_instruction_abort:",
    "   mov x0, x16",
    "   mrs x1, far_el1",
    "   bl {instruction_abort}",
    "   b return_from_trap",

    // All other exceptions, including those whose handlers read or write arbitrary registers.
    "el0_other:",
    "   kept stp",
    "   str x29, [sp, {x} + 8 * 29]",
    "   mov x9, #-1",
    "   str x9, [sp, {syscall}]",
    "   mov x0, x16",
    "   mrs x1, far_el1",
    "   mov x2, sp",
    "   mov x29, xzr",
    "   bl {other}",
    "   b to_user",

    // An interrupt that became pending in the kernel is taken immediately after the return to the
    // program, when the pc still equals the frame's (`task::tick` needs to know). The frame's pc is
    // cleared after interrupts, so that a program that spins on one instruction is not mistaken for
    // one that just returned.
    "el0_irq:",
    "   enter_from_user x0",
    "   cmp x0, x16",
    "   cset w0, eq",
    "   bl {irq}",
    "   load_work",
    "   cbnz w9, work_after_irq",
    "return_from_irq:",
    "   ldp x0, x1, [sp, {x}]",
    "   leave_to_user_but_x0_x1 forgets",
    "work_after_irq:",
    "   mov x10, #-1",
    "   str x10, [sp, {syscall}]",
    "   kept stp",
    "   str x29, [sp, {x} + 8 * 29]",
    "   mov x29, xzr",
    "2: bl {exit_work}",
    "   load_work",
    "   cbnz w9, 2b",
    "   kept ldp",
    "   ldr x29, [sp, {x} + 8 * 29]",
    "   b return_from_irq",

    "el0_unexpected:",
    "   enter_from_user",
    "   kept stp",
    "   str x29, [sp, {x} + 8 * 29]",
    "   mrs x0, esr_el1",
    "   mov x1, sp",
    "   mov x29, xzr",
    "   bl {unexpected}",
    "   b to_user",

    // From the kernel. The stack may have overflowed into its guard: the address bit that
    // distinguishes the two is tested without a free register, by adding x0 to sp and subtracting
    // each from the sum in turn.
    ".macro enter_from_kernel",
    "   sub sp, sp, {kernel_frame}",
    "   add sp, sp, x0",
    "   sub x0, sp, x0",
    "   tbz x0, {stack_bit}, el1_overflow",
    "   sub x0, sp, x0",
    "   sub sp, sp, x0",
    "   stp x0, x1, [sp, {x}]",
    "   stp x2, x3, [sp, {x} + 8 * 2]",
    ".endm",
    ".macro all_but_x0_to_x3 op",
    "   \\op x4, x5, [sp, {x} + 8 * 4]",
    "   \\op x6, x7, [sp, {x} + 8 * 6]",
    "   \\op x8, x9, [sp, {x} + 8 * 8]",
    "   \\op x10, x11, [sp, {x} + 8 * 10]",
    "   \\op x12, x13, [sp, {x} + 8 * 12]",
    "   \\op x14, x15, [sp, {x} + 8 * 14]",
    "   \\op x16, x17, [sp, {x} + 8 * 16]",
    "   \\op x18, x19, [sp, {x} + 8 * 18]",
    "   \\op x20, x21, [sp, {x} + 8 * 20]",
    "   \\op x22, x23, [sp, {x} + 8 * 22]",
    "   \\op x24, x25, [sp, {x} + 8 * 24]",
    "   \\op x26, x27, [sp, {x} + 8 * 26]",
    "   \\op x28, x29, [sp, {x} + 8 * 28]",
    ".endm",

    "el1_sync:",
    "   enter_from_kernel",
    "   all_but_x0_to_x3 stp",
    "   add x1, sp, {kernel_frame}",
    "   stp x30, x1, [sp, {x} + 8 * 30]",
    "   mrs x1, elr_el1",
    "   mrs x2, spsr_el1",
    "   stp x1, x2, [sp, {kernel_pc}]",
    "   mrs x0, esr_el1",
    "   mrs x1, far_el1",
    "   mov x2, sp",
    "   bl {kernel_sync}",
    "   ldp x1, x2, [sp, {kernel_pc}]",
    "   msr elr_el1, x1",
    "   msr spsr_el1, x2",
    "   all_but_x0_to_x3 ldp",
    "   ldr x30, [sp, {x} + 8 * 30]",
    "   ldp x2, x3, [sp, {x} + 8 * 2]",
    "   ldp x0, x1, [sp, {x}]",
    "   add sp, sp, {kernel_frame}",
    "   eret",
    "   dsb nsh",
    "   isb",

    // Any other exception from the kernel: interrupts are masked, so none is expected.
    ".global el1_unexpected",
    "el1_unexpected:",
    "   enter_from_kernel",
    "   b el1_fatal",

    // x0 holds the stack pointer, sp its sum with the previous x0.
    "el1_overflow:",
    "   msr tpidrro_el0, x1",
    "   mrs x1, sp_el0",
    "   ldr x1, [x1, {overflow_stack}]",
    "   stp x2, x3, [x1, {x} + 8 * 2 - {kernel_frame}]",
    "   mov x2, x0",
    "   sub x0, sp, x0",
    "   sub sp, x1, {kernel_frame}",
    "   mrs x1, tpidrro_el0",
    "   stp x0, x1, [sp, {x}]",
    "   add x3, x2, {kernel_frame}",
    "   stp x30, x3, [sp, {x} + 8 * 30]",
    "   b 2f",
    "el1_fatal:",
    "   add x1, sp, {kernel_frame}",
    "   stp x30, x1, [sp, {x} + 8 * 30]",
    "2: all_but_x0_to_x3 stp",
    "   mrs x1, elr_el1",
    "   mrs x2, spsr_el1",
    "   stp x1, x2, [sp, {kernel_pc}]",
    "   mrs x0, esr_el1",
    "   mrs x1, far_el1",
    "   mov x2, sp",
    "   bl {fatal}",

    // The three ways to dispatch on the class in x17.
    ".macro dispatch_svc_first",
    "   cmp x17, {svc64}",
    "   b.eq el0_svc",
    "   cmp x17, {data_abort_lower}",
    "   b.eq el0_data_abort",
    "   cmp x17, {instruction_abort_lower}",
    "   b.eq el0_instruction_abort",
    "   b el0_other",
    ".endm",
    ".macro dispatch_svc32_first",
    "   cmp x17, {svc32}",
    "   b.eq el0_svc32",
    "   cmp x17, {data_abort_lower}",
    "   b.eq el0_data_abort",
    "   cmp x17, {instruction_abort_lower}",
    "   b.eq el0_instruction_abort",
    "   b el0_other",
    ".endm",
    // As LLVM compiles a dense switch: 2-byte offsets from the first target, in words.
    ".macro dispatch_switch",
    "   cmp x17, {classes} - 1",
    "   b.hi el0_other",
    "   adrp x10, switch_offsets",
    "   add x10, x10, :lo12:switch_offsets",
    "   adr x11, el0_svc",
    "   ldrh w12, [x10, x17, lsl #1]",
    "   add x11, x11, x12, lsl #2",
    "   br x11",
    ".endm",
    ".macro dispatch_table",
    "   adrp x10, handlers_by_class",
    "   add x10, x10, :lo12:handlers_by_class",
    "   ldr x10, [x10, x17, lsl #3]",
    "   br x10",
    ".endm",

    ".macro slot target",
    "   .balign 128",
    "   b \\target",
    ".endm",
    ".macro sync_from_user name",
    "   .balign 64",
    "   el0_sync_\\name:",
    "   enter_from_user",
    "   mrs x16, esr_el1",
    "   lsr x17, x16, {class_shift}",
    "   dispatch_\\name",
    ".endm",
    // `how` selects the tag checks of a program; empty for none.
    ".macro vectors name, from32, how",
    "   .balign 2048",
    "   .ifb \\how",
    "   .global vectors_\\name",
    "   vectors_\\name:",
    "   .endif",
    // From the kernel with SP_EL0 as its stack pointer: unused.
    "   slot el1_unexpected",
    "   slot el1_unexpected",
    "   slot el1_unexpected",
    "   slot el1_unexpected",
    // From the kernel: synchronous, IRQ, FIQ, SError.
    "   slot el1_sync",
    "   slot el1_unexpected",
    "   slot el1_unexpected",
    "   slot el1_unexpected",
    // From a 64-bit program.
    "   .ifb \\how",
    "   slot el0_sync_\\name",
    "   slot el0_irq",
    "   .else",
    "   slot \\how\\()_sync_\\name",
    "   slot \\how\\()_irq",
    "   .endif",
    "   slot el0_unexpected",
    "   slot el0_unexpected",
    // From a 32-bit program.
    "   slot el0_sync_\\from32",
    "   slot el0_irq",
    "   slot el0_unexpected",
    "   slot el0_unexpected",
    ".endm",
    "sync_from_user svc_first",
    "sync_from_user svc32_first",
    "sync_from_user switch",
    "sync_from_user table",
    // Entries from programs whose tags are checked (`tags.rs`): synchronously, ...
    ".macro begin_checked name, from",
    "   checked_\\name:",
    "   .inst {clear_tco}",
    "   b el0_\\from",
    ".endm",
    // ... asynchronously, or asymmetrically (loads synchronously, stores asynchronously). A system
    // call must not run before the signal for a fault: it is restarted.
    ".macro set_work what",
    "   ldr x1, [sp, {cpu}]",
    "   ldr x1, [x1, {current}]",
    "   add x1, x1, {work}",
    "   mov w0, \\what",
    "2: ldxr w2, [x1]",
    "   orr w2, w2, w0",
    "   stxr w3, w2, [x1]",
    "   cbnz w3, 2b",
    ".endm",
    ".macro begin_later how, name, from, at_once, is_sync",
    "   \\how\\()_\\name:",
    "   stp x0, x1, [sp, {x}]",
    "   stp x2, x3, [sp, {x} + 8 * 2]",
    "   .if \\at_once",
    "   .inst {clear_tco}",
    "   set_work {tag_exit}",
    "   .endif",
    "   mrs x0, S3_0_C5_C6_1",
    "   cbz x0, 1f",
    "   msr S3_0_C5_C6_1, xzr",
    "   set_work {tag_fault}",
    "   .if \\is_sync",
    "   mrs x0, esr_el1",
    "   lsr x0, x0, {class_shift}",
    "   cmp x0, {svc64}",
    "   b.ne 1f",
    "   mrs x0, elr_el1",
    "   sub x0, x0, {instruction}",
    "   msr elr_el1, x0",
    "   ldp x2, x3, [sp, {x} + 8 * 2]",
    "   ldp x0, x1, [sp, {x}]",
    "   enter_from_user",
    "   b return_from_trap",
    "   .endif",
    "1: ldp x2, x3, [sp, {x} + 8 * 2]",
    "   ldp x0, x1, [sp, {x}]",
    "   b el0_\\from",
    ".endm",
    ".macro checked_vectors name, from32",
    "   vectors \\name, \\from32",
    "   vectors \\name, \\from32, checked",
    "   vectors \\name, \\from32, later",
    "   vectors \\name, \\from32, stores_later",
    "   begin_checked sync_\\name, sync_\\name",
    "   begin_later later, sync_\\name, sync_\\name, 0, 1",
    "   begin_later stores_later, sync_\\name, sync_\\name, 1, 1",
    ".endm",
    "checked_vectors svc_first, svc32_first",
    "checked_vectors switch, switch",
    "checked_vectors table, table",
    "begin_checked irq, irq",
    "begin_later later, irq, irq, 0, 0",
    "begin_later stores_later, irq, irq, 1, 0",

    // The tables of the policies `switch` and `table`.
    ".macro by_class directive, expression:vararg",
    "   .set class, 0",
    "   .rept {classes}",
    "   .if class == {svc64}",
    "   \\directive el0_svc \\expression",
    "   .elseif class == {svc32}",
    "   \\directive el0_svc32 \\expression",
    "   .elseif class == {data_abort_lower}",
    "   \\directive el0_data_abort \\expression",
    "   .elseif class == {instruction_abort_lower}",
    "   \\directive el0_instruction_abort \\expression",
    "   .else",
    "   \\directive el0_other \\expression",
    "   .endif",
    "   .set class, class + 1",
    "   .endr",
    ".endm",
    ".macro offset_of_handler handler",
    "   .hword (\\handler - el0_svc) / 4",
    ".endm",
    ".macro address_of_handler handler",
    "   .quad \\handler",
    ".endm",
    ".balign 8",
    "handlers_by_class:",
    "by_class address_of_handler",
    "switch_offsets:",
    "by_class offset_of_handler",
    ".popsection",

    x = const offset_of!(Frame, x),
    pc = const offset_of!(Frame, pc),
    orig_x0 = const offset_of!(Frame, orig_x0),
    syscall = const offset_of!(Frame, syscall),
    cpu = const offset_of!(StackTop, cpu),
    crossings = const offset_of!(Cpu, crossings),
    unknown = const crossings::kind_offset(Kind::CallUnknown),
    unknown_place = const crate::arch::syscall::UNKNOWN,
    syscalls = const offset_of!(Cpu, syscalls),
    current = const offset_of!(Cpu, current),
    overflow_stack = const offset_of!(Cpu, overflow_stack),
    work = const offset_of!(ThreadState, work),
    calls = const syscall::NATIVE,
    entries = const crate::arch::syscall::ENTRIES,
    first32 = const abi::compat::FIRST,
    calls32 = const abi::compat::END,
    private_first = const abi::compat::PRIVATE_FIRST,
    private_count = const abi::compat::PRIVATE_COUNT,
    private = const abi::compat::PRIVATE,
    kernel_frame = const size_of::<KernelFrame>(),
    kernel_pc = const offset_of!(KernelFrame, pc),
    stack_bit = const KERNEL_STACK_SIZE.trailing_zeros(),
    class_shift = const class::SHIFT,
    classes = const class::COUNT,
    clear_tco = const 0xd503409f_u32,
    tag_exit = const work::TRACE | work::TAG_EXIT,
    tag_fault = const work::TRACE | work::TAG_FAULT,
    instruction = const INSTRUCTION,
    svc32 = const class::SVC32,
    svc64 = const class::SVC64,
    data_abort_lower = const class::DATA_ABORT_LOWER,
    instruction_abort_lower = const class::INSTRUCTION_ABORT_LOWER,
    exit_work = sym exception::exit_work,
    data_abort = sym exception::data_abort,
    instruction_abort = sym exception::instruction_abort,
    other = sym exception::handle_other_exception,
    irq = sym exception::irq,
    unexpected = sym exception::unexpected,
    kernel_sync = sym exception::kernel_sync,
    fatal = sym exception::fatal,
);
