//! Threads that read an ID register at once, each on its own CPU, which shows the cost of a lock on
//! that path.

use crate::arch;
use crate::arguments::Arguments;
use crate::meter::Outcome;
use crate::output;
use crate::sys;
use crate::thread::Place;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The maximum number of threads.
pub const MOST: usize = 64;

/// The number of reads between two reads of the clock.
const STRETCH: usize = 16;

/// The options.
pub struct Contest {
    /// The number of threads, up to [`MOST`].
    pub threads: usize,
    /// The maximum number of reads of each thread.
    pub times: usize,
    /// The maximum duration in milliseconds.
    pub limit_ms: u64,
}

/// The threads' shared state.
struct Crowd<'a> {
    contest: &'a Contest,
    reads: fn(usize),
    /// The counter's frequency in Hz.
    frequency: u64,
    /// Set when all threads may start.
    go: AtomicU32,
    /// The number of threads that have taken a number, which is the number of their CPU.
    numbers: AtomicU32,
    /// The number of reads by all threads together.
    done: AtomicUsize,
}

extern "C" fn read(crowd: usize) {
    // SAFETY: the crowd outlives the thread, which is joined.
    let crowd = unsafe { &*(crowd as *const Crowd) };
    let number = crowd.numbers.fetch_add(1, Ordering::Relaxed);
    // If there are fewer CPUs, the kernel chooses one.
    let _ = sys::pin(number as usize);
    while crowd.go.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&crowd.go, 0, sys::FUTEX_PRIVATE);
    }
    let end = arch::counter() + crowd.contest.limit_ms * crowd.frequency / 1000;
    let mut done = 0;
    while done < crowd.contest.times && arch::counter() < end {
        let stretch = STRETCH.min(crowd.contest.times - done);
        (crowd.reads)(stretch);
        done += stretch;
    }
    crowd.done.fetch_add(done, Ordering::Relaxed);
}

/// Runs the threads and prints a line:
/// `# contend THREADS reads OF-ALL real NS user NS system NS`.
pub fn run(arguments: &Arguments, frequency: u64, contest: &Contest) -> Result<(), Outcome> {
    let reads = arch::id_reads(arguments.hwcap).ok_or(Outcome::Absent)?;
    let count = contest.threads.min(MOST);
    let crowd = Crowd {
        contest,
        reads,
        frequency,
        go: AtomicU32::new(0),
        numbers: AtomicU32::new(0),
        done: AtomicUsize::new(0),
    };
    let mut places = [const { None }; MOST];
    for place in places.iter_mut().take(count) {
        place
            .insert(Place::new()?)
            .start(read, core::ptr::from_ref(&crowd) as usize)?;
    }
    // Lets all threads reach their CPUs and wait.
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
        "# contend {count} reads {} real {real} user {} system {}",
        crowd.done.load(Ordering::Relaxed),
        user_end - user,
        system_end - system
    ));
    Ok(())
}
