//! connect(2): a socket and a new one in the listener's backlog become the two ends of a
//! connection.

use super::link::{Deferred, Later, Link};
use super::outside::{self, Remote};
use super::pending::{DISSOLVED, Pending};
use super::{CORK, DEFER_ACCEPT, HALF_WINDOW, NOTSENT_LOWAT, TCP, Tcp, USER_TIMEOUT};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::net::backlog::Backlog;
use crate::net::channel::{Channel, Kind};
use crate::net::ether::routing;
use crate::net::inet::connections::{End, Port, Tuple};
use crate::net::inet::ports::{self, Holder};
use crate::net::inet::{
    check_device, check_leaving, hears, is_broadcast, leaves, options, reached, source,
};
use crate::net::mib::{self, Event};
use crate::net::socket::Socket;
use crate::net::wait::Wait;
use crate::task::clock;
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::Ordering::*;
use linux_raw_sys::net::*;

impl Tcp {
    /// connect(2) to `given`.
    pub(super) fn connect_to(self: &Arc<Self>, given: SocketAddr, wait: &Wait) -> Result<()> {
        let Some(connecting) = self.begin_or_wait(wait)? else {
            return Ok(());
        };
        if !self.check_idle()? {
            return Ok(());
        }
        let to = SocketAddr::new(reached(given.ip()), given.port());
        self.place
            .check_family(to.ip(), &self.base, Errno::ENETUNREACH)?;
        let from = source(to.ip())?;
        if is_broadcast(to.ip()) {
            return Err(Errno::ENETUNREACH);
        }
        check_device(&self.base, to.ip())?;
        if leaves(to.ip()) {
            return self.connect_outside(to, connecting, wait);
        }
        let weak = Arc::downgrade(self);
        let how = self.options.binding();
        let ends = [from, to.ip()];
        let end = try_arc(
            self.place
                .begin_connection(ends, to.port(), &self.base, how, weak)?,
        )?;
        mib::add(Event::Active, false, 1);
        let local = end.tuple().local.ip();
        let joined = match self.join(&end, !wait.nonblocking) {
            Ok(Some(full)) => match Pending::begin(self, end, full) {
                Ok(()) => {
                    connecting.goes_on();
                    return self.wait_connected(Errno::EINPROGRESS, wait);
                }
                Err(error) => Err(error),
            },
            Ok(None) => Ok(()),
            Err(error) => {
                drop(end);
                Err(error)
            }
        };
        self.joined(local, joined);
        match joined {
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

    /// The two ends of a connection from this socket: its own, and that of a new socket.
    fn connection(&self, other: &Self, [own, others]: [&Arc<End>; 2]) -> Result<[Arc<Link>; 2]> {
        let (there, back) = (other.channel_from(self)?, self.channel_from(other)?);
        let link = |incoming: &Arc<Channel>, outgoing: &Arc<Channel>, end: &Arc<End>| {
            let segment =
                options::segment([&self.options, &other.options], end.tuple().peer.is_ipv6());
            Link::new(end, incoming, outgoing, segment, None)
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

    /// Connects to the listener at the other side of `end`; with `reported`, the caller reports the
    /// connection to the program. Returns the listener's backlog, if that has no room.
    pub(super) fn join(&self, end: &Arc<End>, reported: bool) -> Result<Option<Arc<Backlog<Tcp>>>> {
        let Tuple { local, peer: to } = end.tuple();
        let server = listener(to, local)?;
        let backlog = server.listener.get().ok_or(Errno::ECONNREFUSED)?;
        let full = || {
            mib::add(Event::Refused, false, 1);
            Ok(Some(backlog.clone()))
        };
        if !backlog.may_push() {
            return full();
        }
        let accepted = child(&server, to)?;
        let others = try_arc(End::enter(
            end.tuple().reversed(),
            Port::Listener,
            server.base.domain,
        )?)?;
        let [own, other] = self.connection(&accepted, [end, &others])?;
        own.reported.store(reported, Release);
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
        // A program that is notified of the connection must find this end connected.
        let join = || {
            *accepted.link.lock() = Some(other);
            *self.link.lock() = Some(own);
        };
        if defers {
            join();
        } else {
            match backlog.push(accepted.clone(), false, join) {
                Err(Errno::EAGAIN) => return full(),
                done => done?,
            }
        }
        accepted.option_changed(USER_TIMEOUT)?;
        self.option_changed(USER_TIMEOUT)?;
        Ok(None)
    }

    /// Records the result of connecting from `local`.
    pub(super) fn joined(&self, local: IpAddr, joined: Result<()>) {
        match joined {
            Ok(()) => {
                mib::add(Event::Passive, false, 1);
                self.place.bind_any_to(local);
            }
            Err(_) => {
                mib::add(Event::Failed, false, 1);
                self.place.disconnect(true);
            }
        }
    }

    /// Prevents other calls from connecting it or making it listen; `None` if a call connects it
    /// already.
    pub(super) fn begin(&self) -> Result<Option<Connecting<'_>>> {
        let _becoming = self.becoming.lock_killable()?;
        let begins = !self.connecting.swap(true, AcqRel);
        Ok(begins.then(|| Connecting(self)))
    }

    /// Connects to another machine.
    fn connect_outside(
        self: &Arc<Self>,
        to: SocketAddr,
        connecting: Connecting,
        wait: &Wait,
    ) -> Result<()> {
        if to.ip().is_multicast() || to.port() == 0 {
            return Err(Errno::ENETUNREACH);
        }
        let bound = self.place.local().map(|local| local.ip());
        let bound = bound.filter(|ip| !ip.is_unspecified() && !is_broadcast(*ip));
        let way = routing::find(to.ip(), bound)?;
        check_leaving(way.source, to.ip())?;
        let (weak, how) = (Arc::downgrade(self), self.options.binding());
        let ends = [way.source, to.ip()];
        let base = &self.base;
        let end = try_arc(
            self.place
                .begin_connection(ends, to.port(), base, how, weak)?,
        )?;
        mib::add(Event::Active, false, 1);
        let config = self.config(outside::mss(&way, to.ip()));
        self.place.bind_any_to(end.tuple().local.ip());
        let remote = Remote::connect(self, end, way, &config)
            .inspect_err(|_| self.place.disconnect(true))?;
        *self.opening.lock() = Some(remote.clone());
        connecting.goes_on();
        self.tell_options(&remote)?;
        remote.stir()?;
        self.wait_connected(Errno::EINPROGRESS, wait)
    }

    /// Establishes the connection to another machine.
    pub(super) fn opened(&self, link: Arc<Link>) {
        let mut attempt = self.opening.lock();
        // If there is no attempt, it was cancelled.
        let Some(opening) = attempt.take() else {
            return;
        };
        link.reported.store(false, Release);
        *self.link.lock() = Some(link);
        drop(attempt);
        self.base.writable.lack();
        drop(Connecting::pending(self));
        drop(opening);
    }

    /// The connection to another machine failed with `error`.
    pub(super) fn not_opened(&self, error: Errno) {
        let Some(opening) = self.opening.lock().take() else {
            return;
        };
        mib::add(Event::Failed, false, 1);
        self.place.disconnect(true);
        self.error.store(error.0.into(), Release);
        self.base.writable.lack();
        drop(Connecting::pending(self));
        self.base.readable.notify();
        drop(opening);
    }

    /// Begins to connect, or waits for the call that connects.
    ///
    /// # Errors
    /// EALREADY: the call may not wait so long. Those of [`Self::wait_connected`].
    fn begin_or_wait(&self, wait: &Wait) -> Result<Option<Connecting<'_>>> {
        match self.begin()? {
            Some(begun) => Ok(Some(begun)),
            None => self.wait_connected(Errno::EALREADY, wait).map(|()| None),
        }
    }

    /// Waits for the result of the attempt to connect.
    ///
    /// # Errors
    /// `early`: the call may not wait so long. ECONNABORTED: the attempt failed, and another call
    /// reported the reason.
    fn wait_connected(&self, early: Errno, wait: &Wait) -> Result<()> {
        let done = || !self.connecting.load(Acquire);
        match wait.until(&self.base.writable, done) {
            Err(Errno::EAGAIN) => return Err(early),
            done => done?,
        }
        match self.link() {
            Some(link) => link.reported.store(true, Release),
            None => return Err(self.take_error().unwrap_or(Errno::ECONNABORTED)),
        }
        Ok(())
    }

    /// The connection, after waiting for a pending one.
    pub(super) fn wait_for_link(&self, wait: &Wait) -> Result<Option<Arc<Link>>> {
        if let Some(link) = self.link() {
            return Ok(Some(link));
        }
        if self.is_pending() {
            wait.until(&self.base.writable, || !self.is_pending())?;
            if let Some(error) = self.take_error() {
                return Err(error);
            }
        }
        Ok(self.link())
    }

    /// The result of connect for a socket that is not idle.
    fn check_idle(&self) -> Result<bool> {
        if self.is_listening() {
            return Err(Errno::EISCONN);
        }
        _ = self.error.compare_exchange(DISSOLVED, 0, AcqRel, Relaxed);
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        match self.link() {
            Some(link) if link.reported.swap(true, AcqRel) => Err(Errno::EISCONN),
            Some(_) => Ok(false),
            None => Ok(true),
        }
    }
}

/// The listener at `to` for connections from `local`.
///
/// # Errors
/// ECONNREFUSED: there is none; ENOMEM, EINTR.
pub(super) fn listener(to: SocketAddr, local: SocketAddr) -> Result<Arc<Tcp>> {
    ports::TCP
        .find(
            to,
            local,
            |holder| holder.listens,
            |socket| {
                let base = socket.base();
                hears(base, local.ip()).then(|| base.options.prefers_this_cpu())
            },
        )?
        .and_then(|socket| socket.downcast::<Tcp>())
        .ok_or(Errno::ECONNREFUSED)
}

/// A socket for a connection that `server` accepts at `to`.
pub(super) fn child(server: &Tcp, to: SocketAddr) -> Result<Arc<Tcp>> {
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
    Ok(accepted)
}

/// Marks that a call connects a socket, until this is dropped.
pub(super) struct Connecting<'a>(&'a Tcp);

impl<'a> Connecting<'a> {
    /// The mark for a socket with a pending connection.
    pub(super) fn pending(socket: &'a Tcp) -> Self {
        Connecting(socket)
    }

    /// Keeps the mark: the call is over, but its connection is still pending.
    fn goes_on(self) {
        core::mem::forget(self);
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.connecting.store(false, Release);
        self.0.base.writable.notify();
    }
}
