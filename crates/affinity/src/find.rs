//! Finds the row that may have a 28-bit key, in a bounded number of steps, whether it is present or
//! not.

use alloc::vec::Vec;

use crate::NoMemory;

/// No row: this is above the number of rows in any VM.
const NONE: u16 = u16::MAX;

/// No key: keys have only 28 bits.
const NO_KEY: u32 = u32::MAX;

/// The number of runs of differing bits that a direct table can use.
const RUNS: usize = 3;

/// The maximum number of index bits of a direct table, which then has 8 KiB.
const DIRECT_BITS: u32 = 12;

/// The maximum number of hash buckets per row. Random affinities need 2 or 4.
const BUCKETS_PER_ROW: usize = 64;

/// A contiguous run of key bits, and its shift into the index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    shift: u32,
    mask: u32,
}

/// Up to four keys with the same hash, and their rows.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Bucket {
    keys: [u32; 4],
    rows: [u16; 4],
}

/// Finds rows. The caller checks the result against the whole key.
#[derive(Debug)]
pub(crate) enum Finder {
    /// A table indexed by the bits in which the keys differ, if there are few such bits in few
    /// runs.
    Direct { runs: [Run; RUNS], rows: Vec<u16> },
    /// A hash table whose multiplier was chosen so that no bucket overflows.
    Hashed {
        multiplier: u64,
        shift: u32,
        buckets: Vec<Bucket>,
    },
}

impl Finder {
    /// A finder for `count` rows, where row n has the key `key(n)`; all keys are different.
    pub fn new(count: usize, key: impl Fn(usize) -> u32, seed: u64) -> Result<Finder, NoMemory> {
        let differing = (0..count).fold(0, |bits, row| bits | key(row) ^ key(0));
        match runs(differing) {
            Some(runs) if differing.count_ones() <= DIRECT_BITS => {
                let mut rows = filled(NONE, 1 << differing.count_ones())?;
                (0..count).for_each(|row| rows[gather(&runs, key(row))] = row as u16);
                Ok(Finder::Direct { runs, rows })
            }
            _ => Finder::hashed(count, key, seed),
        }
    }

    /// Tries multipliers, with more and more buckets, until no bucket has more than four keys.
    fn hashed(count: usize, key: impl Fn(usize) -> u32, seed: u64) -> Result<Finder, NoMemory> {
        const EMPTY: Bucket = Bucket {
            keys: [NO_KEY; 4],
            rows: [NONE; 4],
        };
        let mut random = seed;
        let mut size = count.next_power_of_two().max(2);
        while size <= count * BUCKETS_PER_ROW {
            let mut buckets = filled(EMPTY, size)?;
            let shift = u64::BITS - size.ilog2();
            for _ in 0..8 {
                random = step(random);
                let multiplier = random | 1;
                let placed = (0..count).all(|row| {
                    let bucket = &mut buckets[hash(key(row), multiplier, shift)];
                    let free = bucket.keys.iter().position(|key| *key == NO_KEY);
                    free.map(|at| (bucket.keys[at], bucket.rows[at]) = (key(row), row as u16))
                        .is_some()
                });
                if placed {
                    return Ok(Finder::Hashed {
                        multiplier,
                        shift,
                        buckets,
                    });
                }
                buckets.fill(EMPTY);
            }
            size *= 2;
        }
        Err(NoMemory)
    }

    /// The row with `key`, if there is one; otherwise any row, or a number above all rows.
    #[inline]
    pub fn find(&self, key: u32) -> usize {
        let row = match self {
            Finder::Direct { runs, rows } => rows.get(gather(runs, key)).copied(),
            Finder::Hashed {
                multiplier,
                shift,
                buckets,
            } => buckets.get(hash(key, *multiplier, *shift)).map(|bucket| {
                let matching = |at: usize| {
                    if bucket.keys[at] == key {
                        bucket.rows[at]
                    } else {
                        NONE
                    }
                };
                matching(0) & matching(1) & matching(2) & matching(3)
            }),
        };
        row.unwrap_or(NONE).into()
    }
}

/// The runs of ones in `bits`, each with the shift that packs it above the runs below it; `None` if
/// there are too many.
fn runs(bits: u32) -> Option<[Run; RUNS]> {
    let (mut runs, mut left, mut packed) = ([Run::default(); RUNS], bits, 0);
    for run in &mut runs {
        if left == 0 {
            break;
        }
        let low = left.trailing_zeros();
        let width = (left >> low).trailing_ones();
        let mask = ((1 << width) - 1) << packed;
        *run = Run {
            shift: low - packed,
            mask,
        };
        left &= !(mask << run.shift);
        packed += width;
    }
    (left == 0).then_some(runs)
}

/// The bits of `key` that the runs cover, packed.
#[inline]
fn gather(runs: &[Run; RUNS], key: u32) -> usize {
    runs.iter()
        .fold(0, |index, run| index | key >> run.shift & run.mask) as usize
}

/// The number of a bucket: the top bits of the product.
#[inline]
fn hash(key: u32, multiplier: u64, shift: u32) -> usize {
    (u64::from(key).wrapping_mul(multiplier) >> shift) as usize
}

/// A pseudo-random sequence (SplitMix64's increment and one round of its mixing).
fn step(state: u64) -> u64 {
    let next = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, NoMemory> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len)?;
    vec.resize(len, value);
    Ok(vec)
}
