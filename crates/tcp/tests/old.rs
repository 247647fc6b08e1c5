//! Old segments that arrive late: they bring neither data nor windows.

mod script;

use script::{MS, SECOND, Script, plain};
use tcp::options::{Options, Timestamps};
use tcp::{Config, Flags, Header, State};

fn stamped(value: u32) -> Options {
    Options {
        timestamps: Some(Timestamps { value, echo: 0 }),
        ..Options::default()
    }
}

/// A connection with timestamps, whose peer's was 1000 last.
fn with_stamps() -> Script {
    let mut script = Script::connecting(&Config {
        timestamps: true,
        ..plain()
    });
    script.gets(Flags::SYN | Flags::ACK, stamped(1000), 0);
    script.seq += 1;
    script.sends();
    script
}

#[test]
fn an_old_timestamp_brings_no_data() {
    let mut script = with_stamps();
    script.gets(Flags::ACK, stamped(1010), 100);
    script.seq += 100;
    script.now += SECOND;
    while script.sent().is_some() {}
    script.gets(Flags::ACK, stamped(990), 100);
    assert_eq!(script.sends().ack, script.seq, "it is not taken");
    script.gets(Flags::ACK, stamped(1010), 100);
    script.now += SECOND;
    script.connection.on_timer(script.now);
    assert_eq!(script.sends().ack, script.seq + 100, "it is");
}

#[test]
fn a_smaller_window_is_of_before_where_nothing_else_is_newer() {
    let mut script = Script::open(&plain());
    script.data(100, Flags::ACK);
    for window in [5000, 1000] {
        script.window = window;
        script.gets(Flags::ACK, Options::default(), 0);
    }
    while script.sent().is_some() {}
    script.write(5000);
    let sent = std::iter::from_fn(|| script.sent()).filter(|sent| !sent.payload.is_empty());
    assert_eq!(sent.count(), 5);
}

/// A SYN with an old timestamp is answered no more often than any, whatever it carries.
#[test]
fn an_old_syn_with_data_is_answered_rarely() {
    let mut script = with_stamps();
    let mut answers = 0;
    for _ in 0..100 {
        script.gets(Flags::SYN, stamped(900), 10);
        answers += std::iter::from_fn(|| script.sent()).count();
        script.now += MS;
    }
    assert_eq!(answers, 1);
    // Data is answered always: its sender waits.
    script.gets(Flags::ACK, stamped(900), 10);
    assert_eq!(script.sends().ack, script.seq);
}

/// Zero is what some peers begin with, and nothing is older than it.
#[test]
fn a_timestamp_of_zero_makes_nothing_old() {
    let mut script = Script::connecting(&Config {
        timestamps: true,
        ..plain()
    });
    script.gets(Flags::SYN | Flags::ACK, stamped(0), 0);
    script.seq += 1;
    script.sends();
    script.gets(Flags::ACK, stamped(0x9000_0000), 100);
    assert_eq!(script.connection.readable(), 100);
}

