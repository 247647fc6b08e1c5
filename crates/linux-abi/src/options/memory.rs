//! Options and flags of calls on memory.

use super::{Group, choices};
use crate::Status::{Absent, Partial, Whole};

/// Flags of mmap(2).
pub const MMAP: Group = Group {
    title: "mmap: flags",
    refused: "MAP_HUGETLB ENOMEM without a file, as where no huge pages are set aside, and\n\
        EINVAL with one; MAP_SYNC, and bits that Linux does not know either, EOPNOTSUPP with\n\
        MAP_SHARED_VALIDATE and ignored else",
    choices: choices! {
        0x01 MAP_SHARED Whole;
        0x02 MAP_PRIVATE Whole;
        0x03 MAP_SHARED_VALIDATE Whole;
        0x08 MAP_DROPPABLE Whole;
        0x10 MAP_FIXED Whole;
        0x20 MAP_ANONYMOUS Whole;
        0x100 MAP_GROWSDOWN Whole;
        0x800 MAP_DENYWRITE Whole;
        0x1000 MAP_EXECUTABLE Whole;
        0x2000 MAP_LOCKED Whole;
        0x4000 MAP_NORESERVE Whole;
        0x8000 MAP_POPULATE Whole;
        0x10000 MAP_NONBLOCK Whole;
        0x20000 MAP_STACK Whole;
        0x40000 MAP_HUGETLB Absent;
        0x80000 MAP_SYNC Absent;
        0x100000 MAP_FIXED_NOREPLACE Whole;
    },
};

/// Flags of mremap(2).
pub const MREMAP: Group = Group {
    title: "mremap: flags",
    refused: "EINVAL",
    choices: choices! {
        1 MREMAP_MAYMOVE Whole;
        2 MREMAP_FIXED Whole;
        4 MREMAP_DONTUNMAP Whole;
    },
};

/// Advice of madvise(2).
pub const MADVISE: Group = Group {
    title: "madvise: advices",
    refused: "EINVAL",
    choices: choices! {
        0 MADV_NORMAL Whole;
        1 MADV_RANDOM Partial("files are in memory: nothing is read ahead");
        2 MADV_SEQUENTIAL Partial("files are in memory: nothing is read ahead");
        3 MADV_WILLNEED Partial("files are in memory: nothing is read ahead");
        4 MADV_DONTNEED Whole;
        8 MADV_FREE Partial("the pages stay");
        9 MADV_REMOVE Whole;
        10 MADV_DONTFORK Whole;
        11 MADV_DOFORK Whole;
        12 MADV_MERGEABLE Absent;
        13 MADV_UNMERGEABLE Absent;
        14 MADV_HUGEPAGE Partial("what is in small pages already stays so");
        15 MADV_NOHUGEPAGE Whole;
        16 MADV_DONTDUMP Whole;
        17 MADV_DODUMP Whole;
        18 MADV_WIPEONFORK Whole;
        19 MADV_KEEPONFORK Whole;
        20 MADV_COLD Partial("no page is ever put away");
        21 MADV_PAGEOUT Partial("no page is ever put away");
        22 MADV_POPULATE_READ Whole;
        23 MADV_POPULATE_WRITE Whole;
        24 MADV_DONTNEED_LOCKED Whole;
        25 MADV_COLLAPSE Absent;
        100 MADV_HWPOISON Absent;
        101 MADV_SOFT_OFFLINE Absent;
    },
};

/// Flags of mlock2(2).
pub const MLOCK: Group = Group {
    title: "mlock2: flags",
    refused: "EINVAL",
    choices: choices! {
        1 MLOCK_ONFAULT Whole;
    },
};

/// Flags of mlockall(2).
pub const MLOCKALL: Group = Group {
    title: "mlockall: flags",
    refused: "EINVAL",
    choices: choices! {
        1 MCL_CURRENT Whole;
        2 MCL_FUTURE Whole;
        4 MCL_ONFAULT Whole;
    },
};

/// Flags of msync(2).
pub const MSYNC: Group = Group {
    title: "msync: flags",
    refused: "EINVAL",
    choices: choices! {
        1 MS_ASYNC Whole;
        2 MS_INVALIDATE Whole;
        4 MS_SYNC Whole;
    },
};

/// Advice of process_madvise(2).
pub const PROCESS_MADVISE: Group = Group {
    title: "process_madvise: advices",
    refused: "EINVAL",
    choices: choices! {
        3 MADV_WILLNEED Partial("files are in memory: nothing is read ahead");
        20 MADV_COLD Partial("no page is ever put away");
        21 MADV_PAGEOUT Partial("no page is ever put away");
        25 MADV_COLLAPSE Absent;
    },
};

/// Flags of shmget(2), besides the permissions.
pub const SHMGET: Group = Group {
    title: "shmget: flags",
    refused: "ENOMEM, as where no huge pages are set aside; other bits are ignored",
    choices: choices! {
        0o1000 IPC_CREAT Whole;
        0o2000 IPC_EXCL Whole;
        0o4000 SHM_HUGETLB Absent;
        0o10000 SHM_NORESERVE Whole;
    },
};

/// Flags of shmat(2).
pub const SHMAT: Group = Group {
    title: "shmat: flags",
    refused: "none is; other bits are ignored",
    choices: choices! {
        0o10000 SHM_RDONLY Whole;
        0o20000 SHM_RND Whole;
        0o40000 SHM_REMAP Whole;
        0o100000 SHM_EXEC Whole;
    },
};
