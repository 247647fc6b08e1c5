//! Memory tagging of programs (FEAT_MTE2, FEAT_MTE3): a tag of four bits for every 16 bytes of
//! memory, and how a thread's accesses are checked against it
//! (Documentation/arch/arm64/memory-tagging-extension.rst).
//!
//! A CPU checks nothing unless the thread that it runs asked for it: a switch to that thread turns
//! it on, and the switch away off again, so that no other thread does anything. What an entry into
//! the kernel has to do for a thread whose tags are checked stands in vectors of its own
//! (`entry.rs`), which the switch sets too:
//!
//! - An exception sets PSTATE.TCO, and the kernel's accesses for the program are checked as its own
//!   are: where loads are checked at once, TCO is cleared.
//! - Where stores or all are checked asynchronously, TFSRE0_EL1 says what came of it since the last
//!   entry. What the kernel's own accesses record there is forgotten, as on Linux.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use linux_raw_sys::prctl::{PR_MTE_TAG_MASK, PR_MTE_TAG_SHIFT, PR_MTE_TCF_ASYNC, PR_MTE_TCF_SYNC};

use super::sysreg::{isb, read, write};
use super::thread::ThreadState;
use super::{MAX_CPUS, PAGE_SIZE, cpu, features, is_taken, mmu};
use crate::arch::branch::Key;
use crate::arch::work::{TAG_EXIT, TAG_FAULT, TRACE};
use crate::errno::{Errno, Result};

/// SCTLR_EL1 where memory has tags: ATA and ATA0, the kernel and programs reach them; ITFSB, what
/// was recorded of accesses is complete at an entry (Arm ARM D24.2.118).
pub(super) const SCTLR: usize = 1 << 43 | 1 << 42 | 1 << 37;
/// SCTLR_EL1.TCF0: how programs' accesses are checked.
const CHECKS_SHIFT: u32 = 38;
const CHECKS: usize = 3 << CHECKS_SHIFT;
/// GCR_EL1.RRND, and Exclude: which tags IRG does not choose.
const BY_CHANCE: usize = 1 << 16;
const EXCLUDED: usize = 0xffff;

/// Bytes that have a tag in common.
const GRANULE: usize = 16;
/// Where an address has its tag.
const TAG_SHIFT: u32 = 56;

/// How accesses are checked, as SCTLR_EL1.TCF0 has it.
mod checks {
    pub const NONE: usize = 0;
    pub const SYNC: usize = 1;
    pub const ASYNC: usize = 2;
    pub const ASYMMETRIC: usize = 3;

    /// Whether loads, of the kernel too, are checked at once.
    pub const fn at_once(checks: usize) -> bool {
        checks & 1 != 0
    }

    /// Whether something is recorded, and reported later.
    pub const fn later(checks: usize) -> bool {
        checks & 2 != 0
    }
}

/// Bytes from one of a policy's vectors to those of the next way to check.
const VECTORS: usize = 2048;

/// How the accesses of a thread are checked: what it asked for by PR_SET_TAGGED_ADDR_CTRL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control(usize);

/// What each CPU prefers where a thread leaves it the choice: `mte_tcf_preferred`.
static PREFERRED: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(checks::ASYNC as u8) }; MAX_CPUS];

/// Whether memory has tags.
#[inline(always)]
pub fn has_tags() -> bool {
    is_taken::<{ Key::Tags as u32 }>()
}

impl Control {
    /// Nothing is checked, and IRG gives the tag 0.
    pub(super) const NONE: Control = Control(0);
    /// All that may be asked for.
    const ALL: usize = (PR_MTE_TCF_SYNC | PR_MTE_TCF_ASYNC | PR_MTE_TAG_MASK) as usize;

    /// How this CPU checks.
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

    /// Lets this CPU check so for the current thread.
    pub(super) fn load(self) {
        let included = self.0 >> PR_MTE_TAG_SHIFT & EXCLUDED;
        set(self.checks(), !included & EXCLUDED);
    }

    /// Has this CPU check nothing for others.
    pub(super) fn unload(self) {
        set(checks::NONE, EXCLUDED);
    }
}

/// Lets this CPU check so, and IRG choose no tag of `excluded`.
fn set(checks: usize, excluded: usize) {
    let before = read!("sctlr_el1");
    if checks::later(before >> CHECKS_SHIFT) {
        forget_faults();
    }
    // SAFETY: concerns accesses by a program's right alone, which have fix-ups; the vectors do what
    // such a program's entries need beside what the plain ones do. GCR_EL1 concerns IRG, which no
    // compiled code of the kernel has.
    unsafe {
        write!("sctlr_el1", before & !CHECKS | checks << CHECKS_SHIFT);
        write!("S3_0_C1_C0_6", BY_CHANCE | excluded);
        write!("vbar_el1", features::vectors() + checks * VECTORS);
    }
    override_checks(!checks::at_once(checks));
    isb();
}

/// What this CPU has recorded of accesses is nobody's.
fn forget_faults() {
    // SAFETY: a barrier, which completes what is recorded, and TFSRE0_EL1.
    unsafe {
        asm!("dsb ish", options(nostack, preserves_flags));
        write!("S3_0_C5_C6_1", 0usize);
    }
}

