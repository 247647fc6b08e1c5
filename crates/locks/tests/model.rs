//! The locks compared with a model that knows the holders of each byte.

use locks::{Lock, Locks};

const BYTES: u64 = 40;
const OWNERS: u32 = 4;

/// A generator of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % bound
    }

    fn lock(&mut self) -> Lock<u32> {
        let first = self.below(BYTES);
        let last = match self.below(8) {
            0 => u64::MAX,
            _ => first + self.below(BYTES - first),
        };
        Lock {
            owner: self.below(OWNERS.into()) as u32,
            process: 0,
            exclusive: self.below(2) == 0,
            first,
            last,
        }
    }
}

/// How each owner holds each byte: exclusively, or shared.
struct Model([[Option<bool>; BYTES as usize + 1]; OWNERS as usize]);

impl Model {
    /// The bytes of a lock; the last stands for all that follow.
    fn bytes(lock: &Lock<u32>) -> std::ops::RangeInclusive<usize> {
        lock.first as usize..=lock.last.min(BYTES) as usize
    }

    fn is_free(&self, wanted: &Lock<u32>) -> bool {
        (0..OWNERS)
            .filter(|&owner| owner != wanted.owner)
            .all(|owner| {
                let mut held = Self::bytes(wanted).map(|byte| self.0[owner as usize][byte]);
                held.all(|held| held.is_none_or(|exclusive| !exclusive && !wanted.exclusive))
            })
    }

    fn write(&mut self, lock: &Lock<u32>, value: Option<bool>) {
        for byte in Self::bytes(lock) {
            self.0[lock.owner as usize][byte] = value;
        }
    }

    /// How many stretches of one kind there are.
    fn count(&self) -> Vec<usize> {
        let of_owner = |held: &[Option<bool>]| {
            let begins =
                |at: &usize| held[*at].is_some() && (*at == 0 || held[at - 1] != held[*at]);
            (0..held.len()).filter(begins).count()
        };
        self.0.iter().map(|held| of_owner(held)).collect()
    }
}

#[test]
fn they_stand_against_each_other_as_bytes_do() {
    for seed in 1..40 {
        let (mut numbers, mut locks, mut model) = (
            Numbers(seed),
            Locks::default(),
            Model([[None; BYTES as usize + 1]; OWNERS as usize]),
        );
        for _ in 0..2000 {
            let lock = numbers.lock();
            let conflict = locks.conflict(&lock).copied();
            assert_eq!(conflict.is_none(), model.is_free(&lock));
            if let Some(held) = conflict {
                let meets = held.first <= lock.last && lock.first <= held.last;
                assert!(meets && held.owner != lock.owner && (held.exclusive || lock.exclusive));
            }
            if numbers.below(2) == 0 {
                locks.cut(&lock, usize::MAX).unwrap();
                model.write(&lock, None);
            } else if conflict.is_none() {
                assert_eq!(locks.set(lock, usize::MAX), Ok(true));
                model.write(&lock, Some(lock.exclusive));
            }
            let counts: Vec<usize> = (0..OWNERS).map(|owner| locks.count_of(owner)).collect();
            assert_eq!(counts, model.count());
            assert_eq!(locks.len(), counts.iter().sum());
            let mut places = locks.after(None).map(|one| (one.first, one.owner));
            assert!(places.by_ref().is_sorted() && locks.after(None).count() == locks.len());
        }
    }
}

#[test]
fn many_are_found_at_once() {
    const COUNT: u64 = 10_000;
    let mut locks = Locks::default();
    let lock = |owner: u32, first: u64| Lock {
        owner,
        process: 0,
        exclusive: true,
        first,
        last: first,
    };
    for byte in 0..COUNT {
        locks.set(lock(1, 2 * byte), usize::MAX).unwrap();
    }
    // All are the asker's own, and none is in its way.
    for byte in 0..COUNT {
        let whole = Lock {
            last: u64::MAX,
            ..lock(1, byte)
        };
        assert_eq!(locks.conflict(&whole), None);
        assert!(locks.conflict(&lock(2, 2 * byte)).is_some());
        assert!(locks.conflict(&lock(2, 2 * byte + 1)).is_none());
    }
    let whole = Lock {
        last: u64::MAX,
        ..lock(1, 0)
    };
    assert_eq!(locks.cut(&whole, 1000), Ok(1000));
    assert_eq!(locks.cut(&whole, usize::MAX), Ok(COUNT as usize - 1000));
    assert!(locks.is_empty());
}

#[test]
fn a_promise_keeps_others_out_while_many_are_replaced() {
    const COUNT: u64 = 1000;
    let mut locks = Locks::default();
    let lock = |owner: u32, first: u64, last: u64| Lock {
        owner,
        process: 0,
        exclusive: true,
        first,
        last,
    };
    for byte in 0..COUNT {
        locks.set(lock(1, 2 * byte, 2 * byte), 2).unwrap();
    }
    let whole = lock(1, 0, 2 * COUNT);
    assert_eq!(locks.set(whole, 100), Ok(false));
    let promise = locks.promise(whole).unwrap();
    while !locks.set(whole, 100).unwrap() {
        assert!(locks.conflict(&lock(2, 0, 0)).is_some());
        assert!(locks.conflict(&lock(2, 2 * COUNT, 2 * COUNT)).is_some());
        assert_eq!(locks.after(None).count(), locks.len());
    }
    locks.end(promise);
    assert_eq!(locks.len(), 1);
    locks.cut(&whole, usize::MAX).unwrap();
    assert_eq!(locks.conflict(&lock(2, 0, 2 * COUNT)), None);
}

#[test]
fn all_of_an_owner_go_at_once_where_nobody_else_has_any() {
    let mut locks = Locks::default();
    let lock = |owner: u32, first: u64| Lock {
        owner,
        process: 0,
        exclusive: true,
        first,
        last: first,
    };
    assert!(locks.take_if_all_of(1).is_none());
    for byte in 0..100 {
        locks.set(lock(2, 2 * byte), 2).unwrap();
    }
    for other in [1, 3] {
        locks.set(lock(other, 1), 2).unwrap();
        assert!(locks.take_if_all_of(2).is_none() && locks.take_if_all_of(other).is_none());
        locks.cut(&lock(other, 1), 2).unwrap();
    }
    let promise = locks.promise(lock(2, 5)).unwrap();
    assert!(locks.take_if_all_of(2).is_none());
    locks.end(promise);
    assert_eq!(locks.take_if_all_of(2).map(|all| all.len()), Some(100));
    assert!(locks.is_empty() && locks.conflict(&lock(1, 0)).is_none());
}
