//! All entries into the kernel and returns to programs.
//!
//! `stvec` contains a single entry for all traps (privileged manual, section 12.1.2). `sscratch`
//! distinguishes their origin: while a program runs it holds the top of the thread's kernel stack,
//! and in the kernel zero. Interrupts are masked whenever the kernel runs, so a trap from the
//! kernel is a fault.
//!
//! - **From a program**, the entry saves the registers that a call may clobber, and tests for a
//!   system call first, whose handler gets its arguments in their original registers. Callee-saved
//!   registers and `gp` are stored only if they are needed: by calls that need the whole frame, and
//!   when there is work before the return.
//! - **From the kernel**, the test comes before any access to the stack, which may itself be the
//!   new mapping: a fault on the vmalloc area with a pending fence executes the fence and retries.
//!   Other faults there pay 11 instructions for the test, and faults elsewhere 6. A trap from a
//!   program never tests.

use core::arch::naked_asm;
use core::mem::offset_of;

use crossings::Kind;

use super::cpu::Cpu;
use super::frame::{Frame, StackTop};
use super::thread::ThreadState;
use super::{KERNEL_STACK_SIZE, fence, mmu, status, trap as handlers};

/// `scause` of an environment call from user mode (privileged manual, section 12.1.8).
const CAUSE_ECALL: usize = 8;
/// Size of `ecall` in bytes.
const ECALL: usize = 4;

/// The registers of kernel code that a trap interrupted; its handler's stack is below.
#[repr(C, align(16))]
pub struct KernelFrame {
    /// `pc`, followed by x1 to x31.
    pub x: [usize; 32],
    /// The interrupted code's `sstatus`.
    pub status: usize,
}

const _: () =
    assert!(offset_of!(KernelFrame, x) == offset_of!(Frame, x) && size_of::<usize>() == 8);

/// Stores (`sd`) or loads (`ld`) registers by name and number, each at its position in the frame at
/// sp; `{x}` is the offset of the registers in the frame.
macro_rules! registers {
    ($op:literal: $($name:ident $number:literal),*) => {
        concat!($($op, " ", stringify!($name), ", {x} + 8 * ", $number, "(sp)\n"),*)
    };
}

/// The registers that a call may clobber, except a0, t0, sp and tp.
macro_rules! clobbered {
    ($op:literal) => {
        registers!($op: ra 1, t1 6, t2 7, a1 11, a2 12, a3 13, a4 14, a5 15, a6 16, a7 17, t3 28, t4 29, t5 30, t6 31)
    };
}

/// The registers that a call preserves.
macro_rules! kept {
    ($op:literal) => {
        registers!($op: gp 3, s0 8, s1 9, s2 18, s3 19, s4 20, s5 21, s6 22, s7 23, s8 24, s9 25, s10 26, s11 27)
    };
}

/// Computes, from the address in t0 and the table at t1, the address of the entry of a level in t1,
/// and follows it unless it is the last level; branches to 8 if the entry is invalid.
macro_rules! walk {
    (0) => {
        walk!(@ 0)
    };
    ($level:literal) => {
        concat!(
            walk!(@ $level),
            "ld t1, (t1)\n",
            "andi t3, t1, {valid}\n",
            "beqz t3, 8f\n",
            "srli t1, t1, {ppn_shift}\n",
            "slli t1, t1, {page_shift}\n",
            "li t3, {linear}\n",
            "add t1, t1, t3\n",
        )
    };
    (@ $level:literal) => {
        concat!(
            "srli t3, t0, {page_shift} + {index_bits} * ", $level, "\n",
            "andi t3, t3, (1 << {index_bits}) - 1\n",
            "slli t3, t3, {entry_shift}\n",
            "add t1, t1, t3\n",
        )
    };
}

