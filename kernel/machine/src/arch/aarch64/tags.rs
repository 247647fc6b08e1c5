//! Memory tagging of programs (FEAT_MTE2, FEAT_MTE3): a 4-bit tag for every 16 bytes of memory,
//! against which a thread's accesses are checked
//! (Documentation/arch/arm64/memory-tagging-extension.rst).
//!
//! A CPU checks nothing unless its current thread has requested it: the switch to that thread
//! enables the checks, and the switch away disables them, so that other threads do not pay. The
//! additional steps on entry into the kernel from a thread with tag checks are in separate vectors
//! (`entry.rs`), which the switch selects, too:
//!
//! - An exception sets PSTATE.TCO, but the kernel's accesses on behalf of the program are checked
//!   like its own: if loads are checked synchronously, TCO is cleared.
//! - If stores or all accesses are checked asynchronously, TFSRE0_EL1 reports the faults since the
//!   last entry. Faults of the kernel's own accesses there are discarded, as on Linux.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use linux_raw_sys::prctl::{PR_MTE_TAG_MASK, PR_MTE_TAG_SHIFT, PR_MTE_TCF_ASYNC, PR_MTE_TCF_SYNC};

use super::sysreg::{isb, read, write};
use super::thread::ThreadState;
use super::{MAX_CPUS, PAGE_SIZE, cpu, features, is_taken, mmu};
use crate::arch::branch::Key;
use crate::arch::work::{TAG_EXIT, TAG_FAULT, TRACE};
use crate::errno::{Errno, Result};

/// SCTLR_EL1 if memory has tags: ATA and ATA0, the kernel and programs can access them; ITFSB,
/// asynchronous tag faults are recorded before an entry completes.
pub(super) const SCTLR: usize = 1 << 43 | 1 << 42 | 1 << 37;
/// SCTLR_EL1.TCF0: the tag check mode of EL0.
const CHECKS_SHIFT: u32 = 38;
const CHECKS: usize = 3 << CHECKS_SHIFT;
/// GCR_EL1.RRND, and Exclude: the tags that IRG does not generate.
const BY_CHANCE: usize = 1 << 16;
const EXCLUDED: usize = 0xffff;

/// The number of bytes that share a tag.
const GRANULE: usize = 16;
/// The position of the tag in an address.
const TAG_SHIFT: u32 = 56;

/// Tag check modes, as in SCTLR_EL1.TCF0.
mod checks {
    pub const NONE: usize = 0;
    pub const SYNC: usize = 1;
    pub const ASYNC: usize = 2;
    pub const ASYMMETRIC: usize = 3;

    /// Whether loads, including the kernel's, are checked synchronously.
    pub const fn at_once(checks: usize) -> bool {
        checks & 1 != 0
    }

    /// Whether some faults are recorded and reported later.
    pub const fn later(checks: usize) -> bool {
        checks & 2 != 0
    }
}

/// Distance in bytes between a policy's vectors for consecutive check modes.
const VECTORS: usize = 2048;

/// The tag check mode of a thread, as requested by PR_SET_TAGGED_ADDR_CTRL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control(usize);

/// The mode that each CPU prefers among those that a thread permits: `mte_tcf_preferred`.
static PREFERRED: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(checks::ASYNC as u8) }; MAX_CPUS];

/// Whether memory has tags.
#[inline(always)]
pub fn has_tags() -> bool {
    is_taken::<{ Key::Tags as u32 }>()
}

impl Control {
    /// No checks, and IRG generates tag 0.
    pub(super) const NONE: Control = Control(0);
    /// All bits that may be requested.
    const ALL: usize = (PR_MTE_TCF_SYNC | PR_MTE_TCF_ASYNC | PR_MTE_TAG_MASK) as usize;

    /// The mode that this CPU uses.
    fn checks(self) -> usize {
        let (sync, later) = (PR_MTE_TCF_SYNC as usize, PR_MTE_TCF_ASYNC as usize);
        let asked = self.0 & (sync | later);
        let both = asked == sync | later;
        let preferred = PREFERRED[cpu::this().index()].load(Relaxed).into();
        match preferred {
            checks::SYNC if asked & sync != 0 => checks::SYNC,
            checks::ASYNC if asked & later != 0 => checks::ASYNC,
            _ if both && features::features().mte_asymmetric() => checks::ASYMMETRIC,
            _ if asked & later != 0 => checks::ASYNC,
            _ if asked & sync != 0 => checks::SYNC,
            _ => checks::NONE,
        }
    }

