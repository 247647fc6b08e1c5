//! The operations of a socket, whatever its family, and its open file.

use super::address::{Address, Name};
use super::channel::Found;
use super::control_message::{Ancillary, Control, Peer};
use super::filter::Filter;
use super::options::Options;
use super::socket_table;
use super::wait::Wait;
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::fs::file_table::Counted;
use crate::fs::inode::{Attr, Inode, Kind, SetAttr};
use crate::fs::io::{Sink, Source};
use crate::fs::path::Path;
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::fs::simple_attr::SimpleAttr;
use crate::fs::{anonymous_dentry, new_anonymous_number};
use crate::mm::heap::{try_arc, try_vec};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use crate::task::{current, signal};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use linux_raw_sys::general::{O_NONBLOCK, O_RDWR, S_IFSOCK, SIGPIPE};
use linux_raw_sys::ioctl::{FIONREAD, SIOCATMARK, TIOCOUTQ};
use linux_raw_sys::net::{
    AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_TCP,
    IPPROTO_UDPLITE, MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, SOCK_STREAM,
};

/// The request for the number of unsent bytes (`include/uapi/linux/sockios.h`).
const SIOCOUTQNSD: u32 = 0x894b;
/// The device number of socket inodes.
const DEVICE: u64 = 8;

/// The receiving side of a socket.
pub struct Reader {
    /// The socket's number.
    pub number: u64,
    /// The socket's open file.
    file: Mutex<Weak<File>>,
    /// The filter of messages sent to the socket (SO_ATTACH_FILTER).
    pub filter: Mutex<Option<Arc<Filter>>>,
}

impl Reader {
    /// The size of its filter in bytes.
    fn filter_len(&self) -> usize {
        let filter = self.filter.lock();
        filter.as_ref().map_or(0, |filter| filter.len())
    }

    /// The open file, as long as there is one.
    pub fn file(&self) -> Option<Arc<File>> {
        self.file.lock().upgrade()
    }
}

/// The state that all sockets have.
pub struct Base {
    /// Its family (AF_UNIX and so on).
    pub domain: u32,
    /// SOCK_STREAM and so on.
    pub kind: u32,
    /// The protocol's number.
    pub protocol: u32,
    /// The inode's number.
    pub number: u64,
    /// Its inode's attributes.
    pub attr: Arc<SimpleAttr>,
    /// The reader of its channels.
    pub reader: Arc<Reader>,
    /// Options of level SOL_SOCKET.
    pub options: Options,
    /// Notified when something can be read or accepted.
    pub readable: Arc<WaitSource>,
    /// Notified when something can be written.
    pub writable: Arc<WaitSource>,
}

impl Base {
    /// The state of a new socket.
    pub fn new(domain: u32, kind: u32, protocol: u32) -> Result<Self> {
        let number = new_anonymous_number();
        let attr = SimpleAttr::new(Attr {
            device: DEVICE,
            inode: number,
            mode: S_IFSOCK | 0o777,
            ..Attr::default()
        });
        Ok(Base {
            domain,
            kind,
            protocol,
            number,
            attr: try_arc(attr)?,
            reader: try_arc(Reader {
                number,
                file: Mutex::new(Weak::new()),
                filter: Mutex::new(None),
            })?,
            options: Options::new(domain),
            readable: WaitSource::new()?,
            writable: WaitSource::of_room()?,
        })
    }

    /// Permissions of its inode.
    pub fn permissions(&self) -> u32 {
        self.attr.get().mode & 0o7777
    }

    /// The user that it belongs to.
    pub fn user(&self) -> u32 {
        self.attr.get().uid
    }
}

/// A message to send.
pub struct Outgoing<'a, 'b> {
    /// Its bytes.
    pub data: &'a mut Source<'b>,
    /// The destination, if it was given.
    pub to: Option<Address>,
    /// Its control messages.
    pub ancillary: Ancillary,
    /// MSG_ flags.
    pub flags: u32,
}

/// A message that was received.
#[derive(Default)]
pub struct Received {
    /// The sender, the control messages and the size of the message.
    pub found: Found,
    /// MSG_ flags for the program.
    pub flags: u32,
    /// The call's result.
    pub count: usize,
}

/// A socket.
pub trait Socket: Send + Sync + Any {
    /// The state that all sockets have.
    fn base(&self) -> &Base;

    /// Binds the socket to an address.
    fn bind(self: Arc<Self>, _address: &Address) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes it accept connections.
    fn listen(self: Arc<Self>, _backlog: usize) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Connects it to the socket at `address`.
    fn connect(self: Arc<Self>, _address: &Address, _wait: &Wait) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The next connection of a listening socket.
    fn accept(&self, _wait: &Wait) -> Result<Arc<dyn Socket>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Its name.
    fn name(&self) -> Name;

    /// The name of the peer; ENOTCONN.
    fn peer(&self) -> Result<Name>;

    /// The peer's name for tables; it may be without a port.
    fn destination(&self) -> Name {
        self.peer().unwrap_or_default()
    }

    /// Sends a message.
    fn send(self: Arc<Self>, message: Outgoing, wait: &Wait) -> Result<usize>;

