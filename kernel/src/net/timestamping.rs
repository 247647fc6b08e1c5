//! Timestamps of messages: which of them a socket's options ask for (SO_TIMESTAMP and its kin,
//! SO_TIMESTAMPING), and how they are reported (Linux's Documentation/networking/timestamping.rst).

use super::control_message::Control;
use super::inet::tcp::{CLOSED, LISTENS};
use super::socket::{Base, Socket};
use super::{STREAM, options::number};
use crate::errno::{Errno, Result};
use crate::fs::inode::Time;
use core::sync::atomic::{AtomicU32, Ordering::*};
use linux_raw_sys::net::*;

/// SOF_TIMESTAMPING_ flags (`include/uapi/linux/net_tstamp.h`).
const TX_HARDWARE: u32 = 1 << 0;
const TX_SOFTWARE: u32 = 1 << 1;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const OPT_CMSG: u32 = 1 << 10;
const OPT_TSONLY: u32 = 1 << 11;
const OPT_STATS: u32 = 1 << 12;
const BIND_PHC: u32 = 1 << 15;
const OPT_ID_TCP: u32 = 1 << 16;
const OPT_RX_FILTER: u32 = 1 << 17;
/// All known flags, some of which only hardware would honour. TCP statistics are not supported.
const KNOWN: u32 = 0x3_ffff & !OPT_STATS;
/// Flags that a control message may set for a single message (`SOF_TIMESTAMPING_TX_RECORD_MASK`).
const FOR_ONE: u32 = TX_HARDWARE | TX_SOFTWARE | TX_SCHED | TX_ACK;

/// Bits of `asked`: report the time of arrival, in ns, by the newer name (Linux's SOCK_RCVTSTAMP,
/// SOCK_RCVTSTAMPNS and SOCK_TSTAMP_NEW).
const ARRIVAL: u32 = 1;
const NANOSECONDS: u32 = 2;
const NEW: u32 = 4;

/// The moments of a sent message (`SCM_TSTAMP_*`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The message was passed to the network.
    Sent = 0,
    /// The message was queued to be sent.
    Queued = 1,
    /// The other end has received the message.
    Acknowledged = 2,
}

/// The timestamps that a program requested for a sent message.
#[derive(Clone, Copy)]
pub struct Asked {
    flags: u32,
    /// The number by which the program identifies the message (SOF_TIMESTAMPING_OPT_ID).
    pub key: u32,
}

impl Asked {
    /// Whether the program gets the packet along with the timestamp.
    pub fn quotes(&self) -> bool {
        self.flags & OPT_TSONLY == 0
    }

    /// Whether the program also gets the control messages that its options request.
    pub fn reports_header(&self) -> bool {
        self.flags & OPT_CMSG != 0
    }

    /// The requested moments, in order. Only a connection knows whether data has arrived.
    pub fn moments(self, connection: bool) -> impl Iterator<Item = Moment> {
        let all = [
            (TX_SCHED, Moment::Queued),
            (TX_SOFTWARE, Moment::Sent),
            (TX_ACK, Moment::Acknowledged),
        ];
        let asked = all
            .into_iter()
            .filter(move |(flag, _)| self.flags & flag != 0);
        asked
            .map(|(_, moment)| moment)
            .filter(move |&moment| connection || moment != Moment::Acknowledged)
    }
}

/// The flags that a control message sets for a single message. EINVAL for any others.
pub fn for_one(data: &[u8]) -> Result<u32> {
    let flags = <[u8; 4]>::try_from(data).map(u32::from_ne_bytes);
    let flags = flags.map_err(|_| Errno::EINVAL)?;
    if flags & !FOR_ONE == 0 {
        Ok(flags)
    } else {
        Err(Errno::EINVAL)
    }
}

/// The timestamps that a socket's options request.
pub struct Stamping {
    asked: AtomicU32,
    /// SOF_TIMESTAMPING_ flags.
    flags: AtomicU32,
    /// The key of the next datagram; for TCP, the number of bytes from which keys count.
    key: AtomicU32,
}

impl Stamping {
    /// No timestamps.
    pub const fn new() -> Self {
        Stamping {
            asked: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            key: AtomicU32::new(0),
        }
    }

    /// Copies the settings of a listening socket.
    pub fn inherit(&self, from: &Stamping) {
        let pairs = [
            (&self.asked, &from.asked),
            (&self.flags, &from.flags),
            (&self.key, &from.key),
        ];
        for (own, given) in pairs {
            own.store(given.load(Acquire), Release);
        }
    }

    /// SO_TIMESTAMP and its kin: turns reports of arrival times on or off.
    pub fn set_arrival(&self, name: u32, on: bool) {
        let nanoseconds = matches!(name, SO_TIMESTAMPNS_OLD | SO_TIMESTAMPNS_NEW);
        let new = matches!(name, SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW);
        let asked = match on {
            true => ARRIVAL | if nanoseconds { NANOSECONDS } else { 0 } | if new { NEW } else { 0 },
            false => self.asked.load(Acquire) & NEW,
        };
        self.asked.store(asked, Release);
    }

    /// Whether SO_TIMESTAMP or its kin is on under this name. As on Linux, the unit of the newer
    /// name does not matter.
    pub fn has_arrival(&self, name: u32) -> bool {
        let asked = self.asked.load(Acquire);
        let newer = name == SO_TIMESTAMP_NEW && asked & NEW != 0;
        asked & ARRIVAL != 0 && (newer || self.arrival_name() == name)
    }

