//! Mappings.

use std::ptr;

use libc::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_POPULATE, MAP_PRIVATE, MAP_SHARED,
    MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE, c_int, c_long, c_void,
};

use super::Starved;
use crate::path;

const PAGE: usize = 4096;
const RIGHTS: c_int = PROT_READ | PROT_WRITE;
const ANONYMOUS: c_int = MAP_ANONYMOUS | MAP_PRIVATE;

unsafe fn map(at: *mut c_void, len: usize, flags: c_int, file: c_int) -> c_long {
    unsafe { libc::mmap(at, len, RIGHTS, flags, file, 0) as c_long }
}

/// Unmaps what a call has mapped, if it has.
unsafe fn unmap(at: c_long, len: usize) -> bool {
    at == MAP_FAILED as c_long || unsafe { libc::munmap(at as *mut c_void, len) } == 0
}

pub unsafe fn run(starved: &Starved) {
    unsafe {
        maps(starved);
        splits(starved);
        faults(starved);
    }
}

unsafe fn maps(starved: &Starved) {
    let none = ptr::null_mut();
    unsafe {
        for (name, flags) in [
            ("mmap", ANONYMOUS),
            ("mmap shared", MAP_ANONYMOUS | MAP_SHARED),
            ("mmap populate", ANONYMOUS | MAP_POPULATE),
            (
                "mmap shared populate",
                MAP_ANONYMOUS | MAP_SHARED | MAP_POPULATE,
            ),
        ] {
            let len = 20 * PAGE;
            starved.each(name, &[], || map(none, len, flags, -1), |at| unmap(at, len));
        }
        let file = libc::memfd_create(path(c"m"), 0);
        libc::ftruncate(file, 64 * PAGE as i64);
        for (name, flags) in [
            ("mmap file", MAP_PRIVATE),
            ("mmap file shared", MAP_SHARED),
            ("mmap file shared populate", MAP_SHARED | MAP_POPULATE),
        ] {
            let len = 64 * PAGE;
            starved.each(
                name,
                &[],
                || map(none, len, flags, file),
                |at| {
                    unmap(at, len)
                        && libc::ftruncate(file, 0) == 0
                        && libc::ftruncate(file, len as i64) == 0
                },
            );
        }
        libc::close(file);
        let end = libc::sbrk(0);
        starved.each(
            "brk",
            &[],
            || {
                let wanted = end.add(8 * PAGE);
                match libc::syscall(libc::SYS_brk, wanted) == wanted as c_long {
                    true => 0,
                    false => {
                        *libc::__errno_location() = libc::ENOMEM;
                        -1
                    }
                }
            },
            |_| libc::syscall(libc::SYS_brk, end) == end as c_long,
        );
    }
}

/// Changes of parts of a mapping, which is put back as it was.
unsafe fn splits(starved: &Starved) {
    unsafe {
        let len = 16 * PAGE;
        let start = map(ptr::null_mut(), 2 * len, ANONYMOUS, -1) as *mut u8;
        let whole = || map(start.cast(), 2 * len, ANONYMOUS | MAP_FIXED, -1) == start as c_long;
        // All pages or none can be written, and have what was written.
        let mark = || {
            (0..len)
                .step_by(PAGE)
                .for_each(|at| *start.add(at) = (at / PAGE) as u8 + 1)
        };
        let marked = |from: *mut u8, mut pages: std::ops::Range<usize>| {
            pages.all(|page| *from.add(page * PAGE) == page as u8 + 1)
        };
        let middle: *mut c_void = start.add(4 * PAGE).cast();
        whole();
        mark();
        starved.each(
            "mprotect split",
            &[],
            || libc::mprotect(middle, PAGE, PROT_READ).into(),
            |_| {
                let put = libc::mprotect(start.cast(), len, RIGHTS) == 0;
                put && marked(start, 0..16)
            },
        );
        starved.each(
            "munmap split",
            &[],
            || libc::munmap(middle, PAGE).into(),
            |result| {
                let kept = marked(start, 0..4) && marked(start, 5..16);
                let there = libc::madvise(middle, PAGE, libc::MADV_NORMAL) == 0;
                let so = kept && there == (result == -1) && (result == 0 || marked(start, 4..5));
                so && whole() && {
                    mark();
                    true
                }
            },
        );
        starved.each(
            "mmap fixed",
            &[],
            || map(middle, PAGE, ANONYMOUS | MAP_FIXED, -1),
            |result| {
                let kept = marked(start, 0..4) && marked(start, 5..16);
                let fresh = *middle.cast::<u8>() == 0;
                kept && (result == -1 || fresh) && whole() && {
                    mark();
                    true
                }
            },
        );
        starved.each(
            "mremap move",
            &[],
            || libc::mremap(start.cast(), len, 2 * len, MREMAP_MAYMOVE) as c_long,
            |result| {
                let from = if result == -1 {
                    start
                } else {
                    result as *mut u8
                };
                let kept = marked(from, 0..16);
                unmap(from as c_long, 2 * len) && kept && whole() && {
                    mark();
                    true
                }
            },
        );
        let target = map(ptr::null_mut(), len, ANONYMOUS, -1) as *mut u8;
        starved.each(
            "mremap fixed",
            &[],
            || {
                let flags = MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                libc::mremap(middle, 3 * PAGE, 3 * PAGE, flags, target.add(PAGE)) as c_long
            },
            |result| {
                let others = marked(start, 0..4) && marked(start, 7..16);
                let kept = match result {
                    -1 => marked(start, 4..7),
                    _ => (0..3).all(|page| *target.add((page + 1) * PAGE) == page as u8 + 5),
                };
                map(target.cast(), len, ANONYMOUS | MAP_FIXED, -1);
                others && kept && whole() && {
                    mark();
                    true
                }
            },
        );
        for (name, advice) in [
            ("MADV_DONTFORK", libc::MADV_DONTFORK),
            ("MADV_WIPEONFORK", libc::MADV_WIPEONFORK),
        ] {
            starved.each(
                name,
                &[libc::EAGAIN],
                || libc::madvise(middle, PAGE, advice).into(),
                |_| {
                    marked(start, 0..16) && whole() && {
                        mark();
                        true
                    }
                },
            );
        }
        starved.each(
            "mlock",
            &[libc::EAGAIN],
            || libc::mlock(middle, 2 * PAGE).into(),
            |_| libc::munlock(start.cast(), len) == 0 && marked(start, 0..16),
        );
        starved.each(
            "MADV_DONTNEED",
            &[],
            || libc::madvise(middle, PAGE, MADV_DONTNEED).into(),
            |_| {
                mark();
                true
            },
        );
        let mut seen = [0u8; 32];
        starved.each(
            "mincore",
            &[libc::EAGAIN],
            || libc::mincore(start.cast(), len, seen.as_mut_ptr()).into(),
            |_| true,
        );
        unmap(start as c_long, 2 * len);
        unmap(target as c_long, len);
    }
}

