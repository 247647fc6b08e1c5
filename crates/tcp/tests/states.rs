//! Single segments and what comes back: states, resets, probes, timers and errors.

use tcp::options::Options;
use tcp::{
    Config, Connection, Error, Events, Flags, Header, Identity, Keepalive, State, Transmit,
    Unreachable, Write,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// The script's peer begins here.
const PEER: u32 = 5000;
const ISN: u32 = 1000;

/// A connection whose peer is the test.
struct Script {
    connection: Connection,
    now: u64,
    seq: u32,
    ack: u32,
    window: u16,
}

fn plain() -> Config {
    Config {
        timestamps: false,
        window_scaling: false,
        sack: false,
        mss: 1000,
        most_payload: 1000,
        ..Config::default()
    }
}

impl Script {
    /// Before the peer has answered.
    fn connecting(config: &Config) -> Self {
        let identity = Identity {
            local: 1,
            peer: 2,
            isn: ISN,
            stamp_offset: 0,
        };
        let now = SECOND;
        let connection = Connection::connect(now, config, identity);
        let mut script = Script {
            connection,
            now,
            seq: PEER,
            ack: 0,
            window: 60_000,
        };
        assert_eq!(script.sends().flags, Flags::SYN);
        script.ack = ISN + 1;
        script
    }

    /// With an established connection, whose ACK is gone.
    fn open(config: &Config) -> Self {
        let mut script = Script::connecting(config);
        let options = Options {
            mss: Some(1000),
            ..Options::default()
        };
        script.gets(Flags::SYN | Flags::ACK, options, 0);
        script.seq += 1;
        assert_eq!(script.sends().flags, Flags::ACK);
        assert!(script.connection.take_events().has(Events::CONNECTED));
        script
    }

    fn gets(&mut self, flags: Flags, options: Options, payload: usize) {
        let header = Header {
            source: 2,
            destination: 1,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: self.window,
            urgent: 0,
            options,
        };
        self.connection.on_segment(self.now, &header, payload);
    }

    /// A segment with its ACK, that takes the peer's numbers on.
    fn data(&mut self, payload: usize, more: Flags) {
        self.gets(Flags::ACK | more, Options::default(), payload);
        self.seq += payload as u32 + u32::from(more.has(Flags::FIN));
    }

    fn sent(&mut self) -> Option<Transmit> {
        self.connection.transmit(self.now)
    }

    fn sends(&mut self) -> Header {
        self.sent().expect("a segment").header
    }

    fn quiet(&mut self) {
        assert_eq!(self.sent(), None);
    }

    /// Goes on to the next timer.
    fn waits(&mut self) {
        self.now = self.connection.next_timer().expect("a timer");
        self.connection.on_timer(self.now);
    }

    fn write(&mut self, length: u64) {
        self.connection
            .write(length, Write::default())
            .expect("it is open");
    }

    fn ends_with(&mut self, error: Option<Error>) {
        assert_eq!(self.connection.state(), State::Closed);
        assert!(self.connection.take_events().has(Events::CLOSED));
        assert_eq!(self.connection.take_error(), error);
        assert_eq!(self.connection.next_timer(), None);
    }
}

#[test]
fn refused() {
    let mut script = Script::connecting(&plain());
    script.gets(Flags::RST | Flags::ACK, Options::default(), 0);
    script.ends_with(Some(Error::ConnectionRefused));
}

#[test]
fn a_wrong_answer_to_syn_is_reset() {
    let mut script = Script::connecting(&plain());
    script.ack += 7;
    script.gets(Flags::SYN | Flags::ACK, Options::default(), 0);
    let reset = script.sends();
    assert_eq!((reset.flags, reset.seq), (Flags::RST, ISN + 8));
    assert_eq!(script.connection.state(), State::SynSent);
}

#[test]
fn connect_times_out_after_127_seconds() {
    let mut script = Script::connecting(&plain());
    for _ in 0..6 {
        script.waits();
        assert_eq!(script.sends().flags, Flags::SYN);
    }
    script.waits();
    assert_eq!(script.now, 128 * SECOND);
    script.ends_with(Some(Error::TimedOut));
}

#[test]
fn unreachable() {
    let mut script = Script::connecting(&plain());
    script.connection.on_icmp(ISN + 9, Unreachable::Host);
    assert_eq!(
        script.connection.state(),
        State::SynSent,
        "it was not of this connection"
    );
    script.connection.on_icmp(ISN, Unreachable::Host);
    script.ends_with(Some(Error::HostUnreachable));
}

#[test]
fn an_established_connection_outlives_icmp_and_tells_of_it() {
    let mut script = Script::open(&Config {
        user_timeout: 3 * SECOND,
        ..plain()
    });
    script.write(10);
    script.sends();
    script.connection.on_icmp(ISN + 1, Unreachable::Host);
    assert_eq!(script.connection.state(), State::Established);
    while script.connection.state() != State::Closed {
        script.waits();
        script.sent();
    }
    script.ends_with(Some(Error::HostUnreachable));
}

#[test]
fn blind_resets_are_challenged() {
    let mut script = Script::open(&plain());
    let seq = script.seq;
    script.seq = seq + 1;
    script.gets(Flags::RST, Options::default(), 0);
    let challenge = script.sends();
    assert_eq!((challenge.flags, challenge.ack), (Flags::ACK, seq));
    script.gets(Flags::RST, Options::default(), 0);
    script.quiet();
    script.gets(Flags::SYN, Options::default(), 0);
    script.quiet();
    script.now += SECOND;
    script.gets(Flags::SYN, Options::default(), 0);
    assert_eq!(script.sends().flags, Flags::ACK);
    assert_eq!(script.connection.state(), State::Established);
    script.seq = seq;
    script.gets(Flags::RST, Options::default(), 0);
    script.ends_with(Some(Error::ConnectionReset));
}

#[test]
fn closes_actively() {
    let mut script = Script::open(&plain());
    script.connection.shutdown().expect("it is open");
    assert_eq!(script.sends().flags, Flags::FIN | Flags::ACK);
    assert_eq!(
        script.connection.write(1, Write::default()),
        Err(Error::BrokenPipe)
    );
    script.ack += 1;
    script.data(0, Flags::default());
    assert_eq!(script.connection.state(), State::FinWait2);
    script.data(100, Flags::FIN);
    assert_eq!(script.connection.state(), State::TimeWait);
    assert!(script.connection.has_ended());
    assert_eq!(script.sends().ack, script.seq);
    // The FIN that comes again is acknowledged again, and the wait begins again.
    script.now += 10 * SECOND;
    script.seq -= 1;
    script.data(0, Flags::FIN);
    assert_eq!(script.sends().ack, script.seq);
    assert_eq!(
        script.connection.next_timer(),
        Some(script.now + 60 * SECOND)
    );
    script.waits();
    script.ends_with(None);
    assert_eq!(
        script.connection.readable(),
        100,
        "what came can be read still"
    );
}

#[test]
fn closes_passively() {
    let mut script = Script::open(&plain());
    script.data(0, Flags::FIN);
    assert_eq!(script.connection.state(), State::CloseWait);
    assert_eq!(script.sends().ack, script.seq);
    script.write(5);
    assert_eq!(script.sent().expect("data").payload, 0..5);
    script.connection.close(script.now);
    assert_eq!(script.connection.state(), State::LastAck);
    assert!(script.sends().flags.has(Flags::FIN));
    script.ack += 6;
    script.data(0, Flags::default());
    script.ends_with(None);
}

#[test]
fn closes_simultaneously() {
    let mut script = Script::open(&plain());
    script.connection.shutdown().expect("it is open");
    script.sends();
    script.data(0, Flags::FIN);
    assert_eq!(script.connection.state(), State::Closing);
    script.sends();
    script.ack += 1;
    script.data(0, Flags::default());
    assert_eq!(script.connection.state(), State::TimeWait);
}

#[test]
fn unread_data_makes_close_a_reset() {
    let mut script = Script::open(&plain());
    script.data(10, Flags::default());
    script.connection.close(script.now);
    assert!(script.sends().flags.has(Flags::RST));
    script.ends_with(None);
}

#[test]
fn data_for_a_closed_socket_is_reset() {
    let mut script = Script::open(&plain());
    script.connection.close(script.now);
    script.sends();
    script.data(10, Flags::default());
    assert!(script.sends().flags.has(Flags::RST));
}

#[test]
fn an_orphan_waits_a_minute_for_fin() {
    let mut script = Script::open(&plain());
    script.connection.close(script.now);
    script.sends();
    script.ack += 1;
    script.data(0, Flags::default());
    assert_eq!(script.connection.state(), State::FinWait2);
    script.waits();
    assert_eq!(script.now, 61 * SECOND);
    script.ends_with(None);
}

#[test]
fn a_silent_peer_is_given_up() {
    let mut script = Script::open(&plain());
    script.write(10);
    script.sends();
    let begin = script.now;
    let mut sent = 0;
    while script.connection.state() != State::Closed {
        script.waits();
        sent += u64::from(script.sent().is_some());
    }
    assert!(
        (900..1100).contains(&((script.now - begin) / SECOND)),
        "{}",
        script.now / SECOND
    );
    assert!((10..=15).contains(&sent), "{sent}");
    script.ends_with(Some(Error::TimedOut));
}

#[test]
fn a_closed_window_is_probed() {
    let mut script = Script::open(&plain());
    script.window = 0;
    script.data(0, Flags::default());
    script.write(3000);
    script.quiet();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let before = script.now;
        script.waits();
        let probe = script.sent().expect("a probe");
        assert_eq!((probe.header.seq, probe.payload), (ISN, 0..0));
        script.quiet();
        waits.push(script.now - before);
    }
    assert!(
        waits.windows(2).all(|pair| pair[1] == 2 * pair[0]),
        "{waits:?}"
    );
    script.window = 60_000;
    script.data(0, Flags::default());
    assert_eq!(script.sent().expect("data").payload, 0..1000);
}

