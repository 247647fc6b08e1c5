//! Pseudo-random numbers from a seed (SplitMix64), for tests that must repeat exactly.
#![no_std]
#![forbid(unsafe_code)]

/// The generator's state.
pub struct Random(u64);

impl Random {
    /// Seeds a generator.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    /// True on average once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `choices`.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A number at some edge: small, near a power of two, all ones, or any.
    pub fn edge(&mut self) -> u64 {
        match self.below(6) {
            0 => self.below(16),
            1 => self.below(4096),
            2 => (1 << self.below(64)) - self.below(2),
            3 => u64::MAX - self.below(16),
            4 => self.any() >> self.below(64),
            _ => self.any(),
        }
    }
}
