//! A guest's writes to devices, collected in a ring until the VMM takes them
//! (KVM_REGISTER_COALESCED_MMIO).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::uapi::Zone as Request;
use super::vm::Machine;
use crate::arch::PAGE_SIZE;
use crate::errno::{Errno, Result};
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::shared::SharedPages;
use crate::mm::vma::PageSource;
use crate::sync::Mutex;

/// Words of the ring (`struct kvm_coalesced_mmio_ring`): the entry that the VMM takes next, and the
/// one that is filled next.
const FIRST: usize = 0;
const LAST: usize = 1;
const ENTRIES: usize = 2;
/// Words of an entry: an address and a value of two each, a length, and whether it is a port.
const ENTRY: usize = 6;
/// How many entries there are. One stays free, for a full ring is not an empty one.
const MOST: u32 = ((PAGE_SIZE / 4 - ENTRIES) / ENTRY) as u32;

/// The most zones of a kind, as Linux's buses have devices.
const MOST_ZONES: usize = 1000;

/// Addresses of which writes wait.
#[derive(Clone, Copy)]
struct Zone {
    /// Ports are other architectures': kept, and never written.
    ports: u32,
    start: u64,
    end: u64,
    /// The highest end of this zone and of those before it, of the same kind.
    reach: u64,
}

/// The zones of a machine, by kind and start.
#[derive(Default)]
pub struct Zones(Vec<Zone>);

/// The waiting writes, in a page that the VMM maps, and may write anything into at any time.
pub struct Ring {
    /// The page.
    pub source: Arc<SharedPages>,
    frame: FrameRef,
    filling: Mutex<()>,
}

impl Zones {
    /// A copy with room for one more zone.
    pub fn try_clone(&self) -> Result<Self> {
        let mut zones = Vec::new();
        let room = zones.try_reserve_exact(self.0.len() + 1);
        room.map_err(|_| Errno::ENOMEM)?;
        zones.extend_from_slice(&self.0);
        Ok(Zones(zones))
    }

    /// Whether there are as many of a kind as there may be.
    pub fn are_full(&self, ports: u32) -> bool {
        self.0.iter().filter(|zone| zone.ports == ports).count() >= MOST_ZONES
    }

    /// Whether a write waits.
    #[inline]
    pub fn hold(&self, address: u64, len: u32) -> bool {
        let next = self
            .0
            .partition_point(|zone| (zone.ports, zone.start) <= (0, address));
        let end = address.checked_add(len.into());
        let before = next.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|zone| end.is_some_and(|end| end <= zone.reach))
    }

    fn add(&mut self, request: &Request) -> Result<()> {
        if self.are_full(request.ports) {
            return Err(Errno::ENOSPC);
        }
        let end = request.address.wrapping_add(request.len.into());
        let made = Zone {
            ports: request.ports,
            start: request.address,
            end,
            reach: end,
        };
        let key = |zone: &Zone| (zone.ports, zone.start);
        let at = self.0.partition_point(|zone| key(zone) <= key(&made));
        self.0.insert(at, made);
        self.update_reach();
        Ok(())
    }

    /// Removes the zones that contain the whole range, as Linux does.
    fn remove(&mut self, request: &Request) {
        let end = request.address.checked_add(request.len.into());
        let end = end.filter(|_| request.len <= i32::MAX as u32);
        self.0.retain(|zone| {
            zone.ports != request.ports
                || request.address < zone.start
                || end.is_none_or(|end| end > zone.end)
        });
        self.update_reach();
    }

    fn update_reach(&mut self) {
        let (mut ports, mut reach) = (0, 0);
        for zone in &mut self.0 {
            reach = if zone.ports == ports {
                zone.end.max(reach)
            } else {
                zone.end
            };
            (zone.reach, ports) = (reach, zone.ports);
        }
    }
}

impl Ring {
    /// An empty one.
    pub fn new() -> Result<Self> {
        let source = SharedPages::new(1, true)?;
        let frame = source.page(0, true)?;
        Ok(Ring {
            source,
            frame,
            filling: Mutex::new(()),
        })
    }

    /// Lets a write wait; false where there is no room, or the VMM has made nonsense of the ring.
    pub fn push(&self, address: u64, len: u32, value: u64) -> bool {
        let words = self.frame.halves();
        let _filling = self.filling.lock();
        let last = words[LAST].load(Relaxed);
        let next = last.wrapping_add(1) % MOST;
        if last >= MOST || next == words[FIRST].load(Acquire) {
            return false;
        }
        let entry = [
            address as u32,
            (address >> 32) as u32,
            len,
            0,
            value as u32,
            (value >> 32) as u32,
        ];
        let at = ENTRIES + last as usize * ENTRY;
        let store = |(word, part): (&AtomicU32, u32)| word.store(part, Relaxed);
        words[at..].iter().zip(entry).for_each(store);
        words[LAST].store(next, Release);
        true
    }
}

/// Adds a zone, or takes zones out.
///
/// # Errors
/// EINVAL, ENOSPC, ENOMEM.
pub fn change(machine: &Machine, request: &Request, add: bool) -> Result<usize> {
    if request.ports > 1 {
        return Err(Errno::EINVAL);
    }
    machine.events.change(|events| {
        let mut zones = events.zones.try_clone()?;
        match add {
            true => zones.add(request)?,
            false => zones.remove(request),
        }
        let more = zones.0.len() as isize - events.zones.0.len() as isize;
        events.zones = try_arc(zones)?;
        Ok(more)
    })
}
