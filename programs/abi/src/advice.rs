//! Memory: advice, queries and moves; memory with a descriptor.

use std::{fs, mem, ptr};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE, c_int,
    c_void,
};

use crate::{in_child, path, smaps, tell, tell_end};

const PAGE: usize = 4096;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and every mapping outlives
    // its use.
    unsafe {
        all_advice();
        to_others();
        cached();
        contents();
        residence();
        moved();
        kinds();
        descriptors();
        not_executable();
    }
}

unsafe fn map(pages: usize, rights: c_int, flags: c_int, file: c_int) -> *mut c_void {
    unsafe { libc::mmap(ptr::null_mut(), pages * PAGE, rights, flags, file, 0) }
}

fn tell_map(what: &str, at: *mut c_void) {
    tell(what, if at == MAP_FAILED { -1 } else { 0 });
}

unsafe fn all_advice() {
    unsafe {
        let both = PROT_READ | PROT_WRITE;
        let own = map(4, both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let shared = map(4, both, MAP_SHARED | MAP_ANONYMOUS, -1);
        let none = map(4, libc::PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let file = libc::open(c"advised".as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600);
        libc::ftruncate(file, 4 * PAGE as i64);
        let of_file = map(4, both, MAP_SHARED, file);
        let read_only = map(4, PROT_READ, MAP_PRIVATE, file);
        // A kernel may lack KSM's advice (12 and 13).
        for advice in (0..=11).chain(14..=24) {
            let mut line = Vec::new();
            for at in [own, shared, none, of_file, read_only] {
                let result = libc::madvise(at, 4 * PAGE, advice);
                line.push(if result == 0 { "0" } else { crate::error() });
            }
            println!("advice {advice}: {}", line.join(" "));
        }
        libc::madvise(own, PAGE, libc::MADV_DOFORK);
        tell("misaligned", libc::madvise(own.byte_add(1), PAGE, 0));
        tell("of length 0", libc::madvise(own, 0, 0));
        tell("too long", libc::madvise(own, usize::MAX - 5, 0));
        libc::munmap(own.byte_add(PAGE), PAGE);
        tell(
            "with a hole",
            libc::madvise(own, 4 * PAGE, libc::MADV_WILLNEED),
        );
        tell(
            "dropped with a hole",
            libc::madvise(own, 4 * PAGE, libc::MADV_DONTNEED),
        );
        tell(
            "touched with a hole",
            libc::madvise(own, 4 * PAGE, libc::MADV_POPULATE_WRITE),
        );
    }
}

unsafe fn contents() {
    unsafe {
        let both = PROT_READ | PROT_WRITE;
        let own = map(4, both, MAP_PRIVATE | MAP_ANONYMOUS, -1).cast::<u8>();
        own.write(7);
        libc::madvise(own.cast(), PAGE, libc::MADV_FREE);
        own.write(8);
        println!("written after it was free: {}", own.read());
        libc::madvise(own.cast(), PAGE, libc::MADV_WIPEONFORK);
        tell_end("wiped", in_child(|| println!("{}", own.read())));
        libc::madvise(own.cast(), PAGE, libc::MADV_DONTFORK);
        tell_end("not there", in_child(|| crate::touch(own)));
        libc::madvise(own.cast(), PAGE, libc::MADV_DOFORK);
        libc::madvise(own.cast(), PAGE, libc::MADV_KEEPONFORK);
        tell_end("kept", in_child(|| println!("{}", own.read())));
        let shared = map(4, both, MAP_SHARED | MAP_ANONYMOUS, -1).cast::<u8>();
        shared.write(9);
        libc::madvise(shared.cast(), PAGE, libc::MADV_DONTNEED);
        println!("shared and dropped: {}", shared.read());
        libc::madvise(shared.cast(), PAGE, libc::MADV_REMOVE);
        println!("removed: {}", shared.read());
        tell("cold", libc::madvise(own.cast(), PAGE, libc::MADV_COLD));
        tell(
            "paged out",
            libc::madvise(own.cast(), PAGE, libc::MADV_PAGEOUT),
        );
        println!("{}", own.read());
    }
}

/// Which pages of a file are in memory is told to who may write it.
unsafe fn of_others(present: impl Fn(*mut c_void, usize) -> Vec<u8>) {
    const CACHESTAT: libc::c_long = 451;
    unsafe {
        let file = libc::open(path(c"others"), libc::O_CREAT | libc::O_RDWR, 0o644);
        libc::ftruncate(file, 2 * PAGE as libc::off_t);
        libc::close(file);
        let told = || {
            let file = libc::open(path(c"others"), libc::O_RDONLY);
            for kind in [libc::MAP_SHARED, MAP_PRIVATE] {
                println!("{:?}", present(map(2, PROT_READ, kind, file), 2));
            }
            let (range, mut stat) = ([0u64; 2], [0u64; 5]);
            for flags in [0, 1] {
                let to = stat.as_mut_ptr();
                let done = libc::syscall(CACHESTAT, file, range.as_ptr(), to, flags);
                tell("the cache", done);
            }
        };
        told();
        let other = || {
            libc::setuid(1000);
            told();
        };
        tell_end("a reader", in_child(other));
        libc::chmod(path(c"others"), 0o666);
        tell_end("a writer", in_child(other));
        libc::unlink(path(c"others"));
    }
}

unsafe fn residence() {
    unsafe {
        let both = PROT_READ | PROT_WRITE;
        let present = |at: *mut c_void, pages: usize| {
            let mut bytes = [9u8; 8];
            libc::mincore(at, pages * PAGE, bytes.as_mut_ptr());
            bytes[..pages]
                .iter()
                .map(|byte| byte & 1)
                .collect::<Vec<_>>()
        };
        let own = map(4, both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        libc::madvise(own, 4 * PAGE, libc::MADV_NOHUGEPAGE);
        println!("none {:?}", present(own, 4));
        own.cast::<u8>().byte_add(PAGE).write(1);
        println!("one {:?}", present(own, 4));
        tell(
            "read ahead",
            libc::madvise(own, 2 * PAGE, libc::MADV_POPULATE_READ),
        );
        println!("two {:?}", present(own, 4));
        tell(
            "written ahead",
            libc::madvise(own, 3 * PAGE, libc::MADV_POPULATE_WRITE),
        );
        println!("three {:?}", present(own, 4));
        // Pages that were only read are the zero page.
        for advice in [libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE] {
            let ahead = map(64, both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
            tell("ahead", libc::madvise(ahead, 64 * PAGE, advice));
            println!("resident: {}", smaps(ahead.cast(), "Rss:"));
        }
        println!(
            "populated {:?}",
            present(
                map(
                    4,
                    both,
                    MAP_PRIVATE | MAP_ANONYMOUS | libc::MAP_POPULATE,
                    -1
                ),
                4
            )
        );
        println!(
            "locked {:?}",
            present(
                map(4, both, MAP_PRIVATE | MAP_ANONYMOUS | libc::MAP_LOCKED, -1),
                4
            )
        );
        let mut byte = [0u8; 8];
        tell(
            "misaligned",
            libc::mincore(own.byte_add(1), PAGE, byte.as_mut_ptr()),
        );
        tell(
            "nowhere",
            libc::mincore(own, PAGE, ptr::without_provenance_mut(8)),
        );
        tell(
            "unmapped",
            libc::mincore(ptr::without_provenance_mut(PAGE), PAGE, byte.as_mut_ptr()),
        );
        let hole = map(3, both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        libc::munmap(hole.byte_add(PAGE), PAGE);
        let nowhere = ptr::without_provenance_mut::<u8>(8);
        tell("a hole, nowhere", libc::mincore(hole, 2 * PAGE, nowhere));
        let behind = hole.byte_add(PAGE);
        tell("behind it", libc::mincore(behind, PAGE, nowhere));
        let beyond = ptr::without_provenance_mut::<u8>(1 << 63);
        tell("no address", libc::mincore(behind, PAGE, beyond));
        libc::munmap(hole, 3 * PAGE);
        of_others(present);
        tell(
            "sync of both ways",
            libc::msync(own, PAGE, libc::MS_SYNC | libc::MS_ASYNC),
        );
        tell("sync of an odd way", libc::msync(own, PAGE, 64));
        tell(
            "sync misaligned",
            libc::msync(own.byte_add(1), PAGE, libc::MS_SYNC),
        );
        tell(
            "sync of nothing mapped",
            libc::msync(ptr::without_provenance_mut(PAGE), PAGE, libc::MS_SYNC),
        );
        tell(
            "lock of nothing mapped",
            libc::mlock(ptr::without_provenance_mut(PAGE), PAGE),
        );
        tell(
            "lock, odd flags",
            libc::syscall(libc::SYS_mlock2, own, PAGE, 4),
        );
    }
}

unsafe fn moved() {
    unsafe {
        let both = PROT_READ | PROT_WRITE;
        let own = map(4, both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        own.cast::<u8>().write(5);
        let to = map(8, libc::PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let remap = |old: *mut c_void, old_len, new_len, flags, new: *mut c_void| {
            libc::mremap(old, old_len, new_len, flags, new)
        };
        tell_map(
            "fixed without leave to move",
            remap(own, PAGE, PAGE, libc::MREMAP_FIXED, to),
        );
        tell_map("odd flags", remap(own, PAGE, PAGE, 64, to));
        tell_map(
            "onto itself",
            remap(own, 2 * PAGE, 2 * PAGE, 3, own.byte_add(PAGE)),
        );
        tell_map("misaligned", remap(own, PAGE, PAGE, 3, to.byte_add(1)));
        let left = remap(own, PAGE, PAGE, 1 | 4, to);
        tell_map("left behind", left);
        println!(
            "there {}, here {}",
            left.cast::<u8>().read(),
            own.cast::<u8>().read()
        );
        tell_map("left behind, larger", remap(own, PAGE, 2 * PAGE, 1 | 4, to));
        let shared = map(2, both, MAP_SHARED | MAP_ANONYMOUS, -1);
        shared.cast::<u8>().write(6);
        let twin = remap(shared, 0, 2 * PAGE, 1, ptr::null_mut());
        tell_map("a second of the shared", twin);
        twin.cast::<u8>().write(7);
        println!("{}", shared.cast::<u8>().read());
        tell_map(
            "shared, left behind",
            remap(shared, 2 * PAGE, 2 * PAGE, 1 | 4, ptr::null_mut()),
        );
        tell_map(
            "in place or not",
            remap(own, 3 * PAGE, 2 * PAGE, 0, ptr::null_mut()),
        );
        tell_map("over two areas", {
            libc::mprotect(twin, PAGE, PROT_READ);
            remap(twin, 2 * PAGE, 3 * PAGE, 1, ptr::null_mut())
        });
        tell(
            "five arguments",
            libc::syscall(libc::SYS_remap_file_pages, shared, PAGE, 1, 0, 0),
        );
        tell(
            "the second page",
            libc::syscall(libc::SYS_remap_file_pages, shared, PAGE, 0, 1, 0),
        );
    }
}

unsafe fn kinds() {
    unsafe {
        let both = PROT_READ | PROT_WRITE;
        let anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
        tell_map("validated", map(1, both, 3 | MAP_ANONYMOUS, -1));
        tell_map(
            "validated with an odd flag",
            map(1, both, 3 | MAP_ANONYMOUS | 1 << 27, -1),
        );
        tell_map("an odd flag", map(1, both, anonymous | 1 << 27, -1));
        tell_map(
            "synchronous",
            map(1, both, 3 | MAP_ANONYMOUS | libc::MAP_SYNC, -1),
        );
        tell_map(
            "no reserve",
            map(1 << 22, both, anonymous | libc::MAP_NORESERVE, -1),
        );
        tell_map("more than there is", map(1 << 24, both, anonymous, -1));
        tell_map("huge", map(512, both, anonymous | libc::MAP_HUGETLB, -1));
        tell_map(
            "above all",
            libc::mmap(
                ptr::without_provenance_mut(1 << 60),
                PAGE,
                both,
                anonymous | MAP_FIXED,
                -1,
                0,
            ),
        );
        let at = map(1024, both, anonymous, -1);
        libc::munmap(at, 1024 * PAGE);
        let stack = libc::mmap(
            at.byte_add(1000 * PAGE),
            PAGE,
            both,
            anonymous | MAP_FIXED | libc::MAP_GROWSDOWN,
            -1,
            0,
        );
        tell_map("a stack", stack);
        stack.cast::<u8>().byte_sub(1).write(3);
        println!("grew");
        tell(
            "both ways",
            libc::mprotect(stack, PAGE, PROT_READ | 0x0300_0000),
        );
        tell("odd rights", libc::mprotect(stack, PAGE, 1 << 20));
        tell_map("odd rights", map(1, 1 << 20, anonymous, -1));
        let file = libc::open(c"/dev/zero".as_ptr(), libc::O_RDWR);
        tell_map("zeroes", map(1, both, MAP_PRIVATE, file));
        tell_map("zeroes for all", map(1, both, MAP_SHARED, file));
        tell_map(
            "nothing",
            map(
                1,
                both,
                MAP_PRIVATE,
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR),
            ),
        );
        tell_map(
            "a folder",
            map(
                1,
                PROT_READ,
                MAP_PRIVATE,
                libc::open(c"/".as_ptr(), libc::O_RDONLY),
            ),
        );
        tell_map(
            "of what is written only",
            map(
                1,
                PROT_READ,
                MAP_SHARED,
                libc::open(c"written".as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600),
            ),
        );
    }
}

/// Advice for the memory of another process, named by a pidfd.
unsafe fn to_others() {
    unsafe {
        let both = PROT_READ | PROT_WRITE;
        let at = map(4, both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let process = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        let pieces = [0, 2].map(|page| libc::iovec {
            iov_base: at.byte_add(page * PAGE),
            iov_len: PAGE,
        });
        let advise = |fd: i64, pieces: &[libc::iovec], advice: c_int, flags: u32| {
            let (start, count) = (pieces.as_ptr(), pieces.len());
            libc::syscall(libc::SYS_process_madvise, fd, start, count, advice, flags)
        };
        for advice in [0, 3, 4, 20, 21, 99] {
            tell("advice", advise(process, &pieces, advice, 0));
        }
        tell("flags", advise(process, &pieces, 20, 1));
        tell("no process", advise(0, &pieces, 20, 0));
        tell("nothing", advise(process, &[], 20, 0));
        libc::munmap(at.byte_add(2 * PAGE), PAGE);
        tell("in part", advise(process, &pieces, 20, 0));
        tell("nowhere", advise(process, &pieces[1..], 20, 0));
        libc::munmap(at, 4 * PAGE);
    }
}

/// The pages of a file that are in memory (cachestat).
unsafe fn cached() {
    unsafe {
        let file = libc::memfd_create(c"cached".as_ptr(), 0);
        libc::ftruncate(file, 9 * PAGE as i64);
        for page in [0, 1, 5] {
            libc::pwrite(file, c"x".as_ptr().cast(), 1, page * PAGE as i64);
        }
        let ask = |what: &str, file: c_int, offset: u64, length: u64, flags: u32| {
            let (range, mut found) = ([offset, length], [7u64; 5]);
            tell(what, libc::syscall(451, file, &range, &mut found, flags));
            println!("{found:?}");
        };
        ask("all", file, 0, 0, 0);
        ask("from the second", file, PAGE as u64, 0, 0);
        ask("bytes of two", file, PAGE as u64 - 1, 2, 0);
        ask("a hole", file, 2 * PAGE as u64, PAGE as u64, 0);
        ask("beyond", file, 90 * PAGE as u64, PAGE as u64, 0);
        ask("flags", file, 0, 0, 1);
        ask("no file", -1, 0, 0, 0);
        ask("of a pipe", libc::epoll_create1(0), 0, 0, 0);
        tell("nowhere", libc::syscall(451, file, 0usize, 0usize, 0));
        libc::close(file);
    }
}

/// Memory that is not to be executed (MFD_NOEXEC_SEAL).
unsafe fn not_executable() {
    unsafe {
        let data = libc::memfd_create(c"data".as_ptr(), 8);
        println!("seals {:#x}", libc::fcntl(data, libc::F_GET_SEALS));
        tell("executable", libc::fchmod(data, 0o700));
        tell("not", libc::fchmod(data, 0o600));
        tell("no such seal", libc::fcntl(data, libc::F_ADD_SEALS, 64));
        let program = libc::memfd_create(c"program".as_ptr(), 16 | libc::MFD_ALLOW_SEALING);
        tell("seal", libc::fcntl(program, libc::F_ADD_SEALS, 32));
        println!("seals {:#x}", libc::fcntl(program, libc::F_GET_SEALS));
        tell("not", libc::fchmod(program, 0o600));
    }
}

unsafe fn descriptors() {
    unsafe {
        tell("odd flags", libc::memfd_create(c"m".as_ptr(), 1 << 20));
        tell(
            "too long a name",
            libc::memfd_create([b'x'; 300].as_ptr().cast(), 0),
        );
        tell("both ways", libc::memfd_create(c"m".as_ptr(), 8 | 16));
        let named = libc::memfd_create(
            c"of some name".as_ptr(),
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        );
        println!("{:?}", fs::read_link(format!("/proc/self/fd/{named}")));
        println!("flags {}", libc::fcntl(named, libc::F_GETFD));
        println!("seals {:#x}", libc::fcntl(named, libc::F_GET_SEALS));
        libc::ftruncate(named, 4 * PAGE as i64);
        for (name, seal) in [
            ("shrink", 2),
            ("grow", 4),
            ("future writes", 16),
            ("write", 8),
            ("seals", 1),
        ] {
            tell(name, libc::fcntl(named, libc::F_ADD_SEALS, seal));
            println!("seals {:#x}", libc::fcntl(named, libc::F_GET_SEALS));
            tell("  smaller", libc::ftruncate(named, 3 * PAGE as i64));
            tell("  larger", libc::ftruncate(named, 5 * PAGE as i64));
            tell(
                "  write",
                libc::pwrite(named, c"x".as_ptr().cast(), 1, 0) as i64,
            );
            tell(
                "  write beyond",
                libc::pwrite(named, c"x".as_ptr().cast(), 1, 8 * PAGE as i64) as i64,
            );
            tell("  a hole", libc::fallocate(named, 3, 0, PAGE as i64));
            tell("  executable", libc::fchmod(named, 0o700));
            tell_map(
                "  shared",
                map(1, PROT_READ | PROT_WRITE, MAP_SHARED, named),
            );
            tell_map("  shared to read", map(1, PROT_READ, MAP_SHARED, named));
        }
        let plain = libc::memfd_create(c"plain".as_ptr(), 0);
        println!("seals {:#x}", libc::fcntl(plain, libc::F_GET_SEALS));
        tell("seal it", libc::fcntl(plain, libc::F_ADD_SEALS, 1));
        println!("mode {:o}", {
            let mut stat: libc::stat = mem::zeroed();
            libc::fstat(plain, &mut stat);
            stat.st_mode
        });
        tell(
            "of a file",
            libc::fcntl(
                libc::open(c"advised".as_ptr(), libc::O_RDWR),
                libc::F_GET_SEALS,
            ),
        );
        tell(
            "of a pipe",
            libc::fcntl(libc::epoll_create1(0), libc::F_GET_SEALS),
        );
        let shown = libc::shm_open(
            c"/shown".as_ptr(),
            libc::O_CREAT | libc::O_RDWR | libc::O_EXCL,
            0o600,
        );
        println!("POSIX {}", shown >= 0);
        tell(
            "again",
            libc::shm_open(
                c"/shown".as_ptr(),
                libc::O_CREAT | libc::O_RDWR | libc::O_EXCL,
                0o600,
            ),
        );
        tell("unlink", libc::shm_unlink(c"/shown".as_ptr()));
        tell("again", libc::shm_unlink(c"/shown".as_ptr()));
    }
}
