//! TCP: connections of bytes.

use super::options::{self, MAXSEG, Options};
use super::place::Place;
use super::ports::{self, Holder, Kept};
use super::{Header, reached, source};
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::poll::{Events, PollTable};
use crate::mm::heap::try_arc;
use crate::net::STREAM;
use crate::net::address::{Address, Name, unspecified};
use crate::net::backlog::Backlog;
use crate::net::channel::{Channel, Kind};
use crate::net::control_message::Control;
use crate::net::mib::{self, Event};
use crate::net::options::bytes;
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::stream::{self, ReadMode};
use crate::net::wait::Wait;
use crate::sync::{Mutex, Once};
use crate::task::clock;
use crate::task::timer::{Expire, Timer};
use crate::task::work_queue::{self, Work};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use linux_raw_sys::net::*;
use zerocopy::IntoBytes;

/// States as /proc/net/tcp and TCP_INFO show them.
const ESTABLISHED: u8 = 1;
const FIN_WAIT: u8 = 5;
const CLOSED: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LISTENS: u8 = 10;

/// The level of TCP's options, and TCP_INQ.
const TCP: u32 = IPPROTO_TCP as u32;
const INQ: u32 = 36;
/// TCP_DEFER_ACCEPT
const DEFER_ACCEPT: u32 = 9;
/// Connects and sends in one (`include/linux/socket.h`).
const MSG_FASTOPEN: u32 = 0x2000_0000;
/// Bytes that may wait in a new socket (`net.ipv4.tcp_wmem`, `net.ipv4.tcp_rmem`).
const SEND_BUFFER: u32 = 16384;
const RECEIVE_BUFFER: u32 = 131_072;

/// The connection, as one of its ends sees it.
struct Link {
    incoming: Arc<Channel>,
    outgoing: Arc<Channel>,
    local: SocketAddr,
    peer: SocketAddr,
    /// It reads no more.
    deaf: AtomicBool,
    /// The program has learnt that it is connected.
    reported: AtomicBool,
    /// Something was sent to an end that is closed.
    broken: AtomicBool,
    /// The most bytes of a segment (TCP_MAXSEG).
    segment: i32,
    /// The other end, which is accepted by the listener when it has something to read
    /// (TCP_DEFER_ACCEPT).
    deferred: Mutex<Option<Deferred>>,
}

struct Deferred {
    server: Weak<Tcp>,
    accepted: Arc<Tcp>,
    /// Until when nothing need come.
    _until: Timer,
}

/// Lets the other end be accepted though nothing came.
struct Overdue {
    link: Weak<Link>,
    work: work_queue::Link,
}

impl Expire for Overdue {
    /// A socket may end thereby, which sleeps.
    fn expire(self: Arc<Self>) {
        work_queue::queue(self);
    }
}

impl Work for Overdue {
    fn link(&self) -> &work_queue::Link {
        &self.work
    }

    fn run(self: Arc<Self>) {
        if let Some(link) = self.link.upgrade() {
            link.arrive();
        }
    }
}

impl Link {
    fn reads_no_more(&self) -> bool {
        self.incoming.is_ended() || self.deaf.load(Acquire)
    }

    /// The other end has something to read, or has waited for long: its listener may accept it, if
    /// it waited for that. Says whether there is a connection.
    fn arrive(&self) -> bool {
        let deferred = self.deferred.lock().take();
        let Some(Deferred {
            server,
            accepted,
            _until,
        }) = deferred
        else {
            return true;
        };
        let server = server.upgrade();
        let backlog = server.as_ref().and_then(|server| server.listener.get());
        let taken = backlog.is_some_and(|backlog| backlog.push(accepted.clone(), true).is_ok());
        if !taken {
            accepted.disconnect(true);
        }
        taken
    }

    fn writes_no_more(&self) -> bool {
        let reset = self.incoming.is_reset() || self.broken.load(Acquire);
        self.outgoing.is_finished() || reset
    }
}

/// A socket.
pub struct Tcp {
    base: Base,
    place: Place,
    options: Options,
    link: Mutex<Option<Arc<Link>>>,
    listener: Once<Backlog<Tcp>>,
    /// The port of a connection that was accepted.
    kept: Once<Kept>,
    /// Why a connection did not come about; 0 is nothing to report.
    error: AtomicU32,
}

impl Tcp {
    /// One that is connected to nothing.
    pub fn new(domain: u32) -> Result<Arc<Self>> {
        let base = Base::new(domain, STREAM, IPPROTO_TCP as u32)?;
        base.options.set_buffers(SEND_BUFFER, RECEIVE_BUFFER);
        try_arc(Tcp {
            base,
            place: Place::new(&ports::TCP),
            options: Options::new(domain),
            link: Mutex::new(None),
            listener: Once::new(),
            kept: Once::new(),
            error: AtomicU32::new(0),
        })
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().clone()
    }

