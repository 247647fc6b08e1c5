//! Files that are truncated while others write them through mappings, and preallocated space.

use std::ffi::CString;
use std::ptr;
use std::thread;

use crate::{in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;

/// Runs this part.
pub fn run() {
    // SAFETY: mappings are only removed at the end, and every structure passed is complete.
    unsafe {
        cut_while_written();
        promised();
        second_mapping();
    }
}

unsafe fn file() -> i32 {
    unsafe { libc::memfd_create(c"cut".as_ptr(), 0) }
}

/// Bytes that another thread writes beyond an end that moves down are gone when the end moves up.
unsafe fn cut_while_written() {
    const ROUNDS: usize = 2000;
    unsafe {
        let (cut, source) = (file(), file());
        libc::pwrite(source, c"x".as_ptr().cast(), 1, 0);
        libc::ftruncate(cut, 2 * PAGE as i64);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let map = libc::mmap(ptr::null_mut(), 2 * PAGE, access, libc::MAP_SHARED, cut, 0);
        let second = map.addr() + PAGE;
        let mut back = 0;
        for _ in 0..ROUNDS {
            thread::scope(|scope| {
                // Reads into the page: EFAULT if it is beyond the end.
                scope.spawn(move || {
                    libc::pread(source, ptr::with_exposed_provenance_mut(second), 1, 0)
                });
                libc::ftruncate(cut, PAGE as i64);
            });
            libc::ftruncate(cut, 2 * PAGE as i64);
            let mut byte = 0u8;
            libc::pread(cut, (&raw mut byte).cast(), 1, PAGE as i64);
            back += usize::from(byte != 0);
            libc::fallocate(
                cut,
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                PAGE as i64,
                PAGE as i64,
            );
        }
        println!("came back: {back}");
        libc::munmap(map, 2 * PAGE);
        libc::close(cut);
        libc::close(source);
    }
}

/// fallocate(2) of more than the free space allocates nothing.
unsafe fn promised() {
    let (place, options) = (c"promised", CString::new("size=1m").expect("no zero"));
    unsafe {
        libc::mkdir(place.as_ptr(), 0o700);
        let mounted = libc::mount(
            c"none".as_ptr(),
            place.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            options.as_ptr().cast(),
        );
        tell("mount", mounted);
        let open =
            |name: &std::ffi::CStr| libc::open(name.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600);
        let (first, second) = (open(c"promised/first"), open(c"promised/second"));
        tell("600 KiB", libc::fallocate(first, 0, 0, 600 << 10));
        tell("800 KiB beside", libc::fallocate(second, 0, 0, 800 << 10));
        tell(
            "again, with what is there",
            libc::fallocate(first, 0, 0, 800 << 10),
        );
        for large in [1 << 40, 1 << 62] {
            tell("far too much", libc::fallocate(second, 0, 0, large));
        }
        let mut free: libc::statvfs = std::mem::zeroed();
        libc::statvfs(place.as_ptr(), &mut free);
        println!("free: {} KiB", free.f_bavail * free.f_bsize / 1024);
        tell("beyond the end", libc::fallocate(second, 1, 0, 100 << 10));
        let blocks = || {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(second, &mut stat);
            stat.st_blocks
        };
        println!("blocks: {}", blocks());
        tell("as long as it was", libc::ftruncate(second, 0));
        println!("blocks: {}", blocks());
        libc::close(first);
        libc::close(second);
        tell("umount", libc::umount(place.as_ptr()));
        // Beyond the end the same limits hold, whether the size is kept or not.
        let sealed = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING);
        let keeps = libc::FALLOC_FL_KEEP_SIZE;
        tell(
            "F_SEAL_GROW",
            libc::fcntl(sealed, libc::F_ADD_SEALS, libc::F_SEAL_GROW),
        );
        tell("beyond the end", libc::fallocate(sealed, keeps, 0, 1));
        tell_end(
            "a limit",
            in_child(|| {
                let limit = libc::rlimit {
                    rlim_cur: PAGE as u64,
                    rlim_max: PAGE as u64,
                };
                libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                let limited = file();
                tell("within", libc::fallocate(limited, keeps, 0, PAGE as i64));
                tell(
                    "beyond",
                    libc::fallocate(limited, keeps, 0, PAGE as i64 + 1),
                );
            }),
        );
    }
}

/// mremap(2) with an old size of 0 maps the memory a second time, and counts locked pages.
unsafe fn second_mapping() {
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let map = libc::mmap(ptr::null_mut(), 16 * PAGE, access, flags, -1, 0);
        let limit = libc::rlimit {
            rlim_cur: 20 * PAGE as u64,
            rlim_max: 20 * PAGE as u64,
        };
        libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit);
        libc::setresuid(1000, 1000, 1000);
        tell("mlock", libc::mlock(map, 16 * PAGE));
        for pages in [16, 4] {
            let second = libc::mremap(map, 0, pages * PAGE, libc::MREMAP_MAYMOVE);
            tell_ok(&format!("{pages} pages more"), second != libc::MAP_FAILED);
        }
    }
}
