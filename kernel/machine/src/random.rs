//! Random numbers: ChaCha20 (RFC 8439) keyed by what the boot loader gave and the counter, rekeyed
//! with each use.

use zerocopy::IntoBytes;

use crate::arch::time;
use crate::sync::Mutex;

/// Bits of entropy that programs are told of, as on Linux.
pub const POOL: usize = 256;

/// Key and count of blocks, and the next numbers: a block is enough for four (Linux's
/// `batched_entropy`).
struct Generator {
    key: [u32; 8],
    count: u64,
    numbers: [u64; 4],
    /// How many of them were not given out yet.
    left: usize,
}

static GENERATOR: Mutex<Generator> = Mutex::new(Generator {
    key: [0; 8],
    count: 0,
    numbers: [0; 4],
    left: 0,
});

/// "expand 32-byte k" (RFC 8439, section 2.3).
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

fn quarter(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[x] = state[x].wrapping_add(state[y]);
        state[z] = (state[z] ^ state[x]).rotate_left(turn);
    }
}

impl Generator {
    /// The next block of 64 bytes (RFC 8439, section 2.3).
    fn block(&mut self) -> [u32; 16] {
        let mut initial = [0; 16];
        initial[..4].copy_from_slice(&CONSTANTS);
        initial[4..12].copy_from_slice(&self.key);
        initial[12..14].copy_from_slice(&[self.count as u32, (self.count >> 32) as u32]);
        self.count += 1;
        let mut state = initial;
        for _ in 0..10 {
            for n in 0..4 {
                quarter(&mut state, [n, 4 + n, 8 + n, 12 + n]);
            }
            for n in 0..4 {
                quarter(
                    &mut state,
                    [n, 4 + (n + 1) % 4, 8 + (n + 2) % 4, 12 + (n + 3) % 4],
                );
            }
        }
        core::array::from_fn(|n| state[n].wrapping_add(initial[n]))
    }

    /// What was given out cannot be found again from the state.
    fn rekey(&mut self) {
        let block = self.block();
        self.key.copy_from_slice(&block[..8]);
    }

    /// Changes the key by up to eight words, before a block is made with it.
    fn stir(&mut self, words: &[u32]) {
        let keys = self.key.iter_mut().zip(words);
        keys.for_each(|(key, word)| *key ^= word);
    }

    fn fill(&mut self, target: &mut [u8]) {
        let now = time::now_ticks();
        self.stir(&[now as u32, (now >> 32) as u32]);
        // Half of the first block will be the key, the other half is for the caller: few bytes cost
        // one block.
        let first = self.block();
        let (key, half) = first.split_at(8);
        let (start, rest) = target.split_at_mut(target.len().min(32));
        start.copy_from_slice(&half.as_bytes()[..start.len()]);
        for part in rest.chunks_mut(64) {
            let block = self.block();
            part.copy_from_slice(&block.as_bytes()[..part.len()]);
        }
        self.key.copy_from_slice(key);
    }

    fn number(&mut self) -> u64 {
        if self.left == 0 {
            let mut numbers = [0; 4];
            self.fill(numbers.as_mut_bytes());
            (self.numbers, self.left) = (numbers, numbers.len());
        }
        self.left -= 1;
        // Nor can this be found again.
        core::mem::take(&mut self.numbers[self.left])
    }
}

/// Mixes in what an attacker cannot know.
pub fn seed(bytes: &[u8]) {
    let mut generator = GENERATOR.lock();
    for part in bytes.chunks(32) {
        let mut words = [0u32; 8];
        words.as_mut_bytes()[..part.len()].copy_from_slice(part);
        generator.stir(&words);
        generator.rekey();
    }
    generator.left = 0;
}

/// Fills `target`.
pub fn fill(target: &mut [u8]) {
    GENERATOR.lock().fill(target);
}

/// Sixteen random bytes.
pub fn bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    bytes
}

/// A random number.
pub fn u64() -> u64 {
    GENERATOR.lock().number()
}
