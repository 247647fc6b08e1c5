//! Maps an MPIDR, or an SGI's whole target list, to the vCPUs that have that affinity.
//!
//! A guest addresses CPUs by affinity: in ICC_SGI1R_EL1, in PSCI calls, in GICD_IROUTER. A vCPU's
//! affinity, its id and its place in the VM's table are three different numbers; this crate finds
//! the place ([`Vcpu`]).
//!
//! - [`Index`] does so in one look-up, for one CPU or for the sixteen that a target list can
//!   address. Its result is checked against the whole affinity, so that an absent CPU is never
//!   taken for a present one, and a miss costs as much as a hit.
//! - [`scan`] is the *before*: it walks all vCPUs.
//! - [`Publication`] replaces an index with a new one while vCPUs run.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod find;
mod index;
mod publish;
pub mod scan;
mod sgi;

pub use address::{Affinity, TargetList};
pub use index::{Index, NoMemory, Targets, Vcpu};
pub use publish::{Lock, Publication, Reader};
pub use sgi::{Destination, Sgi, SgiRegister};
