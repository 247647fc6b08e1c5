//! The values that arguments take: by the table of system calls, and by name where its kinds say
//! too little.

use abi::options::{self, Group};
use abi::{Call, Kind, Status};
use random::Random;

use crate::arena;
use crate::blob::{self, Blob};

const F_SETOWN: u64 = 8;
/// Descriptors that a program has when it starts, and some that it may get.
const DESCRIPTORS: u64 = 48;

/// An argument of the call, after those `before` it.
pub fn argument(call: &Call, before: &[u64], random: &mut Random) -> u64 {
    let index = before.len();
    if let Some(values) = known(call.name, index)
        && values.contains(&OWN)
    {
        // Small numbers belong to different processes on each kernel.
        return random.one_of(values);
    }
    if random.once_in(30) {
        return random.edge();
    }
    if let Some(group) = group(call.name, before) {
        return choice(group, random);
    }
    if let Some(values) = known(call.name, index)
        && !random.once_in(20)
    {
        return random.one_of(values);
    }
    match call.arguments[index] {
        Kind::Fd => descriptor(random),
        Kind::Path => path(random),
        Kind::Bytes => arena::structure(Blob::Bytes, random) as u64,
        Kind::Pointer => pointer(call.name, index, random),
        Kind::Uint => blob::length(random),
        Kind::Octal => random.one_of(&[0o644, 0o755, 0, 0o777, 0o7777, 0o600, 7, 4, 2]),
        Kind::Signal => random.one_of(&[0, 10, 12, 17, 18, 28, 34, 35, 64, 65, u64::MAX]),
        Kind::Int if is_position(call.name, index) => blob::offset(random),
        Kind::Int => random.one_of(&[0, 0, 1, 2, 3, 4, 5, 8, 16, 100, u64::MAX, 1 << 31]),
        Kind::Hex => match random.below(4) {
            0 => 0,
            1 => 1 << random.below(32),
            2 => random.below(16),
            _ => random.below(4) << random.below(32),
        },
    }
}

fn descriptor(random: &mut Random) -> u64 {
    match random.below(16) {
        0 => (libc::AT_FDCWD as i64) as u64,
        1 => u64::MAX,
        _ => random.below(DESCRIPTORS),
    }
}

fn path(random: &mut Random) -> u64 {
    match random.once_in(24) {
        true => arena::odd(random) as u64,
        false => arena::string(random) as u64,
    }
}

fn pointer(name: &str, index: usize, random: &mut Random) -> u64 {
    if random.once_in(14) {
        return arena::odd(random) as u64;
    }
    let at = match (name, index) {
        (
            "mmap" | "munmap" | "mremap" | "mprotect" | "madvise" | "mincore" | "msync" | "mlock",
            0,
        )
        | ("munlock" | "mlock2" | "remap_file_pages" | "mseal" | "shmat" | "shmdt", _)
        | ("mremap", 4) => arena::page(random),
        ("add_key" | "request_key", 0 | 1) => arena::string(random),
        ("setxattr" | "lsetxattr" | "fsetxattr", _) => arena::structure(Blob::Bytes, random),
        _ => match structure(name, index) {
            Some(kind) => arena::structure(kind, random),
            None if random.once_in(3) => 0,
            None => arena::output(random),
        },
    };
    at as u64
}

