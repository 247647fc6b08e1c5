//! TCP: connections of bytes.

mod link;

use link::{Deferred, Later, Link};

use super::bind::Place;
use super::connections::{self, End, Port, Tuple};
use super::errors::{Errors, Sent};
use super::options::{self, LINGER2, MAXSEG, Options};
use super::ports::{self, Holder, Kept};
use super::{Header, reached, source};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::poll::{Events, PollTable};
use crate::mm::heap::try_arc;
use crate::net::STREAM;
use crate::net::address::{Address, Name, unspecified};
use crate::net::backlog::Backlog;
use crate::net::channel::{Channel, Kind, Writing};
use crate::net::control_message::Control;
use crate::net::mib::{self, Event};
use crate::net::options::{bytes, number};
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::stream::{self, ReadMode};
use crate::net::timestamping::Asked;
use crate::net::wait::Wait;
use crate::sync::{Mutex, Once, SleepMutex};
use crate::task::clock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use linux_raw_sys::net::*;
use zerocopy::IntoBytes;

/// States as /proc/net/tcp and TCP_INFO show them.
const ESTABLISHED: u8 = 1;
const FIN_WAIT: u8 = 5;
const CLOSE_WAIT: u8 = 8;
/// Those in which nothing is sent.
pub const CLOSED: u8 = 7;
pub const LISTENS: u8 = 10;

/// The level of TCP's options, and some of them.
const TCP: u32 = IPPROTO_TCP as u32;
const NODELAY: u32 = 1;
const CORK: u32 = 3;
const WINDOW_CLAMP: u32 = 10;
const USER_TIMEOUT: u32 = 18;
const FASTOPEN: u32 = 23;
const NOTSENT_LOWAT: u32 = 25;
const FASTOPEN_CONNECT: u32 = 30;
const INQ: u32 = 36;
/// TCP_DEFER_ACCEPT
const DEFER_ACCEPT: u32 = 9;
/// Connects and sends in one (`include/linux/socket.h`).
const MSG_FASTOPEN: u32 = 0x2000_0000;
/// Bytes that may wait in a new socket (`net.ipv4.tcp_wmem`, `net.ipv4.tcp_rmem`).
const SEND_BUFFER: u32 = 16384;
const RECEIVE_BUFFER: u32 = 131_072;
/// Half of the window that a connection begins with: as much is a whole segment.
const HALF_WINDOW: usize = 32768;

