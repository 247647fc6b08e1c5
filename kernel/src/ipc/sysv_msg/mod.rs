//! System V message queues. A sender passes the message to a waiting receiver, and a receiver that
//! makes room completes the waiting sends that fit, so that each thread is woken only when its call
//! is done.

mod waiting;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::handover::{Handover, Settled};
use super::registry::{self, Header, Object, Owner, Registry};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, MutexGuard};
use crate::task::sched::cond_resched;
use crate::task::user::Charge;
use crate::task::{Thread, current};
use waiting::{Receivers, Senders, Sending};

/// The maximum number of queues (MSGMNI).
const MOST: usize = 32000;
/// The maximum size of a message in bytes (`msgmax`).
pub static LONGEST: AtomicUsize = AtomicUsize::new(8192);
/// The initial capacity of a queue in bytes (`msgmnb`).
pub static CAPACITY: AtomicUsize = AtomicUsize::new(16384);

/// All queues.
pub static QUEUES: Registry<Queue> = Registry::new(MOST);

/// A message.
pub struct Message {
    /// Its type, which is above 0.
    pub kind: i64,
    /// Its bytes.
    pub data: Vec<u8>,
    _charge: Option<Charge>,
}

impl Message {
    /// Creates a message for the caller.
    ///
    /// # Errors
    /// ENOMEM: the user has too many.
    pub fn new(kind: i64, data: Vec<u8>) -> Result<Self> {
        let charge = registry::charge(size_of::<Self>() + data.len()).ok_or(Errno::ENOMEM)?;
        Ok(Message {
            kind,
            data,
            _charge: Some(charge),
        })
    }
}

/// Which message a receiver wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The first one.
    Any,
    /// The first of this type.
    Kind(i64),
    /// The first of any other type.
    Except(i64),
    /// The first of the lowest type up to this one.
    Lowest(i64),
    /// A copy of the message at this index, which stays in the queue.
    CopyOf(usize),
}

impl Wanted {
    /// Whether a new message of a type is wanted.
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
}

struct State {
    header: Header,
    messages: VecDeque<Message>,
    status: Status,
    removed: bool,
    receivers: Receivers,
    senders: Senders,
}

/// The result of msgctl(IPC_STAT) for a queue.
#[derive(Clone, Copy, Default)]
pub struct Status {
    /// When a message was last sent, when one was last received, and when the queue was last
    /// changed, in seconds since 1970.
    pub times: [u64; 3],
    /// The size of all messages in bytes.
    pub bytes: usize,
    /// The number of messages.
    pub count: usize,
    /// The maximum size of all messages.
    pub capacity: usize,
    /// The process IDs of the last sender and the last receiver.
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
                receivers: Receivers::new(),
                senders: Senders::new(),
            }),
        })
    };
    QUEUES.get(key, flags, make, |_| Ok(()))
}

/// Removes a queue, which the caller must own, with its messages; waiting threads get EIDRM.
///
/// # Errors
/// EPERM, EIDRM.
pub fn remove(number: i32, queue: &Arc<Queue>) -> Result<()> {
    let mut state = queue.state.lock();
    state.header.check_owner()?;
    if core::mem::replace(&mut state.removed, true) {
        return Err(Errno::EIDRM);
    }
    let gone = core::mem::take(&mut state.messages);
    drop(state);
    QUEUES.remove(number, queue);
    for message in gone {
        drop(message);
        cond_resched();
    }
    let mut settled = Settled::default();
    loop {
        let mut state = queue.state.lock();
        while !settled.is_full()
            && let Some(thread) = state.turn_away(Errno::EIDRM)
        {
            settled.add(thread);
        }
        drop(state);
        let is_full = settled.is_full();
        settled.wake();
        if !is_full {
            return Ok(());
        }
        cond_resched();
    }
}

impl Queue {
    /// The owner and permissions, and the rest of what msgctl(2) returns.
    pub fn status(&self) -> (Header, Status) {
        let state = self.state.lock();
        (state.header, state.status)
    }

