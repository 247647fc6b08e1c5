//! Huge pages of private memory: operations on a part of one leave the rest unchanged.

use std::os::fd::FromRawFd;
use std::{fs, io, ptr, slice, thread};

use libc::{
    MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE,
    MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE,
};

use crate::{in_child, smaps, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;
const BOTH: i32 = PROT_READ | PROT_WRITE;

/// Reserves addresses, in whole huge pages.
fn room(pages: usize) -> *mut u8 {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let start = unsafe { libc::mmap(ptr::null_mut(), (pages + 2) * HUGE, PROT_NONE, flags, -1, 0) };
    start
        .cast::<u8>()
        .map_addr(|start| (start + 1).next_multiple_of(HUGE))
}

/// Maps private memory there, with or without huge pages.
fn map(start: *mut u8, pages: usize, advice: i32) {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    // SAFETY: in reserved addresses that nothing else uses.
    unsafe {
        libc::mmap(start.cast(), pages * HUGE, BOTH, flags, -1, 0);
        tell("advice", libc::madvise(start.cast(), pages * HUGE, advice));
    }
}

/// Writes its number into each page.
fn mark(start: *mut u8, pages: usize) {
    for page in 0..pages {
        // SAFETY: in the mapping.
        unsafe {
            start
                .add(page * PAGE)
                .cast::<u32>()
                .write_volatile(page as u32 + 1)
        };
    }
}

/// The number of pages that hold their number, and of those that hold zero.
fn count(start: *const u8, pages: usize) -> (usize, usize) {
    // SAFETY: in the mapping.
    let number = |page: usize| unsafe { start.add(page * PAGE).cast::<u32>().read_volatile() };
    let marked = (0..pages).filter(|page| number(*page) == *page as u32 + 1);
    let zero = (0..pages).filter(|page| number(*page) == 0);
    (marked.count(), zero.count())
}

/// Runs this part.
pub fn run() {
    let pages = 4 * HUGE / PAGE;
    let start = room(4);
    let huge = |what: &str| println!("{what}: {}", smaps(start, "AnonHugePages:"));
    map(start, 4, MADV_HUGEPAGE);
    huge("at first");
    for place in 0..4 {
        // SAFETY: in the mapping.
        unsafe { start.add(place * HUGE + 5 * PAGE).write_volatile(0) };
    }
    huge("a byte in each written");
    println!("resident: {}", smaps(start, "Rss:"));
    mark(start, pages);
    println!("marked and zero: {:?}", count(start, pages));
    let mut present = vec![0; pages];
    // SAFETY: the mapping, and a byte for each of its pages.
    unsafe {
        tell(
            "mincore",
            libc::mincore(start.cast(), pages * PAGE, present.as_mut_ptr()),
        )
    };
    println!(
        "present: {}",
        present.iter().filter(|page| **page & 1 == 1).count()
    );

    // SAFETY: parts of the mapping.
    unsafe {
        let one = start.add(HUGE + 9 * PAGE);
        tell("mprotect", libc::mprotect(one.cast(), PAGE, PROT_READ));
        tell_end(
            "write beside it",
            in_child(|| one.add(PAGE).write_volatile(7)),
        );
        tell_end("write to it", in_child(|| one.write_volatile(7)));
        tell("mprotect", libc::mprotect(one.cast(), PAGE, BOTH));
        println!("marked and zero: {:?}", count(start, pages));
        tell(
            "DONTNEED",
            libc::madvise(
                start.add(2 * HUGE + 100 * PAGE).cast(),
                10 * PAGE,
                MADV_DONTNEED,
            ),
        );
        println!("marked and zero: {:?}", count(start, pages));
        tell(
            "DONTNEED",
            libc::madvise(start.add(3 * HUGE).cast(), HUGE, MADV_DONTNEED),
        );
        println!("marked and zero: {:?}", count(start, pages));
    }
    mark(start, pages);
    let status = in_child(|| {
        let before = count(start, pages);
        // SAFETY: in the mapping.
        (0..pages).for_each(|page| unsafe { start.add(page * PAGE).write_volatile(0xee) });
        println!("the child: {before:?}, then {:?}", count(start, pages));
    });
    tell_end("child", status);
    println!("the parent: {:?}", count(start, pages));

    files(start);
    moved(start, pages);
    moved_whole();
    together();
    without();
}

/// System calls that read and write across the border of two huge pages.
fn files(start: *mut u8) {
    let (mut ends, border) = ([0; 2], start.wrapping_add(2 * HUGE - 3));
    // SAFETY: bytes of the mapping, and an array of two descriptors.
    unsafe {
        tell("pipe", libc::pipe(ends.as_mut_ptr()));
        tell("write", libc::write(ends[1], border.cast(), 6) as i64);
        border.write_bytes(0, 6);
        tell("read", libc::read(ends[0], border.cast(), 6) as i64);
        println!("{:?}", slice::from_raw_parts(border, 6));
        drop(ends.map(|end| fs::File::from_raw_fd(end)));
    }
    let mut bytes = [0; 6];
    let read = fs::File::open("/proc/self/mem").and_then(|file| {
        io::Seek::seek(&mut &file, io::SeekFrom::Start(border as u64))?;
        io::Read::read(&mut &file, &mut bytes)
    });
    println!("{:?} {bytes:?}", read.ok());
}

/// Moves a part that begins and ends inside huge pages.
fn moved(start: *mut u8, pages: usize) {
    let (target, part) = (room(4), start.wrapping_add(HUGE / 2));
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    // SAFETY: moves a part of the mapping to reserved addresses; then unmaps all.
    unsafe {
        let moved = libc::mremap(part.cast(), 2 * HUGE, 2 * HUGE, flags, target);
        tell_ok("mremap", moved == target.cast());
        let number = |page: usize| target.add(page * PAGE).cast::<u32>().read_volatile();
        let right = (0..2 * HUGE / PAGE).filter(|page| number(*page) == (page + 257) as u32);
        println!("moved right: {}", right.count());
        println!("left: {:?}", count(start, HUGE / 2 / PAGE));
        tell("munmap", libc::munmap(start.cast(), pages * PAGE));
        tell("munmap", libc::munmap(target.cast(), 2 * HUGE));
    }
}

/// Moves whole huge pages, one of them split, to aligned addresses, and most of them back.
fn moved_whole() {
    let (start, target) = (room(3), room(3));
    map(start, 3, MADV_HUGEPAGE);
    let pages = 3 * HUGE / PAGE;
    mark(start, pages);
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    // SAFETY: the mapping, and reserved addresses that nothing else uses.
    unsafe {
        let piece = start.add(HUGE + PAGE).cast();
        tell("mprotect", libc::mprotect(piece, PAGE, PROT_READ));
        tell("mprotect", libc::mprotect(piece, PAGE, BOTH));
        let moved = libc::mremap(start.cast(), 3 * HUGE, 3 * HUGE, flags, target);
        tell_ok("mremap", moved == target.cast());
        println!("moved whole: {:?}", count(target, pages));
        mark(target, pages);
        // All but the first and last page, so that the tables at the ends stay in use.
        let (back, bytes) = (start.add(PAGE), 3 * HUGE - 2 * PAGE);
        let moved = libc::mremap(target.add(PAGE).cast(), bytes, bytes, flags, back);
        tell_ok("mremap", moved == back.cast());
        let number = |page: usize| back.add(page * PAGE).cast::<u32>().read_volatile();
        let right = (0..pages - 2).filter(|page| number(*page) == *page as u32 + 2);
        println!("moved back: {}", right.count());
        println!("first: {:?}", count(target, 1));
        let last = target.add((pages - 1) * PAGE).cast::<u32>();
        tell_ok("last", last.read_volatile() == pages as u32);
        let flags = flags | libc::MREMAP_DONTUNMAP;
        let moved = libc::mremap(back.add(HUGE - PAGE).cast(), HUGE, HUGE, flags, room(1));
        tell_ok("mremap", moved != libc::MAP_FAILED);
        let kept = count(start.add(HUGE), HUGE / PAGE);
        println!("kept empty: {kept:?}");
        tell("munmap", libc::munmap(start.cast(), 3 * HUGE));
        tell("munmap", libc::munmap(target.cast(), 3 * HUGE));
    }
}

/// Threads that fault on one huge page at once.
fn together() {
    const THREADS: usize = 4;
    for round in 0..8 {
        let start = room(1);
        map(start, 1, MADV_HUGEPAGE);
        let address = start.expose_provenance();
        let work = |thread: usize| {
            move || {
                for page in (thread..HUGE / PAGE).step_by(THREADS) {
                    // SAFETY: no other thread writes these pages.
                    unsafe {
                        let at = ptr::with_exposed_provenance_mut::<u32>(address + page * PAGE);
                        at.write_volatile(page as u32 + 1);
                    }
                }
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| thread::spawn(work(thread)))
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("it writes"));
        println!("round {round}: {:?}", count(start, HUGE / PAGE));
        // SAFETY: unmaps the mapping.
        unsafe { libc::munmap(start.cast(), HUGE) };
    }
}

/// Memory with MADV_NOHUGEPAGE.
fn without() {
    let start = room(1);
    map(start, 1, MADV_NOHUGEPAGE);
    mark(start, 1);
    println!(
        "{} of {}",
        smaps(start, "AnonHugePages:"),
        smaps(start, "Rss:")
    );
}