/// The entry of all traps, and the return.
#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
pub unsafe extern "C" fn trap() {
    naked_asm!(
        ".balign 4",
        "csrrw sp, sscratch, sp",
        "beqz sp, {from_kernel}",
        registers!("sd": tp 4),
        "ld tp, {cpu}(sp)",
        registers!("sd": t0 5),
        "csrrw t0, sscratch, zero",
        "sd t0, {x} + 8 * 2(sp)",
        registers!("sd": a0 10),
        clobbered!("sd"),
        "csrr t0, scause",
        "csrr t1, sepc",
        "li t2, {cause_ecall}",
        "bne t0, t2, 2f",
        // A system call.
        "addi t1, t1, {ecall}",
        "sd t1, {x}(sp)",
        "li t0, {syscalls}",
        "bgeu a7, t0, 3f",
        "slli t0, a7, 3",
        "ld t1, {crossings}(tp)",
        "add t1, t1, t0",
        "ld t2, {counts}(t1)",
        "addi t2, t2, 1",
        "sd t2, {counts}(t1)",
        "ld t1, {table}(tp)",
        "add t1, t1, t0",
        "ld t1, (t1)",
        "jalr t1",
        // Return to the program with the result in a0. Registers that were not saved still have
        // their values.
        "0: ld t0, {current}(tp)",
        "lw t0, {work}(t0)",
        "bnez t0, 4f",
        "1: ld t1, {x}(sp)",
        "9: csrw sepc, t1",
        "csrw sscratch, sp",
        clobbered!("ld"),
        registers!("ld": t0 5, tp 4, sp 2),
        "sret",
        // Any other trap.
        "2: bltz t0, 6f",
        "sd t1, {x}(sp)",
        "li t2, -1",
        "sd t2, {nr}(sp)",
        "mv a0, t0",
        "csrr a1, stval",
        "mv a2, t1",
        "call {from_user}",
        "ld t0, {current}(tp)",
        "lw t0, {work}(t0)",
        "bnez t0, 5f",
        registers!("ld": a0 10),
        "j 1b",
        // A system call beyond the table: a tracer sees it, too.
        "3: ld t1, {crossings}(tp)",
        "li t0, {unknown}",
        "add t1, t1, t0",
        "ld t2, (t1)",
        "addi t2, t2, 1",
        "sd t2, (t1)",
        "ld t1, {table}(tp)",
        "li t0, 8 * {unknown_place}",
        "add t1, t1, t0",
        "ld t1, (t1)",
        "jalr t1",
        "j 0b",
        // There is work, which needs the frame.
        "4: ld t0, {x} + 8 * 10(sp)",
        "sd t0, {orig_a0}(sp)",
        "ld t0, {x} + 8 * 17(sp)",
        "sd t0, {nr}(sp)",
        registers!("sd": a0 10),
        "5:",
        kept!("sd"),
        "j {return_full}",
        // An interrupt. One that became pending in the kernel is taken immediately after `sret`
        // (privileged manual, section 3.1.9), when the pc still equals the frame's (`task::tick`
        // needs to know). The frame's pc is cleared after interrupts, so that a program that spins
        // on one instruction is not mistaken for one that just returned.
        "6: ld a1, {x}(sp)",
        "sd t1, {x}(sp)",
        "xor a1, a1, t1",
        "seqz a1, a1",
        "mv a0, t0",
        "call {interrupt}",
        "ld t0, {current}(tp)",
        "lw t0, {work}(t0)",
        "bnez t0, 8f",
        "7:",
        registers!("ld": a0 10),
        "ld t1, {x}(sp)",
        "sd zero, {x}(sp)",
        "j 9b",
        "8: li t2, -1",
        "sd t2, {nr}(sp)",
        kept!("sd"),
        "2: call {exit_work}",
        "ld t0, {current}(tp)",
        "lw t0, {work}(t0)",
        "bnez t0, 2b",
        kept!("ld"),
        "j 7b",
        from_kernel = sym from_kernel,
        return_full = sym return_full,
        from_user = sym handlers::from_user,
        interrupt = sym handlers::interrupt,
        exit_work = sym handlers::exit_work,
        unknown = const crossings::kind_offset(Kind::CallUnknown),
        unknown_place = const crate::arch::syscall::UNKNOWN,
        cause_ecall = const CAUSE_ECALL,
        ecall = const ECALL,
        syscalls = const crossings::SYSCALLS,
        counts = const crossings::SYSCALLS_OFFSET,
        crossings = const offset_of!(Cpu, crossings),
        table = const offset_of!(Cpu, syscalls),
        current = const offset_of!(Cpu, current),
        work = const offset_of!(ThreadState, work),
        cpu = const offset_of!(StackTop, cpu),
        x = const offset_of!(Frame, x),
        orig_a0 = const offset_of!(Frame, orig_a0),
        nr = const offset_of!(Frame, syscall),
    )
}

