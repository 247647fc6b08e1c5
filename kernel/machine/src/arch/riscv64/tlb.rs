//! Translation fences, here and on other harts (privileged manual, section 12.2.1; SBI, chapter 8).

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{self, Ordering::SeqCst};

use crossings::Kind;
use fence::THRESHOLD;

use super::{MAX_CPUS, PAGE_SIZE, cpu, smp};
use crate::upcall;
use sbi_rt::{HartMask, SbiRet};
use translation::owed::{Clear, Owed};

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

/// Which CPUs hold translations of an address space.
pub struct Holders(fence::Holders<{ fence::words(MAX_CPUS) }>);

impl Holders {
    /// Nobody.
    pub const fn new() -> Self {
        Holders(fence::Holders::new())
    }

    /// CPU `cpu`, this one, is about to run the space under `asid`: it has said so, with a full
    /// fence since. If entries changed while it was away, it forgets all of them.
    #[inline]
    pub fn enter_space(&self, cpu: usize, asid: u16) {
        if self.0.enter_space(cpu) {
            local_asid(asid);
        }
    }
}

/// The other harts that a change of an address space's entries, before a full fence, concerns:
/// those holders for which the second says that they run it. The rest flush when they return to it.
pub(super) struct RemoteHolders<'a, R>(pub &'a Holders, pub R);

impl<R: Fn(usize) -> bool> RemoteHolders<'_, R> {
    fn each(self, kind: Kind, send: impl Fn(HartMask) -> SbiRet) {
        let RemoteHolders(holders, runs) = self;
        smp::each(kind, send, |notify| {
            holders.0.change(cpu::this().index(), runs, notify)
        });
    }
}

/// Forgets last-level entries of an address space, on the CPUs that may use them.
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

/// Forgets all of an address space, tables included, on the CPUs that may use it.
pub(super) fn flush_asid(asid: u16, others: RemoteHolders<impl Fn(usize) -> bool>) {
    local_asid(asid);
    others.each(Kind::FenceBroadcastAsid, |harts| {
        sbi_rt::remote_sfence_vma_asid(harts, 0, EVERYTHING, asid as usize)
    });
}

/// Pays for entries of the kernel's vmalloc area that were taken out of a range.
pub fn flush_kernel(owed: Owed<Clear>, range: Range<usize>) {
    owed.pay();
    fence_kernel(range);
}

/// Forgets the kernel's last-level entries, which belong to all address spaces, on all harts.
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

/// The harts that ran programs: those that run none are not notified of new instructions, but fence
/// when they run one again.
static RAN: fence::Holders<{ fence::words(MAX_CPUS) }> = fence::Holders::new();

/// CPU `cpu`, this one, ran no address space and is about to run one: it has said so, with a full
/// fence since.
pub fn enter_space(cpu: usize) {
    if RAN.enter_space(cpu) {
        local_fence_i();
    }
}

/// Makes the instructions of all harts agree with what was written to memory, before they next run
/// a program.
pub fn sync_icache(_start: usize, _len: usize) {
    local_fence_i();
    // The instructions before the looks.
    atomic::fence(SeqCst);
    let runs = |index| cpu::get(index).is_some_and(upcall::runs_program);
    smp::each(Kind::FenceInstruction, sbi_rt::remote_fence_i, |notify| {
        RAN.change(cpu::this().index(), runs, notify)
    });
}

/// Makes the instructions of this hart agree with what was written to memory.
pub(super) fn local_fence_i() {
    cpu::this().crossings().add(Kind::FenceInstruction);
    // SAFETY: fetching instructions anew costs time, no more.
    unsafe { asm!("fence.i", options(nostack, preserves_flags)) };
}