/// The structure that a call reads.
fn structure(name: &str, index: usize) -> Option<Blob> {
    Some(match (name, index) {
        ("readv" | "writev" | "preadv" | "pwritev" | "preadv2" | "pwritev2" | "vmsplice", 1) => {
            Blob::Vectors
        }
        ("process_vm_readv" | "process_vm_writev", 1 | 3) | ("process_madvise", 1) => Blob::Vectors,
        ("bind" | "connect", 1) | ("sendto" | "recvfrom", 4) => Blob::Address,
        ("accept" | "accept4" | "getsockname" | "getpeername", 2) | ("recvfrom", 5) => Blob::Length,
        ("getsockopt", 4) => Blob::Length,
        ("setsockopt", 3) => Blob::Number,
        ("sendmsg" | "recvmsg" | "sendmmsg" | "recvmmsg", 1) => Blob::Message,
        ("sendfile", 2) | ("splice" | "copy_file_range", 1 | 3) | ("cachestat", 1) => Blob::Offset,
        ("ppoll", 0) => Blob::Poll,
        ("pselect6", 1..4) => Blob::Descriptors,
        ("ppoll", 2) | ("pselect6", 4) | ("nanosleep", 0) | ("clock_nanosleep", 2) => {
            Blob::Timespec
        }
        ("rt_sigtimedwait" | "io_getevents", 2 | 4) | ("recvmmsg", 4) => Blob::Timespec,
        ("mq_timedsend" | "mq_timedreceive", 4) | ("semtimedop", 3) => Blob::Timespec,
        ("utimensat", 2) | ("clock_settime", 1) | ("futex" | "futex_waitv", 3) => Blob::Timespec,
        ("futex_wait", 4) | ("epoll_pwait2", 3) => Blob::Timespec,
        ("timerfd_settime" | "timer_settime", 2) => Blob::Timerspec,
        ("setitimer", 1) => Blob::Timeval,
        ("rt_sigprocmask" | "signalfd4", 1) | ("rt_sigsuspend" | "rt_sigtimedwait", 0) => {
            Blob::Signals
        }
        ("ppoll", 3) | ("epoll_pwait", 4) => Blob::Signals,
        ("rt_sigaction", 1) => Blob::Action,
        ("timer_create" | "mq_notify", 1) => Blob::Event,
        ("rt_sigqueueinfo" | "pidfd_send_signal", 2) | ("rt_tgsigqueueinfo", 3) => Blob::SignalInfo,
        ("sigaltstack", 0) => Blob::Stack,
        ("epoll_ctl", 3) => Blob::EpollEvent,
        ("openat2", 2) => Blob::OpenHow,
        ("sched_setattr", 1) => Blob::SchedAttr,
        ("semop" | "semtimedop", 1) => Blob::Semaphores,
        ("setrlimit", 1) | ("prlimit64", 2) => Blob::Limits,
        ("capget" | "capset", 0) => Blob::Header,
        ("mq_open", 3) | ("mq_getsetattr", 1) => Blob::QueueLimits,
        ("setgroups", 1) => Blob::Groups,
        ("futex_waitv" | "futex_requeue", 0) => Blob::Waiters,
        ("name_to_handle_at", 2) | ("open_by_handle_at", 1) => Blob::Handle,
        ("seccomp", 2) => Blob::Filter,
        ("sched_setparam", 1) | ("sched_setscheduler", 2) => Blob::Number,
        ("msgsnd", 1) => Blob::Offset,
        _ => return None,
    })
}

/// Whether an argument is a position in a file, or its length.
fn is_position(name: &str, index: usize) -> bool {
    matches!(
        (name, index),
        ("lseek" | "truncate" | "ftruncate" | "readahead", 1)
            | ("fallocate" | "fadvise64", 1 | 2)
            | ("fallocate", 3)
            | (
                "pread64" | "pwrite64" | "preadv" | "pwritev" | "preadv2" | "pwritev2",
                3
            )
            | ("sync_file_range", 1 | 2)
    )
}

/// A choice of a group: one, several, or one with a bit that is none.
fn choice(group: &Group, random: &mut Random) -> u64 {
    // What Stile was built without, it refuses otherwise than a Linux that has it.
    let mut any = || loop {
        let choice = &group.choices[random.below(group.choices.len() as u64) as usize];
        // F_SETOWN would tell which processes there are.
        let tells = group.title == options::FCNTL.title && choice.value == F_SETOWN;
        if choice.status != Status::Absent && !tells {
            break choice.value;
        }
    };
    let (one, two, three) = (any(), any(), any());
    match random.below(8) {
        0 => 0,
        1..5 => one,
        5 => one | two,
        6 => one | two | three,
        _ => one | 1 << random.below(40),
    }
}

