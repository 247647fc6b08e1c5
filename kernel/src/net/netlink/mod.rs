//! Netlink: programs read the interfaces and their addresses (NETLINK_ROUTE) and the list of
//! sockets (NETLINK_SOCK_DIAG), and wait for devices to appear and disappear
//! (NETLINK_KOBJECT_UEVENT), which none does. Administrators send messages to other sockets, and to
//! multicast groups.

mod attributes;
mod cards;
mod diag;
mod link;
mod options;
mod port;
mod reply;
mod route;

use diag::Dump;
use options::Options;
pub use options::{LIST_MEMBERSHIPS, SOL_NETLINK};
use port::Claim;
use reply::{ACKNOWLEDGE, Acknowledgement, DUMP, HEADER, Header, LEAST, REQUEST, Reply};

use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::mm::heap::try_arc;
use crate::net::address::{Address, Name};
use crate::net::channel::{Channel, Found, Kind, MAX_LIMIT};
use crate::net::control_message::{Ancillary, Control, Sender};
use crate::net::socket::{Base, Outgoing, Received, Socket, SocketFile, copied};
use crate::net::stream::{self, ReadMode};
use crate::net::wait::Wait;
use crate::net::{DATAGRAM, RAW, socket_table};
use crate::sync::{Mutex, Once, SleepMutex};
use crate::task::require;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use linux_raw_sys::general::{CAP_NET_ADMIN, CAP_SYS_ADMIN};
use linux_raw_sys::net::{AF_NETLINK, MSG_OOB};
use zerocopy::{FromBytes, IntoBytes};

/// The protocols.
const ROUTE: u32 = 0;
const DIAG: u32 = 4;
const UEVENT: u32 = 15;
/// The maximum size of the requests in one message.
const MAX_REQUEST: usize = 4096;
/// The overhead that Linux subtracts from the buffer of sent messages (`netlink_sendmsg`).
const RESERVED: usize = 32;

/// The destination of messages: the port of a socket, or 0 for the kernel; and the number of a
/// group, whose members get copies, or 0 for none.
#[derive(Clone, Copy, Default)]
struct Destination {
    port: u32,
    group: u32,
}

impl Destination {
    /// The address of this destination.
    fn name(self) -> Name {
        let groups = self.group.checked_sub(1).map_or(0, |bit| 1 << bit);
        Name::Netlink(self.port, groups)
    }
}

/// A netlink socket.
pub struct Netlink {
    base: Base,
    options: Options,
    inbox: Arc<Channel>,
    /// Its port, once it has one.
    port: Once<Claim>,
    /// The destination to which it is connected.
    peer: Mutex<Option<Destination>>,
    /// A dump that continues as it is read, and the request that it answers.
    dump: SleepMutex<Option<(Dump, Header)>>,
}

