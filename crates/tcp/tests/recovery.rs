//! Chosen losses and the cost of their repair: in retransmissions, in time, in window.

mod model;

use model::end::Plan;
use model::path::Traits;
use model::{MS, Net, SECOND};
use tcp::congestion::Algorithm;
use tcp::{Config, Info};

const RTT: u64 = 40 * MS;
const MSS: u64 = 1448;

/// Sends `segments` full segments, some of whose packets are lost (0 is the first with data, as the
/// handshake is over); returns what it took and the sender's figures.
fn send(segments: u64, losses: &[u64], config: &Config, forth: Traits) -> (u64, Info) {
    let mut net = Net::new(1, forth, Traits::ideal(RTT / 2));
    net.accepted([config, config]);
    // A first round trip gives the sender its sample.
    net.ends[0].plan = Plan {
        send: 1,
        ends: false,
        ..Plan::default()
    };
    net.ends[1].plan.ends = false;
    net.start();
    net.run(net.now + SECOND);
    net.now += SECOND;
    net.paths[0].came = 0;
    net.paths[0].losses = losses.to_vec();
    net.ends[0].plan.send = 1 + segments * MSS;
    let begin = net.now;
    net.pump(0);
    while net.ends[1].read < 1 + segments * MSS {
        assert!(net.step(begin + 100 * SECOND), "it arrives");
    }
    let took = net.now - begin;
    net.run(net.now + 5 * SECOND);
    (took, net.ends[0].connection.info())
}

fn still() -> Config {
    // Idle time before the test is no reason to restart here.
    Config {
        slow_start_after_idle: false,
        ..Config::default()
    }
}

#[test]
fn one_loss_costs_one_retransmission_and_a_round_trip() {
    let (took, info) = send(10, &[3], &still(), Traits::ideal(RTT / 2));
    assert_eq!(info.retransmissions, 1);
    assert!(took < 2 * RTT, "{} ms", took / MS);
    assert!(info.threshold < 10 * MSS, "the window was reduced");
}

#[test]
fn a_lost_tail_is_probed_before_the_timeout() {
    // A single segment may wait for a delayed acknowledgment: no earlier than the timeout here.
    let (took, info) = send(10, &[9], &still(), Traits::ideal(RTT / 2));
    assert_eq!(info.retransmissions, 1);
    assert!(took < 8 * RTT, "{} ms", took / MS);
    let (took, _) = send(10, &[7, 8, 9], &still(), Traits::ideal(RTT / 2));
    assert!(took < 6 * RTT, "{} ms", took / MS);
}

#[test]
fn a_lost_retransmission_needs_no_timeout() {
    // The eleventh packet is the retransmission of the fourth.
    let (took, info) = send(40, &[3, 12, 13], &still(), Traits::ideal(RTT / 2));
    assert!(info.retransmissions >= 3, "{}", info.retransmissions);
    assert!(took < 7 * RTT, "{} ms", took / MS);
}

#[test]
fn every_second_packet_of_a_window() {
    let losses: Vec<u64> = (0..10).map(|packet| 2 * packet).collect();
    let (took, info) = send(60, &losses, &still(), Traits::ideal(RTT / 2));
    assert!(info.retransmissions <= 14, "{}", info.retransmissions);
    assert!(took < 20 * RTT, "{} ms", took / MS);
}

#[test]
fn without_sack_partial_acknowledgments_repair() {
    let config = Config {
        sack: false,
        ..still()
    };
    let (took, info) = send(20, &[3, 5], &config, Traits::ideal(RTT / 2));
    assert_eq!(info.retransmissions, 2);
    assert!(took < 6 * RTT, "{} ms", took / MS);
}

#[test]
fn reordering_reduces_nothing_for_long() {
    let forth = Traits {
        reordering: 200_000,
        detour: RTT / 8,
        ..Traits::ideal(RTT / 2)
    };
    let (_, info) = send(2000, &[], &still(), forth);
    assert!(info.reordering);
    assert!(info.retransmissions < 40, "{}", info.retransmissions);
    assert!(info.duplicates <= info.retransmissions);
}

