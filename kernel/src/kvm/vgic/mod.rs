//! The interrupt controller of a machine, a GICv3: created by the VMM (KVM_CREATE_DEVICE), then
//! used by guests.

mod attributes;
mod frames;
mod interface;
mod its;
mod saved;
mod sgi;

pub use attributes::create;
pub use frames::{Frames, access, access_alone, is_held_elsewhere};
pub use interface::{enter, is_due, leave, next_timer, refill, timer, with_state};
pub use its::{access_by_memory, signal_msi};
pub use sgi::send_sgi;

use alloc::sync::Arc;
use alloc::vec::Vec;

/// The number of the first shared interrupt.
pub const FIRST_SHARED: u32 = vgic::PRIVATE;
pub const LAST_SHARED: u32 = vgic::MAX - 1;

use spin::Once;
use vgic::Shared;

use super::vcpu::Vcpu;

use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use attributes::Setup;

/// A machine's controller.
pub struct Vgic {
    setup: Mutex<Setup>,
    /// Set once the VMM has completed the setup.
    complete: Once<Complete>,
    /// Set once a virtual CPU runs.
    frames: Once<Frames>,
    /// The first ITS, which links to the next.
    its: its::Link,
}

/// The controller after its setup.
struct Complete {
    shared: Shared,
    /// All virtual CPUs, by index.
    vcpus: Vec<Arc<Vcpu>>,
}

impl Vgic {
    fn new(limit: u64) -> Self {
        Vgic {
            setup: Mutex::new(Setup::new(limit)),
            complete: Once::new(),
            frames: Once::new(),
            its: its::Link::new(),
        }
    }

    /// Whether the VMM has completed the setup. After that, no virtual CPU can be added.
    pub fn is_complete(&self) -> bool {
        self.complete.get().is_some()
    }

    /// Whether there is an ITS.
    pub fn has_its(&self) -> bool {
        !self.its.is_empty()
    }

    /// Prepares the controller before one of `vcpus` virtual CPUs runs for the first time.
    pub fn prepare(&self, vcpus: usize) -> Result<()> {
        if self.frames().is_some() {
            return Ok(());
        }
        let frames = self.setup.lock().frames(vcpus)?;
        if !self.is_complete() {
            return Err(Errno::EBUSY);
        }
        self.frames.call_once(|| frames);
        Ok(())
    }

    /// Whether the redistributor of the virtual CPU at index `place` is the last one of its row.
    fn is_last(&self, place: u64, vcpus: usize) -> bool {
        self.setup.lock().is_last(place, vcpus)
    }

    /// The addresses of the registers, once a virtual CPU runs.
    #[inline]
    pub fn frames(&self) -> Option<&Frames> {
        self.frames.get()
    }

    /// The state that all virtual CPUs share, once the setup is complete.
    #[inline]
    pub fn shared(&self) -> Option<&Shared> {
        Some(&self.complete.get()?.shared)
    }

    /// The state that all virtual CPUs share, and the virtual CPUs by index, once the setup is
    /// complete.
    fn all(&self) -> Option<(&Shared, &[Arc<Vcpu>])> {
        let complete = self.complete.get()?;
        Some((&complete.shared, &complete.vcpus))
    }
}
