//! Futexes: PI locks, robust locks, waits with bitsets and deadlines, and the futex2 calls.

mod locks;
mod moved;
mod requeue;
mod words;

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use std::{hint, thread};

use crate::doing::await_state;
use crate::{in_child, tell, tell_end};

const WAITERS: u32 = 1 << 31;
const OWNER_DIED: u32 = 1 << 30;
const TID: u32 = OWNER_DIED - 1;

const LOCK_PI: i32 = 6;
const UNLOCK_PI: i32 = 7;
const TRYLOCK_PI: i32 = 8;
const WAIT_BITSET: i32 = 9;
const WAKE_BITSET: i32 = 10;
const WAIT_REQUEUE_PI: i32 = 11;
const CMP_REQUEUE_PI: i32 = 12;
const LOCK_PI2: i32 = 13;
const REALTIME: i32 = 256;

const PAST: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 1,
};

/// Waits until a thread sleeps in futex(2).
fn await_call(thread: u32) {
    await_state(thread as i32, "S");
    let in_call = || {
        let text = std::fs::read_to_string(format!("/proc/{thread}/syscall"));
        text.is_ok_and(|text| text.starts_with(&format!("{} ", libc::SYS_futex)))
    };
    while !in_call() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: the words outlive the threads that wait for them, which are joined.
    unsafe {
        locks::locks();
        locks::handed_on();
        locks::owner_gone();
        locks::robust();
        locks::woken_and_dead();
        requeue::requeued();
        requeue::requeued_at_once();
        requeue::requeued_in_a_circle();
        requeue::requeued_to_itself();
        bits_and_clocks();
        futex2();
        by_two_opens();
        woken_again();
        woken_in_order();
        woken_on_the_way();
        woken_before_counted();
        several_under_load();
        locks::given_up_at_a_fault();
        moved::many();
        moved::and_woken();
        locks::not_overtaken();
        locks::two_gone();
        locks::mixed();
        words::in_mappings();
        words::met();
    }
}

/// A count of 0 or below wakes one thread, as Linux does.
unsafe fn woken_before_counted() {
    let word = AtomicU32::new(0);
    let woken = |count: i32| {
        // Repeats until the thread to be woken waits.
        (0..10_000).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            let woken = unsafe { futex(&word, libc::FUTEX_WAKE, count as u32, ptr::null()) };
            (woken != 0).then_some(woken)
        })
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| unsafe { futex(&word, libc::FUTEX_WAIT, 0, ptr::null()) });
        }
        for count in [0, -1, i32::MIN] {
            println!("woken for {count}: {:?}", woken(count));
        }
    });
}

/// A thread that is requeued meanwhile is woken at one of the two words.
unsafe fn woken_on_the_way() {
    const ROUNDS: u32 = 2000;
    let words = [const { AtomicU32::new(0) }; 2];
    let woken = AtomicU32::new(0);
    let waits = || unsafe {
        for round in 0..ROUNDS {
            while words[0].load(SeqCst) == round {
                futex(&words[0], libc::FUTEX_WAIT, round, ptr::null());
            }
            woken.store(round + 1, SeqCst);
        }
    };
    let moves = || unsafe {
        while woken.load(SeqCst) < ROUNDS {
            let most = ptr::without_provenance(1);
            futex6(&words[0], libc::FUTEX_REQUEUE, 0, most, &words[1], 0);
        }
    };
    let wake = |word| unsafe { futex(word, libc::FUTEX_WAKE, 1, ptr::null()) };
    thread::scope(|scope| {
        scope.spawn(waits);
        scope.spawn(moves);
        let mut lost = 0;
        for round in 0..ROUNDS {
            (0..round * 37 % 2000).for_each(|_| hint::spin_loop());
            words[0].store(round + 1, SeqCst);
            words.iter().for_each(|word| _ = wake(word));
            let begin = Instant::now();
            while woken.load(SeqCst) == round {
                thread::yield_now();
                if begin.elapsed() > Duration::from_secs(10) {
                    lost = 1;
                    break;
                }
            }
            if lost != 0 {
                break;
            }
        }
        words[0].store(u32::MAX, SeqCst);
        while woken.load(SeqCst) < ROUNDS {
            words.iter().for_each(|word| _ = wake(word));
            thread::yield_now();
        }
        println!("woken, lost {lost}");
    });
}

