//! Processes that fork while their group is killed; and a lease whose holder answers each break
//! with the same lease.

use std::fs;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libc::{F_RDLCK, F_SETLEASE, F_WRLCK, SIGALRM, SIGKILL, WNOHANG};

use super::become_user;
use crate::{tell, tell_end};

/// The number of groups that are killed, and of processes in each that fork.
const GROUPS: i32 = 60;
const MAKERS: usize = 4;
/// The time that the members of a killed group may take to end.
const LONG: Duration = Duration::from_secs(60);

const BREAK_TIME: &str = "/proc/sys/fs/lease-break-time";

/// Runs this part.
pub fn run() {
    // SAFETY: the call accesses no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    let escaped = (0..GROUPS).filter(|&round| !all_end(round));
    tell(
        "groups with members that were not killed",
        escaped.count() as i32,
    );
    let before = fs::read_to_string(BREAK_TIME).unwrap_or_default();
    same_lease("1");
    same_lease("0");
    _ = fs::write(BREAK_TIME, before);
}

/// Forks repeatedly: each parent exits, and its child continues.
fn make_children() -> ! {
    loop {
        // SAFETY: the process has one thread, and accesses no memory.
        unsafe {
            match libc::fork() {
                // The parent exits at once, so a child that the signal misses survives.
                child if child > 0 => libc::_exit(0),
                _ => continue,
            }
        }
    }
}

/// Kills a group whose members fork; returns whether all end.
fn all_end(round: i32) -> bool {
    // SAFETY: a child of one thread becomes a group's leader; the others are in its group.
    unsafe {
        let leader = libc::fork();
        if leader == 0 {
            libc::setpgid(0, 0);
            become_user();
            for _ in 1..MAKERS {
                if libc::fork() == 0 {
                    break;
                }
            }
            make_children();
        }
        libc::setpgid(leader, leader);
        // Reaps children that have ended meanwhile, which frees their process IDs.
        let until = Instant::now() + Duration::from_millis(20 + round as u64);
        while Instant::now() < until {
            libc::waitpid(-leader, std::ptr::null_mut(), WNOHANG);
        }
        libc::kill(-leader, SIGKILL);
        let until = Instant::now() + LONG;
        loop {
            match libc::waitpid(-leader, std::ptr::null_mut(), WNOHANG) {
                -1 => return true,
                0 if Instant::now() > until => break,
                0 => std::thread::sleep(Duration::from_millis(1)),
                _ => {}
            }
        }
        while libc::kill(-leader, SIGKILL) == 0 {
            while libc::waitpid(-leader, std::ptr::null_mut(), WNOHANG) > 0 {}
        }
        false
    }
}

/// The file with the lease.
static LEASED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn take_it_again(_: i32) {
    // SAFETY: the call accesses no memory.
    unsafe { libc::fcntl(LEASED.load(Relaxed), F_SETLEASE, F_WRLCK) };
}

extern "C" fn nothing(_: i32) {}

fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handlers make one call or none.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Opens a file whose lease is set again on each break. The break time is `seconds`; 0 is no limit.
fn same_lease(seconds: &str) {
    fs::write(BREAK_TIME, seconds).expect("the time");
    // SAFETY: every path is NUL-terminated.
    unsafe {
        let file = libc::open(c"contested".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o644);
        tell("lease", libc::fcntl(file, F_SETLEASE, F_WRLCK));
        LEASED.store(file, Relaxed);
        handle(libc::SIGIO, take_it_again);
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let opener = libc::fork();
        if opener == 0 {
            handle(SIGALRM, nothing);
            // A signal is the only way to end a wait without limit. It repeats, in case the first
            // comes before the wait.
            let mut timer: libc::itimerval = std::mem::zeroed();
            timer.it_value.tv_sec = if seconds == "0" { 2 } else { 60 };
            timer.it_interval = timer.it_value;
            libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
            let opened = libc::open(c"contested".as_ptr(), libc::O_RDONLY);
            tell("open", i32::from(opened >= 0) - 1);
            libc::write(ends[1], c"x".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        let mut told = libc::pollfd {
            fd: ends[0],
            events: libc::POLLIN,
            revents: 0,
        };
        while libc::poll(&mut told, 1, 100) <= 0 {
            take_it_again(0);
        }
        tell("the lease is", libc::fcntl(file, libc::F_GETLEASE));
        tell("to read", libc::fcntl(file, F_SETLEASE, F_RDLCK));
        libc::kill(opener, SIGKILL);
        let mut status = 0;
        libc::waitpid(opener, &mut status, 0);
        tell_end("who opened it", status);
        for file in [file, ends[0], ends[1]] {
            libc::close(file);
        }
    }
}
