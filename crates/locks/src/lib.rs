//! Advisory locks on a file's bytes: the locks of an owner, and the conflicts between locks of
//! different owners.
//!
//! All locks are in two trees: one by owner, in which the locks of an owner never overlap, and one
//! by position, where locks of different owners may overlap. In the latter each subtree records how
//! far its locks reach, so that every query takes a logarithmic number of steps.
#![no_std]
#![forbid(unsafe_code)]

mod reach;

use reach::Reaches;
use tree::{Member, Tree};

pub use tree::NoMemory;

/// A lock on the bytes `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock<O> {
    /// Its holder.
    pub owner: O,
    /// The process that took it, for F_GETLK.
    pub process: i32,
    /// Whether no other owner may have a lock there; otherwise no other owner may have an exclusive
    /// one.
    pub exclusive: bool,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
}

/// A lock, ordered by owner and then by last byte.
struct Owned<O>(Lock<O>);

impl<O: Ord + Copy> Member for Owned<O> {
    type Key = (O, u64);
    /// The number of locks.
    type Sum = usize;

    fn key(&self) -> (O, u64) {
        (self.0.owner, self.0.last)
    }

    fn sum(&self) -> usize {
        1
    }

    fn join(one: usize, other: usize) -> usize {
        one + other
    }
}

/// A lock, ordered by first byte.
struct Placed<O> {
    lock: Lock<O>,
    /// 0, or the number of the promise.
    promise: u32,
}

impl<O: Ord + Copy> Member for Placed<O> {
    type Key = (u64, O, u32);
    type Sum = Reaches<O>;

    fn key(&self) -> (u64, O, u32) {
        (self.lock.first, self.lock.owner, self.promise)
    }

    fn sum(&self) -> Reaches<O> {
        Reaches::of(&self.lock)
    }

    fn join(one: Reaches<O>, other: Reaches<O>) -> Reaches<O> {
        one.join(other)
    }
}

/// A lock that its owner will get, and that already conflicts with others.
pub struct Promise<O>(u64, O, u32);

/// The locks on a file.
pub struct Locks<O: Ord + Copy> {
    by_owner: Tree<Owned<O>>,
    by_place: Tree<Placed<O>>,
    promises: u32,
}

impl<O: Ord + Copy> Default for Locks<O> {
    fn default() -> Self {
        Locks {
            by_owner: Tree::new(),
            by_place: Tree::new(),
            promises: 0,
        }
    }
}

impl<O: Ord + Copy> Locks<O> {
    /// The memory that a lock takes, in bytes.
    pub const LOCK: usize = Tree::<Owned<O>>::NODE + Tree::<Placed<O>>::NODE;

    /// The number of locks.
    pub fn len(&self) -> usize {
        self.by_owner.len()
    }

    /// The number of locks of `owner`.
    pub fn count_of(&self, owner: O) -> usize {
        let before = |is_before: &dyn Fn(O) -> bool| {
            let (mut from, mut to) = (0, self.len());
            while from < to {
                let middle = from.midpoint(to);
                match self.by_owner.nth(middle) {
                    Some(owned) if is_before(owned.0.owner) => from = middle + 1,
                    _ => to = middle,
                }
            }
            from
        };
        before(&|other| other <= owner) - before(&|other| other < owner)
    }

    /// Whether there are no locks.
    pub fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    /// All locks after `last` in the order of first bytes and owners, or all locks.
    pub fn after(&self, last: Option<&Lock<O>>) -> impl Iterator<Item = &Lock<O>> {
        let next = |key: (u64, O, u32)| self.by_place.from(&(key.0, key.1, key.2 + 1));
        let first = match last {
            Some(last) => next((last.first, last.owner, u32::MAX - 1)),
            None => self.by_place.first(|_| true),
        };
        let placed = core::iter::successors(first, move |one| next(one.key()));
        placed.filter(|one| one.promise == 0).map(|one| &one.lock)
    }

    /// The first lock of the owner of `range` in that range.
    pub fn own(&self, range: &Lock<O>) -> Option<Lock<O>> {
        let own = self.own_from(range.owner, range.first);
        own.filter(|own| own.first <= range.last)
    }

