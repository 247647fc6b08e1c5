//! Goodput compared with the path's capacity, and fairness.

mod model;

use model::end::Plan;
use model::path::Traits;
use model::{MS, Net, SECOND};
use tcp::Config;

/// The model of the second issue's paths: a rate, a round trip time, a queue of its product and
/// loss of data.
fn traits(rate: u64, rtt: u64, loss: u64) -> (Traits, Traits) {
    let product = rate / 8 * rtt / SECOND;
    let forth = Traits {
        rate,
        queue: product.max(64 * 1500),
        loss,
        ..Traits::ideal(rtt / 2)
    };
    (forth, Traits::ideal(rtt / 2))
}

/// Sends for `seconds`; returns goodput as a share of what the path carries of payload.
fn goodput(rate: u64, rtt: u64, loss: u64, seconds: u64, seed: u64) -> f64 {
    let (forth, back) = traits(rate, rtt, loss);
    let mut net = Net::new(seed, forth, back);
    let config = Config {
        most_payload: 65535,
        ..Config::default()
    };
    net.pair([&config, &config]);
    net.ends[0].plan = Plan {
        send: u64::MAX / 4,
        ends: false,
        ..Plan::default()
    };
    net.ends[1].plan.ends = false;
    net.start();
    let begin = net.now;
    net.run(begin + seconds * SECOND);
    let carried = rate as f64 / 8.0 * seconds as f64 * 1448.0 / 1500.0;
    net.ends[1].read as f64 / carried
}

/// Means of some seeds, by loss in per mille and round trip time in ms.
fn table(seconds: u64, seeds: u64) -> Vec<(u64, u64, u64, f64)> {
    let mut rows = Vec::new();
    for rate in [1, 10, 100] {
        for rtt in [1, 20, 100] {
            for loss in [0, 1, 10, 50] {
                let each = |seed| goodput(rate * 1_000_000, rtt * MS, loss * 1000, seconds, seed);
                let mean = (0..seeds).map(each).sum::<f64>() / seeds as f64;
                println!("{rate:>3} Mbit/s {rtt:>3} ms {loss:>2} per mille: {mean:.3}");
                rows.push((rate, rtt, loss, mean));
            }
        }
    }
    rows
}

/// What a Reno of the same path would reach by Mathis's formula, as a share of the rate, and at
/// most all of it.
fn mathis(rate: u64, rtt: u64, loss: u64) -> f64 {
    let loss = loss as f64 / 1000.0;
    let bytes = 1448.0 / (rtt as f64 / 1000.0) * 1.22 / loss.sqrt();
    (bytes * 8.0 / (rate as f64 * 1e6)).min(1.0)
}

#[test]
fn fills_paths_without_loss() {
    for (rate, rtt) in [(1, 20), (10, 1), (10, 100), (100, 20)] {
        let share = goodput(rate * 1_000_000, rtt * MS, 0, 10, 1);
        assert!(share > 0.9, "{rate} Mbit/s, {rtt} ms: {share}");
    }
}

#[test]
fn repairs_losses_in_time() {
    for (rate, rtt, loss) in [
        (10, 1, 10),
        (10, 20, 1),
        (1, 20, 10),
        (10, 20, 10),
        (10, 100, 10),
    ] {
        let share = goodput(rate * 1_000_000, rtt * MS, loss * 1000, 20, 1);
        let expected = 0.75 * mathis(rate, rtt, loss);
        assert!(
            share > expected,
            "{rate} Mbit/s, {rtt} ms, {loss}: {share}, not {expected}"
        );
    }
}

/// Two flows that begin at different times share alike in the end.
fn jain(rate: u64, rtt: u64, loss: u64, seed: u64, seconds: u64) -> f64 {
    let (forth, back) = traits(rate * 1_000_000, rtt * MS, loss * 1000);
    let mut net = Net::new(seed, forth, back);
    let config = Config {
        most_payload: 65535,
        ..Config::default()
    };
    let endless = Plan {
        send: u64::MAX / 4,
        ends: false,
        ..Plan::default()
    };
    for pair in 0..2 {
        let first = net.pair([&config, &config]);
        net.ends[first].plan = endless;
        net.ends[first + 1].plan.ends = false;
        net.pump(first);
        net.pump(first + 1);
        net.run(net.now + (3 + 2 * pair) * SECOND);
    }
    let before = [net.ends[1].read, net.ends[3].read];
    net.run(net.now + seconds * SECOND);
    let got = [1, 3].map(|end| (net.ends[end].read - before[end / 2]) as f64);
    let sum = got[0] + got[1];
    sum * sum / (2.0 * (got[0] * got[0] + got[1] * got[1]))
}

#[test]
fn shares_fairly() {
    for (rate, rtt, loss) in [(10, 20, 0), (10, 20, 1), (10, 100, 0)] {
        let index = jain(rate, rtt, loss, 1, 60);
        assert!(index > 0.95, "{rate} Mbit/s, {rtt} ms, {loss}: {index}");
    }
}

/// Prints the tables of goodput and fairness.
#[test]
#[ignore = "long: needs a release build"]
fn tables() {
    for (rate, rtt, loss, share) in table(30, 5) {
        let expected = if loss == 0 {
            0.85
        } else {
            0.6 * mathis(rate, rtt, loss)
        };
        assert!(
            share > expected,
            "{rate} Mbit/s, {rtt} ms, {loss}: {share}, not {expected}"
        );
    }
    for rate in [10, 100] {
        for rtt in [20, 100] {
            for loss in [0, 1, 10] {
                let mean = (0..5)
                    .map(|seed| jain(rate, rtt, loss, seed, 120))
                    .sum::<f64>()
                    / 5.0;
                println!("Jain {rate} Mbit/s {rtt} ms {loss} per mille: {mean:.3}");
                assert!(mean > 0.9, "{mean}");
            }
        }
    }
}
