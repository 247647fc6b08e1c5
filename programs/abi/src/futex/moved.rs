//! Waiters on many words that are requeued, many at once, and woken through another word.

use super::*;

/// The maximum number of words for futex_waitv.
const MOST: usize = 128;

const PRIVATE: i32 = 128;

/// Wakes a thread that waits for the word; returns the number of woken threads.
fn wake(word: &AtomicU32) -> usize {
    // SAFETY: the words outlive their waiters.
    unsafe { futex(word, libc::FUTEX_WAKE | PRIVATE, 1, ptr::null()) as usize }
}

fn wake_or_move(from: &AtomicU32, moves: usize, to: &AtomicU32) -> i64 {
    let moves = ptr::without_provenance(moves);
    // SAFETY: as above.
    unsafe { futex6(from, libc::FUTEX_REQUEUE | PRIVATE, 0, moves, to, 0) }
}

/// Waits for `word` in all entries but one, and for `last`; returns the index of the woken entry.
fn wait_for(word: &AtomicU32, last: &AtomicU32) -> i64 {
    const PRIVATE_U32: u32 = 2 | 128;
    let waits: Vec<Waitv> = (0..MOST)
        .map(|at| Waitv {
            value: 0,
            address: ptr::from_ref(if at + 1 < MOST { word } else { last }).addr(),
            flags: PRIVATE_U32,
            reserved: 0,
        })
        .collect();
    let none = ptr::null::<libc::timespec>();
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_futex_waitv, waits.as_ptr(), MOST, 0, none, 0) }
}

/// A call requeues as many waiters as it was asked to, even more than it moves without a pause.
pub fn many() {
    const THREADS: usize = 5;
    const ALL: usize = THREADS * (MOST - 1);
    let [word, second, last] = [const { AtomicU32::new(0) }; 3];
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| wait_for(&word, &last)))
            .collect();
        let mut count = 0;
        while count < ALL {
            count = wake_or_move(&word, ALL, &word) as usize;
            thread::yield_now();
        }
        let moved = [300, 0, ALL, ALL].map(|moves| wake_or_move(&word, moves, &second));
        println!("moved of {count}: {moved:?}");
        println!("moved back: {}", wake_or_move(&second, 400, &word));
        let mut woken = 0;
        while woken < THREADS {
            woken += wake(&last);
            thread::yield_now();
        }
        let by = waiters.into_iter().map(|waiter| waiter.join().unwrap());
        println!("woken by the last: {}", by.filter(|by| *by == 127).count());
    });
}

/// A thread that was requeued and then woken through another word waits nowhere any more, and
/// leaves nothing behind.
pub fn and_woken() {
    const ROUNDS: usize = 500;
    let [word, second, last] = [const { AtomicU32::new(0) }; 3];
    let before = free();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                wait_for(&word, &last);
            }
        });
        for _ in 0..ROUNDS {
            let mut moved = 0;
            while moved < MOST - 1 {
                moved += wake_or_move(&word, MOST, &second) as usize;
                thread::yield_now();
            }
            while wake(&last) == 0 {
                thread::yield_now();
            }
        }
    });
    println!(
        "left behind: {}",
        wake_or_move(&second, usize::MAX >> 33, &word)
    );
    let kept = before.saturating_sub(free()) > 6000;
    println!("memory was kept: {kept}");
}

/// Free memory, in KiB.
fn free() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemFree:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}
