//! The CPUs that hold translations of an address space, and those among them that must be notified
//! when these change.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering::*, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::*, fence};

use crate::CPUS_PER_WORD;

/// A bit for each CPU that has run an address space.
///
/// Only CPUs that run it now are notified of a change. A CPU that has left it is marked stale
/// instead, once, and forgets the whole space when it comes back.
///
/// A CPU that enters announces itself (it records somewhere that it runs the space), and then looks
/// for its mark. A CPU that changes the space marks the others, and then looks for their
/// announcements. Both execute a full fence between the two steps, so that at least one sees the
/// other. If both do, the CPU runs with its mark set: so a marked CPU must still be notified if it
/// runs, and a mark may cost a CPU one unnecessary fence.
#[derive(Debug)]
pub struct Holders<const WORDS: usize>([Word; WORDS]);

#[derive(Debug)]
struct Word {
    /// Set by each CPU for itself when it first enters the space; never cleared.
    held: AtomicU64,
    /// Set by the CPU that changes the space, and cleared by each CPU for itself.
    stale: AtomicU64,
}

impl Word {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Word {
            held: AtomicU64::new(0),
            stale: AtomicU64::new(0),
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Word {
            held: AtomicU64::new(0),
            stale: AtomicU64::new(0),
        }
    }

    #[cold]
    fn enter(&self, bit: u64) -> bool {
        self.held.fetch_or(bit, SeqCst);
        // The mark is cleared before the CPU forgets: a change after this finds the CPU running, or
        // sets the mark again.
        let stale = self.stale.fetch_and(!bit, SeqCst) & bit != 0;
        fence(SeqCst);
        stale
    }

    /// Marks the CPUs that have left, and passes those that run the space, according to `runs`, to
    /// `notify`.
    fn change(&self, except: u64, runs: impl Fn(u32) -> bool, mut notify: impl FnMut(u32)) {
        let mut left = 0;
        for cpu in bits(self.held.load(Relaxed) & !except) {
            if runs(cpu) {
                notify(cpu);
            } else {
                left |= 1 << cpu;
            }
        }
        if left != 0 {
            if left & !self.stale.load(Relaxed) != 0 {
                self.stale.fetch_or(left, SeqCst);
            }
            // Also for a mark that was set before: its CPU may have entered before another change
            // set it.
            fence(SeqCst);
            bits(left).filter(|&cpu| runs(cpu)).for_each(notify);
        }
    }
}

impl<const WORDS: usize> Holders<WORDS> {
    /// No holders.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Holders([const { Word::new() }; WORDS])
    }

    /// No holders.
    #[cfg(loom)]
    pub fn new() -> Self {
        Holders(core::array::from_fn(|_| Word::new()))
    }

    /// Called when CPU `cpu` is about to run the space, has announced it where `runs` of
    /// [`change`](Holders::change) looks, and has executed a full fence since. If this returns
    /// `true`, the CPU must forget all translations of the space before it uses one. Only CPU `cpu`
    /// may call this.
    #[inline]
    pub fn enter_space(&self, cpu: usize) -> bool {
        let (word, bit) = (&self.0[cpu / CPUS_PER_WORD], 1 << (cpu % CPUS_PER_WORD));
        let current = word.held.load(Relaxed) & !word.stale.load(Relaxed) & bit != 0;
        !current && word.enter(bit)
    }

    /// Called after entries of the space were changed, and a full fence was executed: passes each
    /// CPU that must forget them now to `notify`, but not `own`, the CPU that made the change and
    /// forgets them itself. `runs` tells whether a CPU runs, or may run, the space.
    ///
    /// Once the notified CPUs have done so, no CPU uses an old entry.
    pub fn change(&self, own: usize, runs: impl Fn(usize) -> bool, mut notify: impl FnMut(usize)) {
        for (first, word) in (0..).step_by(CPUS_PER_WORD).zip(&self.0) {
            let except = match own.checked_sub(first) {
                Some(own) if own < CPUS_PER_WORD => 1 << own,
                _ => 0,
            };
            let (runs, notify) = (
                |cpu| runs(first + cpu as usize),
                |cpu| notify(first + cpu as usize),
            );
            word.change(except, runs, notify);
        }
    }
}

impl<const WORDS: usize> Default for Holders<WORDS> {
    fn default() -> Self {
        Holders::new()
    }
}

/// The numbers of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros();
            word &= word - 1;
            bit
        })
    })
}
