//! Contiguous pages, of files and of populated memory: a change of one page leaves the pages around
//! it unchanged.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::{fs, io, ptr};

use libc::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_NONE, PROT_READ, PROT_WRITE, c_int,
};

use crate::{in_child, smaps, tell, tell_end};

const PAGE: usize = 4096;
const RUN: usize = 16;
const PAGES: usize = 4 * RUN;
const BOTH: c_int = PROT_READ | PROT_WRITE;

/// A file whose pages begin with their numbers, written in one call.
fn file(name: &str) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    let file = options.read(true).write(true).create(true).truncate(true);
    let file = file.open(name)?;
    let mut bytes = vec![0; PAGES * PAGE];
    for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
        page[0] = number as u8 + 1;
    }
    file.write_all_at(&bytes, 0)?;
    Ok(file)
}

/// Maps the file at an address where runs begin.
fn map(file: &fs::File, rights: c_int, flags: c_int) -> *mut u8 {
    let anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    let len = (PAGES + RUN) * PAGE;
    // SAFETY: new mappings, the second inside the first.
    unsafe {
        let room = libc::mmap(ptr::null_mut(), len, PROT_NONE, anonymous, -1, 0);
        let start = room.map_addr(|start| start.next_multiple_of(RUN * PAGE));
        let (flags, file) = (flags | MAP_FIXED, file.as_raw_fd());
        libc::mmap(start, PAGES * PAGE, rights, flags, file, 0).cast()
    }
}

fn page(start: *mut u8, number: usize) -> *mut u8 {
    start.wrapping_add(number * PAGE)
}

fn touch(page: *mut u8) {
    // SAFETY: if the page is not mapped, the caller expects the fault.
    unsafe { crate::touch(page) };
}

/// The pages, of the given ones, that do not begin with their number, and what they begin with.
fn others(start: *mut u8, pages: impl IntoIterator<Item = usize>) -> Vec<(usize, u8)> {
    // SAFETY: the caller has mapped them.
    let byte = |number| unsafe { page(start, number).read_volatile() };
    let pages = pages.into_iter().map(|number| (number, byte(number)));
    pages
        .filter(|(number, byte)| *byte != *number as u8 + 1)
        .collect()
}

fn present(start: *mut u8) -> usize {
    let mut answer = [0; PAGES];
    // SAFETY: the mapping, and a byte for each of its pages.
    unsafe { libc::mincore(start.cast(), PAGES * PAGE, answer.as_mut_ptr()) };
    answer.iter().filter(|page| **page & 1 == 1).count()
}

/// Runs this part.
pub fn run() {
    if let Err(error) = all() {
        println!("no file: {error}");
    }
}

fn all() -> io::Result<()> {
    let own = file("runs")?;
    let start = map(&own, PROT_READ, MAP_PRIVATE);
    touch(page(start, 3));
    println!("resident after a read: {}", smaps(start, "Rss:"));
    println!("others: {:?}", others(start, 0..PAGES));
    println!(
        "resident: {}, present: {}",
        smaps(start, "Rss:"),
        present(start)
    );
    // SAFETY: pages of the mapping.
    unsafe {
        tell(
            "mprotect",
            libc::mprotect(page(start, 5).cast(), PAGE, BOTH),
        );
        page(start, 5).write_volatile(105);
        tell_end(
            "written beside it",
            in_child(|| page(start, 6).write_volatile(0)),
        );
        println!("others: {:?}", others(start, 0..PAGES));
        println!("the file's: {}", at(&own, 5)?);
        tell("munmap", libc::munmap(page(start, 20).cast(), PAGE));
        tell_end("unmapped", in_child(|| touch(page(start, 20))));
        println!(
            "others: {:?}",
            others(start, (0..PAGES).filter(|page| *page != 20))
        );
        tell(
            "DONTNEED",
            libc::madvise(page(start, 40).cast(), PAGE, MADV_DONTNEED),
        );
        tell(
            "DONTNEED",
            libc::madvise(page(start, 5).cast(), PAGE, MADV_DONTNEED),
        );
        println!(
            "others: {:?}",
            others(start, (0..PAGES).filter(|page| *page != 20))
        );
    }
    forked(&own);
    moved(&own);
    shared()?;
    cut()?;
    populated();
    huge();
    Ok(())
}

