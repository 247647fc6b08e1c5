//! The fuzzers' targets (`fuzz/`), with a few inputs that are the same in every run.

use hosted::fuzz::{TARGETS, try_bytes};

/// The number of inputs for each target.
const INPUTS: u64 = if cfg!(miri) { 4 } else { 1_000 };

/// Marsaglia's xorshift, 64 bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Some bytes: half of them small.
    fn bytes(&mut self) -> Vec<u8> {
        let len = self.next() % [8, 32, 128, 300][self.next() as usize % 4];
        let byte = |random: &mut Self| {
            let byte = random.next();
            (byte >> 8) as u8 & if byte & 1 == 0 { 0xff } else { 0x0f }
        };
        (0..len).map(|_| byte(self)).collect()
    }
}

#[test]
fn parsers_return_whatever_they_are_given() {
    for (name, target) in TARGETS {
        let mut random = Random(0x5eed);
        println!("{name}");
        try_bytes(target, &[]);
        for _ in 0..INPUTS {
            try_bytes(target, &random.bytes());
        }
    }
}
