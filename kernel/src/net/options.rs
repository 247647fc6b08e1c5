//! Options that every socket has (level SOL_SOCKET).

use super::RAW;
use super::address::Address;
use super::control_message::Credentials;
use super::filter::Filter;
use super::inet;
use super::interface::INDEX;
use super::socket::Socket;
use super::timestamping::Stamping;
use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::task::{can, clock, pidfd, require};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use linux_raw_sys::general::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_raw_sys::net::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The number of ancillary loads of a filter (SKF_AD_MAX).
const BPF_EXTENSIONS: u32 = 64;

/// The size of an interface's name (IFNAMSIZ).
const INTERFACE_NAME: usize = 16;

/// The default size of a new socket's buffers (`net.core.rmem_default`), and the maximum that can
/// be requested.
pub const DEFAULT_BUFFER: u32 = 212_992;
const MAX_BUFFER: u32 = 212_992;
/// The maximum of SO_RCVLOWAT for TCP (half of what `net.ipv4.tcp_rmem` allows).
const MAX_LOW_WATER: i32 = 3 << 20;
/// The seconds that Linux stores for negative ones (SO_LINGER): the maximum of its timers, at 250
/// ticks per second.
const LONGEST_LINGER: u64 = i64::MAX as u64 / 250;
/// The minimum size of a buffer (`SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`).
const MIN_SEND: u32 = 4608;
const MIN_RECEIVE: u32 = 2304;
/// Bits of `buffers_set`: the buffers that a program has set (`include/net/sock.h`).
const SOCK_SNDBUF_LOCK: u32 = 1;
const SOCK_RCVBUF_LOCK: u32 = 2;
const SOCK_BUF_LOCK_MASK: u32 = 3;

/// Options that are on or off, and are only stored unless something tests them.
const SWITCHES: [u32; 18] = [
    SO_DEBUG,
    SO_REUSEADDR,
    SO_DONTROUTE,
    SO_BROADCAST,
    SO_KEEPALIVE,
    SO_OOBINLINE,
    SO_NO_CHECK,
    SO_REUSEPORT,
    SO_PASSCRED,
    SO_PASSSEC,
    SO_PASSPIDFD,
    SO_RCVMARK,
    SO_RXQ_OVFL,
    SO_LOCK_FILTER,
    SO_SELECT_ERR_QUEUE,
    SO_WIFI_STATUS,
    SO_NOFCS,
    SO_PREFER_BUSY_POLL,
];

/// Options that are not switches.
const OTHERS: [u32; 47] = [
    SO_TYPE,
    SO_ERROR,
    SO_SNDBUF,
    SO_RCVBUF,
    SO_PRIORITY,
    SO_LINGER,
    SO_BSDCOMPAT,
    SO_PEERCRED,
    SO_RCVLOWAT,
    SO_SNDLOWAT,
    SO_RCVTIMEO_OLD,
    SO_SNDTIMEO_OLD,
    SO_BINDTODEVICE,
    SO_ATTACH_FILTER,
    SO_DETACH_FILTER,
    SO_PEERNAME,
    SO_TIMESTAMP_OLD,
    SO_ACCEPTCONN,
    SO_SNDBUFFORCE,
    SO_RCVBUFFORCE,
    SO_TIMESTAMPNS_OLD,
    SO_MARK,
    SO_TIMESTAMPING_OLD,
    SO_PROTOCOL,
    SO_DOMAIN,
    SO_PEEK_OFF,
    SO_BUSY_POLL,
    SO_MAX_PACING_RATE,
    SO_BPF_EXTENSIONS,
    SO_INCOMING_CPU,
    SO_MEMINFO,
    SO_INCOMING_NAPI_ID,
    SO_COOKIE,
    SO_PEERGROUPS,
    SO_BINDTOIFINDEX,
    SO_TIMESTAMP_NEW,
    SO_TIMESTAMPNS_NEW,
    SO_TIMESTAMPING_NEW,
    SO_RCVTIMEO_NEW,
    SO_SNDTIMEO_NEW,
    SO_PEERPIDFD,
    SO_BUF_LOCK,
    SO_TXREHASH,
    SO_BUSY_POLL_BUDGET,
    SO_RESERVE_MEM,
    SO_ATTACH_BPF,
    SO_ATTACH_REUSEPORT_EBPF,
];