    /// The first lock that conflicts with `wanted`.
    pub fn conflict(&self, wanted: &Lock<O>) -> Option<&Lock<O>> {
        let against = self
            .by_place
            .first(|reaches| reaches.conflict_with(wanted))?;
        (against.lock.first <= wanted.last).then_some(&against.lock)
    }

    /// The first lock of `owner` that ends at `byte` or later.
    fn own_from(&self, owner: O, byte: u64) -> Option<Lock<O>> {
        let found = self.by_owner.from(&(owner, byte))?.0;
        (found.owner == owner).then_some(found)
    }

    /// Takes all locks out at once, if they all belong to `owner`.
    pub fn take_if_all_of(&mut self, owner: O) -> Option<Self> {
        let of = |owned: Option<&Owned<O>>| owned.is_some_and(|owned| owned.0.owner == owner);
        let is_its = of(self.by_owner.nth(0)) && of(self.by_owner.nth(self.len() - 1));
        // If there is a promise among them, they are not taken out this way.
        let is_all = is_its && self.by_place.len() == self.len();
        is_all.then(|| core::mem::take(self))
    }

    fn insert(&mut self, lock: Lock<O>) -> Result<(), NoMemory> {
        self.by_owner.insert(Owned(lock))?;
        self.by_place.insert(Placed { lock, promise: 0 })
    }

    fn remove(&mut self, lock: &Lock<O>) {
        self.by_owner.remove(&(lock.owner, lock.last));
        self.by_place.remove(&(lock.first, lock.owner, 0));
    }

    /// Promises `lock`, which conflicts with no other: others conflict with it until the promise
    /// ends.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn promise(&mut self, lock: Lock<O>) -> Result<Promise<O>, NoMemory> {
        self.promises = self.promises % (u32::MAX - 1) + 1;
        let promise = self.promises;
        self.by_place.insert(Placed { lock, promise })?;
        Ok(Promise(lock.first, lock.owner, promise))
    }

    /// Ends a promise, whether it was kept or not.
    pub fn end(&mut self, promise: Promise<O>) {
        self.by_place.remove(&(promise.0, promise.1, promise.2));
    }

    /// Reserves room for the remains of a split and for the new lock, so that neither fails
    /// halfway.
    fn reserve(&mut self) -> Result<(), NoMemory> {
        self.by_owner.reserve(2)?;
        self.by_place.reserve(2)
    }

    /// Removes the owner's locks from the range of `hole`, up to `most` locks; their parts before
    /// and after it stay. Returns the number of locks changed: fewer than `most` if none is left.
    ///
    /// # Errors
    /// [`NoMemory`]; then nothing has changed.
    pub fn cut(&mut self, hole: &Lock<O>, most: usize) -> Result<usize, NoMemory> {
        let mut count = 0;
        while count < most
            && let Some(held) = self.own(hole)
        {
            // Only the outermost locks leave remains, which take the room of removed locks.
            let (left, right) = (held.first < hole.first, held.last > hole.last);
            if left && right {
                self.reserve()?;
            }
            self.remove(&held);
            if left {
                let last = hole.first - 1;
                self.insert(Lock { last, ..held })?;
            }
            if right {
                let first = hole.last + 1;
                self.insert(Lock { first, ..held })?;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Adds `lock`, which replaces the owner's locks in its range; neighbours of the same kind are
    /// merged with it. No lock may conflict with it. If there are `most` or more locks to replace,
    /// only `most` are removed, and this returns false.
    ///
    /// # Errors
    /// [`NoMemory`]; then nothing has changed.
    pub fn set(&mut self, lock: Lock<O>, most: usize) -> Result<bool, NoMemory> {
        self.reserve()?;
        if self.cut(&lock, most)? == most {
            return Ok(false);
        }
        let mut whole = lock;
        let joins = |one: &Lock<O>| one.exclusive == lock.exclusive;
        let before = lock.first.checked_sub(1).and_then(|last| {
            let before = self.own_from(lock.owner, last)?;
            (before.last == last && joins(&before)).then_some(before)
        });
        if let Some(before) = before {
            self.remove(&before);
            whole.first = before.first;
        }
        let after = lock.last.checked_add(1).and_then(|first| {
            let after = self.own_from(lock.owner, first)?;
            (after.first == first && joins(&after)).then_some(after)
        });
        if let Some(after) = after {
            self.remove(&after);
            whole.last = after.last;
        }
        self.insert(whole)?;
        Ok(true)
    }
}
