//! What ICMP and routing report about the path.

mod script;

use script::{ISN, MS, SECOND, Script, plain, sent};
use tcp::options::{Options, Timestamps};
use tcp::{Config, Error, Events, Flags, Unreachable};

/// Forged ICMP can make segments neither tiny nor larger.
#[test]
fn the_size_of_segments_is_bounded() {
    let mut script = Script::open(&plain());
    script.write(2000);
    sent(&mut script);
    script.icmp(ISN + 1, Unreachable::TooBig(9000));
    script.icmp(ISN, Unreachable::TooBig(600));
    assert_eq!(script.connection.info().send_mss, 1000, "none of it counts");
    script.icmp(ISN + 1, Unreachable::TooBig(68));
    assert_eq!(script.connection.info().send_mss, 512);
    script.icmp(ISN + 1, Unreachable::TooBig(900));
    assert_eq!(script.connection.info().send_mss, 512);
}

/// Whatever the link takes, the timestamps leave room for some data.
#[test]
fn segments_are_never_empty() {
    let config = Config {
        timestamps: true,
        mss: 8,
        ..plain()
    };
    let mut script = Script::connecting(&config);
    let stamps = Timestamps { value: 7, echo: 0 };
    let options = Options {
        timestamps: Some(stamps),
        ..Options::default()
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    assert_eq!(script.connection.info().send_mss, 36);
}

/// A path that grows again is used, up to what the SYNs agreed on.
#[test]
fn a_larger_path_is_used() {
    let mut script = Script::open(&plain());
    script.write(2000);
    sent(&mut script);
    script.icmp(ISN + 1, Unreachable::TooBig(600));
    sent(&mut script);
    script.ack += 2000;
    script.data(0, Flags::empty());
    script.connection.set_path_mss(800);
    script.write(800);
    assert_eq!(sent(&mut script), [(2000, 2800)]);
    script.connection.set_path_mss(9000);
    assert_eq!(script.connection.info().send_mss, 1000);
    assert_eq!(
        script.connection.info().threshold,
        u64::MAX,
        "it is no congestion"
    );
}

/// A router that says that nothing gets through takes back the backoff: the path may come back
/// before the timeout would (RFC 6069).
#[test]
fn unreachable_hosts_take_back_the_backoff() {
    let mut script = Script::open(&plain());
    script.write(1000);
    sent(&mut script);
    for _ in 0..3 {
        script.waits();
        sent(&mut script);
    }
    let info = script.connection.info();
    script.icmp(ISN + 1, Unreachable::Port);
    assert_eq!(script.connection.info().backoff, info.backoff);
    script.icmp(ISN + 1, Unreachable::Host);
    let now = script.connection.info();
    assert_eq!((now.backoff, now.rto), (info.backoff - 1, info.rto / 2));
    let due = script.connection.next_timer().expect("a timeout");
    assert_eq!(due, script.now + now.rto);
}

#[test]
fn errors_are_told_where_the_program_asks() {
    let mut script = Script::open(&Config {
        report_errors: true,
        ..plain()
    });
    script.write(1000);
    sent(&mut script);
    script.icmp(ISN + 1, Unreachable::Host);
    let events = script.connection.take_events();
    assert!(events.contains(Events::ERROR) && !events.contains(Events::CLOSED));
    assert_eq!(script.connection.take_error(), Some(Error::HostUnreachable));
}

/// A closed socket waits for FIN as long as the path may need.
#[test]
fn a_slow_path_has_longer_to_end() {
    let mut script = Script::connecting(&Config {
        fin_timeout: SECOND,
        ..plain()
    });
    script.now += 700 * MS;
    let options = Options {
        mss: Some(1000),
        ..Options::default()
    };
    script.gets(Flags::SYN | Flags::ACK, options, 0);
    script.seq += 1;
    script.sends();
    script.connection.close(script.now);
    assert!(script.connection.lingers());
    script.sends();
    let rto = script.connection.info().rto;
    script.ack += 1;
    script.data(0, Flags::empty());
    assert!(!script.connection.lingers());
    let wait = script.connection.next_timer().map(|due| due - script.now);
    let rto = rto.min(script.connection.info().rto);
    assert!(wait >= Some(rto * 7 / 2), "{wait:?} {rto}");
}
