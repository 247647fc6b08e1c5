//! Registers of a stopped thread as ptrace(2) and core files have them: sets by the type of an ELF note
//! (`include/uapi/linux/elf.h`, `arch/arm64/include/uapi/asm/ptrace.h`).

use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use super::fp::{self, FpState};
use super::frame::{Frame, REGISTERS, pstate};
use super::thread::ThreadState;
use super::{sve, sve_set};
use crate::errno::{Errno, Result};

/// NT_PRSTATUS: `struct user_pt_regs`.
const GENERAL: u32 = 1;
/// NT_PRFPREG: `struct user_fpsimd_state`, which holds FPSR and FPCR behind the registers.
const FLOATING: u32 = 2;
/// NT_ARM_TLS: TPIDR_EL0.
const THREAD_POINTER: u32 = 0x401;
/// NT_ARM_SVE: `struct user_sve_header`, and the registers.
const SVE: u32 = 0x405;
/// NT_ARM_SYSTEM_CALL: the number of the system call.
const SYSTEM_CALL: u32 = 0x404;

/// Bytes of V0 to V31.
const VECTORS: usize = 512;
/// Bytes of `struct user_fpsimd_state`.
const FLOATING_SIZE: usize = VECTORS + 16;

/// Bytes of one slot of the set `kind`: sets are read and written in whole slots.
pub fn slot(kind: u32) -> usize {
    match kind {
        GENERAL | THREAD_POINTER => 8,
        SVE => sve::QUAD,
        _ => 4,
    }
}

/// The general registers of a frame, as NT_PRSTATUS has them.
pub fn general(frame: &Frame) -> &[u8] {
    frame.registers().as_bytes()
}

/// The floating-point registers of the current thread, as NT_PRFPREG has them.
pub fn own_floating() -> [u8; FLOATING_SIZE] {
    let mut state = FpState::new();
    fp::save(&mut state);
    let mut bytes = [0; FLOATING_SIZE];
    let (vectors, control) = bytes.split_at_mut(VECTORS);
    vectors.copy_from_slice(state.v.as_bytes());
    control.copy_from_slice([state.fpsr, state.fpcr, 0, 0].as_bytes());
    bytes
}

/// Bytes of the set `kind` at most, which has `size` now.
pub fn room(kind: u32, size: usize) -> usize {
    match kind {
        SVE => sve_set::most(),
        _ => size,
    }
}

/// The set `kind` of a stopped thread.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn get(state: &ThreadState, kind: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(FLOATING_SIZE)
        .map_err(|_| Errno::ENOMEM)?;
    match kind {
        GENERAL => state.with_stopped_frame(|frame| {
            bytes.extend_from_slice(frame.registers().as_bytes());
        }),
        FLOATING => state.with_stopped_fp(|fp| {
            bytes.extend_from_slice(fp.v.as_bytes());
            bytes.extend_from_slice([fp.fpsr, fp.fpcr, 0, 0].as_bytes());
        }),
        THREAD_POINTER => bytes.extend_from_slice(&state.tls().to_ne_bytes()),
        SYSTEM_CALL => state.with_stopped_frame(|frame| {
            bytes.extend_from_slice(&(frame.syscall as i32).to_ne_bytes());
        }),
        SVE if sve::present() => sve_set::get(state, &mut bytes)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(bytes)
}

/// Changes the set `kind` of a stopped thread; what `bytes` does not reach stays.
///
/// # Errors
/// EINVAL (no such set, or a state that no program may have), ENOMEM.
pub fn set(state: &ThreadState, kind: u32, bytes: &[u8]) -> Result<()> {
    if kind == SVE {
        return sve_set::set(state, bytes);
    }
    let mut whole = get(state, kind)?;
    let len = bytes.len().min(whole.len());
    whole[..len].copy_from_slice(&bytes[..len]);
    match kind {
        GENERAL => {
            let registers =
                <[usize; REGISTERS]>::read_from_bytes(&whole).map_err(|_| Errno::EINVAL)?;
            // A 64-bit program at EL0 with nothing masked it stays.
            if registers[REGISTERS - 1] & !(pstate::USER | pstate::IL) != 0 {
                return Err(Errno::EINVAL);
            }
            state.with_stopped_frame(|frame| *frame.registers_mut() = registers);
        }
        FLOATING => {
            let control = |at: usize| u32::read_from_bytes(&whole[at..at + 4]).unwrap_or(0);
            let v = FromBytes::read_from_bytes(&whole[..VECTORS]).map_err(|_| Errno::EINVAL)?;
            let new = FpState {
                fpsr: control(VECTORS),
                fpcr: control(VECTORS + 4),
                v,
            };
            state.with_stopped_fp(|fp| *fp = new);
        }
        THREAD_POINTER => state.set_tls(usize::read_from_bytes(&whole).unwrap_or(0)),
        _ => {
            let number = i32::read_from_bytes(&whole).unwrap_or(-1);
            state.with_stopped_frame(|frame| frame.syscall = number as isize);
        }
    }
    Ok(())
}

impl Frame {
    /// The system call that is to be made, as a tracer may have changed it: its number (out of range for none) and arguments.
    pub fn call(&self) -> (usize, [usize; 6]) {
        let arguments = core::array::from_fn(|at| self.x[at]);
        (self.syscall as usize, arguments)
    }

    /// The system call was not made: what its first argument's register, which has its result otherwise, holds then.
    pub fn roll_back(&self) -> isize {
        self.orig_x0 as isize
    }

    /// The thread is in system call `number`.
    pub fn set_syscall(&mut self, number: usize) {
        self.syscall = number as isize;
    }

    /// The program stops after its next instruction, or does not (Arm ARM D2.11, "Software Step exceptions").
    pub fn set_single_step(&mut self, on: bool) -> Result<()> {
        if on {
            self.pstate |= pstate::SS;
        } else {
            self.pstate &= !pstate::SS;
        }
        Ok(())
    }
}

/// Makes this CPU stop programs after each instruction (MDSCR_EL1.SS), or not.
pub fn single_step(on: bool) {
    const SS: usize = 1 << 0;
    // SAFETY: the kernel itself is not stepped, since MDSCR_EL1.KDE is 0; the OS lock would keep all steps back.
    unsafe {
        super::sysreg::write!("oslar_el1", 0usize);
        super::sysreg::write!("mdscr_el1", if on { SS } else { 0 });
    }
    super::sysreg::isb();
}

/// AUDIT_ARCH_AARCH64 (include/uapi/linux/audit.h): how filters and tracers call the architecture.
pub const AUDIT: u32 = 0xc000_00b7;
