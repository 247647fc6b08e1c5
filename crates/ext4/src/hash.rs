//! The hashes of names by which htree directories are ordered
//! (Documentation/filesystems/ext4/directory.rst; the half MD4 of RFC 1320 without its last round).

use crate::{Error, Result};

/// One of the hashes, with the file system's seed.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    version: u8,
    seed: [u32; 4],
}

const LEGACY: u8 = 0;
const TEA: u8 = 2;
/// Added to the version if characters are unsigned.
const UNSIGNED: u8 = 3;
/// Marks the end of a directory in Linux's cookies; no name has this hash.
const END: u32 = 0x7fff_ffff;

impl Hasher {
    /// The hash `version` of an index, with the superblock's seed; `unsigned`: the superblock
    /// declares characters as unsigned.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for other versions, such as the SipHash of encrypted directories.
    pub fn new(version: u8, seed: [u32; 4], unsigned: bool) -> Result<Self> {
        let version = match version {
            LEGACY..=TEA if unsigned => version + UNSIGNED,
            0..=5 => version,
            _ => return Err(Error::Unsupported("hash of a directory")),
        };
        let seed = if seed == [0; 4] {
            [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]
        } else {
            seed
        };
        Ok(Self { version, seed })
    }

    /// The hash of a name; its lowest bit is zero.
    pub fn hash(&self, name: &[u8]) -> u32 {
        self.hashes(name).0
    }

    /// The position of a name in a directory: its hash, then a second one.
    pub(crate) fn position(&self, name: &[u8]) -> u64 {
        let (hash, minor) = self.hashes(name);
        u64::from(hash >> 1) << 32 | u64::from(minor)
    }

    fn hashes(&self, name: &[u8]) -> (u32, u32) {
        let unsigned = self.version >= UNSIGNED;
        let mut state = self.seed;
        let (hash, minor) = match self.version % UNSIGNED {
            TEA => {
                for at in (0..name.len()).step_by(16) {
                    tea(&mut state, &words(name, at, unsigned));
                }
                (state[0], state[1])
            }
            kind => {
                for at in (0..name.len()).step_by(32) {
                    half_md4(&mut state, &words(name, at, unsigned));
                }
                // The oldest hash has no second one, and many names share it, so that this is used.
                let first = if kind == LEGACY {
                    legacy(name, unsigned)
                } else {
                    state[1]
                };
                (first, state[2])
            }
        };
        let hash = (hash & !1).min((END - 1) << 1);
        (hash, minor)
    }
}

fn widen(byte: u8, unsigned: bool) -> u32 {
    if unsigned {
        u32::from(byte)
    } else {
        i32::from(byte as i8) as u32
    }
}

/// `N` words of the name from `at` on, padded with the length of the rest.
fn words<const N: usize>(name: &[u8], at: usize, unsigned: bool) -> [u32; N] {
    let left = &name[at..];
    let mut fill = left.len() as u32 & 0xff;
    fill |= fill << 8;
    fill |= fill << 16;
    let mut words = [fill; N];
    let taken = &left[..left.len().min(N * 4)];
    for (word, bytes) in words.iter_mut().zip(taken.chunks(4)) {
        for &byte in bytes {
            *word = widen(byte, unsigned).wrapping_add(*word << 8);
        }
    }
    words
}

fn legacy(name: &[u8], unsigned: bool) -> u32 {
    let (mut hash, mut before) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
    for &byte in name {
        let scaled = widen(byte, unsigned).wrapping_mul(7_152_373);
        let mut next = before.wrapping_add(hash ^ scaled);
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7fff_ffff);
        }
        before = hash;
        hash = next;
    }
    hash << 1
}

fn tea(state: &mut [u32; 4], words: &[u32; 4]) {
    let (mut one, mut two, mut sum) = (state[0], state[1], 0u32);
    let mix = |value: u32, sum: u32, first: u32, second: u32| {
        (value << 4).wrapping_add(first)
            ^ value.wrapping_add(sum)
            ^ (value >> 5).wrapping_add(second)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        one = one.wrapping_add(mix(two, sum, words[0], words[1]));
        two = two.wrapping_add(mix(one, sum, words[2], words[3]));
    }
    state[0] = state[0].wrapping_add(one);
    state[1] = state[1].wrapping_add(two);
}

fn half_md4(state: &mut [u32; 4], words: &[u32; 8]) {
    let choose = |x: u32, y: u32, z: u32| z ^ (x & (y ^ z));
    let majority = |x: u32, y: u32, z: u32| (x & y).wrapping_add((x ^ y) & z);
    let parity = |x: u32, y: u32, z: u32| x ^ y ^ z;
    let mut now = *state;
    let mut round =
        |mix: &dyn Fn(u32, u32, u32) -> u32, order: [usize; 8], turns: [u32; 4], add: u32| {
            for (step, word) in order.into_iter().enumerate() {
                // The register that is written cycles through a, d, c, b; the other three follow
                // it.
                let [a, b, c, d] = [0, 1, 2, 3].map(|other| (8 - step + other) % 4);
                now[a] = now[a]
                    .wrapping_add(mix(now[b], now[c], now[d]))
                    .wrapping_add(words[word])
                    .wrapping_add(add)
                    .rotate_left(turns[step % 4]);
            }
        };
    round(&choose, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19], 0);
    round(
        &majority,
        [1, 3, 5, 7, 0, 2, 4, 6],
        [3, 5, 9, 13],
        0x5a82_7999,
    );
    round(
        &parity,
        [3, 7, 2, 6, 1, 5, 0, 4],
        [3, 9, 11, 15],
        0x6ed9_eba1,
    );
    for (state, now) in state.iter_mut().zip(now) {
        *state = state.wrapping_add(now);
    }
}
