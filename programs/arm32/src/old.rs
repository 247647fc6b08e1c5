//! Calls that 64-bit programs do not have: 16-bit user IDs, sets of 32 signals, old structures,
//! 32-bit offsets.

use std::ptr;

use libc::{SIGUSR1, c_int, c_long};

use crate::{in_child, tell};

/// A value beyond 32 bits.
const FAR: i64 = 5 << 32;
/// Commands of fcntl(2) for locks with 64-bit offsets.
const F_GETLK64: c_int = 12;
const F_SETLK64: c_int = 13;
const F_OFD_GETLK: c_int = 36;

/// Runs this part.
pub fn run() {
    // SAFETY: the calls get their own memory.
    unsafe {
        in_child("users", || users());
        attributes();
        directory();
        in_child("signals", || signals());
        locks();
        offsets();
        times();
        in_child("nice", || {
            for more in [5, 100, -100] {
                tell("nice", libc::syscall(libc::SYS_nice, more).into());
                println!("  {}", libc::getpriority(libc::PRIO_PROCESS, 0));
            }
        });
        absent();
    }
}

fn call(what: &str, number: c_long, arguments: [usize; 3]) {
    let [a, b, c] = arguments;
    // SAFETY: the caller's data outlives the call.
    tell(what, unsafe { libc::syscall(number, a, b, c) }.into());
}

unsafe fn users() {
    println!();
    let groups = [7u16, 0xffff, 3];
    call(
        "setgroups of no group",
        libc::SYS_setgroups,
        [3, groups.as_ptr() as usize, 0],
    );
    let groups = [7u16, 0xfffd, 3];
    call(
        "setgroups",
        libc::SYS_setgroups,
        [3, groups.as_ptr() as usize, 0],
    );
    let mut shown = [99u16; 4];
    call(
        "getgroups",
        libc::SYS_getgroups,
        [4, shown.as_mut_ptr() as usize, 0],
    );
    println!("  {shown:?}");
    call(
        "getgroups, no room",
        libc::SYS_getgroups,
        [2, shown.as_mut_ptr() as usize, 0],
    );
    call("getgroups, how many", libc::SYS_getgroups, [0, 0, 0]);
    call("setresgid", libc::SYS_setresgid, [10, 0xffff, 30]);
    call("setregid", libc::SYS_setregid, [11, 0xffff, 0]);
    call("setfsgid", libc::SYS_setfsgid, [30, 0, 0]);
    let mut three = [99u16; 4];
    let to = |three: &mut [u16; 4]| [0, 1, 2].map(|at| &raw mut three[at] as usize);
    call("getresgid", libc::SYS_getresgid, to(&mut three));
    println!("  {three:?}");
    // IDs beyond 16 bits.
    call("setresuid32", libc::SYS_setresuid32, [70_000, 70_001, 0]);
    call("getresuid", libc::SYS_getresuid, to(&mut three));
    println!("  {three:?}");
    call("getuid", libc::SYS_getuid, [0; 3]);
    call("geteuid", libc::SYS_geteuid, [0; 3]);
    call("setuid of others", libc::SYS_setuid, [1, 0, 0]);
    call("setresuid", libc::SYS_setresuid, [0, 0, 0xffff]);
    call("setfsuid", libc::SYS_setfsuid, [5, 0, 0]);
    call("setfsuid again", libc::SYS_setfsuid, [0x1_0000, 0, 0]);
    call("setreuid", libc::SYS_setreuid, [0xffff, 0, 0]);
    call("setgid", libc::SYS_setgid, [0xffff, 0, 0]);
    call("getgid", libc::SYS_getgid, [0; 3]);
    call("getegid", libc::SYS_getegid, [0; 3]);
}

