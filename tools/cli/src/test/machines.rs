//! The machines that tests run on: they differ in the hardware and parameters of the kernel.

use super::case::Case;
use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::options::TestOptions;
use crate::qemu::{Accel, Machine};

/// A machine to test on.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its architecture.
    pub arch: Arch,
    cpu: &'static str,
    /// How many CPUs it has.
    pub smp: u32,
    options: &'static [&'static str],
    /// Parameters of the kernel.
    append: &'static [&'static str],
    /// The cases that it runs, and with `--long` all others that do not take minutes; empty means
    /// all.
    cases: &'static [&'static str],
    /// Whether it is used only with `--long`.
    long: bool,
    /// Whether the machine runs the cases that are large or slow: those with Debian packages even
    /// without `--long`, those that take minutes, and those marked slow, which machines with
    /// checked kernels also run.
    packages: bool,
    /// Whether the machine is one of `--quick`: it has more than one CPU, and on arm64 guests.
    quick: bool,
    /// Whether its kernel checks its assertions, as all kernels do with `--debug`.
    pub checked: bool,
}

const ARM64: Setting = Setting {
    name: "",
    arch: Arch::Arm64,
    cpu: "",
    smp: 1,
    options: &[],
    append: &[],
    cases: &[],
    long: false,
    packages: false,
    quick: false,
    checked: false,
};

const RISCV64: Setting = Setting {
    arch: Arch::Riscv64,
    cpu: "rv64",
    smp: 2,
    ..ARM64
};

/// The same machine several times, with different entries kept hidden.
const INJECTED: Setting = Setting {
    cpu: "rv64,svvptc=on,svnapot=on",
    smp: 4,
    long: true,
    ..RISCV64
};

/// Cases with every kind of exception of programs, for all policies.
const POLICIES: &[&str] = &[
    "abi-fault",
    "abi-memory",
    "arm32",
    "go",
    "hundred-forks",
    "signals-core",
    "threads",
];

/// Cases that need timers, device interrupts, other CPUs, and the Accessed and Dirty bits.
const FEW: &[&str] = &[
    "abi-memory",
    "hundred-forks",
    "mmapstress",
    "terminal",
    "threads",
    "time",
];

/// Cases for machines whose CPUs differ.
const UNEQUAL: &[&str] = &[
    "abi-memory",
    "abi-same-cpus",
    "hundred-forks",
    "mmapstress",
    "terminal",
    "threads",
];

/// APLIC and IMSIC instead of the PLIC.
const IMSIC: &[&str] = &["-machine", "aia=aplic-imsic"];

