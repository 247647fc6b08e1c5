//! The receiving half: the advertised window, the end of the stream, and lack of memory.

mod script;

use script::{Script, plain};
use tcp::options::Options;
use tcp::{Config, Flags, State};

/// A connection whose windows are told in units of 128 bytes.
fn scaled(buffer: u64) -> Script {
    let config = Config {
        window_scaling: true,
        receive_buffer: buffer,
        most_receive_buffer: 6 << 20,
        ..plain()
    };
    let mut script = Script::connecting(&config);
    let options = Options {
        mss: Some(1000),
        window_scale: Some(0),
        ..Options::default()
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    script.seq += 1;
    script.sends();
    script
}

#[test]
fn small_segments_close_the_window() {
    let mut script = scaled(10_000);
    let mut told = u64::MAX;
    for _ in 0..30_000 {
        script.data(1, Flags::empty());
        while let Some(sent) = script.sent() {
            told = u64::from(sent.header.window) << 7;
        }
        if told == 0 {
            break;
        }
        script.now += 1000;
    }
    assert_eq!(told, 0, "it closes");
    let readable = script.connection.readable();
    assert!((9000..=10_000).contains(&readable), "{readable}");
    // Reading opens it again.
    script.connection.read(script.now, readable);
    let window = u64::from(script.sends().window) << 7;
    assert!((9000..=10_000).contains(&window), "{window}");
}

/// Rounding takes nothing back of what the peer may have sent already.
#[test]
fn what_was_told_is_taken() {
    let mut script = scaled(10_000);
    script.data(9_999, Flags::empty());
    while script.sent().is_some() {}
    script.data(1, Flags::empty());
    assert_eq!(script.connection.readable(), 10_000);
}

#[test]
fn a_fin_below_what_came_early_ends_the_stream() {
    let mut script = Script::open(&plain());
    let start = script.seq;
    script.seq = start + 200;
    script.data(800, Flags::empty());
    script.seq = start + 400;
    script.data(100, Flags::FIN);
    assert!(!script.connection.has_ended());
    script.seq = start;
    script.data(200, Flags::empty());
    assert!(script.connection.has_ended());
    assert_eq!(script.connection.readable(), 500);
    assert_eq!(script.connection.state(), State::CloseWait);
    let acks: Vec<u32> = std::iter::from_fn(|| script.sent())
        .map(|sent| sent.header.ack)
        .collect();
    assert_eq!(acks.last(), Some(&(start + 501)));
}

#[test]
fn short_memory_takes_back_what_came_early() {
    let mut script = Script::open(&plain());
    let start = script.seq;
    for at in [1000, 3000, 5000] {
        script.seq = start + at;
        script.data(1000, Flags::empty());
    }
    assert_eq!(script.connection.prune(1500), Some(3500));
    assert_eq!(script.connection.info().out_of_order, 1500);
    assert_eq!(script.connection.prune(10_000), Some(1000));
    assert_eq!(script.connection.prune(1), None);
    // All of it counts when it comes again.
    script.seq = start;
    for _ in 0..6 {
        script.data(1000, Flags::empty());
    }
    assert_eq!(script.connection.readable(), 6000);
}

/// TCP_WINDOW_CLAMP bounds what is told, not what is kept.
#[test]
fn the_window_is_clamped() {
    let mut script = Script::open(&Config {
        window_clamp: 3000,
        ..plain()
    });
    assert_eq!(script.connection.info().receive_window, 3000);
    for _ in 0..10 {
        script.data(1000, Flags::empty());
        let window = std::iter::from_fn(|| script.sent()).last();
        assert!(window.is_none_or(|sent| (1000..=3000).contains(&sent.header.window)));
    }
    assert_eq!(script.connection.readable(), 10_000);
    script.connection.set_window_clamp(u64::MAX);
    script.connection.read(script.now, 10_000);
    assert!(script.sends().window > 60_000);
}

#[test]
fn what_there_is_no_memory_for_is_answered() {
    let mut script = Script::open(&plain());
    script.write(5000);
    let count = std::iter::from_fn(|| script.sent()).count();
    assert!(count >= 3);
    for _ in 0..4 {
        let header = script.header(Flags::ACK | Flags::PSH);
        assert!(script.connection.is_next(&header, 100));
        script
            .connection
            .on_segment_without_memory(script.now, &header, 100);
        // It is no duplicate acknowledgment, for which something would be sent again.
        let answer = script.sends();
        assert_eq!((answer.ack, answer.flags), (script.seq, Flags::ACK));
        script.quiet();
    }
    assert!(!script.connection.is_next(&script.header(Flags::ACK), 0));
    script.data(100, Flags::empty());
    assert_eq!(script.connection.readable(), 100);
    script.seq += 1;
    assert!(!script.connection.is_next(&script.header(Flags::ACK), 100));
}
