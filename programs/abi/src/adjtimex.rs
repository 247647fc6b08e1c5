//! The rate of CLOCK_REALTIME as adjtimex(2) sets it, compared with CLOCK_MONOTONIC_RAW. Both are
//! clocks of the machine, read close together: the host's speed does not matter.

use std::cell::Cell;
use std::mem;
use std::ptr;
use std::thread;
use std::time::Duration;

use libc::{CLOCK_MONOTONIC_RAW, CLOCK_REALTIME, CLOCK_TAI, c_int, clockid_t, timespec};

use crate::{error, in_child, tell, tell_end, undisturbed};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;
/// One part per million in units of `freq`.
const PPM: i64 = 1 << 16;

fn now(clock: clockid_t) -> i64 {
    // SAFETY: an all-zero timespec is a valid one, and it outlives the call.
    unsafe {
        let mut time: timespec = mem::zeroed();
        libc::clock_gettime(clock, &mut time);
        time.tv_sec * SECOND + time.tv_nsec
    }
}

fn time(ns: i64) -> timespec {
    timespec {
        tv_sec: ns / SECOND,
        tv_nsec: ns % SECOND,
    }
}

/// Reads the raw clock and another at as nearly the same time as possible.
fn both(clock: clockid_t) -> [i64; 2] {
    let raw = || now(CLOCK_MONOTONIC_RAW);
    let mut best = (i64::MAX, [0; 2]);
    for _ in 0..200 {
        let start = raw();
        // Stile's timer that adjusts the clock may be late, where the host gives its CPU no time.
        adjust(0, |_| ());
        let (before, read, after) = (raw(), now(clock), raw());
        if after - start < best.0 {
            best = (after - start, [before + (after - before) / 2, read]);
        }
        if best.0 < 50_000 {
            break;
        }
    }
    best.1
}

fn wait(ns: i64) {
    let end = now(CLOCK_MONOTONIC_RAW) + ns;
    while now(CLOCK_MONOTONIC_RAW) < end {
        thread::sleep(Duration::from_millis(5));
    }
}

/// The gain of a clock on CLOCK_MONOTONIC_RAW in about `ns`, and the exact length of that time.
fn gained(clock: clockid_t, ns: i64) -> [i64; 2] {
    let before = both(clock);
    wait(ns);
    let after = both(clock);
    let passed = after[0] - before[0];
    [after[1] - before[1] - passed, passed]
}

/// Prints whether the clock gains this many ppm, within a third and 50 ppm.
fn tell_rate(what: &str, clock: clockid_t, expected: i64) {
    let [gain, passed] = gained(clock, SECOND);
    let rate = gain as i128 * 1_000_000 / passed as i128;
    let good = (rate - expected as i128).abs() <= expected.abs() as i128 / 3 + 50;
    let told = if good { expected as i128 } else { rate };
    println!("{what}: {told}");
}

/// Calls adjtimex(2) with a zeroed structure that `change` fills; returns its result and output.
fn adjust(modes: u32, change: impl Fn(&mut libc::timex)) -> (c_int, libc::timex) {
    // SAFETY: all zeroes is a valid timex, and it outlives the call.
    unsafe {
        let mut asked: libc::timex = mem::zeroed();
        asked.modes = modes as _;
        change(&mut asked);
        let result = libc::adjtimex(&mut asked);
        (result, asked)
    }
}

fn tell_adjust(what: &str, modes: u32, change: impl Fn(&mut libc::timex)) -> libc::timex {
    let (result, told) = adjust(modes, change);
    tell(what, result);
    told
}

/// Sets the tick, and the frequency in units of `freq`.
fn set_rate(tick: i64, frequency: i64) {
    adjust(libc::ADJ_TICK | libc::ADJ_FREQUENCY, |asked| {
        (asked.tick, asked.freq) = (tick, frequency);
    });
}

