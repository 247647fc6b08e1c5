//! Unix datagram sockets.

use super::bound::{Bound, find};
use super::inflight;
use super::sent::Sent;
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::new_anonymous_number;
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::mm::heap::try_arc;
use crate::net::DATAGRAM;
use crate::net::address::{Address, Name};
use crate::net::channel::{Channel, Found, Kind, Reading};
use crate::net::control_message::{Peer, Sender};
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::wait::Wait;
use crate::sync::{Mutex, Once};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use linux_raw_sys::net::*;

/// The number of messages, minus one, that may wait at a new socket before a sender has to wait
/// (`net.unix.max_dgram_qlen`).
pub static QUEUE: AtomicUsize = AtomicUsize::new(10);

/// The inbox to which others send.
struct Inbox {
    channel: Arc<Channel>,
    name: Arc<Mutex<Name>>,
    /// Its identity, and that of the only sender from which it accepts messages (0: from all).
    identity: u64,
    only: AtomicU64,
    /// The maximum number of waiting messages.
    most: usize,
    /// A pending error for its owner; 0 for none.
    error: AtomicU32,
}

impl Inbox {
    fn fail(&self, error: Errno) {
        self.error.store(error.0.into(), Release);
        self.channel.readable().notify();
    }

    fn take_error(&self) -> Option<Errno> {
        let error = self.error.swap(0, AcqRel);
        (error != 0).then_some(Errno(error as u16))
    }

    /// Waits for the next message; `None` at the end.
    fn receive(&self, to: &mut Sink, reading: Reading, wait: &Wait) -> Result<Option<Found>> {
        let look = |to: &mut Sink| match self.take_error() {
            Some(error) => Err(error),
            None => self.channel.read(to, reading),
        };
        if let Some(found) = look(to)? {
            return Ok(Some(found));
        }
        let next = loop {
            if self.channel.is_ended() {
                break Ok(None);
            }
            let waited = wait.until(self.channel.readable(), || {
                self.channel.has_data_after(reading.skip)
                    || self.channel.is_ended()
                    || self.error.load(Acquire) != 0
            });
            match waited.and_then(|()| look(to)) {
                Ok(None) => {}
                next => break next,
            }
        };
        if next.is_err() {
            self.channel.wake_next_receiver();
        }
        next
    }
}

/// A socket of kind SOCK_DGRAM.
pub struct Datagram {
    base: Base,
    bound: Bound,
    inbox: Arc<Inbox>,
    sent: Arc<Sent>,
    peer: Mutex<Option<Arc<Inbox>>>,
    /// Whether the socket no longer sends.
    finished: AtomicBool,
    /// The credentials of its creator, if it is one of a pair.
    creator: Once<Peer>,
}

impl Datagram {
    /// Creates an unconnected socket.
    pub fn new() -> Result<Arc<Self>> {
        let base = Base::new(AF_UNIX, DATAGRAM, 0)?;
        let bound = Bound::new(DATAGRAM, Name::Unnamed)?;
        // It may have many senders, so the room in its queue has a source of its own.
        let room = WaitSource::new()?;
        let limit = base.options.receive_buffer();
        let channel = Channel::new(&base.reader, Kind::Records, limit, &base.readable, &room)?;
        let inbox = try_arc(Inbox {
            channel,
            name: bound.name().clone(),
            identity: new_anonymous_number(),
            only: AtomicU64::new(0),
            most: QUEUE.load(Relaxed) + 1,
            error: AtomicU32::new(0),
        })?;
        try_arc(Datagram {
            sent: try_arc(Sent::new(&base.writable))?,
            base,
            bound,
            inbox,
            peer: Mutex::new(None),
            finished: AtomicBool::new(false),
            creator: Once::new(),
        })
    }

    /// Creates two connected sockets.
    pub fn pair() -> Result<[Arc<Self>; 2]> {
        let (a, b) = (Self::new()?, Self::new()?);
        a.set_peer(Some(b.inbox.clone()))?;
        b.set_peer(Some(a.inbox.clone()))?;
        let creator = Peer::current();
        a.creator.call_once(|| creator.clone());
        b.creator.call_once(|| creator);
        Ok([a, b])
    }

    fn set_peer(&self, peer: Option<Arc<Inbox>>) -> Result<()> {
        let only = peer.as_ref().map_or(0, |peer| peer.identity);
        self.inbox.only.store(only, Release);
        let old = core::mem::replace(&mut *self.peer.lock(), peer);
        self.base.writable.notify();
        if let Some(old) = old
            && old.identity != only
        {
            self.disconnect_from(&old)?;
        }
        Ok(())
    }

    /// Drops the waiting messages of a peer, and reports that to the peer if it is connected to
    /// this socket (Linux's `unix_dgram_disconnected`).
    fn disconnect_from(&self, peer: &Inbox) -> Result<()> {
        let channel = &self.inbox.channel;
        if channel.records() == 0 {
            return Ok(());
        }
        channel.purge()?;
        channel.writable().notify();
        if !peer.channel.is_dead() && peer.only.load(Acquire) == self.inbox.identity {
            peer.fail(Errno::ECONNRESET);
        }
        Ok(())
    }

    fn find(&self, address: &Address) -> Result<Arc<Inbox>> {
        let other = find(address, DATAGRAM)?
            .downcast::<Datagram>()
            .ok_or(Errno::EPROTOTYPE)?;
        Ok(other.inbox.clone())
    }

    /// The maximum number of messages that may wait at `to`: the ends of a pair are only limited by
    /// their buffers.
    fn most_at(&self, to: &Inbox) -> usize {
        if to.only.load(Acquire) == self.inbox.identity {
            usize::MAX
        } else {
            to.most
        }
    }

