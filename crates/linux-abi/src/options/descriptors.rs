//! Options and flags of calls on descriptors: waiting for many, pipes, memory as files, processes
//! as files.

use super::{Group, choices};
use crate::Status::{Absent, Partial, Whole};

/// Events and flags of a member of an epoll set.
pub const EPOLL: Group = Group {
    title: "epoll_ctl: events",
    refused: "none: other bits are ignored, as on Linux",
    choices: choices! {
        0x0001 EPOLLIN Whole;
        0x0002 EPOLLPRI Whole;
        0x0004 EPOLLOUT Whole;
        0x0008 EPOLLERR Whole;
        0x0010 EPOLLHUP Whole;
        0x0020 EPOLLNVAL Whole;
        0x0040 EPOLLRDNORM Whole;
        0x0080 EPOLLRDBAND Whole;
        0x0100 EPOLLWRNORM Whole;
        0x0200 EPOLLWRBAND Whole;
        0x0400 EPOLLMSG Whole;
        0x2000 EPOLLRDHUP Whole;
        0x1000_0000 EPOLLEXCLUSIVE Whole;
        0x2000_0000 EPOLLWAKEUP Partial("ignored, as without CAP_BLOCK_SUSPEND: the machine never sleeps");
        0x4000_0000 EPOLLONESHOT Whole;
        0x8000_0000 EPOLLET Whole;
    },
};

/// Flags of memfd_create(2).
pub const MEMFD: Group = Group {
    title: "memfd_create: flags",
    refused: "EINVAL, and MFD_HUGETLB ENOSYS, as without CONFIG_HUGETLBFS",
    choices: choices! {
        0x01 MFD_CLOEXEC Whole;
        0x02 MFD_ALLOW_SEALING Whole;
        0x04 MFD_HUGETLB Absent;
        0x08 MFD_NOEXEC_SEAL Whole;
        0x10 MFD_EXEC Whole;
    },
};

/// Flags of pipe2(2), by RISC-V's numbers.
pub const PIPE: Group = Group {
    title: "pipe2: flags, by RISC-V's numbers",
    refused: "EINVAL, and O_NOTIFICATION_PIPE ENOPKG, as without CONFIG_WATCH_QUEUE",
    choices: choices! {
        0x80 O_NOTIFICATION_PIPE Absent;
        0x800 O_NONBLOCK Whole;
        0x4000 O_DIRECT Whole;
        0x8_0000 O_CLOEXEC Whole;
    },
};

/// Flags of eventfd2(2).
pub const EVENTFD: Group = Group {
    title: "eventfd2: flags",
    refused: "EINVAL",
    choices: choices! {
        0x1 EFD_SEMAPHORE Whole;
        0x800 EFD_NONBLOCK Whole;
        0x8_0000 EFD_CLOEXEC Whole;
    },
};

/// Flags of timerfd_settime(2).
pub const TIMERFD: Group = Group {
    title: "timerfd_settime: flags",
    refused: "EINVAL",
    choices: choices! {
        1 TFD_TIMER_ABSTIME Whole;
        2 TFD_TIMER_CANCEL_ON_SET Whole;
    },
};

/// Flags of splice(2), vmsplice(2) and tee(2).
pub const SPLICE: Group = Group {
    title: "splice, vmsplice, tee: flags",
    refused: "EINVAL",
    choices: choices! {
        1 SPLICE_F_MOVE Partial("bytes are copied: on Linux too it is no promise");
        2 SPLICE_F_NONBLOCK Whole;
        4 SPLICE_F_MORE Whole;
        8 SPLICE_F_GIFT Partial("bytes are copied: on Linux too it is no promise");
    },
};

/// Flags of close_range(2).
pub const CLOSE_RANGE: Group = Group {
    title: "close_range: flags",
    refused: "EINVAL",
    choices: choices! {
        2 CLOSE_RANGE_UNSHARE Whole;
        4 CLOSE_RANGE_CLOEXEC Whole;
    },
};

/// Flags of pidfd_open(2), by RISC-V's numbers.
pub const PIDFD: Group = Group {
    title: "pidfd_open: flags",
    refused: "EINVAL",
    choices: choices! {
        0x80 PIDFD_THREAD Whole;
        0x800 PIDFD_NONBLOCK Whole;
    },
};

/// Flags of pidfd_send_signal(2).
pub const PIDFD_SIGNAL: Group = Group {
    title: "pidfd_send_signal: flags",
    refused: "EINVAL",
    choices: choices! {
        1 PIDFD_SIGNAL_THREAD Whole;
        2 PIDFD_SIGNAL_THREAD_GROUP Whole;
        4 PIDFD_SIGNAL_PROCESS_GROUP Whole;
    },
};