/// Ends all adjustments in progress.
fn settle() {
    adjust(libc::ADJ_OFFSET_SINGLESHOT, |_| ());
    adjust(libc::ADJ_STATUS, |asked| asked.status = libc::STA_PLL);
    adjust(libc::ADJ_OFFSET, |_| ());
    adjust(libc::ADJ_STATUS, |asked| asked.status = libc::STA_UNSYNC);
    set_rate(10_000, 0);
    // Waits until this second has removed its part of the offset.
    wait(SECOND + SECOND / 10);
}

/// Runs this part.
pub fn run() {
    settle();
    rates();
    settle();
    single();
    settle();
    phase();
    settle();
    steps();
    errors();
    extremes();
    settle();
    beside_another(|| {
        for (what, wait_until) in WAITS {
            waits(what, *wait_until);
        }
        begun_before();
    });
    many();
    rights();
    killed();
    settle();
    tell_rate("as before", CLOCK_REALTIME, 0);
}

fn rates() {
    tell_rate("nominal", CLOCK_REALTIME, 0);
    for (what, tick, frequency, rate) in [
        ("frequency", 10_000, 500 * PPM, 500),
        ("less of it", 10_000, -500 * PPM, -500),
        ("longer ticks", 11_000, 0, 100_000),
        ("shorter ticks", 9_000, 0, -100_000),
        ("both", 10_010, 300 * PPM, 1_300),
        ("each other's", 10_005, -500 * PPM, 0),
    ] {
        set_rate(tick, frequency);
        tell_rate(what, CLOCK_REALTIME, rate);
    }
    set_rate(11_000, 0);
    tell_rate("atomic time", CLOCK_TAI, 100_000);
    set_rate(10_000, 0);
    tell_rate("nominal again", CLOCK_REALTIME, 0);
}

/// The rest of the adjustment that adjtime(3) requested.
fn single_left() -> i64 {
    adjust(libc::ADJ_OFFSET_SS_READ, |_| ()).1.offset
}

/// adjtime(3).
fn single() {
    for us in [1_000_000, -1_000_000] {
        let told = tell_adjust("adjtime", libc::ADJ_OFFSET_SINGLESHOT, |asked| {
            asked.offset = us;
        });
        println!("before it: {}", told.offset);
        println!("all is left: {}", (us - single_left()).abs() <= 1_000);
        let [gain, passed] = gained(CLOCK_REALTIME, 3 * SECOND);
        let by_second = gain * us.signum() * 1_000 / (passed / 1_000);
        println!(
            "less than 500 us a second: {}",
            (250..=550).contains(&by_second)
        );
        let left = single_left();
        let made_up = (us - left).abs();
        println!(
            "taken off: {}",
            made_up % 500 == 0 && made_up * 1_000 >= gain.abs() - MS / 2
        );
        let told = adjust(libc::ADJ_OFFSET_SINGLESHOT, |_| ()).1;
        println!("replaced: {}", (us - told.offset).abs() >= made_up);
        println!("nothing is left: {}", single_left());
        settle();
    }
    let before = both(CLOCK_REALTIME);
    adjust(libc::ADJ_OFFSET_SINGLESHOT, |asked| asked.offset = 300);
    wait(3 * SECOND);
    let after = both(CLOCK_REALTIME);
    let gain = after[1] - before[1] - (after[0] - before[0]);
    println!(
        "300 us, and no more: {} {}",
        (200_000..400_000).contains(&gain),
        single_left()
    );
}

