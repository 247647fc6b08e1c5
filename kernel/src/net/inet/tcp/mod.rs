//! TCP sockets. Connecting them is in `connect`, ending a connection in `close`.

mod close;
mod connect;
mod link;
mod outside;
mod pending;
mod settings;

use outside::{Door, Remote};
pub use outside::{MOST_ORPHANS, expire, init, orphans, receive, report};

use link::Link;
use pending::Pending;

use super::Header;
use super::bind::Place;
use super::errors::{Errors, Sent};
use super::options::{LINGER2, MAXSEG, Options};
use super::ports::{self, Kept};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::poll::{Events, PollTable};
use crate::mm::heap::try_arc;
use crate::net::STREAM;
use crate::net::address::{Address, Name, unspecified};
use crate::net::backlog::Backlog;
use crate::net::channel::{Found, Writing};
use crate::net::control_message::Control;
use crate::net::options::{bytes, number};
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::stream::{self, ReadMode};
use crate::net::timestamping::Asked;
use crate::net::wait::Wait;
use crate::sync::{Mutex, Once, SleepMutex};
use crate::task::clock;
use ::tcp::Connection;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use linux_raw_sys::net::*;
use zerocopy::IntoBytes;

/// States as shown in /proc/net/tcp and TCP_INFO.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const FIN_WAIT: u8 = 5;
const CLOSE_WAIT: u8 = 8;
/// The states in which nothing is sent.
pub const CLOSED: u8 = 7;
pub const LISTENS: u8 = 10;

/// The level of TCP's options, and some of them.
const TCP: u32 = IPPROTO_TCP as u32;
const NODELAY: u32 = 1;
/// TCP_SYNCNT
const SYN_COUNT: u32 = 7;
const CORK: u32 = 3;
const WINDOW_CLAMP: u32 = 10;
const USER_TIMEOUT: u32 = 18;
const FASTOPEN: u32 = 23;
const NOTSENT_LOWAT: u32 = 25;
const FASTOPEN_CONNECT: u32 = 30;
const INQ: u32 = 36;
/// TCP_DEFER_ACCEPT
const DEFER_ACCEPT: u32 = 9;
/// Connects and sends in one call (`include/linux/socket.h`).
const MSG_FASTOPEN: u32 = 0x2000_0000;
/// The buffer sizes of a new socket (`net.ipv4.tcp_wmem`, `net.ipv4.tcp_rmem`).
const SEND_BUFFER: u32 = 16384;
const RECEIVE_BUFFER: u32 = 131_072;
/// Half of a connection's initial window: this many bytes are a whole segment.
const HALF_WINDOW: usize = 32768;

/// A TCP socket.
pub struct Tcp {
    base: Base,
    place: Place,
    options: Options,
    link: Mutex<Option<Arc<Link>>>,
    listener: Once<Arc<Backlog<Tcp>>>,
    /// Held while the socket becomes connected or starts to listen.
    becoming: SleepMutex<()>,
    /// Whether a call connects it.
    connecting: AtomicBool,
    /// A connection that waits for room in a listener's queue.
    pending: Mutex<Option<Arc<Pending>>>,
    /// A connection to another machine that is being established.
    opening: Mutex<Option<Arc<Remote>>>,
    /// Its face to other machines, if it listens.
    door: Once<Arc<Door>>,
    /// The port of an accepted connection.
    kept: Once<Kept>,
    /// The error of a failed connection; 0 for none.
    error: AtomicU32,
    /// Reports of the times at which bytes were sent.
    reports: Errors,
}

