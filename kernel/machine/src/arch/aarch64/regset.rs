//! Register sets of a stopped thread, as in ptrace(2) and core files, by the types of their ELF
//! notes (`include/uapi/linux/elf.h`, `arch/arm64/include/uapi/asm/ptrace.h`).

use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use super::fp::{self, FpState};
use super::frame::compat::NUMBER;
use super::frame::{Frame, REGISTERS, pstate};
use super::syscall::NATIVE;
use super::thread::ThreadState;
use super::{compat, compat_regset, pauth, points, sve, sve_set};
use crate::arch::Call;
use crate::arch::syscall::UNKNOWN;
use crate::arch::task;
use crate::errno::{Errno, Result};
use abi::compat::FIRST;

/// NT_PRSTATUS: `struct user_pt_regs`.
const GENERAL: u32 = 1;
/// NT_PRFPREG: `struct user_fpsimd_state`, with FPSR and FPCR after the registers.
const FLOATING: u32 = 2;
/// NT_ARM_TLS: TPIDR_EL0, and TPIDR2_EL0, which is 0 without SME.
const THREAD_POINTER: u32 = 0x401;
/// NT_ARM_SVE: `struct user_sve_header`, and the registers.
const SVE: u32 = 0x405;
/// NT_ARM_HW_BREAK and NT_ARM_HW_WATCH: `struct user_hwdebug_state`.
const BREAKPOINTS: u32 = 0x402;
const WATCHPOINTS: u32 = 0x403;
/// NT_ARM_SYSTEM_CALL: the number of the system call.
const SYSTEM_CALL: u32 = 0x404;

/// Size of V0 to V31 in bytes.
const VECTORS: usize = 512;
/// Size of `struct user_fpsimd_state` in bytes.
const FLOATING_SIZE: usize = VECTORS + 16;

/// Slot size of the set `kind` in bytes: sets are read and written in whole slots.
pub fn slot(compat: bool, kind: u32) -> usize {
    match kind {
        _ if compat => 4,
        GENERAL | THREAD_POINTER => 8,
        pauth::note::MASK | pauth::note::ENABLED_KEYS => 8,
        SVE | pauth::note::ADDRESS_KEYS | pauth::note::GENERIC_KEYS => sve::QUAD,
        _ => 4,
    }
}

/// The general registers of a frame, in the format of NT_PRSTATUS.
pub fn general(frame: &Frame) -> &[u8] {
    frame.registers().as_bytes()
}

/// The floating-point registers of the current thread, in the format of NT_PRFPREG.
pub fn own_floating() -> [u8; FLOATING_SIZE] {
    let mut state = FpState::new();
    fp::save(&mut state);
    let mut bytes = [0; FLOATING_SIZE];
    let (vectors, control) = bytes.split_at_mut(VECTORS);
    vectors.copy_from_slice(state.v.as_bytes());
    control.copy_from_slice([state.fpsr, state.fpcr, 0, 0].as_bytes());
    bytes
}

/// The types and contents of the other sets of the current thread for a core file, in order.
///
/// # Errors
/// ENOMEM
pub fn own_others() -> Result<Vec<(u32, Vec<u8>)>> {
    let state = task::state();
    let mut sets = Vec::new();
    let kinds = pauth::note::ALL.into_iter();
    for kind in kinds.filter(|kind| pauth::has_set(state, *kind)) {
        let Some(set) = state.own_authentication(|own| own.set_of(kind)) else {
            continue;
        };
        let set = &set[..pauth::size(kind)];
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(set.len())
            .map_err(|_| Errno::ENOMEM)?;
        bytes.extend_from_slice(set);
        sets.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        sets.push((kind, bytes));
    }
    Ok(sets)
}

/// Whether the set `kind` is read-only, whether or not the thread has it.
pub fn is_read_only(compat: bool, kind: u32) -> bool {
    kind == pauth::note::MASK && !compat
}