/// Sets PSTATE.TCO, or clears it.
fn override_checks(on: bool) {
    // By their encodings: an assembler for ARMv8.0 does not know the name.
    // SAFETY: MSR TCO, #1 and MSR TCO, #0 concern accesses by a program's right alone.
    unsafe {
        match on {
            true => asm!(".inst 0xd503419f", options(nostack, preserves_flags)),
            false => asm!(".inst 0xd503409f", options(nostack, preserves_flags)),
        }
    }
}

/// After something else than an entry from the current thread's program set PSTATE.TCO.
pub(super) fn restore_override() {
    let checks = read!("sctlr_el1") >> CHECKS_SHIFT;
    override_checks(!checks::at_once(checks));
}

/// Turns tags on, on this CPU, but for SCTLR_EL1.
pub(super) fn start_cpu() {
    let seed = (read!("cntvct_el0") & 0xffff | 1) << 8;
    // SAFETY: MAIR_EL1 changes an attribute that only the linear map has so far, before anything
    // depends on tags, and `features::start_cpu` empties the TLB; RGSR_EL1, GCR_EL1 and TFSRE0_EL1
    // concern programs.
    unsafe {
        write!("mair_el1", mmu::MAIR_WITH_TAGS);
        write!("S3_0_C1_C0_5", seed);
        write!("S3_0_C1_C0_6", BY_CHANCE | EXCLUDED);
        write!("S3_0_C5_C6_1", 0usize);
    }
}

/// Whether accesses of the program had other tags than memory since it was asked last; for the
/// return to it.
pub fn take_tag_fault(work: &AtomicU32) -> bool {
    let bits = work.load(Relaxed);
    if bits & (TAG_FAULT | TAG_EXIT) == 0 {
        return false;
    }
    let has_fault = bits & TAG_FAULT != 0;
    work.fetch_and(!(TAG_FAULT | TAG_EXIT), Relaxed);
    if bits & TAG_EXIT != 0 {
        if has_fault || bits & !(TRACE | TAG_EXIT) != 0 {
            // What is still to be done accesses the program's memory too: forgotten afterwards.
            work.fetch_or(TRACE | TAG_EXIT, Relaxed);
        } else {
            forget_faults();
        }
    }
    has_fault
}

/// How a thread's tags are checked, as PR_GET_TAGGED_ADDR_CTRL tells.
pub fn tag_checks(state: &ThreadState) -> usize {
    if has_tags() { state.tag_control().0 } else { 0 }
}

/// Changes how the tags of a thread are checked that is stopped, or the current one.
///
/// # Errors
/// EINVAL: `mode` has other bits.
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

/// What `mte_tcf_preferred` may be.
const NAMES: [(&str, usize); 3] = [
    ("async", checks::ASYNC),
    ("sync", checks::SYNC),
    ("asymm", checks::ASYMMETRIC),
];

/// How a CPU checks tags where a program leaves it the choice.
pub fn preferred_checks(cpu: usize) -> &'static str {
    let preferred = usize::from(PREFERRED[cpu].load(Relaxed));
    let named = NAMES.iter().find(|(_, checks)| *checks == preferred);
    named.map_or("", |(name, _)| name)
}

/// Changes that, for threads that are switched to from now on.
///
/// # Errors
/// EINVAL: there is no such way to check.
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
/// `page` is the address, in the linear map, of a whole page that the caller owns or whose tags
/// nobody relies on.
pub unsafe fn clear_page_tags(page: usize) {
    // SAFETY: the caller's page; ST2G writes tags alone (Arm ARM C6.2, "ST2G").
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
/// As of [`clear_page_tags`], for `to`; `from` is such an address of a page that stays.
pub unsafe fn copy_page_tags(to: usize, from: usize) {
    for at in (0..PAGE_SIZE).step_by(GRANULE) {
        // SAFETY: as the caller says.
        unsafe { set_tag(to + at, tag(from + at)) };
    }
}

/// The tags from an address of the linear map on, one for each granule.
///
/// # Safety
/// They are those of a page that stays.
pub unsafe fn page_tags(from: usize, tags: &mut [u8]) {
    for (at, to) in (from..).step_by(GRANULE).zip(tags) {
        // SAFETY: as the caller says.
        *to = unsafe { tag(at) };
    }
}

/// Sets the tags from an address of the linear map on, one for each granule.
///
/// # Safety
/// They are those of a page that stays.
pub unsafe fn set_page_tags(to: usize, tags: &[u8]) {
    for (at, new) in (to..).step_by(GRANULE).zip(tags) {
        // SAFETY: as the caller says.
        unsafe { set_tag(at, *new) };
    }
}

/// The tag of the granule at an address of the linear map.
unsafe fn tag(at: usize) -> u8 {
    let mut loaded = 0usize;
    // SAFETY: LDG reads the tag of memory that the caller says is there.
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
    // SAFETY: STG writes the tag of memory that the caller says is there, and nothing else.
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
