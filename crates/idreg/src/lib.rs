//! arm64 ID registers: fields, sanitising over CPUs, the views of EL0 and guests, MRS decoding.
//!
//! The kernel reads the ID registers of each CPU as it comes up ([`Raw`]) and folds them into one
//! system-wide value ([`System`]), which holds for each field the value that is safe on every CPU.
//! Everything else is derived from that value:
//!
//! - the kernel's own decisions, by named predicates ([`System::hw_access_flag`] and its kin),
//!   never by reading a register;
//! - the values that a program sees when it reads an ID register and traps ([`El0View`], [`Mrs`]),
//!   and its HWCAPs ([`Hwcaps`]);
//! - the values that a guest sees ([`System::guest_value`]).
//!
//! The fields, their safe values and their visibility follow the Arm ARM (DDI 0487, "General system
//! control registers" and "Principles of the ID scheme for fields in ID registers") and the values
//! that Linux 6.12 shows to programs (`Documentation/arch/arm64/cpu-feature-registers.rst` and
//! `elf_hwcaps.rst`).
#![no_std]
#![forbid(unsafe_code)]

mod aarch32;
mod aarch64;
mod cache_type;
mod errata;
mod feature;
mod field;
mod hwcap;
mod mrs;
mod overrides;
mod predicates;
pub mod register;
mod store_bypass;
mod system;
mod view;

pub use cache_type::effective_cache_type;
pub use feature::{Enabled, Feature};
pub use field::{Field, Rule, Visibility};
pub use hwcap::Hwcaps;
pub use mrs::Mrs;
pub use overrides::Refused;
pub use register::{Description, Register};
pub use store_bypass::StoreBypass;
pub use system::{Missing, Raw, System};
pub use view::{El0View, MPIDR_AT_EL0};