/// The maximum size in bytes of the set `kind`, which has `size` now.
pub fn room(kind: u32, size: usize) -> usize {
    match kind {
        SVE => sve_set::most(),
        _ => size,
    }
}

/// Returns the set `kind` of a stopped thread. `compat`: in the format of 32-bit programs, whether
/// or not the thread runs one.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn get(state: &ThreadState, compat: bool, kind: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(FLOATING_SIZE)
        .map_err(|_| Errno::ENOMEM)?;
    match kind {
        GENERAL if compat => compat_regset::general(state, &mut bytes),
        compat_regset::VFP if compat => compat_regset::vfp(state, &mut bytes),
        FLOATING | SVE if compat => return Err(Errno::EINVAL),
        THREAD_POINTER if compat => {
            let pointer = match state.is_compat() {
                true => state.compat_tls(),
                false => state.tls() as u32,
            };
            bytes.extend_from_slice(&pointer.to_ne_bytes());
        }
        GENERAL => state.with_stopped_frame(|frame| {
            bytes.extend_from_slice(frame.registers().as_bytes());
        }),
        FLOATING => state.with_stopped_fp(|fp| {
            bytes.extend_from_slice(fp.v.as_bytes());
            bytes.extend_from_slice([fp.fpsr, fp.fpcr, 0, 0].as_bytes());
        }),
        THREAD_POINTER => bytes.extend_from_slice([state.tls(), 0].as_bytes()),
        SYSTEM_CALL => state.with_stopped_frame(|frame| {
            bytes.extend_from_slice(&frame.number().to_ne_bytes());
        }),
        SVE if sve::present() => sve_set::get(state, &mut bytes)?,
        _ if pauth::has_set(state, kind) => {
            let set = state.with_stopped_authentication(|stopped| stopped.set_of(kind));
            bytes.extend_from_slice(&set.ok_or(Errno::EINVAL)?[..pauth::size(kind)]);
        }
        BREAKPOINTS | WATCHPOINTS => state
            .with_stopped_points(|own| points::get(own.as_deref(), points_of(kind), &mut bytes))?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(bytes)
}

fn points_of(kind: u32) -> points::Kind {
    if kind == BREAKPOINTS {
        points::Kind::Break
    } else {
        points::Kind::Watch
    }
}

/// Changes the set `kind` of a stopped thread, in the format of [`get`], from byte `from` on; the
/// rest stays unchanged.
///
/// # Errors
/// EINVAL (no such set, or an illegal state), EPERM, ENOSPC, ENOMEM.
pub fn set(state: &ThreadState, compat: bool, kind: u32, from: usize, bytes: &[u8]) -> Result<()> {
    match kind {
        GENERAL if compat => return compat_regset::set_general(state, from, bytes),
        SVE if !compat => return sve_set::set(state, bytes),
        BREAKPOINTS | WATCHPOINTS => {
            return state.with_stopped_points(|own| points::set(own, points_of(kind), bytes));
        }
        _ => {}
    }
    let mut whole = get(state, compat, kind)?;
    let changed = whole.iter_mut().skip(from);
    changed.zip(bytes).for_each(|(old, new)| *old = *new);
    match kind {
        compat_regset::VFP if compat => compat_regset::set_vfp(state, &whole)?,
        THREAD_POINTER if compat => {
            state.set_tls(u32::read_from_bytes(&whole).unwrap_or(0) as usize);
        }
        GENERAL => {
            let registers =
                <[usize; REGISTERS]>::read_from_bytes(&whole).map_err(|_| Errno::EINVAL)?;
            let state_of_program = pstate::of_program(registers[REGISTERS - 1]);
            let pstate = state_of_program.ok_or(Errno::EINVAL)?;
            state.with_stopped_frame(|frame| {
                *frame.registers_mut() = registers;
                frame.pstate = pstate;
            });
        }
        // This zeroes the rest of SVE vectors.
        FLOATING => {
            let control = |at: usize| u32::read_from_bytes(&whole[at..at + 4]).unwrap_or(0);
            let v = FromBytes::read_from_bytes(&whole[..VECTORS]).map_err(|_| Errno::EINVAL)?;
            let new = FpState {
                fpsr: control(VECTORS),
                fpcr: control(VECTORS + 4),
                v,
            };
            state.with_stopped_sve(|image| image.set_alone(&new.v));
            state.with_stopped_fp(|fp| *fp = new);
        }
        THREAD_POINTER => state.set_tls(usize::read_from_prefix(&whole).map_or(0, |(tls, _)| tls)),
        _ if pauth::has_set(state, kind) => return pauth::set(state, kind, &whole),
        _ => {
            let number = i32::read_from_bytes(&whole).unwrap_or(-1);
            state.with_stopped_frame(|frame| frame.set_number(number));
        }
    }
    Ok(())
}

