//! CPU features: probed when each CPU comes up, reduced to those that all CPUs support, and
//! enabled.

use core::sync::atomic::Ordering::Relaxed;

use alloc::boxed::Box;
use spin::Once;

use super::cpu;
use super::entry;
use super::sysreg::{isb, read, write};
use super::virt::{self, vmid};
use super::{emulate, mmu, points, sve, tags, uaccess};
use crate::arch::branch::{self, Key};
use crate::arch::unequal;
use crate::params;
use crate::sync::Mutex;
use idreg::register::{CTR_EL0, DCZID_EL0, ID_AA64PFR0_EL1, MIDR_EL1, MPIDR_EL1, REVIDR_EL1};
use idreg::{
    El0View, Enabled, Feature, Hwcaps, Raw, Refused, Register, StoreBypass, System,
    effective_cache_type,
};

/// The features that the kernel enables for programs.
const ENABLED: Enabled = Enabled::NONE
    .with(Feature::FloatingPoint)
    .with(Feature::Sve)
    .with(Feature::PointerAuth)
    .with(Feature::Bti)
    .with(Feature::Mops)
    .with(Feature::Mte);

/// SCTLR_EL1.UCT: EL0 reads of CTR_EL0 do not trap.
const SCTLR_UCT: usize = 1 << 15;
/// SCTLR_EL1.MSCEn: FEAT_MOPS instructions are enabled at EL0.
const SCTLR_MSCEN: usize = 1 << 33;
/// SCTLR_EL1.BT0: at EL0, PACIASP and PACIBSP are landing pads for calls, but not for jumps, as on
/// Linux.
const SCTLR_BT0: usize = 1 << 35;
/// SCTLR_EL1.SPAN: exceptions do not set PSTATE.PAN.
const SCTLR_SPAN: usize = 1 << 23;
/// TCR_EL1.HA: the hardware sets the Access flag.
const TCR_HA: usize = 1 << 39;
/// TCR_EL1.HD: the hardware sets the dirty state.
const TCR_HD: usize = 1 << 40;
/// TCR_EL1.E0PD1: EL0 accesses to the kernel's half fault without a table walk.
const TCR_E0PD1: usize = 1 << 56;

/// CNTKCTL_EL1 (CNTHCTL_EL2 with VHE): all bits that give EL0 access to counters and timers, and
/// the bit for the virtual counter.
const COUNTERS_OF_EL0: usize = EL0VCTEN | 1 | 3 << 8;
const EL0VCTEN: usize = 1 << 1;

static FOLDED: Mutex<System> = Mutex::new(System::new());
static BOOT_FEATURES: Once<BootFeatures> = Once::new();

struct BootFeatures {
    system: System,
    hwcaps: Hwcaps,
    /// The hwcaps of 32-bit programs.
    compat_hwcaps: Hwcaps,
    vectors: usize,
}

/// Reads the registers CRm=1..=7 of the ID space into `raw`. Unimplemented ones read as zero.
macro_rules! probe_space {
    ($raw:ident: $($crm:literal)*) => { $( probe_space!(@row $raw $crm "0" "1" "2" "3" "4" "5" "6" "7"); )* };
    (@row $raw:ident $crm:literal $($op2:literal)*) => {
        let mut op2 = 0;
        $(
            $raw.set(Register::id($crm, op2), read_id!($crm, $op2) as u64);
            op2 += 1;
        )*
        let _ = op2;
    };
}

macro_rules! read_id {
    ($crm:literal, $op2:literal) => {{
        let value: usize;
        // SAFETY: reads a register of the ID space, all of which are readable.
        unsafe {
            core::arch::asm!(concat!("mrs {}, S3_0_C0_C", $crm, "_", $op2), out(reg) value, options(nomem, nostack, preserves_flags))
        };
        value
    }};
}

/// Reads this CPU's ID registers, restricted by its boot parameters; calls `refuse` for those that
/// do not apply.
fn probe(refuse: impl Fn(&str, &str, Refused)) -> Raw {
    let mut raw = Raw::new();
    raw.set(MIDR_EL1, read!("midr_el1") as u64);
    raw.set(MPIDR_EL1, read!("mpidr_el1") as u64);
    raw.set(REVIDR_EL1, read!("revidr_el1") as u64);
    let cache_type = effective_cache_type(read!("ctr_el0") as u64, read!("clidr_el1") as u64);
    raw.set(CTR_EL0, cache_type);
    raw.set(DCZID_EL0, read!("dczid_el0") as u64);
    probe_space!(raw: 1 2 3 4 5 6 7);
    for (name, value) in unequal::parameters(cpu::this().index()) {
        if [unequal::LATE, sve::LENGTH].contains(&name) {
            continue;
        }
        if let Err(refused) = raw.restrict(name, value) {
            refuse(name, value, refused);
        }
    }
    raw
}

/// ID_AA64PFR0_EL1.SVE
fn has_sve(raw: &Raw) -> bool {
    raw.get(ID_AA64PFR0_EL1) >> 32 & 0xf != 0
}

/// Folds this CPU's features into the common set, before that is finalized ([`init`]), unless the
/// CPU comes late.
pub(super) fn fold() {
    let index = cpu::this().index();
    if index != 0 && unequal::is_late(index) {
        return;
    }
    let raw = probe(|_, _, _| {});
    FOLDED.lock().fold(&raw);
    if has_sve(&raw) {
        sve::fold();
    }
}

