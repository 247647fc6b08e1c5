//! The fence policy: which harts execute `sfence.vma`, and when. The crate `fence` decides; the
//! boot parameters `fence.kernel`, `fence.user` and `fence.inject` select the policy, and
//! `asid.bits` limits the number of ASID bits.

use core::ops::Range;
use core::sync::atomic::{self, AtomicBool, AtomicU64, Ordering::*};

use fence::{Asked, CPUS_PER_WORD, Injector, Kernel, Policy, Reach, Unseen, User, words};
use translation::Change;
use translation::owed::{self, FillKernel, LinkTable, Owed};

use super::cpu::Cpu;
use super::mmu::{self, Pte};
use super::tlb::{Holders, RemoteHolders};
use super::{MAX_CPUS, PAGE_SIZE, is_taken, tlb};
use crate::arch::branch::{self, Key};
use crate::params;
use crate::sync::Mutex;

const WORDS: usize = words(MAX_CPUS);

/// The CPUs that have not seen a new kernel mapping yet.
static UNSEEN: Unseen<WORDS> = Unseen::new();
/// `fence.inject`, for the trap entry and for rare operations.
pub(super) static INJECTING: AtomicBool = AtomicBool::new(false);
static INJECTOR: Mutex<Injector> = Mutex::new(Injector::new(0, 0));

/// Selects the policies, after `mm` is initialized; `svvptc`: whether all harts have it.
pub(super) fn init(svvptc: bool) {
    let seed = params::get("fence.inject").map(|seed| seed.parse().unwrap_or(1));
    let kernel = params::choice(
        "fence.kernel",
        &[("lazy", Kernel::Lazy), ("preventive", Kernel::Preventive)],
    );
    let asked = params::choice(
        "fence.user",
        &[
            ("auto", Asked::Auto),
            ("svvptc", Asked::This(User::Svvptc)),
            ("preventive", Asked::This(User::Preventive)),
        ],
    );
    let user = asked
        .resolve(svvptc, seed.is_some())
        .unwrap_or_else(|refused| {
            crate::log!("{refused}: preventive instead");
            User::Preventive
        });
    if kernel == Kernel::Preventive {
        branch::take(Key::FenceKernelPreventive);
    }
    if user == User::Preventive {
        branch::take(Key::FenceUserPreventive);
    }
    if let Some(bits) = params::get("asid.bits").and_then(|bits| bits.parse().ok()) {
        mmu::limit_asid_bits(bits);
    }
    if let Some(seed) = seed {
        *INJECTOR.lock() = Injector::new(seed, 0);
        INJECTING.store(true, Relaxed);
        branch::take(Key::FenceInject);
    }
}

/// Sets the address of the CPU's bit for new kernel mappings.
pub(super) fn init_cpu(cpu: &Cpu) {
    let words = (&raw const UNSEEN).cast::<AtomicU64>();
    // SAFETY: an `Unseen` is an array of words, with a bit for each possible CPU.
    cpu.unseen
        .set(unsafe { &*words.add(cpu.index() / CPUS_PER_WORD) });
    cpu.unseen_bit.set(1 << (cpu.index() % CPUS_PER_WORD));
}

#[inline(always)]
fn policy() -> Policy {
    let kernel = if is_taken::<{ Key::FenceKernelPreventive as u32 }>() {
        Kernel::Preventive
    } else {
        Kernel::Lazy
    };
    let user = if is_taken::<{ Key::FenceUserPreventive as u32 }>() {
        User::Preventive
    } else {
        User::Svvptc
    };
    Policy { kernel, user }
}

/// Performs the fences owed for changes to the PTEs of `range` in the space with ASID `asid`, if it
/// ever ran. `holders` are the CPUs that ran it, and `may_run` returns whether a CPU runs it now.
#[inline(always)]
pub fn pay<C: owed::Kind>(
    owed: Owed<C>,
    asid: impl Fn() -> Option<u16>,
    holders: &Holders,
    may_run: impl Fn(u16, usize) -> bool,
    range: Range<usize>,
) {
    let change = owed.pay();
    let reach = policy().user(change);
    if reach <= Reach::OnTrap {
        return;
    }
    if reach == Reach::Everywhere {
        // Before the ASID is read, which may change, and before other CPUs are checked.
        atomic::fence(SeqCst);
    }
    let Some(asid) = asid() else { return };
    let others = RemoteHolders(holders, |cpu| may_run(asid, cpu));
    match (reach, change) {
        (Reach::Everywhere, Change::UnlinkTable) => tlb::flush_asid(asid, others),
        (Reach::Everywhere, _) => tlb::flush_pages(asid, others, range),
        // A fence by address would not cover it; this one covers the PTEs filled in below as well.
        (_, Change::LinkTable) => tlb::local_asid(asid),
        _ => range
            .step_by(PAGE_SIZE)
            .for_each(|address| tlb::local_page(address, asid)),
    }
}

/// Pays for a new table of the kernel's vmalloc area. A fence by address would not cover it.
pub fn publish_table(owed: Owed<LinkTable>) {
    match policy().kernel(owed.pay()) {
        Reach::OnTrap => UNSEEN.mark(MAX_CPUS),
        _ => tlb::fence_kernel(mmu::VMALLOC),
    }
}

/// Handles a fault on `page` that found a sufficient PTE in address space `asid`: makes sure that
/// the next attempt sees it.
pub fn spurious(asid: u16, _page: usize) {
    if policy().spurious() == Reach::Local {
        // The stale entry may be an intermediate one, which a fence by address does not cover.
        tlb::local_asid(asid);
    }
}

/// Pays for new PTEs of the kernel's vmalloc area: makes them usable on all CPUs.
pub fn publish_kernel(owed: Owed<FillKernel>, range: Range<usize>) {
    if INJECTING.load(Relaxed) {
        range.clone().step_by(PAGE_SIZE).for_each(inject_unseen);
    }
    match policy().kernel(owed.pay()) {
        // Including CPUs that come up later: they may encounter PTEs that the injector hid before.
        Reach::OnTrap => UNSEEN.mark(MAX_CPUS),
        _ => tlb::fence_kernel(range),
    }
}

/// The value to store for a program's new PTE: under `fence.inject`, sometimes one that stays
/// unseen until a trap.
#[inline(always)]
pub fn new_entry(pte: Pte) -> Pte {
    if is_taken::<{ Key::FenceInject as u32 }>()
        && pte.is_program()
        && INJECTOR.lock().should_inject()
    {
        pte.unseen()
    } else {
        pte
    }
}

/// Makes the kernel's new PTE for `address` unseen, sometimes.
#[cold]
fn inject_unseen(address: usize) {
    if INJECTOR.lock().should_inject() {
        make_unseen(address);
    }
}

/// Makes the kernel's PTE for `address` unseen. The trap entry makes it visible again.
fn make_unseen(address: usize) {
    if let Some(entry) = mmu::kernel_entry(address) {
        entry.store(Pte(entry.load(Relaxed)).unseen().0, Relaxed);
    }
}

/// Whether unused kernel mappings may be kept for reuse: not under `fence.inject`, which needs new
/// ones.
pub fn keeps_mappings() -> bool {
    !INJECTING.load(Relaxed)
}

/// Calls `f` while the kernel's PTE for `page` is unseen.
#[cfg(feature = "selftest")]
pub(super) fn with_unseen<T>(page: usize, f: impl FnOnce() -> T) -> T {
    let injecting = INJECTING.swap(true, Relaxed);
    make_unseen(page);
    UNSEEN.mark(MAX_CPUS);
    let result = f();
    INJECTING.store(injecting, Relaxed);
    result
}
