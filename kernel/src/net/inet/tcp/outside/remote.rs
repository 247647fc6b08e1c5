//! A connection with another machine: the other end of a socket's channels.

use super::super::Tcp;
use super::super::link::Link;
use super::due::Due;
use super::orphans::Orphan;
use super::parts::Parts;
use super::{as_tcp, secrets, segment};
use crate::errno::{Errno, Result};
use crate::fs::io::{Sink, Source};
use crate::fs::poll::WaitSource;
use crate::mm::heap::{try_arc, try_box};
use crate::net::channel::{Channel, Kind, MAX_LIMIT, Writing};
use crate::net::control_message::Ancillary;
use crate::net::ether::routing::{self, Way};
use crate::net::ether::{self, neighbours};
use crate::net::inet::connections::End;
use crate::net::inet::ports::Kept;
use crate::net::inet::tcp_memory::{self, Charge};
use crate::net::sending::Stalled;
use crate::net::wait::Wait;
use crate::sync::SleepMutex;
use crate::task::clock;
use crate::task::timer::Expire;
use crate::task::work_queue::{self, Work};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::*};
use tcp::{
    Accepted, Config, Connection, Error, Events, Header, Identity, State, Unreachable, Write,
};

/// How often a connection that makes progress confirms that its neighbour is reachable, in ns.
const CONFIRMS: u64 = 5 * clock::SECOND;

/// A connection with another machine.
pub struct Remote {
    socket: Weak<Tcp>,
    end: Arc<End>,
    /// The channels that the socket reads and writes.
    incoming: Arc<Channel>,
    outgoing: Arc<Channel>,
    inner: SleepMutex<Inner>,
    /// The state shown in /proc/net/tcp and TCP_INFO.
    shown: AtomicU8,
    due: Due,
    /// Whether the peer can send no more before something is read.
    full: AtomicBool,
    /// The memory of its parts in bytes, for readers without the lock.
    held: AtomicUsize,
}

/// The data protected by the lock, which is taken before those of the channels.
struct Inner {
    /// Boxed, since it is large and would be on the stack once for each move.
    connection: Box<Connection>,
    /// The socket's side, until the connection is established.
    link: Option<Arc<Link>>,
    /// The number of bytes of the socket's stream that were passed to the connection.
    given: u64,
    /// The number of the peer's bytes that were put into the channel.
    filled: u64,
    /// The number of these that the program is known to have read.
    read: u64,
    parts: Parts,
    /// The charge for the parts.
    charge: Charge,
    way: Option<Way>,
    confirmed: u64,
    /// The port, once the socket is closed.
    kept: Option<Kept>,
    has_socket: bool,
    /// Its count among the connections without a socket.
    orphan: Option<Orphan>,
    /// Whether the socket was notified that the peer's stream ends.
    ended: bool,
    /// The error that the program gets once it has read all received data.
    error: Option<Errno>,
    /// Whether the connection is over; some received data may still wait for room in the channel.
    over: bool,
}

impl Inner {
    /// Whether there is memory for `more` received bytes.
    fn has_memory(&self, more: usize) -> bool {
        let held = self.parts.held() + more;
        more == 0 || held <= tcp_memory::LEAST || self.charge.may_be(held)
    }

    /// Whether a segment's payload may be accepted. For the data that is expected next, data that
    /// arrived early makes room; only data that waits for room in the channel excludes it, since
    /// otherwise the connection would not make progress.
    fn may_take(&mut self, header: &Header, payload: usize) -> bool {
        if self.has_memory(payload) {
            return true;
        }
        if !self.connection.is_next(header, payload) {
            return false;
        }
        if let Some(from) = self.connection.prune(u64::MAX) {
            self.parts.prune(from);
            self.charge.set(self.parts.held());
        }
        self.has_memory(payload) || self.parts.next(self.filled).is_none()
    }
}

