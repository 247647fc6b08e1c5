//! CPU time: a program's own is user time, the kernel's on its behalf is system time.

use std::fs::File;
use std::hint;
use std::io::Read;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::tell;

/// CPU time in µs: user and system.
type Times = [i64; 2];

/// The length of each kind of work, in µs of CPU time.
const LONG: i64 = 300_000;

fn times(usage: &libc::rusage) -> Times {
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec * 1_000_000 + time.tv_usec)
}

fn used(who: i32) -> Times {
    // SAFETY: all zeroes is a valid `rusage`, and it outlives the call.
    unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(who, &mut usage);
        times(&usage)
    }
}

/// Runs `work` in a child; returns the child's CPU time.
fn child(work: impl FnOnce()) -> Times {
    // SAFETY: there is no other thread; all pointers are to values that outlive the calls.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            work();
            libc::_exit(0);
        }
        let mut usage: libc::rusage = mem::zeroed();
        if libc::wait4(pid, ptr::null_mut(), 0, &mut usage) != pid {
            println!("no child");
        }
        times(&usage)
    }
}

/// Repeats `work` in a child for that long; returns the child's CPU time.
fn repeat(mut work: impl FnMut()) -> Times {
    child(|| {
        while used(libc::RUSAGE_SELF).iter().sum::<i64>() < LONG {
            work();
        }
    })
}

/// Whether most of the time is of a kind: 0 for user time.
fn is_mostly(kind: usize, times: Times) -> bool {
    times[kind] > times[1 - kind]
}

static RANG: AtomicBool = AtomicBool::new(false);

extern "C" fn ring(_number: i32) {
    RANG.store(true, Relaxed);
}

/// Runs this part.
pub fn run() {
    let count = || (0..1_000_000u64).for_each(|turn| _ = hint::black_box(turn));
    println!("counting is the program's: {}", is_mostly(0, repeat(count)));
    let mut zeroes = File::open("/dev/zero").expect("/dev/zero");
    let mut buffer = vec![1; 1 << 20];
    let read = repeat(|| zeroes.read_exact(&mut buffer).expect("zeroes"));
    println!("reading much is the system's: {}", is_mostly(1, read));
    // SAFETY: the call takes no argument.
    let small = repeat(|| (0..10_000).for_each(|_| _ = unsafe { libc::getppid() }));
    println!("small calls are the system's too: {}", small[1] > 0);
    let spun = child(spin);
    println!("spinning is the program's: {}", is_mostly(0, spun));
    println!("until the timer rang: {}", spun[0] >= LONG * 9 / 10);
    let all = used(libc::RUSAGE_CHILDREN);
    println!("all of them: {}", all[0] + all[1] >= 4 * LONG * 9 / 10);
    // SAFETY: all zeroes is a valid `tms`, and it outlives the call.
    unsafe {
        let mut times: libc::tms = mem::zeroed();
        libc::times(&mut times);
        println!("both: {}", times.tms_cutime > 0 && times.tms_cstime > 0);
    }
}

/// Spins until a timer of user time expires.
fn spin() {
    // SAFETY: the handler stores to an atomic; all pointers are to values that outlive the calls.
    unsafe {
        libc::signal(libc::SIGVTALRM, ring as *const () as usize);
        let mut timer: libc::itimerval = mem::zeroed();
        timer.it_value.tv_usec = LONG;
        tell(
            "a timer of the program's own time",
            libc::setitimer(libc::ITIMER_VIRTUAL, &timer, ptr::null_mut()),
        );
    }
    while !RANG.load(Relaxed) {
        std::hint::spin_loop()
    }
}
