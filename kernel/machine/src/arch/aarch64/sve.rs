//! SVE: vectors whose length a thread chooses.
//!
//! A program's first instruction of SVE traps (CPACR_EL1.ZEN); from then on its thread has a copy
//! of Z0 to Z31, P0 to P15 and FFR, and its switches move these in place of V0 to V31, which are
//! the low parts of Z0 to Z31. No other thread pays. System calls keep V0 to V31 alone
//! (`sve_calls`).

use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

use linux_raw_sys::prctl::{PR_SVE_SET_VL_ONEXEC, PR_SVE_VL_INHERIT, PR_SVE_VL_LEN_MASK};
use zerocopy::IntoBytes;

use super::sysreg::{isb, read, write};
use super::{cpu, features};
use crate::arch::{task, unequal};
use crate::errno::{Errno, Result};

/// Bytes of a quadword, of which lengths are multiples.
pub(super) const QUAD: usize = 16;
/// Bytes of the longest vectors.
const LONGEST: usize = 16 * QUAD;
/// Bytes of the longest that Linux's interface has room for (SVE_VL_MAX).
const IMAGINABLE: usize = 512 * QUAD;
/// Bytes of the vectors that a program finds, if the CPUs can, as on Linux.
const DEFAULT: usize = 64;

/// CPACR_EL1.ZEN (Arm ARM D24.2.36), and CPTR_EL2's: SVE does not trap.
pub(super) const ZEN: usize = 0b11 << 16;
/// Programs' instructions trap, the kernel's do not.
const KERNEL_ALONE: usize = 0b01 << 16;

/// The lengths that all CPUs have: bit N is that of N + 1 quadwords.
static LENGTHS: AtomicU16 = AtomicU16::new(u16::MAX);

/// Whether programs have SVE.
#[inline]
pub(super) fn present() -> bool {
    features().sve()
}

/// The boot parameter of a CPU that gives it shorter vectors: quadwords less one, as in
/// ZCR_EL1.LEN.
pub(super) const LENGTH: &str = "ZCR_EL1.LEN";

/// Quadwords of the longest vectors that this CPU may have by its boot parameter.
fn longest_allowed() -> usize {
    let index = cpu::this().index();
    let mut asked = unequal::parameters(index).filter(|(name, _)| *name == LENGTH);
    let Some((name, value)) = asked.next() else {
        return LONGEST / QUAD;
    };
    match value.parse::<usize>() {
        Ok(len) if len < LONGEST / QUAD => len + 1,
        _ => {
            unequal::refuse(index, name, value, "not 0 to 15");
            LONGEST / QUAD
        }
    }
}

/// The lengths that this CPU has.
fn probe() -> u16 {
    close();
    let (mut lengths, mut next) = (0, longest_allowed());
    while next > 0 {
        set_length(next * QUAD);
        let length: usize;
        // SAFETY: reads the length, with SVE on for the kernel.
        unsafe {
            asm!(".arch_extension sve", "rdvl {}, #1", ".arch_extension nosve", ".arch_extension nofp", out(reg) length, options(nomem, nostack, preserves_flags))
        };
        lengths |= 1 << (length / QUAD - 1);
        next = length / QUAD - 1;
    }
    lengths
}

/// Takes this CPU, which has SVE, into account.
pub(super) fn fold() {
    LENGTHS.fetch_and(probe(), Relaxed);
}

/// Whether this CPU has the lengths that were promised. Programs find SVE off here.
pub(super) fn start_cpu() -> bool {
    let promised = LENGTHS.load(Relaxed);
    probe() & promised == promised
}

/// The lengths that all CPUs have, as `LENGTHS` has them; none without SVE.
pub fn lengths() -> u16 {
    if present() { LENGTHS.load(Relaxed) } else { 0 }
}

/// Bytes of the longest vectors that all CPUs have, up to `wish`; of the shortest if none is that
/// short.
fn supported(wish: usize) -> usize {
    let lengths = LENGTHS.load(Relaxed);
    let fits = lengths & (!0 >> (LONGEST / QUAD - wish.clamp(QUAD, LONGEST) / QUAD));
    let quads = match fits {
        0 => lengths.trailing_zeros() + 1,
        fits => fits.ilog2() + 1,
    };
    quads as usize * QUAD
}

/// Bytes of the longest vectors.
pub(super) fn longest() -> usize {
    supported(LONGEST)
}