unsafe fn attributes() {
    unsafe {
        let path = c"old".as_ptr();
        let file = libc::open64(path, libc::O_RDWR | libc::O_CREAT, 0o600);
        call("chown", libc::SYS_chown, [path as usize, 12, 0xffff]);
        call("lchown", libc::SYS_lchown, [path as usize, 0xffff, 34]);
        libc::write(file, path.cast(), 3);
        // The mode and links, owner, device and size, blocks.
        let mut words = [0xffff_ffffu32; 17];
        let at = words.as_mut_ptr() as usize;
        for (what, number, of) in [
            ("stat", libc::SYS_stat, path as usize),
            ("lstat", libc::SYS_lstat, path as usize),
            ("fstat", libc::SYS_fstat, file as usize),
        ] {
            call(what, number, [of, at, 0]);
            println!("  {:x?}, beyond {:x}", &words[2..8], words[16]);
        }
        call(
            "chown32 beyond 16 bits",
            libc::SYS_chown32,
            [path as usize, 70_000, 7],
        );
        call("fchown", libc::SYS_fchown, [file as usize, 0xffff, 0xffff]);
        call("stat", libc::SYS_stat, [path as usize, at, 0]);
        println!("  {:x?}", &words[2..8]);
        libc::ftruncate64(file, FAR);
        call(
            "stat of a large one",
            libc::SYS_stat,
            [path as usize, at, 0],
        );
        call("into a hole", libc::SYS_stat, [path as usize, 0x10, 0]);
        let mut system = [0xffff_ffffu32; 24];
        let at = system.as_mut_ptr() as usize;
        call(
            "statfs",
            libc::SYS_statfs,
            [c"/proc".as_ptr() as usize, at, 0],
        );
        println!("  {:x?} {:x?}", &system[..7], &system[9..18]);
        call(
            "statfs64",
            libc::SYS_statfs64,
            [c"/proc".as_ptr() as usize, 88, at],
        );
        println!("  {:x?} {:x?}", &system[..12], &system[14..22]);
        call(
            "its 80 bytes",
            libc::SYS_statfs64,
            [c"/proc".as_ptr() as usize, 80, at],
        );
        libc::close(file);
        libc::unlink(path);
    }
}

unsafe fn directory() {
    unsafe {
        libc::mkdir(c"d".as_ptr(), 0o700);
        for name in [c"d/a", c"d/longer", c"d/bcd"] {
            libc::close(libc::open64(
                name.as_ptr(),
                libc::O_CREAT | libc::O_RDWR,
                0o600,
            ));
        }
        let directory = libc::open64(c"d".as_ptr(), libc::O_RDONLY) as usize;
        let mut bytes = [0u8; 256];
        let to = bytes.as_mut_ptr() as usize;
        call("getdents, no room", libc::SYS_getdents, [directory, to, 8]);
        let got = libc::syscall(libc::SYS_getdents, directory, to, 256) as usize;
        let (mut at, mut entries) = (0, Vec::new());
        while at < got {
            let len = usize::from(u16::from_ne_bytes([bytes[at + 8], bytes[at + 9]]));
            let name = bytes[at + 10..].split(|&byte| byte == 0).next().unwrap();
            let kind = bytes[at + len - 1];
            entries.push(format!("{} {kind} {len}", String::from_utf8_lossy(name)));
            at += len;
        }
        entries.sort();
        println!("{got} bytes {entries:?}");
        call("the end", libc::SYS_getdents, [directory, to, 256]);
        for name in [c"d/a", c"d/longer", c"d/bcd"] {
            libc::unlink(name.as_ptr());
        }
        libc::rmdir(c"d".as_ptr());
    }
}

extern "C" fn on_signal(signal: c_int) {
    println!("  handler of {signal}");
}

