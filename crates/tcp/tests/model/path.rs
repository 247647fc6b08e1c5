//! One direction of the network.

use super::{MS, SECOND};

/// xorshift64*.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True in so many of a million cases.
    pub fn chance(&mut self, millionths: u64) -> bool {
        self.below(1_000_000) < millionths
    }
}

/// The properties of a direction. Chances are in millionths.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// One way, in ns.
    pub delay: u64,
    /// Bits a second; 0 has no limit.
    pub rate: u64,
    /// Bytes that wait at most.
    pub queue: u64,
    pub loss: u64,
    pub duplication: u64,
    /// Chance that a packet takes up to `detour` longer.
    pub reordering: u64,
    pub detour: u64,
}

impl Traits {
    pub fn ideal(delay: u64) -> Self {
        Traits {
            delay,
            rate: 0,
            queue: u64::MAX,
            loss: 0,
            duplication: 0,
            reordering: 0,
            detour: 10 * MS,
        }
    }
}

pub struct Path {
    pub traits: Traits,
    free_at: u64,
    pub dropped: u64,
    /// How many packets came, and which of them are lost whatever the chances: the first is 0.
    pub came: u64,
    pub losses: Vec<u64>,
}

impl Path {
    pub fn new(traits: Traits) -> Self {
        Path {
            traits,
            free_at: 0,
            dropped: 0,
            came: 0,
            losses: Vec::new(),
        }
    }

    /// When a packet arrives, if it does, and when a second time.
    pub fn carry(&mut self, now: u64, size: u64, random: &mut Random) -> [Option<u64>; 2] {
        let traits = self.traits;
        self.came += 1;
        if self.losses.contains(&(self.came - 1)) {
            return [None; 2];
        }
        let mut leaves = now;
        if traits.rate > 0 {
            let begins = self.free_at.max(now);
            let waiting = (begins - now) as u128 * traits.rate as u128 / 8 / SECOND as u128;
            if waiting > 0 && waiting as u64 + size > traits.queue {
                self.dropped += 1;
                return [None; 2];
            }
            leaves = begins + size * 8 * SECOND / traits.rate;
            self.free_at = leaves;
        }
        if random.chance(traits.loss) {
            return [None; 2];
        }
        let mut at = leaves + traits.delay;
        if random.chance(traits.reordering) {
            at += random.below(traits.detour);
        }
        let again = random
            .chance(traits.duplication)
            .then(|| at + random.below(traits.detour));
        [Some(at), again]
    }
}