fn set_zen(zen: usize) {
    // SAFETY: says who may use SVE, which the kernel does here alone.
    unsafe { write!("cpacr_el1", read!("cpacr_el1") & !ZEN | zen) };
    isb();
}

/// Programs' instructions of SVE trap.
fn close() {
    set_zen(KERNEL_ALONE);
}

/// ZCR_EL1.LEN
fn set_length(bytes: usize) {
    // SAFETY: the length of registers that no compiled code uses.
    unsafe { write!("S3_0_C1_C2_0", bytes / QUAD - 1) };
    isb();
}

/// Stores this CPU's registers from `z` on.
///
/// # Safety
/// There is room for an image of vectors of `length` bytes, which is what this CPU is set to.
pub(super) unsafe fn store(z: *mut u8, length: usize) {
    // SAFETY: stores 32 vectors, 16 predicates and FFR, which there is room for.
    unsafe {
        asm!(
            ".arch_extension sve",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "str z\\n, [{z}, #\\n, mul vl]",
            ".endr",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "str p\\n, [{p}, #\\n, mul vl]",
            ".endr",
            "rdffr p0.b",
            "str p0, [{p}, #16, mul vl]",
            "ldr p0, [{p}]",
            ".arch_extension nosve",
            ".arch_extension nofp",
            z = in(reg) z,
            p = in(reg) z.wrapping_add(32 * length),
            options(nostack, preserves_flags),
        )
    };
}

/// Sets this CPU to vectors of `length` bytes, and loads its registers from `z` on.
///
/// # Safety
/// There is an image of such vectors.
pub(super) unsafe fn load(z: *const u8, length: usize) {
    set_length(length);
    // SAFETY: loads 32 vectors, 16 predicates and FFR into registers that no compiled code uses.
    unsafe {
        asm!(
            ".arch_extension sve",
            "ldr p0, [{p}, #16, mul vl]",
            "wrffr p0.b",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "ldr z\\n, [{z}, #\\n, mul vl]",
            ".endr",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "ldr p\\n, [{p}, #\\n, mul vl]",
            ".endr",
            ".arch_extension nosve",
            ".arch_extension nofp",
            z = in(reg) z,
            p = in(reg) z.wrapping_add(32 * length),
            options(nostack, preserves_flags, readonly),
        )
    };
}

/// What new programs find from now on, in bytes; 0 for [`DEFAULT`].
static FOUND: AtomicU16 = AtomicU16::new(0);

/// Bytes of the vectors that a program finds; none without SVE.
pub fn default_vector_length() -> Option<usize> {
    let wish = match FOUND.load(Relaxed) {
        0 => DEFAULT,
        length => length.into(),
    };
    present().then(|| supported(wish))
}

/// Sets that to the longest vectors that there are up to `length` bytes, or to the longest (-1).
///
/// # Errors
/// EINVAL: no such length can be.
pub fn set_default_vector_length(length: i32) -> Result<()> {
    let wish = match length {
        -1 => LONGEST,
        length => usize::try_from(length).map_err(|_| Errno::EINVAL)?,
    };
    if !wish.is_multiple_of(QUAD) || !(QUAD..=IMAGINABLE).contains(&wish) {
        return Err(Errno::EINVAL);
    }
    FOUND.store(supported(wish) as u16, Relaxed);
    Ok(())
}

/// The lengths that a thread asked for, in bytes; 0 is the default.
#[derive(Clone, Copy, Default)]
pub(super) struct Lengths {
    now: u16,
    /// After the next execve.
    next: u16,
    /// `next` stays for those after it, too.
    inherited: bool,
}

impl Lengths {
    /// Bytes of a vector now.
    pub fn now(self) -> usize {
        match self.now {
            0 => supported(DEFAULT),
            length => length.into(),
        }
    }

    /// Those of the next program.
    pub fn after_exec(self) -> Self {
        Lengths {
            now: match self.next {
                0 => FOUND.load(Relaxed),
                length => length,
            },
            next: if self.inherited { self.next } else { 0 },
            inherited: self.inherited,
        }
    }

    /// PR_SVE_VL_INHERIT, if it was asked for.
    pub fn inherits(self) -> u32 {
        if self.inherited { PR_SVE_VL_INHERIT } else { 0 }
    }

