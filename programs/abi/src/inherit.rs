//! PI futexes among threads of several priorities: the owner inherits the highest priority of the
//! waiters, and that waiter gets the lock next.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{mem, ptr};

use libc::{SCHED_FIFO, SCHED_OTHER, SCHED_RR};

use crate::doing::await_state;
use crate::{in_child, tell};

const LOCK_PI: i32 = 6;
const UNLOCK_PI: i32 = 7;

/// Runs this part.
pub fn run() {
    // SAFETY: the words outlive their waiters, which are joined.
    unsafe {
        by_priority();
        in_a_chain();
        given_up();
        circles();
        not_inverted();
        woken();
        mixed();
    }
}

unsafe fn schedule(thread: i32, policy: i32, priority: i32) -> i64 {
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &priority) }
}

unsafe fn futex(word: &AtomicU32, operation: i32, value: u32) -> i64 {
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, 0usize) }
}

unsafe fn lock(word: &AtomicU32) -> i64 {
    unsafe { futex(word, LOCK_PI, 0) }
}

unsafe fn unlock(word: &AtomicU32) -> i64 {
    unsafe { futex(word, UNLOCK_PI, 0) }
}

/// A field of the thread's `stat`, numbered as in proc(5).
fn field(thread: i32, number: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    let (_, rest) = stat.rsplit_once(") ").unwrap_or_default();
    rest.split(' ')
        .nth(number - 3)
        .unwrap_or_default()
        .to_string()
}

/// The priority at which the thread runs, from `stat`.
fn priority(thread: i32) -> String {
    field(thread, 18)
}

fn own() -> i32 {
    // SAFETY: the call takes no argument.
    unsafe { libc::gettid() }
}

static ORDER: Mutex<String> = Mutex::new(String::new());

fn note(name: char) {
    ORDER.lock().unwrap().push(name);
}

fn noted() -> String {
    mem::take(&mut *ORDER.lock().unwrap())
}

/// A thread that waits.
struct Waiter<'a> {
    thread: i32,
    join: ScopedJoinHandle<'a, ()>,
}

/// Starts a thread that runs `before`, sets its policy and priority, and then blocks in `wait`.
unsafe fn waiter<'a, 'b: 'a>(
    scope: &'a Scope<'a, 'b>,
    (policy, priority): (i32, i32),
    before: impl FnOnce() + Send + 'a,
    wait: impl FnOnce() + Send + 'a,
) -> Waiter<'a> {
    let number: &'static AtomicI32 = Box::leak(Box::new(AtomicI32::new(0)));
    let join = scope.spawn(move || {
        before();
        if unsafe { schedule(0, policy, priority) } != 0 {
            println!("not scheduled");
        }
        number.store(own(), SeqCst);
        wait();
    });
    while number.load(SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let thread = number.load(SeqCst);
    await_state(thread, "S");
    Waiter { thread, join }
}

/// Starts a thread that waits for the lock, notes its name when it has it, and releases it.
unsafe fn locker<'a, 'b: 'a>(
    scope: &'a Scope<'a, 'b>,
    name: char,
    scheduled: (i32, i32),
    word: &'a AtomicU32,
) -> Waiter<'a> {
    let wait = move || unsafe {
        lock(word);
        note(name);
        unlock(word);
    };
    unsafe { waiter(scope, scheduled, || {}, wait) }
}

unsafe fn by_priority() {
    unsafe {
        let word = &AtomicU32::new(0);
        lock(word);
        println!("alone: {}", priority(own()));
        thread::scope(|scope| {
            locker(scope, 'a', (SCHED_OTHER, 0), word);
            println!("an ordinary one waits: {}", priority(own()));
            locker(scope, 'b', (SCHED_FIFO, 10), word);
            println!("one of 10: {}", priority(own()));
            let moved = locker(scope, 'c', (SCHED_RR, 30), word);
            println!("one of 30: {}", priority(own()));
            locker(scope, 'd', (SCHED_FIFO, 10), word);
            println!("another of 10: {}", priority(own()));
            println!(
                "its policy: {}",
                libc::syscall(libc::SYS_sched_getscheduler, 0)
            );
            in_child(|| println!("its child: {}", priority(own())));
            schedule(moved.thread, SCHED_RR, 5);
            println!("30 is 5: {}", priority(own()));
            schedule(0, SCHED_FIFO, 7);
            println!("it is of 7: {}", priority(own()));
            schedule(0, SCHED_FIFO, 12);
            println!("it is of 12: {}", priority(own()));
            schedule(moved.thread, SCHED_RR, 40);
            println!("5 is 40: {}", priority(own()));
            schedule(0, SCHED_OTHER, 0);
            println!("it is ordinary: {}", priority(own()));
            tell("unlock", unlock(word));
            println!("unlocked: {}", priority(own()));
        });
        println!("in the order {}", noted());
    }
}

