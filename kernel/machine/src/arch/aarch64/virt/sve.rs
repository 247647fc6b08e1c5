//! The SVE registers of a guest whose VMM enables SVE.

use alloc::vec::Vec;

use super::super::sve::{self as host, QUAD, image_size};
use super::super::sysreg::{read, write};
use crate::errno::{Errno, Result};

pub(super) use host::ZEN as ON;
pub use host::lengths;

/// The maximum length of a vector, in quadwords.
const MOST: usize = 16;
/// Number of vectors, Z0 to Z31. P0 to P15 and FFR, which follow, have a bit for each byte of a
/// vector.
const VECTORS: usize = 32;
/// Bytes of a predicate for each quadword.
const BITS: usize = 2;

/// The longest of a set of vector lengths, in quadwords.
fn longest(lengths: u16) -> usize {
    MOST - lengths.leading_zeros() as usize
}

/// The SVE registers of a guest.
pub struct Sve {
    /// The guest's maximum vector length, in quadwords.
    quadwords: usize,
    /// ZCR_EL1.
    pub control: u64,
    /// Vectors, followed by predicates, of that length; empty until the length is finalized.
    bytes: Vec<u8>,
}

impl Sve {
    /// The initial state, with the longest supported vectors, which can still be reduced.
    pub fn new() -> Self {
        Sve {
            quadwords: longest(lengths()),
            control: 0,
            bytes: Vec::new(),
        }
    }

    /// Zeroes the registers, and keeps the length.
    pub fn reset(&mut self) {
        self.control = 0;
        self.bytes.fill(0);
    }

    /// The vector lengths of the guest, in the format of [`lengths`].
    pub fn lengths(&self) -> u16 {
        lengths() & u16::MAX >> (MOST - self.quadwords)
    }

    /// Sets the vector lengths of the guest.
    ///
    /// # Errors
    /// EPERM if the length is finalized. EINVAL if the hardware cannot provide exactly these: it
    /// provides all lengths up to a maximum.
    pub fn set_lengths(&mut self, wanted: u16) -> Result<()> {
        if self.is_finalized() {
            return Err(Errno::EPERM);
        }
        let longest = longest(wanted);
        if longest == 0 || wanted != lengths() & u16::MAX >> (MOST - longest) {
            return Err(Errno::EINVAL);
        }
        self.quadwords = longest;
        Ok(())
    }

    /// Whether the length is finalized: only then there are registers.
    pub fn is_finalized(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Finalizes the length.
    ///
    /// # Errors
    /// EPERM if it is already finalized; ENOMEM.
    pub fn finalize(&mut self) -> Result<()> {
        if self.is_finalized() {
            return Err(Errno::EPERM);
        }
        let len = image_size(QUAD * self.quadwords);
        self.bytes
            .try_reserve_exact(len)
            .map_err(|_| Errno::ENOMEM)?;
        self.bytes.resize(len, 0);
        Ok(())
    }

    /// The bytes of a vector, least significant first.
    pub fn vector(&mut self, number: usize) -> Option<&mut [u8]> {
        let vectors = self.bytes.chunks_exact_mut(QUAD * self.quadwords);
        vectors.take(VECTORS).nth(number)
    }

    /// The bytes of a predicate; the last one is FFR.
    pub fn predicate(&mut self, number: usize) -> Option<&mut [u8]> {
        let first = self.predicates();
        let predicates = self.bytes.get_mut(first..)?;
        predicates
            .chunks_exact_mut(BITS * self.quadwords)
            .nth(number)
    }

    /// The offset of the predicates.
    fn predicates(&self) -> usize {
        VECTORS * QUAD * self.quadwords
    }

    /// Loads the registers into this CPU, on which SVE does not trap.
    pub(super) fn load(&self) {
        assert!(self.is_finalized());
        // SAFETY: the bytes are an image of vectors of this length; S3_5_C1_C2_0 is the guest's
        // ZCR_EL1.
        unsafe {
            host::load(self.bytes.as_ptr(), QUAD * self.quadwords);
            write!("S3_5_C1_C2_0", self.control);
        }
    }

    /// Saves the registers from this CPU, which has held them since they were loaded.
    pub(super) fn save(&mut self) {
        // SAFETY: the bytes have room for vectors of the length that `load` set.
        unsafe { host::store(self.bytes.as_mut_ptr(), QUAD * self.quadwords) };
        self.control = read!("S3_5_C1_C2_0") as u64;
    }
}