impl Tcp {
    /// Creates an unconnected socket.
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
            pending: Mutex::new(None),
            opening: Mutex::new(None),
            door: Once::new(),
            kept: Once::new(),
            error: AtomicU32::new(0),
            reports: Errors::new(),
        })
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().clone()
    }

    /// The memory of its connection in bytes.
    fn waits(&self) -> usize {
        let link = self.link.lock();
        link.as_ref().map_or(0, |link| {
            let outside = |remote: &Arc<Remote>| link.outgoing.held() + remote.held();
            link.incoming.held() + link.remote.as_ref().map_or(0, outside)
        })
    }

    fn state(&self) -> u8 {
        if self.is_listening() {
            return LISTENS;
        }
        match self.link() {
            None if self.is_pending() => SYN_SENT,
            None => CLOSED,
            Some(link) if link.remote.is_some() => {
                link.remote.as_ref().map_or(CLOSED, |remote| remote.state())
            }
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
        let known = self.listener.get();
        if let Some(listener) = known.filter(|listener| listener.is_open()) {
            listener.set_max(backlog);
            return Ok(());
        }
        let any = unspecified(self.base.domain);
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        self.place.claim_any(any, &self.base, how, weak)?;
        if let Some(listener) = known {
            self.place.listen()?;
            listener.reopen(backlog);
            return Ok(());
        }
        let fresh = try_arc(Backlog::new(backlog, &self.base.readable)?)?;
        self.place.listen()?;
        self.listener.call_once(|| fresh);
        Ok(())
    }

    fn connect(self: Arc<Self>, address: &Address, wait: &Wait) -> Result<()> {
        if address.is_unspecified() {
            self.stop_listening();
            self.cancel_pending();
            // If a call is just connecting it, that call continues, and owns the port.
            if let Some(_connecting) = self.begin()? {
                self.drop_connection()?;
                self.place.disconnect(true);
            }
            return Ok(());
        }
        self.connect_to(address.inet(self.base.domain)?, wait)
    }

    fn accept(&self, wait: &Wait) -> Result<Arc<dyn Socket>> {
        let accepted = self.listener.get().ok_or(Errno::EINVAL)?.accept(wait)?;
        if let Some(door) = self.door.get()
            && accepted.link().is_some_and(|link| link.remote.is_some())
        {
            door.taken();
        }
        Ok(accepted)
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

    fn destination(&self) -> Name {
        let opening = || Some(self.opening.lock().as_ref()?.end().tuple().peer);
        let pending = || opening().or_else(|| Some(self.pending.lock().as_ref()?.tuple.peer));
        let peer = self.link().map(|link| link.peer).or_else(pending);
        peer.map_or(Name::Unnamed, Name::Inet)
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
        if link.is_none() {
            link = self.wait_for_link(wait)?;
        }
        let link = link.ok_or(Errno::EPIPE)?;
        let urgent = message.flags & MSG_OOB != 0;
        if link.writes_no_more() {
            return Err(Errno::EPIPE);
        }
        if link.outgoing.is_dead() {
            // The first data sent to a closed end makes that reply with a reset.
            link.broken.store(true, Release);
            self.base.readable.notify();
            message.data.truncate(link.outgoing.limit());
            return message.data.discard();
        }
        if message.data.left() > 0 && !link.arrive() {
            // As on Linux, the reply that there is no reader comes later.
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
        let link = self.wait_for_link(wait)?.ok_or(Errno::ENOTCONN)?;
        let deaf = || link.deaf.load(Acquire);
        let mode = ReadMode {
            credentials: false,
            low_water: self.base.options.low_water(),
            peeks_wait: true,
            skip: self.base.options.peek_skip(flags),
        };
        if let Some(remote) = &link.remote {
            return self.receive_outside(&link, remote, to, flags, mode, wait);
        }
        let received = match flags & MSG_TRUNC {
            0 => stream::receive(&link.incoming, to, flags, mode, deaf, wait)?,
            _ => stream::discard(&link.incoming, to.left(), flags, mode, deaf, wait)?,
        };
        self.base.options.went_past(flags, received.count);
        Ok(received)
    }

    fn put_header(&self, found: &Found, control: &mut Control) -> Result<()> {
        if let Some(report) = found.ancillary.header.report {
            return report.put(control);
        }
        if self.options.is_on(TCP, INQ)
            && let Some(link) = self.link()
        {
            let left = link.incoming.waiting_bytes();
            let reported = left.max(link.reads_no_more().into());
            control.put(TCP, INQ, (reported as u32).as_bytes())?;
        }
        Ok(())
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        if self.is_listening() {
            if read {
                self.stop_listening();
                self.place.disconnect(true);
            }
            return Ok(());
        }
        if self.cancel_pending() {
            return Ok(());
        }
        let link = self.link().ok_or(Errno::ENOTCONN)?;
        if link.reads_no_more() && link.writes_no_more() {
            return Err(Errno::ENOTCONN);
        }
        if read {
            link.deaf.store(true, Release);
            self.base.readable.notify();
            if let Some(remote) = &link.remote {
                remote.change(Connection::stop_reading)?;
            }
        }
        if write {
            link.arrive();
            link.outgoing.shut_writer()?;
            if let Some(remote) = &link.remote {
                return remote.shutdown();
            }
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
        // A notified program may connect at once, which fails while another call connects.
        if self.connecting.load(Acquire) {
            return Events::empty();
        }
        let failed = self.error.load(Acquire) != 0 || !self.reports.is_empty();
        let Some(link) = self.link() else {
            let ended = Events::IN | Events::READ_HANG_UP | Events::ERROR;
            let reported = if failed { ended } else { Events::empty() };
            return Events::OUT | Events::HANG_UP | reported;
        };
        let (deaf, mute) = (link.reads_no_more(), link.writes_no_more());
        let enough = link.incoming.has_enough(self.base.options.low_water())
            || link.remote.as_ref().is_some_and(|remote| remote.is_full());
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
        // All bytes sent have arrived, and are acknowledged.
        let unsent = match &link.remote {
            Some(_) => link.outgoing.used(),
            None => link.outgoing.sending.unsent(),
        };
        Ok((link.incoming.first_len()?, unsent))
    }

    fn written(&self) -> [u64; 2] {
        let written = |link: Arc<Link>| {
            // A killed thread needs no result.
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

    fn closing(&self) {
        self.linger();
    }

    fn take_error(&self) -> Option<Errno> {
        self.take_error_of(self.link().as_deref())
    }

    fn options_changed(&self) {
        if let Some(remote) = self.remote() {
            self.base_options_changed(&remote);
            self.base.readable.notify();
        } else if let Some(link) = self.link() {
            link.incoming.set_limit(self.base.options.receive_buffer());
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
    /// EINVAL for an option that can only be set without a connection.
    fn check_state(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        let idle = match (level, name) {
            (TCP, FASTOPEN) => self.link().is_none(),
            (TCP, FASTOPEN_CONNECT) => self.state() == CLOSED,
            (TCP, WINDOW_CLAMP) if number(value)? == 0 => self.state() == CLOSED,
            _ => true,
        };
        if idle { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Applies an option of level TCP that was set.
    fn option_changed(&self, name: u32) -> Result<()> {
        if let Some(remote) = self.remote() {
            return self.tell_option(&remote, name);
        }
        let value = self.options.value(TCP, name);
        let Some(link) = self.link() else {
            let pending = self.pending.lock().clone();
            return match name {
                SYN_COUNT | USER_TIMEOUT => pending.map_or(Ok(()), |pending| pending.arm(self)),
                _ => Ok(()),
            };
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

    /// Reports the time at which the last written bytes were sent.
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
