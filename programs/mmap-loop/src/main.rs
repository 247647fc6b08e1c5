//! `mmap-loop ROUNDS BYTES FILE`: in each round, maps the file's first bytes, shared, writes one
//! byte in each 16 KiB of their first tenth, and unmaps them. lmbench's lat_mmap repeats this for a
//! given time, so that the number of rounds differs between kernels and runs; and at an arbitrary
//! address, alone in a page table or beside other mappings.

use std::env;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// lmbench's distance between two writes, and the part of the file that it writes to.
const STEP: usize = 16 << 10;
const PART: usize = 10;

/// The address of the mapping: far from all others, so that its page table comes and goes with it.
const PLACE: usize = 1 << 36;

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [rounds, len, path] = words.as_slice() else {
        return Err(io::Error::other("usage: mmap-loop ROUNDS BYTES FILE"));
    };
    let number = |word: &str| word.parse::<usize>().map_err(io::Error::other);
    let (rounds, len) = (number(rounds)?, number(len)?);
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    for _ in 0..rounds {
        round(file.as_raw_fd(), len)?;
    }
    println!("{rounds} rounds");
    Ok(())
}

fn round(fd: i32, len: usize) -> io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let place = ptr::without_provenance_mut(PLACE);
    // SAFETY: a new mapping; the address is only a hint.
    let start = unsafe { libc::mmap(place, len, rights, libc::MAP_SHARED, fd, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if start != place {
        return Err(io::Error::other("the place is taken"));
    }
    for place in (0..len / PART).step_by(STEP) {
        // SAFETY: a byte of the mapping, which nothing else uses.
        unsafe { start.cast::<u8>().add(place).write_volatile(1) };
    }
    // SAFETY: the whole mapping, which is no longer used.
    match unsafe { libc::munmap(start, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