/// Finalizes the features that the kernel and programs may rely on, after all CPUs are folded in,
/// and the policies that depend on them.
pub(super) fn init() {
    fold();
    unequal::warn(cpu::possible());
    let system = FOLDED.lock().clone();
    mmu::init(&system);
    vmid::init(&system);
    uaccess::init(&system);
    emulate::init(params::choice("idreg", &emulate::Policy::NAMES));
    let vectors = params::choice("entry", &entry::Policy::NAMES).vectors();
    if !system.hw_access_flag() {
        branch::take(Key::SoftwareAccessFlag);
    }
    if system.sve() || system.address_auth() || system.mte() {
        branch::take(Key::MoreState);
    }
    if system.has(Feature::Bti) {
        branch::take(Key::GuardedPages);
    }
    if system.mte() {
        branch::take(Key::Tags);
    }
    if system.has(Feature::Bti) || system.mte() {
        branch::take(Key::HandlerState);
    }
    let view = El0View::new(&system, ENABLED, 0);
    let (hwcaps, compat_hwcaps) = (Hwcaps::new(&view), Hwcaps::compat(&system, &view));
    BOOT_FEATURES.call_once(|| BootFeatures {
        system,
        hwcaps,
        compat_hwcaps,
        vectors,
    });
    let admitted = start_cpu();
    assert!(admitted, "the boot CPU was folded in");
    crate::mm::fault::validate_zero_tags();
}

fn boot_features() -> &'static BootFeatures {
    BOOT_FEATURES.get().expect("the features are settled")
}

/// The features common to all CPUs.
#[inline]
pub fn features() -> &'static System {
    &boot_features().system
}

/// The controls that programs have over speculative store bypass.
pub fn store_bypass() -> Option<StoreBypass> {
    Some(features().store_bypass())
}

/// The vector base of `entry`.
pub(super) fn vectors() -> usize {
    boot_features().vectors
}

/// Whether the hardware sets the Access flag, according to this CPU's own ID_AA64MMFR1_EL1.HAFDBS.
/// The read may trap in a guest, which is what `hwaf=reread` demonstrates.
#[inline]
pub fn reread_hw_access_flag() -> bool {
    read!("id_aa64mmfr1_el1") & 0xf != 0
}

/// AT_HWCAP and AT_HWCAP2.
pub fn hwcap() -> (u64, u64) {
    (boot_features().hwcaps.hwcap, boot_features().hwcaps.hwcap2)
}

/// AT_HWCAP and AT_HWCAP2 of 32-bit programs.
pub(super) fn compat_hwcap() -> (u64, u64) {
    let Hwcaps { hwcap, hwcap2 } = boot_features().compat_hwcaps;
    (hwcap, hwcap2)
}

/// The names for `/proc/cpuinfo`.
pub fn hwcap_names() -> impl Iterator<Item = &'static str> {
    boot_features().hwcaps.names()
}

/// Enables the finalized features on this CPU. Returns false, with a message in the log, if the CPU
/// lacks one of them.
pub(super) fn start_cpu() -> bool {
    let (cpu, settled) = (cpu::this(), boot_features());
    let raw = probe(|name, value, why| unequal::refuse(cpu.index(), name, value, why));
    if let Err(missing) = settled.system.admit(&raw) {
        crate::log!("CPU {} stays offline: {missing}", cpu.index());
        return false;
    }
    if settled.system.sve() && !sve::start_cpu() {
        crate::log!(
            "CPU {} stays offline: it lacks a length of vectors",
            cpu.index()
        );
        return false;
    }
    let view = Box::leak(Box::new(El0View::new(
        &settled.system,
        ENABLED,
        raw.get(MIDR_EL1),
    )));
    cpu.view.store(view, Relaxed);
    let mut sctlr = read!("sctlr_el1");
    let mut tcr = read!("tcr_el1");
    if settled.system.pan() {
        sctlr &= !SCTLR_SPAN;
    }
    if settled
        .system
        .misreports_cache_type(read!("ctr_el0") as u64)
    {
        sctlr &= !SCTLR_UCT;
    }
    if settled.system.has(Feature::Bti) {
        sctlr |= SCTLR_BT0;
    }
    if settled.system.has(Feature::Mops) {
        sctlr |= SCTLR_MSCEN;
    }
    if settled.system.mte() {
        sctlr |= tags::SCTLR;
        tags::start_cpu();
    }
    virt::allow_copies(settled.system.has(Feature::Mops));
    if settled.system.hw_access_flag() {
        tcr |= TCR_HA;
    }
    if settled.system.hw_dirty() {
        tcr |= TCR_HD;
    }
    if settled.system.e0pd() {
        tcr |= TCR_E0PD1;
    }
    // SAFETY: the bits belong to features that this CPU has; the vectors are those of `entry`.
    // Programs get only the virtual counter, as on Linux.
    unsafe {
        write!("sctlr_el1", sctlr);
        write!("tcr_el1", tcr);
        write!("vbar_el1", settled.vectors);
        write!(
            "cntkctl_el1",
            read!("cntkctl_el1") & !COUNTERS_OF_EL0 | EL0VCTEN
        );
        write!("tpidr_el0", 0usize);
        write!("tpidrro_el0", 0usize);
        write!("mdscr_el1", points::UNDEBUGGED);
    }
    isb();
    crate::arch::emulation::apply_modes();
    if settled.system.pan() {
        // SAFETY: the encoding of MSR PAN, #1.
        unsafe { core::arch::asm!(".inst 0xd500419f", options(nostack, preserves_flags)) };
    }
    // TCR_EL1 fields may be cached in TLBs (Arm ARM, "Translation lookaside buffers").
    mmu::flush_local_all();
    true
}
