//! The ends of TCP connections, by four-tuple. An end whose socket is gone keeps its port for a
//! while: until the other end has been closed too (FIN_WAIT2), and then until no segment of the
//! connection can arrive any more (TIME_WAIT; RFC 9293, 3.6).

use super::ports::Kept;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::sequence::Sequence;
use crate::hash::{self, HashMap};
use crate::sync::Mutex;
use crate::task::clock;
use crate::task::sched::cond_resched;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use deadlines::{Deadlines, Ticket};

/// The maximum number of ends that wait without a socket; further ones are removed at once
/// (`net.ipv4.tcp_max_tw_buckets`, Linux's value for 1 GiB).
pub static MOST_WAITING: AtomicUsize = AtomicUsize::new(4096);
/// Whether connect(2) may choose a port whose end is in TIME_WAIT (`net.ipv4.tcp_tw_reuse`): not if
/// this is 0. All connections are over loopback, for which 2 allows it too.
pub static REUSE: AtomicUsize = AtomicUsize::new(2);
/// The seconds that an end waits in FIN_WAIT2, unless TCP_LINGER2 sets another time
/// (`net.ipv4.tcp_fin_timeout`).
pub static FIN_TIMEOUT: AtomicUsize = AtomicUsize::new(60);
/// The seconds that an end is in TIME_WAIT (Linux's `TCP_TIMEWAIT_LEN`).
const TIME_WAIT: u64 = 60;

/// The address and port of each end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// This end's.
    pub local: SocketAddr,
    /// The other's.
    pub peer: SocketAddr,
}

impl Tuple {
    /// The four-tuple as the other end sees it.
    pub fn reversed(self) -> Self {
        Tuple {
            local: self.peer,
            peer: self.local,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Established,
    /// This end is closed, the other is not.
    FinWait,
    /// This end was closed first, and the other end at the given time, in ns.
    TimeWait(u64),
    /// The other end was closed first, or is gone: there is nothing to wait for.
    LastAck,
}

/// An end of a connection, which exists until its socket is closed and its waiting time is over.
struct Entry {
    number: u64,
    state: State,
    /// The family of its socket.
    domain: u32,
    /// Its number in the list of ends without a socket.
    listed: Option<u64>,
    /// `None` while it has a socket.
    waiting: Option<Waiting>,
}

/// An end without a socket: the time until which it waits, and the port that it keeps.
struct Waiting {
    ticket: Ticket,
    /// In ns of CLOCK_MONOTONIC.
    until: u64,
    _port: Kept,
}

/// An end that has no socket any more, or whose socket no longer shows it.
pub struct Left {
    /// Its four-tuple.
    pub tuple: Tuple,
    /// The family of its socket.
    pub domain: u32,
    /// The state as numbered in /proc/net/tcp and TCP_INFO: FIN_WAIT2 or TIME_WAIT.
    pub state: u8,
    /// The remaining waiting time, in ns.
    pub time: u64,
}

struct Table {
    ends: HashMap<Tuple, Entry>,
    due: Deadlines<Tuple>,
    /// The ends that are listed without a socket.
    listed: Sequence<Tuple>,
    waiting: usize,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    ends: hash::new(),
    due: Deadlines::new(),
    listed: Sequence::new(),
    waiting: 0,
});

/// How a port was chosen for a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// By bind(2).
    Given,
    /// By connect(2).
    Chosen,
    /// The port of a listening socket.
    Listener,
}

impl Entry {
    /// Whether a new connection may have its four-tuple (Linux's `tcp_twsk_unique`).
    fn gives_way(&self, port: Port) -> bool {
        let waits = self.waiting.is_some();
        match (port, self.state) {
            (Port::Listener, _) => true,
            (Port::Given, _) => waits,
            (Port::Chosen, State::TimeWait(since)) => {
                let later = clock::monotonic_ns() / clock::SECOND > since / clock::SECOND;
                waits && later && REUSE.load(Relaxed) != 0
            }
            (Port::Chosen, _) => false,
        }
    }
}

impl Table {
    /// Removes an end. The entry is dropped after the lock is released, since that takes the lock
    /// of the ports.
    fn remove(&mut self, tuple: &Tuple) -> Option<Entry> {
        let gone = self.ends.remove(tuple)?;
        if let Some(waiting) = &gone.waiting {
            self.due.remove(waiting.ticket);
            self.waiting -= 1;
        }
        if let Some(number) = gone.listed {
            self.listed.remove(number);
        }
        Some(gone)
    }

    /// Lists an end without a socket, if there is memory for it.
    fn list(&mut self, tuple: Tuple) {
        if let Some(entry) = self.ends.get_mut(&tuple)
            && entry.listed.is_none()
        {
            entry.listed = self.listed.push(tuple).ok();
        }
    }

    fn own(&mut self, end: &End) -> Option<&mut Entry> {
        let own = self.ends.get_mut(&end.tuple)?;
        (own.number == end.number).then_some(own)
    }
}

fn deadline(since: u64, seconds: u64) -> u64 {
    clock::monotonic_deadline(since + seconds * clock::SECOND)
}

/// Removes the ends whose waiting time is over.
pub fn expire() {
    super::tcp::expire();
    let now = time::now_ticks();
    loop {
        let mut table = TABLE.lock();
        let Some(tuple) = table.due.take_due(now) else {
            return;
        };
        let gone = table.remove(&tuple);
        drop(table);
        drop(gone);
        cond_resched();
    }
}