#[test]
fn a_small_window_gets_no_silly_segments() {
    let mut script = Script::open(&plain());
    script.window = 100;
    script.data(0, Flags::default());
    script.write(3000);
    script.quiet();
    script.waits();
    assert_eq!(
        script.sent().expect("what fits, after a wait").payload,
        0..100
    );
    script.quiet();
}

#[test]
fn nagle_cork_and_more() {
    let mut script = Script::open(&plain());
    script.write(10);
    assert_eq!(script.sent().expect("nothing is in flight").payload, 0..10);
    script.write(10);
    script.quiet();
    script.write(990);
    assert_eq!(script.sent().expect("a full segment").payload, 10..1010);
    script.write(5);
    script.connection.set_nodelay(true);
    assert_eq!(script.sent().expect("at once").payload, 1010..1015);
    script.connection.set_cork(true);
    script.write(5);
    script.quiet();
    script.connection.set_cork(false);
    assert_eq!(script.sent().expect("at once").payload, 1015..1020);
    script.ack += 1020;
    script.data(0, Flags::default());
    script
        .connection
        .write(
            5,
            Write {
                more: true,
                urgent: false,
            },
        )
        .expect("it is open");
    script.quiet();
    script.waits();
    assert_eq!(
        script.sent().expect("held for no longer").payload,
        1020..1025
    );
}

