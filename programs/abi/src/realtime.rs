//! Real-time policies: the order of threads on one CPU.
//!
//! The expected results hold on slow machines too, except that ordinary threads get their share
//! after a second: parts that these could disturb are tried again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::{mem, ptr};

use libc::{SCHED_FIFO, SCHED_IDLE, SCHED_OTHER, SCHED_RR};

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[1u64]);
        order();
        println!("first in, first out: {}", turns(SCHED_FIFO, false));
        println!("interrupted: {}", turns(SCHED_FIFO, true));
        println!("in turn: {}", turns(SCHED_RR, false));
        yields();
        wakes();
        moves();
        shares();
        tell_end("too long", in_child(|| too_long()));
        short();
        intervals();
        libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[u64::MAX]);
        mixed();
    }
}

/// The number of attempts.
const TRIES: usize = 10;

unsafe fn schedule(thread: i32, policy: i32, priority: i32) -> i64 {
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &priority) }
}

/// The CPU time of the thread in ms.
fn used() -> i64 {
    // SAFETY: the time outlives the call.
    unsafe {
        let mut time: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }
}

/// Uses the CPU for `ms`.
fn spin(ms: i64) {
    let end = used() + ms;
    while used() < end {}
}

unsafe fn sleep(ms: i64) {
    unsafe {
        let time = libc::timespec {
            tv_sec: ms / 1000,
            tv_nsec: ms % 1000 * 1_000_000,
        };
        libc::nanosleep(&time, ptr::null_mut());
    }
}

/// A thread that waits until it is let go, and then runs its work.
struct Waiting {
    thread: i32,
    gate: [i32; 2],
    join: JoinHandle<()>,
}

impl Waiting {
    unsafe fn new(work: impl FnOnce() + Send + 'static) -> Self {
        unsafe {
            let mut gate = [0; 2];
            libc::pipe(gate.as_mut_ptr());
            let number: &'static AtomicI32 = Box::leak(Box::new(AtomicI32::new(0)));
            let join = thread::spawn(move || {
                number.store(libc::gettid(), SeqCst);
                let mut byte = 0u8;
                libc::read(gate[0], (&raw mut byte).cast(), 1);
                work();
            });
            while number.load(SeqCst) == 0 {
                sleep(1);
            }
            // Waits until it sleeps there.
            let thread = number.load(SeqCst);
            let stat = format!("/proc/self/task/{thread}/stat");
            let asleep = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
            while !asleep() {
                sleep(1);
            }
            Waiting { thread, gate, join }
        }
    }

    unsafe fn with(self, policy: i32, priority: i32) -> Self {
        if unsafe { schedule(self.thread, policy, priority) } != 0 {
            println!("not scheduled");
        }
        self
    }

    unsafe fn go(&self) {
        unsafe { libc::write(self.gate[1], c"x".as_ptr().cast(), 1) };
    }

    unsafe fn end(self) {
        _ = self.join.join();
        unsafe {
            libc::close(self.gate[0]);
            libc::close(self.gate[1]);
        }
    }
}

static ORDER: Mutex<String> = Mutex::new(String::new());

fn note(name: char) {
    if let Ok(mut order) = ORDER.lock() {
        order.push(name);
    }
}

/// Runs `part` until it has the expected result, and prints the last result.
fn attempt(what: &str, expected: &str, mut part: impl FnMut()) {
    let mut seen = String::new();
    for _ in 0..TRIES {
        part();
        seen = ORDER
            .lock()
            .map(|mut order| mem::take(&mut *order))
            .unwrap_or_default();
        if seen == expected {
            break;
        }
    }
    println!("{what}: {seen}");
}

unsafe fn order() {
    unsafe {
        attempt("by priority", "BCAED", || {
            let threads = [
                ('A', SCHED_FIFO, 10),
                ('B', SCHED_FIFO, 20),
                ('C', SCHED_RR, 20),
                ('D', SCHED_OTHER, 0),
                ('E', SCHED_FIFO, 1),
            ];
            let threads = threads.map(|(name, policy, priority)| {
                Waiting::new(move || note(name)).with(policy, priority)
            });
            schedule(0, SCHED_FIFO, 50);
            threads.iter().for_each(|thread| thread.go());
            // The other threads have lower priorities, and wait.
            spin(30);
            if ORDER.lock().is_ok_and(|order| !order.is_empty()) {
                note('!');
            }
            threads.into_iter().for_each(|thread| thread.end());
            schedule(0, SCHED_OTHER, 0);
        });
    }
}

