//! The order of locks, checked in debug builds: each CPU remembers the ranks that it holds.

/// Where a lock stands in the order: a lock is taken only while all held ones have a lower rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rank {
    /// Anywhere; unchecked.
    Any,
    /// Who waits for whose lock.
    Chains,
    /// Who is whose child, and in which group.
    Tree,
    /// Signals of a process.
    Signals,
    /// Timers of a process.
    Timers,
    /// Who waits for a condition.
    Waiters,
    /// What is due on a CPU.
    Deadlines,
    /// Who runs next on a CPU.
    RunQueue,
}

#[cfg(debug_assertions)]
mod checked {
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

    use super::Rank;
    use crate::arch::{MAX_CPUS, cpu};

    /// Ranks held, one byte's bit each, and how many locks altogether.
    static RANKS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];
    static COUNT: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

    /// A lock that this CPU holds.
    pub struct Held(Rank);

    impl Held {
        /// About to be taken.
        pub fn before(rank: Rank) -> Self {
            let held = RANKS[cpu::this().index()].load(Relaxed);
            assert!(
                rank == Rank::Any || held >> (rank as u8) == 0,
                "{rank:?} after {held:#b}"
            );
            Self::new(rank)
        }

        /// Taken.
        pub fn new(rank: Rank) -> Self {
            let cpu = cpu::this().index();
            if rank != Rank::Any {
                RANKS[cpu].fetch_or(1 << rank as u8, Relaxed);
            }
            COUNT[cpu].fetch_add(1, Relaxed);
            Held(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let cpu = cpu::this().index();
            if self.0 != Rank::Any {
                RANKS[cpu].fetch_and(!(1 << self.0 as u8), Relaxed);
            }
            COUNT[cpu].fetch_sub(1, Relaxed);
        }
    }

    /// Panics if this CPU holds a spin lock.
    pub fn assert_none_held() {
        assert_eq!(
            COUNT[cpu::this().index()].load(Relaxed),
            0,
            "sleeps with a spin lock held"
        );
    }
}

#[cfg(not(debug_assertions))]
mod checked {
    use super::Rank;

    /// A lock that this CPU holds.
    pub struct Held;

    impl Held {
        #[inline(always)]
        pub fn before(_: Rank) -> Self {
            Held
        }

        #[inline(always)]
        pub fn new(_: Rank) -> Self {
            Held
        }
    }

    /// Panics if this CPU holds a spin lock, in debug builds.
    #[inline(always)]
    pub fn assert_none_held() {}
}

pub(super) use checked::Held;
pub use checked::assert_none_held;