    /// Changes the owner, the permissions and the capacity. EINVAL.
    pub fn change(&self, to: &Owner, capacity: usize) -> Result<()> {
        let mut state = self.state.lock();
        state.header.change(to)?;
        state.status.capacity = capacity;
        state.status.times[2] = registry::now();
        self.go_on(state);
        self.shut_out();
        Ok(())
    }

    /// Ends the waits of receivers that have lost the permission to read.
    fn shut_out(&self) {
        let mut settled = Settled::default();
        let mut from = Some(waiting::FIRST);
        while from.is_some() {
            let mut state = self.state.lock();
            for _ in 0..Settled::ROOM {
                let Some((key, after)) = from.and_then(|from| state.receivers.from(from)) else {
                    from = None;
                    break;
                };
                from = Some(after);
                if let Some(thread) = state.shut_out(key) {
                    settled.add(thread);
                }
            }
            drop(state);
            settled.wake();
            cond_resched();
        }
    }

    /// Completes the waiting sends for which there is room now.
    fn go_on<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let mut settled = Settled::default();
        while !state.let_send(&mut settled) {
            drop(state);
            settled.wake();
            cond_resched();
            state = self.state.lock();
        }
        drop(state);
        settled.wake();
    }

    /// Adds a message; if `waits`, this waits until there is room.
    ///
    /// # Errors
    /// EACCES, EAGAIN, EIDRM, ENOMEM, ERESTARTNOHAND.
    pub fn send(&self, message: Message, waits: bool) -> Result<()> {
        let mut settled = Settled::default();
        loop {
            let mut state = self.state.lock();
            if state.removed {
                return Err(Errno::EIDRM);
            }
            state.header.check(registry::WRITE)?;
            if !state.fits(message.data.len()) {
                if !waits {
                    return Err(Errno::EAGAIN);
                }
                let (turn, handover) = state.senders.add(message)?;
                drop(state);
                return self.await_room(turn, &handover);
            }
            state.messages.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            if refuse_long(&mut state.receivers, &message, &mut settled) {
                state.deliver(message, &current(), &mut settled);
                drop(state);
                settled.wake();
                return Ok(());
            }
            drop(state);
            settled.wake();
            cond_resched();
        }
    }

    fn await_room(&self, turn: u64, handover: &Handover<Sending>) -> Result<()> {
        let waited = handover.wait(None);
        if waited.is_err() {
            let gone = self.state.lock().senders.remove(turn);
            drop(gone);
        }
        match handover.take() {
            Some((outcome, _)) => outcome,
            None => Err(Errno::ERESTARTNOHAND),
        }
    }

    /// Takes a message, truncated to `most` bytes if `cuts`; if `waits`, this waits until there is
    /// one.
    ///
    /// # Errors
    /// EACCES, ENOMSG, E2BIG (longer than `most`), EIDRM, ENOMEM, ERESTARTNOHAND.
    pub fn receive(&self, wanted: Wanted, most: usize, cuts: bool, waits: bool) -> Result<Message> {
        let mut state = self.state.lock();
        match state.take(wanted, most, cuts) {
            Err(Errno::ENOMSG) if waits => {}
            Ok(message) => {
                self.go_on(state);
                return Ok(message);
            }
            Err(error) => return Err(error),
        }
        let longest = if cuts { usize::MAX } else { most };
        let (key, handover) = state.receivers.add(wanted, longest)?;
        drop(state);
        if handover.wait(None).is_err() {
            let gone = self.state.lock().receivers.remove(&key);
            drop(gone);
        }
        handover.take().unwrap_or(Err(Errno::ERESTARTNOHAND))
    }
}

impl State {
    /// Whether there is room for a message of `len` bytes.
    fn fits(&self, len: usize) -> bool {
        let status = &self.status;
        status.bytes + len <= status.capacity && status.count < status.capacity
    }