    /// A channel that this socket reads and `writer` writes.
    fn channel_from(&self, writer: &Self) -> Result<Arc<Channel>> {
        let limit = self.base.options.receive_buffer();
        let channel = Channel::new(
            &self.base.reader,
            Kind::Tcp,
            limit,
            &self.base.readable,
            &writer.base.writable,
        )?;
        channel.set_inline(self.base.options.is_on(SO_OOBINLINE));
        Ok(channel)
    }

    /// Both ends of a connection from this socket: its own, and that of a new one.
    fn connection(
        &self,
        other: &Self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<[Arc<Link>; 2]> {
        let (there, back) = (other.channel_from(self)?, self.channel_from(other)?);
        let link = |incoming: &Arc<Channel>, outgoing: &Arc<Channel>, local, peer| {
            try_arc(Link {
                incoming: incoming.clone(),
                outgoing: outgoing.clone(),
                local,
                peer,
                deaf: AtomicBool::new(false),
                reported: AtomicBool::new(true),
                broken: AtomicBool::new(false),
                segment: options::segment([&self.options, &other.options], peer.is_ipv6()),
                deferred: Mutex::new(None),
            })
        };
        Ok([
            link(&back, &there, local, peer)?,
            link(&there, &back, peer, local)?,
        ])
    }

    /// Connects to what listens at `to`.
    fn join(&self, local: SocketAddr, to: SocketAddr, wait: &Wait) -> Result<()> {
        let server = ports::TCP
            .find(to, local, |holder, _| holder.listens.then_some(()))
            .and_then(|socket| socket.downcast::<Tcp>())
            .ok_or(Errno::ECONNREFUSED)?;
        let backlog = server.listener.get().ok_or(Errno::ECONNREFUSED)?;
        loop {
            if !wait.nonblocking {
                backlog.wait_for_room(wait)?;
            }
            let accepted = Tcp::new(server.base.domain)?;
            accepted.base.options.inherit_all(&server.base.options);
            accepted.options.inherit(&server.options);
            let holder = Holder {
                ip: to.ip(),
                only_v6: false,
                shares_address: accepted.base.options.is_on(SO_REUSEADDR),
                shares_port: accepted.base.options.is_on(SO_REUSEPORT),
                user: server.base.user(),
                listens: false,
            };
            let kept = ports::TCP.keep(to.port(), holder)?;
            accepted.kept.call_once(|| kept);
            let [own, other] = self.connection(&accepted, local, to)?;
            own.reported.store(!wait.nonblocking, Release);
            *accepted.link.lock() = Some(other);
            let seconds = server.options.value(TCP, DEFER_ACCEPT);
            let defers = seconds > 0;
            if defers {
                let overdue = try_arc(Overdue {
                    link: Arc::downgrade(&own),
                    work: work_queue::Link::default(),
                })?;
                let until = clock::deadline_in(seconds as u64 * clock::SECOND);
                *own.deferred.lock() = Some(Deferred {
                    server: Arc::downgrade(&server),
                    accepted: accepted.clone(),
                    _until: Timer::call(until, overdue)?,
                });
            }
            // A program notified of the connection finds this end connected.
            *self.link.lock() = Some(own);
            if defers {
                return Ok(());
            }
            let Err(error) = backlog.push(accepted, wait.nonblocking) else {
                return Ok(());
            };
            let gone = self.link.lock().take();
            drop(gone);
            if error != Errno::EAGAIN || wait.nonblocking {
                return Err(error);
            }
        }
    }

    /// The result of connect for a socket that is not idle.
    fn check_idle(&self) -> Result<bool> {
        if self.listener.get().is_some() {
            return Err(Errno::EISCONN);
        }
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        match self.link() {
            Some(link) if link.reported.swap(true, AcqRel) => Err(Errno::EISCONN),
            Some(_) => Ok(false),
            None => Ok(true),
        }
    }

    /// Ends the connection: `reset` gives the other end an error.
    fn disconnect(&self, reset: bool) {
        let Some(link) = self.link.lock().take() else {
            return;
        };
        link.arrive();
        if reset || !link.incoming.is_empty() {
            link.outgoing.fail(Errno::ECONNRESET);
            mib::add(Event::Reset, false, 1);
        }
        link.incoming.die();
        link.outgoing.finish();
    }

    /// Bytes of memory that its connection has.
    fn waits(&self) -> usize {
        let link = self.link.lock();
        link.as_ref().map_or(0, |link| link.incoming.held())
    }

    fn stop_listening(&self) {
        if let Some(backlog) = self.listener.get() {
            let waiting = backlog.close();
            waiting.iter().for_each(|one| one.disconnect(true));
        }
    }

    fn state(&self) -> u8 {
        if self.is_listening() {
            return LISTENS;
        }
        match self.link() {
            None => CLOSED,
            Some(link) => match (link.reads_no_more(), link.writes_no_more()) {
                (true, true) => CLOSED,
                (true, false) => CLOSE_WAIT,
                (false, true) => FIN_WAIT,
                _ => ESTABLISHED,
            },
        }
    }
}

impl Socket for Tcp {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        self.place.bind(address, &self.base, how, weak)
    }

