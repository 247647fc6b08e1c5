//! Arbitrary segments: nothing panics, nothing grows without bound, nothing is sent for ever, and
//! an attacker who guesses does not end a connection.

mod model;

use model::end::Plan;
use model::path::{Random, Traits};
use model::{MS, Net, Packet, SECOND};
use proptest::prelude::*;
use tcp::options::{Blocks, Options, Timestamps};
use tcp::{
    Config, Connection, Error, Flags, Header, Identity, Keepalive, State, Unreachable, Write,
};

/// What happens to one connection. Numbers are near what the connection expects, or are not.
#[derive(Clone, Debug)]
enum Step {
    Segment {
        seq: i32,
        ack: i32,
        flags: u8,
        window: u16,
        urgent: u16,
        payload: u16,
        stamps: Option<(i32, i32)>,
        blocks: Vec<(i32, i32)>,
    },
    Write(u16, bool, bool),
    Read(u16),
    Shutdown,
    Close,
    Abort,
    Timer,
    Wait(u32),
    /// Another CPU's clock is behind.
    Back(u16),
    Icmp(i32, u8, u16),
    Cork(bool),
    Prune(u16),
    PathMss(u16),
    LowWater(u32),
    QuickAck(bool),
    Keepalive(u8),
    UserTimeout(u32),
}

fn near() -> impl Strategy<Value = i32> {
    prop_oneof![4 => -3i32..3, 4 => -5000i32..70_000, 1 => any::<i32>()]
}

fn segment() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![6 => Just(16u8), 3 => Just(24u8), 1 => Just(17u8), 1 => Just(18u8),
        1 => Just(2u8), 1 => Just(4u8), 2 => any::<u8>()];
    let blocks = proptest::collection::vec((near(), near()), 0..4);
    let stamps = proptest::option::of((near(), near()));
    (
        near(),
        near(),
        flags,
        any::<u16>(),
        0u16..5,
        0u16..3000,
        stamps,
        blocks,
    )
        .prop_map(
            |(seq, ack, flags, window, urgent, payload, stamps, blocks)| Step::Segment {
                seq,
                ack,
                flags,
                window,
                urgent,
                payload,
                stamps,
                blocks,
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => segment(),
        3 => (any::<u16>(), any::<bool>(), any::<bool>())
            .prop_map(|(length, more, urgent)| Step::Write(length, more, urgent)),
        2 => any::<u16>().prop_map(Step::Read),
        1 => Just(Step::Shutdown),
        1 => Just(Step::Close),
        1 => proptest::bool::weighted(0.1)
            .prop_map(|yes| if yes { Step::Abort } else { Step::Timer }),
        3 => Just(Step::Timer),
        2 => (0u32..2_000_000_000).prop_map(Step::Wait),
        1 => any::<u16>().prop_map(Step::Back),
        1 => (near(), any::<u8>(), any::<u16>())
            .prop_map(|(seq, what, mss)| Step::Icmp(seq, what, mss)),
        1 => any::<bool>().prop_map(Step::Cork),
        1 => any::<u16>().prop_map(Step::Prune),
        1 => any::<u16>().prop_map(Step::PathMss),
        1 => (0u32..200_000).prop_map(Step::LowWater),
        1 => any::<bool>().prop_map(Step::QuickAck),
        1 => any::<u8>().prop_map(Step::Keepalive),
        1 => any::<u32>().prop_map(Step::UserTimeout),
    ]
}

/// A connection and what its peer would have to know of it.
struct Target {
    connection: Connection,
    now: u64,
    /// The last segment that it sent, and the one that it expects.
    sent: u32,
    expects: u32,
    readable: u64,
}