/// A socket.
pub struct Tcp {
    base: Base,
    place: Place,
    options: Options,
    link: Mutex<Option<Arc<Link>>>,
    listener: Once<Arc<Backlog<Tcp>>>,
    /// Held while it is decided whether it becomes the one or the other.
    becoming: SleepMutex<()>,
    /// A call connects it.
    connecting: AtomicBool,
    /// The port of a connection that was accepted.
    kept: Once<Kept>,
    /// Why a connection did not come about; 0 is nothing to report.
    error: AtomicU32,
    /// When what was asked about was sent.
    reports: Errors,
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
            becoming: SleepMutex::new(()),
            connecting: AtomicBool::new(false),
            kept: Once::new(),
            error: AtomicU32::new(0),
            reports: Errors::new(),
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
        channel.set_wants_times(self.base.options.stamping.wants_arrival());
        Ok(channel)
    }

    /// Both ends of a connection from this socket: its own, and that of a new one.
    fn connection(&self, other: &Self, [own, others]: [&Arc<End>; 2]) -> Result<[Arc<Link>; 2]> {
        let (there, back) = (other.channel_from(self)?, self.channel_from(other)?);
        let link = |incoming: &Arc<Channel>, outgoing: &Arc<Channel>, end: &Arc<End>| {
            let Tuple { local, peer } = end.tuple();
            try_arc(Link {
                end: end.clone(),
                incoming: incoming.clone(),
                outgoing: outgoing.clone(),
                local,
                peer,
                deaf: AtomicBool::new(false),
                reported: AtomicBool::new(true),
                broken: AtomicBool::new(false),
                segment: options::segment([&self.options, &other.options], peer.is_ipv6()),
                deferred: Mutex::new(None),
                held: Mutex::new(None),
                stalled: Mutex::new(None),
                patience: AtomicU64::new(0),
            })
        };
        let ends = [link(&back, &there, own)?, link(&there, &back, others)?];
        for (link, writer) in ends.iter().zip([self, other]) {
            let channel = &link.outgoing;
            channel.set_segment(HALF_WINDOW.min(link.segment as usize));
            let most = writer.options.value(TCP, NOTSENT_LOWAT);
            if most != 0 {
                channel.set_low_water(most as u32);
            }
            if writer.options.is_on(TCP, CORK) {
                channel.set_corked(true)?;
            }
        }
        Ok(ends)
    }

    /// Connects to what listens at the other side of `end`.
    fn join(&self, end: End, wait: &Wait) -> Result<()> {
        let Tuple { local, peer: to } = end.tuple();
        let end = try_arc(end)?;
        let server = ports::TCP
            .find(
                to,
                local,
                |holder| holder.listens,
                |socket| Some(socket.base().options.prefers_this_cpu()),
            )
            .and_then(|socket| socket.downcast::<Tcp>())
            .ok_or(Errno::ECONNREFUSED)?;
        let backlog = server.listener.get().ok_or(Errno::ECONNREFUSED)?.clone();
        // While it waits for room, it holds no reference to the listener.
        let listener = Arc::downgrade(&server);
        drop(server);
        loop {
            if !wait.nonblocking {
                backlog.wait_for_room(wait)?;
            }
            let server = listener.upgrade().ok_or(Errno::ECONNREFUSED)?;
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
                waits: false,
            };
            let kept = ports::TCP.keep(to.port(), holder)?;
            accepted.kept.call_once(|| kept);
            let others = try_arc(End::enter(
                end.tuple().reversed(),
                Port::Listener,
                server.base.domain,
            )?)?;
            let [own, other] = self.connection(&accepted, [&end, &others])?;
            own.reported.store(!wait.nonblocking, Release);
            let seconds = server.options.value(TCP, DEFER_ACCEPT);
            let defers = seconds > 0;
            if defers {
                let until = clock::deadline_in(seconds as u64 * clock::SECOND);
                *own.deferred.lock() = Some(Deferred {
                    server: Arc::downgrade(&server),
                    accepted: accepted.clone(),
                    _until: Later::call(until, &own, |link| _ = link.arrive())?,
                });
            }
            // A program notified of the connection finds this end connected.
            let join = || {
                *accepted.link.lock() = Some(other);
                *self.link.lock() = Some(own);
            };
            if defers {
                join();
            } else {
                match backlog.push(accepted.clone(), wait.nonblocking, join) {
                    Err(Errno::EAGAIN) if !wait.nonblocking => continue,
                    done => done?,
                }
            }
            accepted.option_changed(USER_TIMEOUT)?;
            return self.option_changed(USER_TIMEOUT);
        }
    }

    /// Keeps other calls from connecting it or having it listen, unless one connects it already.
    fn begin(&self) -> Result<Option<Connecting<'_>>> {
        let _becoming = self.becoming.lock_killable()?;
        let begins = !self.connecting.swap(true, AcqRel);
        Ok(begins.then(|| Connecting(self)))
    }

    /// The same, or waits for the one that does.
    ///
    /// # Errors
    /// EALREADY: it may not wait for so long. ECONNABORTED: nothing came of it.
    fn begin_or_wait(&self, wait: &Wait) -> Result<Option<Connecting<'_>>> {
        let begun = self.begin()?;
        if begun.is_some() {
            return Ok(begun);
        }
        let done = || !self.connecting.load(Acquire);
        match wait.until(&self.base.writable, done) {
            Err(Errno::EAGAIN) => Err(Errno::EALREADY),
            Err(error) => Err(error),
            Ok(()) if self.link().is_some() => Ok(None),
            Ok(()) => Err(Errno::ECONNABORTED),
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
        let link = self.link.lock().take();
        if let Some(link) = link {
            let closes = [
                |channel: &Channel| Ok(channel.die()),
                |channel: &Channel| Ok(channel.finish()),
            ];
            // These do not fail.
            _ = self.end_link(&link, reset, closes);
        }
    }

    /// The same from a system call that does not close the socket.
    ///
    /// # Errors
    /// EINTR: the caller is killed. The connection ends with the socket.
    fn drop_connection(&self) -> Result<()> {
        let Some(link) = self.link.lock().take() else {
            return Ok(());
        };
        let ended = self.end_link(&link, true, [Channel::kill_reader, Channel::shut_writer]);
        ended.inspect_err(|_| _ = self.link.lock().get_or_insert(link))
    }

    /// Ends a connection by what the reader of a channel and the writer of one do at their end.
    fn end_link(
        &self,
        link: &Link,
        reset: bool,
        [die, finish]: [fn(&Channel) -> Result<()>; 2],
    ) -> Result<()> {
        link.arrive();
        if link.outgoing.is_abandoned() {
            die(&link.incoming)?;
            link.end.reset();
            return Ok(());
        }
        let resets = reset || !link.incoming.is_empty();
        if resets {
            link.outgoing.fail(Errno::ECONNRESET);
            mib::add(Event::Reset, false, 1);
        }
        let stays = !link.incoming.is_finished();
        let comes = link.incoming.sending.unsent() > 0 && !link.incoming.sending.is_corked();
        let linger = self.options.value(TCP, LINGER2);
        die(&link.incoming)?;
        finish(&link.outgoing)?;
        if !resets && (stays && linger < 0 || comes) {
            // Nobody is left to wait for the other end's end, or for what it had not sent.
            link.outgoing.fail(Errno::EPIPE);
            link.end.reset();
        } else if resets {
            link.end.reset();
        } else {
            link.end.finish();
            let seconds = match linger {
                0 => connections::FIN_TIMEOUT.load(Relaxed) as u64,
                seconds => seconds.max(0) as u64,
            };
            link.end.leave(seconds, || self.keep_port(link.local.ip()));
        }
        Ok(())
    }

    /// Keeps its port for the end of its connection that waits.
    fn keep_port(&self, ip: IpAddr) -> Option<Kept> {
        match self.kept.get() {
            Some(kept) => kept.waiting().ok(),
            None => self.place.keep(ip),
        }
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
        if self.link().is_some() {
            return Err(Errno::EINVAL);
        }
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        self.place.bind(address, &self.base, how, weak)
    }

    fn listen(self: Arc<Self>, backlog: usize) -> Result<()> {
        let _becoming = self.becoming.lock_killable()?;
        if self.link().is_some() || self.connecting.load(Acquire) {
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
        let fresh = try_arc(Backlog::new(backlog, &self.base.readable)?)?;
        self.place.listen()?;
        self.listener.call_once(|| fresh);
        Ok(())
    }

    fn connect(self: Arc<Self>, address: &Address, wait: &Wait) -> Result<()> {
        if address.is_unspecified() {
            self.stop_listening();
            // A call that connects it just now goes on, and the port is that call's.
            if let Some(_connecting) = self.begin()? {
                self.drop_connection()?;
                self.place.disconnect(true);
            }
            return Ok(());
        }
        let given = address.inet(self.base.domain)?;
        let Some(_connecting) = self.begin_or_wait(wait)? else {
            return Ok(());
        };
        if !self.check_idle()? {
            return Ok(());
        }
        let to = SocketAddr::new(reached(given.ip()), given.port());
        self.place
            .check_family(to.ip(), &self.base, Errno::ENETUNREACH)?;
        let from = source(to.ip())?;
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        let ends = [from, to.ip()];
        let end = self
            .place
            .begin_connection(ends, to.port(), &self.base, how, weak)?;
        let local = end.tuple().local;
        let joined = self.join(end, wait);
        count_connect(&joined);
        match joined {
            Ok(()) => self.place.bind_any_to(local.ip()),
            Err(_) => self.place.disconnect(true),
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
        let mut link = self.link();
        if let Some(error) = self.take_error_of(link.as_deref()) {
            return Err(error);
        }
        if message.flags & MSG_FASTOPEN != 0
            && let Some(to) = &message.to
        {
            self.clone().connect(to, wait)?;
            link = self.link();
        }
        let link = link.ok_or(Errno::EPIPE)?;
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
        let writing = Writing {
            urgent,
            more: message.flags & MSG_MORE != 0 || link.outgoing.sending.is_corked(),
        };
        let asked = self
            .base
            .options
            .stamping
            .of_sent(message.ancillary.header.stamps);
        let (data, ancillary) = (message.data, message.ancillary);
        let written = link.outgoing.write(data, ancillary, writing, wait);
        if link.outgoing.sending.unsent() > 0 {
            link.send_later();
        }
        if let (Some(asked), Ok(1..)) = (asked, &written) {
            self.report_sent(&link, asked);
        }
        link.stir()?;
        match written {
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
            return self.reports.receive(to);
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
            skip: self.base.options.peek_skip(flags),
        };
        let received = match flags & MSG_TRUNC {
            0 => stream::receive(&link.incoming, to, flags, mode, deaf, wait)?,
            _ => stream::discard(&link.incoming, to.left(), flags, mode, deaf, wait)?,
        };
        self.base.options.went_past(flags, received.count);
        Ok(received)
    }

    fn put_header(&self, header: &Header, control: &mut Control) -> Result<()> {
        if let Some(report) = header.report {
            return report.put(control);
        }
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
            link.outgoing.shut_writer()?;
            if !link.end.finish() {
                link.incoming.fail(Errno::ECONNRESET);
            }
            link.stir()?;
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
        let failed = self.error.load(Acquire) != 0 || !self.reports.is_empty();
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
        events.set(Events::ERROR, link.incoming.has_error() || failed);
        let writable = mute || link.outgoing.is_ended() || link.outgoing.is_writable();
        events.set(Events::OUT, writable);
        events
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        if self.is_listening() {
            return Err(Errno::EINVAL);
        }
        let Some(link) = self.link() else {
            return Ok((0, 0));
        };
        // What was sent has arrived, and is acknowledged.
        let unsent = link.outgoing.sending.unsent();
        Ok((link.incoming.first_len()?, unsent))
    }

    fn written(&self) -> [u64; 2] {
        let written = |link: Arc<Link>| {
            // A killed thread needs no answer.
            let bytes = link.outgoing.lock().ok()?;
            Some([bytes.written(), bytes.unsent as u64])
        };
        self.link().and_then(written).unwrap_or_default()
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
        self.waits() + waiting + self.reports.held()
    }

    fn incoming_cpu(&self) -> Option<u32> {
        self.link()?.incoming.cpu()
    }

    fn set_incoming_cpu(&self) {
        if let Some(link) = self.link() {
            link.incoming.forget_cpu();
        }
        self.place.cpu_preference_changed(&self.base);
    }

    fn is_at_mark(&self) -> bool {
        self.link().is_some_and(|link| link.incoming.is_at_mark())
    }

    fn is_listening(&self) -> bool {
        self.listener
            .get()
            .is_some_and(|listener| listener.is_open())
    }

    fn take_error(&self) -> Option<Errno> {
        self.take_error_of(self.link().as_deref())
    }

    fn options_changed(&self) {
        if let Some(link) = self.link() {
            let limit = self.base.options.receive_buffer();
            link.incoming.set_limit(limit);
            let inline = self.base.options.is_on(SO_OOBINLINE);
            link.incoming.set_inline(inline);
            let times = self.base.options.stamping.wants_arrival();
            link.incoming.set_wants_times(times);
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
        self.check_state(level, name, value)?;
        let (base, place) = (&self.base, &self.place);
        self.options.set(base, place, level, name, value)?;
        if level == TCP {
            self.option_changed(name)?;
        }
        Ok(())
    }

    fn state(&self) -> u8 {
        Tcp::state(self)
    }
}

impl Tcp {
    /// EINVAL for an option that only a socket without a connection can set.
    fn check_state(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        let idle = match (level, name) {
            (TCP, FASTOPEN) => self.link().is_none(),
            (TCP, FASTOPEN_CONNECT) => self.state() == CLOSED,
            (TCP, WINDOW_CLAMP) if number(value)? == 0 => self.state() == CLOSED,
            _ => true,
        };
        if idle { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// An option of level TCP was set.
    fn option_changed(&self, name: u32) -> Result<()> {
        let value = self.options.value(TCP, name);
        let Some(link) = self.link() else {
            return Ok(());
        };
        match name {
            CORK => link.outgoing.set_corked(value != 0)?,
            NODELAY if value != 0 => link.outgoing.push()?,
            NOTSENT_LOWAT => link.outgoing.set_low_water(value as u32),
            USER_TIMEOUT => {
                let ns = value as u64 * (clock::SECOND / 1000);
                link.set_patience(time::ns_to_ticks(ns));
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports when what was written last was sent.
    #[cold]
    fn report_sent(&self, link: &Link, asked: Asked) {
        let Ok(written) = link.outgoing.lock().map(|bytes| bytes.written()) else {
            return;
        };
        let sent = Sent {
            asked: self.base.options.stamping.of_bytes(asked, written),
            ends: [link.local, link.peer],
            header: Header::default(),
            packet: None,
        };
        self.reports.push_sent(&self.base, &sent);
        self.base.readable.notify();
    }

    /// The error of the socket, or of its link.
    fn take_error_of(&self, link: Option<&Link>) -> Option<Errno> {
        self.take_own_error()
            .or_else(|| link?.incoming.take_error())
    }

    fn take_own_error(&self) -> Option<Errno> {
        if self.error.load(Acquire) == 0 {
            return None;
        }
        let error = self.error.swap(0, AcqRel);
        (error != 0).then_some(Errno(error as u16))
    }
}

/// A call that connects a socket, until this goes.
struct Connecting<'a>(&'a Tcp);

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.connecting.store(false, Release);
        self.0.base.writable.notify();
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
