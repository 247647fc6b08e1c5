//! Opening a connection: SYNs, and the options that they negotiate.

use super::{Agreed, Connection, DEFAULT_MSS, Identity, LEAST_MSS, STAMP_BYTES, State};
use crate::config::Config;
use crate::event::{Error, Events};
use crate::header::{Flags, Header};
use crate::listener::Accepted;
use crate::options::{Options, Timestamps};
use crate::paws::Recent;
use crate::receiver::Receiver;
use crate::rtt::{INITIAL_RTO, MOST_RTO, MS};
use crate::seq;

/// The minimum timer interval in Linux (`TCP_TIMEOUT_MIN`).
const SOON: u64 = 2 * MS;

impl Agreed {
    /// The parameters that result from a peer's SYN and this end's settings.
    pub fn by(config: &Config, options: &Options) -> Self {
        let scale = options.window_scale.filter(|_| config.window_scaling);
        Agreed {
            mss: options.mss,
            scales: scale.map(|scale| (scale, config.scale())),
            sack: config.sack && options.sack_permitted,
            stamp: options
                .timestamps
                .filter(|_| config.timestamps)
                .map(|stamps| stamps.value),
        }
    }
}

impl Connection {
    /// An active open: a SYN is to be sent.
    pub fn connect(now: u64, config: &Config, identity: Identity) -> Self {
        let mut connection = Connection::new(now, config, identity);
        connection.syn = true;
        connection
    }

    /// The connection for a SYN that was already answered. It is in SYN_RECEIVED, and gets the ACK
    /// next.
    pub(crate) fn accept(now: u64, config: &Config, accepted: &Accepted) -> Self {
        let mut connection = Connection::new(now, config, accepted.identity);
        connection.agree(now, accepted.peer_isn, &accepted.agreed, accepted.window);
        connection.state = State::SynReceived;
        connection.syn_due = Some(now + INITIAL_RTO);
        // This is from another CPU's clock, which may be ahead.
        connection.syn_sent_at = accepted.answered_at.map_or(now, |at| at.min(now));
        connection.syn_tries = accepted.retransmissions;
        connection
    }

    /// Applies the negotiated parameters.
    fn agree(&mut self, now: u64, peer_isn: u32, agreed: &Agreed, window: u16) {
        self.irs = seq::first(peer_isn);
        self.window_seq = self.irs;
        let (theirs, ours) = agreed.scales.unwrap_or((0, 0));
        self.scaled = agreed.scales.is_some();
        self.scale = theirs;
        self.stamps = agreed.stamp.is_some();
        self.sender.sack = agreed.sack;
        let config = &self.config;
        let window = u64::from(window);
        let (start, buffer) = (self.irs + 1, config.receive_buffer);
        let mss = u32::from(config.mss);
        self.receiver = Receiver::new(start, buffer, window, ours, mss, now);
        self.receiver.clamp = config.window_clamp;
        self.receiver.tuning.most = match config.fixed_receive_buffer {
            true => 0,
            false => config.most_receive_buffer,
        };
        self.receiver.recent = agreed.stamp.map(|value| Recent { value, at: now });
        let peer = agreed.mss.unwrap_or(DEFAULT_MSS).max(LEAST_MSS);
        let options = if self.stamps { STAMP_BYTES } else { 0 };
        self.sender
            .set_full_mss(u32::from(peer.min(config.mss).max(LEAST_MSS)) - options);
    }

    /// The SYN or SYN-ACK.
    pub(super) fn syn_header(&mut self, now: u64) -> Header {
        let is_answer = self.syn_ack;
        self.syn = false;
        self.syn_ack = false;
        if self.syn_tries == 0 {
            self.syn_sent_at = now;
        }
        // A retransmission on request does not restart the timer, or else requests could postpone
        // it forever.
        let due = self.next_syn_due(now);
        self.syn_due.get_or_insert(due);
        let config = &self.config;
        let echo = self.receiver.recent.map_or(0, |recent| recent.value);
        let value = self.stamp(now);
        let ours = |wanted: bool, agreed: bool| if is_answer { agreed } else { wanted };
        let options = Options {
            mss: Some(config.mss),
            window_scale: ours(config.window_scaling, self.scaled).then(|| config.scale()),
            sack_permitted: ours(config.sack, self.sender.sack),
            timestamps: ours(config.timestamps, self.stamps).then_some(Timestamps { value, echo }),
            ..Options::default()
        };
        Header {
            source: self.identity.local,
            destination: self.identity.peer,
            seq: seq::wire(self.iss),
            ack: if is_answer {
                seq::wire(self.receiver.nxt)
            } else {
                0
            },
            flags: if is_answer {
                Flags::SYN | Flags::ACK
            } else {
                Flags::SYN
            },
            window: self.config.syn_window(),
            urgent: 0,
            options,
        }
    }