/// One call wakes a thread once, even if that waits again at once.
unsafe fn woken_again() {
    let (word, ended) = (AtomicU32::new(0), AtomicU32::new(0));
    let wait = || unsafe {
        while word.load(SeqCst) == 0 {
            futex(&word, libc::FUTEX_WAIT, 0, ptr::null());
        }
        ended.store(1, SeqCst);
    };
    let wake = || unsafe { futex(&word, libc::FUTEX_WAKE, i32::MAX as u32, ptr::null()) };
    thread::scope(|scope| {
        scope.spawn(wait);
        let (mut most, mut woken) = (0, 0);
        while woken < 5000 {
            let now = wake();
            (most, woken) = (now.max(most), woken + now);
            if now == 0 {
                thread::yield_now();
            }
        }
        word.store(1, SeqCst);
        while ended.load(SeqCst) == 0 {
            wake();
            thread::yield_now();
        }
        println!("woken at once: {most}");
    });
}

/// A file's word is the same futex in two processes with separate opens.
unsafe fn by_two_opens() {
    let map = || unsafe {
        let file = libc::open(c"word".as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o644);
        libc::ftruncate(file, 4096);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(ptr::null_mut(), 4096, rights, libc::MAP_SHARED, file, 0);
        libc::close(file);
        &*at.cast::<AtomicU32>()
    };
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let long = libc::timespec {
                tv_sec: 60,
                tv_nsec: 0,
            };
            tell("waited", futex(map(), libc::FUTEX_WAIT, 0, &long));
            libc::_exit(0);
        }
        let word = map();
        let mut woken = 0;
        // The child may not wait yet, but does not wait for ever.
        while woken == 0 && libc::waitpid(child, ptr::null_mut(), libc::WNOHANG) == 0 {
            woken = futex(word, libc::FUTEX_WAKE, 1, ptr::null());
            libc::sched_yield();
        }
        libc::waitpid(child, ptr::null_mut(), 0);
        println!("woken {woken}");
    }
}

unsafe fn futex(
    word: &AtomicU32,
    operation: i32,
    value: u32,
    timeout: *const libc::timespec,
) -> i64 {
    unsafe { futex6(word, operation, value, timeout, ptr::null(), 0) }
}

unsafe fn futex6(
    word: &AtomicU32,
    operation: i32,
    value: u32,
    timeout: *const libc::timespec,
    second: *const AtomicU32,
    third: u32,
) -> i64 {
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            value,
            timeout,
            second,
            third,
        )
    }
}

/// The text for a lock's word.
fn held(word: &AtomicU32) -> String {
    let word = word.load(SeqCst);
    let owner = match word & TID {
        0 => "nobody".to_string(),
        // SAFETY: a call without arguments.
        tid if tid as i32 == unsafe { libc::gettid() } => "this thread".to_string(),
        _ => "another".to_string(),
    };
    format!(
        "{owner}{}",
        if word & OWNER_DIED != 0 { ", died" } else { "" }
    )
}

/// Waits until the word has FUTEX_WAITERS.
fn until_waited_for(word: &AtomicU32) {
    while word.load(SeqCst) & WAITERS == 0 {
        thread::yield_now();
    }
}

