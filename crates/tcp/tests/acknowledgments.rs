//! What single acknowledgments reveal about the path, and what they do not.

mod script;

use script::{ISN, MS, SECOND, Script, plain, sent};
use tcp::options::{Options, Timestamps};
use tcp::{Config, Congested, Flags};

/// A connection with SACK, and timestamps where `stamps`.
fn sacking(stamps: bool) -> Script {
    let mut script = Script::connecting(&Config {
        sack: true,
        timestamps: stamps,
        ..plain()
    });
    script.now += 20 * MS;
    let options = Options {
        mss: Some(if stamps { 1012 } else { 1000 }),
        sack_permitted: true,
        timestamps: stamps.then_some(Timestamps {
            value: 1,
            echo: 1000,
        }),
        ..Options::default()
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    script.seq += 1;
    script.sends();
    script
}

/// An ACK up to byte `ack` of the stream, with blocks of it.
fn acks(script: &mut Script, ack: u32, blocks: &[(u32, u32)]) {
    let mut options = Options::default();
    for (start, end) in blocks {
        options.sack.push(ISN + 1 + start, ISN + 1 + end);
    }
    script.ack = ISN + 1 + ack;
    script.gets(Flags::ACK, options, 0);
}

/// Karn's algorithm: an acknowledgment of what was sent twice is no sample, and only a sample says
/// that the waits may be short again (RFC 6298, 5.7; Linux's tcp_ack_update_rtt).
#[test]
fn only_a_sample_ends_the_backoff() {
    let mut script = Script::open(&plain());
    script.write(1000);
    sent(&mut script);
    for _ in 0..3 {
        script.waits();
        sent(&mut script);
    }
    let backed_off = script.connection.info().rto;
    acks(&mut script, 1000, &[]);
    let info = script.connection.info();
    assert_eq!((info.backoff, info.retransmits), (3, 0));
    assert_eq!(info.rto, backed_off);
    // What is new waits as long, and is a sample.
    script.write(1000);
    sent(&mut script);
    script.now += 10 * MS;
    acks(&mut script, 2000, &[]);
    let info = script.connection.info();
    assert_eq!(info.backoff, 0);
    assert!(info.rto < backed_off);
}

/// The echo of a timestamp is a sample though the data was sent twice.
#[test]
fn an_echo_is_a_sample() {
    let mut script = sacking(true);
    script.write(1000);
    let first = script.sends();
    script.waits();
    sent(&mut script);
    script.waits();
    sent(&mut script);
    assert!(script.connection.info().backoff > 0);
    let stamps = |echo| Options {
        timestamps: Some(Timestamps { value: 2, echo }),
        ..Options::default()
    };
    script.ack += 1000;
    let mut zero = sacking(true);
    std::mem::swap(&mut zero, &mut script);
    // An echo of zero is none.
    zero.gets(Flags::ACK, stamps(0), 0);
    assert!(zero.connection.info().backoff > 0);
    script.write(1000);
    let first_again = script.sends();
    assert_eq!(first.options.timestamps, first_again.options.timestamps);
    script.waits();
    sent(&mut script);
    script.waits();
    sent(&mut script);
    let echo = first_again.options.timestamps.expect("a stamp").value;
    script.ack += 1000;
    script.gets(Flags::ACK, stamps(echo), 0);
    assert_eq!(script.connection.info().backoff, 0);
}

/// Without SACK a duplicate says that something has left the path, but no more than was on it
/// (Linux's tcp_limit_reno_sacked).
#[test]
fn duplicates_are_worth_no_more_than_what_is_underway() {
    let mut script = Script::open(&plain());
    script.write(10_000);
    assert_eq!(sent(&mut script).len(), 10);
    for _ in 0..200 {
        acks(&mut script, 0, &[]);
        sent(&mut script);
    }
    let info = script.connection.info();
    assert_eq!(info.congested, Congested::Recovery);
    script.write(1_000_000);
    let more = sent(&mut script);
    assert!(more.len() <= 7, "{more:?}");
}

/// Duplicates of before do not begin another recovery (RFC 6582, 4).
#[test]
fn a_recovery_without_sack_ends_beyond_its_point() {
    let mut script = Script::open(&plain());
    script.write(10_000);
    assert_eq!(sent(&mut script).len(), 10);
    for _ in 0..5 {
        acks(&mut script, 0, &[]);
    }
    sent(&mut script);
    acks(&mut script, 10_000, &[]);
    assert_eq!(script.connection.info().congested, Congested::Recovery);
    let threshold = script.connection.info().threshold;
    script.write(5000);
    sent(&mut script);
    for _ in 0..4 {
        acks(&mut script, 10_000, &[]);
    }
    assert_eq!(script.connection.info().threshold, threshold);
    acks(&mut script, 11_000, &[]);
    assert_eq!(script.connection.info().congested, Congested::Open);
}

/// Ten segments, of which the first was sent again for nothing; then another ten of which the first
/// is taken as lost. Returns the figures before that.
fn second_episode(script: &mut Script) -> (u64, u64) {
    script.write(10_000);
    assert_eq!(sent(script).len(), 10);
    script.now += 20 * MS;
    acks(script, 0, &[(1000, 5000)]);
    script.now += 20 * MS;
    script.connection.on_timer(script.now);
    assert_eq!(sent(script)[0], (0, 1000));
    script.now += 20 * MS;
    acks(script, 10_000, &[]);
    let info = script.connection.info();
    script.write(10_000);
    sent(script);
    script.now += 20 * MS;
    acks(script, 10_000, &[(11_000, 15_000)]);
    script.now += 20 * MS;
    script.connection.on_timer(script.now);
    assert_eq!(sent(script)[0], (10_000, 11_000));
    (info.congestion_window, info.threshold)
}

/// A D-SACK undoes the reduction that its retransmission is of, and no other (Linux's undo_marker).
#[test]
fn a_duplicate_of_before_undoes_nothing() {
    let mut script = sacking(false);
    let (_, threshold) = second_episode(&mut script);
    let reduced = script.connection.info().threshold;
    assert!(reduced < threshold);
    acks(&mut script, 10_000, &[(0, 1000), (11_000, 15_000)]);
    assert_eq!(
        script.connection.info().threshold,
        reduced,
        "it is of before"
    );
    acks(&mut script, 18_000, &[]);
    acks(&mut script, 18_000, &[(10_000, 11_000)]);
    assert_eq!(script.connection.info().threshold, threshold);
}

/// A peer cannot tell of more duplicates than this end has made (Linux: dsack_dups and
/// total_retrans).
#[test]
fn duplicates_that_were_never_sent_count_for_nothing() {
    let mut script = sacking(false);
    script.write(10_000);
    sent(&mut script);
    script.now += 20 * MS;
    acks(&mut script, 5000, &[]);
    for _ in 0..5 {
        acks(&mut script, 5000, &[(0, 1000)]);
    }
    sent(&mut script);
    acks(&mut script, 5000, &[(7000, 10_000)]);
    script.now += 20 * MS;
    script.connection.on_timer(script.now);
    assert_eq!(sent(&mut script)[0], (5000, 6000));
    let reduced = script.connection.info().threshold;
    assert!(reduced < u64::MAX);
    for _ in 0..4 {
        acks(&mut script, 6000, &[(5000, 6000), (7000, 10_000)]);
    }
    assert_eq!(script.connection.info().threshold, reduced);
    assert!(script.now < 2 * SECOND);
}

/// What is acknowledged sooner than the path ever took was sent before: its retransmission says
/// nothing of what was sent in between (RFC 8985, 6.2, step 2).
#[test]
fn too_soon_is_no_answer_to_a_retransmission() {
    let mut script = sacking(false);
    script.write(10_000);
    assert_eq!(sent(&mut script).len(), 10);
    script.now += 20 * MS;
    acks(&mut script, 0, &[(1000, 5000)]);
    assert_eq!(sent(&mut script)[0], (0, 1000));
    script.now += 5 * MS;
    acks(&mut script, 5000, &[]);
    let info = script.connection.info();
    assert_eq!((info.lost, info.retransmissions), (0, 1));
    assert!(sent(&mut script).is_empty());
    // In time it is one.
    script.now += 20 * MS;
    acks(&mut script, 6000, &[(7000, 10_000)]);
    assert_eq!(sent(&mut script)[0], (6000, 7000));
}

/// An echo of zero is none, and undoes no reduction.
#[test]
fn no_echo_undoes_nothing() {
    let mut script = sacking(true);
    script.write(1000);
    sent(&mut script);
    for _ in 0..2 {
        script.waits();
        sent(&mut script);
    }
    let reduced = script.connection.info().threshold;
    assert!(reduced < u64::MAX);
    script.ack += 1000;
    let stamps = Options {
        timestamps: Some(Timestamps { value: 2, echo: 0 }),
        ..Options::default()
    };
    script.gets(Flags::ACK, stamps, 0);
    assert_eq!(script.connection.info().threshold, reduced);
}
