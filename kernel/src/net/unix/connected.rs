//! Connected Unix sockets: stream and seqpacket.

use super::bound::{Bound, find};
use super::inflight;
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::poll::{Events, PollTable};
use crate::mm::heap::try_arc;
use crate::net::SEQPACKET;
use crate::net::address::{Address, Name};
use crate::net::backlog::Backlog;
use crate::net::channel::{Channel, Kind, Writing};
use crate::net::control_message::{Peer, Sender};
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::stream::{self, ReadMode};
use crate::net::wait::Wait;
use crate::sync::{Mutex, Once, SleepMutex};
use crate::task::sched::cond_resched;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use linux_raw_sys::net::*;

/// The connection, as one of its ends sees it.
struct Link {
    incoming: Arc<Channel>,
    outgoing: Arc<Channel>,
    peer: Arc<Mutex<Name>>,
    peer_credentials: Peer,
}

struct Listener {
    backlog: Backlog<Connected>,
    who: Peer,
}

/// A socket of kind SOCK_STREAM or SOCK_SEQPACKET.
pub struct Connected {
    base: Base,
    bound: Bound,
    link: Once<Link>,
    listener: Once<Arc<Listener>>,
    /// Held while it becomes connected or starts to listen.
    becoming: SleepMutex<()>,
}

impl Connected {
    /// Creates an unconnected socket.
    pub fn new(kind: u32) -> Result<Arc<Self>> {
        Self::named(kind, Name::Unnamed)
    }

    fn named(kind: u32, name: Name) -> Result<Arc<Self>> {
        try_arc(Connected {
            base: Base::new(AF_UNIX, kind, 0)?,
            bound: Bound::new(kind, name)?,
            link: Once::new(),
            listener: Once::new(),
            becoming: SleepMutex::new(()),
        })
    }

    /// Creates two connected sockets.
    pub fn pair(kind: u32) -> Result<[Arc<Self>; 2]> {
        let (a, b) = (Self::new(kind)?, Self::new(kind)?);
        let who = Peer::current();
        let link = a.connect_to(&b, who.clone(), who)?;
        a.link.call_once(|| link);
        Ok([a, b])
    }

    fn is_framed(&self) -> bool {
        self.base.kind == SEQPACKET
    }

    /// A channel that this socket reads and `writer` writes.
    fn channel_from(&self, writer: &Self) -> Result<Arc<Channel>> {
        let limit = writer.base.options.send_buffer();
        let kind = if self.is_framed() {
            Kind::Records
        } else {
            Kind::Stream
        };
        let channel = Channel::new(
            &self.base.reader,
            kind,
            limit,
            &self.base.readable,
            &writer.base.writable,
        )?;
        channel.set_wants_credentials(self.base.options.wants_credentials());
        channel.set_inline(self.base.options.is_on(SO_OOBINLINE));
        channel.filter_changed();
        Ok(channel)
    }

    /// Creates both channels of a connection: `other` gets its end at once, and this socket's end
    /// is returned.
    fn connect_to(&self, other: &Self, own: Peer, others: Peer) -> Result<Link> {
        let (there, back) = (other.channel_from(self)?, self.channel_from(other)?);
        other.link.call_once(|| Link {
            incoming: there.clone(),
            outgoing: back.clone(),
            peer: self.bound.name().clone(),
            peer_credentials: own,
        });
        Ok(Link {
            incoming: back,
            outgoing: there,
            peer: other.bound.name().clone(),
            peer_credentials: others,
        })
    }

    /// The connection was accepted, or never will be.
    fn leave_backlog(&self) {
        if let Some(link) = self.link.get() {
            link.incoming.leave_backlog();
        }
    }

    fn link(&self) -> Result<&Link> {
        self.link.get().ok_or(Errno::ENOTCONN)
    }

    /// Ends the connection as if nothing had arrived.
    fn refuse(&self) {
        if let Some(link) = self.link.get() {
            link.outgoing.fail(Errno::ECONNRESET);
        }
    }
}