/// The group of choices that an argument takes.
fn group(name: &str, before: &[u64]) -> Option<&'static Group> {
    Some(match (name, before.len()) {
        ("setsockopt" | "getsockopt", 2) => match before[1] {
            1 => &options::SOCKET,
            6 => &options::TCP,
            17 => &options::UDP,
            41 => &options::IPV6,
            _ => &options::IP,
        },
        ("prctl", 0) => &options::PRCTL,
        ("personality", 0) => &options::PERSONALITY,
        ("unshare", 0) => &options::UNSHARE,
        ("mmap", 3) => &options::MMAP,
        ("mremap", 3) => &options::MREMAP,
        ("madvise", 2) => &options::MADVISE,
        ("process_madvise", 3) => &options::PROCESS_MADVISE,
        ("mlock2", 2) => &options::MLOCK,
        ("mlockall", 0) => &options::MLOCKALL,
        ("msync", 2) => &options::MSYNC,
        ("shmat", 2) => &options::SHMAT,
        ("openat", 2) => &options::OPEN,
        ("fcntl", 1) => &options::FCNTL,
        ("ioctl", 1) => &options::IOCTL,
        ("fadvise64", 3) => &options::FADVISE,
        ("fallocate", 1) => &options::FALLOCATE,
        ("name_to_handle_at", 4) => &options::HANDLE,
        ("inotify_add_watch", 2) => &options::INOTIFY,
        ("renameat2", 4) => &options::RENAME,
        ("preadv2" | "pwritev2", 5) => &options::RWF,
        ("statx", 2) => &options::STATX,
        ("statx", 3) => &options::STATX_MASK,
        ("sync_file_range", 3) => &options::SYNC_FILE_RANGE,
        ("umount2", 1) => &options::UMOUNT,
        ("close_range", 2) => &options::CLOSE_RANGE,
        ("eventfd2", 1) => &options::EVENTFD,
        ("memfd_create", 1) => &options::MEMFD,
        ("pidfd_open", 1) => &options::PIDFD,
        ("pidfd_send_signal", 3) => &options::PIDFD_SIGNAL,
        ("pipe2", 1) => &options::PIPE,
        ("splice" | "vmsplice" | "tee", 3 | 5) => &options::SPLICE,
        ("timerfd_settime", 1) => &options::TIMERFD,
        ("getrandom", 2) => &options::GETRANDOM,
        ("futex", 1) => &options::FUTEX,
        ("membarrier", 0) => &options::MEMBARRIER,
        ("kcmp", 2) => &options::KCMP,
        ("sched_setscheduler", 1) => &options::POLICIES,
        ("wait4", 2) | ("waitid", 3) => &options::WAIT,
        _ => return None,
    })
}

