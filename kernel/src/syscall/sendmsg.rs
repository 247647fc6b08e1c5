//! Sending and receiving through sockets.

use super::layout::Native;
use super::poll::Deadline;
use super::socket::socket_file;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::io::{IoVec, Sink, Source};
use crate::mm::user::UserPtr;
use crate::net::address::{Address, Name};
use crate::net::control_message::{Ancillary, Control};
use crate::net::socket::{Outgoing, Socket, send};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::net::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct msghdr` on 64 bits.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Header {
    name: usize,
    name_len: i32,
    _pad: u32,
    pieces: usize,
    piece_count: usize,
    control: usize,
    control_len: usize,
    flags: u32,
    _end: u32,
}

/// Bytes from one `struct mmsghdr` to the next, and where its length is.
const MANY_STEP: usize = size_of::<mmsghdr>();
const MANY_LEN: usize = core::mem::offset_of!(mmsghdr, msg_len);
/// Messages in one call (`UIO_MAXIOV`), and pieces in one message.
const MAX_MESSAGES: usize = 1024;
/// MSG_WAITFORONE: recvmmsg waits for the first message only.
const WAIT_FOR_ONE: u32 = 0x10000;
/// Where the fields are that recvmsg writes.
const AT_NAME_LEN: usize = core::mem::offset_of!(Header, name_len);
const AT_CONTROL_LEN: usize = core::mem::offset_of!(Header, control_len);
const AT_FLAGS: usize = core::mem::offset_of!(Header, flags);

impl Header {
    fn pieces(&self) -> Result<Vec<IoVec>> {
        if self.piece_count > MAX_MESSAGES {
            return Err(Errno::EMSGSIZE);
        }
        super::file::pieces::<Native>(self.pieces, self.piece_count)
    }
}

/// A socket, and the file that it is reached by.
type Target = (Arc<File>, Arc<dyn Socket>);

/// sendto(2)
pub fn sendto(
    fd: i32,
    buffer: usize,
    len: usize,
    flags: u32,
    to: usize,
    to_len: u32,
) -> Result<usize> {
    let piece = IoVec { base: buffer, len }.import()?;
    let (file, socket) = socket_file(fd)?;
    let to = (to != 0).then(|| Address::read(to, to_len)).transpose()?;
    let message = Outgoing {
        data: &mut Source::one(&piece),
        to,
        ancillary: Ancillary::default(),
        flags,
    };
    let wait = socket.send_wait(&file, flags);
    send(&socket, message, &wait)
}

/// recvfrom(2)
pub fn recvfrom(
    fd: i32,
    buffer: usize,
    len: usize,
    flags: u32,
    from: usize,
    from_len: usize,
) -> Result<usize> {
    let piece = IoVec { base: buffer, len }.import()?;
    let (file, socket) = socket_file(fd)?;
    let wait = socket.receive_wait(&file, flags);
    let received = socket.receive(&mut Sink::one(&piece), flags, &wait)?;
    if from != 0 {
        match sender(&received.found.from, &*socket) {
            Some(address) => address.write(from, from_len)?,
            None => {
                let len = UserPtr::<i32>::new(from_len);
                if len.read()? < 0 {
                    return Err(Errno::EINVAL);
                }
                len.write(&0)?
            }
        }
    }
    Ok(received.count)
}

/// The address of a message's sender. A Unix socket without a name, and a connection, show none.
fn sender(name: &Name, socket: &dyn Socket) -> Option<Address> {
    match name {
        Name::Unnamed => None,
        name => Some(Address::of(name, socket.base().domain)),
    }
}

/// sendmsg(2)
pub fn sendmsg(fd: i32, message: usize, flags: u32) -> Result<usize> {
    send_one(&socket_file(fd)?, message, flags)
}

fn send_one((file, socket): &Target, message: usize, flags: u32) -> Result<usize> {
    let header = UserPtr::<Header>::new(message).read()?;
    let to = if header.name == 0 {
        None
    } else {
        if header.name_len < 0 {
            return Err(Errno::EINVAL);
        }
        Some(Address::read(header.name, header.name_len.min(128) as u32)?)
    };
    let pieces = header.pieces()?;
    let ancillary = match (header.control, header.control_len) {
        (_, 0) => Ancillary::default(),
        (control, len) => Ancillary::read(control, len, socket.base())?,
    };
    let message = Outgoing {
        data: &mut Source::user(&pieces),
        to: to.filter(|to| to.len() > 0),
        ancillary,
        flags,
    };
    let wait = socket.send_wait(file, flags);
    send(socket, message, &wait)
}

/// sendmmsg(2)
pub fn sendmmsg(fd: i32, messages: usize, count: u32, flags: u32) -> Result<usize> {
    let target = socket_file(fd)?;
    let mut sent = 0;
    for at in 0..(count as usize).min(MAX_MESSAGES) {
        let message = messages.wrapping_add(at * MANY_STEP);
        let done = send_one(&target, message, flags)
            .and_then(|count| UserPtr::new(message + MANY_LEN).write(&(count as u32)));
        match done {
            Ok(()) => sent += 1,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(sent)
}

/// recvmsg(2)
pub fn recvmsg(fd: i32, message: usize, flags: u32) -> Result<usize> {
    receive_one(&socket_file(fd)?, message, flags)
}

fn receive_one((file, socket): &Target, message: usize, flags: u32) -> Result<usize> {
    let header = UserPtr::<Header>::new(message).read()?;
    if header.name != 0 && header.name_len < 0 {
        return Err(Errno::EINVAL);
    }
    let pieces = header.pieces()?;
    let wait = socket.receive_wait(file, flags);
    let received = socket.receive(&mut Sink::user(&pieces), flags, &wait)?;
    let close_on_exec = flags & MSG_CMSG_CLOEXEC;
    let mut control = Control::new(header.control, header.control_len);
    let (ancillary, options) = (&received.found.ancillary, &socket.base().options);
    let sent = received.flags & MSG_ERRQUEUE != 0;
    options
        .stamping
        .put(socket.base(), ancillary.arrived, sent, &mut control)?;
    control.put_ancillary(ancillary, options, close_on_exec != 0)?;
    socket.put_header(&received.found.ancillary.header, &mut control)?;
    if header.name != 0 {
        match sender(&received.found.from, &**socket) {
            Some(address) => address.write(header.name, message + AT_NAME_LEN)?,
            None => UserPtr::new(message + AT_NAME_LEN).write(&0u32)?,
        }
    }
    let shown = received.flags | control.flags | close_on_exec;
    UserPtr::new(message + AT_FLAGS).write(&shown)?;
    UserPtr::new(message + AT_CONTROL_LEN).write(&control.used())?;
    Ok(received.count)
}

/// recvmmsg(2)
pub fn recvmmsg(fd: i32, messages: usize, count: u32, flags: u32, timeout: usize) -> Result<usize> {
    let target = socket_file(fd)?;
    let deadline = Deadline::read::<Native>(timeout)?;
    let (mut got, mut flags) = (0, flags);
    let wait_for_one = flags & WAIT_FOR_ONE != 0;
    flags &= !WAIT_FOR_ONE;
    while got < (count as usize).min(MAX_MESSAGES) {
        let message = messages.wrapping_add(got * MANY_STEP);
        let done = receive_one(&target, message, flags)
            .and_then(|count| UserPtr::new(message + MANY_LEN).write(&(count as u32)));
        match done {
            Ok(()) => got += 1,
            Err(error) if got == 0 => return Err(error),
            Err(_) => break,
        }
        if wait_for_one {
            flags |= MSG_DONTWAIT;
        }
        // As on Linux the time is looked at after each message only.
        if deadline.0.is_some_and(|end| time::now_ticks() >= end) {
            break;
        }
    }
    Ok(got)
}