    /// Passes a message of `sender` to the first waiting receiver that wants it and can take its
    /// length, or else stores it if there is room.
    fn deliver(&mut self, message: Message, sender: &Thread, settled: &mut Settled) {
        let status = &mut self.status;
        status.times[0] = registry::now();
        status.users[0] = sender.process_id();
        if let Some(handover) = self.receivers.take_for(message.kind) {
            status.times[1] = registry::now();
            status.users[1] = handover.thread().process_id();
            settled.add(handover.settle(Ok(message)));
        } else {
            status.bytes += message.data.len();
            status.count += 1;
            self.messages.push_back(message);
        }
    }

    /// Completes waiting sends for which there is room; false if there may be more of them.
    fn let_send(&mut self, settled: &mut Settled) -> bool {
        while let Some(turn) = self.next_sender() {
            let is_ready = self
                .senders
                .get(turn)
                .is_none_or(|message| refuse_long(&mut self.receivers, message, settled));
            if !is_ready {
                return false;
            }
            let Some((message, handover)) = self.senders.remove(turn) else {
                return true;
            };
            let allowed = self.header.check_for(handover.thread(), registry::WRITE);
            let room = self.messages.try_reserve(1).map_err(|_| Errno::ENOMEM);
            match allowed.and(room) {
                Ok(()) => {
                    self.deliver(message, handover.thread(), settled);
                    settled.add(handover.settle((Ok(()), None)));
                }
                Err(error) => settled.add(handover.settle((Err(error), Some(message)))),
            }
        }
        true
    }

    /// The turn of the first sender for whose message there is room.
    fn next_sender(&self) -> Option<u64> {
        let status = &self.status;
        let room = status.capacity.checked_sub(status.bytes)?;
        let fits = status.count < status.capacity;
        fits.then(|| self.senders.first(room)).flatten()
    }

    fn take(&mut self, wanted: Wanted, most: usize, cuts: bool) -> Result<Message> {
        if self.removed {
            return Err(Errno::EIDRM);
        }
        self.header.check(registry::READ)?;
        let at = place_of(&self.messages, wanted).ok_or(Errno::ENOMSG)?;
        let len = self.messages[at].data.len();
        if len > most && !cuts {
            return Err(Errno::E2BIG);
        }
        if let Wanted::CopyOf(_) = wanted {
            // A copy is never truncated, as on Linux.
            if len > most {
                return Err(Errno::EINVAL);
            }
            return copy(&self.messages[at]);
        }
        let message = self.messages.remove(at).ok_or(Errno::ENOMSG)?;
        let status = &mut self.status;
        status.bytes -= len;
        status.count -= 1;
        status.times[1] = registry::now();
        status.users[1] = current().process_id();
        Ok(message)
    }

    /// Ends the wait of a receiver if it has lost the permission to read.
    fn shut_out(&mut self, key: waiting::Key) -> Option<Arc<Thread>> {
        let handover = self.receivers.get(&key)?;
        let error = self
            .header
            .check_for(handover.thread(), registry::READ)
            .err()?;
        let handover = self.receivers.remove(&key)?;
        Some(handover.settle(Err(error)))
    }

    /// Ends the wait of any one thread with `error`.
    fn turn_away(&mut self, error: Errno) -> Option<Arc<Thread>> {
        if let Some((key, _)) = self.receivers.from(waiting::FIRST) {
            return Some(self.receivers.remove(&key)?.settle(Err(error)));
        }
        let turn = self.senders.first(usize::MAX)?;
        let (message, handover) = self.senders.remove(turn)?;
        Some(handover.settle((Err(error), Some(message))))
    }
}

/// Ends the waits of receivers that want this message but cannot take its length; false if there
/// may be more of them.
fn refuse_long(receivers: &mut Receivers, message: &Message, settled: &mut Settled) -> bool {
    while !settled.is_full() {
        let Some(key) = receivers.too_small(message.kind, message.data.len()) else {
            return true;
        };
        if let Some(handover) = receivers.remove(&key) {
            settled.add(handover.settle(Err(Errno::E2BIG)));
        }
    }
    false
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
