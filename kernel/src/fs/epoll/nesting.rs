//! Sets that are members of other sets: the limits, which are Linux's, on the depth of nesting and
//! on the number of paths from a file up through sets. Cycles are impossible: nesting takes a lock,
//! and searches both down and up.

use super::{Epoll, Set};
use crate::errno::{Errno, Result};
use crate::fs::file::File;
use crate::fs::sequence::Sequence;
use crate::sync::{Mutex, SleepMutex, SleepMutexGuard};
use crate::task::{current, sched};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The maximum depth of sets below a set.
const MAX_NESTS: usize = 4;
/// The maximum number of paths from a file to top-level sets, by the number of sets in between; for
/// 0, Linux does not limit it.
const PATH_LIMITS: [usize; MAX_NESTS + 1] = [1000, 500, 100, 50, 10];

/// The sets that a file is a member of.
pub type Holders = Mutex<HolderList>;

/// Those sets, once for each membership.
pub struct HolderList {
    /// The sets.
    pub sets: Sequence<Weak<Set>>,
    /// The number of the last search that met the file.
    look: u64,
}

impl HolderList {
    /// No sets.
    pub const fn new() -> Self {
        HolderList {
            sets: Sequence::new(),
            look: 0,
        }
    }
}

/// The result of the last search at a set.
#[derive(Default)]
pub(super) struct Mark {
    /// The number of the search that left this result.
    look: AtomicU64,
    depth: AtomicUsize,
}

/// Counts searches.
static LOOKS: SleepMutex<u64> = SleepMutex::new(0);

/// A search through nested sets, during which no other thread nests any.
pub(super) struct Look {
    number: SleepMutexGuard<'static, u64>,
    /// The files whose paths are counted.
    files: Vec<Arc<File>>,
}

impl Look {
    /// Begins a search.
    ///
    /// # Errors
    /// EINTR: the caller was killed.
    pub fn begin() -> Result<Self> {
        let mut number = LOOKS.lock_killable()?;
        *number += 1;
        let files = Vec::new();
        Ok(Look { number, files })
    }

    /// Whether `below` may become a member of `set`.
    ///
    /// # Errors
    /// ELOOP: it would create a cycle, or exceed the maximum depth. EINTR, ENOMEM.
    pub fn check_depth(&mut self, set: &Set, below: &Set) -> Result<()> {
        let depth = self.depth(below, set)? + 1 + self.height(set)?;
        if depth > MAX_NESTS {
            return Err(Errno::ELOOP);
        }
        Ok(())
    }

    /// The depth that this search has already found for `set`, if any.
    fn known(&self, set: &Set) -> Option<usize> {
        let seen = set.mark.look.load(Relaxed) == *self.number;
        seen.then(|| set.mark.depth.load(Relaxed))
    }

    fn note(&self, set: &Set, depth: usize) -> Result<usize> {
        if depth > MAX_NESTS {
            return Err(Errno::ELOOP);
        }
        set.mark.look.store(*self.number, Relaxed);
        set.mark.depth.store(depth, Relaxed);
        Ok(depth)
    }

    /// The depth of sets below `set`, which must not lead to `top`. It never exceeds the limit.
    fn depth(&mut self, set: &Set, top: &Set) -> Result<usize> {
        if core::ptr::eq(set, top) {
            return Err(Errno::ELOOP);
        }
        if let Some(depth) = self.known(set) {
            return Ok(depth);
        }
        let (mut depth, mut next) = (0, set.member_from((i32::MIN, 0)));
        while let Some(item) = next {
            let (fd, file) = item.key;
            pause()?;
            next = set.member_from((fd, file + 1));
            let Some(file) = item.file.upgrade() else {
                continue;
            };
            match file.ops_as::<Epoll>() {
                Some(below) => depth = depth.max(1 + self.depth(&below, top)?),
                None => self.add_file(file)?,
            }
        }
        self.note(set, depth)
    }

    /// The height of the sets that contain `set`.
    fn height(&self, set: &Set) -> Result<usize> {
        if let Some(height) = self.known(set) {
            return Ok(height);
        }
        let (mut height, mut from) = (0, 0);
        while let Some((number, holder)) = next_holder(&set.holders, from) {
            pause()?;
            from = number + 1;
            if let Some(holder) = holder.upgrade() {
                height = height.max(1 + self.height(&holder)?);
            }
        }
        self.note(set, height)
    }

    /// Adds a file to which there are new paths. All of them are counted at once, however many
    /// memberships lead here.
    pub fn add_file(&mut self, file: Arc<File>) -> Result<()> {
        let met = core::mem::replace(&mut file.holders().lock().look, *self.number);
        if met == *self.number {
            return Ok(());
        }
        self.files.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.files.push(file);
        Ok(())
    }

    /// Checks the number of paths up from the files.
    ///
    /// # Errors
    /// EINVAL, EINTR.
    pub fn check_paths(&self) -> Result<()> {
        self.files
            .iter()
            .try_for_each(|file| count_paths(file.holders(), 0, &mut [0; MAX_NESTS + 1]))
    }
}

fn next_holder(holders: &Holders, from: u64) -> Option<(u64, Weak<Set>)> {
    let holders = holders.lock();
    let (number, holder) = holders.sets.first_from(from)?;
    Some((number, holder.clone()))
}

/// Counts the paths up by the number of sets in between, of which there are already `nests`.
fn count_paths(holders: &Holders, nests: usize, counts: &mut [usize; MAX_NESTS + 1]) -> Result<()> {
    let mut from = 0;
    while let Some((number, holder)) = next_holder(holders, from) {
        pause()?;
        from = number + 1;
        let Some(holder) = holder.upgrade() else {
            continue;
        };
        if !holder.holders.lock().sets.is_empty() {
            count_paths(&holder.holders, nests + 1, counts)?;
        } else if nests > 0 {
            counts[nests] += 1;
            if counts[nests] > PATH_LIMITS[nests] {
                return Err(Errno::EINVAL);
            }
        }
    }
    Ok(())
}

/// Lets others run; EINTR if the thread was killed.
fn pause() -> Result<()> {
    sched::cond_resched();
    if current().must_die() {
        return Err(Errno::EINTR);
    }
    Ok(())
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_search_counts_a_file_once() {
        let [outer, inner] = [(), ()].map(|()| super::new().unwrap());
        let [outer, inner] = [outer, inner].map(|set| set.ops_as::<Epoll>().unwrap());
        let [reader, _writer] = crate::fs::pipe::pair(0).unwrap();
        for fd in 0..3 {
            let event = super::Event { events: 1, pad: 0, data: 0 };
            inner.add(fd, &reader, event).unwrap();
        }
        let mut look = Look::begin().unwrap();
        look.check_depth(&outer, &inner).unwrap();
        assert_eq!(look.files.len(), 1);
    }
}