/// The owner of a lock waits for another lock.
unsafe fn in_a_chain() {
    unsafe {
        let [first, second, third] = &[const { AtomicU32::new(0) }; 3];
        lock(first);
        thread::scope(|scope| {
            let pass = move |own: &AtomicU32, other: &AtomicU32, name| {
                lock(other);
                note(name);
                unlock(other);
                unlock(own);
            };
            let middle = waiter(
                scope,
                (SCHED_OTHER, 0),
                || _ = lock(second),
                move || pass(second, first, 'm'),
            );
            let last = waiter(
                scope,
                (SCHED_FIFO, 3),
                || _ = lock(third),
                move || pass(third, second, 'l'),
            );
            let shown = || [own(), middle.thread, last.thread].map(priority).join(" ");
            println!("a chain: {}", shown());
            let high = locker(scope, 'h', (SCHED_FIFO, 25), third);
            println!("25 at its end: {}", shown());
            schedule(high.thread, SCHED_FIFO, 2);
            println!("now 2: {}", shown());
            schedule(high.thread, SCHED_OTHER, 0);
            schedule(last.thread, SCHED_OTHER, 0);
            println!("ordinary: {}", shown());
            schedule(high.thread, SCHED_FIFO, 8);
            println!("now 8: {}", shown());
            tell("unlock", unlock(first));
            println!("unlocked: {}", priority(own()));
        });
        println!("in the order {}", noted());
    }
}

/// Waits until the thread has that priority; returns false after a minute.
fn becomes(thread: i32, wanted: &str) -> bool {
    (0..60_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        priority(thread) == wanted
    })
}

/// A waiter's timeout expires.
unsafe fn given_up() {
    unsafe {
        let word = &AtomicU32::new(0);
        lock(word);
        thread::scope(|scope| {
            locker(scope, 'a', (SCHED_FIFO, 4), word);
            let in_time = || {
                let end =
                    SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(10);
                let end = libc::timespec {
                    tv_sec: end.as_secs() as i64,
                    tv_nsec: end.subsec_nanos().into(),
                };
                let result = libc::syscall(libc::SYS_futex, word.as_ptr(), LOCK_PI, 0, &end);
                tell("in time", result);
            };
            let waiter = scope.spawn(move || {
                schedule(0, SCHED_FIFO, 15);
                in_time();
            });
            println!("inherited: {}", becomes(own(), "-16"));
            let no_longer = becomes(own(), "-5");
            waiter.join().expect("it says what came of it");
            println!("no longer: {no_longer}");
            tell("unlock", unlock(word));
        });
        println!("{} {}", noted(), priority(own()));
    }
}

/// Threads that would deadlock.
unsafe fn circles() {
    unsafe {
        let words = &[const { AtomicU32::new(0) }; 3];
        for others in 1..words.len() {
            lock(&words[0]);
            thread::scope(|scope| {
                for at in 1..=others {
                    let wait = move || {
                        lock(&words[at - 1]);
                        note('x');
                        unlock(&words[at - 1]);
                        unlock(&words[at]);
                    };
                    waiter(scope, (SCHED_OTHER, 0), move || _ = lock(&words[at]), wait);
                }
                tell("a circle", lock(&words[others]));
                tell("unlock", unlock(&words[0]));
            });
            println!("{}", noted());
        }
    }
}

