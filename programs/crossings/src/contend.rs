//! Threads that read an ID register at once, each on its own CPU: what a lock in the way costs.

use crate::arch;
use crate::arguments::Arguments;
use crate::meter::Outcome;
use crate::output;
use crate::sys;
use crate::thread::Place;
use core::sync::atomic::{AtomicU32, Ordering};

/// The most threads.
pub const MOST: usize = 64;

/// What the threads share.
struct Crowd {
    reads: fn(usize),
    /// How often each thread reads.
    times: usize,
    /// Set when all may start.
    go: AtomicU32,
    /// How many threads took a number, which is their CPU's.
    numbers: AtomicU32,
}

extern "C" fn read(crowd: usize) {
    // SAFETY: the crowd outlives the thread, which is joined.
    let crowd = unsafe { &*(crowd as *const Crowd) };
    let number = crowd.numbers.fetch_add(1, Ordering::Relaxed);
    // Where there are fewer CPUs the kernel chooses.
    let _ = sys::pin(number as usize);
    while crowd.go.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&crowd.go, 0, sys::FUTEX_PRIVATE);
    }
    (crowd.reads)(crowd.times);
}

/// Runs 1, 2, 4 … threads up to `most`, each reading `times` times, and prints a line for each number:
/// `# contend THREADS reads TIMES real NS user NS system NS`.
pub fn run(
    arguments: &Arguments,
    frequency: u64,
    most: usize,
    times: usize,
) -> Result<(), Outcome> {
    let reads = arch::id_reads(arguments.hwcap).ok_or(Outcome::Absent)?;
    let mut count = 1;
    while count <= most.min(MOST) {
        let crowd = Crowd {
            reads,
            times,
            go: AtomicU32::new(0),
            numbers: AtomicU32::new(0),
        };
        let mut places = [const { None }; MOST];
        for place in places.iter_mut().take(count) {
            place
                .insert(Place::new()?)
                .start(read, core::ptr::from_ref(&crowd) as usize)?;
        }
        // The threads are on their CPUs and wait.
        sys::sleep_ms(100);
        let (user, system) = sys::times();
        let start = arch::counter();
        crowd.go.store(1, Ordering::Release);
        sys::futex_wake(&crowd.go, MOST);
        places.iter().flatten().for_each(Place::join);
        let ticks = arch::counter() - start;
        let (user_end, system_end) = sys::times();
        let real = u128::from(ticks) * 1_000_000_000 / u128::from(frequency);
        output::line(format_args!(
            "# contend {count} reads {times} real {real} user {} system {}",
            user_end - user,
            system_end - system
        ));
        count *= 2;
    }
    Ok(())
}