unsafe fn signals() {
    println!();
    let mut old = [0xffff_ffffu32; 2];
    let at = old.as_mut_ptr() as usize;
    let usr1 = [1u32 << (SIGUSR1 - 1)];
    let of = usr1.as_ptr() as usize;
    // Handler, mask, flags, restorer.
    let action = [on_signal as *const () as usize as u32, 0x8000_0000, 0, 0];
    let mut before = [0xffff_ffffu32; 5];
    let (new, to) = (action.as_ptr() as usize, before.as_mut_ptr() as usize);
    call(
        "sigaction",
        libc::SYS_sigaction,
        [SIGUSR1 as usize, new, to],
    );
    println!("  {before:x?}");
    call(
        "sigaction, read",
        libc::SYS_sigaction,
        [SIGUSR1 as usize, 0, to],
    );
    println!("  {:x?}", &before[1..]);
    call("of SIGKILL", libc::SYS_sigaction, [9, new, 0]);
    call("of signal 65", libc::SYS_sigaction, [65, new, 0]);
    call(
        "sigprocmask",
        libc::SYS_sigprocmask,
        [libc::SIG_BLOCK as usize, of, at],
    );
    println!("  {old:x?}");
    // SAFETY: raises a blocked signal.
    unsafe { libc::raise(SIGUSR1) };
    call("sigpending", libc::SYS_sigpending, [at, 0, 0]);
    println!("  {old:x?}");
    call("sigsuspend", libc::SYS_sigsuspend, [0, 0, 0]);
    // The bits above the first 32 are preserved.
    let high = [0u32, 1];
    let both = high.as_ptr() as usize;
    // SAFETY: the set is our own.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, both, 0, 8) };
    call(
        "sigprocmask",
        libc::SYS_sigprocmask,
        [libc::SIG_SETMASK as usize, of, at],
    );
    let mut whole = [0u32; 2];
    // SAFETY: the set is our own.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, 0, 0, whole.as_mut_ptr(), 8) };
    println!("  {whole:x?}");
    call("sigprocmask of no kind", libc::SYS_sigprocmask, [9, of, at]);
}

unsafe fn locks() {
    unsafe {
        let file = libc::open64(c"old".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600) as usize;
        // `struct flock`: type and whence, start, length, process.
        let write = [1u32, 10, 20, 0];
        let wide = |start: i64| [1u32, 0, start as u32, (start >> 32) as u32, 5, 0, 0, 0];
        let far = wide(FAR);
        call(
            "F_SETLK",
            libc::SYS_fcntl64,
            [file, libc::F_SETLK as usize, write.as_ptr() as usize],
        );
        call(
            "F_SETLK64",
            libc::SYS_fcntl64,
            [file, F_SETLK64 as usize, far.as_ptr() as usize],
        );
        call(
            "fcntl's",
            libc::SYS_fcntl,
            [file, F_SETLK64 as usize, far.as_ptr() as usize],
        );
        call(
            "fcntl's own",
            libc::SYS_fcntl,
            [file, F_OFD_GETLK as usize, far.as_ptr() as usize],
        );
        call(
            "fcntl's short",
            libc::SYS_fcntl,
            [file, libc::F_SETLK as usize, write.as_ptr() as usize],
        );
        in_child("another", || {
            println!();
            let mut found = [1u32, 0, 0, 99];
            let at = found.as_mut_ptr() as usize;
            call(
                "F_GETLK",
                libc::SYS_fcntl64,
                [file, libc::F_GETLK as usize, at],
            );
            found[3] = (found[3] == libc::getppid() as u32).into();
            println!("  {found:?}");
            let mut found = [1u32, 100, 0, 99];
            let at = found.as_mut_ptr() as usize;
            call(
                "F_GETLK beyond",
                libc::SYS_fcntl64,
                [file, libc::F_GETLK as usize, at],
            );
            println!("  {found:?}");
            let mut found = wide(FAR - 3);
            let at = found.as_mut_ptr() as usize;
            call(
                "F_GETLK64",
                libc::SYS_fcntl64,
                [file, F_GETLK64 as usize, at],
            );
            found[6] = (found[6] == libc::getppid() as u32).into();
            println!("  {found:?}");
        });
        libc::close(file as c_int);
        libc::unlink(c"old".as_ptr());
    }
}

