//! The machines that tests run on: they differ in what the kernel starts with.

use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::options::TestOptions;
use crate::qemu::{Accel, Machine};

/// A machine to test on.
pub struct Setting {
    /// What it is called.
    pub name: &'static str,
    /// Its architecture.
    pub arch: Arch,
    cpu: &'static str,
    smp: u32,
    options: &'static [&'static str],
}

/// The first of each architecture is the one that `--quick` and `--record` use.
const SETTINGS: [Setting; 5] = [
    Setting {
        name: "cortex-a72",
        arch: Arch::Arm64,
        cpu: "cortex-a72",
        smp: 1,
        options: &[],
    },
    Setting {
        name: "max",
        arch: Arch::Arm64,
        cpu: "max",
        smp: 4,
        options: &[],
    },
    Setting {
        name: "neoverse-n1-el2",
        arch: Arch::Arm64,
        cpu: "neoverse-n1",
        smp: 2,
        options: &["-machine", "virtualization=on"],
    },
    Setting {
        name: "rv64",
        arch: Arch::Riscv64,
        cpu: "rv64,svvptc=off,sv48=off",
        smp: 1,
        options: &[],
    },
    Setting {
        name: "rv64-svvptc",
        arch: Arch::Riscv64,
        cpu: "rv64,svvptc=on,sv57=off",
        smp: 4,
        options: &[],
    },
];

/// The machines of an architecture that are asked for.
pub fn settings(options: &TestOptions, arch: Arch) -> impl Iterator<Item = Setting> {
    let of_arch = SETTINGS
        .into_iter()
        .filter(move |setting| setting.arch == arch);
    of_arch.take(if options.quick || options.record {
        1
    } else {
        SETTINGS.len()
    })
}

/// A machine whose kernel can be a hypervisor.
pub fn hypervisor() -> Option<Setting> {
    SETTINGS.into_iter().find(Setting::virtualises)
}

impl Setting {
    /// Whether its kernel can be a hypervisor.
    pub fn virtualises(&self) -> bool {
        self.options.contains(&"virtualization=on")
    }

    /// The machine, which boots `kernel` with these parameters.
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
            gdb: false,
            append: owned(append),
            options: owned(self.options),
        }
    }
}