    /// Receives a message or bytes, with MSG_ flags.
    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received>;

    /// Called when its file is closed.
    fn closing(&self) {}

    /// Drops the files that wait in it, since no program can receive them any more.
    fn discard_rights(&self) {}

    /// Ends reading, writing or both.
    fn shutdown(&self, read: bool, write: bool) -> Result<()>;

    /// As [`FileOps::poll`].
    fn poll(&self, table: Option<&mut PollTable>) -> Events;

    /// The number of bytes that can be read (FIONREAD), and of bytes that are sent and have not
    /// arrived: for a Unix socket, those that a peer has not read yet (TIOCOUTQ).
    fn waiting(&self) -> Result<(usize, usize)>;

    /// The number of bytes that were ever written to a connection, and how many of these are
    /// unsent.
    fn written(&self) -> [u64; 2] {
        [0; 2]
    }

    /// As [`FileOps::held`].
    fn held(&self) -> usize;

    /// Messages that were dropped for lack of room.
    fn drops(&self) -> u32 {
        0
    }

    /// Whether the next byte is urgent (SIOCATMARK).
    fn is_at_mark(&self) -> bool {
        false
    }

    /// The number of connections in the backlog of a listening socket, and its maximum.
    fn backlog(&self) -> Option<(usize, usize)> {
        None
    }

    /// The number of the peer of a Unix socket.
    fn peer_number(&self) -> Option<u64> {
        None
    }

    /// Whether others can connect to it.
    fn is_listening(&self) -> bool {
        false
    }

    /// The error that SO_ERROR returns, once.
    fn take_error(&self) -> Option<Errno> {
        None
    }

    /// The state of the connection, with the numbers of TCP.
    fn state(&self) -> u8 {
        0
    }

    /// The CPU that handled the last packet (SO_INCOMING_CPU).
    fn incoming_cpu(&self) -> Option<u32> {
        None
    }

    /// A program sets the CPU that handles received packets; it holds until a packet arrives.
    fn set_incoming_cpu(&self) {}

    /// The peer's credentials (SO_PEERCRED and its kin), if they are known.
    fn peer_credentials(&self) -> Option<Peer> {
        None
    }

    /// Reports the fields of a received message's header that options request.
    fn put_header(&self, _found: &Found, _control: &mut Control) -> Result<()> {
        Ok(())
    }

    /// Called when an option of level SOL_SOCKET changed.
    fn options_changed(&self) {}

    /// getsockopt for other levels.
    fn option(&self, _level: u32, _name: u32) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// setsockopt for other levels.
    fn set_option(&self, _level: u32, _name: u32, _value: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}

impl dyn Socket {
    /// Downcasts to the concrete type.
    pub fn downcast<T: Socket>(self: Arc<Self>) -> Option<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self;
        any.downcast().ok()
    }

    /// How long a send through `file` may wait.
    pub fn send_wait(&self, file: &File, flags: u32) -> Wait {
        let nonblocking = file.flags().nonblocking() || flags & MSG_DONTWAIT != 0;
        Wait::new(nonblocking, self.base().options.send_timeout())
    }

    /// How long a receive through `file` may wait.
    pub fn receive_wait(&self, file: &File, flags: u32) -> Wait {
        let nonblocking = file.flags().nonblocking() || flags & MSG_DONTWAIT != 0;
        Wait::new(nonblocking, self.base().options.receive_timeout())
    }
}

/// Sends a message, and raises SIGPIPE if necessary.
pub fn send(socket: &Arc<dyn Socket>, message: Outgoing, wait: &Wait) -> Result<usize> {
    let flags = message.flags;
    let result = socket.clone().send(message, wait);
    if result == Err(Errno::EPIPE) && flags & MSG_NOSIGNAL == 0 {
        signal::raise(SIGPIPE);
    }
    result
}

/// Copies the first bytes of a message to send, at most `most`.
pub fn copied(data: &mut Source, most: usize) -> Result<Vec<u8>> {
    let (mut bytes, len) = (Vec::new(), data.left().min(most));
    bytes.try_reserve_exact(len).map_err(|_| Errno::ENOBUFS)?;
    bytes.resize(len, 0);
    if data.take(&mut bytes)? < len {
        return Err(Errno::EFAULT);
    }
    Ok(bytes)
}

/// The open file of a socket.
pub struct SocketFile(Arc<dyn Socket>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.0.closing();
        socket_table::leave(self.0.base().number);
    }
}

impl SocketFile {
    /// The socket.
    pub fn socket(&self) -> &Arc<dyn Socket> {
        &self.0
    }

    fn send(&self, file: &File, from: &mut Source, flags: u32) -> Result<usize> {
        let wait = self.0.send_wait(file, 0);
        let message = Outgoing {
            data: from,
            to: None,
            ancillary: Ancillary::default(),
            flags,
        };
        send(&self.0, message, &wait)
    }

    /// Writes as with MSG_MORE.
    pub fn write_more(&self, file: &File, from: &mut Source) -> Result<usize> {
        self.send(file, from, MSG_MORE)
    }

