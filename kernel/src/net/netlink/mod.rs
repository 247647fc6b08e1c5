//! Netlink: programs read the interfaces and their addresses (NETLINK_ROUTE) and the list of
//! sockets (NETLINK_SOCK_DIAG), and wait for devices to come and go (NETLINK_KOBJECT_UEVENT), which
//! none does.

mod attributes;
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
use crate::net::channel::{Channel, Kind};
use crate::net::control_message::{Ancillary, Control, Credentials};
use crate::net::inet;
use crate::net::socket::{Base, Outgoing, Received, Socket, SocketFile};
use crate::net::stream::{self, ReadMode};
use crate::net::wait::Wait;
use crate::net::{DATAGRAM, RAW};
use crate::sync::{Once, SleepMutex};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use linux_raw_sys::net::{AF_NETLINK, MSG_OOB, SCM_CREDENTIALS, SO_PASSCRED, SOL_SOCKET};
use zerocopy::{FromBytes, IntoBytes};

/// The protocols.
const ROUTE: u32 = 0;
const DIAG: u32 = 4;
const UEVENT: u32 = 15;
/// The most bytes of requests in one message.
const MAX_REQUEST: usize = 4096;

/// A socket.
struct Netlink {
    base: Base,
    options: Options,
    inbox: Arc<Channel>,
    /// Its port, once it has one.
    port: Once<Claim>,
    /// A dump that goes on as it is read, and the request that it answers.
    dump: SleepMutex<Option<(Dump, Header)>>,
}

/// A new socket.
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
        dump: SleepMutex::new(None),
    })?)
}

/// Puts `bytes` into a netlink socket, for its owner to receive.
///
/// # Errors
/// ENOTSOCK, EINVAL: it is none; ENOBUFS.
pub fn notify(file: &File, bytes: &[u8]) -> Result<()> {
    of(file)?.post(bytes)
}

/// The netlink socket that an open file is; ENOTSOCK or EINVAL.
fn of(file: &File) -> Result<Arc<Netlink>> {
    let file = file.ops_as::<SocketFile>().ok_or(Errno::ENOTSOCK)?;
    let socket: Arc<dyn Any + Send + Sync> = file.socket().clone();
    socket.downcast().map_err(|_| Errno::EINVAL)
}

/// Whether an open file can receive messages; ENOTSOCK or EINVAL.
pub fn check(file: &File) -> Result<()> {
    of(file).map(|_| ())
}

impl Netlink {
    /// The port, which it has from here on.
    ///
    /// # Errors
    /// ENOMEM.
    fn port(&self) -> Result<u32> {
        let claim = || Claim::any(self.base.protocol);
        Ok(self.port.try_call_once(claim)?.port)
    }

    /// Takes this port, or any for 0.
    fn take_port(&self, port: u32) -> Result<()> {
        if let Some(claim) = self.port.get() {
            return match claim.port == port {
                true => Ok(()),
                false => Err(Errno::EINVAL),
            };
        }
        if port == 0 {
            return self.port().map(|_| ());
        }
        let claim = || Claim::new(self.base.protocol, port);
        match self.port.try_call_once(claim)?.port == port {
            true => Ok(()),
            false => Err(Errno::EBUSY),
        }
    }

    fn post(&self, bytes: &[u8]) -> Result<()> {
        let mut data = Source::kernel(bytes);
        let (name, all) = (Name::Netlink(0, 0), usize::MAX);
        self.inbox
            .write_record(&mut data, Ancillary::default(), name, all, &Wait::NEVER)
            .map(|_| ())
            .map_err(|_| Errno::ENOBUFS)
    }

    fn handle(&self, request: Header, body: &[u8]) -> Result<()> {
        let mut reply = Reply::new(request, self.port()?)?;
        // A message that requests nothing is only acknowledged.
        let asks = request.flags & REQUEST != 0 && request.kind >= LEAST;
        let dumped = match self.base.protocol {
            _ if !asks => Ok(false),
            DIAG => match self.begin_dump(request, body) {
                Ok(()) => return self.continue_dump(),
                Err(error) => Err(error),
            },
            _ => route::handle(&mut reply, request, body),
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

    /// Sockets are listed in a dump alone; EBUSY while another goes on.
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

    /// Goes on with a dump, by one message, if at least half of the room is free.
    fn continue_dump(&self) -> Result<()> {
        let mut current = self.dump.lock_killable()?;
        if let Some((dump, request)) = &mut *current
            && self.inbox.has_half()
        {
            let mut reply = Reply::new(*request, self.port()?)?;
            if !dump.continue_dump(&mut reply) {
                reply.done();
                *current = None;
            }
            self.post(&reply.bytes)?;
        }
        Ok(())
    }
}

impl Socket for Netlink {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        if address.family() != AF_NETLINK || address.len() < 12 {
            return Err(Errno::EINVAL);
        }
        let ([port, groups], _) =
            <[u32; 2]>::read_from_prefix(&address.rest()[2..]).map_err(|_| Errno::EINVAL)?;
        if self.port.get().is_some_and(|claim| claim.port != port) {
            return Err(Errno::EINVAL);
        }
        self.options.check(self.base.protocol, groups)?;
        self.take_port(port)?;
        self.options.listen(groups);
        Ok(())
    }

    fn connect(self: Arc<Self>, _address: &Address, _wait: &Wait) -> Result<()> {
        self.port().map(|_| ())
    }

    fn name(&self) -> Name {
        let port = self.port.get().map_or(0, |claim| claim.port);
        Name::Netlink(port, self.options.groups())
    }

    fn peer(&self) -> Result<Name> {
        Ok(Name::Netlink(0, 0))
    }

    fn send(self: Arc<Self>, message: Outgoing, _wait: &Wait) -> Result<usize> {
        if message.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.base.protocol == UEVENT {
            return Err(Errno::ECONNREFUSED);
        }
        let len = message.data.left();
        if len > MAX_REQUEST {
            return Err(Errno::EMSGSIZE);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Errno::ENOBUFS)?;
        bytes.resize(len, 0);
        if message.data.take(&mut bytes)? != len {
            return Err(Errno::EFAULT);
        }
        let mut rest = &bytes[..];
        while let Ok((request, _)) = Header::read_from_prefix(rest) {
            let len = request.len as usize;
            if len < HEADER || len > rest.len() {
                break;
            }
            self.handle(request, &rest[HEADER..len])?;
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
        Ok(len)
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
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
        events
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

    fn put_header(&self, _header: &inet::Header, control: &mut Control) -> Result<()> {
        if self.options.is_on(options::PKTINFO) {
            // The message was sent to no group.
            control.put(SOL_NETLINK, options::PKTINFO, &[0; 4])?;
        }
        if self.base.options.is_on(SO_PASSCRED) {
            control.put(SOL_SOCKET, SCM_CREDENTIALS, Credentials::KERNEL.as_bytes())?;
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
