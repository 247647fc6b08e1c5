//! Long calls: other processes run meanwhile, although there is only one CPU.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{mem, ptr, thread};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, MREMAP_DONTUNMAP,
    MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE, SIGKILL, c_void,
};

use super::become_user;
use crate::{in_child, tell, tell_end};

const PAGE: usize = 4096;
const LEN: usize = 256 << 20;
/// A smaller length, which is still copied in parts.
const SOME: usize = 96 << 20;
/// The time that the other process sleeps between two turns.
const BETWEEN: Duration = Duration::from_micros(50);
/// One turn may precede a call, and one may follow it.
const FEW: u32 = 2;
const ROUNDS: usize = 5;
/// How long to try for a turn, in calls that each last some milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of pages that are written during a move, and of the values written in turn.
const WRITTEN: usize = 256;
const NUMBERS: usize = 4093;
static ALL: u64 = !0;

fn map(len: usize, rights: i32, flags: i32) -> *mut c_void {
    let flags = flags | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a mapping of this part.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
    assert!(at != MAP_FAILED, "{}", crate::error());
    at
}

/// Maps small pages, all of which were read and one of which was written.
fn populated(len: usize) -> *mut c_void {
    let at = map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    // SAFETY: this function's own mapping.
    unsafe {
        libc::madvise(at, len, libc::MADV_NOHUGEPAGE);
        assert!(libc::madvise(at, len, libc::MADV_POPULATE_READ) == 0);
        at.cast::<u8>().write_volatile(1);
    }
    at
}

/// Prints whether the other process has turns during a call. If the emulator's clock gets no time
/// of the host during one call, as beside other emulators, it does during another.
fn turns(what: &str, turns: &AtomicU32, mut call: impl FnMut()) {
    let begun = Instant::now();
    let mut has_turns = false;
    while !has_turns && begun.elapsed() < PATIENCE {
        let before = turns.load(SeqCst);
        call();
        has_turns = turns.load(SeqCst) - before > FEW;
    }
    println!("{what}: {has_turns}");
}

/// An address to which memory at `old` can move and whose offset in its last-level table differs:
/// `place`, or the page after it.
fn target(place: *mut c_void, old: usize) -> *mut c_void {
    let same = place.addr() % (2 << 20) == old % (2 << 20);
    place.wrapping_byte_add(if same { PAGE } else { 0 })
}

/// Moves the memory to an address with another offset in its last-level table.
fn moves(count: &AtomicU32) {
    let old = populated(LEN);
    let place = map(LEN + 2 * PAGE, PROT_NONE, MAP_PRIVATE);
    let (mut at, mut room) = (old, target(place, old.addr()));
    let mut moves = |flags| {
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED | flags;
        // SAFETY: moves to addresses that this function reserved.
        assert!(unsafe { libc::mremap(at, LEN, LEN, flags, room) } == room);
        mem::swap(&mut at, &mut room);
    };
    turns("a move", count, || moves(0));
    turns("a move that leaves the mapping", count, || {
        moves(MREMAP_DONTUNMAP)
    });
    // SAFETY: the memory is mapped.
    tell("the first byte", unsafe { at.cast::<u8>().read() });
}

/// Writes by a thread to the old address during a move are found at the new one.
fn writes(_count: &AtomicU32) {
    const STEP: usize = LEN / WRITTEN;
    let numbers: Vec<u64> = (1..=NUMBERS as u64).collect();
    let old = populated(LEN).addr();
    // SAFETY: this function's own descriptors and memory; the kernel writes only to mapped
    // addresses.
    unsafe {
        let file = libc::memfd_create(c"numbers".as_ptr(), 0);
        let bytes = 8 * NUMBERS;
        assert!(libc::write(file, numbers.as_ptr().cast(), bytes) == bytes as isize);
        libc::sched_setaffinity(0, 8, (&raw const ALL).cast());
        let begun = AtomicU32::new(0);
        let (to, written) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = [0; WRITTEN];
                for number in 0.. {
                    let (page, index) = (number % WRITTEN, number % NUMBERS);
                    let at = (old + page * STEP) as *mut c_void;
                    if libc::pread(file, at, 8, 8 * index as i64) != 8 {
                        break;
                    }
                    written[page] = numbers[index];
                    begun.store(1, SeqCst);
                }
                written
            });
            while begun.load(SeqCst) == 0 {
                thread::yield_now();
            }
            let to = target(map(LEN + 2 * PAGE, PROT_NONE, MAP_PRIVATE), old);
            let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
            assert!(libc::mremap(old as *mut c_void, LEN, LEN, flags, to) == to);
            (to, writer.join().unwrap_or([0; WRITTEN]))
        });
        let found = |page: usize| to.wrapping_byte_add(page * STEP).cast::<u64>().read();
        let lost = (1..WRITTEN).filter(|&page| found(page) != written[page]);
        tell("lost on the way", lost.count() as i64);
    }
}