    /// Reads the bytes that are available.
    pub fn read_now(&self, file: &File, to: &mut Sink) -> Result<usize> {
        self.receive(file, to, MSG_DONTWAIT)
    }

    fn receive(&self, file: &File, to: &mut Sink, flags: u32) -> Result<usize> {
        if to.left() == 0 {
            // read(2) does nothing then, unlike recv(2).
            return Ok(0);
        }
        let wait = self.0.receive_wait(file, flags);
        Ok(self.0.receive(to, 0, &wait)?.count)
    }

    /// Whether the socket is a Unix stream socket.
    pub fn is_unix_stream(&self) -> bool {
        let base = self.0.base();
        (base.domain, base.kind) == (AF_UNIX, SOCK_STREAM)
    }
}

impl FileOps for SocketFile {
    fn has_async(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn held(&self) -> usize {
        self.0.held() + self.0.base().reader.filter_len()
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        SocketFile::receive(self, file, to, 0)
    }

    fn write(&self, file: &File, from: &mut Source, _position: u64) -> Result<usize> {
        self.send(file, from, 0)
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        self.0.poll(table)
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        let count = match request {
            FIONREAD => self.0.waiting()?.0,
            TIOCOUTQ => self.0.waiting()?.1,
            // All bytes that are sent are acknowledged, so the numbers of unsent and of
            // unacknowledged bytes are the same.
            SIOCOUTQNSD if self.0.base().protocol == IPPROTO_TCP as u32 => self.0.waiting()?.1,
            SIOCATMARK if self.0.base().kind == SOCK_STREAM => self.0.is_at_mark().into(),
            _ => return super::interface::ioctl(request, argument),
        };
        UserPtr::new(argument).write(&(count as u32))?;
        Ok(0)
    }
}

/// The inode of a socket.
struct Node {
    attr: Arc<SimpleAttr>,
    protocol: &'static str,
}

/// The attribute by which lsof(8) shows a socket's protocol, and its entry in a list.
pub const PROTOCOL_NAME: &[u8] = b"system.sockprotoname";
const PROTOCOL_ENTRY: &[u8] = b"system.sockprotoname\0";

/// Linux's name for the protocol of a socket (`struct proto`).
fn protocol_name(base: &Base) -> &'static str {
    const ICMP: u32 = IPPROTO_ICMP as u32;
    const UDP_LITE: u32 = IPPROTO_UDPLITE as u32;
    let v6 = base.domain == AF_INET6;
    match (base.domain, base.kind, base.protocol) {
        (AF_UNIX, SOCK_STREAM, _) => "UNIX-STREAM",
        (AF_UNIX, ..) => "UNIX",
        (AF_NETLINK, ..) => "NETLINK",
        (AF_PACKET, ..) => "PACKET",
        (_, SOCK_STREAM, _) if v6 => "TCPv6",
        (_, SOCK_STREAM, _) => "TCP",
        (_, super::RAW, _) if v6 => "RAWv6",
        (_, super::RAW, _) => "RAW",
        (_, _, UDP_LITE) if v6 => "UDPLITEv6",
        (_, _, UDP_LITE) => "UDP-Lite",
        (_, _, IPPROTO_ICMPV6) => "PINGv6",
        (_, _, ICMP) => "PING",
        _ if v6 => "UDPv6",
        _ => "UDP",
    }
}

impl Inode for Node {
    fn kind(&self) -> Kind {
        Kind::Socket
    }

    fn attr(&self) -> Attr {
        self.attr.get()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.attr.set(change);
        Ok(())
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        if name != PROTOCOL_NAME {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut value = try_vec(self.protocol.as_bytes())?;
        value.try_reserve_exact(1).map_err(|_| Errno::ENOMEM)?;
        value.push(0);
        Ok(value)
    }

    fn xattrs(&self) -> Result<Vec<u8>> {
        try_vec(PROTOCOL_ENTRY)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
}

/// Opens a socket; `flags` may have O_NONBLOCK.
pub fn open(socket: Arc<dyn Socket>, flags: u32) -> Result<Arc<File>> {
    open_counted(socket, flags, Counted::new()?)
}

/// The same, where the file was counted before.
pub fn open_counted(socket: Arc<dyn Socket>, flags: u32, counted: Counted) -> Result<Arc<File>> {
    let Base { number, attr, .. } = socket.base();
    // The inode of an accepted socket was created by the connecting thread.
    let [uid, gid] = current().with_credentials(|who| [who.fsuid, who.fsgid].map(Some));
    attr.set(&SetAttr {
        uid,
        gid,
        ..SetAttr::default()
    });
    let node = Node {
        attr: attr.clone(),
        protocol: protocol_name(socket.base()),
    };
    let dentry = anonymous_dentry("socket", *number, try_arc(node)?)?;
    let flags = OpenFlags(O_RDWR | flags & O_NONBLOCK);
    let reader = socket.base().reader.clone();
    socket_table::enter(&socket)?;
    let file = File::with_count(dentry, try_arc(SocketFile(socket))?, flags, counted)?;
    *reader.file.lock() = Arc::downgrade(&file);
    Ok(file)
}
