//! Translation fences on this hart and on others (privileged manual, section 12.2.1; SBI, chapter
//! 8).

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{self, Ordering::SeqCst};

use crossings::Kind;
use fence::THRESHOLD;

use super::{MAX_CPUS, PAGE_SIZE, cpu, smp};
use crate::upcall;
use sbi_rt::{HartMask, SbiRet};
use translation::owed::{Clear, Owed};

/// Invalidates the page at `address` of an address space, on this hart.
#[inline]
pub(super) fn local_page(address: usize, asid: u16) {
    cpu::this().crossings().add(Kind::FenceLocalPage);
    // SAFETY: invalidating a translation only costs a table walk.
    unsafe {
        asm!("sfence.vma {}, {}", in(reg) address, in(reg) asid as usize, options(nostack, preserves_flags))
    };
}

/// Invalidates the page at `address` of all address spaces, on this hart.
fn local_global_page(address: usize) {
    cpu::this().crossings().add(Kind::FenceLocalPage);
    // SAFETY: invalidating a translation only costs a table walk.
    unsafe { asm!("sfence.vma {}, zero", in(reg) address, options(nostack, preserves_flags)) };
}

/// Invalidates an address space, including its tables, on this hart.
pub(super) fn local_asid(asid: u16) {
    cpu::this().crossings().add(Kind::FenceLocalAsid);
    // SAFETY: invalidating a translation only costs a table walk.
    unsafe {
        asm!("sfence.vma zero, {}", in(reg) asid as usize, options(nostack, preserves_flags))
    };
}

/// Invalidates everything on this hart.
pub fn flush_local_all() {
    cpu::this().crossings().add(Kind::FenceLocalAll);
    // SAFETY: invalidating a translation only costs a table walk.
    unsafe { asm!("sfence.vma", options(nostack, preserves_flags)) };
}

/// Whether a range is fenced page by page: ranges of [`THRESHOLD`] pages or more are not.
fn by_page(range: &Range<usize>) -> bool {
    range.len() < THRESHOLD * PAGE_SIZE
}

/// The size of a whole address space, for calls to the firmware.
const EVERYTHING: usize = usize::MAX;

/// The CPUs that hold translations of an address space.
pub struct Holders(fence::Holders<{ fence::words(MAX_CPUS) }>);

impl Holders {
    /// No CPUs.
    pub const fn new() -> Self {
        Holders(fence::Holders::new())
    }

    /// Called before this CPU, `cpu`, runs the space under `asid`, after it announced this with a
    /// full fence. If PTEs changed while it was away, it invalidates the space.
    #[inline]
    pub fn enter_space(&self, cpu: usize, asid: u16) {
        if self.0.enter_space(cpu) {
            local_asid(asid);
        }
    }
}

/// The other harts that a change of an address space's PTEs, made before a full fence, concerns:
/// the holders for which the second field returns that they run it. The rest flush when they return
/// to it.
pub(super) struct RemoteHolders<'a, R>(pub &'a Holders, pub R);

impl<R: Fn(usize) -> bool> RemoteHolders<'_, R> {
    fn each(self, kind: Kind, send: impl Fn(HartMask) -> SbiRet) {
        let RemoteHolders(holders, runs) = self;
        smp::each(kind, send, |notify| {
            holders.0.change(cpu::this().index(), runs, notify)
        });
    }
}

/// Invalidates last-level PTEs of an address space, on the CPUs that may use them.
pub(super) fn flush_pages(
    asid: u16,
    others: RemoteHolders<impl Fn(usize) -> bool>,
    range: Range<usize>,
) {
    if by_page(&range) {
        range
            .clone()
            .step_by(PAGE_SIZE)
            .for_each(|address| local_page(address, asid));
        others.each(Kind::FenceBroadcastPage, |harts| {
            sbi_rt::remote_sfence_vma_asid(harts, range.start, range.len(), asid as usize)
        });
    } else {
        flush_asid(asid, others);
    }
}

/// Invalidates an address space, including its tables, on the CPUs that may use it.
pub(super) fn flush_asid(asid: u16, others: RemoteHolders<impl Fn(usize) -> bool>) {
    local_asid(asid);
    others.each(Kind::FenceBroadcastAsid, |harts| {
        sbi_rt::remote_sfence_vma_asid(harts, 0, EVERYTHING, asid as usize)
    });
}

/// Pays for PTEs removed from a range of the kernel's vmalloc area.
pub fn flush_kernel(owed: Owed<Clear>, range: Range<usize>) {
    owed.pay();
    fence_kernel(range);
}

/// Invalidates the kernel's last-level PTEs, which are global, on all harts.
pub(super) fn fence_kernel(range: Range<usize>) {
    if by_page(&range) {
        range.clone().step_by(PAGE_SIZE).for_each(local_global_page);
        smp::each_other(Kind::FenceBroadcastPage, |harts| {
            sbi_rt::remote_sfence_vma(harts, range.start, range.len())
        });
    } else {
        flush_local_all();
        smp::each_other(Kind::FenceBroadcastAll, |harts| {
            sbi_rt::remote_sfence_vma(harts, 0, EVERYTHING)
        });
    }
}

/// The harts that ran programs. Harts that do not run one now are not notified of new instructions;
/// they fence when they run one again.
static RAN: fence::Holders<{ fence::words(MAX_CPUS) }> = fence::Holders::new();

/// Called before this CPU, `cpu`, runs an address space after it had none, and after it announced
/// this with a full fence.
pub fn enter_space(cpu: usize) {
    if RAN.enter_space(cpu) {
        local_fence_i();
    }
}

/// Makes instruction fetches of all harts see what was written to memory, before they next run a
/// program.
pub fn sync_icache(_start: usize, _len: usize) {
    local_fence_i();
    // Orders the written instructions before the checks of other CPUs.
    atomic::fence(SeqCst);
    let runs = |index| cpu::get(index).is_some_and(upcall::runs_program);
    smp::each(Kind::FenceInstruction, sbi_rt::remote_fence_i, |notify| {
        RAN.change(cpu::this().index(), runs, notify)
    });
}

/// Makes instruction fetches of this hart see what was written to memory.
pub(super) fn local_fence_i() {
    cpu::this().crossings().add(Kind::FenceInstruction);
    // SAFETY: refetching instructions only costs time.
    unsafe { asm!("fence.i", options(nostack, preserves_flags)) };
}