/// Creates a socket.
pub fn new(kind: u32, protocol: u32) -> Result<Arc<dyn Socket>> {
    if !matches!(kind, DATAGRAM | RAW) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    if !matches!(protocol, ROUTE | DIAG | UEVENT) {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let base = Base::new(AF_NETLINK, kind, protocol)?;
    let room = WaitSource::new()?;
    let limit = base.options.receive_buffer();
    let inbox = Channel::new(&base.reader, Kind::Records, limit, &base.readable, &room)?;
    Ok(try_arc(Netlink {
        base,
        options: Options::default(),
        inbox,
        port: Once::new(),
        peer: Mutex::new(None),
        dump: SleepMutex::new(None),
    })?)
}

/// Queues `bytes` in a netlink socket, for its owner to receive.
///
/// # Errors
/// ENOTSOCK, EINVAL: it is not one; ENOBUFS.
pub fn notify(file: &File, bytes: &[u8]) -> Result<()> {
    of(file)?.post(bytes)
}

/// The netlink socket of an open file; ENOTSOCK or EINVAL.
fn of(file: &File) -> Result<Arc<Netlink>> {
    let file = file.ops_as::<SocketFile>().ok_or(Errno::ENOTSOCK)?;
    let socket: Arc<dyn Any + Send + Sync> = file.socket().clone();
    socket.downcast().map_err(|_| Errno::EINVAL)
}

/// Checks that an open file can receive messages; ENOTSOCK or EINVAL.
pub fn check(file: &File) -> Result<()> {
    of(file).map(|_| ())
}

impl Netlink {
    /// The port; if it has none, it gets one.
    ///
    /// # Errors
    /// ENOMEM.
    fn port(self: &Arc<Self>) -> Result<u32> {
        Ok(self.port.try_call_once(|| Claim::any(self))?.port)
    }

    /// The port, or 0 while it has none.
    fn own_port(&self) -> u32 {
        self.port.get().map_or(0, |claim| claim.port)
    }

    /// Claims this port, or any for 0.
    fn take_port(self: &Arc<Self>, port: u32) -> Result<()> {
        if let Some(claim) = self.port.get() {
            return match claim.port == port {
                true => Ok(()),
                false => Err(Errno::EINVAL),
            };
        }
        if port == 0 {
            return self.port().map(|_| ());
        }
        match self.port.try_call_once(|| Claim::new(self, port))?.port == port {
            true => Ok(()),
            false => Err(Errno::EBUSY),
        }
    }

    fn post(&self, bytes: &[u8]) -> Result<()> {
        let kernel = Name::Netlink(0, 0);
        put(&self.inbox, bytes, kernel, Sender::KERNEL, &Wait::NEVER)
            .map(|_| ())
            .map_err(|_| Errno::ENOBUFS)
    }

    /// The destination of an address.
    ///
    /// # Errors
    /// EINVAL; EPERM: only administrators may send to others than the kernel.
    fn destination(&self, address: &Address) -> Result<Destination> {
        let [port, groups] = ends(address)?;
        if (port, groups) != (0, 0) {
            require(CAP_NET_ADMIN)?;
        }
        let group = match groups {
            0 => 0,
            groups => groups.trailing_zeros() + 1,
        };
        Ok(Destination { port, group })
    }

    /// Sends to the socket with a port, waiting until there is room.
    ///
    /// # Errors
    /// ECONNREFUSED: there is none, or it is connected elsewhere. EAGAIN, and the errors of a wait.
    fn send_to(&self, bytes: &[u8], to: Destination, sender: Sender, wait: &Wait) -> Result<usize> {
        let target = port::holder(self.base.protocol, to.port).ok_or(Errno::ECONNREFUSED)?;
        let connected = *target.peer.lock();
        if connected.is_some_and(|peer| peer.port != self.own_port()) {
            return Err(Errno::ECONNREFUSED);
        }
        // The wait does not hold the socket, since its close must end the wait.
        let inbox = target.inbox.clone();
        drop(target);
        put(&inbox, bytes, self.from(to), sender, wait).map_err(|error| match error {
            Errno::EPIPE => Errno::ECONNREFUSED,
            error => error,
        })
    }

    /// Sends a copy to every member of the group, except itself and the socket to which the message
    /// goes anyway. A socket without room is notified that it lost a message.
    fn send_to_group(&self, bytes: &[u8], to: Destination, sender: Sender) {
        let base = &self.base;
        socket_table::each(|socket| {
            let alike = socket.base().domain == AF_NETLINK
                && socket.base().protocol == base.protocol
                && socket.base().number != base.number;
            let Some(other) = alike
                .then(|| socket.clone().downcast::<Netlink>())
                .flatten()
            else {
                return;
            };
            let apart = to.port == 0 || other.own_port() != to.port;
            if apart
                && other.options.listens_to(to.group)
                && put(&other.inbox, bytes, self.from(to), sender, &Wait::NEVER).is_err()
            {
                other.inbox.count_drop();
                if !other.options.is_on(options::NO_ENOBUFS) {
                    other.inbox.fail(Errno::ENOBUFS);
                }
            }
        });
    }

    /// The source of a message to `to`, as its receivers see it.
    fn from(&self, to: Destination) -> Name {
        let port = self.own_port();
        Destination { port, ..to }.name()
    }

    /// Handles the requests of a message to the kernel.
    fn request(self: &Arc<Self>, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while let Ok((request, _)) = Header::read_from_prefix(rest) {
            let len = request.len as usize;
            if len < HEADER || len > rest.len() {
                break;
            }
            self.handle(request, &rest[HEADER..len])?;
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
        Ok(())
    }

    fn handle(self: &Arc<Self>, request: Header, body: &[u8]) -> Result<()> {
        let mut reply = Reply::new(request, self.port()?)?;
        // A message without a request is only acknowledged.
        let asks = request.flags & REQUEST != 0 && request.kind >= LEAST;
        let dumped = match self.base.protocol {
            _ if !asks => Ok(false),
            DIAG => match self.begin_dump(request, body) {
                Ok(()) => return self.continue_dump(),
                Err(error) => Err(error),
            },
            UEVENT => require(CAP_SYS_ADMIN).and(Err(Errno::EOPNOTSUPP)),
            _ => {
                let mut flush = |reply: &mut Reply| {
                    self.post(&reply.bytes)?;
                    Ok(reply.bytes.clear())
                };
                route::handle(&mut reply, request, body, &mut flush)
            }
        };
        if dumped.is_ok() && !reply.bytes.is_empty() {
            self.post(&reply.bytes)?;
        }
        reply.bytes.clear();
        match dumped {
            Ok(true) => reply.done(),
            Ok(false) if request.flags & ACKNOWLEDGE == 0 => return Ok(()),
            Ok(false) => reply.acknowledge(Acknowledgement::Done),
            Err(error) if self.options.is_on(options::CAP_ACK) => {
                reply.acknowledge(Acknowledgement::Short(error));
            }
            Err(error) => reply.acknowledge(Acknowledgement::Failed(error, body)),
        }
        self.post(&reply.bytes)
    }

    /// Begins a dump, the only way to list sockets; EBUSY during another one.
    fn begin_dump(&self, request: Header, body: &[u8]) -> Result<()> {
        if request.kind != diag::BY_FAMILY {
            return Err(Errno::EINVAL);
        }
        if request.flags & DUMP == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let fresh = Dump::new(body)?;
        let mut dump = self.dump.lock_killable()?;
        if dump.is_some() {
            return Err(Errno::EBUSY);
        }
        *dump = Some((fresh, request));
        Ok(())
    }

    /// Continues a dump by one message, if at least half of the room is free.
    fn continue_dump(&self) -> Result<()> {
        let mut current = self.dump.lock_killable()?;
        if let Some((dump, request)) = &mut *current
            && self.inbox.has_half()
        {
            let mut reply = Reply::new(*request, self.own_port())?;
            if !dump.continue_dump(&mut reply) {
                reply.done();
                *current = None;
            }
            self.post(&reply.bytes)?;
        }
        Ok(())
    }
}

/// The port and the groups in an address; EINVAL.
fn ends(address: &Address) -> Result<[u32; 2]> {
    // `struct sockaddr_nl`, without its family and the two bytes after it.
    let named = address.rest().get(2..).unwrap_or_default();
    match <[u32; 2]>::read_from_prefix(named) {
        Ok((ends, _)) if address.family() == AF_NETLINK => Ok(ends),
        _ => Err(Errno::EINVAL),
    }
}

/// Queues a message in a socket's inbox.
fn put(inbox: &Channel, bytes: &[u8], from: Name, sender: Sender, wait: &Wait) -> Result<usize> {
    let ancillary = Ancillary {
        credentials: Some(sender),
        ..Ancillary::default()
    };
    inbox.write_record(
        &mut Source::kernel(bytes),
        ancillary,
        from,
        usize::MAX,
        wait,
    )
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.inbox.die();
    }
}

impl Socket for Netlink {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        let [port, groups] = ends(address)?;
        if self.port.get().is_some_and(|claim| claim.port != port) {
            return Err(Errno::EINVAL);
        }
        self.options.check(self.base.protocol, groups)?;
        self.take_port(port)?;
        self.options.listen(groups);
        Ok(())
    }

    fn connect(self: Arc<Self>, address: &Address, _wait: &Wait) -> Result<()> {
        let to = match address.is_unspecified() {
            true => None,
            false => Some(self.destination(address)?),
        };
        if to.is_some() {
            self.port()?;
        }
        *self.peer.lock() = to;
        Ok(())
    }

    fn name(&self) -> Name {
        Name::Netlink(self.own_port(), self.options.groups())
    }

    fn peer(&self) -> Result<Name> {
        let peer = *self.peer.lock();
        Ok(peer.unwrap_or_default().name())
    }

    fn send(self: Arc<Self>, message: Outgoing, wait: &Wait) -> Result<usize> {
        if message.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let len = message.data.left();
        if len == 0 {
            return Err(Errno::ENODATA);
        }
        let to = match message.to.filter(|to| to.len() > 0) {
            Some(address) => self.destination(&address)?,
            None => (*self.peer.lock()).unwrap_or_default(),
        };
        self.port()?;
        let buffer = self.base.options.send_buffer().min(MAX_LIMIT);
        let most = buffer.saturating_sub(RESERVED);
        let is_request = to.port == 0 && to.group == 0;
        if len > most || is_request && len > MAX_REQUEST {
            return Err(Errno::EMSGSIZE);
        }
        let bytes = copied(message.data, len)?;
        let given = message.ancillary.credentials;
        let sender = given.unwrap_or_else(|| Sender::current(false));
        if to.group != 0 {
            self.send_to_group(&bytes, to, sender);
        }
        match to.port {
            // A message for a group is also a request, unless it is larger than any.
            0 if len > MAX_REQUEST => Ok(len),
            0 => self.request(&bytes).map(|()| len),
            _ => self.send_to(&bytes, to, sender, wait),
        }
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        let received = stream::receive(&self.inbox, to, flags, ReadMode::RECORDS, || false, wait)?;
        // An error that cannot be reported now is reported by a later call.
        _ = self.continue_dump();
        Ok(received)
    }

    fn shutdown(&self, _read: bool, _write: bool) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.base.readable);
        }
        let mut events = Events::ROOM;
        events.set(Events::IN, self.inbox.has_data());
        events.set(Events::ERROR, self.inbox.has_error());
        events
    }

    fn take_error(&self) -> Option<Errno> {
        self.inbox.take_error()
    }

    fn drops(&self) -> u32 {
        self.inbox.drops()
    }

    fn held(&self) -> usize {
        self.inbox.held()
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        Ok((self.inbox.first_len()?, 0))
    }

    fn options_changed(&self) {
        self.inbox.set_limit(self.base.options.receive_buffer());
        self.inbox.filter_changed();
    }

    fn put_header(&self, found: &Found, control: &mut Control) -> Result<()> {
        if self.options.is_on(options::PKTINFO) {
            let group = match found.from {
                Name::Netlink(_, groups) if groups != 0 => groups.trailing_zeros() + 1,
                _ => 0,
            };
            control.put(SOL_NETLINK, options::PKTINFO, group.as_bytes())?;
        }
        Ok(())
    }

    fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        match level {
            SOL_NETLINK => self.options.set(self.base.protocol, name, value),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        match level {
            SOL_NETLINK => self.options.get(self.base.protocol, name),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_dump_goes_on_by_one_message_at_a_time() {
        crate::task::selftests::run(1, |_| {
            let new = |_| crate::net::new(linux_raw_sys::net::AF_UNIX, DATAGRAM, 0).unwrap();
            let sockets: Vec<_> = (0..300).map(new).collect();
            for socket in &sockets {
                crate::net::socket_table::enter(socket).unwrap();
            }
            let socket: Arc<dyn Any + Send + Sync> = super::netlink::new(RAW, DIAG).unwrap();
            let Ok(socket) = socket.downcast::<Netlink>() else {
                panic!("it is one");
            };
            let mut body = [u8::MAX; 24];
            body[0] = linux_raw_sys::net::AF_UNIX as u8;
            let request = Header {
                len: (HEADER + body.len()) as u32,
                kind: diag::BY_FAMILY,
                flags: REQUEST | DUMP,
                sequence: 0,
                port: 0,
            };
            socket.handle(request, &body).unwrap();
            let mut messages = 1;
            while socket.dump.lock().is_some() {
                socket.continue_dump().unwrap();
                messages += 1;
            }
            assert!(messages > 1, "all was told at once");
            for socket in &sockets {
                crate::net::socket_table::leave(socket.base().number);
            }
        });
    }
}
