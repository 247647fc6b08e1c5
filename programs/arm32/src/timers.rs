//! Timers, signals with a value, and ends of children, with 32-bit structures.

use std::{mem, ptr};

use libc::{SIGUSR1, c_int, c_long};

use crate::tell;

const TIMER_SETTIME64: c_long = 409;
const TIMER_GETTIME64: c_long = 408;
const TIMERFD_GETTIME64: c_long = 410;
const TIMERFD_SETTIME64: c_long = 411;
const RT_SIGTIMEDWAIT64: c_long = 421;
const PIDFD_SEND_SIGNAL: c_long = 424;
const PIDFD_OPEN: c_long = 434;
const SI_QUEUE: i32 = -1;

/// The words of a `siginfo_t`.
type Info = [i32; 32];

/// Blocks a signal.
pub fn block(signal: c_int) {
    // SAFETY: the set is our own.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
    }
}

/// Waits for a signal and prints its siginfo.
pub fn take(what: &str, signal: c_int) {
    let set = [1u32 << (signal - 1), 0];
    let mut info: Info = [0; 32];
    let span = [2i32, 0, 0, 0];
    // SAFETY: the structures are our own.
    let got = unsafe {
        let (set, info, span) = (set.as_ptr(), info.as_mut_ptr(), span.as_ptr());
        libc::syscall(RT_SIGTIMEDWAIT64, set, info, span, 8)
    };
    tell(what, got.into());
    // The ids of processes and timers differ from run to run.
    info[3] = (info[3] != 0).into();
    println!("  {:x?}", &info[..7]);
}

/// Runs this part.
pub fn run() {
    block(SIGUSR1);
    // SAFETY: the calls get their own memory.
    unsafe {
        posix();
        descriptors();
        queued();
        ends();
        slices();
    }
}

unsafe fn posix() {
    unsafe {
        let event = [0x1234_5678u32, SIGUSR1 as u32, libc::SIGEV_SIGNAL as u32, 0];
        let mut id = -1i32;
        let clock = libc::CLOCK_MONOTONIC;
        let (event, at) = (event.as_ptr(), &raw mut id);
        tell(
            "timer_create",
            libc::syscall(libc::SYS_timer_create, clock, event, at).into(),
        );
        let mut old = [-1i32; 8];
        let none = ptr::null::<u8>();
        let far = [100i32, 0, 200, 0];
        tell(
            "timer_settime",
            libc::syscall(libc::SYS_timer_settime, id, 0, far.as_ptr(), none).into(),
        );
        tell(
            "timer_gettime",
            libc::syscall(libc::SYS_timer_gettime, id, old.as_mut_ptr()).into(),
        );
        println!(
            "  every {} {} in less than 200 s: {}",
            old[0],
            old[1],
            old[2] < 200
        );
        tell(
            "timer_gettime64",
            libc::syscall(TIMER_GETTIME64, id, old.as_mut_ptr()).into(),
        );
        println!(
            "  every {:?} in less than 200 s: {}",
            &old[..4],
            old[4] < 200
        );
        let soon = [0i32, 0, 0, 0, 0, 0, 1_000_000, -1];
        tell(
            "timer_settime64",
            libc::syscall(TIMER_SETTIME64, id, 0, soon.as_ptr(), none).into(),
        );
        take("expired", SIGUSR1);
        let wrong = [0i32, 0, 0, 1_000_000_000];
        tell(
            "no time",
            libc::syscall(libc::SYS_timer_settime, id, 0, wrong.as_ptr(), none).into(),
        );
        tell(
            "overrun",
            libc::syscall(libc::SYS_timer_getoverrun, id).into(),
        );
        tell(
            "timer_delete",
            libc::syscall(libc::SYS_timer_delete, id).into(),
        );
        tell("again", libc::syscall(libc::SYS_timer_delete, id).into());
    }
}

