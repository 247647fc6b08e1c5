//! A guest's writes to devices that are answered without its VMM: by eventfds (KVM_IOEVENTFD), or
//! by waiting for it.

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

/// Which writes an assignment is for, in the order in which assignments are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Ports are other architectures': kept, and never written.
    ports: u32,
    address: u64,
    /// Bytes of the write; any for 0.
    len: u32,
    /// The value written, unless any.
    value: Option<u64>,
}

/// One assignment.
#[derive(Clone)]
struct Event {
    key: Key,
    to: Arc<EventFd>,
}

/// The writes of a machine's guest that are not exits.
#[derive(Default)]
pub struct Events {
    /// Those that are eventfds, by what they are for.
    list: Vec<Event>,
    /// Those that wait.
    pub zones: Zones,
}

/// A machine's assignments, which change while virtual CPUs run.
pub struct Assignments {
    current: affinity::Publication<Slot<Events>>,
    /// Held while they are changed: all are copied thereby.
    changing: SleepMutex<()>,
    /// How many there are.
    count: AtomicUsize,
}

/// A virtual CPU's handle on them.
pub type Reader = affinity::Reader<Arc<Events>>;

impl Events {
    /// Signals the eventfd that a write is assigned to, or lets it wait; false if it is neither's.
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
            Some(&self.list[find(&self.list, &key).ok()?])
        });
        match found {
            Some(event) => event.to.signal(),
            None => return self.zones.hold(address, len) && ring.push(address, len, value),
        }
        true
    }

    /// The same, with room for one more of each.
    fn try_clone(&self) -> Result<Self> {
        let mut list = Vec::new();
        let room = list.try_reserve_exact(self.list.len() + 1);
        room.map_err(|_| Errno::ENOMEM)?;
        list.extend_from_slice(&self.list);
        let zones = self.zones.try_clone()?;
        Ok(Events { list, zones })
    }
}

/// Where the assignment for these writes is, or would be.
fn find(list: &[Event], key: &Key) -> core::result::Result<usize, usize> {
    list.binary_search_by_key(key, |event| event.key)
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

    /// Whether a write could be meant for this one and for one of the list.
    fn collides(&self, list: &[Event]) -> bool {
        let any = Key {
            len: 0,
            value: None,
            ..*self
        };
        let any_value = Key {
            value: None,
            ..*self
        };
        // The first one of those with the same address, or length too, if there is one.
        let has_like = |key: Key, is_like: fn(&Key, &Key) -> bool| {
            let at = list.partition_point(|event| event.key < key);
            list.get(at).is_some_and(|event| is_like(&event.key, &key))
        };
        let same_place = |a: &Key, b: &Key| (a.ports, a.address) == (b.ports, b.address);
        let same_len =
            |a: &Key, b: &Key| (a.ports, a.address, a.len) == (b.ports, b.address, b.len);
        match (self.len, self.value) {
            (0, _) => has_like(any, same_place),
            (_, None) => find(list, &any).is_ok() || has_like(any_value, same_len),
            _ => [&any, &any_value, self]
                .iter()
                .any(|key| find(list, key).is_ok()),
        }
    }
}

/// Makes or ends an assignment.
///
/// # Errors
/// EINVAL, EBADF, EEXIST (a write could be meant for another too), ENOENT (there is no such).
pub fn change(machine: &Machine, request: &Ioeventfd) -> Result<usize> {
    let known = uapi::IOEVENTFD_VALUE
        | uapi::IOEVENTFD_PORT
        | uapi::IOEVENTFD_DEASSIGN
        | uapi::IOEVENTFD_CHANNEL
        | uapi::IOEVENTFD_FAST;
    if request.flags & uapi::IOEVENTFD_DEASSIGN != 0 {
        let (key, to) = (Key::of(request), eventfd::of(request.fd)?);
        return machine.events.change(|Events { list, .. }| {
            let at = find(list, &key).map_err(|_| Errno::ENOENT)?;
            if !Arc::ptr_eq(&list[at].to, &to) {
                return Err(Errno::ENOENT);
            }
            list.remove(at);
            Ok(())
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
    machine.events.change(|Events { list, .. }| {
        if key.collides(list) {
            return Err(Errno::EEXIST);
        }
        let at = list.partition_point(|event| event.key < key);
        list.insert(at, Event { key, to });
        Ok(())
    })
}

impl Assignments {
    /// None yet.
    pub fn new() -> Self {
        Assignments {
            current: affinity::Publication::new(Slot::new()),
            changing: SleepMutex::new(()),
            count: AtomicUsize::new(0),
        }
    }

    /// What is assigned now, if anything ever was.
    #[inline]
    pub fn get<'a>(&self, reader: &'a mut Reader) -> Option<&'a Arc<Events>> {
        reader.get(&self.current)
    }

    /// Bytes of kernel memory that they take, roughly.
    pub fn held(&self) -> usize {
        self.count.load(Relaxed) * size_of::<Event>()
    }

    /// Publishes them as `change` leaves them.
    pub fn change(&self, change: impl FnOnce(&mut Events) -> Result<()>) -> Result<usize> {
        let held = self.changing.lock();
        let mut reader = Reader::new();
        let mut events = match self.get(&mut reader) {
            Some(before) => before.try_clone()?,
            None => Events::default().try_clone()?,
        };
        change(&mut events)?;
        let count = events.list.len() + events.zones.len();
        self.count.store(count, Relaxed);
        let old = self.current.publish(try_arc(events)?);
        drop(held);
        drop(old);
        Ok(0)
    }
}
