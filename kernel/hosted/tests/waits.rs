//! Futexes with more waiters than a bucket's list holds.

use hosted::*;
use linux_raw_sys::general::*;

/// Twice as many, and some more.
const MANY: usize = 160;

/// Words that a process shares with its children.
fn words() -> usize {
    let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
    sys!(mmap, 0, 4096, rights, flags, -1, 0).unwrap()
}

/// Lets the others run until they sleep.
fn doze() {
    let time = put(&[0u64, 1_000_000].map(u64::to_ne_bytes).concat());
    sys!(nanosleep, time, 0).unwrap();
}

fn wake(word: usize, most: usize) -> usize {
    doze();
    sys!(futex, word, FUTEX_WAKE, most, 0, 0, 0).unwrap()
}

/// The status with which a child ends.
fn end_of(child: usize) -> [u8; 2] {
    let status = reserve(4);
    assert_eq!(sys!(wait4, child, status, 0, 0), Ok(child));
    peek(status, 2).try_into().unwrap()
}

#[test]
fn many_wait_at_a_word() {
    run(|| {
        let words = words();
        let pair = reserve(8);
        sys!(pipe2, pair, 0).unwrap();
        let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
        let begin = |number: usize| {
            let child = fork(move || {
                let word = words + 4 * (number % 2);
                assert_eq!(sys!(futex, word, FUTEX_WAIT, 0, 0, 0, 0), Ok(0));
                sys!(write, to, &[number as u8][..], 1).unwrap();
                sys!(exit_group, 7).unwrap();
            });
            doze();
            child.unwrap()
        };
        let children: Vec<usize> = (0..MANY).map(begin).collect();
        let came = |count: usize| {
            let buffer = reserve(MANY);
            let mut numbers = Vec::new();
            while numbers.len() < count {
                let len = sys!(read, from, buffer, count - numbers.len()).unwrap();
                numbers.extend(peek(buffer, len));
            }
            numbers.sort_unstable();
            numbers
        };
        let even = |range: std::ops::Range<u8>| range.step_by(2).collect::<Vec<u8>>();
        assert_eq!(wake(words, 10), 10);
        assert_eq!(came(10), even(0..20));
        // One in the middle is killed, and others are requeued to a futex without waiters.
        sys!(kill, children[40], SIGKILL).unwrap();
        assert_eq!(end_of(children[40]), [9, 0]);
        let moved = sys!(futex, words, FUTEX_REQUEUE, 5, 20, words + 8, 0);
        assert_eq!(moved, Ok(25));
        assert_eq!(came(5), even(20..30));
        assert_eq!(wake(words + 8, 3), 3);
        assert_eq!(came(3), even(30..36));
        assert_eq!(wake(words + 8, 100), 17);
        assert_eq!(came(17), [even(36..40), even(42..72)].concat());
        assert_eq!(wake(words, 1), 1);
        assert_eq!(came(1), [72]);
        assert_eq!(wake(words, 100), 43);
        assert_eq!(came(43), even(74..160));
        assert_eq!(wake(words + 4, 1000), 80);
        assert_eq!(came(80), (1..160).step_by(2).collect::<Vec<u8>>());
        for word in 0..3 {
            assert_eq!(wake(words + 4 * word, 1), 0);
        }
        for (number, &child) in children.iter().enumerate() {
            assert!(number == 40 || end_of(child) == [0, 7], "{number}");
        }
    });
}

#[test]
fn one_waits_at_a_word_many_times() {
    run(|| {
        let words = words();
        let at = |word: usize| {
            let two = [0, word as u64].map(u64::to_ne_bytes).concat();
            [two, [2u32, 0].map(u32::to_ne_bytes).concat()].concat()
        };
        let child = fork(move || {
            let mut all = vec![at(words); 100];
            all.resize(128, at(words + 4));
            let all = all.concat();
            for expected in [0, 100, 0] {
                let woken = sys!(futex_waitv, put(&all), 128, 0, 0, 0);
                assert_eq!(woken, Ok(expected));
            }
            sys!(exit_group, 7).unwrap();
        });
        doze();
        for word in [words, words + 4, words] {
            assert_eq!(wake(word, 1), 1);
        }
        assert_eq!(wake(words + 4, 1), 0);
        assert_eq!(end_of(child.unwrap()), [0, 7]);
    });
}

#[test]
fn many_wait_for_a_lock() {
    run(|| {
        let word = words();
        let call = move |operation: u32| sys!(futex, word, operation, 0, 0, 0, 0);
        assert_eq!(call(FUTEX_LOCK_PI), Ok(0));
        let begin = |number: usize| {
            let child = fork(move || {
                assert_eq!(call(FUTEX_LOCK_PI), Ok(0));
                doze();
                // Some end with the lock.
                if !number.is_multiple_of(9) {
                    assert_eq!(call(FUTEX_UNLOCK_PI), Ok(0));
                }
                sys!(exit_group, 7).unwrap();
            });
            doze();
            child.unwrap()
        };
        let children: Vec<usize> = (0..MANY).map(begin).collect();
        sys!(kill, children[50], SIGKILL).unwrap();
        assert_eq!(end_of(children[50]), [9, 0]);
        assert_eq!(call(FUTEX_UNLOCK_PI), Ok(0));
        for (number, &child) in children.iter().enumerate() {
            assert!(number == 50 || end_of(child) == [0, 7], "{number}");
        }
        assert_eq!(call(FUTEX_TRYLOCK_PI), Ok(0));
    });
}

