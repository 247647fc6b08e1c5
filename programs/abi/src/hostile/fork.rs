//! An address space with very many areas, copied while a thread changes it, and copied by a process
//! that is killed meanwhile.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use libc::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE, SIGKILL};

use super::become_user;
use crate::{in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
/// The size of the mapping in pages, every second of which is an area of its own.
const PAGES: usize = 20_000;
/// The pages in its middle that a thread changes.
const MIDDLE: std::ops::Range<usize> = 9_000..11_000;
/// The distance between written pages.
const STEP: usize = 16;
const ROUNDS: u64 = 6;

/// Runs this part.
pub fn run() {
    // The first run allocates what the kernel keeps.
    copy_and_kill();
    let before = free();
    copy_and_kill();
    let is_back = || free() + 16_384 > before;
    let soon = (0..300).any(|_| {
        thread::sleep(Duration::from_millis(100));
        is_back()
    });
    tell_ok("memory is back", soon);
}

fn copy_and_kill() {
    in_child(|| {
        become_user();
        let areas = Areas::new();
        tell_end("a child", in_child(|| areas.check(0..PAGES)));
        tell("children beside a thread", beside_a_thread(&areas));
        let killed = (0..ROUNDS).filter(|&round| kill_in_fork(&areas, round));
        tell("killed", killed.count() as i32);
        areas.check(0..MIDDLE.start);
    });
}

/// Free memory in KiB.
fn free() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemFree:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A mapping whose pages are alternately writable and read-only.
#[derive(Clone, Copy)]
struct Areas(usize);

impl Areas {
    fn new() -> Self {
        // SAFETY: this function's own mapping.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGES * PAGE,
                PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let areas = Areas(start.addr());
        for page in (0..PAGES).step_by(STEP) {
            // SAFETY: inside the mapping, which is writable.
            unsafe { areas.at(page).cast::<usize>().write_volatile(page) };
        }
        let failed = (1..PAGES)
            .step_by(2)
            .filter(|&page| !areas.protect(page, PROT_READ));
        tell("cut", failed.count() as i32);
        areas
    }

    fn at(self, page: usize) -> *mut libc::c_void {
        ptr::with_exposed_provenance_mut(self.0 + page * PAGE)
    }

    fn protect(self, page: usize, rights: i32) -> bool {
        // SAFETY: a page of the mapping; nobody needs to write it.
        unsafe { libc::mprotect(self.at(page), PAGE, rights) == 0 }
    }

    /// Exits with status 1 unless the pages hold what was written.
    fn check(self, pages: std::ops::Range<usize>) {
        let written = pages.start.next_multiple_of(STEP)..pages.end;
        for page in written.step_by(STEP) {
            // SAFETY: inside the mapping.
            if unsafe { self.at(page).cast::<usize>().read_volatile() } != page {
                unsafe { libc::_exit(1) };
            }
        }
    }

    /// Changes the rights of pages in the middle, unmaps them, and maps new ones, until `end` is
    /// set.
    fn stir(self, end: &AtomicBool) {
        for page in MIDDLE.cycle() {
            if end.load(Relaxed) {
                return;
            }
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | libc::MAP_FIXED;
            self.protect(page, PROT_READ | PROT_WRITE);
            // SAFETY: only this thread uses the page.
            unsafe {
                self.at(page).cast::<usize>().write_volatile(page);
                if page % 3 == 0 {
                    libc::munmap(self.at(page), PAGE);
                    libc::mmap(self.at(page), PAGE, PROT_READ, flags, -1, 0);
                }
            }
        }
    }
}

/// Forks while a second thread changes the address space; returns how many children find wrong
/// data.
fn beside_a_thread(areas: &Areas) -> i32 {
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| areas.stir(&end));
        let child = || {
            in_child(|| {
                areas.check(0..MIDDLE.start);
                areas.check(MIDDLE.end..PAGES);
            })
        };
        let failed = (0..ROUNDS).filter(|_| child() != 0).count();
        end.store(true, Relaxed);
        failed as i32
    })
}

/// Kills a forking process with two threads after a while.
fn kill_in_fork(areas: &Areas, round: u64) -> bool {
    // SAFETY: the child has one thread, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let areas = *areas;
            if round.is_multiple_of(2) {
                thread::spawn(move || areas.stir(&AtomicBool::new(false)));
            }
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            loop {
                if libc::fork() == 0 {
                    libc::_exit(0);
                }
            }
        }
        thread::sleep(Duration::from_millis(3 + 7 * round));
        libc::kill(child, SIGKILL);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0) == child && libc::WTERMSIG(status) == SIGKILL
    }
}
