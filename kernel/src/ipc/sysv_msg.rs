//! System V message queues.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::registry::{self, Header, Object, Owner, Registry};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::current;
use crate::task::sched::cond_resched;
use crate::task::user::Charge;
use crate::task::wait_queue::WaitQueue;

/// The most queues (MSGMNI).
const MOST: usize = 32000;
/// Bytes of the longest message (`msgmax`).
pub static LONGEST: AtomicUsize = AtomicUsize::new(8192);
/// Bytes that a queue holds at first (`msgmnb`).
pub static CAPACITY: AtomicUsize = AtomicUsize::new(16384);

/// All queues.
pub static QUEUES: Registry<Queue> = Registry::new(MOST);

/// A message.
pub struct Message {
    /// Its type, above 0.
    pub kind: i64,
    /// Its bytes.
    pub data: Vec<u8>,
    _charge: Option<Charge>,
}

impl Message {
    /// A message of the caller's.
    ///
    /// # Errors
    /// ENOMEM: its user has too many.
    pub fn new(kind: i64, data: Vec<u8>) -> Result<Self> {
        let charge = registry::charge(size_of::<Self>() + data.len()).ok_or(Errno::ENOMEM)?;
        Ok(Message {
            kind,
            data,
            _charge: Some(charge),
        })
    }
}

/// The message that a receiver wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The first.
    Any,
    /// The first of a type.
    Kind(i64),
    /// The first of another type.
    Except(i64),
    /// The first of the lowest type up to this.
    Lowest(i64),
    /// The one at a place, which stays.
    CopyOf(usize),
}

impl Wanted {
    /// Whether a new message of a type may be what is wanted.
    fn takes(self, kind: i64) -> bool {
        match self {
            Wanted::Kind(wanted) => kind == wanted,
            Wanted::Except(other) => kind != other,
            Wanted::Lowest(highest) => kind <= highest,
            Wanted::Any | Wanted::CopyOf(_) => true,
        }
    }
}

/// A queue.
pub struct Queue {
    state: Mutex<State>,
    _charge: Charge,
    senders: WaitQueue,
    receivers: WaitQueue,
}

struct State {
    header: Header,
    messages: VecDeque<Message>,
    status: Status,
    removed: bool,
    /// What receivers wait for, and how many of them: thousands may wait for another type.
    waits: Vec<(Wanted, usize)>,
}

impl State {
    /// Counts a receiver that waits from now on. ENOMEM.
    fn begin_wait(&mut self, wanted: Wanted) -> Result<()> {
        if let Some((_, count)) = self.waits.iter_mut().find(|(other, _)| *other == wanted) {
            *count += 1;
            return Ok(());
        }
        self.waits.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.waits.push((wanted, 1));
        Ok(())
    }

    /// Counts it no more.
    fn end_wait(&mut self, wanted: Wanted) {
        let Some(at) = self.waits.iter().position(|(other, _)| *other == wanted) else {
            return;
        };
        self.waits[at].1 -= 1;
        if self.waits[at].1 == 0 {
            self.waits.swap_remove(at);
        }
    }
}

/// The result of msgctl(IPC_STAT) for a queue.
#[derive(Clone, Copy, Default)]
pub struct Status {
    /// When something was sent, received, and changed last, in seconds since 1970.
    pub times: [u64; 3],
    /// Bytes in all messages.
    pub bytes: usize,
    /// Messages.
    pub count: usize,
    /// Bytes that it may hold.
    pub capacity: usize,
    /// The last sender and the last receiver.
    pub users: [i32; 2],
}

impl Object for Queue {
    fn with_header<T>(&self, f: impl FnOnce(&mut Header) -> T) -> T {
        f(&mut self.state.lock().header)
    }
}

/// The number of the queue with `key`; see [`Registry::get`].
pub fn get(key: i32, flags: u32) -> Result<usize> {
    let make = |header| {
        let charge = registry::charge(size_of::<Queue>()).ok_or(Errno::ENOSPC)?;
        try_arc(Queue {
            _charge: charge,
            state: Mutex::new(State {
                header,
                messages: VecDeque::new(),
                status: Status {
                    times: [0, 0, registry::now()],
                    capacity: CAPACITY.load(Relaxed),
                    ..Status::default()
                },
                removed: false,
                waits: Vec::new(),
            }),
            senders: WaitQueue::new(),
            receivers: WaitQueue::new(),
        })
    };
    QUEUES.get(key, flags, make, |_| Ok(()))
}

/// Removes a queue and all that it holds; waiters get EIDRM.
pub fn remove(number: i32, queue: &Arc<Queue>) {
    QUEUES.remove(number, queue);
    let mut state = queue.state.lock();
    state.removed = true;
    let gone = core::mem::take(&mut state.messages);
    drop(state);
    for message in gone {
        drop(message);
        cond_resched();
    }
    queue.senders.wake_all();
    queue.receivers.wake_all();
}