/// Page faults, which never fail, and those of system calls.
unsafe fn faults(starved: &Starved) {
    unsafe {
        let len = 6 << 20;
        let at = map(ptr::null_mut(), len, ANONYMOUS, -1) as *mut u8;
        let far = at.add(3 << 20);
        starved.each(
            "first write",
            &[],
            || {
                far.write_volatile(7);
                0
            },
            |_| *far == 7 && libc::madvise(at.cast(), len, MADV_DONTNEED) == 0,
        );
        starved.each(
            "first read",
            &[],
            || i64::from(far.read_volatile()),
            |_| libc::madvise(at.cast(), len, MADV_DONTNEED) == 0,
        );
        starved.each(
            "write to zeroes",
            &[],
            || {
                far.read_volatile();
                far.write_volatile(7);
                0
            },
            |_| *far == 7 && libc::madvise(at.cast(), len, MADV_DONTNEED) == 0,
        );
        let zero = libc::open(path(c"/dev/zero"), libc::O_RDONLY);
        starved.each(
            "read into fresh pages",
            &[],
            || libc::read(zero, far.cast(), 3 * PAGE) as c_long,
            |_| libc::madvise(at.cast(), len, MADV_DONTNEED) == 0,
        );
        libc::close(zero);
        starved.each(
            "MADV_POPULATE_WRITE",
            &[],
            || libc::madvise(at.cast(), len, libc::MADV_POPULATE_WRITE).into(),
            |_| libc::madvise(at.cast(), len, MADV_DONTNEED) == 0,
        );
        starved.each(
            "mprotect none",
            &[],
            || libc::mprotect(far.cast(), PAGE, PROT_NONE).into(),
            |_| libc::mprotect(at.cast(), len, RIGHTS) == 0,
        );
        unmap(at as c_long, len);
        let file = libc::memfd_create(path(c"m"), 0);
        libc::ftruncate(file, len as i64);
        let at = map(ptr::null_mut(), len, MAP_SHARED, file) as *mut u8;
        let renew = || libc::ftruncate(file, 0) == 0 && libc::ftruncate(file, len as i64) == 0;
        starved.each(
            "first write to a file",
            &[],
            || {
                at.add(PAGE).write_volatile(7);
                0
            },
            |_| *at.add(PAGE) == 7 && renew(),
        );
        unmap(at as c_long, len);
        let at = map(ptr::null_mut(), len, MAP_PRIVATE, file) as *mut u8;
        starved.each(
            "private write to a file",
            &[],
            || {
                at.add(PAGE).write_volatile(7);
                0
            },
            |_| *at.add(PAGE) == 7 && libc::madvise(at.cast(), len, MADV_DONTNEED) == 0 && renew(),
        );
        unmap(at as c_long, len);
        libc::close(file);
    }
}