/// Whether the second of two threads of one priority starts before the first ends: SCHED_RR lets it
/// start after a time slice, SCHED_FIFO only afterwards. A third may interrupt the first.
unsafe fn turns(policy: i32, interrupt: bool) -> &'static str {
    static DONE: AtomicBool = AtomicBool::new(false);
    static BEFORE: AtomicBool = AtomicBool::new(false);
    unsafe {
        DONE.store(false, SeqCst);
        BEFORE.store(false, SeqCst);
        let first = Waiting::new(move || {
            let end = used() + if policy == SCHED_RR { 60_000 } else { 500 };
            while used() < end && !BEFORE.load(SeqCst) {
                std::hint::spin_loop()
            }
            DONE.store(true, SeqCst);
        });
        let second = Waiting::new(|| BEFORE.store(!DONE.load(SeqCst), SeqCst));
        let [first, second] = [first, second].map(|thread| thread.with(policy, 10));
        schedule(0, SCHED_FIFO, 20);
        first.go();
        second.go();
        if interrupt {
            (0..10).for_each(|_| sleep(10));
        }
        first.end();
        second.end();
        schedule(0, SCHED_OTHER, 0);
        match BEFORE.load(SeqCst) {
            true => "the second meanwhile",
            false => "one after the other",
        }
    }
}

unsafe fn yields() {
    unsafe {
        attempt("yielded to an equal only", "AaE", || {
            let equal = Waiting::new(|| note('E')).with(SCHED_FIFO, 10);
            let lower = Waiting::new(|| note('L')).with(SCHED_FIFO, 9);
            let ordinary = Waiting::new(|| note('O'));
            schedule(0, SCHED_FIFO, 10);
            lower.go();
            ordinary.go();
            note('A');
            libc::sched_yield();
            note('a');
            equal.go();
            libc::sched_yield();
            let seen = ORDER.lock().map(|order| order.clone());
            schedule(0, SCHED_OTHER, 0);
            [equal, lower, ordinary]
                .into_iter()
                .for_each(|thread| thread.end());
            if let (Ok(mut order), Ok(seen)) = (ORDER.lock(), seen) {
                *order = seen;
            }
        });
    }
}

/// A woken thread of higher priority runs at once.
unsafe fn wakes() {
    static RAN: AtomicU32 = AtomicU32::new(0);
    unsafe {
        for (what, policy, priority) in [("ordinary", SCHED_OTHER, 0), ("lower", SCHED_RR, 5)] {
            RAN.store(0, SeqCst);
            let mut at_once = 0;
            for turn in 0..20 {
                let woken = Waiting::new(move || RAN.store(turn + 1, SeqCst)).with(SCHED_FIFO, 6);
                schedule(0, policy, priority);
                woken.go();
                at_once += u32::from(RAN.load(SeqCst) == turn + 1);
                schedule(0, SCHED_OTHER, 0);
                woken.end();
            }
            println!("woken by a thread that is {what}: {at_once}");
        }
    }
}

/// Changes the priorities of threads that are ready, and of the running one.
unsafe fn moves() {
    unsafe {
        attempt("raised", "AB", || {
            let raised = Waiting::new(|| note('A')).with(SCHED_FIFO, 5);
            let woken = raised.thread;
            schedule(0, SCHED_FIFO, 10);
            raised.go();
            schedule(woken, SCHED_RR, 11);
            note('B');
            schedule(0, SCHED_OTHER, 0);
            raised.end();
        });
        attempt("lowered", "AB", || {
            let waiting = Waiting::new(|| note('A')).with(SCHED_FIFO, 5);
            schedule(0, SCHED_FIFO, 10);
            waiting.go();
            schedule(0, SCHED_FIFO, 4);
            note('B');
            schedule(0, SCHED_OTHER, 0);
            waiting.end();
        });
        attempt("lowered to the same", "BA", || {
            let waiting = Waiting::new(|| note('A')).with(SCHED_FIFO, 5);
            schedule(0, SCHED_FIFO, 10);
            waiting.go();
            schedule(0, SCHED_FIFO, 5);
            spin(20);
            note('B');
            schedule(0, SCHED_OTHER, 0);
            waiting.end();
        });
        attempt("sent away", "AB", || {
            let sent = Waiting::new(|| note('A')).with(SCHED_FIFO, 5);
            schedule(0, SCHED_FIFO, 10);
            sent.go();
            if libc::syscall(libc::SYS_sched_setaffinity, sent.thread, 8, &[2u64]) != 0 {
                // There is no other CPU.
                schedule(0, SCHED_OTHER, 0);
            }
            while ORDER.lock().is_ok_and(|order| order.is_empty()) {}
            note('B');
            schedule(0, SCHED_OTHER, 0);
            sent.end();
        });
        attempt("no longer", "AB", || {
            let waiting = Waiting::new(|| note('A')).with(SCHED_FIFO, 5);
            schedule(0, SCHED_FIFO, 10);
            waiting.go();
            schedule(0, SCHED_OTHER, 0);
            note('B');
            waiting.end();
        });
    }
}

