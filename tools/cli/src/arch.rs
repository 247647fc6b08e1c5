//! The architectures of guests, and their names in Rust, Debian and QEMU.

use clap::ValueEnum;

/// Debian's name of 32-bit Arm, whose programs arm64 machines run too.
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

    /// The folder below `/usr/lib` that holds the architecture's libraries.
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

    /// Rust's target of the kernel.
    pub fn kernel_target(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-unknown-none-softfloat",
            Self::Riscv64 => "riscv64imac-unknown-none-elf",
        }
    }

    /// Rust's target of our own user programs.
    pub fn program_target(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-unknown-linux-musl",
            Self::Riscv64 => "riscv64gc-unknown-linux-gnu",
        }
    }

    /// The CPU model of a machine unless another is asked for.
    pub fn default_cpu(self) -> &'static str {
        match self {
            Self::Arm64 => "cortex-a72",
            Self::Riscv64 => "rv64,svvptc=on",
        }
    }

    /// The machine that `uname -m` would name on such a host.
    pub fn host_name(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64",
            Self::Riscv64 => "riscv64",
        }
    }
}
