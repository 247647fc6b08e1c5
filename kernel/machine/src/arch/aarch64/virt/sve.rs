//! SVE registers of a guest whose VMM asks for them.

use alloc::vec::Vec;

use super::super::sve::{self as host, QUAD, image_size};
use super::super::sysreg::{read, write};
use crate::errno::{Errno, Result};

pub(super) use host::ZEN as ON;
pub use host::lengths;

/// The most quadwords of a vector.
const MOST: usize = 16;
/// Z0 to Z31, and P0 to P15 with FFR, of which each has a bit for each byte of a vector.
const VECTORS: usize = 32;
/// Bytes of a quadword's bits in a predicate.
const BITS: usize = 2;

/// The most quadwords of a guest's vectors.
fn longest(lengths: u16) -> usize {
    MOST - lengths.leading_zeros() as usize
}

/// The registers of a guest.
pub struct Sve {
    /// Quadwords of the longest vector that the guest can have.
    quadwords: usize,
    /// ZCR_EL1.
    pub control: u64,
    /// Vectors, then predicates, all of that length, once it is finalized.
    bytes: Vec<u8>,
}

impl Sve {
    /// With the longest vectors that there are, which can still be made shorter.
    pub fn new() -> Self {
        Sve {
            quadwords: longest(lengths()),
            control: 0,
            bytes: Vec::new(),
        }
    }

    /// All zero, as long as they were.
    pub fn reset(&mut self) {
        self.control = 0;
        self.bytes.fill(0);
    }

    /// The lengths that the guest can have, as [`lengths`] has them.
    pub fn lengths(&self) -> u16 {
        lengths() & u16::MAX >> (MOST - self.quadwords)
    }

    /// Has the guest have these.
    ///
    /// # Errors
    /// EPERM: the length is finalized. EINVAL: the hardware cannot have just these: it has all up
    /// to a longest one.
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

    /// Whether the length is finalized: from then on there are registers.
    pub fn is_finalized(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Finalizes the length.
    ///
    /// # Errors
    /// EPERM: it is already.
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

    /// The bytes of a vector, lowest first.
    pub fn vector(&mut self, number: usize) -> Option<&mut [u8]> {
        let vectors = self.bytes.chunks_exact_mut(QUAD * self.quadwords);
        vectors.take(VECTORS).nth(number)
    }

    /// Those of a predicate, of which the last is FFR.
    pub fn predicate(&mut self, number: usize) -> Option<&mut [u8]> {
        let first = self.predicates();
        let predicates = self.bytes.get_mut(first..)?;
        predicates
            .chunks_exact_mut(BITS * self.quadwords)
            .nth(number)
    }

    /// Where predicates begin.
    fn predicates(&self) -> usize {
        VECTORS * QUAD * self.quadwords
    }

    /// Puts them into this CPU, where they do not trap.
    pub(super) fn load(&self) {
        assert!(self.is_finalized());
        // SAFETY: the bytes are an image of vectors of this length; S3_5_C1_C2_0 is the guest's
        // ZCR_EL1.
        unsafe {
            host::load(self.bytes.as_ptr(), QUAD * self.quadwords);
            write!("S3_5_C1_C2_0", self.control);
        }
    }

    /// Takes them from this CPU, which has had them since they were loaded.
    pub(super) fn save(&mut self) {
        // SAFETY: the bytes have room for vectors of the length that `load` set.
        unsafe { host::store(self.bytes.as_mut_ptr(), QUAD * self.quadwords) };
        self.control = read!("S3_5_C1_C2_0") as u64;
    }
}