unsafe fn bits_and_clocks() {
    unsafe {
        let word = AtomicU32::new(7);
        let wait = |clock, value, bits, timeout| {
            futex6(
                &word,
                WAIT_BITSET | clock,
                value,
                timeout,
                ptr::null(),
                bits,
            )
        };
        tell("no bits", wait(0, 7, 0, &PAST));
        tell("monotonic", wait(0, 7, 1, &PAST));
        tell("realtime", wait(REALTIME, 7, 1, &PAST));
        tell("another value", wait(0, 8, 1, &PAST));
        let negative = libc::timespec {
            tv_sec: 0,
            tv_nsec: -1,
        };
        tell("no time", wait(0, 7, 1, &negative));
        tell(
            "wake no bits",
            futex6(&word, WAKE_BITSET, 1, ptr::null(), ptr::null(), 0),
        );
        tell("an odd operation", futex(&word, 99, 0, ptr::null()));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(0, 7, 2, ptr::null()));
            let wake = |bits| futex6(&word, WAKE_BITSET, 9, ptr::null(), ptr::null(), bits);
            tell("other bits", wake(5));
            while wake(2) == 0 {
                thread::yield_now();
            }
            tell("woken", waiter.join().unwrap());
        });
    }
}

unsafe fn futex2() {
    unsafe {
        const SIZE_32: u32 = 2;
        let word = AtomicU32::new(7);
        let at = word.as_ptr();
        let monotonic = libc::CLOCK_MONOTONIC;
        let wait = |value: usize, mask: usize, flags: u32, clock: i32| {
            libc::syscall(455, at, value, mask, flags, &PAST, clock)
        };
        tell("wait", wait(7, 1, SIZE_32, monotonic));
        tell("wait, another value", wait(8, 1, SIZE_32, monotonic));
        tell("wait, no bits", wait(7, 0, SIZE_32, monotonic));
        tell("wait, a byte", wait(7, 1, 0, monotonic));
        tell(
            "wait, another clock",
            wait(7, 1, SIZE_32, libc::CLOCK_BOOTTIME),
        );
        tell("wake", libc::syscall(454, at, 1usize, 1, SIZE_32));
        tell("wake, odd flags", libc::syscall(454, at, 1usize, 1, 64));
        let to = AtomicU32::new(0);
        let entry = |word: &AtomicU32, value: u64| [value, word.as_ptr() as u64, SIZE_32 as u64];
        let mut pair = [entry(&word, 7), entry(&to, 0)];
        tell("requeue", libc::syscall(456, &pair, 0, 1, 1));
        pair[0][0] = 8;
        tell("requeue, another value", libc::syscall(456, &pair, 0, 1, 1));
        tell("requeue, odd flags", libc::syscall(456, &pair, 1, 1, 1));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let words = [entry(&to, 0), entry(&word, 7)];
                let none = ptr::null::<libc::timespec>();
                libc::syscall(libc::SYS_futex_waitv, &words, 2, 0, none, monotonic)
            });
            while libc::syscall(454, at, 1usize, 1, SIZE_32) == 0 {
                thread::yield_now();
            }
            tell("which of two", waiter.join().unwrap());
        });
        tell_end(
            "a wait that a signal ends",
            in_child(|| {
                // The alarm ends the process, whether or not the wait has begun.
                libc::alarm(1);
                libc::syscall(
                    455,
                    at,
                    7usize,
                    1usize,
                    SIZE_32,
                    ptr::null::<u8>(),
                    monotonic,
                );
            }),
        );
    }
}

/// The thread that has waited longest is woken first, however many wait. Each is requeued from
/// another word, so that it is known to wait before the next comes.
unsafe fn woken_in_order() {
    const THREADS: usize = 64;
    let (word, door, woken) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let in_order = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (door, woken, in_order) = (&door, &woken, &in_order);
            scope.spawn(move || {
                // SAFETY: the words outlive the wait.
                unsafe { futex(door, libc::FUTEX_WAIT, 0, ptr::null()) };
                if woken.fetch_add(1, SeqCst) as usize == number {
                    in_order.fetch_add(1, SeqCst);
                }
            });
            let one = ptr::without_provenance(1);
            // SAFETY: as above.
            while unsafe { futex6(door, libc::FUTEX_REQUEUE, 0, one, &word, 0) } != 1 {
                thread::yield_now();
            }
        }
        let mut most = 0;
        for number in 0..THREADS {
            // SAFETY: as above.
            most = most.max(unsafe { futex(&word, libc::FUTEX_WAKE, 1, ptr::null()) });
            while woken.load(SeqCst) as usize <= number {
                thread::yield_now();
            }
        }
        println!("woken by one call: {most}");
    });
    println!("in the order of their coming {}", in_order.load(SeqCst));
}