    fn listen(self: Arc<Self>, backlog: usize) -> Result<()> {
        if self.link().is_some() {
            return Err(Errno::EINVAL);
        }
        if let Some(listener) = self.listener.get() {
            listener.set_max(backlog);
            return Ok(());
        }
        let any = unspecified(self.base.domain);
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        self.place.claim_any(any, &self.base, how, weak)?;
        let fresh = Backlog::new(backlog, &self.base.readable)?;
        self.place.listen()?;
        self.listener.call_once(|| fresh);
        Ok(())
    }

    fn connect(self: Arc<Self>, address: &Address, wait: &Wait) -> Result<()> {
        if address.is_unspecified() {
            self.stop_listening();
            self.disconnect(true);
            self.place.disconnect(true);
            return Ok(());
        }
        let given = address.inet(self.base.domain)?;
        if !self.check_idle()? {
            return Ok(());
        }
        let to = SocketAddr::new(reached(given.ip()), given.port());
        self.place
            .check_family(to.ip(), &self.base, Errno::ENETUNREACH)?;
        let from = source(to.ip())?;
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        self.place.claim_any(from, &self.base, how, weak)?;
        let port = self.place.local().map_or(0, |local| local.port());
        let own = self
            .place
            .local()
            .map(|local| local.ip())
            .filter(|ip| !ip.is_unspecified());
        let local = SocketAddr::new(own.unwrap_or(from), port);
        let joined = self.join(local, to, wait);
        count_connect(&joined);
        if joined.is_ok() {
            self.place.bind_any_to(local.ip());
        }
        match joined {
            Err(Errno::EAGAIN) => Err(Errno::ETIMEDOUT),
            Err(Errno::ECONNREFUSED) if wait.nonblocking => {
                let error = Errno::ECONNREFUSED.0.into();
                self.error.store(error, Release);
                self.base.writable.lack();
                self.base.writable.notify();
                Err(Errno::EINPROGRESS)
            }
            Ok(()) if wait.nonblocking => {
                self.base.writable.lack();
                self.base.writable.notify();
                Err(Errno::EINPROGRESS)
            }
            done => done,
        }
    }

    fn accept(&self, wait: &Wait) -> Result<Arc<dyn Socket>> {
        Ok(self.listener.get().ok_or(Errno::EINVAL)?.accept(wait)?)
    }

    fn name(&self) -> Name {
        match self.link() {
            Some(link) => Name::Inet(link.local),
            None => self.place.name(),
        }
    }

    fn peer(&self) -> Result<Name> {
        let link = self.link().ok_or(Errno::ENOTCONN)?;
        Ok(Name::Inet(link.peer))
    }