/// An offset for the phase-locked loop.
fn phase() {
    let modes = libc::ADJ_STATUS | libc::ADJ_NANO | libc::ADJ_TIMECONST;
    tell_adjust(
        "hold the frequency",
        modes | libc::ADJ_MAXERROR | libc::ADJ_ESTERROR,
        |asked| {
            asked.status = libc::STA_PLL | libc::STA_FREQHOLD;
        },
    );
    for offset in [100 * MS, -100 * MS] {
        let before = both(CLOCK_REALTIME);
        let told = tell_adjust("offset", libc::ADJ_OFFSET, |asked| asked.offset = offset);
        println!("left {}, frequency {}", told.offset, told.freq);
        wait(3 * SECOND);
        let after = both(CLOCK_REALTIME);
        let gain = after[1] - before[1] - (after[0] - before[0]);
        let gain = gain * offset.signum();
        let left = adjust(0, |_| ()).1.offset * offset.signum();
        println!(
            "a quarter a second: {}",
            (35 * MS..100 * MS).contains(&gain) && left < 60 * MS
        );
        println!("no more: {}", gain + left < 101 * MS);
        adjust(libc::ADJ_OFFSET, |_| ());
        wait(SECOND + SECOND / 10);
    }
    tell_rate("made up for", CLOCK_REALTIME, 0);
    // The offset also adjusts the frequency.
    adjust(libc::ADJ_STATUS, |asked| asked.status = 0);
    adjust(modes, |asked| asked.status = libc::STA_PLL);
    wait(3 * SECOND);
    let (_, told) = adjust(libc::ADJ_OFFSET, |asked| asked.offset = 100_000);
    let learnt = told.freq * 1_000 / PPM;
    println!("learnt: {}", learnt > 500 && told.freq < 500 * PPM);
    adjust(libc::ADJ_OFFSET | libc::ADJ_FREQUENCY, |_| ());
    println!("its units end with the loop: {:#x}", {
        adjust(libc::ADJ_STATUS, |asked| asked.status = 0).1.status
    });
}

/// Sets the clock during adjustments.
fn steps() {
    let modes = libc::ADJ_STATUS | libc::ADJ_MAXERROR | libc::ADJ_ESTERROR | libc::ADJ_FREQUENCY;
    let keep = || {
        tell_adjust("keep the time", modes, |asked| {
            (asked.status, asked.freq) = (libc::STA_PLL, 400 * PPM);
        });
        adjust(libc::ADJ_OFFSET_SINGLESHOT, |asked| asked.offset = 5_000);
        adjust(libc::ADJ_OFFSET, |asked| asked.offset = 200_000);
    };
    let set = |ns| {
        let time = time(ns);
        // SAFETY: the time outlives the call.
        unsafe { libc::clock_settime(CLOCK_REALTIME, &time) }
    };
    let tell_state = || {
        let (result, told) = adjust(0, |_| ());
        println!(
            "status {:#x} {result}, errors {} {}, left {} {}, frequency {}",
            told.status,
            told.maxerror,
            told.esterror,
            told.offset,
            single_left(),
            told.freq >= 400 * PPM
        );
    };
    keep();
    tell("set", set(now(CLOCK_REALTIME)));
    tell_state();
    tell_rate("the frequency stays", CLOCK_REALTIME, 400);
    keep();
    tell_adjust("stepped", libc::ADJ_SETOFFSET | libc::ADJ_NANO, |asked| {
        (asked.time.tv_sec, asked.time.tv_usec) = (-1, 999_999_999);
    });
    tell_state();
    tell("before the machine", set(1));
    tell("too late", set(8_277_292_036 * SECOND));
    tell_adjust("before 1970", libc::ADJ_SETOFFSET, |asked| {
        asked.time.tv_sec = -5_000_000_000
    });
    set_rate(10_000, 0);
}

/// Runs the part about leap seconds: they are inserted, deleted, or requested and cancelled.
pub fn run_leaps() {
    undisturbed::run(leaps);
}

