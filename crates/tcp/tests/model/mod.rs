//! A model network: ends, and a path in each direction with delay, rate, queue, loss, reordering
//! and duplication, in simulated time and from a seed.
//!
//! A packet carries no bytes, but the range of its stream that it would carry; what a receiver
//! places is compared with that.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod end;
pub mod path;

use end::End;
use path::{Path, Random, Traits};
use std::collections::BinaryHeap;
use std::{cmp::Reverse, ops::Range};
use tcp::siphash::Key;
use tcp::{Answer, Config, Connection, Cookies, Header, Identity, Listener, Secret, Tuple};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// A segment underway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub to: usize,
    pub header: Header,
    pub payload: Range<u64>,
}

/// A packet that arrives; ordered by time, then by number.
#[derive(PartialEq, Eq)]
struct Arriving {
    at: u64,
    number: u64,
    packet: Packet,
}

impl Ord for Arriving {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Arriving {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Ends in pairs: 0 and 1, 2 and 3. Those of even number send on the first path, which all share,
/// and the others on the second.
pub struct Net {
    pub now: u64,
    pub ends: Vec<End>,
    pub paths: [Path; 2],
    pub random: Random,
    arriving: BinaryHeap<Reverse<Arriving>>,
    number: u64,
    /// Timers that were due, and segments that were sent, in all.
    pub timers: u64,
    pub sent: u64,
    /// The sent bytes are also kept here, if asked for.
    pub log: Option<Vec<(u64, Packet)>>,
}

impl Net {
    pub fn new(seed: u64, forth: Traits, back: Traits) -> Self {
        Net {
            now: SECOND,
            ends: Vec::new(),
            paths: [Path::new(forth), Path::new(back)],
            random: Random(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15)),
            arriving: BinaryHeap::new(),
            number: 0,
            timers: 0,
            sent: 0,
            log: None,
        }
    }

    /// Adds two ends: the first connects, the second has got the SYN. Returns the first's number.
    pub fn pair(&mut self, config: [&Config; 2]) -> usize {
        let at = self.ends.len();
        let isn = [self.random.next() as u32, self.random.next() as u32];
        for side in 0..2 {
            let identity = Identity {
                local: side as u16 + 1,
                peer: 2 - side as u16,
                isn: isn[side],
                stamp_offset: self.random.next() as u32,
            };
            // An end that connects too makes a simultaneous open of it.
            self.ends.push(End::new(Connection::connect(
                self.now,
                config[side],
                identity,
            )));
        }
        at
    }

    /// Adds two ends whose connection was opened by a listener just before. Returns the number of
    /// the first, which connected.
    pub fn accepted(&mut self, config: [&Config; 2]) -> usize {
        let at = self.ends.len();
        let tuple = Tuple {
            local: ([10, 0, 0, 1], 2).into(),
            peer: ([10, 0, 0, 2], 1).into(),
        };
        let identity = Identity {
            local: 1,
            peer: 2,
            isn: self.random.next() as u32,
            stamp_offset: self.random.next() as u32,
        };
        let secret = Secret(Key([self.random.next(), 1]));
        let mut listener = Listener::new(config[1], secret, at % 2, Cookies::WhenFull);
        let mut client = Connection::connect(self.now, config[0], identity);
        let syn = client.transmit(self.now).expect("a SYN").header;
        let Answer::Send(answer) = listener.on_segment(self.now, &tuple, &syn, 0) else {
            panic!("no answer")
        };
        client.on_segment(self.now, &answer, 0);
        let ack = client.transmit(self.now).expect("an ACK").header;
        let Answer::Accept(accepted) = listener.on_segment(self.now, &tuple, &ack, 0) else {
            panic!("no connection")
        };
        let mut server = accepted.connection(self.now, config[1]);
        server.on_segment(self.now, &ack, 0);
        self.ends.push(End::new(client));
        self.ends.push(End::new(server));
        at
    }

    /// Lets an end do what it can, and what it sends go its way.
    pub fn pump(&mut self, at: usize) {
        let now = self.now;
        let end = &mut self.ends[at];
        end.act(now, &mut self.random);
        let mut burst = 0;
        while let Some(transmit) = self.ends[at].connection.transmit(now) {
            burst += 1;
            assert!(burst < 20_000, "an end never stops sending");
            self.send(at, &transmit);
        }
        self.ends[at].act(now, &mut self.random);
    }

    fn send(&mut self, from: usize, transmit: &tcp::Transmit) {
        let mut payload = transmit.payload.clone();
        let mut header = transmit.header;
        let mss = u64::from(transmit.mss);
        let kept = self.ends[from].released..=self.ends[from].written;
        let is_kept = kept.contains(&payload.start) && kept.contains(&payload.end);
        assert!(is_kept || payload.is_empty(), "{transmit:?} {kept:?}");
        loop {
            let end = payload.end.min(payload.start + mss);
            let is_last = end == payload.end;
            let mut cut = header;
            if !is_last {
                cut.flags.remove(tcp::Flags::FIN | tcp::Flags::PSH);
            }
            self.send_one(
                from,
                Packet {
                    to: from ^ 1,
                    header: cut,
                    payload: payload.start..end,
                },
            );
            if is_last {
                break;
            }
            header.seq = header.seq.wrapping_add((end - payload.start) as u32);
            payload.start = end;
        }
    }

    fn send_one(&mut self, from: usize, packet: Packet) {
        self.sent += 1;
        if let Some(log) = &mut self.log {
            log.push((self.now, packet.clone()));
        }
        let size =
            40 + packet.header.options.len() as u64 + packet.payload.end - packet.payload.start;
        let times = self.paths[from & 1].carry(self.now, size, &mut self.random);
        for at in times.into_iter().flatten() {
            self.inject(at, packet.clone());
        }
    }

    /// Lets a packet arrive at a time.
    pub fn inject(&mut self, at: u64, packet: Packet) {
        self.number += 1;
        let number = self.number;
        self.arriving.push(Reverse(Arriving { at, number, packet }));
    }

    /// Goes on to what happens next, if that is before `until`; false if nothing is.
    pub fn step(&mut self, until: u64) -> bool {
        let wakes = self.ends.iter().filter_map(|end| end.next_wake()).min();
        let arrives = self.arriving.peek().map(|Reverse(first)| first.at);
        let Some(next) = wakes
            .into_iter()
            .chain(arrives)
            .min()
            .filter(|next| *next < until)
        else {
            return false;
        };
        self.now = next.max(self.now);
        if arrives == Some(next) {
            let Reverse(Arriving { packet, .. }) = self.arriving.pop().expect("it was seen");
            let to = packet.to;
            self.ends[to].take(self.now, &packet);
            self.pump(to);
            return true;
        }
        for at in 0..self.ends.len() {
            if self.ends[at]
                .next_wake()
                .is_some_and(|wake| wake <= self.now)
            {
                let timer = self.ends[at].connection.next_timer();
                self.timers += u64::from(timer.is_some_and(|due| due <= self.now));
                let connection = &mut self.ends[at].connection;
                connection.on_timer(self.now);
                let next = connection.next_timer();
                assert!(next.is_none_or(|next| next > self.now), "a storm of timers");
                self.pump(at);
            }
        }
        true
    }

    /// Goes on until a time, or until nothing happens any more.
    pub fn run(&mut self, until: u64) {
        while self.step(until) {}
    }

    /// Starts all ends.
    pub fn start(&mut self) {
        for at in 0..self.ends.len() {
            self.pump(at);
        }
    }
}
