//! Connections with other machines. The socket has the same two channels as for a peer on this
//! machine. At their other ends is a [`Remote`], which converts between bytes and segments by the
//! state machine of crate `tcp`.

mod door;
mod due;
mod orphans;
mod parts;
mod remote;
mod segment;

pub(super) use door::Door;
pub use orphans::{MOST as MOST_ORPHANS, count as orphans};
pub(super) use remote::Remote;
pub(super) use segment::mss;

use super::connect::listener;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::net::ether;
use crate::net::inet::connections::{End, MOST_WAITING, Tuple};
use crate::net::inet::ports::Kept;
use crate::sync::{Mutex, Once};
use crate::task::clock;
use crate::task::sched::cond_resched;
use crate::task::spawn_kernel;
use crate::task::work_queue::WorkQueue;
use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use deadlines::{Deadlines, Ticket};
use tcp::siphash::Key;
use tcp::{Header, Secret, Unreachable, Waiting};

/// The entry of a four-tuple.
enum Slot {
    /// An open connection.
    Open(Arc<Remote>),
    /// A connection in TIME_WAIT without a socket.
    Closed(Closed),
}

/// The data of a connection in TIME_WAIT.
struct Closed {
    waiting: Waiting,
    ticket: Ticket,
    _end: Arc<End>,
    _port: Option<Kept>,
}

struct Table {
    slots: HashMap<Tuple, Slot>,
    due: Deadlines<Tuple>,
}

/// Locked for look-ups, and when a connection begins and ends.
static TABLE: Mutex<Table> = Mutex::new(Table {
    slots: hash::new(),
    due: Deadlines::new(),
});
/// The number of connections in TIME_WAIT; changed under the table's lock.
static CLOSED: AtomicUsize = AtomicUsize::new(0);

/// The work of connections whose timers have expired.
static WORK: WorkQueue = WorkQueue::new();
/// Work that lacked memory, or whose timer did.
static AGAIN: WorkQueue = WorkQueue::new();
/// The delay of such work, in ns.
const PAUSE: u64 = clock::SECOND / 10;
/// The secrets for this machine's sequence numbers, and for half-open connections.
static SECRETS: Once<[Secret; 2]> = Once::new();

/// Generates the secrets, and starts the threads that do the work.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn init() -> Result<()> {
    let draw = || Secret(Key([crate::random::u64(), crate::random::u64()]));
    SECRETS.call_once(|| [draw(), draw()]);
    spawn_kernel("tcp", |_| WORK.run(), 0)?;
    spawn_kernel("tcp_again", |_| AGAIN.run_after(PAUSE), 0).map(drop)
}

fn secrets() -> &'static [Secret; 2] {
    SECRETS.get().expect("drawn by `init`")
}

fn as_tcp(tuple: &Tuple) -> tcp::Tuple {
    tcp::Tuple {
        local: tuple.local,
        peer: tuple.peer,
    }
}

/// Removes the connections whose TIME_WAIT is over.
pub fn expire() {
    while CLOSED.load(Relaxed) > 0 {
        let mut table = TABLE.lock();
        let Some(tuple) = table.due.take_due(ether::now()) else {
            return;
        };
        let gone = table.slots.remove(&tuple);
        CLOSED.fetch_sub(usize::from(gone.is_some()), Relaxed);
        drop(table);
        drop(gone);
        cond_resched();
    }
}

/// Enters a connection.
///
/// # Errors
/// ENOMEM.
fn enter(tuple: Tuple, remote: &Arc<Remote>) -> Result<()> {
    let mut table = TABLE.lock();
    let room = table.slots.try_reserve(1);
    room.map_err(|_| Errno::ENOMEM)?;
    let old = table.take(&tuple);
    table.slots.insert(tuple, Slot::Open(remote.clone()));
    drop(table);
    drop(old);
    Ok(())
}

/// Removes a connection, or keeps it in TIME_WAIT without a socket.
fn leave(remote: &Remote, waiting: Option<Waiting>, end: &Arc<End>, port: Option<Kept>) {
    let tuple = end.tuple();
    let mut table = TABLE.lock();
    let is_own = match table.slots.get(&tuple) {
        Some(Slot::Open(other)) => core::ptr::eq(&**other, remote),
        _ => false,
    };
    let old = is_own.then(|| table.slots.remove(&tuple)).flatten();
    if let Some(waiting) = waiting.filter(|_| is_own)
        && CLOSED.load(Relaxed) < MOST_WAITING.load(Relaxed)
        && table.slots.try_reserve(1).is_ok()
        && let Ok(ticket) = table.due.add(waiting.due(), tuple)
    {
        let closed = Closed {
            waiting,
            ticket,
            _end: end.clone(),
            _port: port,
        };
        table.slots.insert(tuple, Slot::Closed(closed));
        CLOSED.fetch_add(1, Relaxed);
        drop(table);
    } else {
        drop(table);
        drop(port);
    }
    drop(old);
}

impl Table {
    fn take(&mut self, tuple: &Tuple) -> Option<Slot> {
        let slot = self.slots.remove(tuple);
        if let Some(Slot::Closed(closed)) = &slot {
            self.due.remove(closed.ticket);
            CLOSED.fetch_sub(1, Relaxed);
        }
        slot
    }

    /// Removes a connection if its TIME_WAIT is over.
    fn take_expired(&mut self, tuple: &Tuple) -> Option<Slot> {
        match self.slots.get(tuple) {
            Some(Slot::Closed(closed)) if closed.waiting.due() <= ether::now() => self.take(tuple),
            _ => None,
        }
    }
}

