//! Single segments and their answers: states, resets and errors.

mod script;

use script::{ISN, SECOND, Script, plain};
use tcp::options::{Options, Timestamps};
use tcp::{Config, Error, Flags, Header, State, Unreachable, Write};

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
fn connect_times_out_after_131_seconds() {
    let mut script = Script::connecting(&plain());
    // Four of these are soon, as ip-sysctl says of tcp_syn_linear_timeouts.
    for _ in 0..10 {
        script.waits();
        assert_eq!(script.sends().flags, Flags::SYN);
    }
    script.waits();
    assert_eq!(script.now, 132 * SECOND);
    script.ends_with(Some(Error::TimedOut));
}

/// A peer that still has an old connection answers SYN by its ACK. The RST ends that, and the SYN
/// comes again at once.
#[test]
fn an_old_connection_delays_no_new_one() {
    let mut script = Script::connecting(&plain());
    script.ack += 500;
    script.gets(Flags::ACK, Options::default(), 0);
    assert_eq!(script.sends().flags, Flags::RST);
    script.now += 2_000_000;
    script.connection.on_timer(script.now);
    assert_eq!(script.sends().flags, Flags::SYN);
}

/// An answer with an echo of what was never sent is none.
#[test]
fn an_answer_with_a_wrong_echo_is_reset() {
    let mut script = Script::connecting(&Config {
        timestamps: true,
        ..plain()
    });
    let stamps = |echo| Options {
        timestamps: Some(Timestamps { value: 7, echo }),
        ..Options::default()
    };
    for echo in [999, 1001] {
        script.gets(Flags::SYN | Flags::ACK, stamps(echo), 0);
        assert_eq!(script.sends().flags, Flags::RST);
    }
    script.gets(Flags::SYN | Flags::ACK, stamps(1000), 0);
    assert_eq!(script.connection.state(), State::Established);
}

#[test]
fn unreachable() {
    let mut script = Script::connecting(&plain());
    script.icmp(ISN + 9, Unreachable::Host);
    assert_eq!(
        script.connection.state(),
        State::SynSent,
        "it was not of this connection"
    );
    script.icmp(ISN, Unreachable::Host);
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
    script.icmp(ISN + 1, Unreachable::Host);
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
    script.data(0, Flags::empty());
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
    assert!(script.sends().flags.contains(Flags::FIN));
    script.ack += 6;
    script.data(0, Flags::empty());
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
    script.data(0, Flags::empty());
    assert_eq!(script.connection.state(), State::TimeWait);
}

#[test]
fn unread_data_makes_close_a_reset() {
    let mut script = Script::open(&plain());
    script.data(10, Flags::empty());
    script.connection.close(script.now);
    assert!(script.sends().flags.contains(Flags::RST));
    script.ends_with(None);
}

#[test]
fn data_for_a_closed_socket_is_reset() {
    let mut script = Script::open(&plain());
    script.connection.close(script.now);
    script.sends();
    script.data(10, Flags::empty());
    assert!(script.sends().flags.contains(Flags::RST));
}

#[test]
fn an_orphan_waits_a_minute_for_fin() {
    let mut script = Script::open(&plain());
    script.connection.close(script.now);
    script.sends();
    script.ack += 1;
    script.data(0, Flags::empty());
    assert_eq!(script.connection.state(), State::FinWait2);
    script.waits();
    assert_eq!(script.now, 61 * SECOND);
    script.ends_with(None);
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
    let received = script.connection.on_segment(script.now, &old, 0);
    assert_eq!(received.reopens, None);
    let new = syn(script.seq + 100);
    let received = script.connection.on_segment(script.now, &new, 0);
    // Beyond SYN and FIN, and a window.
    assert_eq!(received.reopens, Some(ISN + 2 + 65537));
}

#[test]
fn shutting_the_reading_side_ends_nothing() {
    let mut script = Script::open(&plain());
    script.connection.stop_reading();
    script.data(10, Flags::empty());
    assert_eq!(script.connection.state(), State::Established);
    script.sends();
    script.connection.shutdown().expect("it is open");
    script.sends();
    script.data(10, Flags::empty());
    assert!(script.sends().flags.contains(Flags::RST));
    script.ends_with(Some(Error::ConnectionReset));
}

/// TCP_LINGER2 below zero: a closed socket does not wait for FIN.
#[test]
fn an_orphan_may_wait_for_no_fin() {
    let mut script = Script::open(&Config {
        fin_timeout: 0,
        ..plain()
    });
    script.connection.close(script.now);
    script.sends();
    script.ack += 1;
    script.data(0, Flags::empty());
    assert!(script.sends().flags.contains(Flags::RST));
    script.ends_with(None);
}

/// TIME_WAIT goes on though the socket is closed with data that nobody read.
#[test]
fn closing_late_keeps_time_wait() {
    let mut script = Script::open(&plain());
    script.connection.shutdown().expect("it is open");
    script.sends();
    script.ack += 1;
    script.data(10, Flags::FIN);
    assert_eq!(script.connection.state(), State::TimeWait);
    script.sends();
    script.connection.close(script.now);
    script.quiet();
    assert_eq!(script.connection.state(), State::TimeWait);
}

/// Where both ends have sent all, RST would only take the peer's data away.
#[test]
fn aborting_at_the_end_resets_nothing() {
    let mut script = Script::open(&plain());
    script.data(0, Flags::FIN);
    script.connection.shutdown().expect("it is open");
    assert!(script.sends().flags.contains(Flags::FIN));
    assert_eq!(script.connection.state(), State::LastAck);
    script.connection.abort();
    script.quiet();
    script.ends_with(None);
}

/// shutdown(2) ends an attempt to connect.
#[test]
fn shutting_an_attempt_ends_it() {
    let mut script = Script::connecting(&plain());
    assert_eq!(script.connection.shutdown(), Ok(()));
    script.quiet();
    script.ends_with(None);
}

/// SO_RCVLOWAT: a reader is woken when enough is there, when no more will come, or when no more
/// can before it reads.
#[test]
fn low_water() {
    let mut script = Script::open(&Config {
        receive_buffer: 3000,
        most_receive_buffer: 0,
        ..plain()
    });
    assert!(!script.connection.is_readable(1));
    script.data(1000, Flags::empty());
    assert!(script.connection.is_readable(1000));
    assert!(!script.connection.is_readable(1001));
    script.data(1500, Flags::empty());
    assert!(script.connection.is_readable(9000), "the window is full");
    script.connection.read(script.now, 2500);
    assert!(!script.connection.is_readable(1));
    script.data(0, Flags::FIN);
    assert!(script.connection.is_readable(1));
}

/// SYNs that keep coming for a simultaneous open do not keep it half open.
#[test]
fn a_simultaneous_open_times_out() {
    let mut script = Script::connecting(&plain());
    script.gets(Flags::SYN, Options::default(), 0);
    assert_eq!(script.connection.state(), State::SynReceived);
    assert_eq!(script.sends().flags, Flags::SYN | Flags::ACK);
    while script.connection.state() != State::Closed {
        script.now += 600_000_000;
        script.connection.on_timer(script.now);
        script.gets(Flags::SYN, Options::default(), 0);
        while script.sent().is_some() {}
        assert!(script.now < 200 * SECOND);
    }
    assert_eq!(script.connection.take_error(), Some(Error::TimedOut));
}
