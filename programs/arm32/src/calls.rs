//! System calls whose arguments or structures differ for 32-bit programs.

use std::ffi::CStr;
use std::mem;
use std::ptr;

use crate::{in_child, tell};

/// A value beyond 32 bits.
const FAR: i64 = 5 << 32;

const CLOCK_GETTIME64: libc::c_long = 403;
const CLOCK_NANOSLEEP64: libc::c_long = 407;
const FUTEX64: libc::c_long = 422;

/// Runs this part.
pub fn run() {
    // SAFETY: the calls get their own memory.
    unsafe {
        files();
        memory();
        time();
        processes();
    }
}

/// Calls getppid `count` times, for measurements.
pub fn null(count: u32) {
    // SAFETY: the call changes only r0.
    unsafe {
        std::arch::asm!(
            "2: svc #0",
            "subs {count}, {count}, #1",
            "bne 2b",
            count = inout(reg) count => _,
            in("r7") libc::SYS_getppid,
            out("r0") _,
        )
    };
}

unsafe fn files() {
    unsafe {
        let file = libc::open64(c"far".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
        tell(
            "pwrite64",
            libc::pwrite64(file, c"end".as_ptr().cast(), 3, FAR) as i64,
        );
        let mut bytes = [0u8; 8];
        tell(
            "pread64",
            libc::pread64(file, bytes.as_mut_ptr().cast(), 8, FAR) as i64,
        );
        println!("{:?}", CStr::from_bytes_until_nul(&bytes));
        let mut stat: libc::stat64 = mem::zeroed();
        tell("fstat64", libc::fstat64(file, &mut stat).into());
        println!("size {} mode {:o}", stat.st_size, stat.st_mode);
        tell("_llseek", libc::lseek64(file, 0, libc::SEEK_END));
        tell(
            "lseek",
            libc::syscall(libc::SYS_lseek, file, 0, libc::SEEK_CUR).into(),
        );
        tell("ftruncate64", libc::ftruncate64(file, FAR - 1).into());
        tell("fallocate", libc::fallocate64(file, 0, 0, 4096).into());
        tell(
            "truncate",
            libc::syscall(libc::SYS_truncate, c"far".as_ptr(), 10).into(),
        );
        tell("stat64", libc::stat64(c"far".as_ptr(), &mut stat).into());
        println!("size {}", stat.st_size);
        for (path, size) in [(c"far", 80), (c"none", 80), (c"far", 84), (c"far", 88)] {
            let mut words = [0u32; 22];
            let (path, to) = (path.as_ptr(), words.as_mut_ptr());
            let told = libc::syscall(libc::SYS_statfs64, path, size, to);
            tell(&format!("statfs64 of {size}"), told.into());
        }
        tell(
            "fstatfs64",
            libc::syscall(libc::SYS_fstatfs64, -1, 80, 0).into(),
        );
        let mut statx: libc::statx = mem::zeroed();
        let asked = libc::STATX_SIZE;
        tell(
            "statx",
            libc::statx(file, c"".as_ptr(), libc::AT_EMPTY_PATH, asked, &mut statx).into(),
        );
        println!("size {}", statx.stx_size);

        let mut pipe = [0; 2];
        tell("pipe", libc::pipe(pipe.as_mut_ptr()).into());
        let pieces = [c"three ", c"pieces, ", c"one line"].map(|piece| libc::iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.count_bytes(),
        });
        tell("writev", libc::writev(pipe[1], pieces.as_ptr(), 3) as i64);
        let mut wait = libc::pollfd {
            fd: pipe[0],
            events: libc::POLLIN,
            revents: 0,
        };
        tell("poll", libc::poll(&mut wait, 1, 1000).into());
        let mut set: libc::fd_set = mem::zeroed();
        libc::FD_SET(pipe[0], &mut set);
        let mut span = libc::timeval {
            tv_sec: 1,
            tv_usec: 0,
        };
        let none = ptr::null_mut();
        tell(
            "select",
            libc::select(pipe[0] + 1, &mut set, none, none, &mut span).into(),
        );
        let mut read = [0u8; 64];
        tell(
            "read",
            libc::read(pipe[0], read.as_mut_ptr().cast(), 64) as i64,
        );
        println!("{}", String::from_utf8_lossy(&read[..22]));
        tell("dup2", (libc::dup2(pipe[0], 100) == 100).into());
        tell("fcntl64", libc::fcntl(100, libc::F_GETFD).into());
        tell(
            "into a hole",
            libc::syscall(libc::SYS_fstat64, file, 0x10).into(),
        );
        lock(file);
        lengths(pipe);
        tell("unlink", libc::unlink(c"far".as_ptr()).into());
    }
}

