//! Memory that the kernel may drop when memory is short (MAP_DROPPABLE).

use std::ptr;

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, c_int, c_void};

use crate::{in_child, smaps, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const LEN: usize = 16 * PAGE;
const MAP_DROPPABLE: c_int = 8;
const MAP_SHARED_VALIDATE: c_int = 3;
const RIGHTS: c_int = PROT_READ | PROT_WRITE;

/// Runs this part.
pub fn run() {
    // SAFETY: only mapped memory is accessed, and children end by _exit.
    unsafe {
        made();
        advised();
        inherited();
        lost();
    }
}

unsafe fn map(flags: c_int, file: c_int) -> *mut c_void {
    unsafe { libc::mmap(ptr::null_mut(), LEN, RIGHTS, flags, file, 0) }
}

unsafe fn made() {
    unsafe {
        let file = libc::memfd_create(c"file".as_ptr(), 0);
        libc::ftruncate(file, LEN as i64);
        for (name, flags) in [
            ("plain", 0),
            ("populated", libc::MAP_POPULATE),
            ("locked", libc::MAP_LOCKED),
            ("a stack", libc::MAP_GROWSDOWN),
            ("without reserve", libc::MAP_NORESERVE),
            ("private", MAP_PRIVATE),
            ("validated", MAP_SHARED_VALIDATE),
        ] {
            let at = map(MAP_DROPPABLE | MAP_ANONYMOUS | flags, -1);
            tell_ok(name, at != MAP_FAILED);
        }
        tell_ok("a file", map(MAP_DROPPABLE, file) != MAP_FAILED);
        libc::close(file);
    }
}

unsafe fn advised() {
    unsafe {
        let at = map(MAP_DROPPABLE | MAP_ANONYMOUS, -1);
        for (name, advice) in [
            ("wipe", libc::MADV_WIPEONFORK),
            ("keep", libc::MADV_KEEPONFORK),
            ("dump", libc::MADV_DODUMP),
            ("do not dump", libc::MADV_DONTDUMP),
            ("do not fork", libc::MADV_DONTFORK),
            ("fork", libc::MADV_DOFORK),
            ("free", libc::MADV_FREE),
        ] {
            tell(name, libc::madvise(at, LEN, advice));
        }
        tell("lock", libc::mlock(at, LEN));
        println!("locked: {}", smaps(at.cast(), "Locked:"));
        let flags = smaps(at.cast(), "VmFlags:");
        for flag in ["lo", "dp"] {
            println!("{flag}: {}", flags.split(' ').any(|one| one == flag));
        }
        tell("unlock", libc::munlock(at, LEN));
        tell("protect", libc::mprotect(at, PAGE, PROT_READ));
        libc::munmap(at, LEN);
    }
}

unsafe fn inherited() {
    unsafe {
        let at = map(MAP_DROPPABLE | MAP_ANONYMOUS, -1).cast::<u8>();
        at.write_volatile(7);
        let child = in_child(|| {
            println!("child: {}", at.read_volatile());
            at.write_volatile(8);
            println!("child: {}", at.read_volatile());
        });
        tell_end("child", child);
        println!("parent: {}", at.read_volatile());
        libc::munmap(at.cast(), LEN);
    }
}

/// A child uses memory until some of this is dropped; no process is killed for it.
unsafe fn lost() {
    unsafe {
        const LARGE: usize = 48 << 20;
        _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
        let flags = MAP_DROPPABLE | MAP_ANONYMOUS;
        let at = libc::mmap(ptr::null_mut(), LARGE, RIGHTS, flags, -1, 0).cast::<u8>();
        ptr::write_bytes(at, 1, LARGE);
        let first = |page: usize| at.add(page * PAGE).read_volatile();
        println!(
            "all there: {}",
            (0..LARGE / PAGE).all(|page| first(page) == 1)
        );
        let child = libc::fork();
        if child == 0 {
            _ = std::fs::write("/proc/self/oom_score_adj", "1000");
            loop {
                let flags = MAP_PRIVATE | MAP_ANONYMOUS;
                let more = libc::mmap(ptr::null_mut(), LEN, RIGHTS, flags, -1, 0);
                if more != MAP_FAILED {
                    ptr::write_bytes(more.cast::<u8>(), 1, LEN);
                }
            }
        }
        while (0..LARGE / PAGE).all(|page| first(page) == 1) {
            libc::usleep(1000);
        }
        println!("some was lost");
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
        ptr::write_bytes(at, 2, LARGE);
        println!(
            "all there: {}",
            (0..LARGE / PAGE).all(|page| first(page) == 2)
        );
    }
}
