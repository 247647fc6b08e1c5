//! The lock of a state that many read and few change, and that may be held across a sleep. It
//! guards no value: what is read and changed lies elsewhere, such as on a server.

use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::sync::lockdep::{Class, Held};
use crate::task::wait_queue::WaitQueue;

/// A lock whose waiters sleep.
pub struct SleepRwLock {
    class: Class,
    waiters: WaitQueue,
    holders: Mutex<Holders>,
}

#[derive(Default)]
struct Holders {
    readers: usize,
    writer: bool,
    /// Threads that wait to write: no reader goes before them.
    writers_waiting: usize,
}

/// Holds the lock for reading while it lives.
pub struct SleepReadGuard<'a> {
    lock: &'a SleepRwLock,
    _held: Held,
}

/// Holds the lock alone while it lives.
pub struct SleepWriteGuard<'a> {
    lock: &'a SleepRwLock,
    _held: Held,
}

impl SleepRwLock {
    /// A free lock, of the lock class of the caller's line.
    #[track_caller]
    pub fn new() -> Self {
        SleepRwLock {
            class: Class::of_caller(),
            waiters: WaitQueue::new(),
            holders: Mutex::new(Holders::default()),
        }
    }

    /// Takes it beside other readers. A thread that holds it must not take it again: a writer may
    /// wait in between.
    ///
    /// # Errors
    /// EINTR: a signal kills the process.
    pub fn read_killable(&self) -> Result<SleepReadGuard<'_>> {
        let held = self.class.sleep();
        let waited = self.waiters.wait_killable(|| {
            let mut holders = self.holders.lock();
            let is_free = !holders.writer && holders.writers_waiting == 0;
            holders.readers += usize::from(is_free);
            is_free
        });
        waited.map_err(|_| Errno::EINTR)?;
        Ok(SleepReadGuard {
            lock: self,
            _held: held,
        })
    }

    /// Takes it alone.
    ///
    /// # Errors
    /// EINTR: a signal kills the process.
    pub fn write_killable(&self) -> Result<SleepWriteGuard<'_>> {
        let held = self.class.sleep();
        self.holders.lock().writers_waiting += 1;
        let waited = self.waiters.wait_killable(|| {
            let mut holders = self.holders.lock();
            let is_free = !holders.writer && holders.readers == 0;
            holders.writer |= is_free;
            is_free
        });
        self.holders.lock().writers_waiting -= 1;
        if waited.is_err() {
            // Readers waited for this thread.
            self.waiters.wake_all();
            return Err(Errno::EINTR);
        }
        Ok(SleepWriteGuard {
            lock: self,
            _held: held,
        })
    }
}

impl Drop for SleepReadGuard<'_> {
    fn drop(&mut self) {
        let is_last = {
            let mut holders = self.lock.holders.lock();
            holders.readers -= 1;
            holders.readers == 0
        };
        if is_last {
            self.lock.waiters.wake_all();
        }
    }
}

impl Drop for SleepWriteGuard<'_> {
    fn drop(&mut self) {
        self.lock.holders.lock().writer = false;
        self.lock.waiters.wake_all();
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn readers_hold_it_together_and_a_writer_alone() {
        use crate::sync::Once;
        use crate::task::{sched::schedule, selftests::run};
        use core::sync::atomic::{AtomicUsize, Ordering::*};
        const WRITERS: usize = 2;
        const READERS: usize = 4;
        static LOCK: Once<SleepRwLock> = Once::new();
        static MET: AtomicUsize = AtomicUsize::new(0);
        static READING: AtomicUsize = AtomicUsize::new(0);
        static WRITING: AtomicUsize = AtomicUsize::new(0);
        LOCK.call_once(SleepRwLock::new);
        run(WRITERS + READERS, |number| {
            let lock = LOCK.get().expect("made above");
            // All readers meet inside before a writer comes.
            let first = (number >= WRITERS).then(|| lock.read_killable().expect("nobody is killed"));
            MET.fetch_add(usize::from(first.is_some()), AcqRel);
            while MET.load(Acquire) < READERS {
                schedule();
            }
            drop(first);
            for _ in 0..50 {
                if number < WRITERS {
                    let _alone = lock.write_killable().expect("nobody is killed");
                    assert_eq!(WRITING.fetch_add(1, AcqRel), 0, "another writer");
                    schedule();
                    assert_eq!(READING.load(Acquire), 0, "a reader beside a writer");
                    WRITING.fetch_sub(1, AcqRel);
                } else {
                    let _beside = lock.read_killable().expect("nobody is killed");
                    READING.fetch_add(1, AcqRel);
                    schedule();
                    assert_eq!(WRITING.load(Acquire), 0, "a writer beside a reader");
                    READING.fetch_sub(1, AcqRel);
                }
            }
        });
    }
}