impl Target {
    fn new(config: &Config) -> Self {
        let identity = Identity {
            local: 1,
            peer: 2,
            isn: 0xffff_f000,
            stamp_offset: 9,
        };
        let now = SECOND;
        let connection = Connection::connect(now, config, identity);
        Target {
            connection,
            now,
            sent: 0,
            expects: 0xffff_ff00,
            readable: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Segment {
                seq,
                ack,
                flags,
                window,
                urgent,
                payload,
                stamps,
                blocks,
            } => {
                let mut sack = Blocks::default();
                for (start, end) in blocks {
                    sack.push(
                        self.sent.wrapping_add_signed(*start),
                        self.sent.wrapping_add_signed(*end),
                    );
                }
                let timestamps = stamps.map(|(value, echo)| Timestamps {
                    value: ((self.now / MS) as u32).wrapping_add_signed(value),
                    echo: ((self.now / MS) as u32).wrapping_add_signed(echo),
                });
                let syn = Flags::from_bits_retain(*flags).contains(Flags::SYN);
                let header = Header {
                    source: 2,
                    destination: 1,
                    seq: self.expects.wrapping_add_signed(*seq),
                    ack: self.sent.wrapping_add_signed(*ack),
                    flags: Flags::from_bits_retain(*flags),
                    window: *window,
                    urgent: *urgent,
                    options: Options {
                        timestamps,
                        sack,
                        mss: syn.then_some(*window),
                        sack_permitted: syn,
                        window_scale: syn.then_some(*urgent as u8),
                    },
                };
                let before = self.connection.info();
                let received = self
                    .connection
                    .on_segment(self.now, &header, usize::from(*payload));
                if let Some(place) = received.placement {
                    assert!(place.skip + place.length <= usize::from(*payload));
                    let most = before.receive_buffer + (1 << 15);
                    assert!(place.at + place.length as u64 <= self.readable + most + (1 << 20));
                }
            }
            Step::Write(length, more, urgent) => {
                let how = Write {
                    more: *more,
                    urgent: *urgent,
                };
                if self.connection.unacknowledged() < 300_000 {
                    let _ = self.connection.write(u64::from(*length), how);
                }
            }
            Step::Read(length) => {
                let length = u64::from(*length).min(self.connection.readable());
                self.connection.read(self.now, length);
                self.readable += length;
            }
            Step::Shutdown => self.connection.shutdown().unwrap_or(()),
            Step::Close => self.connection.close(self.now),
            Step::Abort => self.connection.abort(),
            Step::Timer => {
                if let Some(due) = self.connection.next_timer() {
                    self.now = self.now.max(due);
                    self.connection.on_timer(self.now);
                    let next = self.connection.next_timer();
                    assert!(next.is_none_or(|next| next > self.now), "no storm");
                }
            }
            Step::Wait(time) => self.now += u64::from(*time),
            Step::Back(time) => self.now -= u64::from(*time),
            Step::Icmp(seq, what, mss) => {
                let what = match what % 5 {
                    0 => Unreachable::Network,
                    1 => Unreachable::Host,
                    2 => Unreachable::Protocol,
                    3 => Unreachable::Port,
                    _ => Unreachable::TooBig(*mss),
                };
                self.connection
                    .on_icmp(self.now, self.sent.wrapping_add_signed(*seq), what);
            }
            Step::Cork(on) => self.connection.set_cork(*on),
            Step::Prune(bytes) => {
                let before = self.connection.info().out_of_order;
                let from = self.connection.prune(u64::from(*bytes));
                let after = self.connection.info().out_of_order;
                assert_eq!(before - after, before.min(u64::from(*bytes)));
                assert!(from.is_none_or(|from| from >= self.readable));
            }
            Step::PathMss(mss) => self.connection.set_path_mss(*mss),
            Step::LowWater(bytes) => self.connection.set_low_water(u64::from(*bytes)),
            Step::QuickAck(on) => self.connection.set_quick_ack(*on),
            Step::Keepalive(seconds) => {
                let keepalive = Keepalive {
                    idle: u64::from(*seconds) * SECOND,
                    interval: u64::from(*seconds) * SECOND,
                    probes: u32::from(*seconds),
                };
                let some = (*seconds > 3).then_some(keepalive);
                self.connection.set_keepalive(self.now, some);
            }
            Step::UserTimeout(ms) => {
                let timeout = u64::from(ms % 100_000) * MS;
                self.connection.set_user_timeout(timeout);
            }
        }
        self.drain();
        let info = self.connection.info();
        assert!(
            info.out_of_order <= info.receive_buffer + (1 << 16),
            "{info:?}"
        );
        assert!(info.sacked + info.lost <= info.unacknowledged, "{info:?}");
    }

    fn drain(&mut self) {
        for _ in 0..5000 {
            let Some(transmit) = self.connection.transmit(self.now) else {
                return;
            };
            let header = transmit.header;
            let length = (transmit.payload.end - transmit.payload.start) as u32;
            self.sent = header.seq.wrapping_add(length);
            if header.flags.contains(Flags::ACK) {
                self.expects = header.ack;
            }
        }
        panic!("it never stops sending");
    }
}

