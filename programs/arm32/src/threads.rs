//! Threads: thread-local storage, locks, and concurrent changes of words.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Condvar, Mutex};

thread_local! {
    static OWN: Cell<u32> = const { Cell::new(0) };
}

const THREADS: u32 = 4;
const ROUNDS: u32 = 2000;

/// Runs this part.
pub fn run() {
    let shared = Arc::new((
        AtomicU32::new(0),
        Mutex::new(0u64),
        Barrier::new(THREADS as usize),
    ));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let (word, sum, barrier) = &*shared;
                barrier.wait();
                for _ in 0..ROUNDS {
                    word.fetch_add(1, Relaxed);
                    *sum.lock().unwrap() += u64::from(number);
                    OWN.set(OWN.get() + number);
                }
                OWN.get()
            })
        })
        .collect();
    let own: Vec<u32> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    println!("own {own:?}");
    println!(
        "word {} sum {}",
        shared.0.load(Relaxed),
        shared.1.lock().unwrap()
    );

    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let other = turn.clone();
    let thread = std::thread::spawn(move || take_turns(&other, 1));
    take_turns(&turn, 0);
    thread.join().unwrap();
    println!("turns {}", turn.0.lock().unwrap());
}

fn take_turns((turn, changed): &(Mutex<u32>, Condvar), own: u32) {
    for _ in 0..100 {
        let mut turn = changed
            .wait_while(turn.lock().unwrap(), |turn| *turn % 2 != own)
            .unwrap();
        *turn += 1;
        changed.notify_all();
    }
}
