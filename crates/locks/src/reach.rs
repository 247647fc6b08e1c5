//! How far locks reach, without those of the owner that asks.

use crate::Lock;

/// The last byte of the lock that reaches farthest, with its owner; then the same for the locks of
/// all other owners.
type Farthest<O> = [Option<(u64, O)>; 2];

/// How far a set of locks reaches.
#[derive(Clone, Copy, PartialEq)]
pub struct Reaches<O> {
    all: Farthest<O>,
    exclusive: Farthest<O>,
}

impl<O: Ord + Copy> Reaches<O> {
    pub fn of(lock: &Lock<O>) -> Self {
        let own = [Some((lock.last, lock.owner)), None];
        Reaches {
            all: own,
            exclusive: if lock.exclusive { own } else { [None; 2] },
        }
    }

    pub fn join(self, other: Self) -> Self {
        Reaches {
            all: farther(self.all, other.all),
            exclusive: farther(self.exclusive, other.exclusive),
        }
    }

    /// Whether one of the locks reaches the start of `wanted`, and thus conflicts with it if it
    /// begins before its end.
    pub fn conflict_with(&self, wanted: &Lock<O>) -> bool {
        let against = match wanted.exclusive {
            true => self.all,
            false => self.exclusive,
        };
        let mut others = against.into_iter().flatten();
        others.any(|(last, owner)| owner != wanted.owner && last >= wanted.first)
    }
}

fn farther<O: Ord + Copy>(one: Farthest<O>, other: Farthest<O>) -> Farthest<O> {
    let (high, low) = if one[0] >= other[0] {
        (one, other)
    } else {
        (other, one)
    };
    let (Some((_, first)), Some((_, second))) = (high[0], low[0]) else {
        return high;
    };
    let rival = if second == first { low[1] } else { low[0] };
    [high[0], high[1].max(rival)]
}
