//! Attributes that a process reads and changes of itself: prctl(2), capabilities, personality(2),
//! all limits.

use std::ffi::CStr;
use std::{fs, mem, ptr, thread};

use libc::{c_int, c_ulong};

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        controls();
        tell_end("named", in_child(|| named()));
        tell_end("capabilities", in_child(|| capabilities()));
        tell_end("ambient", in_child(|| ambient()));
        tell_end("death", in_child(|| deaths()));
        limits();
        tell_end("lowered", in_child(|| lowered()));
        file_capabilities();
        listed();
    }
}

/// listxattr(2) returns names in descending order.
unsafe fn listed() {
    let file = unsafe { libc::memfd_create(c"file".as_ptr(), 0) };
    let list = || {
        let mut names = [0_u8; 256];
        let len = unsafe { libc::flistxattr(file, names.as_mut_ptr().cast(), names.len()) };
        let names = &names[..len.max(0) as usize];
        println!("{}", String::from_utf8_lossy(names).replace('\0', " "));
    };
    let set = |name: &CStr, value: &[u8], flags| {
        let value = (value.as_ptr().cast(), value.len());
        let set = unsafe { libc::fsetxattr(file, name.as_ptr(), value.0, value.1, flags) };
        tell("set", set);
    };
    let get = |name: &CStr| {
        let mut value = [0_u8; 16];
        let place = value.as_mut_ptr().cast();
        let len = unsafe { libc::fgetxattr(file, name.as_ptr(), place, value.len()) };
        println!("{name:?}: {len} {:?}", value[0]);
    };
    let names = [
        c"trusted.m",
        c"trusted.b",
        c"trusted.z",
        c"trusted.bb",
        c"trusted.a",
    ];
    for (name, value) in names.into_iter().zip([b"1", b"2", b"3", b"4", b"5"]) {
        set(name, value, libc::XATTR_CREATE);
    }
    list();
    set(c"trusted.bb", b"another", libc::XATTR_REPLACE);
    set(c"trusted.b", b"a third", 0);
    tell("remove", unsafe {
        libc::fremovexattr(file, c"trusted.m".as_ptr())
    });
    set(c"trusted.m", b"", libc::XATTR_REPLACE);
    names.into_iter().for_each(get);
    list();
    unsafe { libc::close(file) };
}

unsafe fn control(what: &str, option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) {
    tell(what, unsafe { libc::prctl(option, a, b, c, d) });
}