impl Socket for Connected {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        let weak = Arc::downgrade(&self);
        self.bound.bind(address, weak, self.base.permissions())
    }

    fn listen(self: Arc<Self>, backlog: usize) -> Result<()> {
        if !self.bound.is_named() || self.link.get().is_some() {
            return Err(Errno::EINVAL);
        }
        let becoming = self.becoming.lock();
        if let Some(listener) = self.listener.get() {
            listener.backlog.set_max(backlog);
            return Ok(());
        }
        let listener = try_arc(Listener {
            backlog: Backlog::new(backlog, &self.base.readable)?,
            who: Peer::current(),
        })?;
        self.listener.call_once(|| listener);
        drop(becoming);
        self.base.readable.notify();
        Ok(())
    }

    fn connect(self: Arc<Self>, address: &Address, wait: &Wait) -> Result<()> {
        let server = find(address, self.base.kind)?
            .downcast::<Connected>()
            .filter(|server| server.base.kind == self.base.kind)
            .ok_or(Errno::EPROTOTYPE)?;
        if self.listener.get().is_some() {
            return Err(Errno::EINVAL);
        }
        if self.link.get().is_some() {
            return Err(Errno::EISCONN);
        }
        let listener = server.listener.get().ok_or(Errno::ECONNREFUSED)?.clone();
        // While it waits for room, it holds no reference to the listener.
        let listening = Arc::downgrade(&server);
        drop(server);
        if self.base.options.wants_credentials() {
            let weak = Arc::downgrade(&self);
            self.bound.bind_anywhere(weak)?;
        }
        let own = Peer::current();
        loop {
            listener.backlog.wait_for_room(wait)?;
            let server = listening.upgrade().ok_or(Errno::ECONNREFUSED)?;
            let becoming = self.becoming.lock();
            if self.link.get().is_some() {
                return Err(Errno::EISCONN);
            }
            let name = server.bound.name().lock().clone();
            let accepted = Connected::named(self.base.kind, name)?;
            accepted.base.options.inherit_passed(&server.base.options);
            // The connection is complete before it can be accepted; if there is no room any more,
            // the caller tries again.
            let link = self.connect_to(&accepted, own.clone(), listener.who.clone())?;
            link.outgoing.enter_backlog(server.base.number);
            match listener.backlog.push(accepted, false, || ()) {
                Err(Errno::EAGAIN) if !wait.nonblocking => continue,
                done => done?,
            }
            self.link.call_once(|| link);
            drop(becoming);
            self.base.writable.notify();
            return Ok(());
        }
    }

    fn accept(&self, wait: &Wait) -> Result<Arc<dyn Socket>> {
        let listener = self.listener.get().ok_or(Errno::EINVAL)?;
        let accepted = listener.backlog.accept(wait)?;
        accepted.leave_backlog();
        Ok(accepted)
    }

    fn name(&self) -> Name {
        self.bound.name().lock().clone()
    }

    fn peer(&self) -> Result<Name> {
        Ok(self.link()?.peer.lock().clone())
    }

    fn send(self: Arc<Self>, message: Outgoing, wait: &Wait) -> Result<usize> {
        let urgent = message.flags & MSG_OOB != 0;
        if self.is_framed() {
            // As on Linux, only for records.
            if let Some(error) = self.take_error() {
                return Err(error);
            }
            if urgent {
                return Err(Errno::EOPNOTSUPP);
            }
        }
        if message.to.is_some() && !self.is_framed() {
            let connected = self.link.get().is_some();
            return Err(if connected {
                Errno::EISCONN
            } else {
                Errno::EOPNOTSUPP
            });
        }
        let link = self.link()?;
        let channel = &link.outgoing;
        let mut ancillary = message.ancillary;
        if channel.wants_credentials() || self.base.options.wants_credentials() {
            ancillary
                .credentials
                .get_or_insert_with(|| Sender::current(false));
        }
        if let Some(rights) = &mut ancillary.rights {
            rights.enter(channel)?;
        }
        if self.is_framed() {
            if message.data.left() > channel.limit() {
                return Err(Errno::EMSGSIZE);
            }
            return channel.write_record(message.data, ancillary, Name::Unnamed, usize::MAX, wait);
        }
        let writing = Writing {
            urgent,
            more: false,
        };
        channel.write(message.data, ancillary, writing, wait)
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 && self.is_framed() {
            return Err(Errno::EOPNOTSUPP);
        }
        let link = self.link.get().ok_or(if self.is_framed() {
            Errno::ENOTCONN
        } else {
            Errno::EINVAL
        })?;
        if flags & MSG_OOB != 0 {
            return link.incoming.receive_urgent(to, flags);
        }
        let credentials = self.base.options.wants_credentials();
        let mode = ReadMode {
            credentials,
            low_water: self.base.options.low_water(),
            peeks_wait: false,
            skip: self.base.options.peek_skip(flags),
        };
        let mut received = stream::receive(&link.incoming, to, flags, mode, || false, wait)?;
        let went = match flags & MSG_PEEK {
            0 if self.is_framed() => received.found.whole,
            _ if self.is_framed() => received.found.count,
            _ => received.count,
        };
        self.base.options.went_past(flags, went);
        if received.count > 0 {
            received.found.from = link.peer.lock().clone();
        }
        if credentials {
            let sender = &mut received.found.ancillary.credentials;
            sender.get_or_insert(Sender::UNKNOWN);
        } else {
            received.found.ancillary.credentials = None;
        }
        Ok(received)
    }

    fn discard_rights(&self) {
        if let Some(listener) = self.listener.get() {
            listener.backlog.each(|waiting| waiting.discard_rights());
        }
        if let Some(link) = self.link.get() {
            link.incoming.discard_rights();
        }
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        if let Some(listener) = self.listener.get() {
            if read {
                refuse_all(listener.backlog.close());
            }
            return Ok(());
        }
        let Some(link) = self.link.get() else {
            return Ok(());
        };
        if read {
            link.incoming.shut_reader();
        }
        if write {
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
        if let Some(listener) = self.listener.get() {
            events.set(Events::IN, listener.backlog.is_ready());
            return events;
        }
        let Some(link) = self.link.get() else {
            return Events::ROOM | Events::HANG_UP;
        };
        let ended = link.incoming.is_ended();
        events.set(Events::IN, !link.incoming.is_empty() || ended);
        events.set(Events::PRIORITY, link.incoming.is_urgent());
        events.set(Events::READ_HANG_UP, ended);
        events.set(Events::HANG_UP, ended && link.outgoing.is_ended());
        events.set(Events::ERROR, link.incoming.has_error());
        events.set(
            Events::ROOM,
            link.outgoing.is_ended() || link.outgoing.is_writable(),
        );
        events
    }

    fn backlog(&self) -> Option<(usize, usize)> {
        self.listener
            .get()
            .map(|listener| listener.backlog.counts())
    }

    fn peer_number(&self) -> Option<u64> {
        self.link.get().map(|link| link.outgoing.owner())
    }

    fn held(&self) -> usize {
        let link = |one: &Self| one.link.get().map_or(0, |link| link.incoming.held());
        let waiting = self
            .listener
            .get()
            .map_or(0, |listener| listener.backlog.sum(link));
        link(self) + waiting
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        if self.is_listening() {
            return Err(Errno::EINVAL);
        }
        let Some(link) = self.link.get() else {
            return Ok((0, 0));
        };
        Ok((link.incoming.first_len()?, link.outgoing.waiting_bytes()))
    }

    fn is_at_mark(&self) -> bool {
        let link = self.link.get();
        link.is_some_and(|link| link.incoming.is_at_mark())
    }

    fn is_listening(&self) -> bool {
        self.listener.get().is_some()
    }

    fn take_error(&self) -> Option<Errno> {
        self.link.get()?.incoming.take_error()
    }

    fn peer_credentials(&self) -> Option<Peer> {
        match (self.link.get(), self.listener.get()) {
            (Some(link), _) => Some(link.peer_credentials.clone()),
            (None, Some(listener)) => Some(listener.who.clone()),
            _ => None,
        }
    }

    fn options_changed(&self) {
        let Some(link) = self.link.get() else { return };
        let options = &self.base.options;
        link.outgoing.set_limit(options.send_buffer());
        link.incoming.filter_changed();
        link.incoming.set_inline(options.is_on(SO_OOBINLINE));
        link.incoming
            .set_wants_credentials(options.wants_credentials());
    }
}

/// Refuses the connections that waited to be accepted.
fn refuse_all(waiting: VecDeque<Arc<Connected>>) {
    for one in waiting {
        one.refuse();
        drop(one);
        cond_resched();
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            refuse_all(listener.backlog.close());
        }
        if let Some(link) = self.link.get() {
            if !link.incoming.is_empty() {
                link.outgoing.fail(Errno::ECONNRESET);
            }
            link.incoming.die();
            link.outgoing.finish();
        }
        self.leave_backlog();
        inflight::closed();
    }
}
