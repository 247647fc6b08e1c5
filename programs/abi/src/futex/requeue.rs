//! Waiters that are requeued from one futex to another.

use super::*;

pub unsafe fn requeued() {
    unsafe {
        let (word, lock) = (AtomicU32::new(0), AtomicU32::new(0));
        futex(&lock, LOCK_PI, 0, ptr::null());
        let requeue = |value: u32, wakes: u32, to: &AtomicU32| {
            let moves = ptr::without_provenance(5);
            futex6(&word, CMP_REQUEUE_PI, wakes, moves, to, value)
        };
        tell("requeue, another value", requeue(1, 1, &lock));
        tell("requeue, two wakes", requeue(0, 2, &lock));
        tell("requeue to itself", requeue(0, 1, &word));
        tell("requeue of nobody", requeue(0, 1, &lock));
        let wait = |value, timeout| futex6(&word, WAIT_REQUEUE_PI, value, timeout, &lock, u32::MAX);
        tell("wait, another value", wait(1, ptr::null()));
        let no_bits = futex6(&word, WAIT_REQUEUE_PI, 1, ptr::null(), &lock, 0);
        tell("wait, no bits", no_bits);
        tell("wait, in time", wait(0, &PAST));
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let result = wait(0, ptr::null());
                        let own = lock.load(SeqCst) & TID == libc::gettid() as u32;
                        result == 0 && own && futex(&lock, UNLOCK_PI, 0, ptr::null()) == 0
                    })
                })
                .collect();
            let mut moved = 0;
            while moved < 2 {
                moved += requeue(0, 1, &lock).max(0);
                thread::yield_now();
            }
            println!("moved: {moved}");
            tell("unlock", futex(&lock, UNLOCK_PI, 0, ptr::null()));
            let got = waiters.into_iter().map(|waiter| waiter.join().unwrap());
            println!("got it: {}", got.filter(|got| *got).count());
        });
        println!("has it: {}", held(&lock));
    }
}

/// A call requeues the threads that wait when it checks the word, not the one that gets the lock by
/// it and waits again with another value.
pub unsafe fn requeued_at_once() {
    const THREADS: usize = 300;
    static WORD: AtomicU32 = AtomicU32::new(0);
    static LOCK: AtomicU32 = AtomicU32::new(0);
    let wait = |value| unsafe {
        let none = ptr::null();
        futex6(&WORD, WAIT_REQUEUE_PI, value, none, &LOCK, 0)
    };
    let requeue = |value| unsafe {
        let moves = ptr::without_provenance(THREADS);
        futex6(&WORD, CMP_REQUEUE_PI, 1, moves, &LOCK, value)
    };
    let waits = move || {
        wait(0);
        WORD.store(1, SeqCst);
        wait(1);
        thread::park();
    };
    let act = move || {
        for _ in 0..THREADS {
            let thread = thread::Builder::new().stack_size(1 << 14);
            drop(thread.spawn(waits).expect("a thread"));
        }
        while waiters(&WORD) < THREADS {
            thread::sleep(Duration::from_millis(1));
        }
        tell("all at once", requeue(0));
        while WORD.load(SeqCst) == 0 {
            thread::yield_now();
        }
        tell("with the old value", requeue(0));
    };
    tell_end("requeue", in_child(act));
}

/// The number of this process's threads that sleep in futex(2) on a word.
fn waiters(word: &'static AtomicU32) -> usize {
    let call = format!("{} {word:p} ", libc::SYS_futex);
    let tasks = std::fs::read_dir("/proc/self/task").expect("a folder");
    let calls = tasks.map(|task| {
        let path = task.expect("a thread").path().join("syscall");
        std::fs::read_to_string(path).unwrap_or_default()
    });
    calls.filter(|text| text.starts_with(&call)).count()
}

/// No thread is requeued to a PI lock whose owner waits for a lock of that thread: EDEADLK.
pub unsafe fn requeued_in_a_circle() {
    static WORDS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    let [word, first, second] = &WORDS;
    let act = || unsafe {
        thread::spawn(|| {
            futex(first, LOCK_PI, 0, ptr::null());
            until_waited_for(first);
            futex6(word, WAIT_REQUEUE_PI, 0, ptr::null(), second, 0);
        });
        thread::spawn(|| {
            futex(second, LOCK_PI, 0, ptr::null());
            while first.load(SeqCst) == 0 {
                thread::yield_now();
            }
            futex(first, LOCK_PI, 0, ptr::null());
        });
        let moves = ptr::without_provenance(1);
        let requeue = || futex6(word, CMP_REQUEUE_PI, 1, moves, second, 0);
        until_waited_for(first);
        let ends = (0..).find_map(|_| {
            thread::yield_now();
            Some(requeue()).filter(|&ends| ends != 0)
        });
        tell("in a circle", ends.unwrap_or(0));
    };
    tell_end("requeue", in_child(act));
}

/// A waiter that is requeued to its own word counts as moved; no other thread is woken.
pub unsafe fn requeued_to_itself() {
    let (word, other) = (AtomicU32::new(0), AtomicU32::new(0));
    let woken = AtomicU32::new(0);
    let requeue = |value: u32, wakes: u32, moves: usize, to: &AtomicU32| unsafe {
        let moves = ptr::without_provenance(moves);
        futex6(&word, libc::FUTEX_CMP_REQUEUE, wakes, moves, to, value)
    };
    tell("another value", requeue(1, 1, 1, &other));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| unsafe {
                futex(&word, libc::FUTEX_WAIT, 0, ptr::null());
                woken.fetch_add(1, SeqCst);
            });
        }
        let mut wait = 0;
        while wait < 4 {
            thread::sleep(Duration::from_millis(20));
            wait = requeue(0, 0, 9, &word);
        }
        tell("to itself", wait);
        tell("one woken, to itself", requeue(0, 1, 2, &word));
        tell("one woken, one moved", requeue(0, 1, 1, &other));
        tell("the rest moved", requeue(0, 0, 9, &other));
        tell("nobody is left", requeue(0, 9, 9, &other));
        tell("woken where they were moved", unsafe {
            futex(&other, libc::FUTEX_WAKE, 9, ptr::null())
        });
    });
    println!("all came back: {}", woken.load(SeqCst));
}
