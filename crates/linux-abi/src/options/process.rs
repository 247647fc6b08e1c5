//! Options and flags of calls on processes and threads.

use super::{Group, choices};
use crate::Status::{Absent, Partial, Whole};

/// Options of prctl(2).
pub const PRCTL: Group = Group {
    title: "prctl: options",
    refused: "EINVAL",
    choices: choices! {
        1 PR_SET_PDEATHSIG Whole;
        2 PR_GET_PDEATHSIG Whole;
        3 PR_GET_DUMPABLE Whole;
        4 PR_SET_DUMPABLE Whole;
        5 PR_GET_UNALIGN Absent;
        6 PR_SET_UNALIGN Absent;
        7 PR_GET_KEEPCAPS Whole;
        8 PR_SET_KEEPCAPS Whole;
        9 PR_GET_FPEMU Absent;
        10 PR_SET_FPEMU Absent;
        11 PR_GET_FPEXC Absent;
        12 PR_SET_FPEXC Absent;
        13 PR_GET_TIMING Whole;
        14 PR_SET_TIMING Whole;
        15 PR_SET_NAME Whole;
        16 PR_GET_NAME Whole;
        19 PR_GET_ENDIAN Absent;
        20 PR_SET_ENDIAN Absent;
        21 PR_GET_SECCOMP Whole;
        22 PR_SET_SECCOMP Whole;
        23 PR_CAPBSET_READ Whole;
        24 PR_CAPBSET_DROP Whole;
        25 PR_GET_TSC Absent;
        26 PR_SET_TSC Absent;
        27 PR_GET_SECUREBITS Whole;
        28 PR_SET_SECUREBITS Whole;
        29 PR_SET_TIMERSLACK Whole;
        30 PR_GET_TIMERSLACK Whole;
        31 PR_TASK_PERF_EVENTS_DISABLE Absent;
        32 PR_TASK_PERF_EVENTS_ENABLE Absent;
        33 PR_MCE_KILL Partial("kept: no memory is ever found bad");
        34 PR_MCE_KILL_GET Whole;
        35 PR_SET_MM Partial("EPERM without CAP_SYS_RESOURCE, else EINVAL");
        36 PR_SET_CHILD_SUBREAPER Whole;
        37 PR_GET_CHILD_SUBREAPER Whole;
        38 PR_SET_NO_NEW_PRIVS Whole;
        39 PR_GET_NO_NEW_PRIVS Whole;
        40 PR_GET_TID_ADDRESS Whole;
        41 PR_SET_THP_DISABLE Whole;
        42 PR_GET_THP_DISABLE Whole;
        43 PR_MPX_ENABLE_MANAGEMENT Absent;
        44 PR_MPX_DISABLE_MANAGEMENT Absent;
        45 PR_SET_FP_MODE Absent;
        46 PR_GET_FP_MODE Absent;
        47 PR_CAP_AMBIENT Whole;
        50 PR_SVE_SET_VL Whole;
        51 PR_SVE_GET_VL Whole;
        52 PR_GET_SPECULATION_CTRL Whole;
        53 PR_SET_SPECULATION_CTRL Whole;
        54 PR_PAC_RESET_KEYS Whole;
        55 PR_SET_TAGGED_ADDR_CTRL Whole;
        56 PR_GET_TAGGED_ADDR_CTRL Whole;
        57 PR_SET_IO_FLUSHER Partial("kept: there is no disk to write to");
        58 PR_GET_IO_FLUSHER Whole;
        59 PR_SET_SYSCALL_USER_DISPATCH Absent;
        60 PR_PAC_SET_ENABLED_KEYS Whole;
        61 PR_PAC_GET_ENABLED_KEYS Whole;
        62 PR_SCHED_CORE Absent;
        63 PR_SME_SET_VL Absent;
        64 PR_SME_GET_VL Absent;
        65 PR_SET_MDWE Whole;
        66 PR_GET_MDWE Whole;
        67 PR_SET_MEMORY_MERGE Absent;
        68 PR_GET_MEMORY_MERGE Absent;
        69 PR_RISCV_V_SET_CONTROL Whole;
        70 PR_RISCV_V_GET_CONTROL Whole;
        71 PR_RISCV_SET_ICACHE_FLUSH_CTX Absent;
        72 PR_PPC_GET_DEXCR Absent;
        73 PR_PPC_SET_DEXCR Absent;
        0x4155_5856 PR_GET_AUXV Whole;
        0x5356_4d41 PR_SET_VMA Absent;
        0x5961_6d61 PR_SET_PTRACER Absent;
    },
};

