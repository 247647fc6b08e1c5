//! The architectures of guests, and their names in Rust, Debian and QEMU.

use clap::ValueEnum;

/// Debian's name of 32-bit Arm; arm64 machines run its programs, too.
pub const COMPAT: &str = "armhf";

/// An architecture that Stile runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// 64-bit Arm.
    #[value(alias = "aarch64")]
    Arm64,
    /// 64-bit RISC-V.
    #[value(alias = "riscv")]
    Riscv64,
}

impl Arch {
    /// Debian's name.
    pub fn debian(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// The folder below `/usr/lib` with the architecture's libraries.
    pub fn library_folder(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-linux-gnu",
            Self::Riscv64 => "riscv64-linux-gnu",
        }
    }

    /// The program that emulates it.
    pub fn qemu(self) -> &'static str {
        match self {
            Self::Arm64 => "qemu-system-aarch64",
            Self::Riscv64 => "qemu-system-riscv64",
        }
    }

    /// Rust's target for the kernel.
    pub fn kernel_target(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-unknown-none-softfloat",
            Self::Riscv64 => "riscv64imac-unknown-none-elf",
        }
    }

    /// Rust's target for our own user programs.
    pub fn program_target(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-unknown-linux-musl",
            Self::Riscv64 => "riscv64gc-unknown-linux-gnu",
        }
    }

    /// The default CPU model of a machine.
    pub fn default_cpu(self) -> &'static str {
        match self {
            Self::Arm64 => "cortex-a72",
            Self::Riscv64 => "rv64,svvptc=on",
        }
    }

    /// The machine name that `uname -m` prints on a host of this architecture.
    pub fn host_name(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64",
            Self::Riscv64 => "riscv64",
        }
    }
}