    /// When the SYN that is sent now is retransmitted: at first after constant, later after growing
    /// intervals.
    fn next_syn_due(&self, now: u64) -> u64 {
        let backoff = self.syn_tries.saturating_sub(self.linear_timeouts());
        let wait = (INITIAL_RTO << backoff.min(20)).min(MOST_RTO);
        match self.config.user_timeout {
            0 => now + wait,
            user => (now + wait)
                .min(self.syn_sent_at.saturating_add(user))
                .max(now + MS),
        }
    }

    fn linear_timeouts(&self) -> u32 {
        match self.state {
            State::SynSent => self.config.syn_linear_timeouts,
            _ => 0,
        }
    }

    /// Handles a segment in SYN_SENT (RFC 9293, 3.10.7.3); returns whether its payload is to be
    /// processed.
    pub(super) fn input_syn_sent(&mut self, now: u64, header: &Header) -> bool {
        let flags = header.flags;
        let ack = seq::extend(self.iss, header.ack);
        let has_ack = flags.contains(Flags::ACK);
        if has_ack && (ack != self.iss + 1 || self.is_echo_wrong(now, header)) {
            self.reset = header.reset(0);
            // It may belong to an old connection, which the RST ends at the peer: the SYN is sent
            // again soon.
            if self.syn_tries == 0 && !flags.contains(Flags::RST) {
                self.syn_due = Some(now + SOON);
            }
            return false;
        }
        if flags.contains(Flags::RST) {
            if has_ack {
                self.end(Some(Error::ConnectionRefused));
            }
            return false;
        }
        if !flags.contains(Flags::SYN) {
            return false;
        }
        let agreed = Agreed::by(&self.config, &header.options);
        self.agree(now, header.seq, &agreed, self.config.syn_window());
        // The window of a SYN is not scaled.
        self.set_window(u64::from(header.window));
        if !has_ack {
            self.state = State::SynReceived;
            self.syn_ack = true;
            self.syn_tries = 0;
            self.syn_due = None;
            return false;
        }
        self.establish(now, header);
        if self.config.defer_accept > 0 {
            // Data will follow soon, which can carry the acknowledgment.
            self.receiver.delay.ride(now, self.receiver.window());
        } else {
            self.receiver.delay.now = true;
        }
        true
    }

    /// Whether the answer to SYN echoes a timestamp that no SYN had.
    fn is_echo_wrong(&self, now: u64, header: &Header) -> bool {
        let stamps = header.options.timestamps.filter(|_| self.config.timestamps);
        let echo = stamps.map_or(0, |stamps| stamps.echo);
        let (first, last) = (self.stamp(self.syn_sent_at), self.stamp(now));
        echo != 0 && (seq::is_older(echo, first) || seq::is_older(last, echo))
    }

    /// Called when this end's SYN is acknowledged.
    pub(super) fn establish(&mut self, now: u64, header: &Header) {
        self.state = State::Established;
        self.sender.una = self.iss + 1;
        let stamps = header.options.timestamps.filter(|_| self.stamps);
        let echo = stamps.map_or(0, |stamps| stamps.echo);
        if self.syn_tries > 0 {
            let elapsed = self.stamp(now).wrapping_sub(echo);
            self.sender.sample_echo(now, echo, elapsed);
            // The path is bad, unless the first SYN was answered after all (RFC 5681, 3.1).
            if self.syn_tries > 1 && echo != self.stamp(self.syn_sent_at) {
                let segment = u64::from(self.sender.mss);
                self.sender.congestion.set_window(segment);
            }
        } else if now > self.syn_sent_at {
            self.sender.rtt.sample(now, now - self.syn_sent_at);
        }
        self.syn_due = None;
        self.events |= Events::CONNECTED | Events::WRITABLE;
        self.probes.heard(now);
        self.arm_keepalive(now);
        if self.fin {
            self.state = State::FinWait1;
        }
    }

    /// Handles that a SYN was not answered in time.
    pub(super) fn syn_timeout(&mut self, now: u64) {
        let most = self
            .config
            .syn_retries
            .saturating_add(self.linear_timeouts());
        let user = self.config.user_timeout;
        if self.syn_tries >= most || user > 0 && now - self.syn_sent_at >= user {
            self.end(Some(self.soft_error.unwrap_or(Error::TimedOut)));
            return;
        }
        self.syn_tries += 1;
        if self.state == State::SynSent {
            self.syn = true;
        } else {
            self.syn_ack = true;
        }
    }
}
