//! SVE registers of a stopped thread for ptrace(2): `struct user_sve_header`, followed by the
//! registers, only those of FP and SIMD while the thread does not use SVE
//! (`arch/arm64/include/uapi/asm/ptrace.h`).

use alloc::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::sve::{self, Image, QUAD, image_size};
use super::thread::ThreadState;
use crate::errno::{Errno, Result};

/// `struct user_sve_header`
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Header {
    size: u32,
    max_size: u32,
    length: u16,
    max_length: u16,
    flags: u16,
    reserved: u16,
}

const HEADER: usize = size_of::<Header>();
/// SVE_PT_REGS_SVE: all registers follow.
const WITH_SVE: u16 = 1;
/// Size in bytes of `struct user_fpsimd_state`, and of V0 to V31 in it.
const FPSIMD: usize = 528;
const VECTORS: usize = 512;

/// The offset of FPSR and FPCR after the registers of vectors of `length` bytes.
fn control(length: usize) -> usize {
    (HEADER + image_size(length)).next_multiple_of(QUAD)
}

/// Size in bytes of the set with the registers of vectors of `length` bytes.
fn whole(length: usize) -> usize {
    (control(length) + 8).next_multiple_of(QUAD)
}

/// Size of the largest set in bytes.
pub(super) fn most() -> usize {
    whole(sve::longest())
}

/// Appends the set to `bytes`.
pub(super) fn get(state: &ThreadState, bytes: &mut Vec<u8>) -> Result<()> {
    let lengths = state.sve_lengths();
    let in_use = state.with_stopped_sve(|image| !image.is_none());
    let size = if in_use {
        whole(lengths.now())
    } else {
        HEADER + FPSIMD
    };
    bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
    let header = Header {
        size: size as u32,
        max_size: most() as u32,
        length: lengths.now() as u16,
        max_length: sve::longest() as u16,
        flags: if in_use { WITH_SVE } else { 0 } | (lengths.inherits() >> 16) as u16,
        reserved: 0,
    };
    bytes.extend_from_slice(header.as_bytes());
    if in_use {
        state.with_stopped_sve(|image| bytes.extend_from_slice(image.bytes()));
        bytes.resize(control(lengths.now()), 0);
    }
    state.with_stopped_fp(|fp| {
        if !in_use {
            bytes.extend_from_slice(fp.v.as_bytes());
        }
        bytes.extend_from_slice([fp.fpsr, fp.fpcr].as_bytes());
    });
    bytes.resize(size, 0);
    Ok(())
}

/// Changes the set; the part beyond `bytes` stays unchanged.
///
/// # Errors
/// EINVAL (no header, or an invalid one), EIO (registers of a length that the thread cannot have),
/// ENOMEM.
pub(super) fn set(state: &ThreadState, bytes: &[u8]) -> Result<()> {
    let (header, registers) = Header::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
    let asked = u32::from(header.length) | u32::from(header.flags & !WITH_SVE) << 16;
    let before = state.sve_lengths().now();
    let lengths = state.sve_lengths().with_length_set(asked)?;
    let length = lengths.now();
    let with_sve = header.flags & WITH_SVE != 0;
    if with_sve && !registers.is_empty() && length != header.length.into() {
        return Err(Errno::EIO);
    }
    let fresh = Image::zero(length)?;
    state.set_sve_lengths(lengths);
    state.with_stopped_fp(|_| ());
    if with_sve {
        let mut v = [[0; 2]; 32];
        state.with_stopped_fp(|fp| v = fp.v);
        state.with_stopped_sve(|image| {
            if image.is_none() || length != before {
                *image = fresh;
                image.set_low(&v);
            }
            let len = registers.len().min(image_size(length));
            image.bytes_mut()[..len].copy_from_slice(&registers[..len]);
        });
        set_control(state, bytes, control(length));
    } else {
        state.with_stopped_sve(|image| *image = Image::NONE);
        state.with_stopped_fp(|fp| {
            let len = registers.len().min(VECTORS);
            fp.v.as_mut_bytes()[..len].copy_from_slice(&registers[..len]);
        });
        set_control(state, bytes, HEADER + VECTORS);
    }
    Ok(())
}

/// Sets FPSR and FPCR from offset `at` of `bytes`, as far as they are present.
fn set_control(state: &ThreadState, bytes: &[u8], at: usize) {
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .and_then(|word| u32::read_from_bytes(word).ok())
    };
    state.with_stopped_fp(|fp| {
        fp.fpsr = word(at).unwrap_or(fp.fpsr);
        fp.fpcr = word(at + 4).unwrap_or(fp.fpcr);
    });
}
