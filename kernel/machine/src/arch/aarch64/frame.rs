//! What a program's registers hold while the kernel runs on its behalf.

use core::mem::offset_of;

use super::cpu::Cpu;
use super::fp::FpState;
use super::pauth::Authentication;
use super::tags::Control;

/// The user's registers at the top of a thread's kernel stack.
///
/// The entry paths save what a call may clobber (x0 to x18, x30, sp, pc, pstate); x19 to x29 are
/// valid only after a full save, which every `&mut Frame` that safe code sees has had.
#[repr(C, align(16))]
#[derive(Clone)]
pub struct Frame {
    /// x0 to x30.
    pub(super) x: [usize; 31],
    /// SP_EL0.
    pub(super) sp: usize,
    /// ELR_EL1.
    pub(super) pc: usize,
    /// SPSR_EL1.
    pub(super) pstate: usize,
    /// x0 as the system call got it.
    pub(super) orig_x0: usize,
    /// Number of the system call that the thread is in, a 32-bit program's plus
    /// `abi::compat::FIRST`; -1 when it is in none.
    pub(super) syscall: isize,
}

/// What lies at the top of a kernel stack. The stack pointer of a thread that runs its program is
/// its address.
#[repr(C, align(16))]
pub struct StackTop {
    /// The user's registers.
    pub frame: Frame,
    /// The CPU that runs the thread, written when it is switched to.
    pub cpu: *const Cpu,
    /// FP and SIMD registers of a thread that does not run: here, where a new thread's need not be
    /// moved with it.
    pub fp: FpState,
    /// What its program signs with, if programs can.
    pub authentication: Authentication,
    /// How the tags of its addresses are checked, if programs have any.
    pub tags: Control,
}

/// Words of the registers that `struct sigcontext` and `user_pt_regs` hold in this order: x0 to
/// x30, sp, pc, pstate.
pub(super) const REGISTERS: usize = 34;
const _: () =
    assert!(offset_of!(Frame, x) == 0 && offset_of!(Frame, pstate) == 8 * (REGISTERS - 1));

/// Bytes of an instruction.
pub(super) const INSTRUCTION: usize = 4;
/// Bytes of an SVC in Thumb.
const THUMB_SVC: usize = 2;

/// The registers of AArch32 that have a part of their own, by where AArch64 has them (Arm ARM
/// D1.3.2, table D1-6): the number of a system call, the stack pointer, the link.
pub(super) mod compat {
    pub const NUMBER: usize = 7;
    pub const SP: usize = 13;
    pub const LR: usize = 14;
}

/// Bits of the saved program state (Arm ARM C5.2.20, SPSR_EL1).
pub(super) mod pstate {
    use super::super::features::features;

    /// The exception came from AArch32.
    pub const AARCH32: usize = 1 << 4;
    /// Branch type: a landing pad is due.
    pub const BTYPE: usize = 3 << 10;
    /// The branch type of a call by a register: a handler in a guarded page begins with a landing
    /// pad.
    pub const BTYPE_CALL: usize = 2 << 10;
    /// Single step is active, not yet pending.
    pub const SS: usize = 1 << 21;
    /// Speculative store bypass is safe.
    pub const SSBS: usize = 1 << 12;
    /// Tags are not checked.
    pub const TCO: usize = 1 << 25;
    /// Data independent timing.
    pub const DIT: usize = 1 << 24;
    /// The condition flag N.
    pub const N: usize = 1 << 31;
    /// Condition flags N, Z, C, V.
    pub const NZCV: usize = 0xf << 28;
    /// What a program may set.
    const USER: usize = NZCV | BTYPE | SSBS | DIT | TCO | SS;
    /// The mode, and what masks exceptions: D, A, I, F.
    const PRIVILEGED: usize = COMPAT_MODE | 0xf << 6;

    /// What a 64-bit program may have of the state `wanted`: without what is reserved. None if that
    /// is not EL0 with nothing masked.
    pub fn of_program(wanted: usize) -> Option<usize> {
        (wanted & PRIVILEGED == 0).then_some(wanted & USER)
    }

    /// AArch32's user mode: bits 4 to 0 (C5.2.20, "When exception taken from AArch32 state").
    pub const COMPAT_USER: usize = 0b10000;
    /// The bits of the mode.
    const COMPAT_MODE: usize = 0b11111;
    /// AArch32: Thumb instructions.
    pub const THUMB: usize = 1 << 5;
    /// AArch32: fast interrupts, interrupts and asynchronous aborts are masked.
    const COMPAT_MASKS: usize = 7 << 6;
    /// AArch32: the state of an If-Then block.
    pub const IT: usize = 0x3f << 10 | 3 << 25;
    /// AArch32: greater-or-equal and saturation flags.
    const GE_Q: usize = 0xf << 16 | 1 << 27;
    /// AArch32: speculative store bypass is safe.
    pub const COMPAT_SSBS: usize = 1 << 23;
    /// AArch32: data are big-endian.
    pub const BIG_ENDIAN: usize = 1 << 9;
    /// What a 32-bit program may set.
    const COMPAT_FREE: usize = NZCV | GE_Q | IT | THUMB | COMPAT_SSBS | 1 << 21;