/// Likely values of arguments that are no descriptors, structures or choices.
fn known(name: &str, index: usize) -> Option<&'static [u64]> {
    const SELF: u64 = 0;
    const LEVELS: &[u64] = &[1, 1, 1, 1, 0, 6, 17, 41];
    const RIGHTS: &[u64] = &[0, 1, 3, 3, 5, 7, 8, 1 << 24];
    Some(match (name, index) {
        ("socket" | "socketpair", 0) => &[1, 1, 1, 2, 2, 10, 16, 17, 40],
        ("socket" | "socketpair", 1) => &[1, 2, 1, 2, 5, 3, 0x801, 0x8_0002, 0x8_0801, 6],
        ("socket" | "socketpair", 2) => &[0, 0, 0, 6, 17, 1, 4, 58, 255],
        ("setsockopt" | "getsockopt", 1) => LEVELS,
        ("shutdown", 1) => &[0, 1, 2, 3],
        ("listen", 1) => &[0, 1, 5, 4096, u64::MAX],
        ("sendto" | "recvfrom" | "sendmmsg" | "recvmmsg", 3) | ("sendmsg" | "recvmsg", 2) => &[
            0, 0x40, 0x40, 0x4040, 2, 0x42, 1, 0x20, 0x8000, 0x4000, 0x100, 0x2000, 4,
        ],
        ("mmap" | "mprotect", 2) => RIGHTS,
        ("mmap" | "munmap" | "mprotect" | "madvise" | "msync" | "mlock" | "munlock", 1)
        | ("mlock2" | "mincore" | "remap_file_pages" | "mseal", 1)
        | ("mremap", 1 | 2) => &[4096, 4096, 8192, 16384, 1, 0, 1 << 20, 1 << 36, u64::MAX],
        ("mmap", 5) => &[0, 0, 4096, 1, 1 << 20, 1 << 63],
        ("lseek", 2) => &[0, 1, 2, 3, 4, 5],
        ("epoll_ctl", 1) => &[1, 1, 2, 3, 4],
        ("epoll_pwait", 3) | ("epoll_pwait", 2) => &[0, 1, 8, u64::MAX],
        ("timerfd_create", 0) | ("timer_create", 0) => &[0, 1, 7, 8, 9, 2, 3, 11, u64::MAX - 5],
        ("clock_gettime" | "clock_getres" | "clock_settime" | "clock_nanosleep", 0) => &[
            0,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
            10,
            11,
            12,
            u64::MAX,
            u64::MAX - 5,
        ],
        ("clock_nanosleep", 1) | ("timer_settime", 1) => &[0, 1, 2],
        ("flock", 1) => &[1, 2, 5, 6, 8, 4, 0, 3, 32],
        ("mknodat", 2) => &[
            0o100644, 0o10644, 0o140644, 0o20644, 0o60644, 0o40755, 0o644, 0o170000,
        ],
        ("unlinkat", 2) => &[0, 0, 0x200, 0x200, 1],
        ("linkat", 4) => &[0, 0x400, 0x1000, 0x1400, 1],
        ("newfstatat" | "utimensat" | "fchownat" | "faccessat2" | "fchmodat2", 3 | 4) => {
            &[0, 0x100, 0x1000, 0x1100, 0x800, 0x200, 1]
        }
        ("setxattr" | "lsetxattr" | "fsetxattr", 4) => &[0, 0, 1, 2, 3, 4],
        ("shmget" | "semget" | "msgget", 0) => &[0, 1, 2, 3],
        ("shmget" | "semget" | "msgget", _) if index == last(name) => {
            &[0o1600, 0o1644, 0o3600, 0, 0o600, 0o1000]
        }
        ("semget", 1) => &[1, 4, 0, 250, 32000, 32001, u64::MAX],
        ("shmget", 1) => &[4096, 1, 0, 8192, 1 << 20, u64::MAX],
        ("shmctl" | "msgctl", 1) | ("semctl", 2) => {
            &[0, 1, 2, 3, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 99]
        }
        ("msgsnd" | "msgrcv", 2) => &[8, 16, 0, 100, 8192, 8193, u64::MAX],
        ("msgsnd", 3) | ("msgrcv", 4) => &[0x800, 0x800, 0x1800, 0x2800, 0x4800],
        ("mq_open", 1) => &[0x42, 0x42, 0xc2, 0x40, 2, 0x842, 3],
        ("mq_timedsend", 2) | ("mq_timedreceive", 2) => &[16, 64, 0, 8192, 9000],
        ("kill" | "tkill" | "pidfd_open" | "getsid" | "getpgid" | "sched_getscheduler", 0)
        | ("sched_setscheduler" | "sched_setparam" | "sched_getparam" | "sched_setattr", 0)
        | ("sched_getattr" | "sched_setaffinity" | "sched_getaffinity" | "get_robust_list", 0)
        | ("sched_rr_get_interval" | "prlimit64" | "setpgid" | "process_vm_readv", 0)
        | ("process_vm_writev" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo", 0)
        | ("kcmp" | "tgkill" | "setpgid" | "rt_tgsigqueueinfo", 1)
        | ("kcmp" | "tgkill", 0) => &[SELF, 1, u64::MAX, 0x7fff_ffff, 1 << 31, OWN, OWN, OWN],
        ("setpriority" | "getpriority" | "ioprio_set" | "ioprio_get", 1) => {
            &[SELF, u64::MAX, 0x7fff_ffff, OWN]
        }
        ("kill" | "tkill" | "rt_sigqueueinfo", 1) => &[0, 0, 18, 17, 28, 34, 65, 64, u64::MAX],
        ("tgkill" | "rt_tgsigqueueinfo", 2) => &[0, 0, 18, 17, 28, 34, 65, 64, u64::MAX],
        ("setpriority" | "getpriority" | "ioprio_set" | "ioprio_get", 0) => &[0, 1, 2, 3],
        ("setpriority", 2) => &[0, 5, 19, 20, 100, u64::MAX, u64::MAX - 19],
        ("getrlimit" | "setrlimit", 0) | ("prlimit64", 1) => &[0, 1, 2, 3, 4, 7, 9, 13, 14, 15, 16],
        ("rt_sigaction", 3) | ("rt_sigprocmask", 3) | ("rt_sigpending" | "rt_sigsuspend", 1) => {
            &[8, 8, 8, 0, 4, 16]
        }
        ("rt_sigtimedwait", 3) | ("signalfd4", 2) | ("ppoll", 4) | ("epoll_pwait", 5) => {
            &[8, 8, 8, 0, 16]
        }
        ("rt_sigprocmask", 0) => &[0, 1, 2, 3],
        ("seccomp", 0) => &[0, 1, 2, 3, 4],
        ("setuid" | "setgid" | "setfsuid" | "setfsgid", 0)
        | ("setreuid" | "setregid" | "setresuid" | "setresgid", _) => &[u64::MAX, 0, 1000, 1],
        ("waitid", 0) => &[0, 1, 2, 3, 4],
        ("keyctl", 0) => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 21],
        ("keyctl", 1 | 2) | ("add_key", 4) | ("request_key", 3) => &[
            u64::MAX,
            u64::MAX - 1,
            u64::MAX - 2,
            u64::MAX - 3,
            u64::MAX - 4,
            u64::MAX - 5,
            0,
            1,
        ],
        ("futex_wait" | "futex_wake", 3 | 4) => &[2, 2, 0x82, 0, 3],
        ("readv" | "writev" | "preadv" | "pwritev" | "preadv2" | "pwritev2" | "vmsplice", 2)
        | ("process_vm_readv" | "process_vm_writev", 2 | 4) => {
            &[1, 2, 3, 4, 0, 1024, 1025, u64::MAX]
        }
        ("preadv" | "pwritev", 4) => &[0, 0, 1],
        ("ppoll", 1) => &[1, 4, 8, 0, 1024, 1 << 31],
        ("pselect6", 0) => &[0, 8, 40, 64, 65, 1024, u64::MAX],
        ("sendmmsg" | "recvmmsg", 2) => &[1, 2, 4, 0, 1025],
        ("sched_setattr" | "futex_waitv" | "futex_requeue", 2) => &[0, 0, 1],
        ("getgroups" | "setgroups", 0) => &[0, 1, 4, 16, 65536, 65537, u64::MAX],
        _ => return None,
    })
}

/// Stands for the identifier of the process itself, which differs from run to run.
pub const OWN: u64 = 0x5e1f_5e1f_5e1f_5e1f;

fn last(name: &str) -> usize {
    match name {
        "msgget" => 1,
        _ => 2,
    }
}
