//! SVE, with a vector length per thread.
//!
//! A program's first SVE instruction traps (CPACR_EL1.ZEN); from then on its thread has an image of
//! Z0 to Z31, P0 to P15 and FFR, which context switches save and restore instead of V0 to V31, the
//! low parts of Z0 to Z31. Other threads do not pay. System calls preserve only V0 to V31
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

/// Size of a quadword in bytes; vector lengths are multiples of it.
pub(super) const QUAD: usize = 16;
/// The architectural maximum of the vector length, in bytes.
const LONGEST: usize = 16 * QUAD;
/// The maximum vector length of Linux's interface (SVE_VL_MAX), in bytes.
const IMAGINABLE: usize = 512 * QUAD;
/// The default vector length in bytes, if the CPUs support it, as on Linux.
const DEFAULT: usize = 64;

/// CPACR_EL1.ZEN and CPTR_EL2.ZEN: SVE does not trap.
pub(super) const ZEN: usize = 0b11 << 16;
/// SVE traps at EL0, but not in the kernel.
const KERNEL_ALONE: usize = 0b01 << 16;

/// The vector lengths that all CPUs support: bit N stands for N + 1 quadwords.
static LENGTHS: AtomicU16 = AtomicU16::new(u16::MAX);

/// Whether programs can use SVE.
#[inline]
pub(super) fn present() -> bool {
    features().sve()
}

/// The boot parameter that restricts a CPU to shorter vectors: quadwords minus one, as in
/// ZCR_EL1.LEN.
pub(super) const LENGTH: &str = "ZCR_EL1.LEN";

/// The longest vectors that this CPU's boot parameter permits, in quadwords.
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

/// The vector lengths that this CPU supports.
fn probe() -> u16 {
    close();
    let (mut lengths, mut next) = (0, longest_allowed());
    while next > 0 {
        set_length(next * QUAD);
        let length: usize;
        // SAFETY: reads the vector length while SVE is enabled for the kernel.
        unsafe {
            asm!(".arch_extension sve", "rdvl {}, #1", ".arch_extension nosve", ".arch_extension nofp", out(reg) length, options(nomem, nostack, preserves_flags))
        };
        lengths |= 1 << (length / QUAD - 1);
        next = length / QUAD - 1;
    }
    lengths
}

/// Folds the lengths of this CPU, which has SVE, into the common set.
pub(super) fn fold() {
    LENGTHS.fetch_and(probe(), Relaxed);
}

/// Whether this CPU supports all common lengths. Disables SVE for programs on it.
pub(super) fn start_cpu() -> bool {
    let promised = LENGTHS.load(Relaxed);
    probe() & promised == promised
}

/// The vector lengths that all CPUs support, in the format of `LENGTHS`; none without SVE.
pub fn lengths() -> u16 {
    if present() { LENGTHS.load(Relaxed) } else { 0 }
}

/// The longest common vector length up to `wish`, in bytes; the shortest if all are longer.
fn supported(wish: usize) -> usize {
    let lengths = LENGTHS.load(Relaxed);
    let fits = lengths & (!0 >> (LONGEST / QUAD - wish.clamp(QUAD, LONGEST) / QUAD));
    let quads = match fits {
        0 => lengths.trailing_zeros() + 1,
        fits => fits.ilog2() + 1,
    };
    quads as usize * QUAD
}

/// The longest common vector length in bytes.
pub(super) fn longest() -> usize {
    supported(LONGEST)
}

fn set_zen(zen: usize) {
    // SAFETY: controls who may use SVE, which the kernel does only here.
    unsafe { write!("cpacr_el1", read!("cpacr_el1") & !ZEN | zen) };
    isb();
}

/// Makes SVE instructions of programs trap.
fn close() {
    set_zen(KERNEL_ALONE);
}

/// Sets ZCR_EL1.LEN.
fn set_length(bytes: usize) {
    // SAFETY: the length of registers that no compiled code uses.
    unsafe { write!("S3_0_C1_C2_0", bytes / QUAD - 1) };
    isb();
}

