//! What files, names and mounts are asked for.

use super::{Group, choices};
use crate::Status::{Absent, Partial, Whole};

/// Flags of open(2), openat(2) and openat2(2).
pub const OPEN: Group = Group {
    title: "open, openat, openat2: flags, by RISC-V's numbers",
    refused: "EINVAL of openat2, else ignored",
    choices: choices! {
        0x0 O_RDONLY Whole;
        0x1 O_WRONLY Whole;
        0x2 O_RDWR Whole;
        0x40 O_CREAT Whole;
        0x80 O_EXCL Whole;
        0x100 O_NOCTTY Whole;
        0x200 O_TRUNC Whole;
        0x400 O_APPEND Whole;
        0x800 O_NONBLOCK Whole;
        0x1000 O_DSYNC Whole;
        0x2000 O_ASYNC Whole;
        0x4000 O_DIRECT Whole;
        0x8000 O_LARGEFILE Whole;
        0x1_0000 O_DIRECTORY Whole;
        0x2_0000 O_NOFOLLOW Whole;
        0x4_0000 O_NOATIME Whole;
        0x8_0000 O_CLOEXEC Whole;
        0x10_0000 __O_SYNC Whole;
        0x20_0000 O_PATH Whole;
        0x40_0000 __O_TMPFILE Whole;
    },
};

/// Commands of fcntl(2).
pub const FCNTL: Group = Group {
    title: "fcntl: commands",
    refused: "EINVAL",
    choices: choices! {
        0 F_DUPFD Whole;
        1 F_GETFD Whole;
        2 F_SETFD Whole;
        3 F_GETFL Whole;
        4 F_SETFL Whole;
        5 F_GETLK Whole;
        6 F_SETLK Whole;
        7 F_SETLKW Whole;
        8 F_SETOWN Whole;
        9 F_GETOWN Whole;
        10 F_SETSIG Whole;
        11 F_GETSIG Whole;
        15 F_SETOWN_EX Whole;
        16 F_GETOWN_EX Whole;
        17 F_GETOWNER_UIDS Whole;
        36 F_OFD_GETLK Whole;
        37 F_OFD_SETLK Whole;
        38 F_OFD_SETLKW Whole;
        1024 F_SETLEASE Whole;
        1025 F_GETLEASE Whole;
        1026 F_NOTIFY Whole;
        1027 F_DUPFD_QUERY Whole;
        1028 F_CREATED_QUERY Whole;
        1030 F_DUPFD_CLOEXEC Whole;
        1031 F_SETPIPE_SZ Whole;
        1032 F_GETPIPE_SZ Whole;
        1033 F_ADD_SEALS Whole;
        1034 F_GET_SEALS Whole;
        1035 F_GET_RW_HINT Absent;
        1036 F_SET_RW_HINT Absent;
    },
};

/// Flags of mount(2).
pub const MOUNT: Group = Group {
    title: "mount: flags",
    refused: "MS_SHARED EINVAL, else ignored",
    choices: choices! {
        0x1 MS_RDONLY Whole;
        0x2 MS_NOSUID Whole;
        0x4 MS_NODEV Whole;
        0x8 MS_NOEXEC Whole;
        0x10 MS_SYNCHRONOUS Absent;
        0x20 MS_REMOUNT Whole;
        0x40 MS_MANDLOCK Absent;
        0x80 MS_DIRSYNC Absent;
        0x100 MS_NOSYMFOLLOW Whole;
        0x400 MS_NOATIME Whole;
        0x800 MS_NODIRATIME Whole;
        0x1000 MS_BIND Whole;
        0x2000 MS_MOVE Whole;
        0x4000 MS_REC Whole;
        0x8000 MS_SILENT Whole;
        0x1_0000 MS_POSIXACL Absent;
        0x2_0000 MS_UNBINDABLE Whole;
        0x4_0000 MS_PRIVATE Whole;
        0x8_0000 MS_SLAVE Partial("no tree of mounts has a master");
        0x10_0000 MS_SHARED Absent;
        0x20_0000 MS_RELATIME Whole;
        0x80_0000 MS_I_VERSION Absent;
        0x100_0000 MS_STRICTATIME Whole;
        0x200_0000 MS_LAZYTIME Absent;
    },
};

/// Flags of renameat2(2).
pub const RENAME: Group = Group {
    title: "renameat2: flags",
    refused: "EINVAL",
    choices: choices! {
        1 RENAME_NOREPLACE Whole;
        2 RENAME_EXCHANGE Whole;
        4 RENAME_WHITEOUT Absent;
    },
};

/// Mode bits of fallocate(2).
pub const FALLOCATE: Group = Group {
    title: "fallocate: mode",
    refused: "EOPNOTSUPP, as of a tmpfs on Linux",
    choices: choices! {
        0x01 FALLOC_FL_KEEP_SIZE Whole;
        0x02 FALLOC_FL_PUNCH_HOLE Whole;
        0x04 FALLOC_FL_NO_HIDE_STALE Absent;
        0x08 FALLOC_FL_COLLAPSE_RANGE Absent;
        0x10 FALLOC_FL_ZERO_RANGE Absent;
        0x20 FALLOC_FL_INSERT_RANGE Absent;
        0x40 FALLOC_FL_UNSHARE_RANGE Absent;
    },
};

/// Flags of statx(2).
pub const STATX: Group = Group {
    title: "statx: flags",
    refused: "EINVAL",
    choices: choices! {
        0x0100 AT_SYMLINK_NOFOLLOW Whole;
        0x0800 AT_NO_AUTOMOUNT Whole;
        0x1000 AT_EMPTY_PATH Whole;
        0x2000 AT_STATX_FORCE_SYNC Whole;
        0x4000 AT_STATX_DONT_SYNC Whole;
    },
};