fn errno(error: Error) -> Errno {
    match error {
        Error::ConnectionRefused => Errno::ECONNREFUSED,
        Error::ConnectionReset => Errno::ECONNRESET,
        Error::BrokenPipe => Errno::EPIPE,
        Error::TimedOut => Errno::ETIMEDOUT,
        Error::HostUnreachable => Errno::EHOSTUNREACH,
        Error::NetworkUnreachable => Errno::ENETUNREACH,
        Error::ProtocolUnreachable => Errno::ENOPROTOOPT,
        Error::NotConnected => Errno::ENOTCONN,
    }
}

/// The number of a state (`TCP_ESTABLISHED` and so on).
fn number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

impl Remote {
    /// Starts to connect `socket` by this route.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn connect(
        socket: &Arc<Tcp>,
        end: Arc<End>,
        way: Way,
        config: &Config,
    ) -> Result<Arc<Self>> {
        let identity = Identity::of(&secrets()[0], ether::now(), &as_tcp(&end.tuple()));
        let connection = try_box(Connection::connect(ether::now(), config, identity))?;
        let (remote, link) = Self::new(socket, end, way, connection, config.mss)?;
        remote.inner.lock().link = Some(link);
        Ok(remote)
    }

    /// Creates the connection that `socket` is to accept; returns its link.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn accept(
        socket: &Arc<Tcp>,
        end: Arc<End>,
        way: Way,
        config: &Config,
        accepted: &Accepted,
    ) -> Result<(Arc<Self>, Arc<Link>)> {
        let connection = try_box(accepted.connection(ether::now(), config))?;
        Self::new(socket, end, way, connection, config.mss)
    }

    fn new(
        socket: &Arc<Tcp>,
        end: Arc<End>,
        way: Way,
        connection: Box<Connection>,
        mss: u16,
    ) -> Result<(Arc<Self>, Arc<Link>)> {
        let reader = &socket.base.reader;
        let room = WaitSource::new()?;
        let data = WaitSource::new()?;
        let incoming = Channel::new(reader, Kind::Tcp, MAX_LIMIT, &socket.base.readable, &room)?;
        incoming.set_inline(socket.base.options.is_on(linux_raw_sys::net::SO_OOBINLINE));
        incoming.set_wants_times(socket.base.options.stamping.wants_arrival());
        let outgoing = Channel::new(reader, Kind::Tcp, MAX_LIMIT, &data, &socket.base.writable)?;
        outgoing.set_segment(mss.into());
        let remote = try_arc(Remote {
            socket: Arc::downgrade(socket),
            end: end.clone(),
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            inner: SleepMutex::new(Inner {
                connection,
                link: None,
                given: 0,
                filled: 0,
                read: 0,
                parts: Parts::new(),
                charge: Charge::default(),
                way: Some(way),
                confirmed: 0,
                kept: None,
                has_socket: true,
                orphan: None,
                ended: false,
                error: None,
                over: false,
            }),
            shown: AtomicU8::new(number(State::SynSent)),
            due: Due::default(),
            full: AtomicBool::new(false),
            held: AtomicUsize::new(0),
        })?;
        let other = Some(remote.clone());
        let link = Link::new(&end, &incoming, &outgoing, mss.into(), other)?;
        let stalled: Weak<Remote> = Arc::downgrade(&remote);
        outgoing.sending.watch_by(stalled);
        super::enter(end.tuple(), &remote)?;
        Ok((remote, link))
    }

    /// The state, as it is shown.
    pub fn state(&self) -> u8 {
        self.shown.load(Acquire)
    }

    /// Its memory in bytes, without its channels.
    pub fn held(&self) -> usize {
        size_of::<Self>() + size_of::<Connection>() + self.held.load(Relaxed)
    }

    /// Whether a reader that waits for more than there is would wait for ever.
    pub fn is_full(&self) -> bool {
        self.full.load(Acquire)
    }

    /// The channel that the socket reads.
    pub fn incoming(&self) -> &Channel {
        &self.incoming
    }

    /// The channel that the socket writes.
    pub fn outgoing(&self) -> &Channel {
        &self.outgoing
    }

    /// Its four-tuple.
    pub fn end(&self) -> &Arc<End> {
        &self.end
    }

    /// Handles a segment. Returns the initial sequence number of a connection that replaces this
    /// one.
    pub fn receive(self: &Arc<Self>, header: &Header, payload: &[u8]) -> Option<u32> {
        let mut bytes = Vec::new();
        let mut inner = self.inner.lock();
        let now = ether::now();
        if !inner.may_take(header, payload.len()) {
            let connection = &mut inner.connection;
            connection.on_segment_without_memory(now, header, payload.len());
            self.settle(inner);
            return None;
        }
        let is_short = bytes.try_reserve_exact(payload.len()).is_err();
        if is_short || !inner.parts.reserve() {
            return None;
        }
        let received = inner.connection.on_segment(now, header, payload.len());
        if let Some(place) = received.placement {
            let kept = payload.get(place.skip..place.skip + place.length);
            bytes.extend_from_slice(kept.unwrap_or_default());
            if !inner.parts.add(place.at, bytes) {
                Self::lose(&mut inner, place.at);
            }
        }
        if received.reopens.is_some() {
            return received.reopens;
        }
        if inner.connection.has_ended() && !inner.ended {
            // Data that arrived early from beyond the stream's end is dropped.
            let end = inner.read + inner.connection.readable();
            inner.parts.prune(end);
        }
        self.settle(inner);
        None
    }

    /// There was no memory for data received at a position: it is forgotten, so that it is sent
    /// again. A connection that has already acknowledged it is ended.
    fn lose(inner: &mut Inner, at: u64) {
        let pruned = inner.connection.prune(u64::MAX);
        if let Some(from) = pruned {
            inner.parts.prune(from);
        }
        if pruned.is_none_or(|from| from > at) {
            inner.connection.abort();
            inner.error = Some(Errno::ENOBUFS);
        }
    }

    /// Handles a report about a segment that began with `seq`.
    pub fn told(self: &Arc<Self>, seq: u32, told: &ip::icmp::Report) {
        let mut inner = self.inner.lock();
        if !inner.connection.is_in_flight(seq) {
            return;
        }
        let what = match told.too_big() {
            Some(_) => {
                crate::net::inet::outside::note_path(told);
                inner.way = None;
                let way = self.way(&mut inner);
                way.map(|way| Unreachable::TooBig(segment::mss(&way, self.end.tuple().peer.ip())))
            }
            None => super::unreachable(told),
        };
        let Some(what) = what else { return };
        inner.connection.on_icmp(ether::now(), seq, what);
        self.settle(inner);
    }

    /// The socket's side has changed: bytes were written or read, or options set.
    ///
    /// # Errors
    /// EINTR: the caller was killed.
    pub fn stir(self: &Arc<Self>) -> Result<()> {
        self.settle(self.inner.lock_killable()?);
        Ok(())
    }

    /// The same, later, for callers that must not wait.
    pub fn stir_later(self: &Arc<Self>) {
        self.due.queue(self);
    }

    /// Changes the connection because of an option.
    pub fn change(self: &Arc<Self>, act: impl FnOnce(&mut Connection)) -> Result<()> {
        let mut inner = self.inner.lock_killable()?;
        act(&mut inner.connection);
        self.settle(inner);
        Ok(())
    }

    /// SHUT_WR.
    pub fn shutdown(self: &Arc<Self>) -> Result<()> {
        let mut inner = self.inner.lock_killable()?;
        self.give(&mut inner);
        // An end that is already closed needs no FIN.
        _ = inner.connection.shutdown();
        self.settle(inner);
        Ok(())
    }

    /// Closes the socket's side; written data is still sent unless `reset`. `keep` keeps the port.
    pub fn close(self: &Arc<Self>, reset: bool, keep: impl FnOnce() -> Option<Kept>) {
        let mut inner = self.inner.lock();
        self.give(&mut inner);
        self.note_read(&mut inner);
        inner.has_socket = false;
        inner.link = None;
        match reset {
            true => inner.connection.abort(),
            false => inner.connection.close(ether::now()),
        }
        if !inner.connection.is_over() {
            inner.kept = keep();
            inner.orphan = Orphan::new(self.outgoing.held() + self.held());
            if inner.orphan.is_none() && inner.connection.waiting().is_none() {
                inner.connection.abort();
            }
        }
        self.incoming.shut_reader();
        self.settle(inner);
    }

    /// Performs the consequences of a change, and releases the lock.
    fn settle(self: &Arc<Self>, mut guard: crate::sync::SleepMutexGuard<'_, Inner>) {
        let inner = &mut *guard;
        if inner.over {
            self.fill(inner);
            let fails = self.conclude(inner);
            drop(guard);
            if fails {
                self.incoming.notify();
            }
            return;
        }
        self.give(inner);
        self.fill(inner);
        self.note_read(inner);
        let full = inner.connection.is_readable(u64::MAX);
        if full && !self.full.swap(full, AcqRel) {
            self.incoming.readable().notify();
        }
        self.full.store(full, Release);
        self.transmit(inner);
        let events = inner.connection.take_events();
        let error = inner.connection.take_error();
        self.release(inner, events);
        self.shown.store(number(inner.connection.state()), Release);
        // The connection is updated before the program is notified.
        let socket = self.socket.upgrade().filter(|_| inner.has_socket);
        if let Some(link) = inner
            .link
            .clone()
            .filter(|_| events.contains(Events::CONNECTED))
        {
            inner.link = None;
            if let Some(socket) = &socket {
                socket.opened(link);
            }
        }
        if let Some(error) = error.map(errno) {
            match inner.link.take() {
                Some(_) => {
                    if let Some(socket) = &socket {
                        socket.not_opened(error);
                    }
                }
                None => inner.error = Some(error),
            }
        }
        let fails = self.conclude(inner);
        let is_over = inner.connection.is_over();
        let waiting = inner.connection.waiting().filter(|_| !inner.has_socket);
        if is_over || waiting.is_some() {
            inner.over = true;
            inner.orphan = None;
            if inner.link.take().is_some()
                && let Some(socket) = &socket
            {
                socket.not_opened(Errno::ECONNRESET);
            }
            self.outgoing.shut_reader();
            self.incoming.notify();
            let kept = inner.kept.take();
            drop(guard);
            self.due.stop();
            super::leave(self, waiting, &self.end, kept);
        } else {
            let next = inner.connection.next_timer();
            drop(guard);
            self.due.arm(self, next);
            if fails {
                self.incoming.notify();
            }
        }
    }

    /// Passes written bytes to the connection.
    fn give(&self, inner: &mut Inner) {
        let bytes = self.outgoing.lock_contents();
        let sent = bytes.read + bytes.sent() as u64;
        let urgent = bytes.urgent.map(|urgent| urgent.at + 1);
        drop(bytes);
        for end in [
            urgent.filter(|end| (inner.given + 1..=sent).contains(end)),
            Some(sent),
        ] {
            let Some(end) = end.filter(|&end| end > inner.given) else {
                continue;
            };
            let how = Write {
                more: false,
                urgent: Some(end) == urgent,
            };
            if inner.connection.write(end - inner.given, how).is_ok() {
                inner.given = end;
            }
        }
    }

    /// Puts data that is in order into the channel.
    fn fill(self: &Arc<Self>, inner: &mut Inner) {
        let mark = inner.connection.urgent_mark().map(|mark| mark + 1);
        let mut is_short = false;
        inner.filled = inner.parts.take(inner.filled, |from, bytes| {
            let end = from + bytes.len() as u64;
            let cut = mark.filter(|&mark| mark > from && mark <= end);
            let some = &bytes[..cut.map_or(bytes.len(), |cut| (cut - from) as usize)];
            let writing = Writing {
                urgent: cut.is_some(),
                more: false,
            };
            let mut source = Source::kernel(some);
            let put = self
                .incoming
                .write(&mut source, Ancillary::default(), writing, &Wait::NEVER);
            match put {
                Ok(count) => count,
                // There is no reader.
                Err(Errno::EPIPE) => bytes.len(),
                Err(error) => {
                    is_short = error != Errno::EAGAIN;
                    0
                }
            }
        });
        // Without memory, no reader comes to make room.
        if is_short {
            self.due.queue_again(self);
        }
        let held = inner.parts.held();
        inner.charge.set(held);
        self.held.store(held, Relaxed);
    }

    /// Once all received data is in the channel, reports what follows: the end of the peer's
    /// stream, or an error. Returns whether it is an error, which must be notified.
    fn conclude(&self, inner: &mut Inner) -> bool {
        if inner.parts.next(inner.filled).is_some() {
            return false;
        }
        if inner.connection.has_ended() && !inner.ended {
            inner.ended = true;
            self.incoming.finish();
        }
        let error = inner.error.take();
        if let Some(error) = error {
            self.incoming.end_by(error);
        }
        error.is_some()
    }

    /// Passes the amount that the program has read to the connection.
    fn note_read(&self, inner: &mut Inner) {
        let read = match self.incoming.is_dead() || !inner.has_socket {
            true => inner.filled,
            false => self.incoming.lock_contents().read.min(inner.filled),
        };
        if read > inner.read {
            inner.connection.read(ether::now(), read - inner.read);
            inner.read = read;
        }
    }

    /// Removes the bytes that the peer has acknowledged.
    fn release(&self, inner: &mut Inner, events: Events) {
        let released = inner.connection.released();
        if self.outgoing.consume_to(released) {
            let now = ether::now();
            if now >= inner.confirmed + CONFIRMS
                && let Some(way) = &inner.way
            {
                inner.confirmed = now;
                neighbours::confirm(way.interface.index, way.hop);
            }
        }
        let _ = events;
    }

    fn way(&self, inner: &mut Inner) -> Option<Way> {
        let current = routing::generation();
        if inner
            .way
            .as_ref()
            .is_none_or(|way| way.generation != current)
        {
            let tuple = self.end.tuple();
            let found = routing::find(tuple.peer.ip(), Some(tuple.local.ip())).ok();
            if let Some(way) = &found {
                inner
                    .connection
                    .set_path_mss(segment::mss(way, tuple.peer.ip()));
            }
            inner.way = found;
        }
        inner.way.clone()
    }

    fn transmit(&self, inner: &mut Inner) {
        let tuple = self.end.tuple();
        let way = self.way(inner);
        while let Some(sent) = inner.connection.transmit(ether::now()) {
            // Without a route the segment is dropped.
            let Some(way) = &way else { continue };
            let len = (sent.payload.end - sent.payload.start) as usize;
            let fill = |to: &mut [u8]| {
                if to.is_empty() {
                    return Ok(());
                }
                let bytes = self.outgoing.lock_contents();
                let skip = sent
                    .payload
                    .start
                    .checked_sub(bytes.read)
                    .ok_or(Errno::EIO)?;
                match bytes.ring.peek(&mut Sink::kernel(to), skip as usize)? == len {
                    true => Ok(()),
                    false => Err(Errno::EIO),
                }
            };
            _ = segment::send_on(way, &tuple, &sent.header, len, fill);
        }
    }
}

impl Expire for Remote {
    fn expire(self: Arc<Self>) {
        self.stir_later();
    }
}

impl Work for Remote {
    fn link(&self) -> &work_queue::Link {
        self.due.link()
    }

    fn run(self: Arc<Self>) {
        let now = ether::now();
        self.due.begin(now);
        let mut inner = self.inner.lock();
        if inner
            .connection
            .next_timer()
            .is_some_and(|next| next <= now)
        {
            inner.connection.on_timer(now);
        }
        self.settle(inner);
    }
}

impl Stalled for Remote {
    /// A writer that lacks room is about to wait: sends what it has written.
    fn stalled(self: Arc<Self>) {
        _ = self.stir();
    }
}
