//! Eight threads work together. The output does not depend on their order.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock, mpsc};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 8;
const ROUNDS: u64 = 1000;

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
}

fn main() {
    println!("atomic {}", atomic());
    println!("mutex {}", mutex());
    println!("read-write lock {}", read_write());
    println!("channel {}", channel());
    println!("barrier {}", barrier());
    println!("turns {}", turns());
    println!("thread-locals {}", thread_locals());
    println!("memory {}", memory());
    println!(
        "panic caught {}",
        thread::spawn(|| std::panic::panic_any(1)).join().is_err()
    );
    println!("slept {}", sleepers());
}

/// Runs `work` in eight threads; returns the sum of their results.
fn sum(work: impl Fn(u64) -> u64 + Sync) -> u64 {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|index| scope.spawn(move || work(index)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    })
}

fn atomic() -> u64 {
    let total = AtomicU64::new(0);
    sum(|_| {
        for _ in 0..ROUNDS {
            total.fetch_add(1, Ordering::Relaxed);
        }
        0
    });
    total.into_inner()
}

fn mutex() -> u64 {
    let total = Mutex::new(0);
    sum(|index| {
        for _ in 0..ROUNDS {
            *total.lock().unwrap() += index;
        }
        0
    });
    total.into_inner().unwrap()
}

fn read_write() -> u64 {
    let value = RwLock::new(0);
    let reads = sum(|index| {
        (0..ROUNDS)
            .filter(|round| {
                if round % THREADS == index {
                    *value.write().unwrap() += 1;
                }
                *value.read().unwrap() <= ROUNDS
            })
            .count() as u64
    });
    reads + *value.read().unwrap()
}

fn channel() -> u64 {
    let (sender, receiver) = mpsc::sync_channel(3);
    let senders: Vec<_> = (0..THREADS)
        .map(|index| {
            let sender = sender.clone();
            thread::spawn(move || (0..ROUNDS).for_each(|round| sender.send(index * round).unwrap()))
        })
        .collect();
    drop(sender);
    let total = receiver.iter().sum();
    senders
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    total
}

fn barrier() -> u64 {
    let barrier = Barrier::new(THREADS as usize);
    sum(|_| (0..100).filter(|_| barrier.wait().is_leader()).count() as u64)
}

/// The threads take turns, each woken by a condition variable.
fn turns() -> u64 {
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    sum(|index| {
        let (now, changed) = &*turn;
        for round in 0..50 {
            let mut now = changed
                .wait_while(now.lock().unwrap(), |now| *now != round * THREADS + index)
                .unwrap();
            *now += 1;
            changed.notify_all();
        }
        50
    })
}

fn thread_locals() -> u64 {
    sum(|index| {
        for _ in 0..ROUNDS {
            OWN.with(|own| own.set(own.get() + index));
            thread::yield_now();
        }
        OWN.with(Cell::get)
    })
}

/// Each thread maps, fills and frees memory of its own.
fn memory() -> u64 {
    sum(|index| {
        (1..20)
            .map(|size| {
                vec![index as u8; size * 100_000]
                    .iter()
                    .map(|&byte| u64::from(byte))
                    .sum::<u64>()
            })
            .sum()
    })
}

fn sleepers() -> u64 {
    sum(|index| {
        let time = Duration::from_millis(5 * index);
        let start = std::time::Instant::now();
        thread::sleep(time);
        u64::from(start.elapsed() >= time)
    })
}