/// The options.
pub struct Options {
    switches: AtomicU32,
    send_buffer: AtomicU32,
    receive_buffer: AtomicU32,
    /// In nanoseconds; 0 for ever.
    send_timeout: AtomicU64,
    receive_timeout: AtomicU64,
    /// Twice the seconds, plus one if the option is on.
    linger: AtomicU64,
    low_water: AtomicU32,
    priority: AtomicU32,
    mark: AtomicU32,
    busy_poll: AtomicU32,
    busy_poll_budget: AtomicU32,
    /// Whether a lost packet changes the hash of its flow, which has no effect here, since there is
    /// a single path.
    txrehash: AtomicU32,
    /// Whether the socket is bound to `lo`.
    device: AtomicBool,
    /// The timestamps of messages that are reported.
    pub stamping: Stamping,
    /// The buffers that a program has set: SOCK_SNDBUF_LOCK, SOCK_RCVBUF_LOCK.
    buffers_set: AtomicU32,
    /// The offset of peeks (SO_PEEK_OFF); if it is negative, peeks read from the first byte.
    peek_offset: AtomicI32,
    /// The CPU that handles received packets, as set by SO_INCOMING_CPU; negative for none.
    incoming_cpu: AtomicI32,
}

impl Options {
    /// The options of a new socket of the family `domain`.
    pub fn new(domain: u32) -> Self {
        let inet = inet::is_family(domain);
        Options {
            switches: AtomicU32::new(0),
            send_buffer: AtomicU32::new(DEFAULT_BUFFER),
            receive_buffer: AtomicU32::new(DEFAULT_BUFFER),
            send_timeout: AtomicU64::new(0),
            receive_timeout: AtomicU64::new(0),
            linger: AtomicU64::new(0),
            low_water: AtomicU32::new(1),
            priority: AtomicU32::new(0),
            mark: AtomicU32::new(0),
            busy_poll: AtomicU32::new(0),
            busy_poll_budget: AtomicU32::new(0),
            txrehash: AtomicU32::new(inet.into()),
            device: AtomicBool::new(false),
            stamping: Stamping::new(),
            buffers_set: AtomicU32::new(0),
            peek_offset: AtomicI32::new(-1),
            incoming_cpu: AtomicI32::new(-1),
        }
    }
}

const _: () = {
    let mut handled = [0; SWITCHES.len() + OTHERS.len()];
    let mut at = 0;
    while at < handled.len() {
        handled[at] = if at < SWITCHES.len() {
            SWITCHES[at] as u64
        } else {
            OTHERS[at - SWITCHES.len()] as u64
        };
        at += 1;
    }
    assert!(abi::options::SOCKET.is_handled_by(&handled));
};

/// `struct timeval`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct TimeVal {
    seconds: i64,
    microseconds: i64,
}

impl TimeVal {
    /// EDOM if it is invalid; a negative time means no wait.
    fn nanoseconds(self) -> Result<u64> {
        if !(0..1_000_000).contains(&self.microseconds) {
            return Err(Errno::EDOM);
        }
        if self.seconds < 0 {
            return Ok(1);
        }
        let ns = (self.seconds as u64).saturating_mul(1_000_000_000);
        Ok(ns.saturating_add(self.microseconds as u64 * 1000))
    }

    fn of(nanoseconds: u64) -> Self {
        TimeVal {
            seconds: (nanoseconds / 1_000_000_000) as i64,
            microseconds: (nanoseconds / 1000 % 1_000_000) as i64,
        }
    }
}

/// An option's value as a number; EINVAL if it is too short.
pub fn number(value: &[u8]) -> Result<i32> {
    let (number, _) = i32::read_from_prefix(value).map_err(|_| Errno::EINVAL)?;
    Ok(number)
}