/// What to do with a segment for a connection in TIME_WAIT.
enum Late {
    Nothing,
    /// RST has ended the wait: the slot must be dropped without the lock.
    Over(Option<Slot>),
    Answer(Header),
    /// It may open a connection with this initial number; otherwise this is the answer.
    Reopens(u32, Option<Header>),
}

fn late(table: &mut Table, tuple: &Tuple, header: &Header, payload: usize) -> Late {
    let Some(Slot::Closed(closed)) = table.slots.get_mut(tuple) else {
        return Late::Nothing;
    };
    let late = closed.waiting.on_segment(ether::now(), header, payload);
    if late.is_over {
        return Late::Over(table.take(tuple));
    }
    let (due, old) = (closed.waiting.due(), closed.ticket);
    // It fits in its previous place.
    table.due.remove(old);
    let ticket = table.due.add(due, *tuple);
    if let (Some(Slot::Closed(closed)), Ok(ticket)) = (table.slots.get_mut(tuple), ticket) {
        closed.ticket = ticket;
    }
    match (late.reopens, late.answer) {
        (Some(isn), answer) => Late::Reopens(isn, answer),
        (None, Some(answer)) => Late::Answer(answer),
        (None, None) => Late::Nothing,
    }
}

/// Handles a segment for an address of this machine that arrived through an interface. May sleep.
pub fn receive(packet: &ip::input::Packet) {
    let Some((tuple, header, payload)) = segment::parse(packet) else {
        return;
    };
    let mut table = TABLE.lock();
    let expired = table.take_expired(&tuple);
    let remote = match table.slots.get(&tuple) {
        Some(Slot::Open(remote)) => remote.clone(),
        Some(Slot::Closed(_)) => {
            let late = late(&mut table, &tuple, &header, payload.len());
            drop(table);
            return match late {
                Late::Nothing => {}
                Late::Over(gone) => drop(gone),
                Late::Answer(answer) => segment::send(&tuple, &answer),
                Late::Reopens(isn, answer) => reopen(&tuple, &header, isn, answer),
            };
        }
        None => {
            drop(table);
            drop(expired);
            return begin(&tuple, &header, payload);
        }
    };
    drop(table);
    if let Some(isn) = remote.receive(&header, payload) {
        reopen(&tuple, &header, isn, None);
    }
}

/// Handles a segment without a connection.
fn begin(tuple: &Tuple, header: &Header, payload: &[u8]) {
    match listener(tuple.local, tuple.peer) {
        Ok(server) => door::receive(&server, tuple, header, payload, None),
        Err(Errno::ECONNREFUSED) => refuse(tuple, header, payload.len()),
        // The peer sends it again.
        Err(_) => {}
    }
}

fn reopen(tuple: &Tuple, header: &Header, isn: u32, answer: Option<Header>) {
    match (listener(tuple.local, tuple.peer), answer) {
        (Ok(server), _) => {
            let old = TABLE.lock().take(tuple);
            drop(old);
            door::receive(&server, tuple, header, &[], Some(isn));
        }
        (Err(_), Some(answer)) => segment::send(tuple, &answer),
        (Err(_), None) => {}
    }
}

fn refuse(tuple: &Tuple, header: &Header, payload: usize) {
    if let Some(answer) = header.reset(payload) {
        segment::send(tuple, &answer);
    }
}

/// Handles a report about a segment from the first to the second address.
pub fn report(told: &ip::icmp::Report, [local, peer]: [SocketAddr; 2]) {
    let tuple = Tuple { local, peer };
    let at = told.inner.at;
    let Some(&[a, b, c, d]) = told.quoted.get(at + 4..at + 8) else {
        return;
    };
    let seq = u32::from_be_bytes([a, b, c, d]);
    let found = match TABLE.lock().slots.get(&tuple) {
        Some(Slot::Open(remote)) => Some(remote.clone()),
        Some(Slot::Closed(_)) => return,
        None => None,
    };
    if let Some(remote) = found {
        remote.told(seq, told);
    } else if ends_half_open(told)
        && let Ok(server) = listener(local, peer)
        && let Some(door) = server.door.get()
    {
        door.told(&tuple, seq);
    }
}

/// Whether a report ends a half-open connection, as on Linux: over IPv4 also a soft error, over
/// IPv6 only a hard one.
fn ends_half_open(told: &ip::icmp::Report) -> bool {
    let v4 = told.inner.source.is_ipv4();
    matches!(
        (v4, told.kind, told.code),
        (true, 3, 0 | 1) | (true, 11 | 12, _) | (false, 1, 1 | 4..=6) | (false, 4, _)
    )
}

/// The meaning of a report about a destination, except a packet's size.
fn unreachable(told: &ip::icmp::Report) -> Option<Unreachable> {
    let v4 = told.inner.source.is_ipv4();
    match (v4, told.kind, told.code) {
        _ if told.too_big().is_some() => None,
        (true, 3, 2) => Some(Unreachable::Protocol),
        (true, 3, 3) | (false, 1, 4) => Some(Unreachable::Port),
        (true, 3, 0 | 6 | 9 | 11) | (false, 1, 0) => Some(Unreachable::Network),
        (true, 3 | 11, _) | (false, 1 | 3, _) => Some(Unreachable::Host),
        _ => None,
    }
}