/// Every option of prctl(2), with valid and with refused arguments.
unsafe fn controls() {
    unsafe {
        control("death signal 65", libc::PR_SET_PDEATHSIG, 65, 0, 0, 0);
        control("death signal nowhere", libc::PR_GET_PDEATHSIG, 0, 0, 0, 0);
        control("dumpable", libc::PR_GET_DUMPABLE, 0, 0, 0, 0);
        control("dumpable for root only", libc::PR_SET_DUMPABLE, 2, 0, 0, 0);
        control("keep capabilities 2", libc::PR_SET_KEEPCAPS, 2, 0, 0, 0);
        control("timing by the clock", libc::PR_SET_TIMING, 1, 0, 0, 0);
        control("timing", libc::PR_GET_TIMING, 0, 0, 0, 0);
        control(
            "no new privileges, odd",
            libc::PR_SET_NO_NEW_PRIVS,
            1,
            1,
            0,
            0,
        );
        control(
            "no new privileges, off",
            libc::PR_SET_NO_NEW_PRIVS,
            0,
            0,
            0,
            0,
        );
        control(
            "no new privileges, asked oddly",
            libc::PR_GET_NO_NEW_PRIVS,
            1,
            0,
            0,
            0,
        );
        control("bounding of none", libc::PR_CAPBSET_READ, 64, 0, 0, 0);
        control("bounding", libc::PR_CAPBSET_READ, 40, 0, 0, 0);
        control(
            "secure bits, odd",
            libc::PR_SET_SECUREBITS,
            1 << 20,
            0,
            0,
            0,
        );
        control("slack of nobody", libc::PR_SET_TIMERSLACK, 0, 0, 0, 0);
        control("slack", libc::PR_GET_TIMERSLACK, 0, 0, 0, 0);
        control("slack 100", libc::PR_SET_TIMERSLACK, 100, 0, 0, 0);
        control("slack", libc::PR_GET_TIMERSLACK, 0, 0, 0, 0);
        control("no huge pages", libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
        control("none", libc::PR_GET_THP_DISABLE, 0, 0, 0, 0);
        control("huge pages", libc::PR_SET_THP_DISABLE, 0, 0, 0, 0);
        control("huge pages, oddly", libc::PR_SET_THP_DISABLE, 0, 1, 0, 0);
        control("asked oddly", libc::PR_GET_THP_DISABLE, 0, 1, 0, 0);
        control("memory errors", libc::PR_MCE_KILL_GET, 0, 0, 0, 0);
        control("early", libc::PR_MCE_KILL, 1, 1, 0, 0);
        control("memory errors", libc::PR_MCE_KILL_GET, 0, 0, 0, 0);
        control("as before", libc::PR_MCE_KILL, 0, 0, 0, 0);
        control("oddly", libc::PR_MCE_KILL, 7, 0, 0, 0);
        control("reclaimer", 57, 1, 0, 0, 0);
        control("reclaims", 58, 0, 0, 0, 0);
        control("no reclaimer", 57, 0, 0, 0, 0);
        control("write or execute", 66, 0, 0, 0, 0);
        control("write or execute, odd", 65, 8, 0, 0, 0);
        control("an odd one", 9999, 0, 0, 0, 0);
        control("endian", 19, 0, 0, 0, 0);
        control("unaligned", 5, 0, 0, 0, 0);
        control("floating point", 9, 0, 0, 0, 0);
        control("exceptions", 11, 0, 0, 0, 0);
        let mut vector = [0u64; 64];
        let len = libc::prctl(
            0x4155_5856,
            vector.as_mut_ptr(),
            mem::size_of_val(&vector),
            0,
            0,
        );
        let saved = fs::read("/proc/self/auxv").unwrap_or_default();
        let words = saved
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        println!(
            "auxiliary vector: {}",
            len > 0 && words.zip(vector).all(|(one, other)| one == other)
        );
        control(
            "of a small place",
            0x4155_5856,
            vector.as_ptr() as c_ulong,
            0,
            1,
            0,
        );
        println!("personality {:#x}", libc::personality(0xffff_ffff));
        let other = thread::spawn(|| {
            tell("of a thread", libc::personality(0x0400_0000));
            libc::personality(0xffff_ffff)
        });
        println!("a thread's {:#x}", other.join().unwrap_or(-1));
        println!("this one's {:#x}", libc::personality(0xffff_ffff));
        tell_end(
            "no random addresses",
            in_child(|| {
                tell("set", libc::personality(0x0040_0000 | 0x0004_0000));
                println!("personality {:#x}", libc::personality(0xffff_ffff));
                println!(
                    "{}",
                    fs::read_to_string("/proc/self/personality")
                        .unwrap_or_default()
                        .trim()
                );
            }),
        );
    }
}

/// The name of an anonymous area, as /proc/PID/maps shows it.
unsafe fn named() {
    unsafe {
        let at = libc::mmap(
            ptr::null_mut(),
            0x3000,
            3,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        ) as c_ulong;
        let set = |what: &str, name: *const libc::c_char, start: c_ulong, len: c_ulong| {
            control(what, 0x5356_4d41, 0, start, len, name as c_ulong);
        };
        set("a name", c"a heap".as_ptr(), at, 0x1000);
        let shown = || {
            let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
            let named = maps.lines().filter(|line| line.contains("[anon:"));
            named
                .map(|line| {
                    line.split_whitespace()
                        .skip(5)
                        .collect::<Vec<_>>()
                        .join(" ")
                })
                .collect::<Vec<_>>()
        };
        println!("{:?}", shown());
        set("no such name", c"a[b".as_ptr(), at, 0x1000);
        set("nowhere", c"a".as_ptr(), at + 1, 0x1000);
        set(
            "of nothing mapped",
            c"a".as_ptr(),
            at + 0x10_0000_0000,
            0x1000,
        );
        set("no name", ptr::null(), at, 0x1000);
        println!("{:?}", shown());
        control("no such kind", 0x5356_4d41, 7, at, 0x1000, 0);
        let mut name = [0u8; 16];
        control(
            "named",
            libc::PR_SET_NAME,
            c"more than fifteen bytes".as_ptr() as c_ulong,
            0,
            0,
            0,
        );
        control(
            "its name",
            libc::PR_GET_NAME,
            name.as_mut_ptr() as c_ulong,
            0,
            0,
            0,
        );
        println!("{:?}", std::ffi::CStr::from_bytes_until_nul(&name));
        println!("{:?}", fs::read_to_string("/proc/self/comm"));
        println!(
            "written: {}",
            fs::write("/proc/self/comm", "another").is_ok()
        );
        println!("{:?}", fs::read_to_string("/proc/thread-self/comm"));
        tell("write or execute", libc::prctl(65, 1, 0, 0, 0));
        tell("is so", libc::prctl(66, 0, 0, 0, 0));
        tell("no more", libc::prctl(65, 0, 0, 0, 0));
        let both = libc::mmap(
            ptr::null_mut(),
            0x1000,
            7,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        tell("both", if both == libc::MAP_FAILED { -1 } else { 0 });
        tell("later", libc::mprotect(at as *mut _, 0x1000, 5));
    }
}

#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

unsafe fn capget(version: u32, pid: c_int) -> (i64, [u32; 6], u32) {
    let mut header = Header { version, pid };
    let mut sets = [0u32; 6];
    let result = unsafe { libc::syscall(libc::SYS_capget, &mut header, sets.as_mut_ptr()) };
    (result, sets, header.version)
}

unsafe fn capset(what: &str, sets: [u32; 6]) {
    let mut header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    tell(what, unsafe {
        libc::syscall(libc::SYS_capset, &mut header, sets.as_ptr())
    });
}

fn told(key: &str) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or("absent").trim().to_owned()
}

unsafe fn capabilities() {
    unsafe {
        let (result, sets, _) = capget(0x2008_0522, 0);
        tell("all", result);
        println!("{sets:x?}");
        let (result, sets, _) = capget(0x1998_0330, 0);
        tell("the first version", result);
        println!("{sets:x?}");
        let (result, _, version) = capget(7, 0);
        tell("no version", result);
        println!("{version:#x}");
        tell("of nobody", capget(0x2008_0522, 77777).0);
        tell("of a negative number", capget(0x2008_0522, -1).0);
        capset("effective of what is not permitted", [3, 1, 0, 0, 0, 0]);
        capset("fewer", [1, 3, 3, 0, 0, 0]);
        capset("more", [1, 7, 3, 0, 0, 0]);
        capset("inheritable of what is not permitted", [1, 3, 7, 0, 0, 0]);
        for key in [
            "CapInh:",
            "CapPrm:",
            "CapEff:",
            "CapBnd:",
            "CapAmb:",
            "NoNewPrivs:",
            "Groups:",
            "Uid:",
        ] {
            println!("{key} {}", told(key));
        }
        tell(
            "chown by hand",
            libc::chown(c"/proc/self/nothing".as_ptr(), 1, 1),
        );
        tell("another root", libc::chroot(c"/".as_ptr()));
    }
}

unsafe fn ambient() {
    unsafe {
        let ambient = |what: &str, operation: c_ulong, capability: c_ulong| {
            control(what, libc::PR_CAP_AMBIENT, operation, capability, 0, 0);
        };
        ambient("is set", 1, 5);
        ambient("raise what is not inheritable", 2, 5);
        capset("inheritable", [!0, !0, 1 << 5, 0x1ff, 0x1ff, 0]);
        ambient("raise", 2, 5);
        ambient("is set", 1, 5);
        println!("{}", told("CapAmb:"));
        tell("another user", libc::setresuid(1000, 1000, 1000));
        println!(
            "{} {} {}",
            told("CapAmb:"),
            told("CapPrm:"),
            told("CapEff:")
        );
        tell("root again", libc::setresuid(0, 0, 0));
        println!("{} {}", told("CapAmb:"), told("CapPrm:"));
        tell_end("kept", in_child(|| kept()));
    }
}

/// Attributes that survive a change of user, and the effect of execve(2) on them.
unsafe fn kept() {
    unsafe {
        tell("keep", libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0));
        libc::setresuid(1000, 1000, 1000);
        println!(
            "{} {} {}",
            told("CapAmb:"),
            told("CapPrm:"),
            told("CapEff:")
        );
    }
}

