//! Arguments of system calls that are options, commands, advice or flags, and how far each value is
//! supported.
//!
//! The kernel accepts the choices that are whole or partial here: it takes its flag masks from
//! these groups ([`Group::mask`]), and a compile-time check compares the numbers that it handles
//! with them ([`Group::is_handled_by`]). Absent choices are refused with the error of a Linux built
//! without them.

mod descriptors;
mod files;
mod memory;
mod process;
mod sockets;
mod system;
mod threads;

pub use descriptors::{
    CLOSE_RANGE, EPOLL, EVENTFD, IOCTL, IOCTL_BLOCK, IOCTL_RANDOM, IOCTL_TERMINAL, MEMFD, PIDFD,
    PIDFD_SIGNAL, PIPE, SPLICE, TIMERFD,
};
pub use files::{
    FADVISE, FALLOCATE, FCNTL, HANDLE, INOTIFY, MOUNT, OPEN, RENAME, RESOLVE, RWF, STATX,
    STATX_MASK, SYNC_FILE_RANGE, UMOUNT,
};
pub use memory::{MADVISE, MLOCK, MLOCKALL, MMAP, MREMAP, MSYNC, PROCESS_MADVISE, SHMAT, SHMGET};
pub use process::{CLONE, PERSONALITY, PRCTL, UNSHARE};
pub use sockets::{
    INTERFACE, IP, IP_CONTROL, IPV6, IPV6_CONTROL, NETLINK, PACKET, ROUTE, SOCKET, TCP, UDP,
};
pub use system::{GETRANDOM, REBOOT, SYSLOG};
pub use threads::{
    FUTEX, FUTEX_FLAGS, FUTEX2, IOPRIO, KCMP, MEMBARRIER, POLICIES, RSEQ, SCHED_FLAGS, WAIT,
};

use crate::Status;

/// A choice: an option, a command, an advice or a flag.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Its number, or its bit.
    pub value: u64,
    /// Its name in Linux's headers.
    pub name: &'static str,
    /// How much of it is supported.
    pub status: Status,
}

/// All choices for one argument of a call.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The call, and the kind of arguments that the group lists.
    pub title: &'static str,
    /// The error for absent choices.
    pub refused: &'static str,
    /// All choices of Linux 6.12, each with its status.
    pub choices: &'static [Choice],
}

/// All groups, as `docs/abi.md` lists them.
pub const GROUPS: &[&Group] = &[
    &PRCTL,
    &PERSONALITY,
    &CLONE,
    &UNSHARE,
    &MMAP,
    &MREMAP,
    &MADVISE,
    &PROCESS_MADVISE,
    &MLOCK,
    &MLOCKALL,
    &MSYNC,
    &SHMGET,
    &SHMAT,
    &OPEN,
    &RESOLVE,
    &FCNTL,
    &IOCTL,
    &IOCTL_RANDOM,
    &IOCTL_BLOCK,
    &IOCTL_TERMINAL,
    &RWF,
    &FADVISE,
    &SYNC_FILE_RANGE,
    &FALLOCATE,
    &STATX,
    &STATX_MASK,
    &HANDLE,
    &RENAME,
    &INOTIFY,
    &MOUNT,
    &UMOUNT,
    &EPOLL,
    &MEMFD,
    &PIPE,
    &EVENTFD,
    &TIMERFD,
    &SPLICE,
    &CLOSE_RANGE,
    &PIDFD,
    &PIDFD_SIGNAL,
    &FUTEX,
    &FUTEX_FLAGS,
    &FUTEX2,
    &WAIT,
    &MEMBARRIER,
    &RSEQ,
    &KCMP,
    &POLICIES,
    &SCHED_FLAGS,
    &IOPRIO,
    &GETRANDOM,
    &REBOOT,
    &SYSLOG,
    &SOCKET,
    &IP,
    &IPV6,
    &TCP,
    &UDP,
    &IP_CONTROL,
    &IPV6_CONTROL,
    &NETLINK,
    &PACKET,
    &ROUTE,
    &INTERFACE,
];

impl Group {
    /// The supported flags.
    pub const fn mask(&self) -> u64 {
        let mut mask = 0;
        let mut at = 0;
        while at < self.choices.len() {
            if !matches!(self.choices[at].status, Status::Absent) {
                mask |= self.choices[at].value;
            }
            at += 1;
        }
        mask
    }

    /// True if the choice with this number is whole or partial.
    pub const fn has(&self, value: u64) -> bool {
        let mut at = 0;
        while at < self.choices.len() {
            if self.choices[at].value == value {
                return !matches!(self.choices[at].status, Status::Absent);
            }
            at += 1;
        }
        false
    }

    /// True if the numbers `handled` are exactly those of the choices that are whole or partial.
    pub const fn is_handled_by(&self, handled: &[u64]) -> bool {
        let mut there = 0;
        let mut at = 0;
        while at < self.choices.len() {
            if !matches!(self.choices[at].status, Status::Absent) {
                if !contains(handled, self.choices[at].value) {
                    return false;
                }
                there += 1;
            }
            at += 1;
        }
        there == handled.len()
    }
}

const fn contains(numbers: &[u64], number: u64) -> bool {
    let mut at = 0;
    while at < numbers.len() {
        if numbers[at] == number {
            return true;
        }
        at += 1;
    }
    false
}

macro_rules! choices {
    ($($value:literal $name:ident $status:expr;)*) => {
        &[$($crate::options::Choice { value: $value, name: stringify!($name), status: $status }),*]
    };
}
pub(crate) use choices;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_differ() {
        for group in GROUPS {
            for (at, one) in group.choices.iter().enumerate() {
                let twice = group.choices[..at]
                    .iter()
                    .any(|other| other.name == one.name || other.value == one.value);
                assert!(!twice, "{}: {}", group.title, one.name);
            }
        }
    }

    #[test]
    fn what_is_absent_is_neither_accepted_nor_handled() {
        const GROUP: Group = Group {
            title: "",
            refused: "EINVAL",
            choices: choices! { 1 A Status::Whole; 2 B Status::Absent; 4 C Status::Partial(""); },
        };
        assert_eq!(GROUP.mask(), 5);
        assert!(GROUP.is_handled_by(&[4, 1]));
        assert!(!GROUP.is_handled_by(&[1]));
        assert!(!GROUP.is_handled_by(&[1, 2, 4]));
    }
}
