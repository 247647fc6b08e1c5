//! Options and flags of calls on the whole machine.

use super::{Group, choices};
use crate::Status::{Absent, Whole};

/// Flags of getrandom(2).
pub const GETRANDOM: Group = Group {
    title: "getrandom: flags",
    refused: "EINVAL",
    choices: choices! {
        1 GRND_NONBLOCK Whole;
        2 GRND_RANDOM Whole;
        4 GRND_INSECURE Whole;
    },
};

/// Commands of reboot(2).
pub const REBOOT: Group = Group {
    title: "reboot: commands",
    refused: "EINVAL",
    choices: choices! {
        0 LINUX_REBOOT_CMD_CAD_OFF Whole;
        0x0123_4567 LINUX_REBOOT_CMD_RESTART Whole;
        0x4321_fedc LINUX_REBOOT_CMD_POWER_OFF Whole;
        0x4558_4543 LINUX_REBOOT_CMD_KEXEC Absent;
        0x89ab_cdef LINUX_REBOOT_CMD_CAD_ON Whole;
        0xa1b2_c3d4 LINUX_REBOOT_CMD_RESTART2 Whole;
        0xcdef_0123 LINUX_REBOOT_CMD_HALT Whole;
        0xd000_fce2 LINUX_REBOOT_CMD_SW_SUSPEND Absent;
    },
};

/// Commands of syslog(2).
pub const SYSLOG: Group = Group {
    title: "syslog: commands",
    refused: "EINVAL",
    choices: choices! {
        0 SYSLOG_ACTION_CLOSE Whole;
        1 SYSLOG_ACTION_OPEN Whole;
        2 SYSLOG_ACTION_READ Whole;
        3 SYSLOG_ACTION_READ_ALL Whole;
        4 SYSLOG_ACTION_READ_CLEAR Whole;
        5 SYSLOG_ACTION_CLEAR Whole;
        6 SYSLOG_ACTION_CONSOLE_OFF Whole;
        7 SYSLOG_ACTION_CONSOLE_ON Whole;
        8 SYSLOG_ACTION_CONSOLE_LEVEL Whole;
        9 SYSLOG_ACTION_SIZE_UNREAD Whole;
        10 SYSLOG_ACTION_SIZE_BUFFER Whole;
    },
};