unsafe fn deaths() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        tell(
            "subreaper",
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
        );
        let own = libc::getpid();
        in_child(|| {
            if libc::fork() == 0 {
                while libc::getppid() != own {
                    libc::sched_yield();
                }
                libc::_exit(7);
            }
        });
        let mut status = 0;
        libc::wait(&mut status);
        tell_end("an orphan comes to it", status);
        let middle = libc::fork();
        if middle == 0 {
            let child = libc::fork();
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR1, 0, 0, 0);
                let mut asked: c_int = 0;
                libc::prctl(libc::PR_GET_PDEATHSIG, &mut asked, 0, 0, 0);
                println!("death signal {asked}");
                in_child(|| {
                    let mut asked: c_int = 0;
                    libc::prctl(libc::PR_GET_PDEATHSIG, &mut asked, 0, 0, 0);
                    println!("a child's {asked}");
                });
                libc::write(ends[1], c"x".as_ptr().cast(), 1);
                loop {
                    libc::pause();
                }
            }
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
        libc::waitpid(middle, &mut status, 0);
        libc::wait(&mut status);
        tell_end("its parent ended", status);
    }
}

const LIMITS: [&str; 16] = [
    "cpu",
    "fsize",
    "data",
    "stack",
    "core",
    "rss",
    "nproc",
    "nofile",
    "memlock",
    "as",
    "locks",
    "sigpending",
    "msgqueue",
    "nice",
    "rtprio",
    "rttime",
];

