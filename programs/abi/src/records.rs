//! Reads of /proc/PID/maps and smaps: whole records, at offsets that stay valid while the memory
//! changes.

use std::ffi::CStr;
use std::ptr;

use libc::c_int;

use crate::{error, tell};

const PAGE: usize = 4096;
/// The number of areas, with alternating rights, so that none merges with its neighbours.
const AREAS: usize = 400;

/// Runs this part.
pub fn run() {
    // SAFETY: the areas belong to this part, and each buffer has the stated size.
    unsafe {
        let start = areas();
        for name in [c"/proc/self/maps", c"/proc/self/smaps"] {
            println!("{}", name.to_str().expect("ASCII"));
            let file = libc::open(name.as_ptr(), libc::O_RDONLY);
            whole(file);
            // The counts in smaps change while it is read.
            if name == c"/proc/self/maps" {
                positions(file, name);
                changes(name, start);
            }
            libc::close(file);
        }
    }
}

unsafe fn areas() -> *mut u8 {
    unsafe {
        // Surrounds the areas by inaccessible pages, so that they merge with no others.
        let all = libc::mmap(ptr::null_mut(), (AREAS + 2) * PAGE, 0, 0x22, -1, 0);
        let start = all.cast::<u8>().add(PAGE);
        libc::mprotect(start.cast(), AREAS * PAGE, 1);
        for area in (0..AREAS).step_by(2) {
            libc::mprotect(start.add(area * PAGE).cast(), PAGE, 3);
        }
        start
    }
}

/// Reads until `enough`, and appends to `text`, which has room: no memory is mapped meanwhile.
unsafe fn read_into(file: c_int, text: &mut String, enough: impl Fn(&str) -> bool) {
    unsafe {
        let mut bytes = [0u8; 8192];
        while !enough(text) {
            match libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) {
                1.. => {}
                _ => break,
            }
            let end = bytes.iter().position(|&byte| byte == 0);
            let read = &bytes[..end.unwrap_or(bytes.len())];
            text.push_str(std::str::from_utf8(read).expect("ASCII"));
            bytes.fill(0);
        }
    }
}

/// Every read with enough room returns whole records, at most a page.
unsafe fn whole(file: c_int) {
    unsafe {
        let (mut ends, mut most, mut least) = (true, 0, PAGE);
        loop {
            let mut bytes = vec![0u8; 64 << 10];
            let got = libc::read(file, bytes.as_mut_ptr().cast(), bytes.len());
            bytes.truncate(got.max(0) as usize);
            if bytes.is_empty() {
                break;
            }
            ends &= bytes.ends_with(b"\n");
            most = most.max(bytes.len());
            least = least.min(bytes.len());
        }
        println!(
            "end with a line: {ends}, no more than a page: {}",
            most <= PAGE
        );
        println!("almost a page: {}", most > PAGE / 2);
        tell(
            "at the end",
            libc::read(file, [0u8; 8].as_mut_ptr().cast(), 8) as i64,
        );
    }
}

unsafe fn positions(file: c_int, name: &CStr) {
    unsafe {
        // Later reads into this buffer change no area.
        let mut bytes = vec![0u8; 1 << 20];
        libc::lseek(file, 0, libc::SEEK_SET);
        let mut len = 0;
        loop {
            let left = bytes.len() - len;
            let got = libc::read(file, bytes.as_mut_ptr().add(len).cast(), left);
            if got <= 0 {
                break;
            }
            len += got as usize;
        }
        let all = &bytes[..len];
        let mut part = [0u8; 8192];
        let same = |part: &[u8], at: usize| all.get(at..at + part.len()) == Some(part);
        for (at, size) in [
            (0, 1),
            (1, 7),
            (4095, 100),
            (5000, 4096),
            (9000, 8192),
            (17, 1),
        ] {
            let got = libc::pread(file, part.as_mut_ptr().cast(), size, at as i64);
            let whole = got > 0 && got as usize <= size;
            println!(
                "{size} at {at}: {}",
                whole && same(&part[..got as usize], at)
            );
        }
        for at in [3000, 1, 7000] {
            let there = libc::lseek(file, at, libc::SEEK_SET);
            let got = libc::read(file, part.as_mut_ptr().cast(), 50);
            let then = libc::lseek(file, 0, libc::SEEK_CUR);
            let right = same(&part[..got as usize], at as usize);
            println!("{there}: {right}, then {then}");
        }
        let fine = libc::open(name.as_ptr(), libc::O_RDONLY);
        let mut at = 0;
        let mut right = true;
        while at < 10_000 {
            let got = libc::read(fine, part.as_mut_ptr().cast(), 13);
            right &= got == 13 && same(&part[..13], at);
            at += 13;
        }
        println!("in small pieces: {right}");
        libc::close(fine);
        tell("end", libc::lseek(file, 0, libc::SEEK_END));
        tell("before the start", libc::lseek(file, -1, libc::SEEK_SET));
        let got = libc::pread(file, part.as_mut_ptr().cast(), 10, 1 << 30);
        tell("far beyond", got as i64);
        if libc::pread(file, ptr::without_provenance_mut(8), 10, 0) < 0 {
            println!("nowhere: {}", error());
        }
    }
}

/// Areas that are unmapped while the file is read.
unsafe fn changes(name: &CStr, start: *mut u8) {
    unsafe {
        let file = libc::open(name.as_ptr(), libc::O_RDONLY);
        // Reads up to the middle of the areas.
        let middle = start.add(AREAS / 2 * PAGE) as usize;
        let (mut first, mut again) = (
            String::with_capacity(1 << 18),
            String::with_capacity(1 << 18),
        );
        let address = |line: &str| {
            let digits = line.split('-').next().unwrap_or_default();
            usize::from_str_radix(digits, 16).unwrap_or(0)
        };
        let is_beyond = |text: &str| {
            text.lines()
                .last()
                .is_some_and(|line| address(line) >= middle)
        };
        read_into(file, &mut first, is_beyond);
        // Unmaps areas that were listed, and some that were not yet.
        let seen = first.lines().count();
        libc::munmap(start.cast(), 100 * PAGE);
        libc::munmap(start.add(300 * PAGE).cast(), 50 * PAGE);
        read_into(file, &mut first, |_| false);
        libc::lseek(file, 0, libc::SEEK_SET);
        read_into(file, &mut again, |_| false);
        let lines: Vec<_> = first.lines().collect();
        let ascending = lines
            .windows(2)
            .all(|pair| address(pair[0]) < address(pair[1]));
        println!("ascending: {ascending}");
        let shown = |range: std::ops::Range<usize>| {
            let within = |line: &&&str| {
                let page = address(line).wrapping_sub(start as usize) / PAGE;
                range.contains(&page)
            };
            lines.iter().filter(within).count()
        };
        println!("shown before they went: {}", shown(0..100));
        println!("gone before they came: {}", shown(300..350));
        println!("of the rest: {}", shown(100..300) + shown(350..400));
        println!("read before: {}", seen > 200);
        let there = |page: usize| {
            let head = format!("{:08x}-", start as usize + page * PAGE);
            again.lines().any(|line| line.starts_with(&head))
        };
        println!("again: {} {} {}", there(50), there(150), there(320));
        libc::close(file);
    }
}
