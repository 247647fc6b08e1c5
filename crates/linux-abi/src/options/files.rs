//! Options and flags of calls on files, names and mounts.

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
        1035 F_GET_RW_HINT Whole;
        1036 F_SET_RW_HINT Whole;
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
        0x10 MS_SYNCHRONOUS Whole;
        0x20 MS_REMOUNT Whole;
        0x40 MS_MANDLOCK Partial("without effect, as on Linux; EINVAL of ext4");
        0x80 MS_DIRSYNC Whole;
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
        0x200_0000 MS_LAZYTIME Partial("EINVAL of ext4");
    },
};

/// Flags of renameat2(2).
pub const RENAME: Group = Group {
    title: "renameat2: flags",
    refused: "EINVAL",
    choices: choices! {
        1 RENAME_NOREPLACE Whole;
        2 RENAME_EXCHANGE Whole;
        4 RENAME_WHITEOUT Whole;
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

/// Flags of openat2(2) for the resolution of a path.
pub const RESOLVE: Group = Group {
    title: "openat2: resolve",
    refused: "EINVAL",
    choices: choices! {
        0x01 RESOLVE_NO_XDEV Whole;
        0x02 RESOLVE_NO_MAGICLINKS Whole;
        0x04 RESOLVE_NO_SYMLINKS Whole;
        0x08 RESOLVE_BENEATH Whole;
        0x10 RESOLVE_IN_ROOT Whole;
        0x20 RESOLVE_CACHED Whole;
    },
};

/// Fields that statx(2) returns.
pub const STATX_MASK: Group = Group {
    title: "statx: what it reports",
    refused: "not reported, as of a tmpfs on Linux; STATX__RESERVED EINVAL",
    choices: choices! {
        0x07ff STATX_BASIC_STATS Whole;
        0x0800 STATX_BTIME Whole;
        0x1000 STATX_MNT_ID Whole;
        0x2000 STATX_DIOALIGN Absent;
        0x4000 STATX_MNT_ID_UNIQUE Whole;
        0x8000 STATX_SUBVOL Absent;
    },
};

/// Flags of name_to_handle_at(2).
pub const HANDLE: Group = Group {
    title: "name_to_handle_at: flags",
    refused: "EINVAL",
    choices: choices! {
        0x1 AT_HANDLE_MNT_ID_UNIQUE Whole;
        0x200 AT_HANDLE_FID Whole;
        0x400 AT_SYMLINK_FOLLOW Whole;
        0x1000 AT_EMPTY_PATH Whole;
    },
};

/// Flags of preadv2(2) and pwritev2(2).
pub const RWF: Group = Group {
    title: "preadv2, pwritev2: flags",
    refused: "EOPNOTSUPP",
    choices: choices! {
        0x01 RWF_HIPRI Whole;
        0x02 RWF_DSYNC Whole;
        0x04 RWF_SYNC Whole;
        0x08 RWF_NOWAIT Absent;
        0x10 RWF_APPEND Whole;
        0x20 RWF_NOAPPEND Whole;
        0x40 RWF_ATOMIC Absent;
    },
};

/// Flags of sync_file_range(2).
pub const SYNC_FILE_RANGE: Group = Group {
    title: "sync_file_range: flags",
    refused: "EINVAL",
    choices: choices! {
        1 SYNC_FILE_RANGE_WAIT_BEFORE Whole;
        2 SYNC_FILE_RANGE_WRITE Whole;
        4 SYNC_FILE_RANGE_WAIT_AFTER Whole;
    },
};

/// Advices of posix_fadvise(2).
pub const FADVISE: Group = Group {
    title: "fadvise64: advices",
    refused: "EINVAL",
    choices: choices! {
        0 POSIX_FADV_NORMAL Whole;
        1 POSIX_FADV_RANDOM Partial("files are in memory: nothing is read ahead");
        2 POSIX_FADV_SEQUENTIAL Partial("files are in memory: nothing is read ahead");
        3 POSIX_FADV_WILLNEED Partial("files are in memory: nothing is read ahead");
        4 POSIX_FADV_DONTNEED Whole;
        5 POSIX_FADV_NOREUSE Partial("no page is ever put away");
    },
};

/// Events and flags of inotify_add_watch(2).
pub const INOTIFY: Group = Group {
    title: "inotify_add_watch: mask",
    refused: "EINVAL",
    choices: choices! {
        0x001 IN_ACCESS Whole;
        0x002 IN_MODIFY Whole;
        0x004 IN_ATTRIB Whole;
        0x008 IN_CLOSE_WRITE Whole;
        0x010 IN_CLOSE_NOWRITE Whole;
        0x020 IN_OPEN Whole;
        0x040 IN_MOVED_FROM Whole;
        0x080 IN_MOVED_TO Whole;
        0x100 IN_CREATE Whole;
        0x200 IN_DELETE Whole;
        0x400 IN_DELETE_SELF Whole;
        0x800 IN_MOVE_SELF Whole;
        0x2000 IN_UNMOUNT Whole;
        0x4000 IN_Q_OVERFLOW Whole;
        0x8000 IN_IGNORED Whole;
        0x100_0000 IN_ONLYDIR Whole;
        0x200_0000 IN_DONT_FOLLOW Whole;
        0x400_0000 IN_EXCL_UNLINK Whole;
        0x1000_0000 IN_MASK_CREATE Whole;
        0x2000_0000 IN_MASK_ADD Whole;
        0x4000_0000 IN_ISDIR Whole;
        0x8000_0000 IN_ONESHOT Whole;
    },
};

/// Flags of umount2(2).
pub const UMOUNT: Group = Group {
    title: "umount2: flags",
    refused: "EINVAL",
    choices: choices! {
        1 MNT_FORCE Whole;
        2 MNT_DETACH Whole;
        4 MNT_EXPIRE Whole;
        8 UMOUNT_NOFOLLOW Whole;
    },
};
