//! Memory that moves back and forth while another process reads and writes it at both addresses,
//! and another thread forks and gives advice: no access finds wrong data.

use std::fmt::Debug;
use std::io::Error;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::{fs, ptr, thread};

use libc::{
    EFAULT, EIO, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE,
};

use super::become_user;
use crate::{in_child, tell_end};

const PAGE: usize = 4096;
const LEN: usize = 64 << 20;
const PAGES: usize = LEN / PAGE;
const WORDS: usize = PAGE / 8;
/// The size of a huge page.
const HUGE: usize = 2 << 20;
/// The minimum numbers of the other process's accesses and of moves. An access may have to wait for
/// a whole move.
const LOOKS: usize = 400;
const MOVES: u32 = 60;
/// The tolerated loss of free memory, in KiB.
const LITTLE: i64 = 32 << 10;

/// State shared by the processes.
#[derive(Default)]
struct Shared {
    ready: AtomicU32,
    moves: AtomicU32,
    forks: AtomicU32,
    stop: AtomicU32,
    stopped: AtomicU32,
    end: AtomicU32,
    wrong: AtomicU32,
}

/// The start of a page: its mark, which also fills the rest, and the words last written by
/// process_vm_writev and through /proc/PID/mem.
type Words = [u64; 3];

fn mark(page: usize) -> u64 {
    (page as u64 + 1) * 0x9e37_79b9_7f4a_7c15
}

/// Runs this part.
pub fn run() {
    let before = free();
    let status = in_child(|| {
        become_user();
        // SAFETY: every pointer passed is to a live value of the right type, or to the memory that
        // moves, which its own process reads only by system calls meanwhile.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 1);
            try_all();
        }
    });
    tell_end("the user", status);
    let is_back = (0..3000).any(|_| {
        thread::sleep(std::time::Duration::from_millis(20));
        let now = free();
        now[0] + LITTLE >= before[0] && now[1] <= before[1] + LITTLE
    });
    println!("memory: {}", if is_back { "back" } else { "lost" });
}

/// MemFree and AnonPages, in KiB.
fn free() -> [i64; 2] {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    ["MemFree:", "AnonPages:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or(0)
    })
}

unsafe fn map(len: usize, how: i32) -> *mut u8 {
    let rights = PROT_READ | PROT_WRITE;
    let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, how | MAP_ANONYMOUS, -1, 0) };
    assert_ne!(at, MAP_FAILED);
    at.cast()
}

unsafe fn try_all() {
    unsafe {
        let shared: &Shared = &*map(PAGE, MAP_SHARED).cast();
        // Three times the length has room for two places that are aligned to huge pages.
        let room = map(3 * LEN, MAP_PRIVATE);
        libc::munmap(room.cast(), 3 * LEN);
        let first = (room as usize).next_multiple_of(HUGE);
        let places = [first, first + LEN + HUGE];
        let mover = libc::fork();
        if mover == 0 {
            move_about(shared, places);
        }
        while shared.ready.load(SeqCst) == 0 {
            libc::sched_yield();
        }
        let wrong = look(shared, mover, places);
        let mut status = 0;
        libc::waitpid(mover, &mut status, 0);
        tell_end("who moves", status);
        println!("wrong: {} and {}", wrong, shared.wrong.load(SeqCst));
        println!("forks: {}", shared.forks.load(SeqCst) > 0);
    }
}

/// Moves the memory until `stop` is set.
unsafe fn move_about(shared: &'static Shared, places: [usize; 2]) -> ! {
    unsafe {
        let rights = PROT_READ | PROT_WRITE;
        let how = MAP_PRIVATE | MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(places[0] as *mut _, LEN, rights, how, -1, 0);
        libc::madvise(places[0] as *mut _, LEN, libc::MADV_HUGEPAGE);
        for page in 0..PAGES {
            let mut words = [mark(page); WORDS];
            words[1..3].fill(0);
            *((places[0] + page * PAGE) as *mut [u64; WORDS]) = words;
        }
        // Reserves the other place, so that the thread's memory is not mapped there.
        libc::mmap(places[1] as *mut _, LEN, libc::PROT_NONE, how, -1, 0);
        let beside = thread::spawn(move || fork_and_advise(shared, places));
        while shared.forks.load(SeqCst) == 0 {
            libc::sched_yield();
        }
        let (mut at, mut random) = (0, 3);
        while shared.stop.load(SeqCst) == 0 {
            // With one CPU, the other threads must run between the moves, at random points.
            if next(&mut random).is_multiple_of(2) {
                libc::sched_yield();
            }
            let (from, to) = (places[at] as *mut _, places[1 - at] as *mut libc::c_void);
            let kind = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            if libc::mremap(from, LEN, LEN, kind, to) != to {
                shared.wrong.fetch_add(1, SeqCst);
                break;
            }
            at = 1 - at;
            shared.moves.fetch_add(1, SeqCst);
            shared.ready.store(1, SeqCst);
        }
        _ = beside.join();
        shared.stopped.store(1, SeqCst);
        while shared.end.load(SeqCst) == 0 {
            libc::sched_yield();
        }
        libc::_exit(0);
    }
}

/// Gives advice and forks; the child must find all of the memory in one place.
fn fork_and_advise(shared: &Shared, places: [usize; 2]) {
    let mut random = 1;
    while shared.stop.load(SeqCst) == 0 {
        let place = places[next(&mut random) % 2];
        let part = next(&mut random) % (LEN / HUGE) * HUGE;
        let advice = [libc::MADV_COLD, libc::MADV_POPULATE_READ];
        // SAFETY: none of the advice changes the content.
        unsafe {
            let whole = [libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE][next(&mut random) % 2];
            libc::madvise(place as *mut _, LEN, whole);
            let one = advice[next(&mut random) % 2];
            libc::madvise((place + part) as *mut _, HUGE, one);
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(!is_whole(places, &mut random)));
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            if status != 0 {
                shared.wrong.fetch_add(1, SeqCst);
            }
        }
        shared.forks.fetch_add(1, SeqCst);
    }
}

