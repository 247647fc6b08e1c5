//! A guest's writes to devices that are handled without its VMM: they signal eventfds
//! (KVM_IOEVENTFD), or are collected for the VMM.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::coalesced::{Ring, Zones};
use super::directory::Slot;
use super::uapi::{self, Ioeventfd};
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::fs::eventfd::{self, EventFd};
use crate::mm::heap::try_arc;
use crate::sync::SleepMutex;
use crate::task::sched::cond_resched;

/// The writes that an assignment matches; assignments are kept in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Ports exist on other architectures only: such assignments are kept, but never match.
    ports: u32,
    address: u64,
    /// The length of the write in bytes; 0 matches any.
    len: u32,
    /// The value written; None matches any.
    value: Option<u64>,
}

/// An assignment.
#[derive(Clone)]
struct Event {
    key: Key,
    to: Arc<EventFd>,
}

/// The maximum number of assignments in a part.
const MOST_IN_PART: usize = 64;

/// Assignments by key, in parts, so that a change copies one part only.
#[derive(Default)]
struct List(Vec<Part>);

/// Consecutive assignments; at least one.
#[derive(Clone)]
struct Part {
    first: Key,
    events: Arc<Vec<Event>>,
}

/// The guest's writes that cause no exit to the VMM.
#[derive(Default)]
pub struct Events {
    /// The assignments to eventfds.
    list: List,
    /// The zones of coalesced writes.
    pub zones: Arc<Zones>,
}

/// A machine's assignments, which change while virtual CPUs run.
pub struct Assignments {
    current: affinity::Publication<Slot<Events>>,
    /// Held while the assignments are changed.
    changing: SleepMutex<()>,
    /// The number of assignments.
    count: AtomicUsize,
}

/// A virtual CPU's handle on the assignments.
pub type Reader = affinity::Reader<Arc<Events>>;

impl Events {
    /// Signals the eventfd that a write is assigned to, or collects the write; false if it is
    /// neither.
    #[inline]
    pub fn write(&self, ring: &Ring, address: u64, len: u32, value: u64) -> bool {
        let kinds = [(0, None), (len, None), (len, Some(value))];
        let found = kinds.into_iter().find_map(|(len, value)| {
            let key = Key {
                ports: 0,
                address,
                len,
                value,
            };
            self.list.get(&key)
        });
        match found {
            Some(event) => event.to.signal(),
            None => return self.zones.hold(address, len) && ring.push(address, len, value),
        }
        true
    }

    /// A copy that can be changed.
    fn try_clone(&self) -> Result<Self> {
        let parts = copy(&self.list.0)?;
        Ok(Events {
            list: List(parts),
            zones: self.zones.clone(),
        })
    }
}

/// A copy with room for one more element.
fn copy<T: Clone>(list: &[T]) -> Result<Vec<T>> {
    let mut copy = Vec::new();
    let room = copy.try_reserve_exact(list.len() + 1);
    room.map_err(|_| Errno::ENOMEM)?;
    copy.extend_from_slice(list);
    Ok(copy)
}

impl Part {
    fn new(events: Vec<Event>) -> Result<Self> {
        Ok(Part {
            first: events[0].key,
            events: try_arc(events)?,
        })
    }
}

impl List {
    /// The index of the part that holds a key, or would hold it; None if all parts are for greater
    /// keys.
    #[inline]
    fn part(&self, key: &Key) -> Option<usize> {
        self.0
            .partition_point(|part| part.first <= *key)
            .checked_sub(1)
    }

    /// The assignment with this key.
    #[inline]
    fn get(&self, key: &Key) -> Option<&Event> {
        let events = &self.0[self.part(key)?].events;
        let at = events.binary_search_by_key(key, |event| event.key);
        Some(&events[at.ok()?])
    }

    /// The first assignment whose key is not less.
    fn from(&self, key: &Key) -> Option<&Event> {
        let part = self.part(key).unwrap_or(0);
        let mut parts = self.0.get(part..)?.iter();
        let events = &parts.next()?.events;
        let at = events.partition_point(|event| event.key < *key);
        events.get(at).or_else(|| parts.next()?.events.first())
    }

    /// Adds an assignment with an unused key to a fresh copy.
    fn insert(&mut self, new: Event) -> Result<()> {
        let part = self.part(&new.key).unwrap_or(0);
        let mut events = match self.0.get(part) {
            Some(part) => copy(&part.events)?,
            None => copy(&[])?,
        };
        let at = events.partition_point(|event| event.key < new.key);
        events.insert(at, new);
        if events.len() > MOST_IN_PART {
            let second = Part::new(copy(&events[MOST_IN_PART / 2..])?)?;
            events.truncate(MOST_IN_PART / 2);
            self.0.insert(part + 1, second);
        }
        let first = Part::new(events)?;
        match self.0.get_mut(part) {
            Some(part) => *part = first,
            None => self.0.push(first),
        }
        Ok(())
    }

