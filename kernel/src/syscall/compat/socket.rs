//! Sockets: two calls that equal others without an address, and options with 32-bit times.

use linux_raw_sys::net::{
    SO_RCVTIMEO_NEW, SO_RCVTIMEO_OLD, SO_SNDTIMEO_NEW, SO_SNDTIMEO_OLD, SOL_SOCKET,
};

use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::syscall::layout::{Compat, Layout};
use crate::syscall::{sendmsg, socket};

pub fn send(fd: i32, buffer: usize, len: usize, flags: u32) -> Result<usize> {
    sendmsg::sendto(fd, buffer, len, flags, 0, 0)
}

pub fn recv(fd: i32, buffer: usize, len: usize, flags: u32) -> Result<usize> {
    sendmsg::recvfrom(fd, buffer, len, flags, 0, 0)
}

/// The 64-bit time limit option for a 32-bit one.
fn wide_limit(level: u32, name: u32) -> Option<u32> {
    match (level, name) {
        (SOL_SOCKET, SO_RCVTIMEO_OLD) => Some(SO_RCVTIMEO_NEW),
        (SOL_SOCKET, SO_SNDTIMEO_OLD) => Some(SO_SNDTIMEO_NEW),
        _ => None,
    }
}

pub fn setsockopt(fd: i32, level: u32, name: u32, value: usize, len: i32) -> Result<usize> {
    let Some(wide) = wide_limit(level, name) else {
        return socket::setsockopt(fd, level, name, value, len);
    };
    let (_, socket) = socket::socket_file(fd)?;
    if len < Compat::TIME as i32 {
        return Err(Errno::EINVAL);
    }
    let time = Compat::time(value)?;
    socket::set_option(&*socket, level, wide, zerocopy::IntoBytes::as_bytes(&time))
}

pub fn getsockopt(fd: i32, level: u32, name: u32, value: usize, len: usize) -> Result<usize> {
    let Some(wide) = wide_limit(level, name) else {
        return socket::getsockopt(fd, level, name, value, len);
    };
    let (_, socket) = socket::socket_file(fd)?;
    let room = usize::try_from(UserPtr::<i32>::new(len).read()?).map_err(|_| Errno::EINVAL)?;
    let bytes = crate::net::options::get(&*socket, wide, room)?;
    let (parts, _) = bytes.as_chunks();
    let mut narrow = [0; Compat::TIME];
    for (to, part) in narrow.chunks_mut(Compat::WORD).zip(parts) {
        to.copy_from_slice(&(i64::from_ne_bytes(*part) as i32).to_ne_bytes());
    }
    socket::put_option(&narrow, room, value, len)
}
