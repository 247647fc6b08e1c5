//! Threads that wait for a message or for room, in order of arrival. The first one that can proceed
//! is found without a search through the others.

use alloc::sync::Arc;

use tree::{Member, Tree};

use super::{Message, Wanted};
use crate::errno::{Errno, Result};
use crate::ipc::handover::Handover;
use crate::mm::heap::try_arc;

/// The outcome for a receiver: its message, or an error.
type Receiving = Result<Message>;
/// The outcome for a sender: whether its message was sent, and the message if not.
pub type Sending = (Result<()>, Option<Message>);

/// The kind of request, the type if exactly one type is wanted, and the receiver's turn.
pub type Key = (u8, i64, u64);

/// Sorts before all receivers.
pub const FIRST: Key = (ANY, 0, 0);

const ANY: u8 = 0;
const KIND: u8 = 1;
const EXCEPT: u8 = 2;
const LOWEST: u8 = 3;

struct Receiver {
    wanted: Wanted,
    /// The length of the longest message that it accepts.
    longest: usize,
    turn: u64,
    handover: Arc<Handover<Receiving>>,
}

impl Member for Receiver {
    type Key = Key;
    /// The lowest and the highest type that receivers exclude, or up to which they want messages.
    type Sum = (i64, i64);

    fn key(&self) -> Key {
        match self.wanted {
            Wanted::Any | Wanted::CopyOf(_) => (ANY, 0, self.turn),
            Wanted::Kind(kind) => (KIND, kind, self.turn),
            Wanted::Except(_) => (EXCEPT, 0, self.turn),
            Wanted::Lowest(_) => (LOWEST, 0, self.turn),
        }
    }

    fn sum(&self) -> (i64, i64) {
        match self.wanted {
            Wanted::Except(kind) | Wanted::Lowest(kind) => (kind, kind),
            Wanted::Any | Wanted::Kind(_) | Wanted::CopyOf(_) => (0, 0),
        }
    }

    fn join(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
        (one.0.min(other.0), one.1.max(other.1))
    }
}

/// The threads that wait for messages.
pub struct Receivers {
    all: Tree<Receiver>,
    next: u64,
}

impl Receivers {
    /// No receivers.
    pub const fn new() -> Self {
        Receivers {
            all: Tree::new(),
            next: 0,
        }
    }

    /// Adds the current thread, which waits for a message of at most `longest` bytes. ENOMEM.
    pub fn add(
        &mut self,
        wanted: Wanted,
        longest: usize,
    ) -> Result<(Key, Arc<Handover<Receiving>>)> {
        let handover = try_arc(Handover::new())?;
        let receiver = Receiver {
            wanted,
            longest,
            turn: self.next,
            handover: handover.clone(),
        };
        let key = receiver.key();
        self.next += 1;
        self.all.insert(receiver).map_err(|_| Errno::ENOMEM)?;
        Ok((key, handover))
    }

    /// The first receiver that wants a message of this type.
    fn first_for(&self, kind: i64) -> Option<&Receiver> {
        let any = self.all.from(&FIRST);
        let own = self.all.from(&(KIND, kind, 0));
        let is_other = |(low, high): &(i64, i64)| *low != kind || *high != kind;
        let except = self.all.first_from(&(EXCEPT, 0, 0), is_other);
        let lowest = (self.all).first_from(&(LOWEST, 0, 0), |(_, high)| *high >= kind);
        let found = [any, own, except, lowest].into_iter().flatten();
        let wants = found.filter(|receiver| receiver.wanted.takes(kind));
        wants.min_by_key(|receiver| receiver.turn)
    }

    /// Takes out the first receiver that wants a message of this type.
    pub fn take_for(&mut self, kind: i64) -> Option<Arc<Handover<Receiving>>> {
        let key = self.first_for(kind)?.key();
        self.remove(&key)
    }

    /// The first receiver that wants a message of this type, if `len` bytes are too long for it.
    pub fn too_small(&self, kind: i64, len: usize) -> Option<Key> {
        let first = self.first_for(kind)?;
        (first.longest < len).then(|| first.key())
    }

    /// The first receiver at a key or after it, and the key after that.
    pub fn from(&self, from: Key) -> Option<(Key, Key)> {
        let key = self.all.from(&from)?.key();
        Some((key, (key.0, key.1, key.2 + 1)))
    }

    /// The receiver with this key.
    pub fn get(&self, key: &Key) -> Option<&Handover<Receiving>> {
        self.all.get(key).map(|receiver| &*receiver.handover)
    }

    /// Takes out the receiver with this key.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Handover<Receiving>>> {
        self.all.remove(key).map(|receiver| receiver.handover)
    }
}

struct Sender {
    message: Message,
    turn: u64,
    handover: Arc<Handover<Sending>>,
}

impl Member for Sender {
    type Key = u64;
    /// The length of the shortest message.
    type Sum = usize;

    fn key(&self) -> u64 {
        self.turn
    }

    fn sum(&self) -> usize {
        self.message.data.len()
    }

    fn join(one: usize, other: usize) -> usize {
        one.min(other)
    }
}

/// The threads that wait for room.
pub struct Senders {
    all: Tree<Sender>,
    next: u64,
}

impl Senders {
    /// No senders.
    pub const fn new() -> Self {
        Senders {
            all: Tree::new(),
            next: 0,
        }
    }

    /// Adds the current thread, which waits for room; returns its turn. ENOMEM.
    pub fn add(&mut self, message: Message) -> Result<(u64, Arc<Handover<Sending>>)> {
        let handover = try_arc(Handover::new())?;
        let turn = self.next;
        self.next += 1;
        let sender = Sender {
            message,
            turn,
            handover: handover.clone(),
        };
        self.all.insert(sender).map_err(|_| Errno::ENOMEM)?;
        Ok((turn, handover))
    }

    /// The turn of the first sender whose message has at most `room` bytes.
    pub fn first(&self, room: usize) -> Option<u64> {
        let first = self.all.first(|len| *len <= room)?;
        Some(first.turn)
    }

    /// The message of a sender.
    pub fn get(&self, turn: u64) -> Option<&Message> {
        self.all.get(&turn).map(|sender| &sender.message)
    }

    /// Takes out the sender with this turn.
    pub fn remove(&mut self, turn: u64) -> Option<(Message, Arc<Handover<Sending>>)> {
        let sender = self.all.remove(&turn)?;
        Some((sender.message, sender.handover))
    }
}
