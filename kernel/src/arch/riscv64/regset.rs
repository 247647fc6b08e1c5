//! Registers of a stopped thread as ptrace(2) and core files have them: sets by the type of an ELF note
//! (`include/uapi/linux/elf.h`, `arch/riscv/include/uapi/asm/ptrace.h`).

use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use super::frame::{Frame, reg};
use super::thread::ThreadState;
use crate::errno::{Errno, Result};

/// NT_PRSTATUS: `struct user_regs_struct`.
const GENERAL: u32 = 1;
/// NT_PRFPREG: `struct __riscv_d_ext_state`.
const FLOATING: u32 = 2;

/// Bytes of f0 to f31.
const FLOATS: usize = 256;

/// Bytes of one slot of the set `kind`: sets are read and written in whole slots.
pub fn slot(_kind: u32) -> usize {
    8
}

/// The general registers of a frame, as NT_PRSTATUS has them.
pub fn general(frame: &Frame) -> &[u8] {
    frame.x.as_bytes()
}

/// Bytes of the set `kind` at most, which has `size` now.
pub fn room(_kind: u32, size: usize) -> usize {
    size
}

/// The set `kind` of a stopped thread.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn get(state: &ThreadState, kind: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(FLOATS + 8)
        .map_err(|_| Errno::ENOMEM)?;
    match kind {
        GENERAL => state.with_stopped_frame(|frame| bytes.extend_from_slice(frame.x.as_bytes())),
        FLOATING => state.with_stopped_fp(|fp| {
            bytes.extend_from_slice(fp.stopped().f.as_bytes());
            bytes.extend_from_slice([fp.stopped().fcsr, 0].as_bytes());
        }),
        _ => return Err(Errno::EINVAL),
    }
    Ok(bytes)
}

/// Changes the set `kind` of a stopped thread; what `bytes` does not reach stays.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn set(state: &ThreadState, kind: u32, bytes: &[u8]) -> Result<()> {
    let mut whole = get(state, kind)?;
    let len = bytes.len().min(whole.len());
    whole[..len].copy_from_slice(&bytes[..len]);
    if kind == GENERAL {
        let registers = FromBytes::read_from_bytes(&whole).map_err(|_| Errno::EINVAL)?;
        state.with_stopped_frame(|frame| frame.x = registers);
    } else {
        let f = FromBytes::read_from_bytes(&whole[..FLOATS]).map_err(|_| Errno::EINVAL)?;
        let fcsr = u32::read_from_bytes(&whole[FLOATS..FLOATS + 4]).unwrap_or(0);
        state.with_stopped_fp(|fp| fp.set_stopped(f, fcsr));
    }
    Ok(())
}

impl Frame {
    /// The system call that is to be made, as a tracer may have changed it: its number (out of range for none) and arguments.
    pub fn call(&self) -> (usize, [usize; 6]) {
        let mut arguments = core::array::from_fn(|at| self.x[reg::A0 + at]);
        arguments[0] = self.orig_a0;
        (self.x[reg::A7], arguments)
    }

    /// The system call was not made: what its first argument's register, which has its result otherwise, holds then.
    pub fn roll_back(&self) -> isize {
        self.orig_a0 as isize
    }

    /// The thread is in system call `number`.
    pub fn set_syscall(&mut self, number: usize) {
        self.syscall = number as isize;
    }

    /// EIO if the program is to stop after its next instruction: the hardware does not do that.
    pub fn set_single_step(&mut self, on: bool) -> Result<()> {
        if on { Err(Errno::EIO) } else { Ok(()) }
    }
}

/// Never asked for: see [`Frame::set_single_step`].
pub fn single_step(_on: bool) {}

/// AUDIT_ARCH_RISCV64 (include/uapi/linux/audit.h): how filters and tracers call the architecture.
pub const AUDIT: u32 = 0xc000_00f3;