/// Saves this CPU's registers to `z`.
///
/// # Safety
/// `z` has room for an image of vectors of `length` bytes, the CPU's current length.
pub(super) unsafe fn store(z: *mut u8, length: usize) {
    // SAFETY: writes 32 vectors, 16 predicates and FFR, for which there is room.
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

/// Sets this CPU's vector length to `length` bytes, and loads its registers from `z`.
///
/// # Safety
/// `z` points to an image of such vectors.
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

/// The default vector length of new programs, in bytes; 0 for [`DEFAULT`].
static FOUND: AtomicU16 = AtomicU16::new(0);

/// The default vector length in bytes; none without SVE.
pub fn default_vector_length() -> Option<usize> {
    let wish = match FOUND.load(Relaxed) {
        0 => DEFAULT,
        length => length.into(),
    };
    present().then(|| supported(wish))
}

/// Sets the default to the longest common vector length up to `length` bytes, or to the longest one
/// (-1).
///
/// # Errors
/// EINVAL if the length is invalid.
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

/// The vector lengths that a thread has requested, in bytes; 0 for the default.
#[derive(Clone, Copy, Default)]
pub(super) struct Lengths {
    now: u16,
    /// The length after the next execve.
    next: u16,
    /// Whether `next` persists after that execve (PR_SVE_VL_INHERIT).
    inherited: bool,
}

impl Lengths {
    /// The current vector length in bytes.
    pub fn now(self) -> usize {
        match self.now {
            0 => supported(DEFAULT),
            length => length.into(),
        }
    }

    /// The lengths of the next program.
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

    /// PR_SVE_VL_INHERIT, if it was requested.
    pub fn inherits(self) -> u32 {
        if self.inherited { PR_SVE_VL_INHERIT } else { 0 }
    }

    /// Applies the argument of PR_SVE_SET_VL.
    ///
    /// # Errors
    /// EINVAL if the length or a flag is invalid.
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

/// Z0 to Z31, P0 to P15 and FFR, in the layout of `struct sve_context`; empty for a thread that
/// does not use SVE.
#[derive(Default)]
pub(super) struct Image {
    words: Vec<u64>,
    length: usize,
}

/// Size in bytes of an image of vectors of `length` bytes.
pub(super) const fn image_size(length: usize) -> usize {
    32 * length + 17 * (length / 8)
}

impl Image {
    /// The empty image.
    pub const NONE: Image = Image {
        words: Vec::new(),
        length: 0,
    };

    /// Allocates a zeroed image.
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

    /// Whether it is empty.
    pub fn is_none(&self) -> bool {
        self.words.is_empty()
    }

    /// The registers in the format for programs.
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..image_size(self.length)]
    }

    /// The registers in the format for programs, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let size = image_size(self.length);
        &mut self.words.as_mut_bytes()[..size]
    }

    /// Sets the low parts of Z0 to Z31 to V0 to V31.
    pub fn set_low(&mut self, v: &[[u64; 2]; 32]) {
        for (z, v) in self.words.chunks_mut(self.length / 8).zip(v) {
            z[..2].copy_from_slice(v);
        }
    }

    /// Sets the low parts of Z0 to Z31 to V0 to V31 and zeroes everything else, unless the image is
    /// empty.
    pub fn set_alone(&mut self, v: &[[u64; 2]; 32]) {
        if !self.is_none() {
            self.words.fill(0);
            self.set_low(v);
        }
    }

    /// Copies V0 to V31 to `v`.
    pub fn low(&self, v: &mut [[u64; 2]; 32]) {
        for (z, v) in self.words.chunks(self.length / 8).zip(v) {
            v.copy_from_slice(&z[..2]);
        }
    }

    /// Saves this CPU's registers, whose length is the image's.
    pub fn save(&mut self) {
        // SAFETY: the image has room for vectors of its length.
        unsafe { store(self.words.as_mut_ptr().cast(), self.length) };
    }

    /// Loads this CPU's registers, and enables SVE for the program.
    pub fn load(&self) {
        // SAFETY: the image holds vectors of its length.
        unsafe { load(self.words.as_ptr().cast(), self.length) };
        set_zen(ZEN);
    }

    /// Saves this CPU's registers, and makes SVE instructions trap.
    pub fn leave(&mut self) {
        self.save();
        close();
    }

    /// Discards all registers except V0 to V31, which stay in this CPU.
    pub fn drop_live(&mut self) {
        if !self.is_none() {
            *self = Image::NONE;
            close();
        }
    }
}

/// PR_SVE_SET_VL: sets the vector length; returns the resulting one.
///
/// # Errors
/// EINVAL if there is no SVE, or the length is invalid.
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
/// EINVAL if there is no SVE.
pub(super) fn get_vl() -> Result<usize> {
    let state = task::state();
    if !present() || state.is_compat() {
        return Err(Errno::EINVAL);
    }
    let lengths = state.sve_lengths();
    Ok(lengths.now() | lengths.inherits() as usize)
}