/// A pidfd of the process at the other end (SO_PEERPIDFD).
///
/// # Errors
/// ENODATA: there is none; EINVAL: it no longer exists; ENOMEM.
pub fn peer_pidfd(socket: &dyn Socket) -> Result<Arc<File>> {
    let sender = socket.peer_credentials().ok_or(Errno::ENODATA)?.sender;
    let process = sender.process().ok_or(Errno::EINVAL)?;
    pidfd::file(process, None, 0)
}

/// The bytes of an option's value.
pub fn bytes<T: IntoBytes + Immutable>(value: T) -> Result<Vec<u8>> {
    copied(value.as_bytes())
}

/// A copy of an option's value of variable length.
fn copied(value: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(value.len())
        .map_err(|_| Errno::ENOMEM)?;
    bytes.extend_from_slice(value);
    Ok(bytes)
}

/// SO_MEMINFO: the bytes that wait to be read and their limit, those sent and their limit, and
/// those that TCP has not sent; the others are 0.
pub fn memory(socket: &dyn Socket) -> [u32; 9] {
    let options = &socket.base().options;
    let (received, sent) = socket.waiting().unwrap_or_default();
    let [receive, send] = [options.receive_buffer(), options.send_buffer()];
    let (sent, unsent) = match socket.base().protocol == IPPROTO_TCP as u32 {
        true => (0, sent),
        false => (sent, 0),
    };
    [received, receive, sent, send, 0, unsent, 0, 0, 0].map(|bytes| bytes as u32)
}

impl Options {
    fn bit(name: u32) -> Option<u32> {
        let at = SWITCHES.iter().position(|&switch| switch == name)?;
        Some(1 << at)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: u32) -> bool {
        Self::bit(name).is_some_and(|bit| self.switches.load(Acquire) & bit != 0)
    }

    /// Turns a switch on.
    pub fn turn_on(&self, name: u32) {
        let bit = Self::bit(name).unwrap_or(0);
        self.switches.fetch_or(bit, AcqRel);
    }

    /// Sets the sizes of the buffers.
    pub fn set_buffers(&self, send: u32, receive: u32) {
        self.send_buffer.store(send, Release);
        self.receive_buffer.store(receive, Release);
    }

    /// The number of bytes that may wait to be read from a peer's socket.
    pub fn send_buffer(&self) -> usize {
        self.send_buffer.load(Acquire) as usize
    }

