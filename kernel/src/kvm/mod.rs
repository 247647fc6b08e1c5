//! Linux's KVM interface: `/dev/kvm` (Documentation/virt/kvm/api.rst). A VM and a virtual CPU are
//! open files too.
//!
//! Guests have memory, general and system registers, PSCI, timers, a GICv3 and devices of the VMM.

mod abort;
mod attributes;
mod calls;
mod capabilities;
mod coalesced;
mod context;
mod counters;
mod directory;
mod dirty;
mod events;
mod exit;
mod features;
mod firmware;
mod ioevents;
mod irqfd;
mod kvm_run;
mod memory;
mod psci;
mod registers;
mod routing;
#[cfg(feature = "selftest")]
mod selftests;
mod slots;
mod smccc;
mod stats;
mod steal;
mod sve;
mod sysreg;
mod uapi;
mod vcpu;
mod vcpu_file;
mod vgic;
mod vm;

use abi::kvm_capability as cap;
use alloc::sync::Arc;

use crate::arch;
use crate::errno::{Errno, Result};
use crate::fs::anonymous;
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::mm::heap::try_arc;
use crate::task::current;
use linux_raw_sys::general::O_RDWR;
use vm::Vm;

/// `/dev/kvm`.
struct System;

pub use directory::init;

/// Opens `/dev/kvm`.
///
/// # Errors
/// ENODEV: the program has 32 bits. ENOMEM.
pub fn open() -> Result<Arc<dyn FileOps>> {
    if current().arch.is_compat() {
        return Err(Errno::ENODEV);
    }
    Ok(try_arc(System)?)
}

impl FileOps for System {
    fn is_stream(&self) -> bool {
        true
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        match request {
            uapi::GET_API_VERSION if argument == 0 => Ok(uapi::API_VERSION),
            uapi::GET_VCPU_MMAP_SIZE if argument == 0 => Ok(vcpu_file::PAGES * arch::PAGE_SIZE),
            uapi::GET_API_VERSION | uapi::GET_VCPU_MMAP_SIZE => Err(Errno::EINVAL),
            uapi::CHECK_EXTENSION if argument == cap::MSI_DEVID => Err(Errno::EINVAL),
            uapi::CHECK_EXTENSION => Ok(capabilities::extension(argument)),
            uapi::CREATE_VM => add_file("kvm-vm", try_arc(Vm::new(argument)?)?),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Adds a new file to the calling process's descriptors.
fn add_file(kind: &str, ops: Arc<dyn FileOps>) -> Result<usize> {
    let file = anonymous::file(kind, ops, OpenFlags(O_RDWR))?;
    Ok(current().files().add(file, true)? as usize)
}
