//! A connection (RFC 9293, 3.3.2).

mod checks;
mod input;
mod opening;
mod output;
mod path;
mod probes;
mod timers;
mod user;

pub use input::Received;
pub use output::Transmit;
pub use user::Write;

use crate::config::Config;
use crate::event::{Error, Events};
use crate::header::Header;
use crate::info::Counts;
use crate::isn::{Secret, Tuple};
use crate::limiter::Limiter;
use crate::options::Timestamps;
use crate::receiver::Receiver;
use crate::rtt::MS;
use crate::sender::Sender;
use crate::seq::{self, Seq};
use crate::waiting::Waiting;

/// The states of one end of a connection; LISTEN is the state of [`Listener`](crate::Listener).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// SYN was sent.
    SynSent,
    /// SYN was received, and sent.
    SynReceived,
    /// Data can be sent both ways.
    Established,
    /// FIN was sent.
    FinWait1,
    /// FIN was acknowledged.
    FinWait2,
    /// FIN was received.
    CloseWait,
    /// Both ends have sent FIN, and neither knows whether it was received.
    Closing,
    /// FIN was received and sent.
    LastAck,
    /// Both FINs were acknowledged; late segments may come.
    TimeWait,
    /// There is no connection.
    Closed,
}

/// The identity of a connection for its peer, chosen by its user.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// This end's port.
    pub local: u16,
    /// The peer's port.
    pub peer: u16,
    /// The initial sequence number ([`Secret::sequence`](crate::Secret::sequence)).
    pub isn: u32,
    /// The offset that is added to the clock of timestamps
    /// ([`Secret::stamp_offset`](crate::Secret::stamp_offset)).
    pub stamp_offset: u32,
}

impl Identity {
    /// The identity of a connection that begins at `now`, with unpredictable numbers.
    pub fn of(secret: &Secret, now: u64, tuple: &Tuple) -> Self {
        Identity {
            local: tuple.local.port(),
            peer: tuple.peer.port(),
            isn: secret.sequence(now, tuple),
            stamp_offset: secret.stamp_offset(tuple),
        }
    }
}

/// The parameters negotiated by the SYNs of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    /// The peer's MSS option.
    pub mss: Option<u16>,
    /// The scales of the peer's windows and of this end's.
    pub scales: Option<(u8, u8)>,
    /// Both permit SACK.
    pub sack: bool,
    /// Both send timestamps; the peer's latest one.
    pub stamp: Option<u32>,
}

/// The MSS of a peer that does not send one (RFC 9293, 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// The minimum to which a peer's MSS is raised (`net.ipv4.tcp_min_snd_mss`).
const LEAST_MSS: u16 = 48;
/// The number of bytes that timestamps take in each segment.
const STAMP_BYTES: u32 = 12;

/// The time at which a timer expires, if it is running.
type Due = Option<u64>;

/// One end of a connection.
///
/// Its user calls it for each event, with the time: a segment, a timer, a call of the program.
/// After each call the user sends everything that [`transmit`](Self::transmit) returns, sets its
/// timer to [`next_timer`](Self::next_timer), and wakes threads that wait for
/// [`take_events`](Self::take_events). Payload is addressed by its offset in its stream, whose
/// first byte is 0: a [`Placement`](crate::Placement) tells which bytes of a segment to store, and
/// a [`Transmit`] has the range to send. The send queue keeps everything that
/// [`released`](Self::released) has not passed.
pub struct Connection {
    pub(crate) config: Config,
    pub(crate) state: State,
    identity: Identity,
    iss: Seq,
    irs: Seq,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// The sequence number after the last byte that was written, which is FIN's if there is one.
    queued: Seq,
    /// FIN follows the written bytes.
    fin: bool,
    /// Both ends send timestamps.
    pub(crate) stamps: bool,
    /// Windows are scaled.
    pub(crate) scaled: bool,
    /// The scale of the peer's windows.
    pub(crate) scale: u8,
    /// The sequence number that last updated the peer's window (SND.WL1).
    window_seq: Seq,
    events: Events,
    error: Option<Error>,
    /// An error that ICMP has reported, and that has not ended the connection yet.
    soft_error: Option<Error>,
    /// A header to be sent before anything else, usually a RST.
    reset: Option<Header>,
    /// A SYN is to be sent.
    syn: bool,
    /// A SYN-ACK is to be sent.
    syn_ack: bool,
    /// The number of SYN retransmissions.
    syn_tries: u32,
    syn_sent_at: u64,
    syn_due: Due,
    /// Nothing more is read: after this end has sent FIN, data is answered with RST.
    deaf: bool,
    /// The socket is closed.
    orphan: bool,
    cork: bool,
    /// The last write had MSG_MORE.
    more: bool,
    /// Queued data is sent regardless of the Nagle algorithm.
    force: bool,
    /// The end of the last segment that was not full (Minshall's variant of Nagle).
    small: Seq,
    /// The sequence number after the urgent byte that was written.
    urgent: Option<Seq>,
    /// The urgent byte of the peer.
    peer_urgent: Option<Seq>,
    pub(crate) probes: probes::Probes,
    /// The end of FIN_WAIT2 or TIME_WAIT.
    wait_due: Due,
    /// The state in TIME_WAIT.
    late: Option<Waiting>,
    limiter: Limiter,
    pub(crate) counts: Counts,
    /// The latest time that was passed in.
    latest: u64,
}