/// An ACK that another has overtaken still tells of what came out of order.
#[test]
fn an_overtaken_acknowledgment_counts() {
    let mut script = Script::connecting(&Config {
        timestamps: true,
        sack: true,
        ..plain()
    });
    let options = Options {
        mss: Some(1012),
        sack_permitted: true,
        ..stamped(1000)
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    script.seq += 1;
    script.sends();
    script.write(5000);
    while script.sent().is_some() {}
    script.gets(Flags::ACK, stamped(1020), 0);
    let mut late = stamped(1010);
    late.sack.push(script.ack + 988, script.ack + 2 * 988);
    script.gets(Flags::ACK, late, 0);
    assert_eq!(script.connection.info().sacked, 988);
    // One from a second ago is no more believed.
    late = stamped(20);
    late.sack.push(script.ack + 3 * 988, script.ack + 4 * 988);
    script.gets(Flags::ACK, late, 0);
    assert_eq!(script.connection.info().sacked, 988);
}

/// An ACK below all that was ever acknowledged is a guess (RFC 5961, 5.2).
#[test]
fn an_ack_of_what_was_never_sent_brings_no_data() {
    let mut script = Script::open(&plain());
    script.ack = script.ack.wrapping_sub(5000);
    script.data(100, Flags::empty());
    assert_eq!(script.connection.readable(), 0);
}

/// Data that is known already and reaches beyond is told of as a duplicate, and old data too.
#[test]
fn what_came_twice_is_told() {
    let mut script = Script::connecting(&Config {
        sack: true,
        ..plain()
    });
    let options = Options {
        mss: Some(1000),
        sack_permitted: true,
        ..Options::default()
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    script.seq += 1;
    let start = script.seq;
    script.data(100, Flags::empty());
    script.now += SECOND;
    script.connection.on_timer(script.now);
    while script.sent().is_some() {}
    script.seq = start;
    script.data(50, Flags::empty());
    let blocks = script.sends().options.sack;
    assert_eq!(blocks.as_slice(), [(start, start + 50)]);
}

/// A connection in TIME_WAIT with timestamps, whose peer's was 1000 last.
fn waiting() -> Script {
    let mut script = with_stamps();
    script.connection.shutdown().expect("it is open");
    script.sends();
    script.ack += 1;
    script.gets(Flags::ACK | Flags::FIN, stamped(1000), 0);
    script.seq += 1;
    script.sends();
    assert_eq!(script.connection.state(), State::TimeWait);
    script
}

fn reopens(script: &mut Script, ahead: i32, stamp: u32) -> bool {
    let syn = Header {
        seq: script.seq.wrapping_add_signed(ahead),
        flags: Flags::SYN,
        options: stamped(stamp),
        ..Header::default()
    };
    let received = script.connection.on_segment(script.now, &syn, 0);
    received.reopens.is_some()
}

#[test]
fn a_syn_of_before_reopens_nothing() {
    let mut script = waiting();
    assert!(!reopens(&mut script, 100, 999), "PAWS comes first");
    assert!(reopens(&mut script, 100, 1000));
    assert!(reopens(&mut script, -100, 1001));
    let due = script.connection.next_timer();
    script.now += SECOND;
    assert!(!reopens(&mut script, -100, 1000));
    // It may be a new one, for whose sake the wait is not to be longer.
    assert_eq!(script.connection.next_timer(), due);
    script.now -= SECOND;
    let waiting = script.connection.waiting().expect("it waits");
    assert!(waiting.next_isn() > script.ack);
    assert!(!waiting.may_be_reused(script.now));
    assert!(waiting.may_be_reused(script.now + 2 * SECOND));
}

/// TIME_WAIT answers what is no loop; a RST with an old timestamp does not end it.
#[test]
fn time_wait_answers_rarely() {
    let mut script = waiting();
    script.gets(Flags::RST, stamped(900), 0);
    assert_eq!(script.connection.state(), State::TimeWait);
    script.seq += 10;
    let mut answers = 0;
    for _ in 0..100 {
        script.gets(Flags::ACK, stamped(1000), 0);
        answers += std::iter::from_fn(|| script.sent()).count();
    }
    assert_eq!(answers, 1);
    script.seq -= 10;
    script.gets(Flags::RST, stamped(1000), 0);
    assert_eq!(script.connection.state(), State::Closed);
}

/// A peer that has seen its FIN acknowledged late sends RST from before it; one that lost what came
/// early sends it from beyond (RFC 5961, 3.2, as Linux extends it).
#[test]
fn resets_where_the_peer_may_be() {
    let mut script = Script::open(&plain());
    script.data(0, Flags::FIN);
    script.sends();
    script.seq -= 1;
    script.gets(Flags::RST, Options::default(), 0);
    assert_eq!(script.connection.state(), State::Closed);
}

/// What is kept of a connection that nobody holds behaves as the connection would.
#[test]
fn what_waits_is_as_the_connection() {
    let mut script = waiting();
    let mut kept = script.connection.waiting().expect("it waits");
    assert_eq!(Some(kept.due()), script.connection.next_timer());
    let header = |seq: u32, flags, stamp| Header {
        source: 2,
        destination: 1,
        seq,
        ack: script.ack,
        flags,
        window: 60_000,
        options: stamped(stamp),
        ..Header::default()
    };
    let seq = script.seq;
    let segments = [
        header(seq - 1, Flags::FIN | Flags::ACK, 1000),
        header(seq, Flags::ACK, 1001),
        header(seq + 7, Flags::ACK, 1000),
        header(seq + 7, Flags::ACK, 1000),
        header(seq + 7, Flags::SYN, 1002),
        header(seq - 7, Flags::SYN, 900),
        header(seq, Flags::RST, 1002),
    ];
    let mut answers = 0;
    for segment in segments {
        script.now += MS;
        let late = kept.on_segment(script.now, &segment, 0);
        let received = script.connection.on_segment(script.now, &segment, 0);
        assert_eq!(received.reopens, late.reopens, "{segment:?}");
        let answer = script.sent().map(|sent| sent.header);
        answers += u32::from(answer.is_some());
        assert_eq!(answer, late.answer, "{segment:?}");
        let is_over = script.connection.state() == State::Closed;
        assert_eq!(is_over, late.is_over, "{segment:?}");
        if !is_over {
            assert_eq!(Some(kept.due()), script.connection.next_timer());
        }
    }
    assert_eq!(answers, 2, "the FIN, and one of what may be a loop");
}