#[test]
fn acknowledges_late_once_it_is_no_beginning() {
    let mut script = Script::open(&plain());
    for _ in 0..40 {
        script.data(1000, Flags::default());
        script.sent();
        script.connection.read(script.now, 1000);
        script.now += MS;
    }
    script.data(1000, Flags::default());
    script.sent();
    let due = script.connection.next_timer();
    script.data(1000, Flags::default());
    let second = script.sent();
    assert!(
        due.is_some() || second.is_some(),
        "one waits, or the second of two is answered"
    );
    script.data(1000, Flags::default());
    if script.sent().is_none() {
        let before = script.now;
        script.waits();
        assert!(script.now - before <= 40 * MS);
        assert_eq!(script.sends().ack, script.seq);
    }
}

#[test]
fn keepalive() {
    let times = Keepalive {
        idle: 10 * SECOND,
        interval: SECOND,
        probes: 3,
    };
    let mut script = Script::open(&Config {
        keepalive: Some(times),
        ..plain()
    });
    script.waits();
    assert_eq!(script.now, 11 * SECOND);
    assert_eq!(script.sends().seq, ISN);
    script.data(0, Flags::default());
    for _ in 0..4 {
        script.waits();
        script.sent();
    }
    script.waits();
    assert_eq!(script.now, 24 * SECOND);
    assert!(script.sends().flags.has(Flags::RST));
    script.ends_with(Some(Error::TimedOut));
}

#[test]
fn urgent() {
    let mut script = Script::open(&plain());
    script
        .connection
        .write(
            3,
            Write {
                more: false,
                urgent: true,
            },
        )
        .expect("it is open");
    let header = script.sends();
    assert!(header.flags.has(Flags::URG));
    assert_eq!(header.urgent, 3);
    let header = Header {
        seq: script.seq,
        ack: script.ack,
        flags: Flags::ACK | Flags::URG,
        window: 60_000,
        urgent: 2,
        ..Header::default()
    };
    script.connection.on_segment(script.now, &header, 4);
    assert!(script.connection.take_events().has(Events::URGENT));
    assert_eq!(script.connection.urgent_mark(), Some(1));
    script.connection.read(script.now, 2);
    assert_eq!(script.connection.urgent_mark(), None);
}

#[test]
fn a_smaller_path_cuts_again() {
    let mut script = Script::open(&plain());
    script.write(2000);
    script.sends();
    script.sends();
    script.quiet();
    script.connection.on_icmp(ISN + 1, Unreachable::TooBig(500));
    let sizes: Vec<_> = core::iter::from_fn(|| script.sent())
        .map(|sent| sent.payload)
        .collect();
    assert_eq!(sizes, [0..500, 500..1000, 1000..1500, 1500..2000]);
}

#[test]
fn a_syn_reopens_what_waits() {
    let mut script = Script::open(&plain());
    script.connection.shutdown().expect("it is open");
    script.sends();
    script.ack += 1;
    script.data(0, Flags::FIN);
    assert_eq!(script.connection.state(), State::TimeWait);
    let syn = |seq| Header {
        seq,
        flags: Flags::SYN,
        ..Header::default()
    };
    let old = syn(script.seq - 100);
    assert!(!script.connection.on_segment(script.now, &old, 0).reopens);
    let new = syn(script.seq + 100);
    assert!(script.connection.on_segment(script.now, &new, 0).reopens);
}