    /// What PR_SVE_SET_VL makes of `argument`.
    ///
    /// # Errors
    /// EINVAL: there is no such length or flag.
    pub fn with_length_set(self, argument: u32) -> Result<Self> {
        let length = (argument & PR_SVE_VL_LEN_MASK) as usize;
        let flags = argument & !PR_SVE_VL_LEN_MASK;
        if flags & !(PR_SVE_SET_VL_ONEXEC | PR_SVE_VL_INHERIT) != 0
            || length == 0
            || length > IMAGINABLE
            || !length.is_multiple_of(QUAD)
        {
            return Err(Errno::EINVAL);
        }
        let length = supported(length) as u16;
        let deferred = flags & PR_SVE_SET_VL_ONEXEC != 0;
        Ok(Lengths {
            now: if deferred { self.now } else { length },
            next: if flags != 0 { length } else { 0 },
            inherited: flags & PR_SVE_VL_INHERIT != 0,
        })
    }
}

/// Z0 to Z31, P0 to P15 and FFR, one after the other as `struct sve_context` has them; none of a
/// thread without.
#[derive(Default)]
pub(super) struct Image {
    words: Vec<u64>,
    length: usize,
}

/// Bytes of an image of vectors of `length` bytes.
pub(super) const fn image_size(length: usize) -> usize {
    32 * length + 17 * (length / 8)
}

impl Image {
    /// None.
    pub const NONE: Image = Image {
        words: Vec::new(),
        length: 0,
    };

    /// All zero.
    ///
    /// # Errors
    /// ENOMEM
    pub fn zero(length: usize) -> Result<Self> {
        let count = image_size(length).div_ceil(8);
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        words.resize(count, 0);
        Ok(Image { words, length })
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.words.is_empty()
    }

    /// As programs see it.
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..image_size(self.length)]
    }

    /// As programs change it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let size = image_size(self.length);
        &mut self.words.as_mut_bytes()[..size]
    }

    /// Takes V0 to V31 for the low parts of Z0 to Z31.
    pub fn set_low(&mut self, v: &[[u64; 2]; 32]) {
        for (z, v) in self.words.chunks_mut(self.length / 8).zip(v) {
            z[..2].copy_from_slice(v);
        }
    }

    /// Takes V0 to V31 for the low parts of Z0 to Z31, and zero for all else, if there is an image.
    pub fn set_alone(&mut self, v: &[[u64; 2]; 32]) {
        if !self.is_none() {
            self.words.fill(0);
            self.set_low(v);
        }
    }

    /// V0 to V31.
    pub fn low(&self, v: &mut [[u64; 2]; 32]) {
        for (z, v) in self.words.chunks(self.length / 8).zip(v) {
            v.copy_from_slice(&z[..2]);
        }
    }

    /// Stores this CPU's registers, whose length is the image's.
    pub fn save(&mut self) {
        // SAFETY: the image has room for vectors of its length.
        unsafe { store(self.words.as_mut_ptr().cast(), self.length) };
    }

    /// Loads this CPU's registers, and lets the program use them.
    pub fn load(&self) {
        // SAFETY: the image holds vectors of its length.
        unsafe { load(self.words.as_ptr().cast(), self.length) };
        set_zen(ZEN);
    }

    /// Stores this CPU's registers; the next program's instructions trap.
    pub fn leave(&mut self) {
        self.save();
        close();
    }

    /// Forgets the registers but V0 to V31, which stay in this CPU.
    pub fn drop_live(&mut self) {
        if !self.is_none() {
            *self = Image::NONE;
            close();
        }
    }
}

/// PR_SVE_SET_VL: what is asked for, and what comes of it.
///
/// # Errors
/// EINVAL: no SVE, or no such length.
pub(super) fn set_vl(argument: usize) -> Result<usize> {
    let state = task::state();
    if !present() || state.is_compat() {
        return Err(Errno::EINVAL);
    }
    let argument = argument as u32;
    let lengths = state.sve_lengths().with_length_set(argument)?;
    if lengths.now() != state.sve_lengths().now() {
        state.end_sve();
    }
    state.set_sve_lengths(lengths);
    let length = if argument & PR_SVE_SET_VL_ONEXEC != 0 {
        lengths.next.into()
    } else {
        lengths.now()
    };
    Ok(length | lengths.inherits() as usize)
}

/// PR_SVE_GET_VL
///
/// # Errors
/// EINVAL: no SVE.
pub(super) fn get_vl() -> Result<usize> {
    let state = task::state();
    if !present() || state.is_compat() {
        return Err(Errno::EINVAL);
    }
    let lengths = state.sve_lengths();
    Ok(lengths.now() | lengths.inherits() as usize)
}
