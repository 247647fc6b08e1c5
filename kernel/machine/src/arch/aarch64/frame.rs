//! The registers of a program while the kernel runs on its behalf.

use core::mem::offset_of;

use super::cpu::Cpu;
use super::fp::FpState;
use super::pauth::Authentication;
use super::tags::Control;

/// The user's registers at the top of a thread's kernel stack.
///
/// The entry paths save the registers that a call may clobber (x0 to x18, x30, sp, pc, pstate); x19
/// to x29 are valid only after a full save, which has always happened when safe code gets a `&mut
/// Frame`.
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
    /// The value of x0 on entry to the system call.
    pub(super) orig_x0: usize,
    /// Number of the current system call, plus `abi::compat::FIRST` for a 32-bit program; -1
    /// outside of one.
    pub(super) syscall: isize,
}

/// The data at the top of a kernel stack. While a thread runs its program, its kernel stack pointer
/// is the address of this.
#[repr(C, align(16))]
pub struct StackTop {
    /// The user's registers.
    pub frame: Frame,
    /// The CPU that runs the thread; written by the context switch.
    pub cpu: *const Cpu,
    /// FP and SIMD registers of a thread that does not run: here, so that they are not moved with a
    /// new thread.
    pub fp: FpState,
    /// The program's pointer authentication keys, if supported.
    pub authentication: Authentication,
    /// The tag checks of the program, if supported.
    pub tags: Control,
}

/// Number of words of the registers that `struct sigcontext` and `user_pt_regs` contain in this
/// order: x0 to x30, sp, pc, pstate.
pub(super) const REGISTERS: usize = 34;
const _: () =
    assert!(offset_of!(Frame, x) == 0 && offset_of!(Frame, pstate) == 8 * (REGISTERS - 1));

/// Size of an instruction in bytes.
pub(super) const INSTRUCTION: usize = 4;
/// Size of a Thumb SVC in bytes.
const THUMB_SVC: usize = 2;

/// AArch32 registers with a special role, by their AArch64 register numbers (Arm ARM, "Mapping of
/// the general-purpose registers between the Execution states"): the system call number, the stack
/// pointer, the link register.
pub(super) mod compat {
    pub const NUMBER: usize = 7;
    pub const SP: usize = 13;
    pub const LR: usize = 14;
}

/// Bits of the saved program state (Arm ARM, SPSR_EL1).
pub(super) mod pstate {
    use super::super::features::features;

    /// The exception came from AArch32.
    pub const AARCH32: usize = 1 << 4;
    /// BTYPE: nonzero if the next instruction must be a landing pad.
    pub const BTYPE: usize = 3 << 10;
    /// The BTYPE of an indirect call: a signal handler in a guarded page begins with a landing pad.
    pub const BTYPE_CALL: usize = 2 << 10;
    /// Single step is active, not yet pending.
    pub const SS: usize = 1 << 21;
    /// Speculative store bypass is safe.
    pub const SSBS: usize = 1 << 12;
    /// Tag checks are disabled.
    pub const TCO: usize = 1 << 25;
    /// Data-independent timing.
    pub const DIT: usize = 1 << 24;
    /// The condition flag N.
    pub const N: usize = 1 << 31;
    /// Condition flags N, Z, C, V.
    pub const NZCV: usize = 0xf << 28;
    /// The bits that a program may set.
    const USER: usize = NZCV | BTYPE | SSBS | DIT | TCO | SS;
    /// The mode, and the exception masks D, A, I, F.
    const PRIVILEGED: usize = COMPAT_MODE | 0xf << 6;

    /// The state `wanted` of a 64-bit program, without reserved bits. None if it is not EL0 with
    /// nothing masked.
    pub fn of_program(wanted: usize) -> Option<usize> {
        (wanted & PRIVILEGED == 0).then_some(wanted & USER)
    }

