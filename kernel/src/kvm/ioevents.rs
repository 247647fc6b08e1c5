//! A guest's writes to devices as eventfds (KVM_IOEVENTFD): answered without its monitor.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::directory::Slot;
use super::uapi::{self, Ioeventfd};
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::fs::eventfd::{self, EventFd};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// One assignment.
#[derive(Clone)]
struct Event {
    /// Ports are other architectures': kept, and never written.
    ports: u32,
    address: u64,
    /// Bytes of the write; any for 0.
    len: u32,
    /// The value written, unless any.
    value: Option<u64>,
    to: Arc<EventFd>,
}

/// The assignments of a machine, by address.
pub struct Events(Vec<Event>);

/// A machine's assignments, which change while virtual CPUs run.
pub struct Assignments {
    current: affinity::Publication<Slot<Events>>,
    /// Held while they are changed.
    changing: Mutex<()>,
    /// How many there are.
    count: AtomicUsize,
}

/// A virtual CPU's handle on them.
pub type Reader = affinity::Reader<Arc<Events>>;

impl Events {
    /// Signals the eventfd that a write is assigned to; false if there is none.
    #[inline]
    pub fn write(&self, address: u64, len: u32, value: u64) -> bool {
        let first = self.0.partition_point(|event| event.address < address);
        let here = self.0[first..]
            .iter()
            .take_while(|event| event.address == address);
        let mut meant = here.filter(|event| {
            let len_fits = event.len == 0 || event.len == len;
            event.ports == 0 && len_fits && event.value.is_none_or(|wanted| wanted == value)
        });
        let found = meant.next();
        if let Some(event) = found {
            event.to.signal();
        }
        found.is_some()
    }
}

impl Event {
    fn of(request: &Ioeventfd, to: Arc<EventFd>) -> Self {
        let value = request.value & u64::MAX.unbounded_shr(64 - 8 * request.len.min(8));
        Event {
            ports: request.flags & (uapi::IOEVENTFD_PORT | uapi::IOEVENTFD_CHANNEL),
            address: request.address,
            len: request.len,
            value: (request.flags & uapi::IOEVENTFD_VALUE != 0).then_some(value),
            to,
        }
    }

    /// Whether a write could be meant for both.
    fn collides(&self, other: &Event) -> bool {
        let len = self.len == 0 || other.len == 0 || self.len == other.len;
        let values = self.value.zip(other.value);
        let value = values.is_none_or(|(one, another)| one == another);
        let any_len = self.len == 0 || other.len == 0;
        self.ports == other.ports && self.address == other.address && len && (any_len || value)
    }

    fn is(&self, other: &Event) -> bool {
        self.ports == other.ports
            && self.address == other.address
            && self.len == other.len
            && self.value == other.value
            && Arc::ptr_eq(&self.to, &other.to)
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
        let gone = Event::of(request, eventfd::of(request.fd)?);
        return machine.events.change(|list| {
            let at = list.iter().position(|event| event.is(&gone));
            list.remove(at.ok_or(Errno::ENOENT)?);
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
    let made = Event::of(request, eventfd::of(request.fd)?);
    machine.events.change(|list| {
        if list.iter().any(|event| event.collides(&made)) {
            return Err(Errno::EEXIST);
        }
        let at = list.partition_point(|event| event.address <= made.address);
        list.insert(at, made);
        Ok(())
    })
}

impl Assignments {
    /// None yet.
    pub fn new() -> Self {
        Assignments {
            current: affinity::Publication::new(Slot::new()),
            changing: Mutex::new(()),
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

    /// Publishes the list as `change` leaves it.
    fn change(&self, change: impl FnOnce(&mut Vec<Event>) -> Result<()>) -> Result<usize> {
        let held = self.changing.lock();
        let mut reader = Reader::new();
        let before = self.get(&mut reader).map_or(&[][..], |events| &events.0);
        let mut list = Vec::new();
        let room = list.try_reserve_exact(before.len() + 1);
        room.map_err(|_| Errno::ENOMEM)?;
        list.extend_from_slice(before);
        change(&mut list)?;
        self.count.store(list.len(), Relaxed);
        let old = self.current.publish(try_arc(Events(list))?);
        drop(held);
        drop(old);
        Ok(0)
    }
}