proptest! {
    #[test]
    fn anything_may_happen(
        steps in proptest::collection::vec(step(), 1..120),
        sack in any::<bool>(),
        opens in proptest::bool::weighted(0.8),
    ) {
        let config = Config { sack, most_payload: 4000, ..Config::default() };
        let mut target = Target::new(&config);
        target.drain();
        if opens {
            target.take(&Step::Segment {
                seq: 0, ack: 1, flags: 18, window: 5000, urgent: 3, payload: 0,
                stamps: sack.then_some((0, 9)), blocks: Vec::new(),
            });
            prop_assert_eq!(target.connection.state(), State::Established);
        }
        for step in &steps {
            target.take(step);
        }
        // Left alone, a closed connection ends.
        target.connection.close(target.now);
        target.drain();
        for _ in 0..1000 {
            let Some(due) = target.connection.next_timer() else { break };
            target.now = target.now.max(due);
            target.connection.on_timer(target.now);
            target.drain();
        }
        prop_assert_eq!(target.connection.state(), State::Closed);
    }
}

/// A transfer beside which somebody who does not see it sends a thousand segments a second, once it
/// is established: to SYN_SENT any SYN of the right ports is the peer's.
fn blind(seed: u64, length: u64, make: impl Fn(&mut Random) -> Header) -> (Option<Error>, u64) {
    let traits = Traits {
        rate: 10_000_000,
        queue: 60_000,
        ..Traits::ideal(5 * MS)
    };
    let mut net = Net::new(seed, traits, traits);
    let config = Config::default();
    net.pair([&config, &config]);
    net.ends[0].plan = Plan {
        send: 5_000_000,
        ..Plan::default()
    };
    net.start();
    let mut random = Random(seed + 77);
    for at in 0..5000 {
        for to in 0..2 {
            let header = make(&mut random);
            net.inject(
                net.now + (100 + at) * MS,
                Packet {
                    to,
                    header,
                    payload: 0..length,
                },
            );
        }
    }
    net.run(400 * SECOND);
    (net.ends[0].error.or(net.ends[1].error), net.ends[1].read)
}

fn guess(random: &mut Random, flags: Flags) -> Header {
    Header {
        seq: random.next() as u32,
        ack: random.next() as u32,
        flags,
        window: random.next() as u16,
        ..Header::default()
    }
}

#[test]
fn guesses_end_nothing() {
    let kinds = [
        Flags::RST,
        Flags::RST | Flags::ACK,
        Flags::SYN,
        Flags::SYN | Flags::ACK,
    ];
    for (seed, flags) in kinds.into_iter().enumerate() {
        let ended = blind(seed as u64, 0, |random| guess(random, flags));
        assert_eq!(ended, (None, 5_000_000), "{flags:?}");
    }
    // An ACK of anything, with data or without: what it carries would be in the wrong place.
    for length in [0, 1000] {
        let ended = blind(9, length, |random| guess(random, Flags::ACK));
        assert_eq!(ended, (None, 5_000_000));
    }
}

/// The cost of a connection beyond its payload and its records.
#[test]
fn sizes() {
    let connection = size_of::<Connection>();
    assert!(connection <= 1664, "{connection}");
    let waiting = size_of::<tcp::Waiting>();
    assert!(waiting <= 80, "{waiting}");
    assert!(
        size_of::<tcp::Accepted>() <= 64,
        "{}",
        size_of::<tcp::Accepted>()
    );
}

/// Acknowledgments that are sent before the data arrived gain nothing but a reset or silence, and
/// a peer that throws away what it has told of by SACK gets it again.
#[test]
fn a_peer_that_takes_its_sacks_back() {
    let mut target = Target::new(&Config {
        most_payload: 1460,
        ..Config::default()
    });
    target.drain();
    let isn = target.sent;
    let window = 60_000;
    let segment = |ack, blocks| Step::Segment {
        seq: 0,
        ack,
        flags: 16,
        window,
        urgent: 0,
        payload: 0,
        stamps: None,
        blocks,
    };
    target.take(&Step::Segment {
        seq: 0,
        ack: 1,
        flags: 18,
        window: 1460,
        urgent: 0,
        payload: 0,
        stamps: None,
        blocks: Vec::new(),
    });
    target.take(&segment(0, Vec::new()));
    target
        .connection
        .write(14_600, Write::default())
        .expect("it is open");
    target.drain();
    let all = target.sent.wrapping_sub(isn) as i32;
    target.take(&segment(1 - all, vec![(1460 + 1 - all, 0)]));
    assert!(target.connection.info().sacked > 0);
    // The probe of the tail, then timeouts, by which what was told of is sent again.
    for _ in 0..4 {
        target.take(&Step::Timer);
    }
    assert!(target.connection.info().retransmissions > 0);
    target.sent = isn;
    target.take(&segment(1460 + 1, Vec::new()));
    for _ in 0..12 {
        target.take(&Step::Timer);
    }
    assert_eq!(target.connection.info().sacked, 0);
}
