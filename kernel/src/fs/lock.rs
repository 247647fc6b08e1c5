//! Advisory locks: flock(2), and fcntl(2)'s record locks of a process or of an open file.

use super::device;
use super::file::File;
use super::generated::Text;
use super::poll::WaitSource;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::put;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// Who holds a lock. Those of flock and of fcntl do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// flock: an open file, by its address.
    Flock(usize),
    /// fcntl: an open file (`F_OFD_`), by its address.
    OpenFile(usize),
    /// fcntl: a process, by the address of its descriptors.
    Process(usize),
}

impl Owner {
    /// flock's owner.
    pub fn flock(file: &File) -> Self {
        Owner::Flock(core::ptr::from_ref(file) as usize)
    }

    /// The owner of `F_OFD_` locks.
    pub fn open_file(file: &File) -> Self {
        Owner::OpenFile(core::ptr::from_ref(file) as usize)
    }

    fn is_flock(self) -> bool {
        matches!(self, Owner::Flock(_))
    }
}

/// A lock on the bytes `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Who holds it.
    pub owner: Owner,
    /// The process that took it, to be told.
    pub process: i32,
    /// Nobody else may hold one there; otherwise nobody else such an exclusive one.
    pub exclusive: bool,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
}

impl Lock {
    fn overlaps(&self, other: &Lock) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn conflicts(&self, other: &Lock) -> bool {
        self.owner != other.owner
            && self.owner.is_flock() == other.owner.is_flock()
            && (self.exclusive || other.exclusive)
            && self.overlaps(other)
    }
}

/// The locks on one inode.
#[derive(Default)]
struct Locks(Vec<Lock>);

impl Locks {
    /// Of what stands against `wanted`, the lock that begins first.
    fn conflict(&self, wanted: &Lock) -> Option<Lock> {
        let against = self.0.iter().filter(|held| held.conflicts(wanted));
        against.min_by_key(|held| held.first).copied()
    }

    /// Takes the owner's locks away from the range of `hole`: what remains left and right of it stays.
    fn cut(&mut self, hole: &Lock) -> Result<()> {
        self.0.try_reserve(2).map_err(|_| Errno::ENOLCK)?;
        let mut at = 0;
        while at < self.0.len() {
            let held = self.0[at];
            if held.owner != hole.owner || !held.overlaps(hole) {
                at += 1;
                continue;
            }
            self.0.swap_remove(at);
            if held.first < hole.first {
                self.0.push(Lock {
                    last: hole.first - 1,
                    ..held
                });
            }
            if held.last > hole.last {
                self.0.push(Lock {
                    first: hole.last + 1,
                    ..held
                });
            }
        }
        Ok(())
    }

    fn set(&mut self, lock: Lock) -> Result<()> {
        self.cut(&lock)?;
        // Neighbours of the same kind become one.
        let mut whole = lock;
        self.0.retain(|held| {
            let same = held.owner == whole.owner && held.exclusive == whole.exclusive;
            let before = held.last.checked_add(1) == Some(whole.first);
            let after = whole.last.checked_add(1) == Some(held.first);
            if same && (before || after) {
                (whole.first, whole.last) =
                    (whole.first.min(held.first), whole.last.max(held.last));
            }
            !(same && (before || after))
        });
        self.0.push(whole);
        Ok(())
    }
}

/// An inode, by device and number.
type Key = (u64, u64);

/// How far a chain of waiting processes is followed (Linux's MAX_DEADLK_ITERATIONS).
const MOST_DEADLOCK_STEPS: usize = 10;

/// Somebody waits for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Waiting {
    wanted: Lock,
    key: Key,
    /// Whose lock stood against it.
    blocker: Owner,
}

