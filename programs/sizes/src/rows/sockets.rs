//! Sockets among many.

use std::io;
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{call, many, owned};

pub const ROWS: &[Row] = &[
    among(
        "udp_bind",
        10_000,
        udp_bind,
        "a UDP socket made, bound and closed among N",
    ),
    among(
        "udp_bind_any",
        10_000,
        udp_bind_any,
        "the same, to a port that the kernel chooses",
    ),
    among(
        "udp_send",
        10_000,
        udp_send,
        "a datagram to one of N sockets, and its reception",
    ),
    among(
        "tcp_connect",
        1_000,
        tcp_connect,
        "connect, accept and close beside N connections",
    ),
    among(
        "tcp_listen",
        1_000,
        tcp_listen,
        "a listening socket made and closed among N",
    ),
    among(
        "unix_bind",
        10_000,
        unix_bind,
        "an abstract name bound and closed among N",
    ),
    among(
        "unix_send",
        10_000,
        unix_send,
        "a datagram to one of N names, and its reception",
    ),
    among(
        "socketpair",
        10_000,
        socketpair,
        "socketpair and closes beside N",
    ),
];

const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The first port, below those that kernels choose.
const FIRST: usize = 10_000;

fn udp(index: usize) -> io::Result<UdpSocket> {
    UdpSocket::bind(SocketAddrV4::new(HOST, (FIRST + index) as u16))
}

fn udp_bind(meter: &mut Meter) -> Done {
    let size = meter.size();
    let _bound = many(size, udp)?;
    meter.repeat(EACH, |_| udp(size).map(drop))
}

fn udp_bind_any(meter: &mut Meter) -> Done {
    let any = || UdpSocket::bind(SocketAddrV4::new(HOST, 0));
    let _bound = many(meter.size(), |_| any())?;
    meter.repeat(EACH, |_| any().map(drop))
}

fn udp_send(meter: &mut Meter) -> Done {
    let bound = many(meter.size(), udp)?;
    let one = &bound[meter.size() / 2];
    let (sender, address) = (udp(meter.size())?, one.local_addr()?);
    let mut byte = [0];
    meter.repeat(EACH, |_| {
        sender.send_to(&byte, address)?;
        one.recv(&mut byte).map(drop)
    })
}

/// Closes a connection without TIME_WAIT.
fn reset(stream: TcpStream) -> Done {
    let now = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let (fd, bytes) = (stream.as_raw_fd(), size_of::<libc::linger>());
    let option = libc::SO_LINGER;
    call!(
        SYS_setsockopt,
        fd,
        libc::SOL_SOCKET,
        option,
        &raw const now,
        bytes
    )
    .map(drop)
}

fn tcp_connect(meter: &mut Meter) -> Done {
    let listener = TcpListener::bind(SocketAddrV4::new(HOST, FIRST as u16))?;
    let address = listener.local_addr()?;
    let connect = || -> io::Result<_> {
        let one = TcpStream::connect(address)?;
        Ok((one, listener.accept()?.0))
    };
    let _connected = many(meter.size(), |_| connect())?;
    meter.repeat(EACH, |_| {
        let (one, other) = connect()?;
        reset(one)?;
        drop(other);
        Ok(())
    })
}

fn tcp_listen(meter: &mut Meter) -> Done {
    let listen = |index: usize| TcpListener::bind(SocketAddrV4::new(HOST, (FIRST + index) as u16));
    let size = meter.size();
    let _listening = many(size, listen)?;
    meter.repeat(EACH, |_| listen(size).map(drop))
}

fn unix(index: usize) -> io::Result<UnixDatagram> {
    let address = SocketAddr::from_abstract_name(format!("sizes-{index}"))?;
    UnixDatagram::bind_addr(&address)
}

fn unix_bind(meter: &mut Meter) -> Done {
    let size = meter.size();
    let _bound = many(size, unix)?;
    meter.repeat(EACH, |_| unix(size).map(drop))
}

fn unix_send(meter: &mut Meter) -> Done {
    let bound = many(meter.size(), unix)?;
    let one = &bound[meter.size() / 2];
    let (sender, address) = (UnixDatagram::unbound()?, one.local_addr()?);
    let mut byte = [0];
    meter.repeat(EACH, |_| {
        sender.send_to_addr(&byte, &address)?;
        one.recv(&mut byte).map(drop)
    })
}

fn socketpair(meter: &mut Meter) -> Done {
    let make = || -> io::Result<[OwnedFd; 2]> {
        let mut fds = [0i32; 2];
        let (family, kind) = (libc::AF_UNIX, libc::SOCK_STREAM);
        call!(SYS_socketpair, family, kind, 0, fds.as_mut_ptr())?;
        Ok(fds.map(|fd| owned(fd as usize)))
    };
    let _open = many(meter.size(), |_| make())?;
    meter.repeat(EACH, |_| make().map(drop))
}
