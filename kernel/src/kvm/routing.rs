//! What a monitor's interrupt numbers (GSIs) stand for: KVM_SET_GSI_ROUTING and KVM_SIGNAL_MSI.

use alloc::vec::Vec;

use super::uapi::{self, Msi, Routing, RoutingEntry};
use super::vgic;
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use vgic::{FIRST_SHARED, LAST_SHARED};

/// The most entries, and the bound of their numbers.
pub const MOST: usize = 4096;
/// The one controller that entries name.
const CONTROLLER: u32 = 0;

/// What a number stands for.
#[derive(Clone, Copy)]
pub enum Route {
    /// A shared interrupt, by its number at the controller.
    Line(u32),
    /// A message.
    Message(Msi),
}

/// A machine's routes, by number; none before the monitor sets some: then each stands for the shared interrupt of that
/// number.
#[derive(Default)]
pub struct Routes(Mutex<Option<Vec<(u32, Route)>>>);

impl Routes {
    /// What a number stands for.
    fn get(&self, gsi: u32) -> Option<Route> {
        match &*self.0.lock() {
            None => gsi.checked_add(FIRST_SHARED).map(Route::Line),
            Some(list) => {
                let at = list.binary_search_by_key(&gsi, |(known, _)| *known).ok()?;
                Some(list[at].1)
            }
        }
    }

    /// Each number stands for the shared interrupt of that number again.
    pub fn reset(&self) {
        let old = self.0.lock().take();
        drop(old);
    }

    /// Takes the entries at a monitor's address (KVM_SET_GSI_ROUTING).
    fn set(&self, argument: usize) -> Result<()> {
        let pointer = UserPtr::<Routing>::new(argument);
        let Routing { count, flags } = pointer.read()?;
        let count = count as usize;
        if count > MOST || flags != 0 {
            return Err(Errno::EINVAL);
        }
        let entries = UserPtr::<RoutingEntry>::new(argument + size_of::<Routing>());
        let mut list = Vec::new();
        list.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        for entry in entries.read_vec(count)? {
            list.push((entry.gsi, route(&entry)?));
        }
        list.sort_unstable_by_key(|(gsi, _)| *gsi);
        if list.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Errno::EINVAL);
        }
        let old = self.0.lock().replace(list);
        drop(old);
        Ok(())
    }
}

fn route(entry: &RoutingEntry) -> Result<Route> {
    let [first, second, third, fourth, ..] = entry.words;
    if entry.gsi as usize >= MOST {
        return Err(Errno::EINVAL);
    }
    match entry.kind {
        uapi::ROUTE_LINE if entry.flags == 0 && first == CONTROLLER => {
            let number = second.saturating_add(FIRST_SHARED);
            let known = number <= LAST_SHARED;
            known.then_some(Route::Line(number)).ok_or(Errno::EINVAL)
        }
        uapi::ROUTE_MSI if entry.flags & !uapi::MSI_DEVICE == 0 => Ok(Route::Message(Msi {
            address: [first, second],
            data: third,
            flags: entry.flags,
            device: fourth,
            ..Msi::default()
        })),
        _ => Err(Errno::EINVAL),
    }
}

impl Machine {
    /// Sets the line that a number stands for; or sends its message, when it rises.
    pub fn set_gsi(&self, gsi: u32, high: bool) {
        match self.routes.get(gsi) {
            Some(Route::Line(number)) => self.set_shared_line(number, high),
            // What nobody takes is lost, as on a bus.
            Some(Route::Message(message)) if high => _ = vgic::signal_msi(self, &message),
            _ => {}
        }
    }

    /// Changes what numbers stand for (KVM_SET_GSI_ROUTING).
    pub fn set_routes(&self, argument: usize) -> Result<usize> {
        self.routes.set(argument)?;
        self.settle_resampled();
        Ok(0)
    }

    /// The shared interrupt that a number stands for.
    pub fn line_of(&self, gsi: u32) -> Option<u32> {
        match self.routes.get(gsi) {
            Some(Route::Line(number)) => Some(number),
            _ => None,
        }
    }

    /// Sends a message (KVM_SIGNAL_MSI).
    pub fn signal(&self, message: &Msi) -> Result<usize> {
        if self.vgic().is_none() || message.flags & !uapi::MSI_DEVICE != 0 {
            return Err(Errno::EINVAL);
        }
        vgic::signal_msi(self, message)
    }
}