    /// Enables this mode on this CPU, for the current thread.
    pub(super) fn load(self) {
        let included = self.0 >> PR_MTE_TAG_SHIFT & EXCLUDED;
        set(self.checks(), !included & EXCLUDED);
    }

    /// Disables tag checks on this CPU, for other threads.
    pub(super) fn unload(self) {
        set(checks::NONE, EXCLUDED);
    }
}

/// Sets this CPU's check mode, and the tags `excluded` from IRG.
fn set(checks: usize, excluded: usize) {
    let before = read!("sctlr_el1");
    if checks::later(before >> CHECKS_SHIFT) {
        forget_faults();
    }
    // SAFETY: affects only unprivileged accesses, which have fixups; the vectors perform the
    // additional steps that such a program's entries need. GCR_EL1 affects IRG, which the kernel's
    // compiled code does not contain.
    unsafe {
        write!("sctlr_el1", before & !CHECKS | checks << CHECKS_SHIFT);
        write!("S3_0_C1_C0_6", BY_CHANCE | excluded);
        write!("vbar_el1", features::vectors() + checks * VECTORS);
    }
    override_checks(!checks::at_once(checks));
    isb();
}

/// Discards the tag faults that this CPU has recorded.
fn forget_faults() {
    // SAFETY: a barrier, which completes the recording, and TFSRE0_EL1.
    unsafe {
        asm!("dsb ish", options(nostack, preserves_flags));
        write!("S3_0_C5_C6_1", 0usize);
    }
}

/// Sets or clears PSTATE.TCO.
fn override_checks(on: bool) {
    // By their encodings: an assembler for ARMv8.0 does not know the name. SAFETY: MSR TCO, #1 and
    // MSR TCO, #0 affect only unprivileged accesses.
    unsafe {
        match on {
            true => asm!(".inst 0xd503419f", options(nostack, preserves_flags)),
            false => asm!(".inst 0xd503409f", options(nostack, preserves_flags)),
        }
    }
}

/// Restores PSTATE.TCO after something other than an entry from the current thread's program has
/// set it.
pub(super) fn restore_override() {
    let checks = read!("sctlr_el1") >> CHECKS_SHIFT;
    override_checks(!checks::at_once(checks));
}

/// Enables tags on this CPU, except in SCTLR_EL1.
pub(super) fn start_cpu() {
    let seed = (read!("cntvct_el0") & 0xffff | 1) << 8;
    // SAFETY: MAIR_EL1 changes an attribute that only the linear map uses so far, before anything
    // depends on tags, and `features::start_cpu` flushes the TLB; RGSR_EL1, GCR_EL1 and TFSRE0_EL1
    // affect programs.
    unsafe {
        write!("mair_el1", mmu::MAIR_WITH_TAGS);
        write!("S3_0_C1_C0_5", seed);
        write!("S3_0_C1_C0_6", BY_CHANCE | EXCLUDED);
        write!("S3_0_C5_C6_1", 0usize);
    }
}

/// Returns whether a tag check of the program has failed since the last call. Called on return to
/// the program.
pub fn take_tag_fault(work: &AtomicU32) -> bool {
    let bits = work.load(Relaxed);
    if bits & (TAG_FAULT | TAG_EXIT) == 0 {
        return false;
    }
    let has_fault = bits & TAG_FAULT != 0;
    work.fetch_and(!(TAG_FAULT | TAG_EXIT), Relaxed);
    if bits & TAG_EXIT != 0 {
        if has_fault || bits & !(TRACE | TAG_EXIT) != 0 {
            // The remaining work accesses program memory, too: discard its faults afterwards.
            work.fetch_or(TRACE | TAG_EXIT, Relaxed);
        } else {
            forget_faults();
        }
    }
    has_fault
}

/// The tag check mode of a thread, as PR_GET_TAGGED_ADDR_CTRL returns it.
pub fn tag_checks(state: &ThreadState) -> usize {
    if has_tags() { state.tag_control().0 } else { 0 }
}

/// Changes the tag check mode of a stopped thread, or of the current one.
///
/// # Errors
/// EINVAL if `mode` has other bits.
pub fn set_tag_checks(state: &ThreadState, mode: usize) -> Result<()> {
    let all = if has_tags() { Control::ALL } else { 0 };
    if mode & !all != 0 {
        return Err(Errno::EINVAL);
    }
    if has_tags() {
        state.set_tag_control(Control(mode));
    }
    Ok(())
}

