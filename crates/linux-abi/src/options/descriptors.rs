//! Options and flags of calls on descriptors: epoll, pipes, memory files, pidfds and others.

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

/// Flags of pipe2(2), with RISC-V's numbers.
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

/// Flags of pidfd_open(2), with RISC-V's numbers.
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

/// Requests of ioctl(2) on any file, and on files of file systems.
pub const IOCTL: Group = Group {
    title: "ioctl: requests of files",
    refused: "ENOTTY; FICLONE, FICLONERANGE, FIDEDUPERANGE, FIFREEZE and FS_IOC_FIEMAP EOPNOTSUPP,\n\
        FIBMAP and FITHAW EINVAL, as of Linux's tmpfs. FS_IOC_GETFLAGS and FS_IOC_SETFLAGS are\n\
        those of files on ext4. Nothing compares this list with the kernel",
    choices: choices! {
        0x0001 FIBMAP Absent;
        0x0002 FIGETBSZ Whole;
        0x541b FIONREAD Whole;
        0x5421 FIONBIO Whole;
        0x5450 FIONCLEX Whole;
        0x5451 FIOCLEX Whole;
        0x5452 FIOASYNC Whole;
        0x5460 FIOQSIZE Whole;
        0x4004_9409 FICLONE Absent;
        0x4008_8a01 EPIOCSPARAMS Whole;
        0x4008_6602 FS_IOC_SETFLAGS Whole;
        0x4020_940d FICLONERANGE Absent;
        0x8008_6601 FS_IOC_GETFLAGS Whole;
        0x8008_8a02 EPIOCGPARAMS Whole;
        0x8011_1500 FS_IOC_GETFSUUID Absent;
        0x801c_581f FS_IOC_FSGETXATTR Absent;
        0xc004_5877 FIFREEZE Absent;
        0xc004_5878 FITHAW Absent;
        0xc018_5879 FITRIM Absent;
        0xc018_9436 FIDEDUPERANGE Absent;
        0xc020_660b FS_IOC_FIEMAP Absent;
    },
};

/// Requests of ioctl(2) on /dev/random and /dev/urandom.
pub const IOCTL_RANDOM: Group = Group {
    title: "ioctl: requests of random devices",
    refused: "EINVAL. Nothing compares this list with the kernel",
    choices: choices! {
        0x5204 RNDZAPENTCNT Whole;
        0x5206 RNDCLEARPOOL Whole;
        0x5207 RNDRESEEDCRNG Whole;
        0x4004_5201 RNDADDTOENTCNT Whole;
        0x4008_5203 RNDADDENTROPY Whole;
        0x8004_5200 RNDGETENTCNT Whole;
    },
};

/// Requests of ioctl(2) on block devices.
pub const IOCTL_BLOCK: Group = Group {
    title: "ioctl: requests of block devices",
    refused: "ENOTTY. Nothing compares this list with the kernel",
    choices: choices! {
        0x125d BLKROSET Whole;
        0x125e BLKROGET Whole;
        0x125f BLKRRPART Whole;
        0x1260 BLKGETSIZE Whole;
        0x1261 BLKFLSBUF Whole;
        0x1262 BLKRASET Absent;
        0x1263 BLKRAGET Whole;
        0x1267 BLKSECTGET Whole;
        0x1268 BLKSSZGET Whole;
        0x1269 BLKPG Absent;
        0x1277 BLKDISCARD Whole;
        0x1278 BLKIOMIN Whole;
        0x1279 BLKIOOPT Whole;
        0x127a BLKALIGNOFF Whole;
        0x127b BLKPBSZGET Whole;
        0x127d BLKSECDISCARD Absent;
        0x127e BLKROTATIONAL Whole;
        0x127f BLKZEROOUT Whole;
        0x8008_1270 BLKBSZGET Whole;
        0x4008_1271 BLKBSZSET Absent;
        0x8008_1272 BLKGETSIZE64 Whole;
    },
};

/// Requests of ioctl(2) on terminals.
pub const IOCTL_TERMINAL: Group = Group {
    title: "ioctl: requests of terminals",
    refused: "ENOTTY. Nothing compares this list with the kernel",
    choices: choices! {
        0x5401 TCGETS Whole;
        0x5402 TCSETS Whole;
        0x5403 TCSETSW Whole;
        0x5404 TCSETSF Whole;
        0x5405 TCGETA Whole;
        0x5406 TCSETA Whole;
        0x5407 TCSETAW Whole;
        0x5408 TCSETAF Whole;
        0x5409 TCSBRK Whole;
        0x540a TCXONC Whole;
        0x540b TCFLSH Whole;
        0x540c TIOCEXCL Whole;
        0x540d TIOCNXCL Whole;
        0x540e TIOCSCTTY Whole;
        0x540f TIOCGPGRP Whole;
        0x5410 TIOCSPGRP Whole;
        0x5411 TIOCOUTQ Whole;
        0x5412 TIOCSTI Whole;
        0x5413 TIOCGWINSZ Whole;
        0x5414 TIOCSWINSZ Whole;
        0x5415 TIOCMGET Absent;
        0x5416 TIOCMBIS Absent;
        0x5417 TIOCMBIC Absent;
        0x5418 TIOCMSET Absent;
        0x5419 TIOCGSOFTCAR Whole;
        0x541a TIOCSSOFTCAR Whole;
        0x541b FIONREAD Whole;
        0x541d TIOCCONS Absent;
        0x541e TIOCGSERIAL Absent;
        0x541f TIOCSSERIAL Absent;
        0x5420 TIOCPKT Whole;
        0x5422 TIOCNOTTY Whole;
        0x5423 TIOCSETD Partial("N_TTY alone");
        0x5424 TIOCGETD Whole;
        0x5425 TCSBRKP Whole;
        0x5427 TIOCSBRK Whole;
        0x5428 TIOCCBRK Whole;
        0x5429 TIOCGSID Whole;
        0x5437 TIOCVHANGUP Absent;
        0x5456 TIOCGLCKTRMIOS Whole;
        0x5457 TIOCSLCKTRMIOS Whole;
        0x545c TIOCMIWAIT Absent;
        0x545d TIOCGICOUNT Absent;
        0x802c_542a TCGETS2 Whole;
        0x402c_542b TCSETS2 Whole;
        0x402c_542c TCSETSW2 Whole;
        0x402c_542d TCSETSF2 Whole;
        0x8004_5430 TIOCGPTN Whole;
        0x4004_5431 TIOCSPTLCK Whole;
        0x8004_5432 TIOCGDEV Whole;
        0x4004_5436 TIOCSIG Whole;
        0x8004_5438 TIOCGPKT Whole;
        0x8004_5439 TIOCGPTLCK Whole;
        0x8004_5440 TIOCGEXCL Whole;
        0x5441 TIOCGPTPEER Whole;
    },
};
