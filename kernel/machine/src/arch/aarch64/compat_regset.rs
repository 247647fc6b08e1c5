//! Registers of a stopped 32-bit program, as ptrace(2) has them
//! (`arch/arm64/kernel/ptrace.c`, `user_aarch32_view`).

use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use super::frame::{Frame, pstate};
use super::thread::ThreadState;
use crate::errno::{Errno, Result};

/// NT_ARM_VFP: 32 registers of 64 bits, and FPSCR.
pub const VFP: u32 = 0x400;

/// Words of the general registers: r0 to r15, CPSR, and the r0 that a system call was made with.
const GENERAL: usize = 18;
/// Where they have the program counter, CPSR, the first r0.
const PC: usize = 15;
const CPSR: usize = 16;
const FIRST_R0: usize = 17;

/// Vector registers of 128 bits that hold the 32 of 64.
const QUADS: usize = 16;
/// Bytes of the set, without FPSCR.
const VECTORS: usize = 16 * QUADS;
/// Bits of FPSCR that FPSR holds; the others are FPCR's (Arm ARM G8.2.54).
const STATUS: u32 = 0xf800_009f;
const CONTROL: u32 = 0x07f7_9f00;

fn words(frame: &Frame) -> [u32; GENERAL] {
    let mut words = [0; GENERAL];
    for (word, register) in words[..PC].iter_mut().zip(&frame.x) {
        *word = *register as u32;
    }
    words[PC] = frame.pc() as u32;
    words[CPSR] = (frame.pstate & !pstate::SS) as u32;
    words[FIRST_R0] = frame.orig_x0 as u32;
    words
}

/// Appends the general registers.
pub fn general(state: &ThreadState, bytes: &mut Vec<u8>) {
    state.with_stopped_frame(|frame| bytes.extend_from_slice(words(frame).as_bytes()));
}

/// Changes them all.
///
/// # Errors
/// EINVAL (a state that no program may have).
pub fn set_general(state: &ThreadState, bytes: &[u8]) -> Result<()> {
    let words = <[u32; GENERAL]>::read_from_bytes(bytes).map_err(|_| Errno::EINVAL)?;
    let pstate = pstate::of_compat(words[CPSR] as usize).ok_or(Errno::EINVAL)?;
    state.with_stopped_frame(|frame| {
        for (register, word) in frame.x.iter_mut().zip(&words[..PC]) {
            *register = *word as usize;
        }
        frame.pc = words[PC] as usize;
        frame.pstate = pstate;
        frame.orig_x0 = words[FIRST_R0] as usize;
    });
    Ok(())
}

/// Appends the floating-point registers.
pub fn vfp(state: &ThreadState, bytes: &mut Vec<u8>) {
    state.with_stopped_fp(|fp| {
        bytes.extend_from_slice(fp.v[..QUADS].as_bytes());
        let fpscr = fp.fpsr & STATUS | fp.fpcr & CONTROL;
        bytes.extend_from_slice(&fpscr.to_ne_bytes());
    });
}

/// Changes them all.
///
/// # Errors
/// EINVAL (not as many bytes).
pub fn set_vfp(state: &ThreadState, bytes: &[u8]) -> Result<()> {
    let (vectors, fpscr) = bytes.split_at_checked(VECTORS).ok_or(Errno::EINVAL)?;
    let fpscr = u32::read_from_bytes(fpscr).map_err(|_| Errno::EINVAL)?;
    state.with_stopped_fp(|fp| {
        fp.v[..QUADS].as_mut_bytes().copy_from_slice(vectors);
        fp.fpsr = fpscr & STATUS;
        fp.fpcr = fpscr & CONTROL;
    });
    Ok(())
}
