//! Hash tables.

use core::hash::{BuildHasherDefault, Hasher};

/// A table of the kernel's; it grows by `try_reserve` alone.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<Fnv>>;

/// An empty table.
pub const fn new<K, V>() -> HashMap<K, V> {
    HashMap::with_hasher(BuildHasherDefault::new())
}

/// FNV-1a: short, and good enough for names and numbers.
#[derive(Clone)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn write_usize(&mut self, _len: usize) {}

    fn finish(&self) -> u64 {
        // The table takes its tag from the top bits, its place from the low ones.
        self.0 ^ self.0 >> 29
    }
}
