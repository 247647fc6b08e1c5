//! `reach FILE`: uses each page of a MiB of memory of several kinds. Prints for each kind how many
//! TLB entries its pages need, where a run of contiguous pages is one entry, and how many faults
//! occurred. Both numbers come from Stile's own counters.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::ptr;

const PAGE: usize = 4096;
/// The number of pages in a run of contiguous entries.
const RUN: usize = 16;
const LEN: usize = 1 << 20;

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1);
    let path = path.ok_or_else(|| io::Error::other("usage: reach FILE"))?;
    fs::write(&path, vec![1; LEN])?;
    let file = File::open(&path)?;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let populated = private | libc::MAP_POPULATE;
    let mut counters = Counters::new()?;
    counters.tell("written", || write(&map(private, None)?))?;
    counters.tell("populated", || write(&map(populated, None)?))?;
    counters.tell("read", || read(&map(libc::MAP_PRIVATE, Some(&file))?))
}

/// A mapping at an address where runs begin.
struct Mapping(*mut u8);

fn map(flags: i32, file: Option<&File>) -> io::Result<Mapping> {
    let rights = match file {
        Some(_) => libc::PROT_READ,
        None => libc::PROT_READ | libc::PROT_WRITE,
    };
    let fd = file.map_or(-1, AsRawFd::as_raw_fd);
    let free = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new mappings, the second inside the first.
    let start = unsafe {
        let room = libc::mmap(
            ptr::null_mut(),
            LEN + RUN * PAGE,
            libc::PROT_NONE,
            free,
            -1,
            0,
        );
        let start = room.map_addr(|start| start.next_multiple_of(RUN * PAGE));
        libc::mmap(start, LEN, rights, flags | libc::MAP_FIXED, fd, 0)
    };
    match start {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        start => Ok(Mapping(start.cast())),
    }
}

fn write(mapping: &Mapping) -> io::Result<()> {
    for at in (0..LEN).step_by(PAGE) {
        // SAFETY: a byte of the mapping, which nothing else uses.
        unsafe { mapping.0.add(at).write_volatile(1) };
    }
    Ok(())
}

fn read(mapping: &Mapping) -> io::Result<()> {
    for at in (0..LEN).step_by(PAGE) {
        // SAFETY: a byte of the mapping.
        unsafe { mapping.0.add(at).read_volatile() };
    }
    Ok(())
}

/// The kernel's counters of this program; to read them takes no fault.
struct Counters {
    file: Vec<u8>,
}

impl Counters {
    fn new() -> io::Result<Self> {
        let mut counters = Counters { file: vec![1; LEN] };
        counters.read()?;
        Ok(counters)
    }

    /// The entries that map pages, and the faults, so far.
    fn read(&mut self) -> io::Result<(usize, usize)> {
        let len = File::open("/proc/self/crossings")?.read(&mut self.file)?;
        let text = String::from_utf8_lossy(&self.file[..len]);
        let sum = |head: &str| -> usize {
            let values = text.lines().filter_map(|line| line.strip_prefix(head));
            values
                .filter_map(|rest| rest.rsplit(' ').next()?.parse::<usize>().ok())
                .sum()
        };
        let entries = sum("memory mapped-pages ") - (RUN - 1) * sum("memory mapped-runs ");
        let faults = sum("fault anonymous-write ") + sum("fault file-read ");
        Ok((entries, faults))
    }

    /// Prints the entries and the faults of `work`.
    fn tell(&mut self, name: &str, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let before = self.read()?;
        work()?;
        let after = self.read()?;
        println!("{name} {} {}", after.0 - before.0, after.1 - before.1);
        Ok(())
    }
}