struct Table {
    inodes: HashMap<Key, (Locks, Arc<WaitSource>)>,
    waiting: Vec<Waiting>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    inodes: hash::new(),
    waiting: Vec::new(),
});
/// Locks there are: a close looks no further when there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Table {
    /// Does something with the locks of an inode.
    fn with<R>(&mut self, key: Key, act: impl FnOnce(&mut Locks) -> R) -> Result<R> {
        if !self.inodes.contains_key(&key) {
            self.inodes.try_reserve(1).map_err(|_| Errno::ENOLCK)?;
            let fresh = (Locks::default(), WaitSource::new()?);
            self.inodes.insert(key, fresh);
        }
        let (locks, _) = self.inodes.get_mut(&key).ok_or(Errno::ENOLCK)?;
        let before = locks.0.len();
        let result = act(locks);
        let after = locks.0.len();
        COUNT.fetch_add(after.wrapping_sub(before), Relaxed);
        Ok(result)
    }

    /// Forgets an inode without locks. As long as somebody waits for one its source stays, or who locks it next would tell
    /// another.
    fn tidy(&mut self, key: Key) {
        let idle = |(locks, source): &(Locks, Arc<WaitSource>)| {
            locks.0.is_empty() && Arc::strong_count(source) == 1
        };
        if self.inodes.get(&key).is_some_and(idle) {
            self.inodes.remove(&key);
        }
    }

    /// True when `owner` would wait for one who waits, in the end, for `owner`. Only processes are looked after, as on Linux:
    /// another thread may give an open file's locks up; and not along chains without end.
    fn deadlocks(&self, owner: Owner, blocker: Owner) -> bool {
        if !matches!(owner, Owner::Process(_)) {
            return false;
        }
        let mut next = Some(blocker);
        for _ in 0..MOST_DEADLOCK_STEPS {
            match next {
                None => return false,
                Some(blocker) if blocker == owner => return true,
                Some(blocker) => {
                    let waits = |wait: &&Waiting| wait.wanted.owner == blocker && self.stands(wait);
                    next = self.waiting.iter().find(waits).map(|wait| wait.blocker);
                }
            }
        }
        false
    }

    /// Whether a wait is not over: who was woken may not have run yet.
    fn stands(&self, wait: &Waiting) -> bool {
        let locks = self.inodes.get(&wait.key).map(|(locks, _)| locks);
        let lock = locks.and_then(|locks| locks.conflict(&wait.wanted));
        lock.is_some_and(|lock| lock.owner == wait.blocker)
    }
}

fn key(file: &File) -> Key {
    let attr = file.entry().inode().attr();
    (attr.device, attr.inode)
}

fn source(key: Key) -> Option<Arc<WaitSource>> {
    TABLE
        .lock()
        .inodes
        .get(&key)
        .map(|(_, source)| source.clone())
}

/// The first lock that stands against `wanted`.
pub fn conflict(file: &File, wanted: &Lock) -> Option<Lock> {
    TABLE.lock().inodes.get(&key(file))?.0.conflict(wanted)
}

/// Takes `wanted`; where others stand against it EAGAIN, or waits for them.
pub fn acquire(file: &File, wanted: Lock, wait: bool) -> Result<()> {
    let key = key(file);
    loop {
        let waiting = {
            let mut table = TABLE.lock();
            let taken = table.with(key, |locks| match locks.conflict(&wanted) {
                Some(blocker) => Ok(Some(blocker.owner)),
                None => locks.set(wanted).map(|()| None),
            })??;
            let Some(blocker) = taken else { break };
            if !wait {
                return Err(Errno::EAGAIN);
            }
            if table.deadlocks(wanted.owner, blocker) {
                return Err(Errno::EDEADLK);
            }
            table.waiting.try_reserve(1).map_err(|_| Errno::ENOLCK)?;
            let waiting = Waiting {
                wanted,
                key,
                blocker,
            };
            table.waiting.push(waiting);
            waiting
        };
        let free = || !TABLE.lock().stands(&waiting);
        let waited = match source(key) {
            Some(source) => source.wait(free),
            None => Ok(()),
        };
        let mut table = TABLE.lock();
        if let Some(at) = table.waiting.iter().position(|wait| *wait == waiting) {
            table.waiting.swap_remove(at);
        }
        table.tidy(key);
        drop(table);
        waited?;
    }
    // A lock that became shared may let others in.
    notify(key);
    Ok(())
}

fn notify(key: Key) {
    if let Some(source) = source(key) {
        source.notify();
    }
}

/// Gives the range of `lock` up.
pub fn release(file: &File, lock: &Lock) -> Result<()> {
    let key = key(file);
    TABLE.lock().with(key, |locks| locks.cut(lock))??;
    notify(key);
    TABLE.lock().tidy(key);
    Ok(())
}

fn release_all(file: &File, owner: Owner) {
    let everything = Lock {
        owner,
        process: 0,
        exclusive: false,
        first: 0,
        last: u64::MAX,
    };
    if conflictless(file, owner) {
        return;
    }
    // Cutting whole locks out makes none: it does not fail.
    _ = release(file, &everything);
}

fn conflictless(file: &File, owner: Owner) -> bool {
    let table = TABLE.lock();
    !table
        .inodes
        .get(&key(file))
        .is_some_and(|(locks, _)| locks.0.iter().any(|lock| lock.owner == owner))
}

/// Writes the lines of /proc/locks: each lock, and who waits for the locks of an inode.
pub fn list(text: &mut Text) {
    let Ok((held, waiting)) = snapshot() else {
        return;
    };
    let mut last: HashMap<Key, usize> = hash::new();
    for (number, (key, lock)) in (1..).zip(&held) {
        put!(text, "{number}: ");
        put_line(text, key, lock);
        if last.try_reserve(1).is_ok() {
            last.insert(*key, number);
        }
    }
    for (key, lock) in &waiting {
        if let Some(number) = last.get(key) {
            put!(text, "{number}: -> ");
            put_line(text, key, lock);
        }
    }
}