/// `--record` uses the first machine of each architecture, and damaged input is tried on it.
const SETTINGS: &[Setting] = &[
    Setting {
        name: "cortex-a72",
        cpu: "cortex-a72",
        ..ARM64
    },
    Setting {
        name: "max",
        cpu: "max",
        smp: 4,
        packages: true,
        ..ARM64
    },
    Setting {
        name: "neoverse-n1-el2",
        cpu: "neoverse-n1",
        smp: 2,
        options: &["-machine", "virtualization=on"],
        quick: true,
        ..ARM64
    },
    Setting {
        name: "cortex-a72-checked",
        cpu: "cortex-a72",
        smp: 2,
        checked: true,
        ..ARM64
    },
    Setting {
        name: "max-el2",
        cpu: "max,pmu=off",
        smp: 2,
        options: &["-machine", "virtualization=on"],
        cases: &[
            "guest-features",
            "kvm-caches",
            "kvm-copies",
            "kvm-idregs-max",
            "kvm-saved",
            "kvm-vcpus",
            "kvm-vectors",
        ],
        ..ARM64
    },
    Setting {
        name: "max-mte",
        cpu: "max",
        smp: 2,
        options: &["-machine", "mte=on"],
        cases: &[
            "abi-guard",
            "abi-mte",
            "abi-signals",
            "abi-sve",
            "hundred-forks",
            "threads",
        ],
        ..ARM64
    },
    Setting {
        name: "neoverse-n1-few-vmids",
        cpu: "neoverse-n1",
        smp: 2,
        options: &["-machine", "virtualization=on"],
        append: &["vmid.bits=7"],
        cases: &["kvm", "kvm-pages", "kvm-vmids"],
        ..ARM64
    },
    Setting {
        name: "cortex-a72-befores",
        cpu: "cortex-a72",
        smp: 2,
        append: &["entry=switch", "idreg=locked", "hwaf=reread", "contpte=off"],
        cases: POLICIES,
        ..ARM64
    },
    Setting {
        name: "neoverse-n1-scan",
        cpu: "neoverse-n1",
        smp: 2,
        long: true,
        options: &["-machine", "virtualization=on"],
        append: &["affinity=scan"],
        cases: &[
            "guest-linux",
            "kvm",
            "kvm-descriptors",
            "kvm-its",
            "kvm-mpidrs",
            "kvm-saved",
            "kvm-sgis",
            "kvm-vcpus",
        ],
        ..ARM64
    },
    Setting {
        name: "max-table",
        cpu: "max",
        smp: 2,
        append: &["entry=table", "idreg=locked"],
        cases: POLICIES,
        ..ARM64
    },
    Setting {
        name: "max-unequal",
        cpu: "max",
        smp: 4,
        append: &[
            "cpu0.ZCR_EL1.LEN=3",
            "cpu1.ID_AA64MMFR1_EL1.HAFDBS=1",
            "cpu1.ZCR_EL1.LEN=1",
            "cpu1.CTR_EL0.DminLine=3",
            "cpu1.ID_AA64ISAR0_EL1.SHA3=0",
            "cpu1.ID_AA64MMFR0_EL1.BIGEND=0",
            "cpu2.ID_AA64MMFR0_EL1.ASIDBITS=0",
            "cpu2.ID_AA64MMFR0_EL1.PARANGE=2",
            "cpu2.ID_AA64PFR1_EL1.BT=0",
            "cpu2.ID_AA64ISAR1_EL1.APA=0",
            "cpu2.ID_AA64ISAR1_EL1.API=0",
            "cpu3.ID_AA64MMFR1_EL1.HAFDBS=0",
            "cpu3.ID_AA64MMFR2_EL1.VARange=0",
            "cpu3.CTR_EL0.IDC=0",
        ],
        cases: UNEQUAL,
        ..ARM64
    },
    Setting {
        name: "a64fx",
        cpu: "a64fx",
        smp: 2,
        cases: &[
            "abi-fault",
            "abi-idregs-a64fx",
            "arm32-absent",
            "go",
            "hello",
            "threads",
        ],
        ..ARM64
    },
    Setting {
        name: "cortex-a53",
        cpu: "cortex-a53",
        cases: &["abi-idregs-cortex-a53"],
        ..ARM64
    },
    Setting {
        name: "cortex-a76",
        cpu: "cortex-a76",
        smp: 2,
        cases: &["abi-idreg", "abi-idregs-cortex-a76"],
        ..ARM64
    },
    // Physical addresses have 40 bits.
    Setting {
        name: "cortex-a76-el2",
        cpu: "cortex-a76",
        smp: 2,
        options: &["-machine", "virtualization=on"],
        cases: &["guest-linux", "kvm-pages", "kvm-sizes-cortex-a76"],
        ..ARM64
    },
    Setting {
        name: "cortex-a710",
        cpu: "cortex-a710",
        cases: &["abi-idregs-cortex-a710"],
        ..ARM64
    },
    Setting {
        name: "neoverse-v1",
        cpu: "neoverse-v1",
        cases: &[
            "abi-fault",
            "abi-idregs-neoverse-v1",
            "abi-pauth-without-faults",
        ],
        ..ARM64
    },
    Setting {
        name: "max-without-sme",
        cpu: "max,sme=off",
        cases: &["abi-idregs-max"],
        ..ARM64
    },
    Setting {
        name: "rv64",
        cpu: "rv64,svvptc=off,sv48=off",
        smp: 1,
        ..RISCV64
    },
    Setting {
        name: "rv64-svvptc",
        cpu: "rv64,svvptc=on,sv57=off,svnapot=on",
        smp: 4,
        packages: true,
        quick: true,
        ..RISCV64
    },
    Setting {
        name: "rv64-checked",
        cpu: "rv64,svvptc=off,svnapot=on",
        checked: true,
        ..RISCV64
    },
    Setting {
        name: "rv64-befores",
        cpu: "rv64,svvptc=on",
        smp: 4,
        append: &["fence.kernel=preventive", "fence.user=preventive"],
        long: true,
        ..RISCV64
    },
    Setting {
        name: "rv64-inject",
        append: &["fence.inject=1"],
        cases: &[
            "abi-fault",
            "abi-memory",
            "hundred-forks",
            "memory",
            "pipes",
            "signals-core",
            "threads",
        ],
        long: false,
        ..INJECTED
    },
    Setting {
        name: "rv64-inject-2",
        append: &["fence.inject=2"],
        ..INJECTED
    },
    Setting {
        name: "rv64-inject-3",
        append: &["fence.inject=3"],
        ..INJECTED
    },
    Setting {
        name: "rv64-no-asids",
        append: &["asid.bits=0"],
        cases: FEW,
        smp: 4,
        ..RISCV64
    },
    Setting {
        name: "rv64-few-asids",
        append: &["asid.bits=7"],
        cases: FEW,
        smp: 4,
        ..RISCV64
    },
    Setting {
        name: "rv64-sbi-timer",
        cpu: "rv64,sstc=off",
        cases: FEW,
        ..RISCV64
    },
    Setting {
        name: "rv64-svade",
        cpu: "rv64,svade=on,svadu=off",
        cases: FEW,
        ..RISCV64
    },
    Setting {
        name: "rv64-svade-svadu",
        cpu: "rv64,svade=on,svadu=on",
        cases: FEW,
        ..RISCV64
    },
    Setting {
        name: "rv64-aplic",
        options: &["-machine", "aia=aplic"],
        cases: FEW,
        ..RISCV64
    },
    Setting {
        name: "rv64-imsic",
        options: IMSIC,
        cases: FEW,
        ..RISCV64
    },
    Setting {
        name: "rv64-vector",
        cpu: "rv64,v=on,vlen=256",
        smp: 4,
        cases: &[
            "abi-addresses-sv57",
            "abi-vector",
            "signals-core",
            "threads",
        ],
        ..RISCV64
    },
    Setting {
        name: "rv64-unequal",
        cpu: "max,svvptc=on",
        smp: 4,
        append: &[
            "cpu1.isa=rv64imafdc_zba_zbb_zicbom_zicboz_sstc_svinval_svade_svadu",
            "cpu2.isa=rv64imafdcv_zba_zbs_zicboz_svadu_svvptc",
            "cpu3.isa=rv64imafdcvh_zba_zbb_zbs_svvptc",
        ],
        cases: UNEQUAL,
        ..RISCV64
    },
    Setting {
        name: "rv64-max-64",
        cpu: "max",
        smp: 64,
        options: IMSIC,
        cases: &["terminal", "threads", "time"],
        ..RISCV64
    },
];

