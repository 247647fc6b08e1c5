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

/// The states that an end of a connection has; LISTEN is [`Listener`](crate::Listener)'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// SYN was sent.
    SynSent,
    /// SYN has come, and was sent.
    SynReceived,
    /// Data goes both ways.
    Established,
    /// FIN was sent.
    FinWait1,
    /// FIN was acknowledged.
    FinWait2,
    /// FIN has come.
    CloseWait,
    /// Both have sent FIN, neither knows that it was received.
    Closing,
    /// FIN has come and was sent.
    LastAck,
    /// Both FINs were acknowledged; late segments may come.
    TimeWait,
    /// There is no connection.
    Closed,
}

/// What identifies a connection towards its peer, chosen by its user.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// This end's port.
    pub local: u16,
    /// The peer's port.
    pub peer: u16,
    /// The initial sequence number ([`Secret::sequence`](crate::Secret::sequence)).
    pub isn: u32,
    /// What is added to the clock of timestamps
    /// ([`Secret::stamp_offset`](crate::Secret::stamp_offset)).
    pub stamp_offset: u32,
}

impl Identity {
    /// That of a connection which begins at `now`, with numbers that nobody can guess.
    pub fn of(secret: &Secret, now: u64, tuple: &Tuple) -> Self {
        Identity {
            local: tuple.local.port(),
            peer: tuple.peer.port(),
            isn: secret.sequence(now, tuple),
            stamp_offset: secret.stamp_offset(tuple),
        }
    }
}

/// What both ends have agreed on by their SYNs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    /// The peer's MSS option.
    pub mss: Option<u16>,
    /// The shift of the peer's windows and of this end's.
    pub scales: Option<(u8, u8)>,
    /// Both permit SACK.
    pub sack: bool,
    /// Both send timestamps; the peer's latest.
    pub stamp: Option<u32>,
}

/// The MSS of a peer that names none (RFC 9293, 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// The least that a peer's MSS counts as (`net.ipv4.tcp_min_snd_mss`).
const LEAST_MSS: u16 = 48;
/// The bytes that timestamps take from each segment.
const STAMP_BYTES: u32 = 12;

/// A timer of the connection that is due at a time.
type Due = Option<u64>;

/// One end of a connection.
///
/// Its user calls it with what happens and the time: a segment, a timer, a call of the program.
/// After each call it takes all of [`transmit`](Self::transmit), sets its timer to
/// [`next_timer`](Self::next_timer), and wakes who waits for [`take_events`](Self::take_events).
/// Payload is named by its place in its stream, whose first byte is 0: what is to be kept of a
/// segment is a [`Placement`](crate::Placement), what is to be sent is the range of a [`Transmit`],
/// and the send queue keeps what [`released`](Self::released) has not passed.
pub struct Connection {
    pub(crate) config: Config,
    pub(crate) state: State,
    identity: Identity,
    iss: Seq,
    irs: Seq,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// The number after the last byte that was written; FIN's, if there is one.
    queued: Seq,
    /// FIN follows what was written.
    fin: bool,
    /// Both ends send timestamps.
    pub(crate) stamps: bool,
    /// Windows are scaled.
    pub(crate) scaled: bool,
    /// The shift of the peer's windows.
    pub(crate) scale: u8,
    /// What moved the peer's window last (SND.WL1).
    window_seq: Seq,
    events: Events,
    error: Option<Error>,
    /// What ICMP said that is no end yet.
    soft_error: Option<Error>,
    /// A header that is to be sent before anything else: RST mostly.
    reset: Option<Header>,
    /// A SYN is to be sent.
    syn: bool,
    /// A SYN with ACK.
    syn_ack: bool,
    /// SYNs that were sent again.
    syn_tries: u32,
    syn_sent_at: u64,
    syn_due: Due,
    /// Nothing more is read: once this end has ended too, data is answered by RST.
    deaf: bool,
    /// The socket is closed.
    orphan: bool,
    cork: bool,
    /// The last write said MSG_MORE.
    more: bool,
    /// What is queued goes out without regard to Nagle.
    force: bool,
    /// The end of the last segment that was smaller than full (Minshall's variant of Nagle).
    small: Seq,
    /// The number after the urgent byte that was written.
    urgent: Option<Seq>,
    /// The urgent byte of the peer.
    peer_urgent: Option<Seq>,
    pub(crate) probes: probes::Probes,
    /// The end of FIN_WAIT2 or TIME_WAIT.
    wait_due: Due,
    /// What there is in TIME_WAIT.
    late: Option<Waiting>,
    limiter: Limiter,
    pub(crate) counts: Counts,
    /// The latest time that was named.
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

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Events {
        core::mem::take(&mut self.events)
    }

    /// The error for the program, which is told once.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// The time, which does not go back: two CPUs may be a little apart.
    fn tick(&mut self, now: u64) -> u64 {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// The timestamp of a time, in ms.
    fn stamp(&self, now: u64) -> u32 {
        stamp(self.identity.stamp_offset, now)
    }

    fn timestamps(&self, now: u64) -> Option<Timestamps> {
        let echo = self.receiver.recent.map_or(0, |recent| recent.value);
        let value = self.stamp(now);
        self.stamps.then_some(Timestamps { value, echo })
    }

    /// The number of this end's FIN, if there is one.
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

    /// What is needed of the connection in TIME_WAIT, which can be kept in its place.
    pub fn waiting(&self) -> Option<Waiting> {
        self.late.filter(|_| self.state == State::TimeWait)
    }

    /// Stops all timers and gives memory back.
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
