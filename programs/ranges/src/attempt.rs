//! What is tried: a call with arguments of which one or two are at the end of a range.

use std::fmt;

use abi::options::{self, Group};
use abi::{CALLS, Call, Kind, Status};

use crate::objects::{self, Object};

/// Ends of ranges.
pub const ENDS: [i64; 13] = [
    0,
    1,
    -1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 39,
    1 << 47,
    1 << 62,
    i64::MAX,
    i64::MIN,
    -4096,
];

/// Calls that are not tried: they end the program or the machine, make another program that would
/// try the rest too, or have no numbers.
const LEFT_OUT: [&str; 14] = [
    "clone",
    "clone3",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "reboot",
    "restart_syscall",
    "rt_sigreturn",
    "sched_yield",
    "sync",
    "syncfs",
    "vhangup",
    "riscv_flush_icache",
];

/// Arguments that are usual where zero is not, so that the others matter.
const USUAL: &[(&str, usize, i64)] = &[
    ("setxattr", 3, 1),
    ("lsetxattr", 3, 1),
    ("fsetxattr", 3, 1),
    ("getxattr", 3, 64),
    ("getcwd", 1, 4096),
    ("epoll_ctl", 1, 1),
    ("epoll_pwait", 2, 1),
    ("epoll_pwait", 4, 0),
    ("epoll_pwait", 5, 8),
    ("epoll_pwait2", 2, 1),
    ("epoll_pwait2", 4, 0),
    ("epoll_pwait2", 5, 8),
    ("fallocate", 3, 4096),
    ("openat", 2, 2),
    ("openat2", 3, 24),
    ("getdents64", 2, 4096),
    ("read", 2, 64),
    ("write", 2, 64),
    ("readv", 2, 1),
    ("writev", 2, 1),
    ("pread64", 2, 64),
    ("pwrite64", 2, 64),
    ("preadv", 2, 1),
    ("pwritev", 2, 1),
    ("preadv2", 2, 1),
    ("pwritev2", 2, 1),
    ("sendfile", 3, 64),
    ("ppoll", 1, 1),
    ("ppoll", 3, 0),
    ("ppoll", 4, 8),
    ("pselect6", 0, 8),
    ("pselect6", 5, 0),
    ("signalfd4", 0, -1),
    ("signalfd4", 2, 8),
    ("vmsplice", 2, 1),
    ("splice", 1, 0),
    ("splice", 3, 0),
    ("splice", 4, 64),
    ("tee", 2, 64),
    ("readlinkat", 3, 64),
    ("timerfd_create", 0, 1),
    ("futex", 1, 1),
    ("set_robust_list", 1, 24),
    ("timer_create", 0, 1),
    ("timer_create", 1, 0),
    ("clock_nanosleep", 0, 1),
    ("sched_setaffinity", 1, 8),
    ("sched_getaffinity", 1, 8),
    ("rt_sigsuspend", 1, 8),
    ("rt_sigaction", 0, 10),
    ("rt_sigaction", 3, 8),
    ("rt_sigprocmask", 3, 8),
    ("rt_sigpending", 1, 8),
    ("rt_sigtimedwait", 3, 8),
    ("mq_open", 1, 0o102),
    ("mq_timedsend", 2, 8),
    ("mq_timedreceive", 2, 8192),
    ("msgget", 1, 0o1600),
    ("semget", 1, 1),
    ("semget", 2, 0o1600),
    ("semtimedop", 2, 1),
    ("semop", 2, 1),
    ("shmget", 1, 4096),
    ("shmget", 2, 0o1600),
    ("socket", 0, 1),
    ("socket", 1, 1),
    ("socketpair", 0, 1),
    ("socketpair", 1, 1),
    ("bind", 2, 16),
    ("connect", 2, 16),
    ("sendto", 2, 64),
    ("sendto", 4, 0),
    ("recvfrom", 2, 64),
    ("recvfrom", 3, 0x40),
    ("recvmsg", 2, 0x40),
    ("recvmmsg", 2, 1),
    ("recvmmsg", 3, 0x40),
    ("sendmmsg", 2, 1),
    ("setsockopt", 1, 1),
    ("setsockopt", 2, 7),
    ("setsockopt", 4, 4),
    ("getsockopt", 1, 1),
    ("getsockopt", 2, 7),
    ("munmap", 1, 4096),
    ("mremap", 1, 4096),
    ("mremap", 2, 4096),
    ("mremap", 3, 1),
    ("mremap", 4, 0),
    ("mmap", 0, 0),
    ("mmap", 1, 4096),
    ("mmap", 2, 3),
    ("mmap", 3, 0x22),
    ("mprotect", 1, 4096),
    ("mprotect", 2, 3),
    ("msync", 1, 4096),
    ("mlock", 1, 4096),
    ("mlock2", 1, 4096),
    ("munlock", 1, 4096),
    ("mincore", 1, 4096),
    ("madvise", 1, 4096),
    ("mseal", 1, 4096),
    ("wait4", 0, -1),
    ("wait4", 2, 1),
    ("waitid", 3, 5),
    ("sched_getattr", 2, 56),
    ("getrandom", 1, 64),
    ("copy_file_range", 1, 0),
    ("copy_file_range", 3, 0),
    ("copy_file_range", 4, 64),
    ("close_range", 0, 100),
    ("close_range", 1, 100),
    ("rseq", 1, 32),
    ("process_madvise", 2, 1),
    ("futex_waitv", 1, 1),
    ("futex_waitv", 4, 1),
    ("futex_wake", 1, 0xffff_ffff),
    ("futex_wake", 2, 1),
    ("futex_wake", 3, 2),
    ("futex_wait", 2, 0xffff_ffff),
    ("futex_wait", 3, 2),
    ("io_setup", 0, 1),
    ("shmat", 1, 0),
    ("umask", 0, 0o22),
];