/// Forks while another thread sleeps.
fn forks(count: &AtomicU32) {
    populated(LEN);
    thread::spawn(|| thread::sleep(Duration::from_secs(600)));
    turns("a child beside a thread", count, || {
        assert!(in_child(|| ()) == 0);
    });
}

/// A child that sees an address that a thread has stored has the mapping too, which is older.
fn maps(_count: &AtomicU32) {
    const WORD: u64 = 0x0123_4567_89ab_cdef;
    // Above the rest, so that a child's copy of it is made late.
    let place: &AtomicPtr<u64> =
        // SAFETY: the mapping stays.
        unsafe { &*map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE).cast() };
    let next = move || {
        let at: *mut u64 = map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE).cast();
        // SAFETY: this function's own page; nobody uses the one before it any more.
        unsafe {
            at.write_volatile(WORD);
            let before = place.swap(at, SeqCst);
            libc::munmap(before.cast(), PAGE);
        }
    };
    next();
    populated(LEN);
    // SAFETY: any CPU is allowed.
    unsafe { libc::sched_setaffinity(0, 8, (&raw const ALL).cast()) };
    thread::spawn(move || {
        loop {
            next();
        }
    });
    let finds = || {
        let mut word = 0u64;
        let piece = |at: *mut u64| libc::iovec {
            iov_base: at.cast(),
            iov_len: 8,
        };
        let (to, from) = (piece(&mut word), piece(place.load(SeqCst)));
        // SAFETY: the kernel checks the address; there is room for the word.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        assert!(read == 8 && word == WORD);
    };
    let lost = (0..ROUNDS).filter(|_| in_child(finds) != 0);
    tell("not found by children", lost.count() as i64);
}

/// A child that sees a thread's note that it discarded a page does not have the page.
fn discards(_count: &AtomicU32) {
    let page = || map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    // Above the rest, so that a child's copy of it is made late. SAFETY: the mapping stays.
    let discarded: &AtomicU32 = unsafe { &*page().cast() };
    populated(LEN);
    let low = page();
    // SAFETY: any CPU is allowed; the page stays.
    let word: &AtomicU32 = unsafe {
        libc::sched_setaffinity(0, 8, (&raw const ALL).cast());
        &*low.cast()
    };
    let address = low.addr();
    thread::spawn(move || {
        loop {
            discarded.store(0, SeqCst);
            word.store(1, SeqCst);
            // SAFETY: nobody else uses the page.
            unsafe { libc::madvise(address as *mut c_void, PAGE, libc::MADV_DONTNEED) };
            discarded.store(1, SeqCst);
        }
    });
    let finds = || assert!(discarded.load(SeqCst) == 0 || word.load(SeqCst) == 0);
    let found = (0..ROUNDS).filter(|_| in_child(finds) != 0);
    tell("found by children", found.count() as i64);
}

/// An exec ends a thread that waits for its fork, and not the program.
fn execs(_count: &AtomicU32) {
    let replaced = || {
        let at = populated(SOME).addr();
        // SAFETY: any CPU is allowed.
        unsafe { libc::sched_setaffinity(0, 8, (&raw const ALL).cast()) };
        thread::spawn(|| {
            loop {
                in_child(|| ());
            }
        });
        thread::spawn(move || {
            for page in (0..SOME / PAGE).cycle() {
                let page = (at + page * PAGE) as *mut u8;
                // SAFETY: this function's own memory.
                unsafe { page.write_volatile(2) };
            }
        });
        thread::sleep(Duration::from_millis(100));
        let words = [c"abi", c"exec"].map(|word| word.as_ptr());
        let words = [words[0], words[1], ptr::null()];
        // SAFETY: the array of strings ends with a null pointer.
        unsafe { libc::execv(c"/proc/self/exe".as_ptr(), words.as_ptr()) };
    };
    let killed = (0..ROUNDS).filter(|_| in_child(replaced) != 0);
    tell("killed by their exec", killed.count() as i64);
}

/// Runs this part.
pub fn run() {
    // SAFETY: all pointers are to live values, and all processes share the page.
    unsafe {
        let mut one: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(0, &mut one);
        tell(
            "one CPU",
            libc::sched_setaffinity(0, size_of_val(&one), &one),
        );
        let count: &AtomicU32 = &*map(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED).cast();
        let other = libc::fork();
        if other == 0 {
            // musl does not implement sched_setscheduler(3).
            libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &1);
            loop {
                thread::sleep(BETWEEN);
                count.fetch_add(1, SeqCst);
            }
        }
        for part in [moves, writes, forks, maps, discards, execs] {
            let status = in_child(|| {
                become_user();
                part(count);
            });
            tell_end("the user", status);
        }
        libc::kill(other, SIGKILL);
    }
}
