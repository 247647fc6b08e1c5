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

/// Words of the ring (`struct kvm_coalesced_mmio_ring`): the index of the next entry that the VMM
/// takes, and of the next entry that is filled.
const FIRST: usize = 0;
const LAST: usize = 1;
const ENTRIES: usize = 2;
/// The size of an entry in words: an address and a value of two words each, a length, and whether
/// it is a port.
const ENTRY: usize = 6;
/// The number of entries. One always stays free, to tell a full ring from an empty one.
const MOST: u32 = ((PAGE_SIZE / 4 - ENTRIES) / ENTRY) as u32;

/// The maximum number of zones of a kind; Linux's buses have the same limit on devices.
const MOST_ZONES: usize = 1000;

/// A range of addresses to which writes are collected.
#[derive(Clone, Copy)]
struct Zone {
    /// Ports exist on other architectures only: zones of ports are kept, but never written.
    ports: u32,
    start: u64,
    end: u64,
    /// The highest end of this zone and of all zones of the same kind before it.
    reach: u64,
}

/// The zones of a machine, ordered by kind and start.
#[derive(Default)]
pub struct Zones(Vec<Zone>);

/// The collected writes, in a page that the VMM maps and may overwrite at any time.
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

    /// Whether the maximum number of zones of a kind is reached.
    pub fn are_full(&self, ports: u32) -> bool {
        self.0.iter().filter(|zone| zone.ports == ports).count() >= MOST_ZONES
    }

    /// Whether a write is to be collected.
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
    /// An empty ring.
    pub fn new() -> Result<Self> {
        let source = SharedPages::new(1, true)?;
        let frame = source.page(0, true)?;
        Ok(Ring {
            source,
            frame,
            filling: Mutex::new(()),
        })
    }

    /// Collects a write; false if there is no room, or if the VMM has corrupted the ring.
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

/// Adds a zone, or removes zones.
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
