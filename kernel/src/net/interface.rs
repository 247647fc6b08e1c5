//! The interfaces: there is `lo` alone, which is always up and has 127.0.0.1/8 and ::1.

use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::require;
use core::net::Ipv4Addr;
use linux_raw_sys::general::CAP_NET_ADMIN;
use linux_raw_sys::ioctl::*;
use linux_raw_sys::net::AF_INET;

/// The name of the interface, padded as in `struct ifreq`, and its index.
pub const NAME: [u8; 16] = *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
pub const INDEX: u32 = 1;
/// IFF_UP, IFF_LOOPBACK and IFF_RUNNING.
pub const FLAGS: u32 = 0x49;
/// The flags that can be changed elsewhere: IFF_UP, IFF_DEBUG, IFF_NOTRAILERS, IFF_NOARP,
/// IFF_PROMISC, IFF_ALLMULTI, IFF_MULTICAST, IFF_PORTSEL, IFF_AUTOMEDIA and IFF_DYNAMIC.
const CHANGEABLE: u32 = 0xf3a5;
/// The longest packet, and the length of the queue.
pub const MTU: u32 = 65536;
pub const QUEUE: u32 = 1000;
/// The kind of its hardware (ARPHRD_LOOPBACK).
pub const HARDWARE: u16 = 772;
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 0, 0, 0);
/// The operations that begin with the interface's name.
const NAMED: [u32; 13] = [
    SIOCGIFFLAGS,
    SIOCSIFFLAGS,
    SIOCGIFADDR,
    SIOCSIFADDR,
    SIOCGIFDSTADDR,
    SIOCGIFBRDADDR,
    SIOCGIFNETMASK,
    SIOCSIFNETMASK,
    SIOCGIFMETRIC,
    SIOCGIFMTU,
    SIOCGIFHWADDR,
    SIOCGIFINDEX,
    SIOCGIFTXQLEN,
];
const _: () = {
    let mut handled = [0; NAMED.len() + 2];
    let mut at = 0;
    while at < NAMED.len() {
        handled[at] = NAMED[at] as u64;
        at += 1;
    }
    handled[at] = SIOCGIFNAME as u64;
    handled[at + 1] = SIOCGIFCONF as u64;
    assert!(abi::options::INTERFACE.is_handled_by(&handled));
};
/// `sizeof(struct ifreq)`: a name, and 24 bytes of what is asked for.
const REQUEST: usize = 40;
const ASKED: usize = 16;

/// Control operations on interfaces.
pub fn ioctl(request: u32, argument: usize) -> Result<usize> {
    let asked = argument.wrapping_add(ASKED);
    if request == SIOCGIFCONF {
        // `struct ifconf` has a length, and the address of as many bytes.
        let room = UserPtr::<i32>::new(argument).read()?;
        let to = UserPtr::<usize>::new(argument.wrapping_add(8)).read()?;
        let len = configuration(room, to, REQUEST)?;
        return UserPtr::new(argument).write(&(len as i32)).map(|()| 0);
    }
    if request == SIOCGIFNAME {
        return match UserPtr::<u32>::new(asked).read()? {
            INDEX => UserPtr::new(argument).write(&NAME).map(|()| 0),
            _ => Err(Errno::ENODEV),
        };
    }
    if !NAMED.contains(&request) {
        return Err(Errno::ENOTTY);
    }
    let name = UserPtr::<[u8; 16]>::new(argument).read()?;
    match request {
        SIOCSIFFLAGS => require(CAP_NET_ADMIN)?,
        SIOCSIFADDR | SIOCSIFNETMASK => {
            require(CAP_NET_ADMIN)?;
            let family = UserPtr::<u16>::new(asked).read()?;
            if u32::from(family) != AF_INET {
                return Err(Errno::EINVAL);
            }
        }
        _ => {}
    }
    if !name.starts_with(b"lo\0") {
        return Err(Errno::ENODEV);
    }
    match request {
        SIOCGIFFLAGS => UserPtr::new(asked).write(&(FLAGS as u16))?,
        SIOCGIFADDR | SIOCGIFDSTADDR => UserPtr::new(asked).write(&v4(Ipv4Addr::LOCALHOST))?,
        SIOCGIFBRDADDR => UserPtr::new(asked).write(&v4(Ipv4Addr::UNSPECIFIED))?,
        SIOCGIFNETMASK => UserPtr::new(asked).write(&v4(NETMASK))?,
        SIOCGIFMETRIC => UserPtr::new(asked).write(&0u32)?,
        SIOCGIFMTU => UserPtr::new(asked).write(&MTU)?,
        SIOCGIFINDEX => UserPtr::new(asked).write(&INDEX)?,
        SIOCGIFTXQLEN => UserPtr::new(asked).write(&QUEUE)?,
        SIOCGIFHWADDR => {
            let mut address = [0u8; 16];
            address[..2].copy_from_slice(&HARDWARE.to_ne_bytes());
            UserPtr::new(asked).write(&address)?;
        }
        SIOCSIFFLAGS => check_flags(UserPtr::<u16>::new(asked).read()?.into())?,
        SIOCSIFADDR => check_address(asked, Ipv4Addr::LOCALHOST)?,
        _ => check_address(asked, NETMASK)?,
    }
    Ok(0)
}

/// EOPNOTSUPP for flags that the interface does not have: it is as it is.
pub fn check_flags(wanted: u32) -> Result<()> {
    match (wanted ^ FLAGS) & CHANGEABLE {
        0 => Ok(()),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// EOPNOTSUPP for an address at `asked` that is not the interface's own.
fn check_address(asked: usize, own: Ipv4Addr) -> Result<()> {
    let given = UserPtr::<[u8; 16]>::new(asked).read()?;
    match given[4..8] == own.octets() {
        true => Ok(()),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// `struct sockaddr_in` without a port.
fn v4(ip: Ipv4Addr) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
    address[4..8].copy_from_slice(&ip.octets());
    address
}

/// SIOCGIFCONF: writes the interfaces to where the program has `room` bytes for structures of
/// `request` bytes; how many bytes that is, or would be.
///
/// # Errors
/// EFAULT.
pub fn configuration(room: i32, to: usize, request: usize) -> Result<usize> {
    if to == 0 {
        return Ok(request);
    }
    if room < request as i32 {
        return Ok(0);
    }
    UserPtr::new(to).write(&NAME)?;
    UserPtr::new(to.wrapping_add(ASKED)).write(&v4(Ipv4Addr::LOCALHOST))?;
    let rest = request - 2 * ASKED;
    UserSlice::new(to.wrapping_add(2 * ASKED), rest).copy_out(&[0; ASKED][..rest])?;
    Ok(request)
}
