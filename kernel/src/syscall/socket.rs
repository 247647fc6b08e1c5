//! Sockets: making, naming and connecting them, and their options.

use super::path::{check_flags, opened};
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::fdtable::Reserved;
use crate::fs::file_table::Counted;
use crate::mm::user::{UserPtr, UserSlice};
use crate::net::address::{Address, Name};
use crate::net::netlink::{LIST_MEMBERSHIPS, SOL_NETLINK};
use crate::net::socket::{Socket, SocketFile, open, open_counted};
use crate::net::{self, options};
use crate::task::current;
use alloc::sync::Arc;
use linux_raw_sys::general::{O_CLOEXEC, O_NONBLOCK};
use linux_raw_sys::net::{
    AF_UNIX, SHUT_RD, SHUT_RDWR, SHUT_WR, SO_ATTACH_FILTER, SO_PEERGROUPS, SO_PEERPIDFD, SOL_SOCKET,
};

/// The flags in a socket's type argument: SOCK_CLOEXEC and SOCK_NONBLOCK.
const FLAGS: u32 = O_CLOEXEC | O_NONBLOCK;
/// The bits of a type (`SOCK_TYPE_MASK`), and the number of types (`SOCK_MAX`).
const KIND: u32 = 0xf;
const KINDS: u32 = 11;
/// The number of families (`AF_MAX`).
const FAMILIES: u32 = 46;
/// The longest value of an option.
const MAX_VALUE: usize = 4096;

/// The open file of a descriptor, and its socket.
pub fn socket_file(fd: i32) -> Result<(Arc<File>, Arc<dyn Socket>)> {
    let file = opened(fd)?;
    let socket = socket_of(&file)?;
    Ok((file, socket))
}

fn socket_of(file: &File) -> Result<Arc<dyn Socket>> {
    let ops = file.ops_as::<SocketFile>().ok_or(Errno::ENOTSOCK)?;
    Ok(ops.socket().clone())
}