/// Returns whether the loop has sampled the clock often enough.
fn leaps() -> bool {
    let undisturbed = Cell::new(true);
    let last_look = Cell::new(now(CLOCK_MONOTONIC_RAW));
    let look = || {
        let since = last_look.replace(now(CLOCK_MONOTONIC_RAW));
        if last_look.get() - since > SECOND / 4 {
            undisturbed.set(false);
        }
    };
    const DAY: i64 = 86_400;
    let set = |ns| {
        let time = time(ns);
        // SAFETY: the time outlives the call.
        unsafe { libc::clock_settime(CLOCK_REALTIME, &time) }
    };
    // Also resets the maximum error, or the clock would count as unsynchronised (TIME_ERROR).
    let ask = |status: c_int| {
        adjust(libc::ADJ_STATUS | libc::ADJ_MAXERROR, |asked| {
            asked.status = status
        })
    };
    // Waits until adjtimex returns another state, and prints it with the second of the day.
    let tell_next = |what: &str, last: c_int, tai: i32| {
        let end = now(CLOCK_MONOTONIC_RAW) + 20 * SECOND;
        let mut found = adjust(0, |_| ());
        look();
        while found.0 == last && now(CLOCK_MONOTONIC_RAW) < end {
            thread::sleep(Duration::from_millis(5));
            found = adjust(0, |_| ());
            look();
        }
        let (state, told) = found;
        let (second, leapt) = (told.time.tv_sec.rem_euclid(DAY), told.tai - tai);
        // The clocks themselves leap a moment later.
        thread::sleep(Duration::from_millis(50));
        let ahead = now(CLOCK_TAI) - now(CLOCK_REALTIME);
        let ahead = (ahead + SECOND / 2).div_euclid(SECOND);
        look();
        println!("{what}: {state} at {second}, TAI {leapt:+}, ahead by {ahead}");
        state
    };
    let begin = now(CLOCK_REALTIME);
    let since = now(CLOCK_MONOTONIC_RAW);
    let midnight = (begin / SECOND / DAY + 2) * DAY;
    for (what, status) in [("deleted", libc::STA_DEL), ("inserted", libc::STA_INS)] {
        tell("set", set((midnight - 4) * SECOND + SECOND / 2));
        let (state, before) = ask(status);
        tell(what, state);
        let mut state = state;
        for _ in 0..if status == libc::STA_INS { 3 } else { 2 } {
            state = tell_next(what, state, before.tai);
        }
        ask(0);
        tell_next("taken back", state, before.tai);
    }
    tell("set", set((midnight - 4) * SECOND + SECOND / 2));
    let (state, before) = ask(libc::STA_INS);
    let state = tell_next("asked for", state, before.tai);
    tell("and the clock set", set((midnight - 1) * SECOND));
    ask(libc::STA_INS);
    look();
    wait(2 * SECOND);
    last_look.set(now(CLOCK_MONOTONIC_RAW));
    let (after, told) = adjust(0, |_| ());
    println!(
        "it does not come: {}, {}",
        after == state,
        told.tai == before.tai
    );
    ask(0);
    tell_next("taken back", state, before.tai);
    set(begin + now(CLOCK_MONOTONIC_RAW) - since);
    adjust(libc::ADJ_TAI, |asked| asked.constant = 0);
    undisturbed.get()
}

/// The maximum error grows each second.
fn errors() {
    tell_adjust("exact", libc::ADJ_STATUS | libc::ADJ_MAXERROR, |asked| {
        asked.status = libc::STA_PLL;
    });
    wait(2 * SECOND);
    let (result, told) = adjust(0, |_| ());
    let grown = told.maxerror % 500 == 0 && (1_000..100_000).contains(&told.maxerror);
    println!("grown: {grown} {result}");
    adjust(libc::ADJ_MAXERROR, |asked| asked.maxerror = i64::MAX as _);
    wait(SECOND + SECOND / 10);
    let (result, told) = adjust(0, |_| ());
    println!("too large: {} {result} {:#x}", told.maxerror, told.status);
    adjust(libc::ADJ_STATUS, |asked| asked.status = libc::STA_UNSYNC);
}