    /// What a 32-bit program may have of the state `wanted`. None if that is not its mode with
    /// nothing masked.
    pub fn of_compat(wanted: usize) -> Option<usize> {
        let allowed = wanted & (COMPAT_MODE | COMPAT_MASKS) == COMPAT_USER;
        let order = match features().mixed_endian_el0() {
            true => BIG_ENDIAN,
            false => 0,
        };
        allowed.then_some(COMPAT_USER | wanted & (COMPAT_FREE | order))
    }
}

/// Lets a program's loads bypass its stores speculatively, or not, where the CPUs have a bit for
/// that.
pub fn set_store_bypass(frame: &mut Frame, allowed: bool) {
    let bit = if frame.is_compat() {
        pstate::COMPAT_SSBS
    } else {
        pstate::SSBS
    };
    frame.pstate = if allowed {
        frame.pstate | bit
    } else {
        frame.pstate & !bit
    };
}

impl Frame {
    /// A program's first registers: all zero but the address of its first instruction, the stack
    /// and the first argument.
    pub fn user(entry: usize, sp: usize, argument: usize) -> Self {
        let mut frame = Frame {
            x: [0; 31],
            sp,
            pc: entry,
            pstate: 0,
            orig_x0: 0,
            syscall: -1,
        };
        frame.x[0] = argument;
        frame
    }

    /// A 32-bit program's first registers: all zero but the address of its first instruction, with
    /// bit 0 set for Thumb, and the stack.
    pub fn compat(entry: usize, sp: usize) -> Self {
        let mut frame = Self::user(entry & !1, 0, 0);
        frame.pstate = pstate::COMPAT_USER | if entry & 1 != 0 { pstate::THUMB } else { 0 };
        frame.x[compat::SP] = sp;
        frame
    }

    /// Whether the program has 32 bits.
    #[inline]
    pub fn is_compat(&self) -> bool {
        self.pstate & pstate::AARCH32 != 0
    }

    /// x0 to x30, sp, pc and pstate.
    pub(super) fn registers(&self) -> &[usize; REGISTERS] {
        // SAFETY: the frame's first words, one behind the other.
        unsafe { &*(&raw const *self).cast() }
    }

    /// x0 to x30, sp, pc and pstate.
    pub(super) fn registers_mut(&mut self) -> &mut [usize; REGISTERS] {
        // SAFETY: as in `registers`; any words are registers.
        unsafe { &mut *(&raw mut *self).cast() }
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> usize {
        self.pc
    }

    /// Sets the address of the next instruction.
    pub fn set_pc(&mut self, pc: usize) {
        self.pc = if self.is_compat() {
            pc as u32 as usize
        } else {
            pc
        };
    }

    /// The stack pointer.
    pub fn sp(&self) -> usize {
        if self.is_compat() {
            self.x[compat::SP] as u32 as usize
        } else {
            self.sp
        }
    }

    /// Sets the stack pointer.
    pub fn set_sp(&mut self, sp: usize) {
        if self.is_compat() {
            self.x[compat::SP] = sp;
        } else {
            self.sp = sp;
        }
    }

    /// What the system call returns.
    pub fn result(&self) -> isize {
        self.x[0] as isize
    }

    /// Sets what the system call returns.
    pub fn set_result(&mut self, value: isize) {
        self.x[0] = value as usize;
    }

    /// The system call that the thread is in, if it is in one.
    pub fn syscall_nr(&self) -> Option<usize> {
        (self.syscall != -1).then_some(self.syscall as usize)
    }

    /// The thread is in no system call any more: nothing is to be restarted.
    pub fn clear_syscall(&mut self) {
        self.syscall = -1;
    }

    /// Goes back to the system call's instruction with its arguments restored.
    pub fn restart_syscall(&mut self) {
        self.x[0] = self.orig_x0;
        self.pc = self.call_address();
        self.clear_syscall();
    }

    /// The address of the system call's instruction.
    pub(super) fn call_address(&self) -> usize {
        const IN_THUMB: usize = pstate::AARCH32 | pstate::THUMB;
        let in_thumb = self.pstate & IN_THUMB == IN_THUMB;
        self.pc - if in_thumb { THUMB_SVC } else { INSTRUCTION }
    }

    /// Goes back as `restart_syscall`, but to call number `nr` (restart_syscall(2)), which a 32-bit
    /// program has as number 0.
    pub fn restart_as(&mut self, nr: usize) {
        self.restart_syscall();
        if self.is_compat() {
            self.x[compat::NUMBER] = 0;
        } else {
            self.x[8] = nr;
        }
    }

    /// Leaves an emulated instruction behind: no landing pad is due any more, and a single step is
    /// complete.
    pub(super) fn skip_instruction(&mut self) {
        self.pc += INSTRUCTION;
        self.pstate &= !pstate::BTYPE;
        // The step that was to execute this instruction is over: the debug exception comes before
        // the next one.
        self.pstate &= !pstate::SS;
    }
}