impl Connection {
    fn new(now: u64, config: &Config, identity: Identity) -> Self {
        let iss = seq::first(identity.isn);
        let irs = seq::first(0);
        let mss = u32::from(config.mss);
        Connection {
            config: config.clone(),
            state: State::SynSent,
            identity,
            iss,
            irs,
            sender: Sender::new(iss, config.algorithm, mss, now),
            receiver: Receiver::new(irs, config.receive_buffer, 0, 0, mss, now),
            queued: iss + 1,
            fin: false,
            stamps: false,
            scaled: false,
            scale: 0,
            window_seq: irs,
            events: Events::empty(),
            error: None,
            soft_error: None,
            reset: None,
            syn: false,
            syn_ack: false,
            syn_tries: 0,
            syn_sent_at: now,
            syn_due: None,
            deaf: false,
            orphan: false,
            cork: false,
            more: false,
            force: false,
            small: iss,
            urgent: None,
            peer_urgent: None,
            probes: probes::Probes::new(now),
            wait_due: None,
            late: None,
            limiter: Limiter::default(),
            counts: Counts::default(),
            latest: now,
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> Events {
        core::mem::take(&mut self.events)
    }

    /// The error for the program, which is reported once.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Updates the time, which does not go back: two CPUs' clocks may differ a little.
    fn tick(&mut self, now: u64) -> u64 {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The timestamp for a time, in ms.
    fn stamp(&self, now: u64) -> u32 {
        stamp(self.identity.stamp_offset, now)
    }

    fn timestamps(&self, now: u64) -> Option<Timestamps> {
        let echo = self.receiver.recent.map_or(0, |recent| recent.value);
        let value = self.stamp(now);
        self.stamps.then_some(Timestamps { value, echo })
    }

    /// The sequence number of this end's FIN, if there is one.
    fn fin_number(&self) -> Option<Seq> {
        self.fin.then_some(self.queued)
    }

    fn is_synchronised(&self) -> bool {
        !matches!(
            self.state,
            State::SynSent | State::SynReceived | State::Closed
        )
    }

    /// Ends the connection, with an error for the program.
    fn end(&mut self, error: Option<Error>) {
        self.state = State::Closed;
        if error.is_some() {
            self.error = error;
            self.events |= Events::ERROR;
        }
        self.events |= Events::CLOSED | Events::READABLE | Events::WRITABLE;
        self.release();
    }

    /// Enters TIME_WAIT.
    fn wait_for_late(&mut self, now: u64) {
        let ack_due = self.receiver.delay.now;
        self.release();
        self.receiver.delay.now = ack_due;
        self.state = State::TimeWait;
        let window = self.receiver.window() >> self.receiver.scale();
        let waiting = Waiting {
            sent: seq::wire(self.sender.nxt),
            expected: self.receiver.nxt,
            window: window.min(u64::from(u16::MAX)) as u16,
            stamp_offset: self.identity.stamp_offset,
            recent: self.receiver.recent.filter(|_| self.stamps),
            ..Waiting::new(now, self.identity.local, self.identity.peer)
        };
        self.wait_due = Some(waiting.due());
        self.late = Some(waiting);
        self.events |= Events::WRITABLE;
    }

    /// The state needed for the connection in TIME_WAIT, which can be kept instead of it.
    pub fn waiting(&self) -> Option<Waiting> {
        self.late.filter(|_| self.state == State::TimeWait)
    }

    /// Stops all timers and frees memory.
    fn release(&mut self) {
        self.sender.board.clear();
        self.sender.timer = None;
        self.receiver.clear();
        self.receiver.delay.stop();
        self.probes.stop();
        self.syn = false;
        self.syn_ack = false;
        self.syn_due = None;
        self.wait_due = None;
    }
}

fn stamp(offset: u32, now: u64) -> u32 {
    ((now / MS) as u32).wrapping_add(offset)
}