fn extremes() {
    let largest = i64::MAX / 65_536_000;
    for frequency in [
        i64::MAX,
        i64::MIN,
        largest + 1,
        -largest - 1,
        largest,
        -largest,
    ] {
        let told = tell_adjust("frequency", libc::ADJ_FREQUENCY, |asked| {
            asked.freq = frequency
        });
        println!("told: {}", told.freq);
    }
    for tick in [i64::MIN, 8_999, 9_000, 11_000, 11_001, i64::MAX] {
        let told = tell_adjust("tick", libc::ADJ_TICK, |asked| asked.tick = tick);
        println!("told: {}", told.tick);
    }
    set_rate(10_000, 0);
    adjust(libc::ADJ_STATUS, |asked| {
        asked.status = libc::STA_PLL | libc::STA_FREQHOLD
    });
    for offset in [i64::MIN, i64::MAX, 700_000, -700_000] {
        let (_, told) = adjust(libc::ADJ_OFFSET | libc::ADJ_NANO, |asked| {
            asked.offset = offset
        });
        println!("offset: {}", told.offset);
        adjust(libc::ADJ_MICRO, |_| ());
    }
    for constant in [i64::MIN, -1, 0, 5, 6, 7, 10, i64::MAX] {
        let (_, told) = adjust(libc::ADJ_TIMECONST, |asked| asked.constant = constant);
        println!("constant: {}", told.constant);
    }
    for us in [i64::MIN, i64::MAX] {
        adjust(libc::ADJ_OFFSET_SINGLESHOT, |asked| asked.offset = us);
        wait(SECOND + SECOND / 10);
        println!(
            "nearly all is left: {}",
            us.abs_diff(single_left()) < 100_000
        );
    }
}

type Wait = unsafe fn(i64) -> i64;

/// Ways to wait until a time of day.
const WAITS: &[(&str, Wait)] = &[
    ("sleep", sleep),
    ("sleep by atomic time", atomic_sleep),
    ("timerfd", timerfd),
    ("timer", timer),
    ("futex", futex),
];

unsafe fn sleep(until: i64) -> i64 {
    unsafe {
        let flags = libc::TIMER_ABSTIME;
        libc::clock_nanosleep(CLOCK_REALTIME, flags, &time(until), ptr::null_mut()).into()
    }
}

unsafe fn atomic_sleep(until: i64) -> i64 {
    unsafe {
        let ahead = adjust(0, |_| ()).1.tai as i64 * SECOND;
        let flags = libc::TIMER_ABSTIME;
        libc::clock_nanosleep(CLOCK_TAI, flags, &time(until + ahead), ptr::null_mut()).into()
    }
}

/// A single expiration at that time.
fn once(until: i64) -> libc::itimerspec {
    libc::itimerspec {
        it_interval: time(0),
        it_value: time(until),
    }
}

unsafe fn timerfd(until: i64) -> i64 {
    unsafe {
        let fd = libc::timerfd_create(CLOCK_REALTIME, 0);
        libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &once(until), ptr::null_mut());
        let mut times = 0i64;
        libc::read(fd, (&raw mut times).cast(), 8);
        libc::close(fd);
        times
    }
}

unsafe fn timer(until: i64) -> i64 {
    unsafe {
        let mut signals: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut signals, libc::SIGALRM);
        libc::sigprocmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
        let mut timer = ptr::null_mut();
        libc::timer_create(CLOCK_REALTIME, ptr::null_mut(), &mut timer);
        libc::timer_settime(timer, libc::TIMER_ABSTIME, &once(until), ptr::null_mut());
        let signal = libc::sigwaitinfo(&signals, ptr::null_mut());
        libc::timer_delete(timer);
        signal.into()
    }
}

unsafe fn futex(until: i64) -> i64 {
    unsafe {
        let word = 0u32;
        let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME;
        let none = ptr::null::<u32>();
        let until = time(until);
        let result = libc::syscall(libc::SYS_futex, &word, operation, 0, &until, none, u32::MAX);
        if result == 0 || error() == "ETIMEDOUT" {
            0
        } else {
            result
        }
    }
}

/// Runs `work` on a busy CPU: on an idle one, Linux programs the timer by the clock's nominal rate,
/// and thus too late.
fn beside_another(work: impl FnOnce()) {
    // SAFETY: all zeroes is an empty set, and the child only spins.
    unsafe {
        let mut all: libc::cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&all), &mut all);
        let mut first: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(0, &mut first);
        libc::sched_setaffinity(0, size_of_val(&first), &first);
        let busy = libc::fork();
        if busy == 0 {
            libc::nice(19);
            loop {
                std::hint::spin_loop();
            }
        }
        work();
        libc::kill(busy, libc::SIGKILL);
        libc::waitpid(busy, ptr::null_mut(), 0);
        libc::sched_setaffinity(0, size_of_val(&all), &all);
    }
}