/// Arguments that choose what the call does: each choice is tried with ends of the others.
const CHOICES: &[(&str, usize, &Group)] = &[
    ("prctl", 0, &options::PRCTL),
    ("fcntl", 1, &options::FCNTL),
    ("ioctl", 1, &options::IOCTL),
    ("ioctl", 1, &options::IOCTL_TERMINAL),
    ("madvise", 2, &options::MADVISE),
    ("fadvise64", 3, &options::FADVISE),
    ("fallocate", 1, &options::FALLOCATE),
    ("futex", 1, &options::FUTEX),
    ("membarrier", 0, &options::MEMBARRIER),
    ("kcmp", 2, &options::KCMP),
    ("sched_setscheduler", 1, &options::POLICIES),
    ("syslog", 0, &options::SYSLOG),
    ("mmap", 3, &options::MMAP),
    ("setsockopt", 2, &options::SOCKET),
    ("getsockopt", 2, &options::SOCKET),
];

/// The argument that a part of a case is about, and the value that it has there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A register.
    Register(usize),
    /// A word of the memory that a register points to.
    Word(usize, usize),
}

/// A call with arguments.
#[derive(Clone)]
pub struct Attempt {
    /// The call.
    pub call: &'static Call,
    /// Which object descriptors are of.
    pub object: Object,
    /// What differs from what is usual.
    pub set: Vec<(Place, i64)>,
}

/// The calls that are tried.
pub fn calls() -> impl Iterator<Item = &'static Call> {
    let tried = |call: &&Call| {
        call.status != Status::Absent
            && !call.arguments.is_empty()
            && !LEFT_OUT.contains(&call.name)
    };
    CALLS.iter().filter(tried)
}

/// Every argument of a call, and every word of memory that it points to first; with other objects
/// than files those arguments that are numbers.
pub fn places(call: &Call, object: Object) -> Vec<Place> {
    let mut places = Vec::new();
    for (at, kind) in call.arguments.iter().enumerate() {
        let is_number = !matches!(kind, Kind::Pointer | Kind::Bytes | Kind::Path | Kind::Fd);
        if is_number || object == Object::File {
            places.push(Place::Register(at));
        }
        if *kind == Kind::Pointer && object == Object::File {
            places.extend((0..4).map(|word| Place::Word(at, word)));
        }
    }
    places
}

/// The choices of a call's argument, as what is set.
pub fn choices(call: &Call) -> Vec<Vec<(Place, i64)>> {
    let mut all = vec![vec![]];
    for (_, at, group) in CHOICES.iter().filter(|(name, ..)| *name == call.name) {
        let values = group.choices.iter().map(|choice| choice.value as i64);
        all.extend(values.map(|value| vec![(Place::Register(*at), value)]));
    }
    all
}

/// The objects whose descriptors a call is tried with.
pub fn objects(call: &Call) -> &'static [Object] {
    match call.arguments.contains(&Kind::Fd) {
        true => objects::ALL,
        false => &objects::ALL[..1],
    }
}

impl Attempt {
    /// The registers, with the addresses and descriptors of `objects`.
    pub fn registers(&self) -> [i64; 6] {
        let mut registers = [0; 6];
        let (mut paths, mut descriptors) = (0, 0);
        for (at, kind) in self.call.arguments.iter().enumerate() {
            registers[at] = match kind {
                Kind::Pointer | Kind::Bytes => objects::memory(at),
                Kind::Path => {
                    paths += 1;
                    objects::path(self.call.name, paths - 1)
                }
                Kind::Fd => {
                    descriptors += 1;
                    objects::descriptor(self.object, descriptors - 1, self.call.name)
                }
                _ => 0,
            };
        }
        for (_, at, value) in USUAL.iter().filter(|(name, ..)| *name == self.call.name) {
            registers[*at] = *value;
        }
        for (place, value) in &self.set {
            if let Place::Register(at) = place {
                registers[*at] = *value;
            }
        }
        registers
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{} of {:?}:", self.call.name, self.object)?;
        for (place, value) in &self.set {
            write!(out, " {} {}", Named(*place), End(*value))?;
        }
        Ok(())
    }
}

/// A place as text.
pub struct Named(pub Place);

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Place::Register(at) => write!(out, "{at}"),
            Place::Word(at, word) => write!(out, "{at}[{word}]"),
        }
    }
}

/// A value as text.
pub struct End(pub i64);

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let value = self.0;
        match value {
            i64::MIN => write!(out, "-2^63"),
            i64::MAX => write!(out, "2^63-1"),
            65536.. if (value as u64).is_power_of_two() => {
                write!(out, "2^{}", value.trailing_zeros())
            }
            65536.. if (value as u64 + 1).is_power_of_two() => {
                write!(out, "2^{}-1", (value as u64 + 1).trailing_zeros())
            }
            _ => write!(out, "{value}"),
        }
    }
}