/// The word of a lock, and the number of its owner in it.
fn owner(word: usize) -> u32 {
    u32::from_ne_bytes(peek(word, 4).try_into().unwrap()) & FUTEX_TID_MASK
}

#[test]
fn a_robust_lock_of_the_dead_has_one_owner() {
    run(|| {
        let words = words();
        let (head, entry) = (words + 64, words + 128);
        let word = entry + size_of::<usize>();
        let call = move |operation: u32| sys!(futex, word, operation, 0, 0, 0, 0);
        // The owner of the lock keeps it while the others run.
        let has_it = move || {
            let own = sys!(gettid).unwrap() as u32;
            (0..20).all(|_| sys!(sched_yield).is_ok() && owner(word) == own)
        };
        for heirs in [1, 2, 3, 1, 2, 3] {
            let list = [entry | 1, size_of::<usize>(), 0, 0, 0, 0, 0, 0, head, 0];
            poke(head, &list.map(usize::to_ne_bytes).concat()).unwrap();
            let dying = fork(move || {
                sys!(set_robust_list, head, 24).unwrap();
                assert_eq!(call(FUTEX_LOCK_PI), Ok(0));
                (0..8).for_each(|_| doze());
                sys!(exit_group, 7).unwrap();
            });
            doze();
            let begin = |_| {
                let heir = fork(move || {
                    assert_eq!(call(FUTEX_LOCK_PI), Ok(0));
                    assert!(has_it());
                    assert_eq!(call(FUTEX_UNLOCK_PI), Ok(0));
                    sys!(exit_group, 7).unwrap();
                });
                doze();
                heir.unwrap()
            };
            let heirs: Vec<usize> = (0..heirs).map(begin).collect();
            // Its end is noticed when the next has the lock, or is about to.
            while call(FUTEX_TRYLOCK_PI) == Err(Errno::EAGAIN) {
                sys!(sched_yield).unwrap();
            }
            assert!(has_it());
            assert_eq!(call(FUTEX_UNLOCK_PI), Ok(0));
            for child in heirs.into_iter().chain(dying) {
                assert_eq!(end_of(child), [0, 7]);
            }
        }
    });
}

#[test]
fn two_owners_that_end_hand_a_lock_on() {
    run(|| {
        let word = words();
        let call = move |operation: u32| sys!(futex, word, operation, 0, 0, 0, 0);
        let begin = |ends: bool| {
            let child = fork(move || {
                assert_eq!(call(FUTEX_LOCK_PI), Ok(0));
                if ends {
                    // It is killed.
                    sys!(ppoll, 0, 0, 0, 0, 0).unwrap();
                }
                assert_eq!(owner(word), sys!(gettid).unwrap() as u32);
                sys!(exit_group, 7).unwrap();
            });
            doze();
            child.unwrap()
        };
        let (first, second, third) = (begin(true), begin(true), begin(false));
        // The second is killed when it is about to get the lock, and has not run yet.
        sys!(kill, first, SIGKILL).unwrap();
        assert_eq!(end_of(first), [9, 0]);
        sys!(kill, second, SIGKILL).unwrap();
        assert_eq!(end_of(second), [9, 0]);
        assert_eq!(end_of(third), [0, 7]);
    });
}

#[test]
fn a_lock_goes_to_the_highest_priority_that_a_waiter_has_now() {
    run(|| {
        let word = words();
        let pair = reserve(8);
        sys!(pipe2, pair, 0).unwrap();
        let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
        let call = move |operation: u32| sys!(futex, word, operation, 0, 0, 0, 0);
        assert_eq!(call(FUTEX_LOCK_PI), Ok(0));
        let begin = |number: usize| {
            let child = fork(move || {
                assert_eq!(call(FUTEX_LOCK_PI), Ok(0));
                sys!(write, to, &[number as u8][..], 1).unwrap();
                assert_eq!(call(FUTEX_UNLOCK_PI), Ok(0));
                sys!(exit_group, 7).unwrap();
            });
            doze();
            child.unwrap()
        };
        let children: Vec<usize> = (0..MANY).map(begin).collect();
        let priority = |number: usize, policy: u32, priority: u32| {
            let parameters = put(&priority.to_ne_bytes());
            sys!(sched_setscheduler, children[number], policy, parameters).unwrap();
        };
        priority(70, SCHED_FIFO, 5);
        priority(90, SCHED_FIFO, 9);
        priority(110, SCHED_FIFO, 7);
        priority(110, SCHED_NORMAL, 0);
        assert_eq!(call(FUTEX_UNLOCK_PI), Ok(0));
        for &child in &children {
            assert_eq!(end_of(child), [0, 7]);
        }
        let buffer = reserve(MANY);
        assert_eq!(sys!(read, from, buffer, MANY), Ok(MANY));
        let others = (0..MANY as u8).filter(|number| ![70, 90].contains(number));
        let order: Vec<u8> = [90, 70].into_iter().chain(others).collect();
        assert_eq!(peek(buffer, MANY), order);
    });
}