    fn send(self: Arc<Self>, message: Outgoing, wait: &Wait) -> Result<usize> {
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        if message.flags & MSG_FASTOPEN != 0
            && let Some(to) = &message.to
        {
            self.clone().connect(to, wait)?;
        }
        let link = self.link().ok_or(Errno::EPIPE)?;
        let urgent = message.flags & MSG_OOB != 0;
        if link.writes_no_more() {
            return Err(Errno::EPIPE);
        }
        if link.outgoing.is_dead() {
            // The first that is sent to a closed end makes it answer that it is.
            link.broken.store(true, Release);
            self.base.readable.notify();
            message.data.truncate(link.outgoing.limit());
            return message.data.discard();
        }
        if message.data.left() > 0 && !link.arrive() {
            // As on Linux the answer that nobody listens comes later.
            message.data.truncate(link.outgoing.limit());
            return message.data.discard();
        }
        match link
            .outgoing
            .write(message.data, message.ancillary, urgent, wait)
        {
            Err(Errno::EPIPE) => Err(self.take_error().unwrap_or(Errno::EPIPE)),
            done => done,
        }
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            let link = self.link().ok_or(Errno::EINVAL)?;
            return link.incoming.receive_urgent(to, flags);
        }
        if flags & MSG_ERRQUEUE != 0 {
            return Err(Errno::EAGAIN);
        }
        if let Some(error) = self.take_own_error() {
            return Err(error);
        }
        let link = self.link().ok_or(Errno::ENOTCONN)?;
        let deaf = || link.deaf.load(Acquire);
        let mode = ReadMode {
            credentials: false,
            low_water: self.base.options.low_water(),
            peeks_wait: true,
        };
        stream::receive(&link.incoming, to, flags, mode, deaf, wait)
    }

    fn put_header(&self, _header: &Header, control: &mut Control) -> Result<()> {
        if self.options.is_on(TCP, INQ)
            && let Some(link) = self.link()
        {
            let left = link.incoming.waiting_bytes();
            let told = left.max(link.reads_no_more().into());
            control.put(TCP, INQ, (told as u32).as_bytes())?;
        }
        Ok(())
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        if self.is_listening() {
            if read {
                self.stop_listening();
                self.place.release();
            }
            return Ok(());
        }
        let link = self.link().ok_or(Errno::ENOTCONN)?;
        if link.reads_no_more() && link.writes_no_more() {
            return Err(Errno::ENOTCONN);
        }
        if read {
            link.deaf.store(true, Release);
            self.base.readable.notify();
        }
        if write {
            link.arrive();
            link.outgoing.finish();
        }
        Ok(())
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.base.readable);
            table.add(&self.base.writable);
        }
        let mut events = Events::empty();
        if let Some(listener) = self.listener.get()
            && listener.is_open()
        {
            events.set(Events::IN, listener.is_ready());
            return events;
        }
        let failed = self.error.load(Acquire) != 0;
        let Some(link) = self.link() else {
            let ended = Events::IN | Events::READ_HANG_UP | Events::ERROR;
            let told = if failed { ended } else { Events::empty() };
            return Events::OUT | Events::HANG_UP | told;
        };
        let (deaf, mute) = (link.reads_no_more(), link.writes_no_more());
        let enough = link.incoming.has_enough(self.base.options.low_water());
        events.set(Events::IN, enough || deaf);
        events.set(Events::PRIORITY, link.incoming.is_urgent());
        events.set(Events::READ_HANG_UP, deaf);
        events.set(Events::HANG_UP, deaf && mute);
        events.set(Events::ERROR, link.incoming.has_error());
        let writable = mute || link.outgoing.is_ended() || link.outgoing.is_writable();
        events.set(Events::OUT, writable);
        events
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        if self.is_listening() {
            return Err(Errno::EINVAL);
        }
        // What was sent has arrived, and is acknowledged.
        let received = self.link().map_or(0, |link| link.incoming.first_len());
        Ok((received, 0))
    }

    fn backlog(&self) -> Option<(usize, usize)> {
        let listener = self.listener.get()?;
        listener.is_open().then(|| listener.counts())
    }

    fn held(&self) -> usize {
        let waiting = self
            .listener
            .get()
            .map_or(0, |waiting| waiting.sum(Tcp::waits));
        self.waits() + waiting
    }

    fn incoming_cpu(&self) -> Option<u32> {
        self.link()?.incoming.cpu()
    }

    fn is_at_mark(&self) -> bool {
        self.link().is_some_and(|link| link.incoming.is_at_mark())
    }

    fn is_listening(&self) -> bool {
        self.listener.get().is_some_and(Backlog::is_open)
    }

    fn take_error(&self) -> Option<Errno> {
        let link = self.link();
        self.take_own_error()
            .or_else(|| link?.incoming.take_error())
    }

    fn options_changed(&self) {
        if let Some(link) = self.link() {
            let limit = self.base.options.receive_buffer();
            link.incoming.set_limit(limit);
            let inline = self.base.options.is_on(SO_OOBINLINE);
            link.incoming.set_inline(inline);
            self.base.readable.notify();
        }
    }

    fn option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        if let Some(link) = self.link()
            && (level, name) == (TCP, MAXSEG)
            && self.state() == ESTABLISHED
        {
            return bytes(link.segment);
        }
        let (base, place) = (&self.base, &self.place);
        self.options.get(base, place, level, name, self.state())
    }

    fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        let (base, place) = (&self.base, &self.place);
        self.options.set(base, place, level, name, value)
    }

    fn state(&self) -> u8 {
        Tcp::state(self)
    }
}

impl Tcp {
    fn take_own_error(&self) -> Option<Errno> {
        if self.error.load(Acquire) == 0 {
            return None;
        }
        let error = self.error.swap(0, AcqRel);
        (error != 0).then_some(Errno(error as u16))
    }
}

/// Counts a connection that was tried.
fn count_connect(joined: &Result<()>) {
    let event = match joined {
        Ok(()) => Event::Passive,
        Err(Errno::EAGAIN) => Event::Refused,
        Err(_) => Event::Failed,
    };
    mib::add(Event::Active, false, 1);
    mib::add(event, false, 1);
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.stop_listening();
        self.disconnect(self.base.options.resets());
    }
}