#[test]
fn a_timeout_by_delay_is_undone() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        let config = Config {
            algorithm,
            ..still()
        };
        let mut net = Net::new(1, Traits::ideal(RTT / 2), Traits::ideal(RTT / 2));
        net.accepted([&config, &config]);
        net.ends[0].plan = Plan {
            send: 100 * MSS,
            ends: false,
            ..Plan::default()
        };
        net.ends[1].plan.ends = false;
        net.start();
        net.run(net.now + SECOND);
        let before = net.ends[0].connection.info();
        // The path holds everything back for longer than the timeout.
        net.paths[0].traits.delay = SECOND;
        net.ends[0].plan.send += 10 * MSS;
        net.pump(0);
        net.run(net.now + 900 * MS);
        let during = net.ends[0].connection.info();
        assert!(during.backoff > 0 && during.congestion_window < before.congestion_window);
        net.run(net.now + 5 * SECOND);
        let after = net.ends[0].connection.info();
        assert!(
            after.congestion_window >= before.congestion_window,
            "{algorithm:?}"
        );
        // Slow start may have ended since, as the path is slower, but not by the reduction.
        assert!(after.threshold >= before.congestion_window);
    }
}

#[test]
fn idle_time_restarts_slow_start() {
    let mut net = Net::new(1, Traits::ideal(RTT / 2), Traits::ideal(RTT / 2));
    let config = Config::default();
    net.accepted([&config, &config]);
    net.ends[0].plan = Plan {
        send: 500 * MSS,
        ends: false,
        ..Plan::default()
    };
    net.ends[1].plan.ends = false;
    net.start();
    net.run(net.now + 5 * SECOND);
    assert!(net.ends[0].connection.info().congestion_window > 40 * MSS);
    net.now += 60 * SECOND;
    net.ends[0].plan.send += 1;
    net.pump(0);
    assert_eq!(net.ends[0].connection.info().congestion_window, 10 * MSS);
}

#[test]
fn the_receive_buffer_grows_with_the_path() {
    let rate = Traits {
        rate: 200_000_000,
        queue: 4 << 20,
        ..Traits::ideal(50 * MS)
    };
    let mut net = Net::new(1, rate, Traits::ideal(50 * MS));
    let config = Config {
        most_payload: 65535,
        ..Config::default()
    };
    net.accepted([&config, &config]);
    net.ends[0].plan = Plan {
        send: u64::MAX / 4,
        buffer: 8 << 20,
        ends: false,
        ..Plan::default()
    };
    net.ends[1].plan.ends = false;
    net.start();
    net.run(net.now + 5 * SECOND);
    let info = net.ends[1].connection.info();
    assert!(
        info.receive_buffer > 2 << 20 && info.receive_buffer <= 6 << 20,
        "{info:?}"
    );
}

/// A window that is lost as a whole comes back by slow start, though the program, not the window,
/// bounded it.
#[test]
fn a_lost_flight_comes_back_by_slow_start() {
    // The probe of the tail is lost too.
    let losses: Vec<u64> = (0..10).collect();
    let config = Config {
        sack: false,
        ..still()
    };
    let (took, info) = send(9, &losses[..9], &config, Traits::ideal(RTT / 2));
    assert!(info.retransmissions >= 9);
    // The timeout, then windows of one, two and four segments and more.
    assert!(took < 300 * MS + 5 * RTT, "{} ms", took / MS);
}

/// In slow start the window grows for who uses half of it (Linux's tcp_is_cwnd_limited).
#[test]
fn half_a_window_makes_it_grow() {
    let mut net = Net::new(1, Traits::ideal(RTT / 2), Traits::ideal(RTT / 2));
    let config = still();
    net.accepted([&config, &config]);
    net.ends[0].plan = Plan {
        send: 6 * MSS,
        ends: false,
        ..Plan::default()
    };
    net.ends[1].plan.ends = false;
    net.start();
    net.run(net.now + SECOND);
    let window = |net: &Net| net.ends[0].connection.info().congestion_window;
    let grown = window(&net);
    assert!(grown >= 11 * MSS, "{}", grown / MSS);
    for _ in 0..20 {
        net.now += SECOND;
        net.ends[0].plan.send += 6 * MSS;
        net.pump(0);
        net.run(net.now + SECOND);
    }
    assert!(window(&net) <= 13 * MSS, "{}", window(&net) / MSS);
}