    /// Removes an assignment from a fresh copy.
    fn remove(&mut self, key: &Key) -> Result<()> {
        let part = self.part(key).ok_or(Errno::ENOENT)?;
        let mut events = copy(&self.0[part].events)?;
        events.retain(|event| event.key != *key);
        if events.is_empty() {
            self.0.remove(part);
        } else {
            self.0[part] = Part::new(events)?;
        }
        Ok(())
    }
}

impl Key {
    fn of(request: &Ioeventfd) -> Self {
        let value = request.value & u64::MAX.unbounded_shr(64 - 8 * request.len.min(8));
        Key {
            ports: request.flags & (uapi::IOEVENTFD_PORT | uapi::IOEVENTFD_CHANNEL),
            address: request.address,
            len: request.len,
            value: (request.flags & uapi::IOEVENTFD_VALUE != 0).then_some(value),
        }
    }

    /// Whether some write matches both this assignment and one in the list.
    fn collides(&self, list: &List) -> bool {
        let any = Key {
            len: 0,
            value: None,
            ..*self
        };
        let any_value = Key {
            value: None,
            ..*self
        };
        // Whether the list has an assignment with the same address, or the same address and length.
        let has_like = |key: Key, is_like: fn(&Key, &Key) -> bool| {
            list.from(&key)
                .is_some_and(|event| is_like(&event.key, &key))
        };
        let same_place = |a: &Key, b: &Key| (a.ports, a.address) == (b.ports, b.address);
        let same_len =
            |a: &Key, b: &Key| (a.ports, a.address, a.len) == (b.ports, b.address, b.len);
        match (self.len, self.value) {
            (0, _) => has_like(any, same_place),
            (_, None) => list.get(&any).is_some() || has_like(any_value, same_len),
            _ => [&any, &any_value, self]
                .iter()
                .any(|key| list.get(key).is_some()),
        }
    }
}

/// Adds or removes an assignment.
///
/// # Errors
/// EINVAL, EBADF, EEXIST (some write would match another assignment too), ENOENT (there is no such
/// assignment), ENOSPC (with the zones, there would be more than Linux's buses allow).
pub fn change(machine: &Machine, request: &Ioeventfd) -> Result<usize> {
    let known = uapi::IOEVENTFD_VALUE
        | uapi::IOEVENTFD_PORT
        | uapi::IOEVENTFD_DEASSIGN
        | uapi::IOEVENTFD_CHANNEL
        | uapi::IOEVENTFD_FAST;
    if request.flags & uapi::IOEVENTFD_DEASSIGN != 0 {
        let (key, to) = (Key::of(request), eventfd::of(request.fd)?);
        return machine.events.change(|Events { list, .. }| {
            let event = list.get(&key).ok_or(Errno::ENOENT)?;
            if !Arc::ptr_eq(&event.to, &to) {
                return Err(Errno::ENOENT);
            }
            list.remove(&key).map(|()| -1)
        });
    }
    let valued = request.flags & uapi::IOEVENTFD_VALUE != 0;
    if ![0, 1, 2, 4, 8].contains(&request.len)
        || request.address.checked_add(request.len.into()).is_none()
        || request.flags & !known != 0
        || request.len == 0 && valued
    {
        return Err(Errno::EINVAL);
    }
    let (key, to) = (Key::of(request), eventfd::of(request.fd)?);
    machine.events.change(|Events { list, zones }| {
        if key.collides(list) {
            return Err(Errno::EEXIST);
        }
        if zones.are_full(key.ports / uapi::IOEVENTFD_PORT) {
            return Err(Errno::ENOSPC);
        }
        list.insert(Event { key, to }).map(|()| 1)
    })
}

impl Assignments {
    /// No assignments.
    pub fn new() -> Self {
        Assignments {
            current: affinity::Publication::new(Slot::new()),
            changing: SleepMutex::new(()),
            count: AtomicUsize::new(0),
        }
    }

    /// The current assignments, if there were ever any.
    #[inline]
    pub fn get<'a>(&self, reader: &'a mut Reader) -> Option<&'a Arc<Events>> {
        reader.get(&self.current)
    }

    /// The approximate size of the kernel memory that they take, in bytes.
    pub fn held(&self) -> usize {
        self.count.load(Relaxed) * size_of::<Event>()
    }

    /// Drops all assignments part by part; no virtual CPU exists any more. May sleep.
    pub fn end(&self) {
        let Ok(none) = try_arc(Events::default()) else {
            return;
        };
        let last = self.current.publish(none).and_then(Arc::into_inner);
        for part in last.into_iter().flat_map(|events| events.list.0) {
            drop(part);
            cond_resched();
        }
    }

    /// Publishes the assignments as changed by `change`, which returns by how many their number
    /// grows.
    pub fn change(&self, change: impl FnOnce(&mut Events) -> Result<isize>) -> Result<usize> {
        let held = self.changing.lock();
        let mut reader = Reader::new();
        let mut events = match self.get(&mut reader) {
            Some(before) => before.try_clone()?,
            None => Events::default().try_clone()?,
        };
        let more = change(&mut events)?;
        let old = self.current.publish(try_arc(events)?);
        self.count.fetch_add(more as usize, Relaxed);
        drop(held);
        drop(old);
        Ok(0)
    }
}