fn check_kind(domain: u32, kind: u32) -> Result<()> {
    check_flags(kind & !KIND, FLAGS)?;
    if domain >= FAMILIES {
        return Err(Errno::EAFNOSUPPORT);
    }
    if kind & KIND >= KINDS {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// socket(2)
pub fn socket(domain: u32, kind: u32, protocol: u32) -> Result<usize> {
    check_kind(domain, kind)?;
    let file = open(net::new(domain, kind & KIND, protocol)?, kind)?;
    Ok(current().files().add(file, kind & O_CLOEXEC != 0)? as usize)
}

/// socketpair(2)
pub fn socketpair(domain: u32, kind: u32, protocol: u32, to: usize) -> Result<usize> {
    check_kind(domain, kind)?;
    let fds = current().files().reserve_pair()?;
    UserPtr::new(to).write(&fds.each_ref().map(Reserved::number))?;
    let [a, b] = net::pair(domain, kind & KIND, protocol)?;
    let ends = [open(a, kind)?, open(b, kind)?];
    for (fd, end) in fds.into_iter().zip(ends) {
        fd.install(end, kind & O_CLOEXEC != 0);
    }
    Ok(0)
}

/// bind(2)
pub fn bind(fd: i32, address: usize, len: u32) -> Result<usize> {
    let (_, socket) = socket_file(fd)?;
    socket.bind(&Address::read(address, len)?)?;
    Ok(0)
}

/// listen(2)
pub fn listen(fd: i32, backlog: u32) -> Result<usize> {
    let (_, socket) = socket_file(fd)?;
    socket.listen(backlog as usize)?;
    Ok(0)
}

/// connect(2)
pub fn connect(fd: i32, address: usize, len: u32) -> Result<usize> {
    let file = opened(fd)?;
    let address = Address::read(address, len)?;
    let socket = socket_of(&file)?;
    let wait = socket.send_wait(&file, 0);
    socket.connect(&address, &wait)?;
    Ok(0)
}

/// accept(2)
pub fn accept(fd: i32, address: usize, len: usize) -> Result<usize> {
    accept4(fd, address, len, 0)
}

/// accept4(2)
pub fn accept4(fd: i32, address: usize, len: usize, flags: u32) -> Result<usize> {
    let file = opened(fd)?;
    check_flags(flags, FLAGS)?;
    let socket = socket_of(&file)?;
    let wait = socket.receive_wait(&file, 0);
    // Without a descriptor and a file for it, the connection stays in the backlog.
    let fd = current().files().reserve()?;
    let counted = Counted::new()?;
    let accepted = socket.accept(&wait)?;
    let peer = accepted.peer().unwrap_or(Name::Unnamed);
    let domain = accepted.base().domain;
    let opened = open_counted(accepted, flags, counted)?;
    Address::of(&peer, domain).write(address, len)?;
    Ok(fd.install(opened, flags & O_CLOEXEC != 0) as usize)
}

/// getsockname(2)
pub fn getsockname(fd: i32, address: usize, len: usize) -> Result<usize> {
    let (_, socket) = socket_file(fd)?;
    write_name(&socket.name(), &*socket, address, len)
}

/// getpeername(2)
pub fn getpeername(fd: i32, address: usize, len: usize) -> Result<usize> {
    let (_, socket) = socket_file(fd)?;
    write_name(&socket.peer()?, &*socket, address, len)
}

fn write_name(name: &Name, socket: &dyn Socket, address: usize, len: usize) -> Result<usize> {
    Address::of(name, socket.base().domain).put(address, len)?;
    Ok(0)
}

/// shutdown(2)
pub fn shutdown(fd: i32, how: u32) -> Result<usize> {
    let (_, socket) = socket_file(fd)?;
    match how {
        SHUT_RD => socket.shutdown(true, false)?,
        SHUT_WR => socket.shutdown(false, true)?,
        SHUT_RDWR => socket.shutdown(true, true)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// setsockopt(2)
pub fn setsockopt(fd: i32, level: u32, name: u32, value: usize, len: i32) -> Result<usize> {
    let (_, socket) = socket_file(fd)?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    check_level(&*socket, level)?;
    let value = UserPtr::<u8>::new(value).read_vec(len.min(MAX_VALUE))?;
    set_option(&*socket, level, name, &value)
}

/// Sets an option.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_option(socket: &dyn Socket, level: u32, name: u32, value: &[u8]) -> Result<usize> {
    if level == SOL_SOCKET {
        options::set(socket, name, value)?;
    } else {
        socket.set_option(level, name, value)?;
    }
    Ok(0)
}

/// Writes a socket's filter (SO_GET_FILTER) into `room`; both are counted in instructions. If
/// `room` is 0, only their number is written.
fn write_filter(bytes: &[u8], room: usize, value: usize, len: usize) -> Result<usize> {
    let count = bytes.len() / bpf::packet::STEP;
    if room > 0 && room < count {
        return Err(Errno::EINVAL);
    }
    if room > 0 {
        UserSlice::new(value, bytes.len()).copy_out(bytes)?;
    }
    UserPtr::new(len).write(&(count as u32))?;
    Ok(0)
}

/// EOPNOTSUPP for a level other than SOL_SOCKET of a Unix socket, whatever else is wrong.
fn check_level(socket: &dyn Socket, level: u32) -> Result<()> {
    match level == SOL_SOCKET || socket.base().domain != AF_UNIX {
        true => Ok(()),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// getsockopt(2)
pub fn getsockopt(fd: i32, level: u32, name: u32, value: usize, len: usize) -> Result<usize> {
    let (_, socket) = socket_file(fd)?;
    check_level(&*socket, level)?;
    let room = UserPtr::<i32>::new(len).read()?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    if (level, name) == (SOL_SOCKET, SO_PEERPIDFD) {
        return peer_pidfd(&*socket, room, value, len);
    }
    let bytes = if level == SOL_SOCKET {
        options::get(&*socket, name, room)?
    } else {
        socket.option(level, name)?
    };
    if (level, name) == (SOL_SOCKET, SO_ATTACH_FILTER) {
        return write_filter(&bytes, room, value, len);
    }
    if (level, name) == (SOL_SOCKET, SO_PEERGROUPS) && room < bytes.len() {
        UserPtr::new(len).write(&(bytes.len() as u32))?;
        return Err(Errno::ERANGE);
    }
    if level == SOL_NETLINK {
        return put_netlink_option(&bytes, name, room, value, len);
    }
    put_option(&bytes, room, value, len)
}

/// SO_PEERPIDFD: a descriptor for the process at the other end.
fn peer_pidfd(socket: &dyn Socket, room: usize, value: usize, len: usize) -> Result<usize> {
    let file = options::peer_pidfd(socket)?;
    let fd = current().files().reserve()?;
    let put = put_option(&fd.number().to_ne_bytes(), room, value, len)?;
    fd.install(file, true);
    Ok(put)
}

/// Writes a netlink option, which needs room for all of it: EINVAL otherwise. Of the list of groups
/// it writes as many words as there is room for, and the full number of bytes.
fn put_netlink_option(
    bytes: &[u8],
    name: u32,
    room: usize,
    value: usize,
    len: usize,
) -> Result<usize> {
    const WORD: usize = 4;
    if name != LIST_MEMBERSHIPS && room < WORD {
        return Err(Errno::EINVAL);
    }
    let count = bytes.len().min(room / WORD * WORD);
    UserSlice::new(value, count).copy_out(&bytes[..count])?;
    UserPtr::new(len).write(&(bytes.len() as u32))?;
    Ok(0)
}

/// Writes as much of an option as the program has room for, and that length.
///
/// # Errors
/// EFAULT.
pub fn put_option(bytes: &[u8], room: usize, value: usize, len: usize) -> Result<usize> {
    let count = bytes.len().min(room);
    UserSlice::new(value, count).copy_out(&bytes[..count])?;
    UserPtr::new(len).write(&(count as u32))?;
    Ok(0)
}
