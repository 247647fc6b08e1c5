//! A half-open connection: the data kept from its SYN.

use crate::config::Config;
use crate::connection::{Agreed, Connection, Identity};
use crate::header::{Flags, Header};
use crate::isn::Tuple;
use crate::limiter::Limiter;
use crate::options::{Options, Timestamps};
use crate::paws::Recent;
use crate::rtt::{INITIAL_RTO, MOST_RTO, MS};
use deadlines::Ticket;

/// A connection that a peer has opened.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// Its ports and initial numbers.
    pub identity: Identity,
    /// The peer's initial sequence number.
    pub peer_isn: u32,
    /// The negotiated parameters.
    pub agreed: Agreed,
    /// The window that was advertised.
    pub window: u16,
    /// When the SYN was first answered, if that is known.
    pub answered_at: Option<u64>,
    /// The number of SYN-ACK retransmissions.
    pub retransmissions: u32,
}

impl Accepted {
    /// The connection, which is to get the segment that completed it.
    pub fn connection(&self, now: u64, config: &Config) -> Connection {
        Connection::accept(now, config, self)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub tuple: Tuple,
    pub identity: Identity,
    pub peer_isn: u32,
    pub agreed: Agreed,
    /// The maximum segment size on the path to the peer.
    pub mss: u16,
    /// The number of its timer's expirations.
    pub timeouts: u32,
    /// The number of SYN-ACK retransmissions, by the timer or because of a retransmitted SYN.
    pub retransmissions: u32,
    answered_at: u64,
    /// Its ACK has arrived, but it waits for data or for room.
    pub acked: bool,
    pub limiter: Limiter,
    /// Its timer; a cookie has none.
    pub ticket: Option<Ticket>,
}

impl Request {
    pub fn new(
        tuple: &Tuple,
        identity: Identity,
        peer_isn: u32,
        agreed: Agreed,
        mss: u16,
        now: u64,
    ) -> Self {
        Request {
            tuple: *tuple,
            identity,
            peer_isn,
            agreed,
            mss,
            timeouts: 0,
            retransmissions: 0,
            answered_at: now,
            acked: false,
            limiter: Limiter::default(),
            ticket: None,
        }
    }

    /// When a timer that is started now expires.
    pub fn due(&self, now: u64) -> u64 {
        now + (INITIAL_RTO << self.timeouts.min(20)).min(MOST_RTO)
    }

    /// When the timer expires, returns whether the request is dropped, with at most `most`
    /// retransmissions, and whether the SYN-ACK is retransmitted. While it waits for data
    /// (TCP_DEFER_ACCEPT), the SYN-ACK is retransmitted only the last time.
    pub fn on_timeout(&self, most: u32, deferrals: u32) -> (bool, bool) {
        let waits = self.acked && deferrals > 0;
        let is_over = self.timeouts >= most && !(waits && self.timeouts < deferrals);
        let resends = !waits || self.timeouts + 1 >= deferrals;
        (is_over, resends)
    }

    /// Whether the timestamp is older than the latest one.
    pub fn is_old(&self, now: u64, header: &Header) -> bool {
        let recent = self.agreed.stamp.map(|value| Recent { value, at: now });
        recent.is_some_and(|recent| recent.is_after(now, header))
    }

    /// The timestamp for a time.
    pub fn stamp(&self, now: u64) -> u32 {
        ((now / MS) as u32).wrapping_add(self.identity.stamp_offset)
    }

    /// The SYN-ACK.
    pub fn answer(&self, config: &Config, now: u64) -> Header {
        let timestamps = self.timestamps(now);
        Header {
            source: self.identity.local,
            destination: self.identity.peer,
            seq: self.identity.isn,
            ack: self.peer_isn.wrapping_add(1),
            flags: Flags::SYN | Flags::ACK,
            window: config.syn_window(),
            urgent: 0,
            options: Options {
                mss: Some(self.mss),
                window_scale: self.agreed.scales.map(|(_, ours)| ours),
                sack_permitted: self.agreed.sack,
                timestamps,
                ..Options::default()
            },
        }
    }

    /// An ACK of the expected sequence number.
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
            window: config.syn_window(),
            answered_at: Some(self.answered_at),
            retransmissions: self.retransmissions,
        }
    }
}
