//! Translation fences, here and on other harts (privileged manual, section 12.2.1; SBI, chapter 8).

use core::arch::asm;
use core::ops::Range;

use crossings::Kind;
use fence::THRESHOLD;

use super::{PAGE_SIZE, cpu, sbi, smp};
use crate::mm::space::CpuSet;

/// Forgets the page at `address` of one address space, on this hart.
#[inline]
pub(super) fn local_page(address: usize, asid: u16) {
    cpu::this().crossings().add(Kind::FenceLocalPage);
    // SAFETY: forgetting a translation costs a walk, no more.
    unsafe {
        asm!("sfence.vma {}, {}", in(reg) address, in(reg) asid as usize, options(nostack, preserves_flags))
    };
}

/// Forgets the page at `address` of all address spaces, on this hart.
fn local_global_page(address: usize) {
    cpu::this().crossings().add(Kind::FenceLocalPage);
    // SAFETY: forgetting a translation costs a walk, no more.
    unsafe { asm!("sfence.vma {}, zero", in(reg) address, options(nostack, preserves_flags)) };
}

/// Forgets one address space, tables included, on this hart.
pub(super) fn local_asid(asid: u16) {
    cpu::this().crossings().add(Kind::FenceLocalAsid);
    // SAFETY: forgetting a translation costs a walk, no more.
    unsafe {
        asm!("sfence.vma zero, {}", in(reg) asid as usize, options(nostack, preserves_flags))
    };
}

/// Forgets everything, on this hart.
pub fn flush_local_all() {
    cpu::this().crossings().add(Kind::FenceLocalAll);
    // SAFETY: forgetting a translation costs a walk, no more.
    unsafe { asm!("sfence.vma", options(nostack, preserves_flags)) };
}

/// Whether a range is fenced page by page: not a whole batch of a longer one.
fn by_page(range: &Range<usize>) -> bool {
    range.len() < THRESHOLD * PAGE_SIZE
}

/// All of an address space, for the calls to the firmware.
const EVERYTHING: usize = usize::MAX;

/// Forgets last-level entries of an address space, on the CPUs that may hold them.
pub(super) fn flush_pages(asid: u16, holders: &CpuSet, range: Range<usize>) {
    if by_page(&range) {
        range
            .clone()
            .step_by(PAGE_SIZE)
            .for_each(|address| local_page(address, asid));
        smp::each_other(holders, Kind::FenceBroadcastPage, |harts| {
            sbi::remote_sfence_asid(harts, range.start, range.len(), asid as usize)
        });
    } else {
        flush_asid(asid, holders);
    }
}

/// Forgets all of an address space, tables included, on the CPUs that may hold it.
pub(super) fn flush_asid(asid: u16, holders: &CpuSet) {
    local_asid(asid);
    smp::each_other(holders, Kind::FenceBroadcastAsid, |harts| {
        sbi::remote_sfence_asid(harts, 0, EVERYTHING, asid as usize)
    });
}

/// Forgets the kernel's last-level entries, which belong to all address spaces, on all harts.
pub fn flush_kernel(range: Range<usize>) {
    if by_page(&range) {
        range.clone().step_by(PAGE_SIZE).for_each(local_global_page);
        smp::every_other(Kind::FenceBroadcastPage, |harts| {
            sbi::remote_sfence(harts, range.start, range.len())
        });
    } else {
        flush_local_all();
        smp::every_other(Kind::FenceBroadcastAll, |harts| {
            sbi::remote_sfence(harts, 0, EVERYTHING)
        });
    }
}

/// Makes the instructions of all harts agree with what was written to memory.
pub fn sync_icache(_start: usize, _len: usize) {
    local_fence_i();
    smp::every_other(Kind::FenceInstruction, sbi::remote_fence_i);
}

/// Makes the instructions of this hart agree with what was written to memory.
pub(super) fn local_fence_i() {
    cpu::this().crossings().add(Kind::FenceInstruction);
    // SAFETY: fetching instructions anew costs time, no more.
    unsafe { asm!("fence.i", options(nostack, preserves_flags)) };
}
