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

/// Numbers of shared interrupts.
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
    /// There once the VMM has said that it is complete.
    complete: Once<Complete>,
    /// There once a virtual CPU runs.
    frames: Once<Frames>,
    /// The first ITS, which knows the next.
    its: its::Link,
}

/// The controller once it is set up.
struct Complete {
    shared: Shared,
    /// All virtual CPUs, by place.
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

    /// Whether the VMM has said that it is complete, after which no virtual CPU is added.
    pub fn is_complete(&self) -> bool {
        self.complete.get().is_some()
    }

    /// Whether there is an ITS.
    pub fn has_its(&self) -> bool {
        !self.its.is_empty()
    }

    /// Readies it for the first run of one of `vcpus` virtual CPUs.
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

    /// Whether the redistributor of the virtual CPU in this place is the last where it is.
    fn is_last(&self, place: u64, vcpus: usize) -> bool {
        self.setup.lock().is_last(place, vcpus)
    }

    /// Where registers are, once one runs.
    #[inline]
    pub fn frames(&self) -> Option<&Frames> {
        self.frames.get()
    }

    /// The state that all virtual CPUs share, once complete.
    #[inline]
    pub fn shared(&self) -> Option<&Shared> {
        Some(&self.complete.get()?.shared)
    }

    /// The state that all virtual CPUs share, and the virtual CPUs by place, once complete.
    fn all(&self) -> Option<(&Shared, &[Arc<Vcpu>])> {
        let complete = self.complete.get()?;
        Some((&complete.shared, &complete.vcpus))
    }
}
