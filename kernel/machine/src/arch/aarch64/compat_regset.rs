//! Registers of a stopped program, as seen by ptrace(2) of a 32-bit program or tracer
//! (`arch/arm64/kernel/ptrace.c`, `user_aarch32_view`).

use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use super::frame::{Frame, pstate};
use super::thread::ThreadState;
use crate::errno::{Errno, Result};

/// NT_ARM_VFP: 32 registers of 64 bits, and FPSCR.
pub const VFP: u32 = 0x400;

/// Number of words of the general registers: r0 to r15, CPSR, and the original r0 of a system call.
const GENERAL: usize = 18;
/// The indices of the program counter, CPSR and the original r0.
const PC: usize = 15;
const CPSR: usize = 16;
const FIRST_R0: usize = 17;

/// Number of 128-bit vector registers that hold the 32 64-bit ones.
const QUADS: usize = 16;
/// Size of the set in bytes, without FPSCR.
const VECTORS: usize = 16 * QUADS;
/// Bits of FPSCR that are in FPSR, and those that are in FPCR (Arm ARM, FPSCR).
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

/// Sets the registers from byte `from` on, as many as there are whole words: all or none.
///
/// # Errors
/// EINVAL (an illegal CPSR).
pub fn set_general(state: &ThreadState, from: usize, bytes: &[u8]) -> Result<()> {
    let of_program = match state.is_compat() {
        true => pstate::of_compat,
        false => pstate::of_program,
    };
    let (words, _) = bytes.as_chunks();
    state.with_stopped_frame(|frame| {
        let mut new = frame.clone();
        for (at, word) in (from / size_of::<u32>()..GENERAL).zip(words) {
            let word = u32::from_ne_bytes(*word) as usize;
            match at {
                PC => new.pc = word,
                CPSR => new.pstate = of_program(word).ok_or(Errno::EINVAL)?,
                FIRST_R0 => new.orig_x0 = word,
                _ => new.x[at] = word,
            }
        }
        *frame = new;
        Ok(())
    })
}

/// Appends the floating-point registers.
pub fn vfp(state: &ThreadState, bytes: &mut Vec<u8>) {
    state.with_stopped_fp(|fp| {
        bytes.extend_from_slice(fp.v[..QUADS].as_bytes());
        let fpscr = fp.fpsr & STATUS | fp.fpcr & CONTROL;
        bytes.extend_from_slice(&fpscr.to_ne_bytes());
    });
}

/// Sets all floating-point registers.
///
/// # Errors
/// EINVAL (too few or too many bytes).
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