    /// The number of bytes that may wait to be read here.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer.load(Acquire) as usize
    }

    /// The program's setting of how many bytes may be sent and not acknowledged: half of SO_SNDBUF,
    /// since on Linux the rest is for overhead.
    pub fn chosen_send_buffer(&self) -> Option<usize> {
        let is_set = self.buffers_set.load(Acquire) & SOCK_SNDBUF_LOCK != 0;
        is_set.then(|| self.send_buffer() / 2)
    }

    /// The same for the bytes that may wait to be read (SO_RCVBUF).
    pub fn chosen_receive_buffer(&self) -> Option<usize> {
        let is_set = self.buffers_set.load(Acquire) & SOCK_RCVBUF_LOCK != 0;
        is_set.then(|| self.receive_buffer() / 2)
    }

    /// The timeout of a send, in nanoseconds; 0 for ever.
    pub fn send_timeout(&self) -> u64 {
        self.send_timeout.load(Acquire)
    }

    /// The timeout of a receive, in nanoseconds; 0 for ever.
    pub fn receive_timeout(&self) -> u64 {
        self.receive_timeout.load(Acquire)
    }

    /// The number of bytes that a receive with `flags` skips: a peek skips those of SO_PEEK_OFF.
    pub fn peek_skip(&self, flags: u32) -> usize {
        match flags & MSG_PEEK {
            0 => 0,
            _ => self.peek_offset.load(Acquire).max(0) as usize,
        }
    }

    /// A receive with `flags` has passed `count` bytes: updates SO_PEEK_OFF.
    pub fn went_past(&self, flags: u32, count: usize) {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let moved = |offset: i32| match flags & MSG_PEEK {
            0 => (offset - count).max(0),
            _ => offset.saturating_add(count),
        };
        if self.peek_offset.load(Relaxed) >= 0 {
            let change = |offset: i32| (offset >= 0).then(|| moved(offset));
            _ = self.peek_offset.fetch_update(AcqRel, Acquire, change);
        }
    }

    /// Whether a program set the CPU that handles received packets.
    pub fn prefers_cpu(&self) -> bool {
        self.incoming_cpu.load(Relaxed) >= 0
    }

    /// Whether a program set this CPU for that.
    pub fn prefers_this_cpu(&self) -> bool {
        let cpu = self.incoming_cpu.load(Relaxed);
        cpu >= 0 && cpu as usize == cpu::this().index()
    }

    /// The time that a close waits for sent bytes to arrive, in nanoseconds (SO_LINGER).
    pub fn linger(&self) -> Option<u64> {
        let linger = self.linger.load(Acquire);
        (linger & 1 != 0 && linger > 1).then(|| (linger >> 1).saturating_mul(clock::SECOND))
    }

    /// Whether SO_LINGER is set with a time of 0, so that a close resets the connection.
    pub fn resets(&self) -> bool {
        self.linger.load(Acquire) == 1
    }

    /// Sets the priority of sent packets (SO_PRIORITY), without checking the caller's rights.
    pub fn set_priority(&self, priority: u32) {
        self.priority.store(priority, Release);
    }

    /// The mark of sent packets (SO_MARK).
    pub fn mark(&self) -> u32 {
        self.mark.load(Acquire)
    }

    /// Whether it only uses packets of `lo` (SO_BINDTODEVICE).
    pub fn stays_inside(&self) -> bool {
        self.device.load(Acquire)
    }

    /// The minimum number of bytes that a receive waits for (SO_RCVLOWAT).
    pub fn low_water(&self) -> usize {
        self.low_water.load(Acquire) as usize
    }

    /// Whether the sender's credentials are requested (SO_PASSCRED).
    pub fn wants_credentials(&self) -> bool {
        self.is_on(SO_PASSCRED) || self.is_on(SO_PASSPIDFD)
    }

    /// Copies the options that an accepted TCP socket inherits from the listening one: all that are
    /// stored for connections, except the priority and the control messages (Linux's
    /// `sk_clone_lock`).
    pub fn inherit_all(&self, from: &Options) {
        let kept = from.switches.load(Acquire) & !Self::passed();
        self.switches.store(kept, Release);
        let numbers = [
            (&self.send_buffer, &from.send_buffer),
            (&self.receive_buffer, &from.receive_buffer),
            (&self.low_water, &from.low_water),
            (&self.mark, &from.mark),
            (&self.busy_poll, &from.busy_poll),
            (&self.busy_poll_budget, &from.busy_poll_budget),
            (&self.txrehash, &from.txrehash),
        ];
        self.stamping.inherit(&from.stamping);
        for (own, given) in numbers {
            own.store(given.load(Acquire), Release);
        }
        let times = [
            (&self.send_timeout, &from.send_timeout),
            (&self.receive_timeout, &from.receive_timeout),
            (&self.linger, &from.linger),
        ];
        for (own, given) in times {
            own.store(given.load(Acquire), Release);
        }
        self.device.store(from.device.load(Acquire), Release);
    }

    /// Copies the options that an accepted Unix socket inherits from the listening one: its control
    /// messages (Linux's `unix_sock_inherit_flags`).
    pub fn inherit_passed(&self, from: &Options) {
        let passed = from.switches.load(Acquire) & Self::passed();
        self.switches.store(passed, Release);
    }

    /// The switches for control messages.
    fn passed() -> u32 {
        let names = [SO_PASSCRED, SO_PASSSEC, SO_PASSPIDFD];
        names.into_iter().filter_map(Self::bit).sum()
    }
}

