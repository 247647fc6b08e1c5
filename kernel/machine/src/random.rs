//! Random numbers: ChaCha20, keyed by the boot loader's seed and the counter, and rekeyed on each
//! use.

use chacha20::cipher::StreamCipher;
use chacha20::{ChaCha20, KeyIvInit, Nonce};
use zerocopy::IntoBytes;

use crate::arch::time;
use crate::sync::Mutex;

/// Bits of entropy reported to programs, as on Linux.
pub const POOL: usize = 256;

/// The key, and the next numbers: a block suffices for four (Linux's `batched_entropy`).
struct Generator {
    key: [u8; KEY],
    numbers: [u64; 4],
    /// Number of `numbers` that are still unused.
    left: usize,
}

/// Size of a key in bytes, half of a block.
const KEY: usize = 32;

static GENERATOR: Mutex<Generator> = Mutex::new(Generator {
    key: [0; KEY],
    numbers: [0; 4],
    left: 0,
});

impl Generator {
    /// Mixes `bytes`, as many as fit, into the key, before it is used.
    fn stir(&mut self, bytes: &[u8]) {
        let keys = self.key.iter_mut().zip(bytes);
        keys.for_each(|(key, byte)| *key ^= byte);
    }

    /// Replaces the key, so that earlier output cannot be reconstructed from it, and fills
    /// `target`. A key is used only once, so it needs no nonce.
    fn fill(&mut self, target: &mut [u8]) {
        self.stir(&time::now_ticks().to_le_bytes());
        let mut cipher = ChaCha20::new(&self.key.into(), &Nonce::default());
        // Half of the first block becomes the key, the other half is output: short requests cost
        // one block.
        let mut first = [0; 2 * KEY];
        cipher.apply_keystream(&mut first);
        let (key, half) = first.split_at(KEY);
        let (start, rest) = target.split_at_mut(target.len().min(KEY));
        start.copy_from_slice(&half[..start.len()]);
        rest.fill(0);
        cipher.apply_keystream(rest);
        self.key.copy_from_slice(key);
    }

    fn number(&mut self) -> u64 {
        if self.left == 0 {
            let mut numbers = [0; 4];
            self.fill(numbers.as_mut_bytes());
            (self.numbers, self.left) = (numbers, numbers.len());
        }
        self.left -= 1;
        // Cleared, so that it cannot be found later either.
        core::mem::take(&mut self.numbers[self.left])
    }
}

/// Mixes in data that an attacker cannot know.
pub fn seed(bytes: &[u8]) {
    let mut generator = GENERATOR.lock();
    for part in bytes.chunks(KEY) {
        generator.stir(part);
        generator.fill(&mut []);
    }
    generator.left = 0;
}

/// Fills `target` with random bytes.
pub fn fill(target: &mut [u8]) {
    GENERATOR.lock().fill(target);
}

/// Sixteen random bytes.
pub fn bytes() -> [u8; 16] {
    let mut generator = GENERATOR.lock();
    let mut bytes = [0; 16];
    for part in bytes.chunks_exact_mut(size_of::<u64>()) {
        part.copy_from_slice(&generator.number().to_ne_bytes());
    }
    bytes
}

/// A random number.
pub fn u64() -> u64 {
    GENERATOR.lock().number()
}