/// Performs pending work, then restores the complete frame at sp, and returns to the program.
#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
pub(super) unsafe extern "C" fn return_full() {
    naked_asm!(
        "1: ld t0, {current}(tp)",
        "lw t0, {work}(t0)",
        "beqz t0, 2f",
        "call {exit_work}",
        "j 1b",
        "2: ld t0, {x}(sp)",
        "csrw sepc, t0",
        "csrw sscratch, sp",
        kept!("ld"),
        clobbered!("ld"),
        registers!("ld": t0 5, a0 10, tp 4, sp 2),
        "sret",
        exit_work = sym handlers::exit_work,
        current = const offset_of!(Cpu, current),
        work = const offset_of!(ThreadState, work),
        x = const offset_of!(Frame, x),
    )
}

/// Runs the program of the thread whose complete frame is at `top`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave_to_user(top: usize) -> ! {
    naked_asm!("mv sp, a0", "j {return_full}", return_full = sym return_full)
}

/// The first half of a system call that needs the whole frame: completes the frame and calls the
/// handler in t0. On return, everything but the result is restored from the frame.
///
/// # Safety
/// Only the entry of a system call jumps here, with its frame at sp and the handler in t0.
#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
pub unsafe extern "C" fn call_with_full_frame() {
    naked_asm!(
        kept!("sd"),
        "ld t1, {x} + 8 * 10(sp)",
        "sd t1, {orig_a0}(sp)",
        "sd a7, {nr}(sp)",
        "jalr t0",
        registers!("sd": a0 10),
        "j {return_full}",
        return_full = sym return_full,
        x = const offset_of!(Frame, x),
        orig_a0 = const offset_of!(Frame, orig_a0),
        nr = const offset_of!(Frame, syscall),
    )
}

