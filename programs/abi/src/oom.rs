//! Who ends where there is no memory left, and who does not.

use std::{fs, ptr};

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, c_int, pid_t};

use crate::ptrace::{CONT, ptrace};
use crate::tell_ok;

const PAGE: usize = 4096;

/// Runs this part.
pub fn run() {
    adjust("-1000");
    // SAFETY: children do what is written here, and nothing else.
    unsafe {
        on_its_way();
        beside();
    }
}

/// Moves this process's place among those that end.
fn adjust(score: &str) {
    _ = fs::write("/proc/self/oom_score_adj", score);
}

/// A hundredth of the memory that is available, in bytes.
fn hundredth() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: usize = number.and_then(|number| number.parse().ok()).unwrap_or(0);
    kib * 1024 / 100
}

/// Takes so many bytes.
unsafe fn take(bytes: usize) {
    unsafe {
        let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE);
        let at = libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0);
        if at == MAP_FAILED {
            libc::_exit(1);
        }
        for page in (0..bytes).step_by(PAGE) {
            at.cast::<u8>().add(page).write_volatile(1);
        }
    }
}

/// A child that does `work`.
unsafe fn child(work: impl FnOnce()) -> pid_t {
    unsafe {
        let process = libc::fork();
        if process == 0 {
            adjust("0");
            work();
            libc::_exit(7);
        }
        process
    }
}

/// A child that has taken memory when this returns, and waits until `end` of a pipe is closed.
unsafe fn holder(bytes: usize, [end, other]: [c_int; 2]) -> pid_t {
    unsafe {
        let mut told = [-1; 2];
        libc::pipe(told.as_mut_ptr());
        let process = child(|| {
            take(bytes);
            libc::close(told[1]);
            libc::close(other);
            await_close(end);
        });
        libc::close(told[1]);
        await_close(told[0]);
        libc::close(told[0]);
        process
    }
}

/// Waits until nobody has the other end of a pipe.
unsafe fn await_close(end: c_int) {
    let mut byte = 0u8;
    unsafe { libc::read(end, (&raw mut byte).cast(), 1) };
}

unsafe fn wait(process: pid_t) -> c_int {
    let mut status = 0;
    unsafe { libc::waitpid(process, &mut status, 0) };
    status
}

/// Who is about to end has most, and stands still: nobody else ends in its place.
unsafe fn on_its_way() {
    unsafe {
        let share = hundredth();
        let ends = child(|| {
            ptrace(libc::PTRACE_TRACEME as u32, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            take(55 * share);
        });
        wait(ends);
        let options = libc::PTRACE_O_TRACEEXIT as usize;
        ptrace(libc::PTRACE_SETOPTIONS as u32, ends, 0, options);
        ptrace(CONT, ends, 0, 0);
        tell_ok("about to end", wait(ends) >> 16 == libc::PTRACE_EVENT_EXIT);
        let other = child(|| take(50 * share));
        println!("the other ends with {:#x}", wait(other));
        ptrace(CONT, ends, 0, 0);
        println!("it ends with {:#x}", wait(ends));
    }
}

/// Who has most ends; others, who have less or want more, go on.
unsafe fn beside() {
    unsafe {
        let share = hundredth();
        let mut ends = [-1; 2];
        libc::pipe(ends.as_mut_ptr());
        let rests = holder(15 * share, ends);
        let most = holder(55 * share, ends);
        let wants = child(|| take(45 * share));
        println!("who wants more ends with {:#x}", wait(wants));
        println!("who has most ends with {:#x}", wait(most));
        libc::close(ends[1]);
        println!("who rests ends with {:#x}", wait(rests));
    }
}