/// Maps private memory at an address that is a multiple of `unit`, and writes their numbers into
/// its pages.
fn private(unit: usize, len: usize, flags: c_int) -> *mut u8 {
    let anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    // SAFETY: new mappings, the second inside the first.
    let start = unsafe {
        let room = libc::mmap(ptr::null_mut(), len + unit, PROT_NONE, anonymous, -1, 0);
        let start = room.map_addr(|start| start.next_multiple_of(unit));
        libc::mmap(start, len, BOTH, anonymous | MAP_FIXED | flags, -1, 0).cast()
    };
    println!(
        "resident: {}, present: {}",
        smaps(start, "Rss:"),
        present(start)
    );
    for number in 0..PAGES {
        // SAFETY: in the mapping.
        unsafe { page(start, number).write_volatile(number as u8 + 1) };
    }
    start
}

fn populated() {
    let len = PAGES * PAGE;
    // Only touched pages are present.
    let start = private(RUN * PAGE, len, 0);
    // SAFETY: the mapping.
    tell("munmap", unsafe { libc::munmap(start.cast(), len) });
    let start = private(RUN * PAGE, len, libc::MAP_POPULATE);
    change(start);
    // SAFETY: the mapping.
    tell("munmap", unsafe { libc::munmap(start.cast(), len) });
    let start = private(RUN * PAGE, len, 0);
    // SAFETY: parts of the mapping.
    unsafe {
        let (part, size) = (page(start, RUN / 2).cast(), 2 * RUN * PAGE);
        tell("DONTNEED", libc::madvise(part, size, MADV_DONTNEED));
        tell(
            "populate",
            libc::madvise(part, size, libc::MADV_POPULATE_WRITE),
        );
    }
    println!("resident: {}", smaps(start, "Rss:"));
    let kept = (0..RUN / 2).chain(5 * RUN / 2..PAGES);
    println!("others: {:?}", others(start, kept));
    println!(
        "zero: {}",
        others(start, RUN / 2..5 * RUN / 2)
            .iter()
            .all(|(_, byte)| *byte == 0)
    );
}

/// Changes single pages of the first runs, and forks.
fn change(start: *mut u8) {
    // SAFETY: pages of the mapping.
    unsafe {
        tell(
            "mprotect",
            libc::mprotect(page(start, 5).cast(), PAGE, PROT_READ),
        );
        tell_end("protected", in_child(|| page(start, 5).write_volatile(0)));
        page(start, 6).write_volatile(7);
        println!("others: {:?}", others(start, 0..PAGES));
        tell("munmap", libc::munmap(page(start, 20).cast(), PAGE));
        tell_end("unmapped", in_child(|| touch(page(start, 20))));
        let discarded = libc::madvise(page(start, 40).cast(), PAGE, MADV_DONTNEED);
        tell("DONTNEED", discarded);
    }
    println!(
        "others: {:?}",
        others(start, (0..PAGES).filter(|page| *page != 20))
    );
    let end = in_child(|| {
        // SAFETY: in the mapping.
        unsafe { page(start, 60).write_volatile(160) };
        println!("the child: {:?}", others(start, 41..PAGES));
    });
    tell_end("child", end);
    // SAFETY: in the mapping.
    unsafe { page(start, 62).write_volatile(162) };
    println!("after fork: {:?}", others(start, 41..PAGES));
}

