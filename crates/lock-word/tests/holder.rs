//! One thread holds the lock at a time, a thread that waits for itself is detected, and no other is
//! reported as such: under every interleaving with `RUSTFLAGS="--cfg loom"`, and in histories
//! without.

use lock_word::{LockWord, Seen};

type Word = LockWord<16>;

#[cfg(loom)]
mod races {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A lock, and what it guards: loom reports unordered accesses of it.
    struct Lock {
        word: Word,
        value: UnsafeCell<()>,
    }

    impl Lock {
        fn hold(&self) {
            self.value.with_mut(|_| ());
        }

        /// Takes it, or looks some times, and gives up.
        fn lock(&self, own: usize, looks: usize) {
            let taken = match self.word.take(own) {
                Ok(()) => true,
                Err(mut waiter) => {
                    let seen = (0..looks).map(|_| self.word.look(own, &mut waiter));
                    match { seen }.find(|seen| *seen != Seen::Held) {
                        Some(Seen::Own) => panic!("nobody waits for itself"),
                        Some(_) => true,
                        None => self.word.give_up(own, waiter),
                    }
                }
            };
            if taken {
                self.hold();
                self.word.release();
            }
        }

        fn try_lock(&self, own: usize) {
            if self.word.try_take(own) {
                self.hold();
                self.word.release();
            }
        }
    }

    fn beside<const N: usize>(threads: [fn(&Lock, usize); N]) {
        let mut few = loom::model::Builder::new();
        few.preemption_bound = Some(2);
        few.check(move || {
            let lock = Arc::new(Lock {
                word: Word::new(),
                value: UnsafeCell::new(()),
            });
            let started: Vec<_> = (1..N)
                .map(|at| {
                    let (lock, what) = (lock.clone(), threads[at]);
                    thread::spawn(move || what(&lock, 16 * (at + 1)))
                })
                .collect();
            threads[0](&lock, 16);
            started.into_iter().for_each(|one| one.join().unwrap());
        });
    }

    fn waits(lock: &Lock, own: usize) {
        lock.lock(own, 1);
        lock.lock(own, 2);
    }

    fn tries(lock: &Lock, own: usize) {
        lock.try_lock(own);
        lock.lock(own, 2);
    }

    fn gives_up(lock: &Lock, own: usize) {
        lock.lock(own, 0);
        lock.lock(own, 2);
    }

    #[test]
    fn nobody_is_told_that_it_waits_for_itself() {
        beside([waits, waits]);
        beside([tries, tries]);
        beside([gives_up, gives_up]);
        beside([tries, gives_up, |lock, own| lock.lock(own, 2)]);
    }

    /// The first takes the lock twice, whoever waits beside it: it learns it as soon as the others
    /// have looked once more.
    #[test]
    fn who_waits_for_itself_learns_it() {
        let mut few = loom::model::Builder::new();
        few.preemption_bound = Some(2);
        few.check(|| {
            let word = Arc::new(Word::new());
            assert!(word.take(16).is_ok());
            let others: Vec<_> = [32, 48]
                .map(|own| {
                    let word = word.clone();
                    thread::spawn(move || {
                        let mut waiter = word.take(own).unwrap_err();
                        _ = word.look(own, &mut waiter);
                        waiter
                    })
                })
                .into();
            let mut waiter = word.take(16).unwrap_err();
            let mut seen = word.look(16, &mut waiter);
            let mut waiters: Vec<_> = others.into_iter().map(|one| one.join().unwrap()).collect();
            for _ in 0..3 {
                if seen != Seen::Own {
                    for (own, waiter) in [32, 48].into_iter().zip(&mut waiters) {
                        assert_eq!(word.look(own, waiter), Seen::Held);
                    }
                    seen = word.look(16, &mut waiter);
                }
            }
            assert_eq!(seen, Seen::Own);
        });
    }
}

#[cfg(not(loom))]
mod histories {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        let word = Word::new();
        assert!(word.take(16).is_ok());
        let mut waiter = word.take(32).unwrap_err();
        assert_eq!(word.look(32, &mut waiter), Seen::Held);
        assert!(!word.try_take(48));
        assert!(word.is_held_by(16) && !word.is_held_by(32) && !word.is_held_by(48));
        word.release();
        assert_eq!(word.look(32, &mut waiter), Seen::Taken);
        assert!(word.is_held_by(32));
        word.release();
        assert!(word.try_take(48));
    }

    /// Numbers of one stack name the same.
    #[test]
    fn who_holds_it_learns_that_it_waits_for_itself() {
        let word = Word::new();
        assert!(word.take(20).is_ok());
        let mut waiter = word.take(24).unwrap_err();
        assert_eq!(word.look(28, &mut waiter), Seen::Own);
        let word = Word::new();
        assert!(word.try_take(20));
        let mut waiter = word.take(24).unwrap_err();
        assert_eq!(word.look(28, &mut waiter), Seen::Own);
    }

    /// The waiter's name stands in the word when the holder comes again.
    #[test]
    fn a_waiter_beside_it_does_not_hide_it() {
        let word = Word::new();
        assert!(word.take(16).is_ok());
        let mut other = word.take(32).unwrap_err();
        let mut own = word.take(16).unwrap_err();
        assert_eq!(word.look(16, &mut own), Seen::Held);
        assert_eq!(word.look(32, &mut other), Seen::Held);
        assert_eq!(word.look(16, &mut own), Seen::Own);
    }

    /// A name that was put back by another who found it says nothing.
    #[test]
    fn who_waits_beside_others_is_not_told_so() {
        let word = Word::new();
        assert!(word.take(16).is_ok());
        let mut first = word.take(32).unwrap_err();
        let mut second = word.take(48).unwrap_err();
        assert_eq!(word.look(48, &mut second), Seen::Held);
        assert_eq!(word.look(32, &mut first), Seen::Held);
        assert!(word.is_held_by(16));
    }

    /// Neither is a try that failed, nor who gave up before its name was put away.
    #[test]
    fn who_did_not_wait_for_it_may_wait_later() {
        let word = Word::new();
        assert!(word.take(16).is_ok());
        assert!(!word.try_take(32));
        let mut waiter = word.take(32).unwrap_err();
        let mut other = word.take(48).unwrap_err();
        assert!(!word.give_up(32, waiter));
        assert_eq!(word.look(48, &mut other), Seen::Held);
        waiter = word.take(32).unwrap_err();
        assert_eq!(word.look(32, &mut waiter), Seen::Held);
        assert_eq!(word.look(32, &mut waiter), Seen::Held);
        word.release();
        let waiter = word.take(32);
        assert!(waiter.is_ok());
    }

    /// A thread that gives up a lock that was released meanwhile has it.
    #[test]
    fn who_gives_up_may_have_it() {
        let word = Word::new();
        assert!(word.take(16).is_ok());
        let waiter = word.take(32).unwrap_err();
        word.release();
        assert!(word.give_up(32, waiter));
        assert!(!word.try_take(48));
    }
}