/// A thread of middle priority does not delay one of high priority at a lock.
unsafe fn not_inverted() {
    static DONE: AtomicBool = AtomicBool::new(false);
    unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[1u64]);
        let word = &AtomicU32::new(0);
        let mut gate = [0; 2];
        libc::pipe(gate.as_mut_ptr());
        lock(word);
        thread::scope(|scope| {
            let high = waiter(
                scope,
                (SCHED_FIFO, 50),
                || {},
                || {
                    lock(word);
                    note('h');
                    DONE.store(true, SeqCst);
                    unlock(word);
                },
            );
            let middle = waiter(
                scope,
                (SCHED_FIFO, 20),
                || {},
                move || {
                    let mut byte = 0u8;
                    libc::read(gate[0], (&raw mut byte).cast(), 1);
                    note('m');
                    while !DONE.load(SeqCst) {
                        std::hint::spin_loop()
                    }
                },
            );
            libc::write(gate[1], c"x".as_ptr().cast(), 1);
            note('l');
            unlock(word);
            _ = (high.join.join(), middle.join.join());
        });
        println!("in the order {}", noted());
        libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[u64::MAX]);
    }
}

/// Plain waiters.
unsafe fn woken() {
    unsafe {
        let word = &AtomicU32::new(0);
        thread::scope(|scope| {
            let mut waiters = Vec::new();
            for (name, scheduled) in [
                ('a', (SCHED_OTHER, 0)),
                ('b', (SCHED_FIFO, 5)),
                ('c', (SCHED_RR, 9)),
                ('d', (SCHED_OTHER, 0)),
                ('e', (SCHED_FIFO, 5)),
            ] {
                let wait = move || {
                    libc::syscall(
                        libc::SYS_futex,
                        word.as_ptr(),
                        libc::FUTEX_WAIT,
                        0,
                        ptr::null::<libc::timespec>(),
                    );
                    note(name);
                };
                waiters.push(waiter(scope, scheduled, || {}, wait).join);
            }
            while !waiters.is_empty() {
                futex(word, libc::FUTEX_WAKE, 1);
                let ended = loop {
                    if let Some(at) = waiters.iter().position(|waiter| waiter.is_finished()) {
                        break at;
                    }
                    thread::sleep(Duration::from_millis(1));
                };
                _ = waiters.remove(ended).join();
            }
        });
        println!("woken in the order {}", noted());
    }
}

/// Threads that take locks in any order and change each other's priority: none waits for ever, and
/// no inherited priority remains.
unsafe fn mixed() {
    static NUMBERS: [AtomicI32; 6] = [const { AtomicI32::new(0) }; 6];
    unsafe {
        let words = &[const { AtomicU32::new(0) }; 4];
        let work = |at: usize| {
            NUMBERS[at].store(own(), SeqCst);
            let mut random = at as u64;
            let mut next = move |below: usize| {
                random = random
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (random >> 40) as usize % below
            };
            for _ in 0..200 {
                let mut held = Vec::new();
                for _ in 0..3 {
                    let word = &words[next(words.len())];
                    if lock(word) == 0 {
                        held.push(word);
                    }
                    let policy = [SCHED_FIFO, SCHED_RR, SCHED_OTHER][next(3)];
                    let priority = if policy == SCHED_OTHER {
                        0
                    } else {
                        1 + next(5)
                    };
                    let whom = NUMBERS[next(NUMBERS.len())].load(SeqCst);
                    schedule(whom, policy, priority as i32);
                }
                while !held.is_empty() {
                    if unlock(held.swap_remove(next(held.len()))) != 0 {
                        println!("not its own");
                    }
                }
            }
            NUMBERS[at].store(0, SeqCst);
            // Waits until no thread changes others any more.
            while NUMBERS.iter().any(|number| number.load(SeqCst) != 0) {
                thread::sleep(Duration::from_millis(1));
            }
            schedule(0, SCHED_OTHER, 0);
            priority(own()) == "20"
        };
        thread::scope(|scope| {
            let threads = [0, 1, 2, 3, 4, 5].map(|at| scope.spawn(move || work(at)));
            let ended = threads.map(|thread| thread.join().unwrap_or(false));
            println!("mixed: {ended:?}");
        });
        println!(
            "{:?}",
            words.each_ref().map(|word| word.load(SeqCst) & !(1 << 31))
        );
    }
}
