//! The figures of TCP_INFO.

mod script;

use script::{Script, plain};
use tcp::{Config, Counts, Flags};

#[test]
fn counts() {
    let mut script = Script::open(&Config {
        most_payload: 65_000,
        ..plain()
    });
    script.write(2500);
    assert_eq!(script.sent().expect("data").payload, 0..2500);
    script.data(100, Flags::empty());
    script.seq += 50;
    script.data(100, Flags::empty());
    while script.sent().is_some() {}
    script.ack += 2500;
    script.data(0, Flags::empty());
    let info = script.connection.info();
    // SYN, its ACK, three of data and an ACK; of the peer SYN with ACK, two of data and an ACK.
    let expected = Counts {
        segments_in: 4,
        data_segments_in: 2,
        segments_out: 6,
        data_segments_out: 3,
        sent: 2500,
    };
    assert_eq!(info.counts, expected);
    assert_eq!((info.received, info.came_early), (100, 1));
    assert_eq!((info.acknowledged, info.delivered), (2500, 2500));
    assert_eq!(info.told_mss, 1000);
    assert!(!info.scaling);
    assert_eq!(info.last_sent, script.now);
}