impl Frame {
    /// The system call to make, which a tracer may have changed.
    pub fn call(&self) -> Call {
        self.call_number(self.number())
    }

    /// The system call of a stopped thread; its number is −1 outside of one.
    pub fn stopped_call(&self) -> Call {
        let mut call = self.call();
        call.arguments[0] = self.orig_x0;
        call
    }

    /// The system call of a thread that sleeps in one, according to the registers of the call.
    pub fn sleeping_call(&self, _watched: bool) -> Call {
        let place = if self.is_compat() { NUMBER } else { 8 };
        self.call_number(self.x[place] as i32)
    }

    fn call_number(&self, number: i32) -> Call {
        let unsigned = number as u32 as usize;
        let compat = self.is_compat();
        let (architecture, place, mask) = if compat {
            (AUDIT_COMPAT, compat::place(unsigned), u32::MAX as usize)
        } else {
            let place = if unsigned < NATIVE { unsigned } else { UNKNOWN };
            (AUDIT, place, usize::MAX)
        };
        let mut arguments = core::array::from_fn(|at| self.x[at] & mask);
        if number == -1 {
            // x0 already holds the result.
            arguments[0] = self.orig_x0 & mask;
        }
        Call {
            architecture,
            number,
            place,
            pc: self.pc,
            arguments,
        }
    }

    /// The number of the system call in the program's numbering; -1 for none.
    fn number(&self) -> i32 {
        match self.syscall as i32 {
            number if number != -1 && self.is_compat() => number.wrapping_sub(FIRST as i32),
            number => number,
        }
    }

    fn set_number(&mut self, number: i32) {
        let compat = self.is_compat() && number != -1;
        self.syscall = number.wrapping_add(if compat { FIRST as i32 } else { 0 }) as isize;
    }

    /// Prepares a traced call: if its number was -1 from the start, it fails with ENOSYS unless a
    /// tracer sets another result.
    pub fn begin_watched(&mut self) {
        if self.syscall == -1 {
            self.set_result(Errno::ENOSYS.result());
        }
    }

    /// The value of the result register if the system call was not made: its first argument.
    pub fn roll_back(&self) -> isize {
        self.orig_x0 as isize
    }

    /// Sets the system call that the thread is in to `number`.
    pub fn set_syscall(&mut self, number: usize) {
        self.syscall = number as isize;
    }

    /// Enables or disables a stop after the program's next instruction (Arm ARM, "Software Step
    /// exceptions").
    pub fn set_single_step(&mut self, on: bool) -> Result<()> {
        if on {
            self.pstate |= pstate::SS;
        } else {
            self.pstate &= !pstate::SS;
        }
        Ok(())
    }
}

/// AUDIT_ARCH_AARCH64 and AUDIT_ARCH_ARM (include/uapi/linux/audit.h): the architecture's
/// identifiers for filters and tracers.
const AUDIT: u32 = 0xc000_00b7;
const AUDIT_COMPAT: u32 = 0x4000_0028;
/// All of them.
pub const AUDITS: &[u32] = &[AUDIT, AUDIT_COMPAT];