/// A trap from the kernel; sp is zero, and the kernel's sp is in `sscratch`.
#[unsafe(naked)]
#[unsafe(link_section = ".text.entry")]
unsafe extern "C" fn from_kernel() {
    naked_asm!(
        // Repeated here because LLVM parses a library's assembly once without the target features.
        ".option push",
        ".option arch, +a",
        "csrrw sp, sscratch, sp",
        "sd t0, {spill}(tp)",
        "sd t1, {spill} + 8(tp)",
        // Is it a fault on the vmalloc area, with a pending fence of this hart?
        "csrr t0, stval",
        "srai t0, t0, {mapped_shift}",
        "li t1, {mapped_head}",
        "bne t0, t1, 1f",
        ::fence::take_unseen!(),
        "ld t0, {crossings}(tp)",
        "li t1, {recovered}",
        "add t0, t0, t1",
        "ld t1, (t0)",
        "addi t1, t1, 1",
        "sd t1, (t0)",
        "ld t2, {spill} + 16(tp)",
        "ld t1, {spill} + 8(tp)",
        "ld t0, {spill}(tp)",
        "sret",
        // The fault injector may have kept the entry, and others, unseen: make it visible, and
        // leave the bit set. This also happens for real faults, because the stack on which they are
        // reported may be unseen.
        "5: sd t3, {spill} + 24(tp)",
        "csrr t0, stval",
        "lla t1, {root}",
        walk!(2),
        walk!(1),
        walk!(0),
        "6: lr.d t2, (t1)",
        "andi t3, t2, {unseen_entry}",
        "beqz t3, 7f",
        "xori t2, t2, {reveal}",
        "sc.d t3, t2, (t1)",
        "bnez t3, 6b",
        "7: andi t1, t2, {valid}",
        "j 9f",
        "8: li t1, 0",
        "9: ld t0, {unseen}(tp)",
        "ld t2, {unseen_bit}(tp)",
        "amoor.d.aqrl zero, t2, (t0)",
        "ld t3, {spill} + 24(tp)",
        "bnez t1, 4b",
        "3: ld t2, {spill} + 16(tp)",
        // Otherwise: save the registers that another trap would overwrite, before any access to the
        // stack, because the frame may lie on a stack page that this hart has not seen yet.
        "1: ld t0, {spill}(tp)",
        "ld t1, {spill} + 8(tp)",
        "sd t0, {outer}(tp)",
        "sd t1, {outer} + 8(tp)",
        "csrr t0, sepc",
        "csrr t1, scause",
        "sd t0, {outer} + 16(tp)",
        "sd t1, {outer} + 24(tp)",
        "csrr t0, stval",
        // Meanwhile `sstatus` is as everywhere in the kernel: program memory is inaccessible, and
        // `sret` returns to a program.
        "li t1, {sum_spp}",
        "csrrc t1, sstatus, t1",
        "sd t0, {outer} + 32(tp)",
        "sd t1, {outer} + 40(tp)",
        "li t0, {spie}",
        "csrs sstatus, t0",
        // If sp is about to run into the guard below a stack, which a single bit of it shows, use
        // the overflow stack.
        "mv t0, sp",
        "addi sp, sp, -{size}",
        "slli t1, sp, {stack_bit}",
        "bltz t1, 2f",
        "ld sp, {overflow_stack}(tp)",
        "addi sp, sp, -{size}",
        "2:",
        "sd t0, {x} + 8 * 2(sp)",
        registers!("sd": a0 10, tp 4),
        clobbered!("sd"),
        kept!("sd"),
        "ld t0, {outer}(tp)",
        "sd t0, {x} + 8 * 5(sp)",
        "ld t0, {outer} + 8(tp)",
        "sd t0, {x} + 8 * 6(sp)",
        "ld t0, {outer} + 16(tp)",
        "sd t0, {x}(sp)",
        "ld t0, {outer} + 40(tp)",
        "sd t0, {status}(sp)",
        "mv a0, sp",
        "ld a1, {outer} + 24(tp)",
        "ld a2, {outer} + 32(tp)",
        "call {handler}",
        "ld t0, {status}(sp)",
        "csrw sstatus, t0",
        "ld t0, {x}(sp)",
        "csrw sepc, t0",
        kept!("ld"),
        clobbered!("ld"),
        registers!("ld": t0 5, a0 10, sp 2),
        "sret",
        ".option pop",
        handler = sym handlers::from_kernel,
        spill = const offset_of!(Cpu, spill),
        outer = const offset_of!(Cpu, outer),
        unseen = const offset_of!(Cpu, unseen),
        unseen_bit = const offset_of!(Cpu, unseen_bit),
        overflow_stack = const offset_of!(Cpu, overflow_stack),
        crossings = const offset_of!(Cpu, crossings),
        recovered = const crossings::kind_offset(crossings::Kind::FaultNewMapping),
        injecting = sym fence::INJECTING,
        root = sym mmu::ROOT_SV39,
        linear = const mmu::layout::LINEAR,
        ppn_shift = const mmu::PPN_SHIFT,
        page_shift = const mmu::PAGE_SHIFT,
        index_bits = const mmu::INDEX_BITS,
        entry_shift = const size_of::<mmu::Pte>().trailing_zeros(),
        valid = const mmu::TABLE,
        unseen_entry = const mmu::UNSEEN,
        reveal = const mmu::REVEAL,
        mapped_shift = const mmu::layout::VMALLOC_SIZE.trailing_zeros(),
        mapped_head = const (mmu::layout::VMALLOC as isize)
            >> mmu::layout::VMALLOC_SIZE.trailing_zeros(),
        stack_bit = const usize::BITS - 1 - KERNEL_STACK_SIZE.trailing_zeros(),
        size = const size_of::<KernelFrame>(),
        x = const offset_of!(KernelFrame, x),
        status = const offset_of!(KernelFrame, status),
        sum_spp = const status::SUM | status::SPP,
        spie = const status::SPIE,
    )
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn the_stack_itself_may_be_unseen() {
        meet_unseen_stack();
    }
}

/// Accesses the pages of a stack that this hart has not seen, one after the other.
#[cfg(feature = "selftest")]
pub fn meet_unseen_stack() {
    use super::{PAGE_SIZE, cpu};
    let stack = crate::mm::vmalloc::KernelStack::new().unwrap();
    let recovered = || {
        cpu::this()
            .crossings()
            .get(crossings::Kind::FaultNewMapping)
    };
    for page in stack.range().step_by(PAGE_SIZE) {
        let before = recovered();
        let popped = fence::with_unseen(page, || push_and_pop(page + PAGE_SIZE, 77));
        assert_eq!((popped, recovered()), (77, before + 1));
    }
}

/// Pushes `value` onto the empty stack that ends at `stack`, and pops it again.
#[cfg(feature = "selftest")]
#[unsafe(naked)]
extern "C" fn push_and_pop(stack: usize, value: usize) -> usize {
    naked_asm!(
        "mv t0, sp",
        "mv sp, a0",
        "sd a1, -16(sp)",
        "ld a0, -16(sp)",
        "mv sp, t0",
        "ret",
    )
}