/// The values of `mte_tcf_preferred`.
const NAMES: [(&str, usize); 3] = [
    ("async", checks::ASYNC),
    ("sync", checks::SYNC),
    ("asymm", checks::ASYMMETRIC),
];

/// The check mode that a CPU prefers among those that a program permits.
pub fn preferred_checks(cpu: usize) -> &'static str {
    let preferred = usize::from(PREFERRED[cpu].load(Relaxed));
    let named = NAMES.iter().find(|(_, checks)| *checks == preferred);
    named.map_or("", |(name, _)| name)
}

/// Sets the preferred mode of a CPU, for threads that are switched to from now on.
///
/// # Errors
/// EINVAL if there is no such mode.
pub fn set_preferred_checks(cpu: usize, wanted: &[u8]) -> Result<()> {
    let wanted = wanted.strip_suffix(b"\n").unwrap_or(wanted);
    let named = NAMES.iter().find(|(name, _)| name.as_bytes() == wanted);
    let has = |checks| checks != checks::ASYMMETRIC || features::features().mte_asymmetric();
    let (_, checks) = named
        .filter(|(_, checks)| has(*checks))
        .ok_or(Errno::EINVAL)?;
    PREFERRED[cpu].store(*checks as u8, Relaxed);
    Ok(())
}

/// Clears the tags of a page.
///
/// # Safety
/// `page` is the address, in the linear map, of a whole page that the caller owns or on whose tags
/// nobody relies.
pub unsafe fn clear_page_tags(page: usize) {
    // SAFETY: the caller's page; ST2G writes only tags (Arm ARM, "ST2G").
    unsafe {
        asm!(
            ".arch_extension memtag",
            "2: st2g {tag}, [{at}], #32",
            "cmp {at}, {end}",
            "b.ne 2b",
            ".arch_extension nomemtag",
            tag = in(reg) 0usize,
            at = inout(reg) page => _,
            end = in(reg) page + PAGE_SIZE,
            options(nostack),
        )
    }
}

/// Copies the tags of a page.
///
/// # Safety
/// Those of [`clear_page_tags`], for `to`; `from` is the address of a page that stays allocated.
pub unsafe fn copy_page_tags(to: usize, from: usize) {
    for at in (0..PAGE_SIZE).step_by(GRANULE) {
        // SAFETY: guaranteed by the caller.
        unsafe { set_tag(to + at, tag(from + at)) };
    }
}

/// Reads the tags from an address of the linear map on, one for each granule.
///
/// # Safety
/// They belong to a page that stays allocated.
pub unsafe fn page_tags(from: usize, tags: &mut [u8]) {
    for (at, to) in (from..).step_by(GRANULE).zip(tags) {
        // SAFETY: guaranteed by the caller.
        *to = unsafe { tag(at) };
    }
}

/// Sets the tags from an address of the linear map on, one for each granule.
///
/// # Safety
/// They belong to a page that stays allocated.
pub unsafe fn set_page_tags(to: usize, tags: &[u8]) {
    for (at, new) in (to..).step_by(GRANULE).zip(tags) {
        // SAFETY: guaranteed by the caller.
        unsafe { set_tag(at, *new) };
    }
}

/// The tag of the granule at an address of the linear map.
unsafe fn tag(at: usize) -> u8 {
    let mut loaded = 0usize;
    // SAFETY: LDG reads the tag of memory whose existence the caller guarantees.
    unsafe {
        asm!(
            ".arch_extension memtag",
            "ldg {loaded}, [{at}]",
            ".arch_extension nomemtag",
            loaded = inout(reg) loaded,
            at = in(reg) at,
            options(nostack, preserves_flags, readonly),
        )
    };
    (loaded >> TAG_SHIFT) as u8 & 0xf
}

unsafe fn set_tag(at: usize, tag: u8) {
    // SAFETY: STG writes only the tag of memory whose existence the caller guarantees.
    unsafe {
        asm!(
            ".arch_extension memtag",
            "stg {tag}, [{at}]",
            ".arch_extension nomemtag",
            tag = in(reg) usize::from(tag & 0xf) << TAG_SHIFT,
            at = in(reg) at,
            options(nostack, preserves_flags),
        )
    }
}
