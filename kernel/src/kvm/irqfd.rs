//! Interrupts by eventfds (KVM_IRQFD): a write to one is an interrupt of the guest's, without its monitor.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use super::uapi::{self, Irqfd as Request};
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::fs::eventfd::{self, EventFd};
use crate::fs::poll::{Watch, Watcher};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// One assignment.
struct Irqfd {
    machine: Arc<Machine>,
    /// Its assignment ends with it.
    trigger: Weak<EventFd>,
    gsi: u32,
    /// For a level: signalled when the guest has ended the interrupt, whereby the line fell.
    resample: Option<Arc<EventFd>>,
    /// Keeps it told of the trigger; it holds the assignment in turn.
    watch: Mutex<Option<Watch>>,
}

/// The assignments of a machine.
#[derive(Default)]
pub struct Irqfds(Mutex<Vec<Arc<Irqfd>>>);

impl Irqfd {
    fn is_of(&self, trigger: &Arc<EventFd>) -> bool {
        core::ptr::eq(self.trigger.as_ptr(), Arc::as_ptr(trigger))
    }

    /// Stops listening.
    fn end(&self) {
        let watch = self.watch.lock().take();
        drop(watch);
    }
}

impl Watcher for Irqfd {
    fn changed(&self) -> bool {
        if !self
            .trigger
            .upgrade()
            .is_some_and(|trigger| trigger.drain())
        {
            return false;
        }
        // A level stays high until it is resampled, or the monitor says otherwise.
        self.machine.set_gsi(self.gsi, true);
        true
    }
}

/// Makes or ends an assignment.
///
/// # Errors
/// EINVAL, EAGAIN (there is no controller yet), EBADF, EBUSY (the eventfd is an interrupt already).
pub fn change(machine: &Arc<Machine>, request: &Request) -> Result<usize> {
    if request.flags & !(uapi::IRQFD_DEASSIGN | uapi::IRQFD_RESAMPLE) != 0 {
        return Err(Errno::EINVAL);
    }
    if request.flags & uapi::IRQFD_DEASSIGN != 0 {
        let trigger = eventfd::of(request.fd)?;
        machine
            .irqfds
            .end(|known| known.is_of(&trigger) && known.gsi == request.gsi);
        machine.settle_resampled();
        return Ok(0);
    }
    let complete = machine.vgic().is_some_and(|vgic| vgic.is_complete());
    if !complete {
        return Err(Errno::EAGAIN);
    }
    let trigger = eventfd::of(request.fd)?;
    let resample = match request.flags & uapi::IRQFD_RESAMPLE {
        0 => None,
        _ => Some(eventfd::of(request.resample)?),
    };
    let made = try_arc(Irqfd {
        machine: machine.clone(),
        trigger: Arc::downgrade(&trigger),
        gsi: request.gsi,
        resample,
        watch: Mutex::new(None),
    })?;
    // Who closes eventfds and assigns others keeps no more assignments than descriptors.
    machine
        .irqfds
        .end(|known| known.trigger.strong_count() == 0);
    machine.irqfds.add(&made, &trigger)?;
    machine.settle_resampled();
    match trigger.watch(made.clone()) {
        Ok(watch) => *made.watch.lock() = Some(watch),
        Err(error) => {
            machine.irqfds.end(|known| core::ptr::eq(known, &*made));
            return Err(error);
        }
    }
    // What was written before counts too.
    made.changed();
    Ok(0)
}

impl Irqfds {
    fn add(&self, made: &Arc<Irqfd>, trigger: &Arc<EventFd>) -> Result<()> {
        let mut list = self.0.lock();
        if list.iter().any(|known| known.is_of(trigger)) {
            return Err(Errno::EBUSY);
        }
        list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.push(made.clone());
        Ok(())
    }

    /// Ends those that `which` names.
    fn end(&self, which: impl Fn(&Irqfd) -> bool) {
        while let Some(gone) = self.take(&which) {
            gone.end();
        }
    }

    fn take(&self, which: impl Fn(&Irqfd) -> bool) -> Option<Arc<Irqfd>> {
        let mut list = self.0.lock();
        let at = list.iter().position(|known| which(known))?;
        Some(list.swap_remove(at))
    }

    /// Bytes of kernel memory that they take, roughly.
    pub fn held(&self) -> usize {
        self.0.lock().len() * 256
    }

    /// Ends all.
    pub fn end_all(&self) {
        self.end(|_| true);
    }
}

impl Machine {
    /// The controller is to tell when the guest ends an interrupt that is asked for again then.
    pub fn settle_resampled(&self) {
        let Some(shared) = self.vgic().and_then(|vgic| vgic.shared()) else {
            return;
        };
        let list = self.irqfds.0.lock();
        let resampled = list.iter().filter(|known| known.resample.is_some());
        let lines = resampled.filter_map(|known| self.line_of(known.gsi));
        shared.report_ends(lines);
    }

    /// The guest ended a shared interrupt: the lines that are asked for again fall, and whoever set them is told.
    pub fn ended(&self, number: u32) {
        let list = self.irqfds.0.lock();
        let resampled = list
            .iter()
            .filter(|known| self.line_of(known.gsi) == Some(number));
        for (known, resample) in
            resampled.filter_map(|known| Some((known, known.resample.as_ref()?)))
        {
            self.set_gsi(known.gsi, false);
            resample.signal();
        }
    }
}