/// A sleeper until a time of day is woken at that time, whatever the clock's rate.
fn waits(what: &str, wait_until: Wait) {
    for (kind, tick) in [("slow", 9_000), ("fast", 11_000)] {
        set_rate(tick, 0);
        let mut result = 0;
        let good = (0..40).any(|_| {
            let [raw, real] = both(CLOCK_REALTIME);
            // SAFETY: it is called with a time.
            result = unsafe { wait_until(real + 400 * MS) };
            let [later, real_later] = both(CLOCK_REALTIME);
            // A clock that is slowed by adjustments may step back a little.
            let early = real_later < real + 400 * MS - MS;
            !early && (tick < 10_000 || later - raw < 385 * MS)
        });
        println!("{what}, {kind}: {result} {good}");
    }
    set_rate(10_000, 0);
}

/// A thread that already waits when the rate changes.
fn begun_before() {
    for (what, wait_until) in WAITS {
        let good = (0..40).any(|_| {
            let [raw, real] = both(CLOCK_REALTIME);
            let status = in_child(|| {
                // SAFETY: the child has a child of its own; both wait, and end.
                unsafe {
                    let waiter = libc::fork();
                    if waiter == 0 {
                        wait_until(real + SECOND);
                        libc::_exit(i32::from(now(CLOCK_MONOTONIC_RAW) - raw >= 970 * MS));
                    }
                    wait(50 * MS);
                    set_rate(11_000, 0);
                    let mut status = 0;
                    libc::waitpid(waiter, &mut status, 0);
                    libc::_exit(libc::WEXITSTATUS(status));
                }
            });
            set_rate(10_000, 0);
            status == 0
        });
        println!("{what}, begun before: {good}");
    }
}

/// Many adjustments while timers of the clock are armed.
fn many() {
    let later = once(now(CLOCK_REALTIME) + 1_000 * SECOND);
    // SAFETY: the settings outlive the calls, and the descriptors are this function's.
    let timers: Vec<c_int> = (0..100)
        .map(|_| unsafe {
            let fd = libc::timerfd_create(CLOCK_REALTIME, 0);
            libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &later, ptr::null_mut());
            fd
        })
        .collect();
    let done = (0..10_000).all(|turn| {
        let frequency = if turn % 2 == 0 { 500 } else { -500 } * PPM;
        adjust(libc::ADJ_FREQUENCY, |asked| asked.freq = frequency).0 >= 0
    });
    println!("10,000 frequencies: {done}");
    set_rate(10_000, 0);
    tell_rate("after them", CLOCK_REALTIME, 0);
    for fd in timers {
        // SAFETY: it was opened above.
        unsafe { libc::close(fd) };
    }
}

fn rights() {
    let status = in_child(|| {
        // SAFETY: the call takes only numbers.
        unsafe { libc::setuid(1234) };
        for (what, modes) in [
            ("offset", libc::ADJ_OFFSET),
            ("frequency", libc::ADJ_FREQUENCY),
            ("status", libc::ADJ_STATUS),
            ("tick", libc::ADJ_TICK),
            ("atomic time", libc::ADJ_TAI),
            ("step", libc::ADJ_SETOFFSET),
            ("nothing known", 0x40),
            ("adjtime", libc::ADJ_OFFSET_SINGLESHOT),
        ] {
            tell(what, adjust(modes, |asked| asked.tick = 10_000).0);
        }
        println!("a look: {}", adjust(0, |_| ()).0 >= 0);
        println!(
            "another: {}",
            adjust(libc::ADJ_OFFSET_SS_READ, |_| ()).0 >= 0
        );
    });
    tell_end("the user", status);
}

/// The clock keeps its rate after the process that set it has ended.
fn killed() {
    let status = in_child(|| {
        set_rate(10_500, 100 * PPM);
        // SAFETY: nothing is passed but numbers.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    });
    tell_end("it", status);
    let told = adjust(0, |_| ()).1;
    println!("tick {} frequency {}", told.tick, told.freq / PPM);
    tell_rate("its rate", CLOCK_REALTIME, 50_100);
}
