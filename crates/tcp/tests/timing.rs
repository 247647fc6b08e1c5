//! Single segments and their answers: timers, probes, and data that is held back.

mod script;

use script::{ISN, MS, SECOND, Script, plain};
use tcp::{Config, Error, Events, Flags, Header, Keepalive, State, Unreachable, Write};

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
    script.data(0, Flags::empty());
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
    script.data(0, Flags::empty());
    assert_eq!(script.sent().expect("data").payload, 0..1000);
}

#[test]
fn a_small_window_gets_no_silly_segments() {
    let mut script = Script::open(&plain());
    script.window = 100;
    script.data(0, Flags::empty());
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
    script.data(0, Flags::empty());
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
        script.data(1000, Flags::empty());
        script.sent();
        script.connection.read(script.now, 1000);
        script.now += MS;
    }
    script.data(1000, Flags::empty());
    script.sent();
    let due = script.connection.next_timer();
    script.data(1000, Flags::empty());
    let second = script.sent();
    assert!(
        due.is_some() || second.is_some(),
        "one waits, or the second of two is answered"
    );
    script.data(1000, Flags::empty());
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
    script.data(0, Flags::empty());
    for _ in 0..4 {
        script.waits();
        script.sent();
    }
    script.waits();
    assert_eq!(script.now, 24 * SECOND);
    assert!(script.sends().flags.contains(Flags::RST));
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
    assert!(header.flags.contains(Flags::URG));
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
    assert!(script.connection.take_events().contains(Events::URGENT));
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
    script.icmp(ISN + 1, Unreachable::TooBig(600));
    let sizes: Vec<_> = core::iter::from_fn(|| script.sent())
        .map(|sent| sent.payload)
        .collect();
    assert_eq!(sizes, [0..600, 600..1000, 1000..1600, 1600..2000]);
}

/// A window that stays closed is probed ever more rarely though the peer answers, and for ever, as
/// long as somebody holds the socket (RFC 1122, 4.2.2.17).
#[test]
fn answered_probes_back_off_and_go_on() {
    let mut script = Script::open(&Config {
        orphan_retries: 5,
        ..plain()
    });
    script.window = 0;
    script.data(0, Flags::empty());
    script.write(3000);
    script.quiet();
    let mut waits = Vec::new();
    for _ in 0..40 {
        let before = script.now;
        script.waits();
        script.sent().expect("a probe");
        waits.push((script.now - before) / MS);
        script.data(0, Flags::empty());
        script.quiet();
        assert_eq!(script.connection.info().probes, 0);
    }
    assert!(waits.windows(2).all(|pair| pair[1] >= pair[0]), "{waits:?}");
    assert_eq!(waits.last(), Some(&120_000));
    // Nobody holds it: it ends once the waits are the longest.
    script.connection.close(script.now);
    let mut probes = 0;
    while script.connection.state() != State::Closed && probes < 10 {
        script.waits();
        probes += u64::from(script.sent().is_some());
        script.data(0, Flags::empty());
    }
    assert!(probes < 10, "an orphan does not wait for ever");
}

#[test]
fn unanswered_probes_end_without_a_reset() {
    let mut script = Script::open(&plain());
    script.window = 0;
    script.data(0, Flags::empty());
    script.write(3000);
    script.quiet();
    let mut probes = 0;
    while script.connection.state() != State::Closed {
        script.waits();
        probes += u64::from(script.sent().is_some());
    }
    assert_eq!(probes, 15);
    script.ends_with(Some(Error::TimedOut));
}

/// TCP_USER_TIMEOUT bounds the time of a closed window, even if the probes are answered.
#[test]
fn a_user_timeout_bounds_a_closed_window() {
    let mut script = Script::open(&Config {
        user_timeout: 10 * SECOND,
        ..plain()
    });
    script.window = 0;
    script.data(0, Flags::empty());
    script.write(3000);
    script.quiet();
    while script.connection.state() != State::Closed {
        script.waits();
        script.sent();
        script.data(0, Flags::empty());
        assert!(script.now < 40 * SECOND);
    }
    script.ends_with(Some(Error::TimedOut));
}

/// A peer that takes its window back while data is in flight gets a probe of one segment, and is
/// not given up as long as it answers.
#[test]
fn a_window_taken_back_is_probed() {
    let mut script = Script::open(&plain());
    script.write(5000);
    while script.sent().is_some() {}
    script.ack += 1000;
    script.window = 0;
    script.data(0, Flags::empty());
    let mut sent = 0;
    for _ in 0..60 {
        script.waits();
        while let Some(again) = script.sent() {
            assert_eq!(again.payload, 1000..2000);
            sent += 1;
        }
        script.data(0, Flags::empty());
    }
    assert!(sent > 15, "{sent}");
    assert_eq!(script.connection.state(), State::Established);
}

#[test]
fn a_keepalive_that_is_set_late_counts_from_what_was_heard() {
    let times = |idle| {
        Some(Keepalive {
            idle: idle * SECOND,
            ..Keepalive::default()
        })
    };
    let mut script = Script::open(&plain());
    let begin = script.now;
    script.connection.set_keepalive(script.now, times(100));
    script.now += 30 * SECOND;
    script.connection.set_keepalive(script.now, times(50));
    assert_eq!(script.connection.next_timer(), Some(begin + 50 * SECOND));
    script.connection.set_keepalive(script.now, times(5));
    assert_eq!(script.connection.next_timer(), Some(script.now));
    script.connection.set_keepalive(script.now, None);
    assert_eq!(script.connection.next_timer(), None);
}
