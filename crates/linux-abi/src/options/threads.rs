//! Options and flags of calls on threads: waiting, memory ordering, scheduling, comparing.

use super::{Group, choices};
use crate::Status::{Absent, Partial, Whole};

/// Operations of futex(2).
pub const FUTEX: Group = Group {
    title: "futex: operations",
    refused: "ENOSYS",
    choices: choices! {
        0 FUTEX_WAIT Whole;
        1 FUTEX_WAKE Whole;
        2 FUTEX_FD Absent;
        3 FUTEX_REQUEUE Whole;
        4 FUTEX_CMP_REQUEUE Whole;
        5 FUTEX_WAKE_OP Whole;
        6 FUTEX_LOCK_PI Whole;
        7 FUTEX_UNLOCK_PI Whole;
        8 FUTEX_TRYLOCK_PI Whole;
        9 FUTEX_WAIT_BITSET Whole;
        10 FUTEX_WAKE_BITSET Whole;
        11 FUTEX_WAIT_REQUEUE_PI Whole;
        12 FUTEX_CMP_REQUEUE_PI Whole;
        13 FUTEX_LOCK_PI2 Whole;
    },
};

/// Flags of futex(2), besides its operation.
pub const FUTEX_FLAGS: Group = Group {
    title: "futex: flags",
    refused: "ENOSYS",
    choices: choices! {
        128 FUTEX_PRIVATE_FLAG Whole;
        256 FUTEX_CLOCK_REALTIME Whole;
    },
};

/// Flags of a word of futex_waitv(2), futex_wait(2), futex_wake(2) and futex_requeue(2).
pub const FUTEX2: Group = Group {
    title: "futex_waitv, futex_wait, futex_wake, futex_requeue: flags of a word",
    refused: "EINVAL",
    choices: choices! {
        0x00 FUTEX2_SIZE_U8 Absent;
        0x01 FUTEX2_SIZE_U16 Absent;
        0x02 FUTEX2_SIZE_U32 Whole;
        0x03 FUTEX2_SIZE_U64 Absent;
        0x04 FUTEX2_NUMA Absent;
        0x80 FUTEX2_PRIVATE Whole;
    },
};

/// Options of wait4(2) and waitid(2).
pub const WAIT: Group = Group {
    title: "wait4, waitid: options",
    refused: "EINVAL",
    choices: choices! {
        0x1 WNOHANG Whole;
        0x2 WUNTRACED Whole;
        0x4 WEXITED Whole;
        0x8 WCONTINUED Whole;
        0x100_0000 WNOWAIT Whole;
        0x2000_0000 __WNOTHREAD Whole;
        0x4000_0000 __WALL Whole;
        0x8000_0000 __WCLONE Whole;
    },
};

/// Commands of membarrier(2).
pub const MEMBARRIER: Group = Group {
    title: "membarrier: commands",
    refused: "EINVAL",
    choices: choices! {
        0x000 MEMBARRIER_CMD_QUERY Whole;
        0x001 MEMBARRIER_CMD_GLOBAL Whole;
        0x002 MEMBARRIER_CMD_GLOBAL_EXPEDITED Whole;
        0x004 MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED Whole;
        0x008 MEMBARRIER_CMD_PRIVATE_EXPEDITED Whole;
        0x010 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED Whole;
        0x020 MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE Whole;
        0x040 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE Whole;
        0x080 MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ Whole;
        0x100 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ Whole;
        0x200 MEMBARRIER_CMD_GET_REGISTRATIONS Whole;
    },
};

/// Flags of rseq(2).
pub const RSEQ: Group = Group {
    title: "rseq: flags",
    refused: "EINVAL",
    choices: choices! {
        1 RSEQ_FLAG_UNREGISTER Whole;
    },
};

/// The resources that kcmp(2) compares.
pub const KCMP: Group = Group {
    title: "kcmp: kinds",
    refused: "EINVAL",
    choices: choices! {
        0 KCMP_FILE Whole;
        1 KCMP_VM Whole;
        2 KCMP_FILES Whole;
        3 KCMP_FS Whole;
        4 KCMP_SIGHAND Whole;
        5 KCMP_IO Whole;
        6 KCMP_SYSVSEM Whole;
        7 KCMP_EPOLL_TFD Whole;
    },
};

/// Policies of sched_setscheduler(2) and sched_setattr(2).
pub const POLICIES: Group = Group {
    title: "sched_setscheduler, sched_setattr: policies",
    refused: "EINVAL",
    choices: choices! {
        0 SCHED_NORMAL Whole;
        1 SCHED_FIFO Whole;
        2 SCHED_RR Whole;
        3 SCHED_BATCH Whole;
        5 SCHED_IDLE Whole;
        6 SCHED_DEADLINE Partial("none is admitted: EBUSY");
        7 SCHED_EXT Absent;
    },
};

/// Flags of a `struct sched_attr`.
pub const SCHED_FLAGS: Group = Group {
    title: "sched_setattr: flags of the attributes",
    refused: "EINVAL, and the clamps EOPNOTSUPP, as without CONFIG_UCLAMP_TASK",
    choices: choices! {
        0x01 SCHED_FLAG_RESET_ON_FORK Whole;
        0x02 SCHED_FLAG_RECLAIM Partial("no deadline is kept");
        0x04 SCHED_FLAG_DL_OVERRUN Partial("no deadline is kept");
        0x08 SCHED_FLAG_KEEP_POLICY Whole;
        0x10 SCHED_FLAG_KEEP_PARAMS Whole;
        0x20 SCHED_FLAG_UTIL_CLAMP_MIN Absent;
        0x40 SCHED_FLAG_UTIL_CLAMP_MAX Absent;
    },
};

/// Classes of ioprio_set(2).
pub const IOPRIO: Group = Group {
    title: "ioprio_set: classes",
    refused: "EINVAL",
    choices: choices! {
        0 IOPRIO_CLASS_NONE Whole;
        1 IOPRIO_CLASS_RT Partial("stored, shared and reported: files are in memory");
        2 IOPRIO_CLASS_BE Partial("stored, shared and reported: files are in memory");
        3 IOPRIO_CLASS_IDLE Partial("stored, shared and reported: files are in memory");
    },
};