/// A lock whose length does not fit into 32 bits.
unsafe fn lock(file: libc::c_int) {
    const F_GETLK: libc::c_int = 5;
    unsafe {
        for (start, len) in [(1, 5i64 << 32), (2, 0x7fff_ffff), (3, 0), (0x8000_0000, 1)] {
            let child = libc::fork();
            let mut wide: libc::flock64 = mem::zeroed();
            (wide.l_type, wide.l_start, wide.l_len) = (libc::F_WRLCK as _, start, len);
            if child == 0 {
                libc::syscall(libc::SYS_fcntl64, file, 13, &wide);
                libc::pause();
            }
            // struct flock
            let mut found;
            loop {
                found = [libc::F_WRLCK, 0i32, 0, 0];
                let asked = libc::syscall(libc::SYS_fcntl64, file, F_GETLK, &mut found);
                if asked != 0 || found[0] & 0xffff != libc::F_UNLCK {
                    tell("F_GETLK", asked.into());
                    break;
                }
            }
            println!("  {:x?} {}", &found[..3], found[3] == child);
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
}

/// Negative lengths of I/O vectors.
unsafe fn lengths(pipe: [libc::c_int; 2]) {
    unsafe {
        let mut ends = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ends.as_mut_ptr());
        let byte = 0u8;
        let own = libc::getpid();
        for len in [u32::MAX, 1 << 31] {
            let pieces = [&raw const byte as u32, 1, &raw const byte as u32, len];
            let pieces = pieces.as_ptr();
            let head = [0, 0, pieces as u32, 2, 0, 0, 0];
            tell(
                "writev",
                libc::syscall(libc::SYS_writev, pipe[1], pieces, 2).into(),
            );
            tell(
                "readv",
                libc::syscall(libc::SYS_readv, pipe[0], pieces, 2).into(),
            );
            tell(
                "vmsplice",
                libc::syscall(libc::SYS_vmsplice, pipe[1], pieces, 2, 0).into(),
            );
            let sent = libc::syscall(libc::SYS_sendmsg, ends[0], head.as_ptr(), 0);
            tell("sendmsg", sent.into());
            for [locals, remotes] in [[2, 1], [1, 2]] {
                let number = libc::SYS_process_vm_readv;
                let read = libc::syscall(number, own, pieces, locals, pieces, remotes, 0);
                tell("process_vm_readv", read.into());
            }
        }
        ends.iter().for_each(|&end| _ = libc::close(end));
    }
}

unsafe fn memory() {
    unsafe {
        let (both, private) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let mapped = libc::mmap(ptr::null_mut(), 8192, both, private, -1, 0);
        tell("mmap2", (mapped != libc::MAP_FAILED).into());
        tell(
            "mprotect",
            libc::mprotect(mapped, 4096, libc::PROT_READ).into(),
        );
        tell("munmap", libc::munmap(mapped, 8192).into());
        let whole = libc::mmap(ptr::null_mut(), 0xf000_0000, both, private, -1, 0);
        tell(
            "mmap2 of nearly all",
            if whole == libc::MAP_FAILED { -1 } else { 0 },
        );
        let start = libc::sbrk(0);
        tell("brk", libc::sbrk(4096) as i64 - start as i64);
    }
}

unsafe fn time() {
    unsafe {
        let mut narrow = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut wide = [0i64; 2];
        tell(
            "clock_gettime",
            libc::syscall(libc::SYS_clock_gettime, 1, &mut narrow).into(),
        );
        tell(
            "clock_gettime64",
            libc::syscall(CLOCK_GETTIME64, 1, &mut wide).into(),
        );
        let earlier = i64::from(narrow.tv_sec) * 1_000_000_000 + i64::from(narrow.tv_nsec);
        println!("in order: {}", wide[0] * 1_000_000_000 + wide[1] >= earlier);
        // The upper 32 bits of tv_nsec are padding.
        let span = [0i64, 1000 | 0x1234 << 32];
        tell(
            "clock_nanosleep_time64",
            libc::syscall(CLOCK_NANOSLEEP64, 1, 0, &span, 0).into(),
        );
        let (word, short) = (7u32, [0i32, 1000]);
        tell(
            "futex",
            libc::syscall(libc::SYS_futex, &word, 0, 7, &short).into(),
        );
        tell(
            "futex, another value",
            libc::syscall(libc::SYS_futex, &word, 0, 8, &short).into(),
        );
        tell(
            "futex_time64",
            libc::syscall(FUTEX64, &word, 0, 7, &span).into(),
        );
        let bad = [0i64, 1_000_000_000];
        tell(
            "a bad time",
            libc::syscall(CLOCK_NANOSLEEP64, 1, 0, &bad, 0).into(),
        );
    }
}

/// A filter sees the program's architecture, and its numbers of system calls.
unsafe fn filtered() {
    unsafe {
        const ARM: u32 = 0x4000_0028;
        const ERRNO: u32 = 0x0005_0000;
        const ALLOW: u32 = 0x7fff_0000;
        let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut filter = [
            op(0x20, 0, 0, 4),
            op(0x15, 1, 0, ARM),
            op(0x06, 0, 0, 0x8000_0000),
            op(0x20, 0, 0, 0),
            op(0x15, 3, 0, libc::SYS_getpgid as u32),
            op(0x15, 2, 0, 600),
            op(0x15, 1, 0, -5i32 as u32),
            op(0x06, 0, 0, ALLOW),
            op(0x06, 0, 0, ERRNO | 77),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let done = libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program);
        tell("a filter", done.into());
        for number in [libc::SYS_getpgid, 600, -5, 601] {
            tell("a call", libc::syscall(number, 0).into());
        }
    }
}

unsafe fn processes() {
    unsafe {
        let mut limit: libc::rlimit = mem::zeroed();
        tell(
            "ugetrlimit",
            libc::syscall(libc::SYS_ugetrlimit, 3, &mut limit).into(),
        );
        println!("stack {} {:#x}", limit.rlim_cur, limit.rlim_max);
        let mut names: libc::utsname = mem::zeroed();
        tell("uname", libc::uname(&mut names).into());
        println!("{:?}", CStr::from_ptr(names.machine.as_ptr()));
        let mut system: libc::sysinfo = mem::zeroed();
        tell("sysinfo", libc::sysinfo(&mut system).into());
        println!("unit {}", system.mem_unit);
        let platform = libc::getauxval(libc::AT_PLATFORM) as *const libc::c_char;
        println!("platform {:?}", CStr::from_ptr(platform));
        println!("page {}", libc::getauxval(libc::AT_PAGESZ));
        // HWCAP bits that every kernel sets: Thumb, fast multiply, TLS, VFP.
        println!("hwcap {:#x}", libc::getauxval(libc::AT_HWCAP) & 0x80_56);
        let mut usage: libc::rusage = mem::zeroed();
        tell(
            "getrusage",
            libc::getrusage(libc::RUSAGE_SELF, &mut usage).into(),
        );
        tell(
            "getpid",
            (libc::getpid() == libc::syscall(libc::SYS_gettid) as i32).into(),
        );
        for len in [0, 2, 4, 6, 8, 12] {
            let mut cpus = [0u32; 4];
            let got = libc::syscall(libc::SYS_sched_getaffinity, 0, len, &mut cpus);
            tell(&format!("sched_getaffinity of {len}"), got.into());
        }
        tell("a call that is none", libc::syscall(479).into());
        tell("a private one that is none", libc::syscall(0xf_0007).into());
        tell("another", libc::syscall(0xf_07ff).into());
        tell("a negative one", libc::syscall(-0x7000_0000).into());
        tell("the last one", libc::syscall(-1).into());
        in_child("filters", || filtered());
        in_child("fork", || libc::_exit(7));
        in_child("a call beyond all", || {
            libc::syscall(0xf_0800);
        });
        in_child("exec of 64 bits", || {
            let arguments = [c"busybox", c"echo", c"from 64 bits"].map(CStr::as_ptr);
            let arguments = [arguments[0], arguments[1], arguments[2], ptr::null()];
            libc::execv(c"/bin/busybox".as_ptr(), arguments.as_ptr());
            println!("{}", std::io::Error::last_os_error());
        });
    }
}
