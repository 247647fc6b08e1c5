//! The features common to all harts, and those that programs see.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use isa::hwprobe::{Facts, Misaligned};
use isa::{Extension, Extensions, Hart, Usable};
use spin::Once;

use super::{cpu, mmu, vector};
use crate::arch::branch::{self, Key};
use crate::arch::unequal;
use crate::fdt;

/// The features common to all harts.
pub struct Features {
    extensions: Extensions,
    facts: Facts,
}

/// The block size in bytes for which `cbo.zero` is used.
pub(super) const ZERO_BLOCK: usize = 64;

static FEATURES: Once<Features> = Once::new();
/// Whether all harts have Sstc; also valid before `FEATURES` is set.
static SSTC: AtomicBool = AtomicBool::new(false);

/// The features common to all harts.
///
/// # Panics
/// Before the boot CPU has determined them.
#[inline]
pub fn features() -> &'static Features {
    FEATURES.get().expect("settled at boot")
}

/// Whether all harts have `stimecmp`.
#[inline(always)]
pub(super) fn sstc() -> bool {
    SSTC.load(Relaxed)
}

impl Features {
    /// Whether the hardware sets the Accessed and Dirty bits of PTEs (Svadu without Svade).
    #[inline]
    pub fn hw_access_flag(&self) -> bool {
        self.has(Extension::Svadu) && !self.has(Extension::Svade)
    }

    pub(super) fn has(&self, extension: Extension) -> bool {
        self.extensions.has(extension)
    }

    /// The values that `riscv_hwprobe` returns.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The extensions for `/proc/cpuinfo`.
    pub(super) fn extensions(&self) -> Extensions {
        self.extensions
    }
}

/// Reads the features of the harts in `tree`. Returns the time counter's frequency in hertz.
pub(super) fn init(tree: Fdt) -> u64 {
    let harts = harts(tree);
    unequal::warn(harts.clone().count());
    let early = |node: &FdtNode| !cpu_of(node).is_some_and(|cpu| cpu != 0 && unequal::is_late(cpu));
    let all = harts
        .clone()
        .filter(early)
        .map(|node| extensions(&node))
        .reduce(Extensions::and)
        .unwrap_or(Extensions::NONE);
    let number = |node: &FdtNode, name| fdt::number(node, name).unwrap_or(0) as u64;
    let block = |name| {
        let sizes = harts.clone().map(|node| number(&node, name));
        sizes.reduce(|a, b| if a == b { a } else { 0 }).unwrap_or(0)
    };
    let zicboz_block = block("riscv,cboz-block-size");
    let frequency = tree
        .find_node("/cpus")
        .map_or(0, |cpus| number(&cpus, "timebase-frequency"));
    let vector = all.has(Extension::Zve32x);
    if vector {
        vector::promise();
    }
    let usable = Usable {
        float: true,
        vector,
        zicbom: false,
        zicboz: zicboz_block != 0,
    };
    SSTC.store(all.has(Extension::Sstc), Relaxed);
    FEATURES.call_once(|| Features {
        extensions: all,
        facts: Facts {
            ids: [
                sbi_rt::get_mvendorid(),
                sbi_rt::get_marchid(),
                sbi_rt::get_mimpid(),
            ]
            .map(|id| id as u64),
            extensions: all.usable(usable),
            misaligned_scalar: Misaligned::Unknown,
            misaligned_vector: if vector {
                Misaligned::Unknown
            } else {
                Misaligned::Unsupported
            },
            zicboz_block,
            zicbom_block: block("riscv,cbom-block-size"),
            address_end: mmu::Mode::of_levels(mmu::levels()).half() as u64,
            time_frequency: frequency,
        },
    });
    frequency
}

/// Patches the branches that depend on features. Needs `mm`.
pub(super) fn patch_branches() {
    match mmu::Mode::of_levels(mmu::levels()) {
        mmu::Mode::Sv39 => {}
        mmu::Mode::Sv48 => branch::take(Key::Sv48),
        mmu::Mode::Sv57 => branch::take(Key::Sv57),
    }
    let facts = features().facts();
    if facts.extensions.has(Extension::Zicboz) && facts.zicboz_block == ZERO_BLOCK as u64 {
        branch::take(Key::ZeroByBlock);
    }
    if !features().hw_access_flag() {
        branch::take(Key::SoftwareAccessFlag);
    }
}

/// The nodes of enabled harts.
pub(super) fn harts<'a>(tree: Fdt<'a>) -> impl Iterator<Item = FdtNode<'a>> + Clone + 'a {
    let cpus = tree.find_node("/cpus").into_iter();
    let nodes = cpus.flat_map(|cpus| cpus.children());
    nodes.filter(|node| node.name_without_address() == "cpu" && fdt::is_enabled(node))
}

