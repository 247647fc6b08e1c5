//! Calls with more work than could be done in a lifetime: they end at once if there is nothing to
//! do, and otherwise when they are killed.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use libc::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FAILED, MAP_GROWSDOWN, MAP_NORESERVE, MAP_PRIVATE, PROT_READ,
    PROT_WRITE, c_void, iovec,
};

use super::USER;
use crate::{in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// The time that a call runs before it is killed.
const WHILE: Duration = Duration::from_millis(200);

/// Runs this part.
pub fn run() {
    // SAFETY: only IDs are passed.
    tell("identity", unsafe {
        libc::setgid(USER) | libc::setuid(USER)
    });
    // This process owns its files in /proc again. SAFETY: as above.
    tell("dumpable", unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) });
    // SAFETY: these functions' own mappings, and pointers to their live values.
    unsafe {
        cachestat();
        move_far();
        pagemap();
        pagemap_beside_writes();
        devices();
        memory_of_itself();
        populate();
        grow_down();
        beyond_the_end();
    }
}

/// Reserves `len` bytes of address space, or as much as possible.
unsafe fn reserve(mut len: usize) -> (*mut c_void, usize) {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    loop {
        let at = unsafe { libc::mmap(ptr::null_mut(), len, PROT_READ, flags, -1, 0) };
        if at != MAP_FAILED || len < PAGE {
            return (at, len);
        }
        len /= 2;
    }
}

unsafe fn memory(len: usize) -> *mut u8 {
    let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
    assert!(at != MAP_FAILED);
    at.cast()
}

fn open(path: &CStr) -> i32 {
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::open(path.as_ptr(), libc::O_RDONLY) }
}

/// Runs `work`, which takes long, and prints how it ends when it is killed.
fn tell_killed(what: &str, work: impl FnOnce()) {
    // SAFETY: the child runs alone, and is waited for.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            work();
            libc::_exit(0);
        }
        thread::sleep(WHILE);
        libc::kill(child, libc::SIGKILL);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell_end(what, status);
    }
}

unsafe fn cachestat() {
    const CACHESTAT: i64 = 451;
    unsafe {
        let file = libc::memfd_create(c"sparse".as_ptr(), 0);
        tell("memfd", libc::ftruncate(file, 1 << 62));
        libc::pwrite(file, c"x".as_ptr().cast(), 1, 1 << 61);
        let (range, mut answer) = ([0u64, 0], [0u64; 5]);
        let done = libc::syscall(CACHESTAT, file, range.as_ptr(), answer.as_mut_ptr(), 0);
        tell("cachestat", done);
        println!("pages: {}", answer[0]);
        libc::close(file);
    }
}

unsafe fn move_far() {
    unsafe {
        let (from, len) = reserve(1 << 45);
        let (to, room) = reserve(len);
        let len = len.min(room);
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        tell_ok("a move", libc::mremap(from, len, len, how, to) == to);
        tell("unmapped", libc::munmap(to, room));
    }
}

unsafe fn pagemap() {
    unsafe {
        let file = open(c"/proc/self/pagemap");
        let buffer = memory(2 * MIB);
        let piece = iovec {
            iov_base: buffer.cast(),
            iov_len: 2 * MIB,
        };
        let pieces = [piece; 64];
        tell_killed("pagemap", || {
            while libc::preadv(file, pieces.as_ptr(), 64, 0) >= 0 {}
        });
        libc::munmap(buffer.cast(), 2 * MIB);
        libc::close(file);
    }
}

/// Reads pagemap entries of pages that become private copies meanwhile.
unsafe fn pagemap_beside_writes() {
    const PAGES: usize = 64;
    static END: AtomicBool = AtomicBool::new(false);
    unsafe {
        let pages = memory(PAGES * PAGE);
        libc::madvise(pages.cast(), PAGES * PAGE, libc::MADV_NOHUGEPAGE);
        let at = pages as usize;
        let reader = thread::spawn(move || {
            let file = open(c"/proc/self/pagemap");
            let mut words = [0u64; PAGES];
            while !END.load(Relaxed) {
                let position = at / PAGE * size_of::<u64>();
                let size = size_of_val(&words);
                libc::pread(file, words.as_mut_ptr().cast(), size, position as i64);
            }
        });
        for _ in 0..30 {
            for page in 0..PAGES {
                let byte = &*pages.add(page * PAGE).cast::<AtomicU8>();
                byte.load(Relaxed);
                byte.store(1, Relaxed);
            }
            libc::madvise(pages.cast(), PAGES * PAGE, MADV_DONTNEED);
        }
        END.store(true, Relaxed);
        tell_ok("pagemap beside writes", reader.join().is_ok());
    }
}

unsafe fn devices() {
    for path in [c"/dev/urandom", c"/dev/zero"] {
        let buffer = unsafe { memory(2 * MIB) };
        let piece = iovec {
            iov_base: buffer.cast(),
            iov_len: 2 * MIB,
        };
        let pieces = [piece; 64];
        tell_killed(path.to_str().unwrap_or_default(), || {
            let file = open(path);
            // SAFETY: the vector's elements all refer to the buffer.
            while unsafe { libc::readv(file, pieces.as_ptr(), 64) } > 0 {}
        });
    }
}

/// Copies its own memory by the longest vectors, in a loop.
unsafe fn memory_of_itself() {
    unsafe {
        let buffer = memory(2 * MIB);
        let piece = iovec {
            iov_base: buffer.cast(),
            iov_len: 2 * MIB,
        };
        let pieces = [piece; 1024];
        let at = pieces.as_ptr();
        tell_killed("process_vm_readv", || {
            let own = libc::getpid();
            while libc::process_vm_readv(own, at, 1024, at, 1024, 0) > 0 {}
        });
        libc::munmap(buffer.cast(), 2 * MIB);
    }
}

unsafe fn populate() {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | libc::MAP_POPULATE;
    tell_killed("populate", || {
        let len = 16 << 30;
        // SAFETY: maps memory, and unmaps it.
        unsafe {
            loop {
                let at = libc::mmap(ptr::null_mut(), len, PROT_READ, flags, -1, 0);
                libc::munmap(at, len);
            }
        }
    });
}

/// A stack does not grow to addresses where nothing may be mapped.
unsafe fn grow_down() {
    const LOW: usize = 0x2_0000;
    let status = in_child(|| {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | libc::MAP_FIXED_NOREPLACE;
        let wish = ptr::with_exposed_provenance_mut(LOW);
        // SAFETY: a new mapping; a fault below it is expected.
        unsafe {
            let at = libc::mmap(wish, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
            tell_ok("a low stack", at == wish);
            at.byte_sub(PAGE).cast::<u8>().write_volatile(1);
            println!("it grows");
            at.byte_sub(LOW - 0x1000).cast::<u8>().write_volatile(1);
            println!("to page 1");
        }
    });
    tell_end("a stack above nothing", status);
}

/// Mappings of a file at impossible offsets.
unsafe fn beyond_the_end() {
    unsafe {
        let file = libc::memfd_create(c"file".as_ptr(), 0);
        for offset in [
            0u64.wrapping_sub(PAGE as u64),
            1 << 63,
            (1 << 63) - PAGE as u64,
        ] {
            let at = libc::syscall(
                libc::SYS_mmap,
                0,
                2 * PAGE,
                PROT_READ,
                MAP_PRIVATE,
                file,
                offset,
            );
            tell("an offset", at);
        }
        libc::close(file);
    }
}