    /// Waits until the buffer has room for one more message.
    fn wait_for_room(&self, wait: &Wait) -> Result<()> {
        let finished = || self.finished.load(Acquire);
        let has_room = || self.sent.bytes() < self.base.options.send_buffer();
        if !has_room() {
            self.base.writable.lack();
            wait.until(&self.base.writable, || has_room() || finished())?;
        }
        if finished() {
            Err(Errno::EPIPE)
        } else {
            Ok(())
        }
    }

    fn may_send(&self, to: &Inbox) -> Result<()> {
        let only = to.only.load(Acquire);
        if only == 0 || only == self.inbox.identity {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }
}

impl Socket for Datagram {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        let weak = Arc::downgrade(&self);
        self.bound.bind(address, weak, self.base.permissions())
    }

    fn connect(self: Arc<Self>, address: &Address, _wait: &Wait) -> Result<()> {
        if address.is_unspecified() {
            self.set_peer(None)?;
            return Ok(());
        }
        let inbox = self.find(address)?;
        self.may_send(&inbox)?;
        self.set_peer(Some(inbox))?;
        Ok(())
    }

    fn name(&self) -> Name {
        self.bound.name().lock().clone()
    }

    fn peer(&self) -> Result<Name> {
        let peer = self.peer.lock().clone().ok_or(Errno::ENOTCONN)?;
        let name = peer.name.lock().clone();
        Ok(name)
    }

    fn send(self: Arc<Self>, message: Outgoing, wait: &Wait) -> Result<usize> {
        if message.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if message.data.left() > self.base.options.send_buffer().saturating_sub(32) {
            return Err(Errno::EMSGSIZE);
        }
        let connected = self.peer.lock().clone();
        let to = match &message.to {
            Some(address) => self.find(address)?,
            None => connected.clone().ok_or(Errno::ENOTCONN)?,
        };
        self.wait_for_room(wait)?;
        self.may_send(&to)?;
        let mut ancillary = message.ancillary;
        ancillary.charge = Some(self.sent.charge(message.data.left()));
        if to.channel.wants_credentials() || self.base.options.wants_credentials() {
            ancillary
                .credentials
                .get_or_insert_with(|| Sender::current(false));
        }
        if let Some(rights) = &mut ancillary.rights {
            rights.enter(&to.channel)?;
        }
        let sender = self.bound.name().lock().clone();
        let most = self.most_at(&to);
        let sent = to
            .channel
            .write_record(message.data, ancillary, sender, most, wait);
        if sent == Err(Errno::EPIPE) && to.channel.is_dead() {
            if connected.is_some_and(|peer| Arc::ptr_eq(&peer, &to)) {
                self.set_peer(None)?;
            }
            return Err(Errno::ECONNREFUSED);
        }
        sent
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let credentials = self.base.options.wants_credentials();
        let reading = Reading {
            peek: flags & MSG_PEEK != 0,
            skip: self.base.options.peek_skip(flags),
            credentials,
        };
        let Some(mut found) = self.inbox.receive(to, reading, wait)? else {
            return Ok(Received::default());
        };
        if credentials {
            let sender = &mut found.ancillary.credentials;
            sender.get_or_insert(Sender::UNKNOWN);
        } else {
            found.ancillary.credentials = None;
        }
        let went = if reading.peek {
            found.count
        } else {
            found.whole
        };
        self.base.options.went_past(flags, went);
        let cut = found.whole > found.count;
        let whole = flags & MSG_TRUNC != 0;
        Ok(Received {
            count: if whole { found.whole } else { found.count },
            flags: if cut { MSG_TRUNC } else { 0 },
            found,
        })
    }

    fn discard_rights(&self) {
        self.inbox.channel.discard_rights();
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        if read {
            self.inbox.channel.shut_reader();
        }
        if write {
            self.finished.store(true, Release);
            self.base.writable.notify();
        }
        Ok(())
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        let peer = self.peer.lock().clone();
        if let Some(table) = table {
            table.add(&self.base.readable);
            table.add(&self.base.writable);
            if let Some(peer) = &peer {
                table.add(peer.channel.writable());
            }
        }
        let channel = &self.inbox.channel;
        let (ended, finished) = (channel.is_ended(), self.finished.load(Acquire));
        let mut events = Events::empty();
        events.set(Events::IN, channel.has_data() || ended);
        events.set(Events::READ_HANG_UP, ended);
        events.set(Events::HANG_UP, ended && finished);
        events.set(Events::ERROR, self.inbox.error.load(Acquire) != 0);
        let room = peer.is_none_or(|peer| {
            let few = peer.channel.records() < self.most_at(&peer);
            peer.channel.is_ended() || few && peer.channel.is_writable()
        });
        let little = self.sent.bytes() * 4 <= self.base.options.send_buffer();
        events.set(Events::ROOM, room && little);
        events
    }

    fn held(&self) -> usize {
        self.inbox.channel.held()
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        Ok((self.inbox.channel.first_len()?, self.sent.bytes()))
    }

    fn take_error(&self) -> Option<Errno> {
        self.inbox.take_error()
    }

    fn peer_credentials(&self) -> Option<Peer> {
        self.creator.get().cloned()
    }

    fn options_changed(&self) {
        let (options, channel) = (&self.base.options, &self.inbox.channel);
        channel.set_wants_credentials(options.wants_credentials());
        channel.filter_changed();
        self.base.writable.notify();
        // As on Linux, SO_TIMESTAMPING alone has no effect here.
        channel.set_wants_times(options.stamping.asks_arrival());
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        self.inbox.channel.die();
        inflight::closed();
    }
}