/// The hart ID of a node.
pub(super) fn hart_number(node: FdtNode) -> Option<usize> {
    let number = node.reg().ok().flatten()?.next()?.address::<u64>().ok()?;
    Some(number as usize)
}

/// The index of a hart's CPU: the boot hart is the first, the others follow in the order of the
/// tree.
fn cpu_of(node: &FdtNode) -> Option<usize> {
    let (hart, boot) = (hart_number(*node)?, cpu::BOOT.hart());
    if hart == boot {
        return Some(0);
    }
    let mut others = harts(fdt::tree())
        .filter_map(hart_number)
        .filter(|other| *other != boot);
    Some(others.position(|other| other == hart)? + 1)
}

/// The boot parameter that restricts a CPU to the extensions of an ISA string.
const ISA: &str = "isa";

/// The features of a hart: those in its node, restricted by its boot parameters.
fn read(node: &FdtNode) -> Hart {
    let mut hart = read_node(node);
    let parameters = cpu_of(node).into_iter().flat_map(unequal::parameters);
    for (_, isa) in parameters.filter(|(name, _)| *name == ISA) {
        let asked = Hart::from_string(isa);
        hart.extensions = hart.extensions.and(asked.extensions);
        hart.malformed = hart.malformed.or(asked.malformed);
    }
    hart
}

fn read_node(node: &FdtNode) -> Hart {
    let names =
        fdt::bytes(node, "riscv,isa-extensions").and_then(|names| core::str::from_utf8(names).ok());
    match (names, fdt::text_of(node, "riscv,isa")) {
        (Some(names), _) => {
            let base = fdt::text_of(node, "riscv,isa-base").unwrap_or_default();
            Hart::from_list(base, names.split_terminator('\0'))
        }
        (None, isa) => Hart::from_string(isa.unwrap_or_default()),
    }
}

/// The extensions of a hart; logs a warning if its description is malformed.
fn extensions(node: &FdtNode) -> Extensions {
    let hart = read(node);
    if let Some(malformed) = hart.malformed {
        crate::log!("{}: {malformed}: what could be read counts", node.name());
    }
    hart.extensions
}

/// The extensions in the node of hart `hart`, and the design's name, if there is one.
pub(super) fn of_hart(hart: usize) -> Option<(Extensions, Option<&'static str>)> {
    let node = harts(fdt::tree()).find(|node| hart_number(*node) == Some(hart))?;
    let design = fdt::text_of(&node, "compatible").filter(|name| *name != "riscv");
    Some((read(&node).extensions, design))
}

/// Bits of `senvcfg` (privileged manual, section 12.1.10).
const CBO_ZERO: usize = 1 << 7;

/// Enables the reported features for programs on this hart; false, with a message in the log, if it
/// lacks one of them.
pub(super) fn start_cpu() -> bool {
    let (index, own) = (cpu::this().index(), of_hart(cpu::this().hart()));
    for (name, value) in unequal::parameters(index) {
        if ![unequal::LATE, ISA].contains(&name) {
            unequal::refuse(index, name, value, "neither isa nor late");
        }
    }
    let own = own.map_or(Extensions::NONE, |(extensions, _)| extensions);
    if let Some(missing) = features()
        .extensions
        .iter()
        .find(|extension| !own.has(*extension))
    {
        crate::log!("CPU {index} stays offline: it lacks {}", missing.name());
        return false;
    }
    if features().facts.extensions.has(Extension::Zicboz) {
        // SAFETY: enables an instruction that programs execute on their own memory.
        unsafe { asm!("csrs senvcfg, {}", in(reg) CBO_ZERO, options(nostack, preserves_flags)) };
    }
    // SAFETY: lets programs read the time counter, as on Linux.
    unsafe { asm!("csrw scounteren, {}", in(reg) COUNTERS, options(nostack, preserves_flags)) };
    let whole = vector::start_cpu();
    if !whole {
        crate::log!("CPU {index} stays offline: its vectors have another length");
    }
    whole
}

/// `scounteren`: enables the time counter (section 12.1.5).
const COUNTERS: usize = 1 << 1;

/// AT_HWCAP and AT_HWCAP2.
pub fn hwcap() -> (u64, u64) {
    (features().facts.extensions.hwcap(), 0)
}

/// Whether the hardware sets the Accessed bit. No register reports it, so the answer is always the
/// one determined at boot.
pub fn reread_hw_access_flag() -> bool {
    features().hw_access_flag()
}
