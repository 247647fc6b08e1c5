//! A connection that is half open: what is kept of its SYN.

use crate::config::Config;
use crate::connection::{Agreed, Connection, Identity};
use crate::header::{Flags, Header};
use crate::isn::Tuple;
use crate::options::{Options, Timestamps};
use crate::rtt::MS;
use deadlines::Ticket;

/// A connection that a peer has opened.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// Its ports and numbers.
    pub identity: Identity,
    /// The peer's initial sequence number.
    pub peer_isn: u32,
    /// What the SYNs have agreed on.
    pub agreed: Agreed,
    /// The window that was told.
    pub window: u16,
}

impl Accepted {
    /// The connection, which waits for the segment that made it.
    pub fn connection(&self, now: u64, config: &Config) -> Connection {
        let Accepted {
            identity,
            peer_isn,
            ref agreed,
            window,
        } = *self;
        Connection::accept(now, config, identity, peer_isn, agreed, window)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub tuple: Tuple,
    pub identity: Identity,
    pub peer_isn: u32,
    pub agreed: Agreed,
    /// SYNs with ACK that were sent again.
    pub tries: u32,
    /// Its timer; a cookie has none.
    pub ticket: Option<Ticket>,
}

/// The window of a SYN, which is never scaled.
pub(super) fn window(config: &Config) -> u16 {
    config.receive_buffer.min(u64::from(u16::MAX)) as u16
}

impl Request {
    pub fn new(
        tuple: &Tuple,
        identity: Identity,
        peer_isn: u32,
        agreed: Agreed,
        ticket: Option<Ticket>,
    ) -> Self {
        Request {
            tuple: *tuple,
            identity,
            peer_isn,
            agreed,
            tries: 0,
            ticket,
        }
    }

    /// The timestamp of a time.
    pub fn stamp(&self, now: u64) -> u32 {
        ((now / MS) as u32).wrapping_add(self.identity.stamp_offset)
    }

    /// The SYN with ACK.
    pub fn answer(&self, config: &Config, now: u64) -> Header {
        let timestamps = self.timestamps(now);
        Header {
            source: self.identity.local,
            destination: self.identity.peer,
            seq: self.identity.isn,
            ack: self.peer_isn.wrapping_add(1),
            flags: Flags::SYN | Flags::ACK,
            window: window(config),
            urgent: 0,
            options: Options {
                mss: Some(config.mss),
                window_scale: self.agreed.scales.map(|(_, ours)| ours),
                sack_permitted: self.agreed.sack,
                timestamps,
                ..Options::default()
            },
        }
    }

    /// The ACK that says what is expected.
    pub fn acknowledgment(&self, config: &Config, now: u64) -> Header {
        let timestamps = self.timestamps(now);
        let mut header = self.answer(config, now);
        header.seq = self.identity.isn.wrapping_add(1);
        header.flags = Flags::ACK;
        header.options = Options {
            timestamps,
            ..Options::default()
        };
        let shift = self.agreed.scales.map_or(0, |(_, ours)| ours);
        header.window >>= shift;
        header
    }

    fn timestamps(&self, now: u64) -> Option<Timestamps> {
        let value = self.stamp(now);
        self.agreed.stamp.map(|echo| Timestamps { value, echo })
    }

    pub fn accepted(&self, config: &Config) -> Accepted {
        Accepted {
            identity: self.identity,
            peer_isn: self.peer_isn,
            agreed: self.agreed,
            window: window(config),
        }
    }
}