/// setsockopt(SOL_SOCKET)
pub fn set(socket: &dyn Socket, name: u32, value: &[u8]) -> Result<()> {
    let options = &socket.base().options;
    if name != SO_BINDTODEVICE {
        number(value)?;
    }
    check_privilege(socket, name, value)?;
    if let Some(bit) = Options::bit(name) {
        set_switch(socket, name, bit, number(value)? != 0)?;
        socket.options_changed();
        return Ok(());
    }
    match name {
        SO_SNDBUF | SO_SNDBUFFORCE => {
            let size = buffer_size(number(value)?, name == SO_SNDBUFFORCE, MIN_SEND)?;
            options.send_buffer.store(size, Release);
            options.buffers_set.fetch_or(SOCK_SNDBUF_LOCK, AcqRel);
        }
        SO_RCVBUF | SO_RCVBUFFORCE => {
            let size = buffer_size(number(value)?, name == SO_RCVBUFFORCE, MIN_RECEIVE)?;
            options.receive_buffer.store(size, Release);
            options.buffers_set.fetch_or(SOCK_RCVBUF_LOCK, AcqRel);
        }
        SO_BUF_LOCK => {
            let which = number(value)? as u32;
            if which & !SOCK_BUF_LOCK_MASK != 0 {
                return Err(Errno::EINVAL);
            }
            options.buffers_set.store(which, Release);
        }
        SO_PEEK_OFF => {
            let offset = number(value)?;
            check_peek_offset(socket)?;
            options.peek_offset.store(offset, Release);
        }
        SO_INCOMING_CPU => {
            options.incoming_cpu.store(number(value)?, Release);
            socket.set_incoming_cpu();
        }
        SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW => {
            options.receive_timeout.store(timeout(value)?, Release);
        }
        SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW => {
            options.send_timeout.store(timeout(value)?, Release);
        }
        SO_LINGER => match linger(value)? {
            Some(seconds) => options.linger.store(seconds << 1 | 1, Release),
            None => _ = options.linger.fetch_and(!1, AcqRel),
        },
        SO_BSDCOMPAT => {}
        SO_RCVLOWAT => {
            let least = low_water(socket, number(value)?);
            options.low_water.store(least, Release);
        }
        SO_TIMESTAMP_OLD | SO_TIMESTAMPNS_OLD | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW => {
            options.stamping.set_arrival(name, number(value)? != 0);
        }
        SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW => options.stamping.set(socket, name, value)?,
        SO_PRIORITY => options.priority.store(number(value)? as u32, Release),
        SO_MARK => options.mark.store(number(value)? as u32, Release),
        SO_BUSY_POLL if number(value)? < 0 => return Err(Errno::EINVAL),
        SO_BUSY_POLL => options.busy_poll.store(number(value)? as u32, Release),
        SO_BUSY_POLL_BUDGET => {
            let budget = u16::try_from(number(value)?).map_err(|_| Errno::EINVAL)?;
            options.busy_poll_budget.store(budget.into(), Release);
        }
        SO_RESERVE_MEM if number(value)? < 0 => return Err(Errno::EINVAL),
        // The error without a memory control group.
        SO_RESERVE_MEM => return Err(Errno::EOPNOTSUPP),
        SO_TXREHASH => {
            let rehash = match number(value)? {
                -1 => 1,
                rehash @ 0..=1 => rehash as u32,
                _ => return Err(Errno::EINVAL),
            };
            options.txrehash.store(rehash, Release);
        }
        SO_BINDTODEVICE => {
            let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
            let bound = match name {
                b"" => false,
                b"lo" => true,
                _ => return Err(Errno::ENODEV),
            };
            options.device.store(bound, Release);
        }
        SO_BINDTOIFINDEX => {
            let bound = match number(value)? {
                ..0 => return Err(Errno::EINVAL),
                0 => false,
                index if index as u32 == INDEX => true,
                _ => return Err(Errno::ENODEV),
            };
            options.device.store(bound, Release);
        }
        SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_EBPF if value.len() != size_of::<u32>() => {
            return Err(Errno::EINVAL);
        }
        SO_DETACH_FILTER | SO_ATTACH_FILTER | SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_EBPF
            if options.is_on(SO_LOCK_FILTER) =>
        {
            return Err(Errno::EPERM);
        }
        // The error without CONFIG_BPF_SYSCALL.
        SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_EBPF => return Err(Errno::EOPNOTSUPP),
        SO_DETACH_FILTER => {
            let old = change_filter(socket, None)?;
            old.ok_or(Errno::ENOENT)?;
        }
        SO_ATTACH_FILTER => {
            let filter = Filter::read(value, socket.base())?;
            let old = change_filter(socket, Some(filter))?;
            drop(old);
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    socket.options_changed();
    Ok(())
}

/// Sets a switch, whose bit is `bit`.
fn set_switch(socket: &dyn Socket, name: u32, bit: u32, on: bool) -> Result<()> {
    let base = socket.base();
    if on && name == SO_REUSEPORT && !inet::is_family(base.domain) {
        return Err(Errno::EOPNOTSUPP);
    }
    // The filter's lock is held, so that the filter cannot change after it is locked.
    let filter = (name == SO_LOCK_FILTER).then(|| base.reader.filter.lock());
    match on {
        true => base.options.switches.fetch_or(bit, AcqRel),
        false => base.options.switches.fetch_and(!bit, AcqRel),
    };
    drop(filter);
    Ok(())
}

/// The seconds of a `struct linger` that is on.
fn linger(value: &[u8]) -> Result<Option<u64>> {
    let ([on, seconds], _) = <[i32; 2]>::read_from_prefix(value).map_err(|_| Errno::EINVAL)?;
    let seconds = seconds.try_into().unwrap_or(LONGEST_LINGER);
    Ok((on != 0).then_some(seconds))
}

/// The number of bytes from which a socket is readable, if a program sets `least`.
fn low_water(socket: &dyn Socket, least: i32) -> u32 {
    let least = match least {
        0 => 1,
        ..0 => i32::MAX,
        least => least,
    };
    let tcp = socket.base().protocol == IPPROTO_TCP as u32;
    let least = if tcp { least.min(MAX_LOW_WATER) } else { least };
    least as u32
}

/// Replaces the filter of a socket, unless it is locked; returns the old one.
fn change_filter(socket: &dyn Socket, filter: Option<Arc<Filter>>) -> Result<Option<Arc<Filter>>> {
    let base = socket.base();
    let mut place = base.reader.filter.lock();
    if base.options.is_on(SO_LOCK_FILTER) {
        return Err(Errno::EPERM);
    }
    Ok(mem::replace(&mut *place, filter))
}

/// Checks the rights for options that need them: EPERM, or EACCES for SO_DEBUG.
fn check_privilege(socket: &dyn Socket, name: u32, value: &[u8]) -> Result<()> {
    let options = &socket.base().options;
    let admin = || can(CAP_NET_RAW) || can(CAP_NET_ADMIN);
    let given = number(value);
    let may = match name {
        SO_DEBUG if given? != 0 => return require(CAP_NET_ADMIN).or(Err(Errno::EACCES)),
        SO_PRIORITY => (0..=6).contains(&given?) || admin(),
        SO_PREFER_BUSY_POLL => given? == 0 || can(CAP_NET_ADMIN),
        SO_BUSY_POLL_BUDGET => {
            let now = options.busy_poll_budget.load(Acquire);
            given? <= now as i32 || can(CAP_NET_ADMIN)
        }
        SO_MARK | SO_RCVMARK => admin(),
        SO_LOCK_FILTER => given? != 0 || !options.is_on(SO_LOCK_FILTER),
        SO_BINDTODEVICE | SO_BINDTOIFINDEX => !options.device.load(Acquire) || can(CAP_NET_RAW),
        _ => true,
    };
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// EOPNOTSUPP for a socket whose peeks always begin at the first byte.
fn check_peek_offset(socket: &dyn Socket) -> Result<()> {
    let base = socket.base();
    let ported = base.protocol == IPPROTO_TCP as u32 || inet::is_udp(base.protocol);
    let inet = inet::is_family(base.domain) && base.kind != RAW && ported;
    if inet || base.domain == AF_UNIX {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

/// Twice the requested size, as on Linux.
fn buffer_size(asked: i32, forced: bool, least: u32) -> Result<u32> {
    if forced && !can(CAP_NET_ADMIN) {
        return Err(Errno::EPERM);
    }
    let most = if forced {
        i32::MAX as u32 / 2
    } else {
        MAX_BUFFER
    };
    let asked = if asked < 0 && forced { 0 } else { asked as u32 };
    Ok((asked.min(most) * 2).max(least))
}

fn timeout(value: &[u8]) -> Result<u64> {
    let (time, _) = TimeVal::read_from_prefix(value).map_err(|_| Errno::EINVAL)?;
    time.nanoseconds()
}

/// getsockopt(SOL_SOCKET), for a buffer of `room` bytes.
pub fn get(socket: &dyn Socket, name: u32, room: usize) -> Result<Vec<u8>> {
    let base = socket.base();
    let options = &base.options;
    if Options::bit(name).is_some() {
        return bytes(u32::from(options.is_on(name)));
    }
    match name {
        SO_BSDCOMPAT => bytes(0u32),
        SO_TYPE => bytes(base.kind),
        SO_DOMAIN => bytes(base.domain),
        SO_PROTOCOL => bytes(base.protocol),
        SO_ERROR => bytes(socket.take_error().map_or(0, |error| u32::from(error.0))),
        SO_ACCEPTCONN => bytes(u32::from(socket.is_listening())),
        SO_SNDBUF => bytes(options.send_buffer.load(Acquire)),
        SO_RCVBUF => bytes(options.receive_buffer.load(Acquire)),
        SO_RCVLOWAT => bytes(options.low_water.load(Acquire)),
        SO_SNDLOWAT => bytes(1u32),
        SO_PRIORITY => bytes(options.priority.load(Acquire)),
        SO_MARK => bytes(options.mark.load(Acquire)),
        SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW => bytes(TimeVal::of(options.receive_timeout())),
        SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW => bytes(TimeVal::of(options.send_timeout())),
        SO_LINGER => {
            let linger = options.linger.load(Acquire);
            bytes([(linger & 1) as u32, (linger >> 1) as u32])
        }
        SO_PEERCRED => bytes(
            socket
                .peer_credentials()
                .map_or(Credentials::NONE, |peer| peer.sender.who),
        ),
        SO_PEERGROUPS => copied(
            socket
                .peer_credentials()
                .ok_or(Errno::ENODATA)?
                .groups
                .as_bytes(),
        ),
        SO_PEERNAME => {
            let name = socket.peer().map_err(|_| Errno::ENOTCONN)?;
            let address = Address::of(&name, base.domain);
            if address.len() < room {
                return Err(Errno::EINVAL);
            }
            copied(address.bytes())
        }
        SO_BINDTODEVICE if options.device.load(Acquire) && room < INTERFACE_NAME => {
            Err(Errno::EINVAL)
        }
        SO_BINDTODEVICE if options.device.load(Acquire) => bytes(*b"lo\0"),
        SO_BINDTODEVICE => Ok(Vec::new()),
        SO_BINDTOIFINDEX if options.device.load(Acquire) => bytes(INDEX),
        SO_BINDTOIFINDEX => bytes(0u32),
        SO_ATTACH_FILTER => match socket.base().reader.filter.lock().clone() {
            Some(filter) => filter.bytes(),
            None => Ok(Vec::new()),
        },
        SO_BUF_LOCK => bytes(options.buffers_set.load(Acquire)),
        SO_PEEK_OFF => {
            check_peek_offset(socket)?;
            bytes(options.peek_offset.load(Acquire))
        }
        SO_BUSY_POLL => bytes(options.busy_poll.load(Acquire)),
        SO_TXREHASH => bytes(options.txrehash.load(Acquire)),
        SO_TIMESTAMP_OLD | SO_TIMESTAMPNS_OLD | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW => {
            bytes(u32::from(options.stamping.has_arrival(name)))
        }
        SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW => bytes([options.stamping.get(name), 0]),
        SO_MEMINFO => bytes(memory(socket)),
        SO_BPF_EXTENSIONS => bytes(BPF_EXTENSIONS),
        SO_MAX_PACING_RATE => bytes(u64::MAX),
        SO_COOKIE => bytes(base.number),
        SO_INCOMING_CPU => {
            let given = || options.incoming_cpu.load(Acquire);
            bytes(socket.incoming_cpu().map_or_else(given, |cpu| cpu as i32))
        }
        SO_INCOMING_NAPI_ID | SO_RESERVE_MEM => bytes(0u32),
        _ => Err(Errno::ENOPROTOOPT),
    }
}
