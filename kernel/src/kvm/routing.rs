//! Routes of a VMM's interrupt numbers (GSIs): KVM_SET_GSI_ROUTING and KVM_SIGNAL_MSI.

use alloc::vec::Vec;
use core::iter::successors;

use super::uapi::{self, Msi, Routing, RoutingEntry};
use super::vgic;
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use vgic::{FIRST_SHARED, LAST_SHARED};

/// The maximum number of entries; their numbers are less than this too.
pub const MOST: usize = 4096;
/// The only controller that entries name.
const CONTROLLER: u32 = 0;

/// The target of a GSI.
#[derive(Clone, Copy)]
pub enum Route {
    /// A shared interrupt, by its number at the controller.
    Line(u32),
    /// A message.
    Message(Msi),
}

/// A machine's routes, by GSI. Before the VMM sets any, each GSI is routed to the shared interrupt
/// of the same number.
#[derive(Default)]
pub struct Routes(Mutex<Option<Table>>);

struct Table {
    by_number: Vec<(u32, Route)>,
    /// Shared interrupts, each with a GSI that is routed to it.
    lines: Vec<(u32, u32)>,
}

impl Routes {
    /// The target of a GSI.
    fn get(&self, gsi: u32) -> Option<Route> {
        match &*self.0.lock() {
            None => gsi.checked_add(FIRST_SHARED).map(Route::Line),
            Some(Table { by_number, .. }) => {
                let at = by_number.binary_search_by_key(&gsi, |(known, _)| *known);
                Some(by_number[at.ok()?].1)
            }
        }
    }

    /// The GSIs routed to a shared interrupt.
    pub fn of_line(&self, line: u32) -> impl Iterator<Item = u32> {
        successors(self.next_of(line, 0), move |gsi| {
            self.next_of(line, gsi + 1)
        })
    }

    /// The first of them from a GSI on.
    fn next_of(&self, line: u32, from: u32) -> Option<u32> {
        match &*self.0.lock() {
            None => line.checked_sub(FIRST_SHARED).filter(|gsi| *gsi >= from),
            Some(Table { lines, .. }) => {
                let at = lines.partition_point(|known| *known < (line, from));
                let next = lines.get(at).filter(|(known, _)| *known == line);
                next.map(|(_, gsi)| *gsi)
            }
        }
    }

    /// Routes each GSI to the shared interrupt of the same number again.
    pub fn reset(&self) {
        let old = self.0.lock().take();
        drop(old);
    }

    /// Reads the entries at a VMM's address (KVM_SET_GSI_ROUTING).
    fn set(&self, argument: usize) -> Result<()> {
        let pointer = UserPtr::<Routing>::new(argument);
        let Routing { count, flags } = pointer.read()?;
        let count = count as usize;
        if count > MOST || flags != 0 {
            return Err(Errno::EINVAL);
        }
        let entries = UserPtr::<RoutingEntry>::new(argument + size_of::<Routing>());
        let (mut by_number, mut lines) = (Vec::new(), Vec::new());
        let room = by_number.try_reserve_exact(count);
        room.and_then(|()| lines.try_reserve_exact(count))
            .map_err(|_| Errno::ENOMEM)?;
        for entry in entries.read_vec(count)? {
            let route = route(&entry)?;
            if let Route::Line(line) = route {
                lines.push((line, entry.gsi));
            }
            by_number.push((entry.gsi, route));
        }
        heapsort::sort_by_key(&mut by_number, |(gsi, _)| *gsi);
        heapsort::sort(&mut lines);
        if by_number.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Errno::EINVAL);
        }
        let old = self.0.lock().replace(Table { by_number, lines });
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
    /// Sets the line that a GSI is routed to, or sends its message on a rising edge.
    pub fn set_gsi(&self, gsi: u32, high: bool) {
        match self.routes.get(gsi) {
            Some(Route::Line(number)) => self.set_shared_line(number, high),
            // A message that no controller accepts is lost, as on a bus.
            Some(Route::Message(message)) if high => _ = vgic::signal_msi(self, &message),
            _ => {}
        }
    }

    /// Sets the routes of GSIs (KVM_SET_GSI_ROUTING).
    pub fn set_routes(&self, argument: usize) -> Result<usize> {
        self.routes.set(argument)?;
        self.update_resampled();
        Ok(0)
    }

    /// The shared interrupt that a GSI is routed to.
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
