//! Sending and receiving through sockets.

use super::layout::Layout;
use super::poll::Deadline;
use super::socket::socket_file;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::io::{IoVec, Sink, Source};
use crate::mm::user::UserPtr;
use crate::net::address::{Address, Name};
use crate::net::control_message::{Ancillary, Control};
use crate::net::inet::Over;
use crate::net::socket::{Outgoing, Socket, send};
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::net::*;

/// `struct msghdr`.
struct Header {
    name: usize,
    name_len: i32,
    pieces: usize,
    piece_count: usize,
    control: usize,
    control_len: usize,
}

/// The words of a `struct msghdr`, and of a `struct mmsghdr`, which adds the message's length.
const WORDS: usize = 7;
const MANY_WORDS: usize = WORDS + 1;
/// The indices of the fields that recvmsg writes.
const NAME_LEN: usize = 1;
const CONTROL_LEN: usize = 5;
const FLAGS: usize = 6;
/// The maximum number of messages in one call (`UIO_MAXIOV`), and of pieces in one message.
const MAX_MESSAGES: usize = 1024;
/// MSG_WAITFORONE: recvmmsg waits for the first message only.
const WAIT_FOR_ONE: u32 = 0x10000;

impl Header {
    fn read<L: Layout>(address: usize) -> Result<Self> {
        let [name, name_len, pieces, piece_count, control, control_len, _] =
            L::words::<WORDS>(address)?;
        Ok(Self {
            name,
            name_len: name_len as i32,
            pieces,
            piece_count,
            control,
            control_len,
        })
    }

    fn pieces<L: Layout>(&self) -> Result<Vec<IoVec>> {
        if self.piece_count > MAX_MESSAGES {
            return Err(Errno::EMSGSIZE);
        }
        super::file::pieces::<L>(self.pieces, self.piece_count)
    }
}

/// A socket, and its open file.
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
        // Other families refuse an address without a byte.
        to: to.filter(|to| to.len() > 0 || socket.base().domain != AF_UNIX),
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
pub fn sendmsg<L: Layout>(fd: i32, message: usize, flags: u32) -> Result<usize> {
    send_one::<L>(&socket_file(fd)?, message, flags).map(|(sent, _)| sent)
}

/// The number of bytes of a message that were sent, and that were left.
fn send_one<L: Layout>(
    (file, socket): &Target,
    message: usize,
    flags: u32,
) -> Result<(usize, usize)> {
    let header = Header::read::<L>(message)?;
    let to = if header.name == 0 {
        None
    } else {
        if header.name_len < 0 {
            return Err(Errno::EINVAL);
        }
        Some(Address::read(header.name, header.name_len.min(128) as u32)?)
    };
    let pieces = header.pieces::<L>()?;
    let ancillary = match (header.control, header.control_len) {
        (_, 0) => Ancillary::default(),
        (control, len) => {
            let over = Over::of(&**socket, to.as_ref());
            Ancillary::read(control, len, L::WORD, socket.base(), over)?
        }
    };
    let mut data = Source::user(&pieces);
    let len = data.left();
    let message = Outgoing {
        data: &mut data,
        to: to.filter(|to| to.len() > 0),
        ancillary,
        flags,
    };
    let wait = socket.send_wait(file, flags);
    let sent = send(socket, message, &wait)?;
    Ok((sent, len - sent.min(len)))
}

/// sendmmsg(2)
pub fn sendmmsg<L: Layout>(fd: i32, messages: usize, count: u32, flags: u32) -> Result<usize> {
    let target = socket_file(fd)?;
    let mut sent = 0;
    for at in 0..(count as usize).min(MAX_MESSAGES) {
        let message = messages.wrapping_add(at * MANY_WORDS * L::WORD);
        let done = send_one::<L>(&target, message, flags).and_then(|(count, left)| {
            UserPtr::new(message + WORDS * L::WORD).write(&(count as u32))?;
            Ok(left)
        });
        let left = match done {
            Ok(left) => left,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        };
        sent += 1;
        // The next message must not overtake the rest of this one.
        if left > 0 || cond_resched_killable().is_err() {
            break;
        }
    }
    Ok(sent)
}

/// recvmsg(2)
pub fn recvmsg<L: Layout>(fd: i32, message: usize, flags: u32) -> Result<usize> {
    receive_one::<L>(&socket_file(fd)?, message, flags)
}

fn receive_one<L: Layout>((file, socket): &Target, message: usize, flags: u32) -> Result<usize> {
    let header = Header::read::<L>(message)?;
    if header.name != 0 && header.name_len < 0 {
        return Err(Errno::EINVAL);
    }
    let pieces = header.pieces::<L>()?;
    let wait = socket.receive_wait(file, flags);
    let received = socket.receive(&mut Sink::user(&pieces), flags, &wait)?;
    let close_on_exec = flags & MSG_CMSG_CLOEXEC;
    let mut control = Control::new(header.control, header.control_len, L::WORD);
    let (ancillary, options) = (&received.found.ancillary, &socket.base().options);
    let sent = received.flags & MSG_ERRQUEUE != 0;
    options
        .stamping
        .put(socket.base(), ancillary.arrived, sent, &mut control)?;
    control.put_ancillary(ancillary, options)?;
    socket.put_header(&received.found, &mut control)?;
    control.put_passed(ancillary, socket.base(), close_on_exec != 0)?;
    if header.name != 0 {
        match sender(&received.found.from, &**socket) {
            Some(address) => address.write(header.name, message + NAME_LEN * L::WORD)?,
            None => UserPtr::new(message + NAME_LEN * L::WORD).write(&0u32)?,
        }
    }
    let shown = received.flags | control.flags | close_on_exec;
    UserPtr::new(message + FLAGS * L::WORD).write(&shown)?;
    L::put_words(message + CONTROL_LEN * L::WORD, &[control.used()])?;
    Ok(received.count)
}

/// recvmmsg(2)
pub fn recvmmsg<L: Layout>(
    fd: i32,
    messages: usize,
    count: u32,
    flags: u32,
    timeout: usize,
) -> Result<usize> {
    let deadline = Deadline::read::<L>(timeout)?;
    let target = socket_file(fd)?;
    let (mut got, mut flags) = (0, flags);
    let wait_for_one = flags & WAIT_FOR_ONE != 0;
    flags &= !WAIT_FOR_ONE;
    while got < (count as usize).min(MAX_MESSAGES) {
        let message = messages.wrapping_add(got * MANY_WORDS * L::WORD);
        let done = receive_one::<L>(&target, message, flags)
            .and_then(|count| UserPtr::new(message + WORDS * L::WORD).write(&(count as u32)));
        match done {
            Ok(()) => got += 1,
            Err(error) if got == 0 => return Err(error),
            Err(_) => break,
        }
        if wait_for_one {
            flags |= MSG_DONTWAIT;
        }
        // As on Linux, the time is only checked after each message.
        if deadline.0.is_some_and(|end| time::now_ticks() >= end)
            || cond_resched_killable().is_err()
        {
            break;
        }
    }
    Ok(got)
}