fn limits() {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    for line in text.lines() {
        let name = line.get(..26).unwrap_or("").trim();
        let unit = line.get(68..).unwrap_or("").trim();
        println!("{name} [{unit}]");
    }
    for (kind, name) in LIMITS.iter().enumerate() {
        let mut limit = [0u64; 2];
        let none = ptr::null::<u64>();
        // SAFETY: the kernel writes two words.
        let result = unsafe { libc::syscall(libc::SYS_prlimit64, 0, kind, none, &mut limit) };
        tell(name, result);
        let sized = ["nproc", "sigpending", "memlock", "nofile"].contains(name);
        if !sized {
            println!("  {:x} {:x}", limit[0], limit[1]);
        }
    }
}

unsafe fn set(kind: u32, soft: u64, hard: u64) -> i64 {
    let (limit, none) = ([soft, hard], ptr::null::<u64>());
    unsafe { libc::syscall(libc::SYS_prlimit64, 0, kind, &limit, none) }
}

unsafe fn pages(count: usize) -> i64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let at = unsafe { libc::mmap(ptr::null_mut(), count << 12, 3, flags, -1, 0) };
    if at == libc::MAP_FAILED { -1 } else { 0 }
}

/// Effects of limits: the operations beyond them that are refused.
unsafe fn lowered() {
    unsafe {
        tell("soft above hard", set(libc::RLIMIT_AS as u32, 2, 1));
        tell(
            "too many files",
            set(libc::RLIMIT_NOFILE as u32, 1 << 40, 1 << 40),
        );
        tell_end(
            "data",
            in_child(|| {
                tell("set", set(libc::RLIMIT_DATA as u32, 1 << 26, 1 << 26));
                tell("much", pages(1 << 15));
                tell("shared", {
                    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
                    let at = libc::mmap(ptr::null_mut(), 1 << 27, 3, flags, -1, 0);
                    if at == libc::MAP_FAILED { -1 } else { 0 }
                });
                let read_only = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let at = libc::mmap(ptr::null_mut(), 1 << 27, 1, read_only, -1, 0);
                tell("read-only", if at == libc::MAP_FAILED { -1 } else { 0 });
                tell("made writable", libc::mprotect(at, 1 << 27, 3));
                println!("brk {}", libc::sbrk(1 << 27) as isize);
            }),
        );
        tell_end(
            "all memory",
            in_child(|| {
                tell("set", set(libc::RLIMIT_AS as u32, 1 << 28, 1 << 28));
                tell("much", pages(1 << 17));
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let at = libc::mmap(ptr::null_mut(), 0x1000, 3, flags, -1, 0);
                let grown = libc::mremap(at, 0x1000, 1 << 29, libc::MREMAP_MAYMOVE);
                tell("grown", if grown == libc::MAP_FAILED { -1 } else { 0 });
            }),
        );
        tell_end(
            "processes",
            in_child(|| {
                libc::setresuid(4321, 4321, 4321);
                tell("set", set(libc::RLIMIT_NPROC as u32, 2, 2));
                tell_end(
                    "one more",
                    in_child(|| {
                        tell("a third", libc::fork());
                    }),
                );
            }),
        );
        tell_end(
            "for root",
            in_child(|| {
                tell("set", set(libc::RLIMIT_NPROC as u32, 1, 1));
                tell_end("one more", in_child(|| ()));
            }),
        );
        tell_end(
            "nice",
            in_child(|| {
                tell("set", set(libc::RLIMIT_NICE as u32, 25, 25));
                tell("real time", set(libc::RLIMIT_RTPRIO as u32, 3, 3));
                libc::setresuid(4321, 4321, 4321);
                tell("up to it", libc::setpriority(libc::PRIO_PROCESS, 0, -5));
                tell("beyond", libc::setpriority(libc::PRIO_PROCESS, 0, -6));
                for priority in [3u32, 4] {
                    let kind = libc::SCHED_FIFO;
                    tell(
                        &format!("priority {priority}"),
                        libc::syscall(libc::SYS_sched_setscheduler, 0, kind, &priority),
                    );
                }
                tell("hard again", set(libc::RLIMIT_NICE as u32, 26, 26));
            }),
        );
        tell_end(
            "queues",
            in_child(|| {
                tell("set", set(libc::RLIMIT_MSGQUEUE as u32, 1000, 1000));
                libc::setresuid(4321, 4321, 4321);
                let attributes = [0i64, 10, 1000, 0, 0, 0, 0, 0];
                let name = c"limited".as_ptr();
                tell(
                    "a queue",
                    libc::syscall(
                        libc::SYS_mq_open,
                        name,
                        libc::O_CREAT | libc::O_RDWR,
                        0o600,
                        &attributes,
                    ),
                );
            }),
        );
        tell_end(
            "stack",
            in_child(|| {
                // A stack keeps the size that it has reached.
                deep(64);
                tell("set", set(libc::RLIMIT_STACK as u32, 1 << 16, 1 << 16));
                deep(64);
                println!("a little");
                deep(1 << 14);
            }),
        );
    }
}