    fn arrival_name(&self) -> u32 {
        let asked = self.asked.load(Acquire);
        match (asked & NANOSECONDS != 0, asked & NEW != 0) {
            (false, false) => SO_TIMESTAMP_OLD,
            (false, true) => SO_TIMESTAMP_NEW,
            (true, false) => SO_TIMESTAMPNS_OLD,
            (true, true) => SO_TIMESTAMPNS_NEW,
        }
    }

    /// Sets SO_TIMESTAMPING, by either of its names.
    ///
    /// # Errors
    /// EINVAL: invalid flags, or a count of bytes without a connection. EOPNOTSUPP: the clock of a
    /// device.
    pub fn set(&self, socket: &dyn Socket, name: u32, value: &[u8]) -> Result<()> {
        let flags = number(value)? as u32;
        if flags & !KNOWN != 0 || flags & (OPT_ID_TCP | OPT_ID) == OPT_ID_TCP {
            return Err(Errno::EINVAL);
        }
        let old = self.flags.load(Acquire);
        if flags & OPT_ID != 0 && old & OPT_ID == 0 {
            self.key.store(first_key(socket, flags)?, Release);
        }
        if flags & BIND_PHC != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        self.flags.store(flags, Release);
        let asked = self.asked.load(Acquire) & !NEW;
        let new = if name == SO_TIMESTAMPING_NEW { NEW } else { 0 };
        self.asked.store(asked | new, Release);
        Ok(())
    }

    /// The flags as the option `name` returns them.
    pub fn get(&self, name: u32) -> u32 {
        let reported = name == SO_TIMESTAMPING_OLD || self.asked.load(Acquire) & NEW != 0;
        if reported {
            self.flags.load(Acquire)
        } else {
            0
        }
    }

    /// Whether SO_TIMESTAMP or SO_TIMESTAMPNS requests arrival times.
    pub fn asks_arrival(&self) -> bool {
        self.asked.load(Acquire) & ARRIVAL != 0
    }

    /// Whether arrival times must be recorded.
    pub fn wants_arrival(&self) -> bool {
        self.asks_arrival() || self.flags.load(Acquire) & RX_SOFTWARE != 0
    }

    /// The timestamps to report for a sent message whose control message requested `one`.
    #[inline]
    pub fn of_sent(&self, one: Option<u32>) -> Option<Asked> {
        let flags = self.flags.load(Acquire);
        let flags = one.map_or(flags, |one| flags & !FOR_ONE | one);
        let sent = flags & FOR_ONE != 0;
        sent.then_some(Asked { flags, key: 0 })
    }

    /// The timestamps to report for a datagram, which has a key of its own.
    #[inline]
    pub fn of_datagram(&self, one: Option<u32>) -> Option<Asked> {
        let asked = self
            .of_sent(one)
            .filter(|asked| asked.flags & FOR_ONE & !TX_ACK != 0)?;
        Some(match asked.flags & OPT_ID {
            0 => asked,
            _ => Asked {
                key: self.key.fetch_add(1, AcqRel),
                ..asked
            },
        })
    }

    /// The timestamps to report for bytes of a connection to which `written` bytes were ever
    /// written.
    #[cold]
    pub fn of_bytes(&self, asked: Asked, written: u64) -> Asked {
        let key = (written as u32)
            .wrapping_sub(1)
            .wrapping_sub(self.key.load(Acquire));
        Asked {
            key: if asked.flags & OPT_ID != 0 { key } else { 0 },
            ..asked
        }
    }

    /// Reports the arrival time of a message; `sent` says that it is a report about a sent one
    /// (Linux's `__sock_recv_timestamp` and `tcp_recv_timestamp`).
    pub fn put(
        &self,
        base: &Base,
        arrived: Option<Time>,
        sent: bool,
        control: &mut Control,
    ) -> Result<()> {
        let (asked, flags) = (self.asked.load(Acquire), self.flags.load(Acquire));
        let mut arrived = arrived;
        if asked & ARRIVAL != 0 {
            // A datagram that arrived before timestamps were requested gets the present time.
            arrived = arrived.or_else(|| (base.kind != STREAM).then(Time::now));
            if let Some(arrived) = arrived {
                control.put_time(self.arrival_name(), arrived)?;
            }
        } else if base.domain == AF_UNIX {
            return Ok(());
        }
        let wanted = flags & RX_SOFTWARE != 0 || sent || flags & OPT_RX_FILTER == 0;
        if let Some(arrived) = arrived
            && flags & SOFTWARE != 0
            && wanted
        {
            let name = match asked & NEW {
                0 => SO_TIMESTAMPING_OLD,
                _ => SO_TIMESTAMPING_NEW,
            };
            control.put_stamping(name, arrived)?;
        }
        Ok(())
    }
}

/// The number from which keys count.
fn first_key(socket: &dyn Socket, flags: u32) -> Result<u32> {
    if socket.base().protocol != IPPROTO_TCP as u32 {
        return Ok(0);
    }
    if matches!(socket.state(), CLOSED | LISTENS) {
        return Err(Errno::EINVAL);
    }
    let [written, unsent] = socket.written();
    let held = if flags & OPT_ID_TCP != 0 { 0 } else { unsent };
    Ok((written - held) as u32)
}