/// Ordinary and idle threads run eventually.
unsafe fn shares() {
    static RAN: AtomicBool = AtomicBool::new(false);
    unsafe {
        for (what, policy) in [("ordinary", SCHED_OTHER), ("idle", SCHED_IDLE)] {
            RAN.store(false, SeqCst);
            let other = Waiting::new(|| RAN.store(true, SeqCst)).with(policy, 0);
            schedule(0, SCHED_FIFO, 50);
            other.go();
            while !RAN.load(SeqCst) {
                std::hint::spin_loop()
            }
            schedule(0, SCHED_OTHER, 0);
            other.end();
            println!("a thread that never sleeps lets one run that is {what}");
        }
    }
}

static WARNED: AtomicU32 = AtomicU32::new(0);

extern "C" fn warned(_number: i32) {
    if WARNED.fetch_add(1, SeqCst) == 0 {
        // SAFETY: write is async-signal-safe.
        unsafe { libc::write(1, c"warned\n".as_ptr().cast(), 7) };
    }
}

unsafe fn limit(soft: u64, hard: u64) -> i32 {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &limit) }
}

unsafe fn too_long() {
    unsafe {
        libc::signal(libc::SIGXCPU, warned as *const () as usize);
        tell("limit", limit(50_000, 3_000_000));
        tell("ordinary", schedule(0, SCHED_OTHER, 0));
        spin(100);
        println!("{}", WARNED.load(SeqCst));
        schedule(0, SCHED_RR, 1);
        while WARNED.load(SeqCst) == 0 {}
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_RTTIME, &mut limit);
        println!("{} {}", limit.rlim_cur, limit.rlim_max);
        spin(60_000);
    }
}

/// A sleep restarts the limit (RLIMIT_RTTIME): in total a thread may run longer.
unsafe fn short() {
    let short_times = || unsafe {
        if limit(200_000, libc::RLIM_INFINITY) != 0 || schedule(0, SCHED_FIFO, 1) != 0 {
            libc::_exit(1);
        }
        for _ in 0..10 {
            spin(40);
            sleep(10);
        }
    };
    // Time that the host takes from the machine counts too.
    let mut end = in_child(short_times);
    for _ in 1..TRIES {
        if end == 0 {
            break;
        }
        end = in_child(short_times);
    }
    tell_end("short times", end);
}

unsafe fn intervals() {
    unsafe {
        for policy in [SCHED_RR, SCHED_FIFO] {
            schedule(0, policy, 3);
            let mut turn: libc::timespec = mem::zeroed();
            tell("turn", libc::sched_rr_get_interval(0, &mut turn));
            println!("{} {}", turn.tv_sec, turn.tv_nsec);
        }
        schedule(0, SCHED_OTHER, 0);
    }
}

/// Threads that change the policy and the CPU of themselves and others all the time: none is lost.
unsafe fn mixed() {
    static NUMBERS: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];
    let one = |own: usize| {
        // SAFETY: all pointers are to values that outlive the calls.
        unsafe {
            NUMBERS[own].store(libc::gettid(), SeqCst);
            let mut random = own as u64;
            for _ in 0..400 {
                random = random
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let value = (random >> 40) as i32;
                let whom = NUMBERS[value as usize / 8 % 8].load(SeqCst);
                let policy =
                    [SCHED_FIFO, SCHED_RR, SCHED_OTHER, SCHED_IDLE][value as usize / 64 % 4];
                let real_time = policy == SCHED_FIFO || policy == SCHED_RR;
                match value % 8 {
                    0 | 1 => {
                        schedule(
                            whom,
                            policy,
                            if real_time { 1 + value / 256 % 4 } else { 0 },
                        );
                    }
                    2 => {
                        libc::syscall(
                            libc::SYS_sched_setaffinity,
                            whom,
                            8,
                            &[1u64 << (value / 64 % 4)],
                        );
                    }
                    3 => {
                        libc::syscall(libc::SYS_sched_setaffinity, whom, 8, &[u64::MAX]);
                    }
                    4 => {
                        libc::sched_yield();
                    }
                    5 => sleep(1),
                    6 => spin(1),
                    _ => {
                        libc::setpriority(libc::PRIO_PROCESS, whom as _, value / 64 % 20);
                    }
                }
            }
            NUMBERS[own].store(0, SeqCst);
        }
    };
    let threads: Vec<_> = (0..8).map(|own| thread::spawn(move || one(own))).collect();
    let ended = threads
        .into_iter()
        .filter_map(|thread| thread.join().ok())
        .count();
    println!("mixed: {ended} ended");
}
