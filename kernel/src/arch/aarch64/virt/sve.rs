//! SVE registers of a guest whose monitor asks for them. Programs have none: they trap (CPTR_EL2.ZEN), so that what a guest
//! leaves in them is seen by nobody.

use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicU16, Ordering::*};

use super::super::sysreg::{isb, read, write};
use crate::errno::{Errno, Result};

/// CPTR_EL2.ZEN, which is where CPACR_EL1 has it (Arm ARM D24.2.36): SVE does not trap.
pub(super) const ON: usize = 0b11 << 16;
/// ID_AA64PFR0_EL1.SVE.
const FIELD: usize = 32;
/// The most quadwords of a vector.
const MOST: usize = 16;
/// Z0 to Z31, and P0 to P15 with FFR, of which each has a bit for each byte of a vector.
const VECTORS: usize = 32;
const PREDICATES: usize = 17;
/// Bytes of a quadword, and of its bits in a predicate.
const QUADWORD: usize = 16;
const BITS: usize = 2;

/// The lengths that all CPUs so far have: bit n for n + 1 quadwords.
static LENGTHS: AtomicU16 = AtomicU16::new(u16::MAX);

/// Takes this CPU's lengths into account.
pub(super) fn start_cpu() {
    if read!("id_aa64pfr0_el1") >> FIELD & 0xf == 0 {
        LENGTHS.store(0, Relaxed);
        return;
    }
    let features = read!("cpacr_el1");
    // SAFETY: the kernel has no use for vectors.
    unsafe { write!("cpacr_el1", features | ON) };
    isb();
    let lengths = (1..=MOST).fold(0, |lengths, wanted| {
        set_limit(wanted);
        lengths | 1 << (length() - 1)
    });
    LENGTHS.fetch_and(lengths, Relaxed);
    // SAFETY: as it was.
    unsafe { write!("cpacr_el1", features) };
    isb();
}

/// The lengths of vectors that a guest can have, in quadwords: bit n for n + 1. None where there are no vectors.
pub fn lengths() -> u16 {
    LENGTHS.load(Relaxed)
}

/// The most quadwords of a guest's vectors.
fn longest(lengths: u16) -> usize {
    MOST - lengths.leading_zeros() as usize
}

/// Vectors have as many quadwords as this at most from now on (ZCR_EL2.LEN).
fn set_limit(quadwords: usize) {
    // SAFETY: concerns guests alone; at EL2 with E2H this name is ZCR_EL2's.
    unsafe { write!("S3_0_C1_C2_0", quadwords - 1) };
    isb();
}

/// Quadwords of a vector now.
fn length() -> usize {
    let bytes: usize;
    // SAFETY: reads the length; callers have turned vectors on.
    unsafe {
        asm!(".arch_extension sve", "rdvl {}, #1", ".arch_extension nosve", out(reg) bytes, options(nomem, nostack, preserves_flags))
    };
    bytes / QUADWORD
}

/// The registers of a guest.
pub struct Sve {
    /// Quadwords of the longest vector that the guest can have.
    quadwords: usize,
    /// ZCR_EL1.
    pub control: u64,
    /// Vectors, then predicates, all of that length, once it is settled.
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
    /// EPERM: the length is settled. EINVAL: the hardware cannot have just these: it has all up to a longest one.
    pub fn set_lengths(&mut self, wanted: u16) -> Result<()> {
        if self.is_settled() {
            return Err(Errno::EPERM);
        }
        let longest = longest(wanted);
        if longest == 0 || wanted != lengths() & u16::MAX >> (MOST - longest) {
            return Err(Errno::EINVAL);
        }
        self.quadwords = longest;
        Ok(())
    }

    /// Whether the length is settled: from then on there are registers.
    pub fn is_settled(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Settles the length.
    ///
    /// # Errors
    /// EPERM: it is already.
    pub fn settle(&mut self) -> Result<()> {
        if self.is_settled() {
            return Err(Errno::EPERM);
        }
        let len = self.quadwords * (VECTORS * QUADWORD + PREDICATES * BITS);
        self.bytes
            .try_reserve_exact(len)
            .map_err(|_| Errno::ENOMEM)?;
        self.bytes.resize(len, 0);
        Ok(())
    }

    /// The bytes of a vector, lowest first.
    pub fn vector(&mut self, number: usize) -> Option<&mut [u8]> {
        let vectors = self.bytes.chunks_exact_mut(QUADWORD * self.quadwords);
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
        VECTORS * QUADWORD * self.quadwords
    }

    /// Puts them into this CPU, where they do not trap.
    pub(super) fn load(&self) {
        assert!(self.is_settled());
        set_limit(self.quadwords);
        let vectors = self.bytes.as_ptr();
        // SAFETY: loads as many bytes as there are, by the length that was set, into registers that no compiled code uses.
        // S3_5_C1_C2_0 is the guest's ZCR_EL1.
        unsafe {
            asm!(
                ".arch_extension sve",
                "ldr p0, [{predicates}, #16, mul vl]",
                "wrffr p0.b",
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
                "ldr p\\n, [{predicates}, #\\n, mul vl]",
                "ldr z\\n, [{vectors}, #\\n, mul vl]",
                ".endr",
                ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
                "ldr z\\n, [{vectors}, #\\n, mul vl]",
                ".endr",
                ".arch_extension nosve",
                "msr S3_5_C1_C2_0, {control}",
                vectors = in(reg) vectors,
                predicates = in(reg) vectors.add(self.predicates()),
                control = in(reg) self.control,
                options(nostack, preserves_flags, readonly),
            )
        };
    }

    /// Takes them from this CPU, which has had them since they were loaded.
    pub(super) fn save(&mut self) {
        let predicates = self.predicates();
        let vectors = self.bytes.as_mut_ptr();
        // SAFETY: stores as many bytes as there are, by the length that `load` set.
        unsafe {
            asm!(
                ".arch_extension sve",
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
                "str p\\n, [{predicates}, #\\n, mul vl]",
                "str z\\n, [{vectors}, #\\n, mul vl]",
                ".endr",
                ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
                "str z\\n, [{vectors}, #\\n, mul vl]",
                ".endr",
                "rdffr p0.b",
                "str p0, [{predicates}, #16, mul vl]",
                ".arch_extension nosve",
                "mrs {control}, S3_5_C1_C2_0",
                vectors = in(reg) vectors,
                predicates = in(reg) vectors.add(predicates),
                control = out(reg) self.control,
                options(nostack, preserves_flags),
            )
        };
    }
}
