//! When data is sent: Nagle, cork, urgent data, and a peer's window that shrinks.

mod script;

use script::{ISN, Script, plain, sent};
use tcp::{Config, Events, Flags, Header, Write};

/// Without TCP_NODELAY, what a cork held waits for Nagle too.
#[test]
fn without_cork_nagle_holds() {
    let mut script = Script::open(&plain());
    script.write(10);
    assert_eq!(sent(&mut script), [(0, 10)]);
    script.connection.set_cork(true);
    script.write(10);
    script.connection.set_cork(false);
    script.quiet();
    script.ack += 10;
    script.data(0, Flags::empty());
    assert_eq!(sent(&mut script), [(10, 20)]);
}

/// Setting TCP_NODELAY pushes what waits even where TCP_CORK holds it, and only that (tcp(7)).
#[test]
fn nodelay_pushes_through_a_cork() {
    let mut script = Script::open(&plain());
    script.connection.set_cork(true);
    script.write(10);
    script.quiet();
    script.connection.set_nodelay(true);
    assert_eq!(sent(&mut script), [(0, 10)]);
    script.write(10);
    script.quiet();
    script.connection.set_cork(false);
    assert_eq!(sent(&mut script), [(10, 20)]);
    // Where nothing waited there was nothing to push.
    script.connection.set_nodelay(false);
    script.connection.set_cork(true);
    script.connection.set_nodelay(true);
    script.write(10);
    script.quiet();
}

fn urgent(script: &mut Script, length: u64) {
    let how = Write {
        more: false,
        urgent: true,
    };
    script.connection.write(length, how).expect("it is open");
}

/// Each segment has its own distance to the urgent byte, so that no device cuts them; and none of
/// them waits for Nagle.
#[test]
fn urgent_data_goes_in_single_segments() {
    let mut script = Script::open(&Config {
        most_payload: 65_000,
        ..plain()
    });
    urgent(&mut script, 2500);
    let headers: Vec<_> = std::iter::from_fn(|| script.sent())
        .map(|sent| (sent.payload.end - sent.payload.start, sent.header.urgent))
        .collect();
    assert_eq!(headers, [(1000, 2500), (1000, 1500), (500, 500)]);
    script.write(10);
    assert_eq!(sent(&mut script), [(2500, 2510)]);
    // Acknowledged, it is over.
    script.ack += 2510;
    script.data(0, Flags::empty());
    script.write(2000);
    let next = script.sent().expect("data");
    assert_eq!(next.payload, 2510..4510);
    assert!(!next.header.flags.contains(Flags::URG));
}

/// The urgent pointer is news once, and not where the byte has come.
#[test]
fn an_urgent_byte_is_told_once() {
    let mut script = Script::open(&plain());
    let urgent = |script: &mut Script, pointer, payload| {
        let header = Header {
            seq: script.seq,
            ack: script.ack,
            flags: Flags::ACK | Flags::URG,
            window: 60_000,
            urgent: pointer,
            ..Header::default()
        };
        script.connection.on_segment(script.now, &header, payload);
        script.connection.take_events().contains(Events::URGENT)
    };
    assert!(urgent(&mut script, 5, 0), "it is to come");
    assert_eq!(script.connection.urgent_mark(), Some(4));
    assert!(!script.connection.has_urgent());
    assert!(!urgent(&mut script, 5, 5));
    assert!(script.connection.has_urgent());
    assert!(!urgent(&mut script, 5, 5), "a retransmission");
    script.connection.read(script.now, 5);
    assert!(!script.connection.has_urgent());
    // Zero means the first byte, as on Linux.
    script.seq += 5;
    assert!(urgent(&mut script, 0, 1));
    assert_eq!(script.connection.urgent_mark(), Some(5));
}

/// An ACK from beyond the window would not be acceptable to a peer that has taken it back.
#[test]
fn acknowledges_within_a_window_that_shrank() {
    let mut script = Script::open(&plain());
    script.write(5000);
    sent(&mut script);
    script.window = 1000;
    script.ack += 1000;
    script.data(0, Flags::empty());
    script.data(10, Flags::FIN);
    let acks: Vec<_> = std::iter::from_fn(|| script.sent()).collect();
    assert_eq!(acks[0].header.seq, ISN + 1 + 2000);
    assert_eq!(acks[0].header.ack, script.seq);
}

/// The peer learns of urgent data though its window is closed (RFC 9293, 3.8.5).
#[test]
fn a_closed_window_keeps_no_urgent_pointer() {
    let mut script = Script::open(&plain());
    script.window = 0;
    script.data(0, Flags::empty());
    urgent(&mut script, 10);
    script.quiet();
    script.waits();
    let told = script.sends();
    assert!(told.flags.contains(Flags::URG));
    assert_eq!((told.seq, told.urgent), (ISN + 1, 10));
    assert_eq!(script.sends().seq, ISN, "the probe that is answered");
    script.quiet();
    // Sending into the window wakes the writers that wait.
    script.connection.take_events();
    script.window = 1000;
    script.data(0, Flags::empty());
    assert!(script.connection.take_events().contains(Events::WRITABLE));
}