    /// AArch32 User mode: bits 4 to 0 (SPSR_EL1, "When exception taken from AArch32 state").
    pub const COMPAT_USER: usize = 0b10000;
    /// The mode bits.
    const COMPAT_MODE: usize = 0b11111;
    /// AArch32: Thumb state.
    pub const THUMB: usize = 1 << 5;
    /// AArch32: FIQs, IRQs and asynchronous aborts are masked.
    const COMPAT_MASKS: usize = 7 << 6;
    /// AArch32: the state of an If-Then block.
    pub const IT: usize = 0x3f << 10 | 3 << 25;
    /// AArch32: greater-or-equal and saturation flags.
    const GE_Q: usize = 0xf << 16 | 1 << 27;
    /// AArch32: speculative store bypass is safe.
    pub const COMPAT_SSBS: usize = 1 << 23;
    /// AArch32: data accesses are big-endian.
    pub const BIG_ENDIAN: usize = 1 << 9;
    /// The bits that a 32-bit program may set.
    const COMPAT_FREE: usize = NZCV | GE_Q | IT | THUMB | COMPAT_SSBS | 1 << 21;

    /// The state `wanted` of a 32-bit program. None if it is not User mode with nothing masked.
    pub fn of_compat(wanted: usize) -> Option<usize> {
        let allowed = wanted & (COMPAT_MODE | COMPAT_MASKS) == COMPAT_USER;
        let order = match features().mixed_endian_el0() {
            true => BIG_ENDIAN,
            false => 0,
        };
        allowed.then_some(COMPAT_USER | wanted & (COMPAT_FREE | order))
    }
}

/// Allows or disables speculative store bypass for a program, where the CPUs have SSBS.
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
    /// A program's initial registers: all zero except the address of its first instruction, the
    /// stack pointer and the first argument.
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

    /// A 32-bit program's initial registers: all zero except the address of its first instruction,
    /// with bit 0 set for Thumb, and the stack pointer.
    pub fn compat(entry: usize, sp: usize) -> Self {
        let mut frame = Self::user(entry & !1, 0, 0);
        frame.pstate = pstate::COMPAT_USER | if entry & 1 != 0 { pstate::THUMB } else { 0 };
        frame.x[compat::SP] = sp;
        frame
    }

    /// Whether this is a 32-bit program.
    #[inline]
    pub fn is_compat(&self) -> bool {
        self.pstate & pstate::AARCH32 != 0
    }

    /// x0 to x30, sp, pc and pstate.
    pub(super) fn registers(&self) -> &[usize; REGISTERS] {
        // SAFETY: these are the frame's first words, and contiguous.
        unsafe { &*(&raw const *self).cast() }
    }

    /// x0 to x30, sp, pc and pstate.
    pub(super) fn registers_mut(&mut self) -> &mut [usize; REGISTERS] {
        // SAFETY: as in `registers`; any values are valid registers.
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

    /// The result of the system call.
    pub fn result(&self) -> isize {
        self.x[0] as isize
    }

    /// Sets the result of the system call.
    pub fn set_result(&mut self, value: isize) {
        self.x[0] = value as usize;
    }

    /// The number of the current system call, if the thread is in one.
    pub fn syscall_nr(&self) -> Option<usize> {
        (self.syscall != -1).then_some(self.syscall as usize)
    }

    /// Records that the thread is in no system call, so that none is restarted.
    pub fn clear_syscall(&mut self) {
        self.syscall = -1;
    }

    /// Returns to the system call instruction with its arguments restored.
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

    /// As `restart_syscall`, but with call number `nr` (restart_syscall(2)), which is 0 for a
    /// 32-bit program.
    pub fn restart_as(&mut self, nr: usize) {
        self.restart_syscall();
        if self.is_compat() {
            self.x[compat::NUMBER] = 0;
        } else {
            self.x[8] = nr;
        }
    }

    /// Advances past an emulated instruction: BTYPE is cleared, and a single step completes.
    pub(super) fn skip_instruction(&mut self) {
        self.pc += INSTRUCTION;
        self.pstate &= !pstate::BTYPE;
        // The step of this instruction is complete: the debug exception comes before the next one.
        self.pstate &= !pstate::SS;
    }
}
