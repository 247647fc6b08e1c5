//! When data is acknowledged.

mod script;

use script::{MS, SECOND, Script, plain};
use tcp::options::Options;
use tcp::{Config, Flags};

/// A connection whose beginning, with its quick acknowledgments, is over. The round trip took
/// `rtt`.
fn running(rtt: u64) -> Script {
    let config = Config {
        // So large that two segments are far from half of the window.
        receive_buffer: 60_000,
        ..plain()
    };
    let mut script = Script::connecting(&config);
    script.now += rtt;
    let options = Options {
        mss: Some(1000),
        ..Options::default()
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    script.seq += 1;
    script.sends();
    for _ in 0..40 {
        takes(&mut script, 1000, Flags::empty());
        while script.sent().is_some() {}
        script.now += MS;
    }
    assert_eq!(script.connection.next_timer(), None, "all is acknowledged");
    script
}

/// Data comes and is read.
fn takes(script: &mut Script, length: usize, flags: Flags) {
    script.data(length, flags);
    let readable = script.connection.readable();
    script.connection.read(script.now, readable);
}

#[test]
fn every_second_segment_is_acknowledged() {
    let mut script = running(20 * MS);
    for _ in 0..10 {
        takes(&mut script, 1000, Flags::empty());
        script.quiet();
        script.now += MS;
        takes(&mut script, 1000, Flags::empty());
        assert_eq!(script.sends().ack, script.seq);
        script.now += MS;
    }
}

/// Also where the program reads late.
#[test]
fn every_second_segment_counts_though_it_is_not_read() {
    let mut script = running(20 * MS);
    script.data(1000, Flags::empty());
    script.quiet();
    script.data(1000, Flags::empty());
    assert_eq!(script.sends().ack, script.seq);
}

/// How long the acknowledgment of a lone segment waits, after some that waited.
fn wait_of_a_lone_segment(rtt: u64) -> u64 {
    let mut script = running(rtt);
    let mut wait = 0;
    for _ in 0..6 {
        takes(&mut script, 1000, Flags::empty());
        script.quiet();
        let begin = script.now;
        script.waits();
        wait = script.now - begin;
        assert_eq!(script.sends().ack, script.seq);
    }
    wait
}

/// No longer than the path takes, or 40 ms, nor than 200 ms.
#[test]
fn the_wait_is_bounded_by_the_round_trip() {
    assert_eq!(wait_of_a_lone_segment(10 * MS), 40 * MS);
    assert_eq!(wait_of_a_lone_segment(90 * MS), 90 * MS);
    assert_eq!(wait_of_a_lone_segment(SECOND), 200 * MS);
}

/// One that is nearly due goes at once.
#[test]
fn what_is_nearly_due_is_sent() {
    let mut script = running(20 * MS);
    script.data(100, Flags::PSH);
    script.now += 25 * MS;
    script.data(100, Flags::PSH);
    script.quiet();
    script.now += 7 * MS;
    script.data(100, Flags::PSH);
    assert_eq!(script.sends().ack, script.seq);
}

/// The end of a message, all of which was read, is acknowledged: its sender may wait. Where this
/// end answers, the answer does it.
#[test]
fn what_is_pushed_and_read_is_acknowledged() {
    let mut script = running(20 * MS);
    script.data(100, Flags::PSH);
    script.quiet();
    script.connection.read(script.now, 100);
    assert_eq!(script.sends().ack, script.seq);
    // A request and its answer.
    assert!(script.connection.is_quick_ack());
    takes(&mut script, 100, Flags::PSH);
    script.write(10);
    assert_eq!(script.sends().ack, script.seq);
    assert!(!script.connection.is_quick_ack());
    script.ack += 10;
    script.now += 100 * MS;
    takes(&mut script, 100, Flags::PSH);
    script.quiet();
    script.connection.set_quick_ack(true);
    assert_eq!(script.sends().ack, script.seq);
}

#[test]
fn a_hole_that_is_filled_is_acknowledged() {
    let mut script = running(20 * MS);
    let start = script.seq;
    script.seq += 10;
    script.data(10, Flags::empty());
    assert_eq!(script.sends().ack, start);
    script.seq = start;
    script.data(10, Flags::empty());
    assert_eq!(script.sends().ack, start + 20);
}

/// Small segments are no full ones: they wait together.
#[test]
fn small_segments_wait_together() {
    let mut script = running(20 * MS);
    for _ in 0..5 {
        script.data(100, Flags::PSH);
        script.quiet();
        script.now += MS;
    }
    script.waits();
    assert_eq!(script.sends().ack, script.seq);
}

/// A client that knows that data follows lets the ACK ride on it (TCP_DEFER_ACCEPT).
#[test]
fn the_ack_of_syn_may_wait() {
    let mut script = Script::connecting(&Config {
        defer_accept: 1,
        ..plain()
    });
    let options = Options {
        mss: Some(1000),
        ..Options::default()
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    script.seq += 1;
    script.quiet();
    assert_eq!(script.connection.next_timer(), Some(script.now + 200 * MS));
    script.write(10);
    let sent = script.sent().expect("data");
    assert_eq!((sent.header.ack, sent.payload), (script.seq, 0..10));
}