unsafe fn descriptors() {
    unsafe {
        let timer = libc::syscall(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, 0);
        let none = ptr::null::<u8>();
        let soon = [0i32, 0, 0, 1_000_000];
        tell(
            "timerfd_settime",
            libc::syscall(libc::SYS_timerfd_settime, timer, 0, soon.as_ptr(), none).into(),
        );
        let mut count = 0u64;
        tell(
            "read",
            libc::read(timer as c_int, (&raw mut count).cast(), 8) as i64,
        );
        let far = [100i32, 0, 0, 0, 200, 0, 0, -1];
        tell(
            "timerfd_settime64",
            libc::syscall(TIMERFD_SETTIME64, timer, 0, far.as_ptr(), none).into(),
        );
        let mut old = [-1i32; 8];
        tell(
            "timerfd_gettime",
            libc::syscall(libc::SYS_timerfd_gettime, timer, old.as_mut_ptr()).into(),
        );
        println!(
            "  every {} {} in less than 200 s: {}",
            old[0],
            old[1],
            old[2] < 200
        );
        tell(
            "timerfd_gettime64",
            libc::syscall(TIMERFD_GETTIME64, timer, old.as_mut_ptr()).into(),
        );
        println!(
            "  every {:?} in less than 200 s: {}",
            &old[..4],
            old[4] < 200
        );
        let set = [1u32 << (SIGUSR1 - 1), 0];
        let signals = libc::syscall(libc::SYS_signalfd, -1, set.as_ptr(), 8);
        libc::kill(libc::getpid(), SIGUSR1);
        let mut info = [0u32; 32];
        tell(
            "signalfd",
            libc::read(signals as c_int, info.as_mut_ptr().cast(), 128) as i64,
        );
        println!("  signal {} code {}", info[0], info[2]);
        tell(
            "a set of 4 bytes",
            libc::syscall(libc::SYS_signalfd, -1, set.as_ptr(), 4).into(),
        );
    }
}

unsafe fn queued() {
    unsafe {
        let pid = libc::getpid();
        let mut info: Info = [0; 32];
        info[..6].copy_from_slice(&[SIGUSR1, 0, SI_QUEUE, 11, 22, 0x3333]);
        let from = info.as_mut_ptr();
        tell(
            "rt_sigqueueinfo",
            libc::syscall(libc::SYS_rt_sigqueueinfo, pid, SIGUSR1, from).into(),
        );
        take("queued", SIGUSR1);
        tell(
            "rt_tgsigqueueinfo",
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, pid, SIGUSR1, from).into(),
        );
        take("queued", SIGUSR1);
        let descriptor = libc::syscall(PIDFD_OPEN, pid, 0);
        tell(
            "pidfd_send_signal",
            libc::syscall(PIDFD_SEND_SIGNAL, descriptor, SIGUSR1, from, 0).into(),
        );
        take("sent", SIGUSR1);
        tell(
            "of another number",
            libc::syscall(PIDFD_SEND_SIGNAL, descriptor, libc::SIGUSR2, from, 0).into(),
        );
        from.add(2).write(0);
        tell(
            "to init as kill",
            libc::syscall(libc::SYS_rt_sigqueueinfo, 1, 0, from).into(),
        );
    }
}

unsafe fn ends() {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(7);
        }
        let mut info: Info = [-1; 32];
        let mut usage = [-1i32; 20];
        let (to, used) = (info.as_mut_ptr(), usage.as_mut_ptr());
        let options = libc::WEXITED;
        tell(
            "waitid",
            libc::syscall(libc::SYS_waitid, libc::P_PID, child, to, options, used).into(),
        );
        info[3] -= child;
        println!("  {:?}", &info[..8]);
        println!("  {:?}", usage.map(|word| word == -1));
        info = [-1; 32];
        tell(
            "no child",
            libc::syscall(libc::SYS_waitid, libc::P_PID, child, to, options, 0).into(),
        );
        println!("  {:?}", &info[..8]);
    }
}

unsafe fn slices() {
    unsafe {
        let mut slice = [-1i32; 4];
        let to = slice.as_mut_ptr();
        tell(
            "sched_rr_get_interval",
            libc::syscall(libc::SYS_sched_rr_get_interval, 0, to).into(),
        );
        println!("  {} {}", slice[0], slice[2]);
        tell("its 64 bits", libc::syscall(423, 0, to).into());
        println!("  {} {} {}", slice[0], slice[1], slice[3]);
    }
}