/// An entry of futex_waitv (`struct futex_waitv`).
#[repr(C)]
struct Waitv {
    value: u64,
    address: usize,
    flags: u32,
    reserved: u32,
}

/// Waits until one of `words` is not 0, with a timeout in nanoseconds; returns the index of the one
/// that was woken.
unsafe fn wait_for_any(words: &[AtomicU32], nanoseconds: i64) -> Option<usize> {
    const PRIVATE_U32: u32 = 2 | 128;
    let waits = words.iter().map(|word| Waitv {
        value: 0,
        address: word.as_ptr().addr(),
        flags: PRIVATE_U32,
        reserved: 0,
    });
    let waits: Vec<_> = waits.collect();
    let clock = libc::CLOCK_MONOTONIC;
    let mut until = PAST;
    // SAFETY: words and time outlive the calls.
    let result = unsafe {
        libc::clock_gettime(clock, &mut until);
        let all = until.tv_nsec + nanoseconds;
        until.tv_sec += all / 1_000_000_000;
        until.tv_nsec = all % 1_000_000_000;
        let (first, count) = (waits.as_ptr(), waits.len());
        libc::syscall(libc::SYS_futex_waitv, first, count, 0, &until, clock)
    };
    usize::try_from(result).ok()
}

/// Threads wait for several words, some with a short timeout, while others wake one waiter at a
/// time: no wake-up is lost, even if it coincides with a timeout.
unsafe fn several_under_load() {
    const WORDS: usize = 8;
    const TOKENS: usize = 2000;
    const PRIVATE: i32 = 128;
    // The last word stays 0 until all is over.
    let words = [const { AtomicU32::new(0) }; WORDS + 1];
    let [taken, lost] = [const { AtomicUsize::new(0) }; 2];
    let wake = |word: &AtomicU32, most: u32| {
        // SAFETY: the word outlives the call.
        unsafe { futex(word, libc::FUTEX_WAKE | PRIVATE, most, ptr::null()) };
    };
    let take = |word: &AtomicU32| {
        let less = word.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
        let before = taken.fetch_add(usize::from(less.is_ok()), SeqCst);
        if less.is_ok() && before + 1 == 2 * TOKENS {
            words[WORDS].store(1, SeqCst);
            wake(&words[WORDS], i32::MAX as u32);
        }
    };
    let is_over = || words[WORDS].load(SeqCst) != 0;
    thread::scope(|scope| {
        for _ in 0..4 {
            // Takes the tokens that are there, and waits for long.
            scope.spawn(|| {
                while !is_over() {
                    words[..WORDS].iter().for_each(take);
                    // SAFETY: the words outlive the call.
                    let woken = unsafe { wait_for_any(&words, 20_000_000_000) };
                    let is_late = woken.is_none() && crate::error() == "ETIMEDOUT";
                    lost.fetch_add(usize::from(is_late), SeqCst);
                }
            });
            // Takes nothing, waits briefly, and passes on each wake-up.
            scope.spawn(|| {
                while !is_over() {
                    // SAFETY: as above.
                    let woken = unsafe { wait_for_any(&words, 50_000) };
                    woken.iter().for_each(|&word| wake(&words[word], 1));
                }
            });
        }
        for start in 0..2 {
            let (words, wake) = (&words, &wake);
            scope.spawn(move || {
                for token in 0..TOKENS {
                    let word = &words[(token * 5 + start) % WORDS];
                    word.fetch_add(1, SeqCst);
                    wake(word, 1);
                }
            });
        }
    });
    println!("taken {} lost {}", taken.load(SeqCst), lost.load(SeqCst));
}
