//! Segments of before, which came late: they bring neither data nor windows.

mod script;

use script::{SECOND, Script, plain};
use tcp::options::{Options, Timestamps};
use tcp::{Config, Flags};

fn stamped(value: u32) -> Options {
    Options {
        timestamps: Some(Timestamps { value, echo: 0 }),
        ..Options::default()
    }
}

#[test]
fn an_old_timestamp_brings_no_data() {
    let mut script = Script::connecting(&Config {
        timestamps: true,
        ..plain()
    });
    script.gets(Flags::SYN | Flags::ACK, stamped(1000), 0);
    script.seq += 1;
    script.sends();
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