#[inline(never)]
fn deep(levels: usize) -> u8 {
    let room = std::hint::black_box([levels as u8; 1024]);
    if levels == 0 {
        0
    } else {
        deep(levels - 1).wrapping_add(room[17])
    }
}

/// The valid values of security.capability, and the privilege to set it.
unsafe fn file_capabilities() {
    unsafe {
        let file = libc::memfd_create(c"program".as_ptr(), 0);
        let set = |what: &str, value: &[u8]| {
            let name = c"security.capability".as_ptr();
            tell(
                what,
                libc::fsetxattr(file, name, value.as_ptr().cast(), value.len(), 0),
            );
        };
        let second = |flags: u8| {
            let mut value = [0; 20];
            (value[0], value[3]) = (flags, 2);
            value
        };
        let mut third = [0; 24];
        (third[3], third[20]) = (3, 7);
        println!("security.capability");
        set("  nothing", &[]);
        set("  a byte", &[1]);
        set("  too short", &second(0)[..19]);
        set("  too long", &[second(0).as_slice(), &[0; 4]].concat());
        set("  an unknown flag", &second(2));
        set(
            "  the first revision",
            &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        );
        set("  the second", &second(1));
        set("  the third", &third);
        let mut value = [0_u8; 64];
        let name = c"security.capability".as_ptr();
        tell(
            "  its length",
            libc::fgetxattr(file, name, value.as_mut_ptr().cast(), 64) as i64,
        );
        let status = in_child(|| {
            libc::fchown(file, 1000, 1000);
            set("  of root's", &second(0));
            libc::setresuid(1000, 1000, 1000);
            set("  malformed, by its owner", &[1]);
            set("  by its owner", &second(0));
            tell("  removed by its owner", libc::fremovexattr(file, name));
        });
        tell_end("  another user", status);
        libc::close(file);
    }
}
