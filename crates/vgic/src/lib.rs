//! A guest's GICv3 (Arm IHI 0069) with one security state, as Linux's KVM shows it.
//!
//! - [`Bank`] is the state of 32 interrupts. Most of the controller's registers set or clear bits,
//!   and each is one atomic operation on a word here: there is no lock.
//! - [`Private`] is the state of one virtual CPU: a bank, and the word into which others put the
//!   SGIs for it.
//! - [`Shared`] is the state that all share: the shared interrupts and their routes.
//! - [`distributor`] and [`redistributor`] are the registers of both.
//! - [`vmm`] has these registers as a VMM saves and restores them, and [`CpuInterface`] the
//!   registers of the CPU interface.
//! - [`Interface`] chooses the content of the hardware's list registers, and takes back the state
//!   in which the guest leaves them.
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

/// The number of private interrupts of each CPU: SGIs and PPIs.
pub const PRIVATE: u32 = 32;
/// The number of software-generated interrupts.
pub const SGIS: u32 = 16;
/// The maximum number of interrupts: numbers from here on have other meanings.
pub const MAX: u32 = 1020;