unsafe fn offsets() {
    unsafe {
        let file = libc::open64(c"old".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
        let mut bytes = *b"three pieces";
        let pieces = [libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: 12,
        }; 2];
        let of = pieces.as_ptr();
        tell(
            "pwritev",
            libc::syscall(libc::SYS_pwritev, file, of, 2, 1, 5).into(),
        );
        tell(
            "preadv",
            libc::syscall(libc::SYS_preadv, file, of, 1, 13, 5).into(),
        );
        tell(
            "pwritev2",
            libc::syscall(393, file, of, 1, -1, -1, 0).into(),
        );
        tell(
            "preadv2",
            libc::syscall(392, file, of, 1, 0, 0, 0x100).into(),
        );
        tell("where", libc::lseek64(file, 0, libc::SEEK_CUR));
        tell(
            "readahead",
            libc::syscall(libc::SYS_readahead, file, 0, 0, 1, 12).into(),
        );
        let mut pipe = [0; 2];
        libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK);
        let mut offset = [5i32, -1];
        let at = offset.as_mut_ptr();
        tell(
            "sendfile",
            libc::syscall(libc::SYS_sendfile, pipe[1], file, at, 4).into(),
        );
        println!("  {offset:?}");
        for start in [-1, i32::MAX - 2, i32::MAX] {
            offset[0] = start;
            let at = offset.as_mut_ptr();
            tell(
                &format!("from {start}"),
                libc::syscall(libc::SYS_sendfile, pipe[1], file, at, 4).into(),
            );
            println!("  {offset:?}");
        }
        libc::lseek64(file, FAR, libc::SEEK_SET);
        tell(
            "from beyond",
            libc::syscall(libc::SYS_sendfile, pipe[1], file, 0, 4).into(),
        );
        let mut far = FAR;
        let at = &raw mut far;
        tell(
            "sendfile64",
            libc::syscall(libc::SYS_sendfile64, pipe[1], file, at, 4).into(),
        );
        println!("  {far}");
        libc::close(file);
        libc::unlink(c"old".as_ptr());
    }
}

unsafe fn times() {
    unsafe {
        let path = c"old".as_ptr();
        libc::close(libc::open64(path, libc::O_RDWR | libc::O_CREAT, 0o600));
        let times = [-5i32, 999_999, i32::MAX, 7];
        tell(
            "utimes",
            libc::syscall(libc::SYS_utimes, path, times.as_ptr()).into(),
        );
        let mut stat: libc::stat64 = std::mem::zeroed();
        libc::stat64(path, &mut stat);
        println!(
            "  {} {} {} {}",
            stat.st_atime, stat.st_atime_nsec, stat.st_mtime, stat.st_mtime_nsec
        );
        let wrong = [0i32, 1_000_000, 0, 0];
        tell(
            "no time",
            libc::syscall(libc::SYS_utimes, path, wrong.as_ptr()).into(),
        );
        let at = libc::AT_FDCWD;
        tell(
            "futimesat",
            libc::syscall(libc::SYS_futimesat, at, path, times.as_ptr()).into(),
        );
        tell(
            "to now",
            libc::syscall(libc::SYS_futimesat, at, path, ptr::null::<u8>()).into(),
        );
        libc::unlink(path);
        // `struct timex`: 32 words.
        let mut clock = [0u32; 33];
        clock[32] = 99;
        tell(
            "adjtimex",
            (libc::syscall(libc::SYS_adjtimex, clock.as_mut_ptr()) >= 0).into(),
        );
        println!(
            "  tick {} tolerance {} beyond {}",
            clock[11], clock[8], clock[32]
        );
        clock[0] = 0x4000;
        clock[11] = 20_000;
        tell(
            "a long tick",
            libc::syscall(libc::SYS_adjtimex, clock.as_mut_ptr()).into(),
        );
        tell(
            "of another clock",
            libc::syscall(libc::SYS_clock_adjtime, 1, clock.as_mut_ptr()).into(),
        );
    }
}

/// Numbers of removed system calls.
unsafe fn absent() {
    for number in [
        7, 13, 17, 27, 30, 76, 82, 90, 102, 113, 117, 149, 166, 169, 222, 249, 254, 313,
    ] {
        call(&format!("call {number}"), number, [0; 3]);
    }
}