/// Whether this process, which moves nothing, has some pages complete in one place; writes to them.
unsafe fn is_whole(places: [usize; 2], random: &mut usize) -> bool {
    // SAFETY: only system calls read and write.
    unsafe {
        let own = libc::getpid();
        let mut words = Words::default();
        let has = |place| get(own, place, &mut Words::default()) == size_of::<Words>() as isize;
        let place = match places.map(has) {
            [true, false] => places[0],
            [false, true] => places[1],
            _ => return false,
        };
        (0..64).all(|_| {
            let page = next(random) % PAGES;
            let found = get(own, place + page * PAGE, &mut words);
            let is_right = found == size_of::<Words>() as isize && words[0] == mark(page);
            // Writes to another part of the page, which may be checked again.
            is_right && put(own, place + page * PAGE + 32, &words[0]) == 8
        })
    }
}

fn next(random: &mut usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random >> 8
}

fn piece<T>(at: usize) -> libc::iovec {
    libc::iovec {
        iov_base: at as *mut _,
        iov_len: size_of::<T>(),
    }
}

unsafe fn get<T>(process: i32, at: usize, to: &mut T) -> isize {
    let (own, other) = (piece::<T>(ptr::from_mut(to).addr()), piece::<T>(at));
    unsafe { libc::process_vm_readv(process, &own, 1, &other, 1, 0) }
}

unsafe fn put<T>(process: i32, at: usize, from: &T) -> isize {
    let (own, other) = (piece::<T>(ptr::from_ref(from).addr()), piece::<T>(at));
    unsafe { libc::process_vm_writev(process, &own, 1, &other, 1, 0) }
}

/// Reads and writes the memory in both places; returns how often it found wrong data.
unsafe fn look(shared: &Shared, mover: i32, places: [usize; 2]) -> usize {
    unsafe {
        let path = format!("/proc/{mover}/mem\0");
        let file = libc::open(path.as_ptr().cast(), libc::O_RDWR);
        let mut written = vec![[0u64; 2]; PAGES];
        let mut large = vec![0u64; HUGE / 8];
        let (mut wrong, mut random, mut looks, mut found) = (0, 7, 0, [0; 2]);
        while looks < LOOKS || shared.moves.load(SeqCst) < MOVES || found.contains(&0) {
            looks += 1;
            let (which, page) = (next(&mut random) % 2, next(&mut random) % PAGES);
            let at = places[which] + page * PAGE;
            let word = looks as u64;
            let mut words = Words::default();
            let (done, whole, missing) = match looks % 4 {
                0 => (get(mover, at, &mut words), 24, EFAULT),
                1 => (put(mover, at + 8, &word), 8, EFAULT),
                2 => {
                    let to = words.as_mut_ptr().cast();
                    (libc::pread(file, to, 24, at as i64), 24, EIO)
                }
                _ => {
                    let from = (&raw const word).cast();
                    (libc::pwrite(file, from, 8, at as i64 + 16), 8, EIO)
                }
            };
            let mut wrong_if = |is_wrong: bool, what: &dyn Debug| {
                if is_wrong {
                    wrong += 1;
                    println!("look {looks} at page {page} of {which}: {done}, {what:x?}");
                }
            };
            if done < 0 {
                let error = Error::last_os_error();
                wrong_if(error.raw_os_error() != Some(missing), &error);
                continue;
            }
            found[which] += 1;
            let [one, other] = &mut written[page];
            match looks % 4 {
                1 => *one = word,
                3 => *other = word,
                _ => {
                    let right = [mark(page), *one, *other];
                    wrong_if(words != right, &(words, right));
                }
            }
            wrong_if(done != whole, &"in part");
            if looks % 16 == 0 {
                let start = page / (HUGE / PAGE) * HUGE;
                let to = libc::iovec {
                    iov_base: large.as_mut_ptr().cast(),
                    iov_len: HUGE,
                };
                let other = libc::iovec {
                    iov_base: (places[which] + start) as *mut _,
                    iov_len: HUGE,
                };
                let len = libc::process_vm_readv(mover, &to, 1, &other, 1, 0).max(0) as usize;
                let read = large[..len / 8].chunks_exact(PAGE / 8).enumerate();
                for (at, read) in read {
                    let right = mark(start / PAGE + at);
                    wrong_if(read[0] != right, &(at, read[0], right));
                }
            }
        }
        shared.stop.store(1, SeqCst);
        while shared.stopped.load(SeqCst) == 0 {
            libc::sched_yield();
        }
        println!("found at both: {}", found.iter().all(|&times| times > 0));
        for (page, [one, other]) in written.iter().enumerate() {
            let mut words = [0; WORDS];
            let places = places.map(|place| get(mover, place + page * PAGE, &mut words) > 0);
            let mut right = [mark(page); WORDS];
            right[1..3].copy_from_slice(&[*one, *other]);
            let differs = words
                .iter()
                .zip(&right)
                .position(|(word, right)| word != right);
            if places[0] == places[1] || differs.is_some() {
                wrong += 1;
                let at = differs.unwrap_or(0);
                let (found, right) = (words[at], right[at]);
                println!("page {page} at the end: {places:?}, {found:x} for {right:x} at {at}");
            }
        }
        shared.end.store(1, SeqCst);
        libc::close(file);
        wrong
    }
}
