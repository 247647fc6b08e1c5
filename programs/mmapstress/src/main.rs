//! `mmapstress [PROCESSES [ROUNDS]]`: processes map random parts of one file, write to the pages
//! that they own, check the pages of others, grow the file, and unmap again, in whole and in parts.
//! At the end all pages must hold what was written last. This is the idea of LTP's `mmapstress01`;
//! the output does not depend on the order of execution.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::exit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const PAGE: usize = 4096;
/// Words of a page that are written and checked: with all of them this would test `memset`.
const WORDS: usize = 16;
/// Pages at the beginning.
const FIRST_PAGES: usize = 64;
/// The maximum number of pages.
const MOST_PAGES: usize = 1024;
/// The maximum number of pages in one mapping.
const WINDOW: usize = 32;

fn main() -> io::Result<()> {
    let mut numbers = env::args().skip(1).map(|word| word.parse().ok());
    let processes = numbers.next().flatten().unwrap_or(20);
    let rounds = numbers.next().flatten().unwrap_or(100);
    let path = "mmapstress.data";
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.set_len((FIRST_PAGES * PAGE) as u64)?;
    // The expected content of each page: its owner increments this count before it writes the page.
    let counts = map(-1, 0, MOST_PAGES * size_of::<u32>())?;
    // SAFETY: shared memory of that size, zeroed, which stays mapped.
    let counts = unsafe { std::slice::from_raw_parts(counts.cast::<AtomicU32>(), MOST_PAGES) };
    let children: Vec<i32> = (0..processes)
        .map(|own| {
            // SAFETY: this process has one thread.
            match unsafe { libc::fork() } {
                0 => match (Process {
                    own,
                    processes,
                    file: &file,
                    counts,
                })
                .run(rounds)
                {
                    Ok(()) => exit(0),
                    Err(error) => {
                        eprintln!("process {own}: {error}");
                        exit(1)
                    }
                },
                child => child,
            }
        })
        .collect();
    let mut failed = 0;
    for child in children {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        failed +=
            usize::from(unsafe { libc::waitpid(child, &mut status, 0) } != child || status != 0);
    }
    let pages = file.metadata()?.len() as usize / PAGE;
    let wrong = (0..pages)
        .filter(|&page| !holds(&file, page, counts[page].load(Relaxed)))
        .count();
    fs::remove_file(path)?;
    println!("{processes} processes, {failed} failed; {pages} pages, {wrong} wrong");
    exit(i32::from(failed + wrong > 0))
}

/// True if read(2) finds in the file's page what its owner wrote last.
fn holds(file: &File, page: usize, count: u32) -> bool {
    let mut bytes = [0; PAGE];
    file.read_exact_at(&mut bytes, (page * PAGE) as u64).is_ok()
        && (0..WORDS).all(|word| bytes[place(word)..][..4] == content(page, count).to_ne_bytes())
}

/// The offset in a page of a word.
const fn place(word: usize) -> usize {
    word * (PAGE / WORDS)
}

/// The words of a page after `count` writes.
fn content(page: usize, count: u32) -> u32 {
    if count == 0 {
        0
    } else {
        (page as u32) << 16 | count & 0xffff
    }
}

/// Maps shared memory: of a file, or anonymous (`fd` −1).
fn map(fd: i32, offset: usize, len: usize) -> io::Result<*mut u8> {
    let flags = libc::MAP_SHARED | if fd < 0 { libc::MAP_ANONYMOUS } else { 0 };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            rights,
            flags,
            fd,
            offset as libc::off_t,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start.cast())
}

/// SplitMix64 (Steele and others).
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % end as u64) as usize
    }
}

/// One of the processes: it owns every page whose number modulo their count is `own`.
struct Process<'a> {
    own: usize,
    processes: usize,
    file: &'a File,
    counts: &'a [AtomicU32],
}

impl Process<'_> {
    fn run(&self, rounds: usize) -> io::Result<()> {
        let mut random = Random(self.own as u64);
        for _ in 0..rounds {
            if random.below(8) == 0 {
                self.grow(&mut random)?;
            }
            self.visit(&mut random)?;
        }
        Ok(())
    }

    /// Writes a zero byte to one of its own pages, perhaps beyond the end. The file never shrinks.
    fn grow(&self, random: &mut Random) -> io::Result<()> {
        let page = random.below(MOST_PAGES / self.processes) * self.processes + self.own;
        let last = page * PAGE + PAGE - 1;
        self.file.write_all_at(&[0], last as u64)
    }

    /// Maps a part of the file, uses some of its pages, and unmaps it.
    fn visit(&self, random: &mut Random) -> io::Result<()> {
        let (first, len, cut) = (
            random.below(1 << 20),
            random.below(WINDOW),
            random.below(WINDOW),
        );
        let uses: Vec<usize> = (0..8).map(|_| random.below(WINDOW)).collect();
        let pages = self.file.metadata()?.len() as usize / PAGE;
        let first = first % pages;
        let len = (len + 1).min(pages - first);
        let start = map(self.file.as_raw_fd(), first * PAGE, len * PAGE)?;
        for index in uses.iter().map(|place| place % len) {
            // SAFETY: a page of the mapping, which the file holds.
            self.use_page(first + index, unsafe { start.add(index * PAGE) })?;
        }
        let cut = cut % len;
        for (from, to) in [(cut, len), (0, cut)] {
            // SAFETY: a part of the mapping, which is no longer used.
            if from < to
                && unsafe { libc::munmap(start.add(from * PAGE).cast(), (to - from) * PAGE) } != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Checks a page, and writes it if this process owns it.
    fn use_page(&self, page: usize, start: *mut u8) -> io::Result<()> {
        // SAFETY: the page is mapped, its words are aligned, and all processes use them as atomics.
        let word = |index| unsafe { AtomicU32::from_ptr(start.add(place(index)).cast()) };
        let count = self.counts[page].load(Relaxed);
        let own = page % self.processes == self.own;
        for index in 0..WORDS {
            let found = word(index).load(Relaxed);
            let right = if own {
                found == content(page, count)
            } else {
                found == 0 || found >> 16 == page as u32
            };
            if !right {
                return Err(io::Error::other(format!(
                    "page {page} holds {found:#x} after {count} writes"
                )));
            }
        }
        if own {
            self.counts[page].store(count + 1, Relaxed);
            (0..WORDS).for_each(|index| word(index).store(content(page, count + 1), Relaxed));
        }
        Ok(())
    }
}