/// The requested machines of an architecture.
pub fn settings(options: &TestOptions, arch: Arch) -> impl Iterator<Item = Setting> {
    let (long, quick) = (options.long, options.quick);
    let of_arch = SETTINGS
        .iter()
        .copied()
        .filter(move |setting| setting.arch == arch && (long || !setting.long))
        .filter(move |setting| setting.quick || !quick);
    of_arch.take(if options.record { 1 } else { SETTINGS.len() })
}

/// The first machine of an architecture.
pub fn first(arch: Arch) -> Option<Setting> {
    SETTINGS
        .iter()
        .copied()
        .find(|setting| setting.arch == arch)
}

/// The machine that a case is recorded on.
pub fn recording(case: &Case, options: &TestOptions) -> Option<Setting> {
    let all = || SETTINGS.iter().copied();
    match &case.machine {
        Some(name) => all().find(|setting| setting.name == name),
        None if case.hypervisor => all().find(Setting::virtualises),
        None => options
            .arches()
            .filter(|&arch| case.only.is_none_or(|only| only == arch))
            .find_map(|arch| settings(options, arch).next()),
    }
}

impl Setting {
    /// Whether its kernel can be a hypervisor.
    pub fn virtualises(&self) -> bool {
        self.options.contains(&"virtualization=on")
    }

    /// Whether its CPUs run 32-bit programs.
    fn runs_32_bits(&self) -> bool {
        self.cpu != "a64fx"
    }

    /// Whether the machine runs more than a few cases.
    pub fn runs_all(&self) -> bool {
        self.cases.is_empty()
    }

    /// Whether the machine runs this case.
    pub fn runs(&self, case: &Case, options: &TestOptions) -> bool {
        let named = self.runs_all() || self.cases.contains(&case.name.as_str());
        let is_everywhere = options.long || options.record || !options.names.is_empty();
        (named || options.long && case.minutes.is_none())
            && (is_everywhere || !case.slow || self.packages || self.checked)
            && (options.long || self.packages || case.packages.is_empty())
            && (self.packages || case.hypervisor || options.record || case.minutes.is_none())
            && (self.virtualises() || !case.hypervisor)
            && match &case.machine {
                Some(name) => name == self.name,
                None => self.runs_32_bits() || case.compat_programs.is_empty(),
            }
            && case.only.is_none_or(|only| only == self.arch)
    }

    /// The machine, which boots `kernel` with these additional parameters.
    pub fn machine<'a>(&self, kernel: &'a Kernel, append: &[&str]) -> Machine<'a> {
        let owned = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        Machine {
            arch: self.arch,
            kernel,
            cpu: Some(self.cpu),
            smp: self.smp,
            memory: "1G",
            icount: false,
            as_shipped: false,
            accel: Accel::Tcg,
            debugger: None,
            disks: Vec::new(),
            shares: Vec::new(),
            append: owned(&[self.append, append].concat()),
            options: owned(self.options),
        }
    }
}
