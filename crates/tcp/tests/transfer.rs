//! Bytes arrive exactly once and in order, and connections end, over paths of all kinds.

mod model;

use model::path::{Random, Traits};
use model::{MS, Net, SECOND};
use tcp::{Config, State};

fn traits(random: &mut Random) -> Traits {
    let rates = [0, 1_000_000, 10_000_000, 100_000_000];
    Traits {
        delay: random.below(100) * MS / 2 + random.below(MS),
        rate: rates[random.below(4) as usize],
        queue: 3000 + random.below(200_000),
        loss: random.below(3) * random.below(50_000),
        duplication: random.below(2) * random.below(50_000),
        reordering: random.below(2) * random.below(200_000),
        detour: random.below(50) * MS + 1,
    }
}

fn config(random: &mut Random) -> Config {
    Config {
        mss: [536, 1460, 8960, 65495][random.below(4) as usize],
        most_payload: [1, 65535][random.below(2) as usize],
        timestamps: random.below(3) > 0,
        sack: random.below(3) > 0,
        window_scaling: random.below(3) > 0,
        algorithm: [
            tcp::congestion::Algorithm::Cubic,
            tcp::congestion::Algorithm::Reno,
        ][random.below(2) as usize],
        receive_buffer: [2000, 65536, 300_000][random.below(3) as usize],
        most_receive_buffer: [0, 6 << 20][random.below(2) as usize],
        nodelay: random.below(2) > 0,
        ..Config::default()
    }
}

/// One transfer in both directions, all of it by the seed.
fn transfer(seed: u64) {
    let mut random = Random(seed * 2 + 1);
    for _ in 0..10 {
        random.next();
    }
    let (forth, back) = (traits(&mut random), traits(&mut random));
    let mut net = Net::new(seed, forth, back);
    let configs = [config(&mut random), config(&mut random)];
    if random.below(2) > 0 {
        net.accepted([&configs[0], &configs[1]]);
    } else {
        net.pair([&configs[0], &configs[1]]);
    }
    for end in &mut net.ends {
        end.plan.send = random.below(2) * random.below(400_000);
        end.plan.buffer = 1 + random.below(100_000);
        end.plan.piece = random.below(2) * (1 + random.below(9000));
        end.plan.reads = [1_000_000, 300_000][random.below(2) as usize];
    }
    net.start();
    net.run(20_000 * SECOND);
    let what = || format!("seed {seed}: {forth:?} {back:?} {configs:?}");
    for at in 0..2 {
        let (end, peer) = (&net.ends[at], &net.ends[at ^ 1]);
        assert_eq!(end.error, None, "{}", what());
        assert_eq!(
            end.read,
            peer.plan.send,
            "{} {:?}",
            what(),
            end.connection.info()
        );
        assert_eq!(end.connection.state(), State::Closed, "{}", what());
        assert_eq!(end.connection.next_timer(), None);
    }
    // A timer sends something, but for some probes and waits.
    let most = 1000 + net.sent;
    assert!(net.timers < most, "{} timers, {}", net.timers, what());
}

#[test]
fn exactly_once_and_in_order() {
    for seed in 0..1000 {
        transfer(seed);
    }
}

#[test]
#[ignore = "long: needs a release build"]
fn exactly_once_and_in_order_long() {
    for seed in 1000..51_000 {
        transfer(seed);
    }
}
