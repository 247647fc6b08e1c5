//! Registers of a stopped program, as ptrace(2) has them of one of 32 bits, or for one
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

/// Changes those that begin at the byte `from`, as many as there are whole words: all, or none.
///
/// # Errors
/// EINVAL (a state that no program may have).
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