/// Bits of personality(2).
pub const PERSONALITY: Group = Group {
    title: "personality: bits",
    refused: "none: every bit is kept, as on Linux",
    choices: choices! {
        0x0008 PER_LINUX32 Partial("uname; on RISC-V nothing");
        0x002_0000 UNAME26 Whole;
        0x004_0000 ADDR_NO_RANDOMIZE Whole;
        0x008_0000 FDPIC_FUNCPTRS Absent;
        0x010_0000 MMAP_PAGE_ZERO Whole;
        0x020_0000 ADDR_COMPAT_LAYOUT Whole;
        0x040_0000 READ_IMPLIES_EXEC Whole;
        0x080_0000 ADDR_LIMIT_32BIT Absent;
        0x100_0000 SHORT_INODE Absent;
        0x200_0000 WHOLE_SECONDS Absent;
        0x400_0000 STICKY_TIMEOUTS Whole;
        0x800_0000 ADDR_LIMIT_3GB Absent;
    },
};

/// Flags of clone(2) and clone3(2).
pub const CLONE: Group = Group {
    title: "clone, clone3: flags",
    refused: "EINVAL",
    choices: choices! {
        0x0000_0080 CLONE_NEWTIME Absent;
        0x0000_0100 CLONE_VM Whole;
        0x0000_0200 CLONE_FS Whole;
        0x0000_0400 CLONE_FILES Whole;
        0x0000_0800 CLONE_SIGHAND Whole;
        0x0000_1000 CLONE_PIDFD Whole;
        0x0000_2000 CLONE_PTRACE Whole;
        0x0000_4000 CLONE_VFORK Whole;
        0x0000_8000 CLONE_PARENT Whole;
        0x0001_0000 CLONE_THREAD Whole;
        0x0002_0000 CLONE_NEWNS Absent;
        0x0004_0000 CLONE_SYSVSEM Whole;
        0x0008_0000 CLONE_SETTLS Whole;
        0x0010_0000 CLONE_PARENT_SETTID Whole;
        0x0020_0000 CLONE_CHILD_CLEARTID Whole;
        0x0040_0000 CLONE_DETACHED Whole;
        0x0080_0000 CLONE_UNTRACED Whole;
        0x0100_0000 CLONE_CHILD_SETTID Whole;
        0x0200_0000 CLONE_NEWCGROUP Absent;
        0x0400_0000 CLONE_NEWUTS Absent;
        0x0800_0000 CLONE_NEWIPC Absent;
        0x1000_0000 CLONE_NEWUSER Absent;
        0x2000_0000 CLONE_NEWPID Absent;
        0x4000_0000 CLONE_NEWNET Absent;
        0x8000_0000 CLONE_IO Whole;
        0x1_0000_0000 CLONE_CLEAR_SIGHAND Whole;
        0x2_0000_0000 CLONE_INTO_CGROUP Absent;
    },
};

/// Flags of unshare(2).
pub const UNSHARE: Group = Group {
    title: "unshare: flags",
    refused: "EINVAL",
    choices: choices! {
        0x0000_0080 CLONE_NEWTIME Absent;
        0x0000_0100 CLONE_VM Whole;
        0x0000_0200 CLONE_FS Whole;
        0x0000_0400 CLONE_FILES Whole;
        0x0000_0800 CLONE_SIGHAND Whole;
        0x0001_0000 CLONE_THREAD Whole;
        0x0002_0000 CLONE_NEWNS Absent;
        0x0004_0000 CLONE_SYSVSEM Whole;
        0x0200_0000 CLONE_NEWCGROUP Absent;
        0x0400_0000 CLONE_NEWUTS Absent;
        0x0800_0000 CLONE_NEWIPC Absent;
        0x1000_0000 CLONE_NEWUSER Absent;
        0x2000_0000 CLONE_NEWPID Absent;
        0x4000_0000 CLONE_NEWNET Absent;
    },
};