/// The number of ends that wait without a socket.
pub fn waiting() -> usize {
    expire();
    TABLE.lock().waiting
}

/// The next end that is listed without a socket, and the position after it.
pub fn left_from(place: u64) -> Option<(Left, u64)> {
    expire();
    let now = clock::monotonic_ns();
    let table = TABLE.lock();
    let (number, &tuple) = table.listed.first_from(place)?;
    let entry = table.ends.get(&tuple)?;
    let (state, until) = match (entry.state, &entry.waiting) {
        (State::TimeWait(since), _) => (6, since + TIME_WAIT * clock::SECOND),
        (_, Some(waiting)) => (5, waiting.until),
        (_, None) => (5, now),
    };
    let left = Left {
        tuple,
        domain: entry.domain,
        state,
        time: until.saturating_sub(now),
    };
    Some((left, number + 1))
}

/// Whether a new connection can have this four-tuple.
pub fn is_free(tuple: &Tuple, port: Port) -> bool {
    let table = TABLE.lock();
    let there = table.ends.get(tuple);
    there.is_none_or(|entry| entry.gives_way(port))
}

/// An end of a connection that has a socket.
pub struct End {
    tuple: Tuple,
    number: u64,
}

impl End {
    /// Its four-tuple.
    pub fn tuple(&self) -> Tuple {
        self.tuple
    }

    /// The end of a new connection.
    ///
    /// # Errors
    /// EADDRNOTAVAIL: the four-tuple is in use. ENOMEM.
    pub fn enter(tuple: Tuple, port: Port, domain: u32) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        expire();
        let number = NEXT.fetch_add(1, Relaxed);
        let mut table = TABLE.lock();
        let there = table.ends.get(&tuple);
        if there.is_some_and(|entry| !entry.gives_way(port)) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        table.ends.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let gone = table.remove(&tuple);
        let entry = Entry {
            number,
            state: State::Established,
            domain,
            listed: None,
            waiting: None,
        };
        table.ends.insert(tuple, entry);
        drop(table);
        drop(gone);
        Ok(End { tuple, number })
    }

    /// Ends sending. False if the other end is gone, which answers with a reset.
    pub fn finish(&self) -> bool {
        expire();
        let now = clock::monotonic_ns();
        let mut guard = TABLE.lock();
        let table = &mut *guard;
        if table
            .own(self)
            .is_none_or(|own| own.state != State::Established)
        {
            return true;
        }
        let other = self.tuple.reversed();
        let (mut state, mut heard, mut waits) = (State::LastAck, true, false);
        match table.ends.get_mut(&other) {
            None => heard = false,
            Some(other) if other.state == State::Established => state = State::FinWait,
            Some(entry) if entry.state == State::FinWait => {
                entry.state = State::TimeWait(now);
                waits = true;
                if let Some(waiting) = &mut entry.waiting {
                    table.due.remove(waiting.ticket);
                    // Its previous place is free.
                    let due = deadline(now, TIME_WAIT);
                    if let Ok(ticket) = table.due.add(due, other) {
                        waiting.ticket = ticket;
                    }
                }
            }
            Some(_) => {}
        }
        if let Some(own) = table.own(self) {
            own.state = state;
        }
        if waits {
            table.list(other);
        }
        heard
    }

    /// Resets the connection from this end.
    pub fn reset(&self) {
        let mut table = TABLE.lock();
        if table.own(self).is_none() {
            return;
        }
        let own = table.remove(&self.tuple);
        let other = self.tuple.reversed();
        let other = match table.ends.get_mut(&other) {
            Some(entry) if entry.waiting.is_none() => {
                entry.state = State::LastAck;
                None
            }
            Some(_) => table.remove(&other),
            None => None,
        };
        drop(table);
        drop((own, other));
    }

    /// Detaches the socket after it has finished sending. The end waits in FIN_WAIT2 for up to
    /// `seconds`, with the port that `keep` returns, if it has to wait for anything.
    pub fn leave(&self, seconds: u64, keep: impl FnOnce() -> Option<Kept>) {
        let state = TABLE.lock().own(self).map(|own| own.state);
        let until = |since, seconds| since + seconds * clock::SECOND;
        let fin = match state {
            Some(State::FinWait) => until(clock::monotonic_ns(), seconds),
            Some(State::TimeWait(_)) => 0,
            _ => return,
        };
        let Some(port) = keep() else { return };
        let mut guard = TABLE.lock();
        let table = &mut *guard;
        // The other end may have been closed meanwhile.
        let until = match table.own(self).map(|own| own.state) {
            Some(State::FinWait) => fin,
            Some(State::TimeWait(since)) => until(since, TIME_WAIT),
            _ => {
                drop(guard);
                return;
            }
        };
        if table.waiting < MOST_WAITING.load(Relaxed)
            && let Ok(ticket) = table.due.add(clock::monotonic_deadline(until), self.tuple)
            && let Some(own) = table.own(self)
        {
            own.waiting = Some(Waiting {
                ticket,
                until,
                _port: port,
            });
            table.waiting += 1;
            table.list(self.tuple);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut table = TABLE.lock();
        if table.own(self).is_some_and(|own| own.waiting.is_none()) {
            let gone = table.remove(&self.tuple);
            drop(table);
            drop(gone);
        }
    }
}