fn huge() {
    const HUGE: usize = 2 << 20;
    let anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    // SAFETY: new mappings, the second inside the first.
    let start: *mut u8 = unsafe {
        let room = libc::mmap(ptr::null_mut(), 2 * HUGE, PROT_NONE, anonymous, -1, 0);
        let start = room.map_addr(|start| start.next_multiple_of(HUGE));
        libc::mmap(start, HUGE, BOTH, anonymous | MAP_FIXED, -1, 0).cast()
    };
    // SAFETY: the mapping.
    tell("HUGEPAGE", unsafe {
        libc::madvise(start.cast(), HUGE, libc::MADV_HUGEPAGE)
    });
    for number in 0..HUGE / PAGE {
        // SAFETY: in the mapping.
        unsafe { page(start, number).write_volatile((number as u8).wrapping_add(1)) };
    }
    change(start);
    println!("{:?}", others(start, PAGES..2 * PAGES));
}

/// The first byte of a page in the file itself.
fn at(file: &fs::File, number: usize) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, (number * PAGE) as u64)?;
    Ok(byte[0])
}

fn forked(file: &fs::File) {
    let start = map(file, BOTH, MAP_PRIVATE);
    println!("before fork: {:?}", others(start, 0..PAGES));
    let end = in_child(|| {
        // SAFETY: in the mapping.
        unsafe { page(start, 33).write_volatile(133) };
        println!("the child: {:?}", others(start, 0..PAGES));
    });
    tell_end("child", end);
    // SAFETY: in the mapping.
    unsafe { page(start, 35).write_volatile(135) };
    println!("after fork: {:?}", others(start, 0..PAGES));
}

fn moved(file: &fs::File) {
    let start = map(file, PROT_READ, MAP_PRIVATE);
    println!("before: {:?}", others(start, 0..PAGES));
    let target = map(file, PROT_READ, MAP_PRIVATE);
    // SAFETY: parts of two mappings.
    unsafe {
        let (old, new) = (page(start, 24).cast(), page(target, 4).cast());
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
        println!(
            "{}",
            libc::mremap(old, 16 * PAGE, 16 * PAGE, flags, new) == new
        );
    }
    println!("left: {:?}", others(start, (0..24).chain(40..PAGES)));
    tell_end("moved", in_child(|| touch(page(start, 24))));
    println!("there: {:?}", others(target, 0..PAGES));
}

fn shared() -> io::Result<()> {
    let own = file("shared-runs")?;
    let start = map(&own, BOTH, MAP_SHARED);
    println!("shared: {:?}", others(start, 0..PAGES));
    // SAFETY: in the mapping.
    unsafe {
        page(start, 7).write_volatile(107);
        println!("the file's: {}", at(&own, 7)?);
        tell(
            "mprotect",
            libc::mprotect(page(start, 8).cast(), PAGE, PROT_READ),
        );
        tell_end("protected", in_child(|| page(start, 8).write_volatile(0)));
        tell_end("beside it", in_child(|| page(start, 9).write_volatile(109)));
    }
    println!("others: {:?}", others(start, 0..PAGES));
    Ok(())
}

fn cut() -> io::Result<()> {
    let own = file("cut-runs")?;
    let start = map(&own, PROT_READ, MAP_PRIVATE);
    println!("whole: {:?}", others(start, 0..PAGES));
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the call takes only numbers.
    let punched = unsafe { libc::fallocate(own.as_raw_fd(), hole, 9 * PAGE as i64, PAGE as i64) };
    tell("a hole", punched);
    println!("others: {:?}", others(start, 0..PAGES));
    own.set_len(37 * PAGE as u64)?;
    println!("cut: {:?}", others(start, 0..37));
    tell_end("behind it", in_child(|| touch(page(start, 37))));
    own.set_len((PAGES * PAGE) as u64)?;
    println!("long again: {:?}", others(start, 0..37));
    println!(
        "zero: {}",
        others(start, 37..PAGES).iter().all(|(_, byte)| *byte == 0)
    );
    Ok(())
}