impl Queue {
    /// Owner and permissions, and the rest of what msgctl(2) returns.
    pub fn status(&self) -> (Header, Status) {
        let state = self.state.lock();
        (state.header, state.status)
    }

    /// Changes owner, permissions and how many bytes it may hold. EINVAL.
    pub fn change(&self, to: &Owner, capacity: usize) -> Result<()> {
        let mut state = self.state.lock();
        state.header.change(to)?;
        state.status.capacity = capacity;
        state.status.times[2] = registry::now();
        drop(state);
        self.senders.wake_all();
        // They may have no right to it any more.
        self.receivers.wake_all();
        Ok(())
    }

    /// Adds a message, and waits until there is room if `waits`.
    ///
    /// # Errors
    /// EACCES, EAGAIN, EIDRM, ENOMEM, ERESTARTNOHAND.
    pub fn send(&self, message: Message, waits: bool) -> Result<()> {
        let mut message = Some(message);
        let mut result = self.try_send(&mut message);
        if result == Err(Errno::EAGAIN) && waits {
            let ready = || {
                result = self.try_send(&mut message);
                result != Err(Errno::EAGAIN)
            };
            self.senders
                .wait_interruptible(ready, None)
                .map_err(|_| Errno::ERESTARTNOHAND)?;
        }
        result
    }

    fn try_send(&self, message: &mut Option<Message>) -> Result<()> {
        let mut state = self.state.lock();
        if state.removed {
            return Err(Errno::EIDRM);
        }
        state.header.check(registry::WRITE)?;
        let len = message.as_ref().map_or(0, |message| message.data.len());
        let status = &state.status;
        if status.bytes + len > status.capacity || status.count + 1 > status.capacity {
            return Err(Errno::EAGAIN);
        }
        state.messages.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let mut wakes = false;
        if let Some(message) = message.take() {
            let mut waits = state.waits.iter();
            wakes = waits.any(|(wanted, _)| wanted.takes(message.kind));
            state.messages.push_back(message);
            let status = &mut state.status;
            status.bytes += len;
            status.count += 1;
            status.times[0] = registry::now();
            status.users[0] = current().process_id();
        }
        drop(state);
        if wakes {
            self.receivers.wake_all();
        }
        Ok(())
    }

    /// Takes a message, at most `most` bytes of it if `cuts`, and waits until there is one if
    /// `waits`.
    ///
    /// # Errors
    /// EACCES, ENOMSG, E2BIG (longer than `most`), EIDRM, ENOMEM, ERESTARTNOHAND.
    pub fn receive(&self, wanted: Wanted, most: usize, cuts: bool, waits: bool) -> Result<Message> {
        let mut found = self.try_receive(wanted, most, cuts);
        if !matches!(found, Err(Errno::ENOMSG)) || !waits {
            return found;
        }
        self.state.lock().begin_wait(wanted)?;
        let ready = || {
            found = self.try_receive(wanted, most, cuts);
            !matches!(found, Err(Errno::ENOMSG))
        };
        let waited = self.receivers.wait_interruptible(ready, None);
        self.state.lock().end_wait(wanted);
        waited.map_err(|_| Errno::ERESTARTNOHAND)?;
        found
    }

    fn try_receive(&self, wanted: Wanted, most: usize, cuts: bool) -> Result<Message> {
        let mut state = self.state.lock();
        if state.removed {
            return Err(Errno::EIDRM);
        }
        state.header.check(registry::READ)?;
        let at = place_of(&state.messages, wanted).ok_or(Errno::ENOMSG)?;
        let len = state.messages[at].data.len();
        if len > most && !cuts {
            return Err(Errno::E2BIG);
        }
        if let Wanted::CopyOf(_) = wanted {
            return copy(&state.messages[at]);
        }
        let message = state.messages.remove(at).ok_or(Errno::ENOMSG)?;
        let status = &mut state.status;
        status.bytes -= len;
        status.count -= 1;
        status.times[1] = registry::now();
        status.users[1] = current().process_id();
        drop(state);
        self.senders.wake_all();
        Ok(message)
    }
}

fn place_of(messages: &VecDeque<Message>, wanted: Wanted) -> Option<usize> {
    let first =
        |is_it: &dyn Fn(i64) -> bool| messages.iter().position(|message| is_it(message.kind));
    match wanted {
        Wanted::Any => first(&|_| true),
        Wanted::Kind(kind) => first(&|other| other == kind),
        Wanted::Except(kind) => first(&|other| other != kind),
        Wanted::Lowest(highest) => {
            let lowest = messages.iter().map(|message| message.kind).min()?;
            first(&|other| other == lowest && lowest <= highest)
        }
        Wanted::CopyOf(at) => (at < messages.len()).then_some(at),
    }
}

fn copy(message: &Message) -> Result<Message> {
    let mut data = Vec::new();
    data.try_reserve_exact(message.data.len())
        .map_err(|_| Errno::ENOMEM)?;
    data.extend_from_slice(&message.data);
    Ok(Message {
        kind: message.kind,
        data,
        _charge: None,
    })
}
