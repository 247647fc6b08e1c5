//! A guest's GICv3 (Arm IHI 0069) with one security state, as Linux's KVM shows it.
//!
//! - [`Bank`] is the state of 32 interrupts. Most of the controller's registers set or clear bits,
//!   and each is one atomic operation on a word here: there is no lock.
//! - [`Private`] is what one virtual CPU has for itself: a bank, and the word into which others put
//!   the SGIs for it.
//! - [`Shared`] is what all have: the shared interrupts and where each goes.
//! - [`distributor`] and [`redistributor`] are the registers of both.
//! - [`vmm`] are the same as a VMM saves and restores them, and [`CpuInterface`] the registers
//!   of the CPU interface.
//! - [`Interface`] chooses what the hardware's list registers hold, and takes back what the guest
//!   did with it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bank;
mod cpu;
mod interface;
mod list;
mod lpi;
mod presence;
mod private;
mod registers;
mod shared;
mod tables;

pub mod distributor;
pub mod its;
pub mod redistributor;
pub mod vmm;

pub use bank::Bank;
pub use cpu::{CpuInterface, Limits};
pub use interface::Interface;
pub use list::ListRegister;
pub use presence::Presence;
pub use private::Private;
pub use registers::{Access, Effect};
pub use shared::{NoMemory, Shared};

/// Interrupts that each CPU has for itself: SGIs and PPIs.
pub const PRIVATE: u32 = 32;
/// Software-generated interrupts.
pub const SGIS: u32 = 16;
/// The most interrupts there can be: numbers from here on mean something else.
pub const MAX: u32 = 1020;