/// The locks there are, and those that are waited for.
fn snapshot() -> Result<(Vec<(Key, Lock)>, Vec<(Key, Lock)>)> {
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    let table = TABLE.lock();
    let room = held.try_reserve_exact(COUNT.load(Relaxed));
    room.map_err(|_| Errno::ENOMEM)?;
    let room = waiting.try_reserve_exact(table.waiting.len());
    room.map_err(|_| Errno::ENOMEM)?;
    for (key, (locks, _)) in &table.inodes {
        held.extend(locks.0.iter().map(|lock| (*key, *lock)));
    }
    waiting.extend(table.waiting.iter().map(|wait| (wait.key, wait.wanted)));
    Ok((held, waiting))
}

fn put_line(text: &mut Text, (device, inode): &Key, lock: &Lock) {
    let (kind, process) = match lock.owner {
        Owner::Flock(_) => ("FLOCK ", lock.process),
        Owner::OpenFile(_) => ("OFDLCK", -1),
        Owner::Process(_) => ("POSIX ", lock.process),
    };
    let way = if lock.exclusive { "WRITE" } else { "READ " };
    let (major, minor) = device::split(*device);
    put!(
        text,
        "{kind} ADVISORY  {way} {process} {major:02x}:{minor:02x}:{inode} {} ",
        lock.first
    );
    // The last byte that a file can have, or beyond.
    if lock.last >= i64::MAX as u64 {
        text.push(b"EOF\n");
    } else {
        put!(text, "{}\n", lock.last);
    }
}

/// The last descriptor of an open file is closed.
pub fn release_file(file: &File) {
    if COUNT.load(Relaxed) > 0 {
        release_all(file, Owner::flock(file));
        release_all(file, Owner::open_file(file));
    }
}

/// A process (by the address of its descriptors) closed a descriptor of the file.
pub fn release_process(file: &File, descriptors: usize) {
    if COUNT.load(Relaxed) > 0 {
        release_all(file, Owner::Process(descriptors));
    }
}

#[cfg(feature = "selftest")]
mod tests {
    use super::*;

    fn lock(owner: usize, exclusive: bool, first: u64, last: u64) -> Lock {
        Lock {
            owner: Owner::Process(owner),
            process: 0,
            exclusive,
            first,
            last,
        }
    }

    crate::selftest! {
        fn record_locks_split_merge_and_conflict() {
            let mut locks = Locks::default();
            locks.set(lock(1, true, 0, 99)).unwrap();
            locks.cut(&lock(1, true, 40, 59)).unwrap();
            assert!(locks.conflict(&lock(2, true, 45, 50)).is_none());
            assert_eq!(locks.conflict(&lock(2, false, 59, 60)), Some(lock(1, true, 60, 99)));
            locks.set(lock(1, true, 40, 59)).unwrap();
            assert_eq!(locks.0, [lock(1, true, 0, 99)]);
            locks.set(lock(1, false, 50, u64::MAX)).unwrap();
            assert!(locks.conflict(&lock(2, false, 70, 80)).is_none());
            assert_eq!(locks.0.len(), 2);
            let flock = Lock { owner: Owner::Flock(3), ..lock(0, true, 0, u64::MAX) };
            assert!(locks.conflict(&flock).is_none());
        }
    }

    crate::selftest! {
        fn waiting_in_a_circle_is_seen() {
            let owner = |number| Owner::Process(number);
            let file = Owner::OpenFile(4);
            let lock = |owner, byte| Lock {
                owner,
                process: 0,
                exclusive: true,
                first: byte,
                last: byte,
            };
            let mut inodes = hash::new();
            let held = [(owner(2), 2), (owner(3), 3), (file, 4)];
            let held = held.map(|(owner, byte)| lock(owner, byte));
            let source = WaitSource::new().expect("memory");
            inodes.insert((0, 0), (Locks(held.to_vec()), source));
            let wait = |waiter, byte, blocker| Waiting {
                wanted: lock(waiter, byte),
                key: (0, 0),
                blocker,
            };
            let waiting = alloc::vec![
                wait(owner(1), 2, owner(2)),
                wait(owner(2), 3, owner(3)),
                wait(owner(5), 4, file),
                // What this one waited for is free already.
                wait(owner(6), 6, owner(7)),
            ];
            let table = Table { inodes, waiting };
            assert!(table.deadlocks(owner(3), owner(1)) && !table.deadlocks(owner(4), owner(1)));
            assert!(!table.deadlocks(owner(7), owner(6)));
            assert!(!table.deadlocks(file, owner(5)));
        }
    }
}
