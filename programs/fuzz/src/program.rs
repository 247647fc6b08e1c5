//! Random programs: short sequences of system calls.

use abi::{CALLS, Call, Kind, Status};
use random::Random;

use crate::{arena, values};

/// A system call with its arguments.
pub struct Step {
    pub call: &'static Call,
    pub arguments: [u64; 6],
}

/// Calls that end the process, return elsewhere, or act upon whom they must not.
const NEVER: &[&str] = &[
    "exit",
    "exit_group",
    "rt_sigreturn",
    "restart_syscall",
    "clone",
    "clone3",
    "ptrace",
    "sync",
    "brk",
    "riscv_hwprobe",
    "riscv_flush_icache",
    "rseq",
    "set_robust_list",
    "setitimer",
    "acct",
    "syslog",
];

/// Calls of which a program makes some more often: they make or change what others act upon.
const OFTEN: &[&str] = &[
    "openat",
    "socket",
    "fcntl",
    "mmap",
    "pipe2",
    "write",
    "ioctl",
    "setsockopt",
];

/// Calls whose values are addresses, numbers of processes and keys, times, sizes of folders.
const OWN_VALUES: &[&str] = &[
    "mmap",
    "mremap",
    "shmat",
    "shmget",
    "msgget",
    "semget",
    "getpid",
    "gettid",
    "getppid",
    "getsid",
    "getpgid",
    "setsid",
    "set_tid_address",
    "times",
    "add_key",
    "request_key",
    "keyctl",
    "getdents64",
    "semctl",
    "shmctl",
    "msgctl",
    "getcpu",
    "kcmp",
];

impl Step {
    /// A random call.
    pub fn random(random: &mut Random) -> Self {
        let call = loop {
            let call = match random.once_in(8) {
                true => {
                    let name = random.one_of(OFTEN);
                    CALLS
                        .iter()
                        .find(|call| call.name == name)
                        .expect("a call of the table")
                }
                false => &CALLS[random.below(CALLS.len() as u64) as usize],
            };
            if call.status != Status::Absent && !NEVER.contains(&call.name) {
                break call;
            }
        };
        let mut arguments = [0; 6];
        for index in 0..call.arguments.len() {
            arguments[index] = values::argument(call, &arguments[..index], random);
        }
        Self { call, arguments }
    }

    /// Whether its value, if it succeeds, differs from run to run: an address, a number of a
    /// process, a time.
    pub fn has_own_value(&self) -> bool {
        OWN_VALUES.contains(&self.call.name)
    }

    /// Makes the call: its value, or an error number below zero.
    pub fn execute(&self) -> i64 {
        let own = std::process::id().into();
        let [a, b, c, d, e, f] = self.arguments.map(|value| match value {
            values::OWN => own,
            value => value,
        });
        // SAFETY: none for the program itself: calls may change its memory, but only at random
        // addresses of the arena, and at edges where nothing is mapped. A child that dies by it is
        // a result as any other.
        let value = unsafe { libc::syscall(self.call.number.into(), a, b, c, d, e, f) };
        match value {
            -1 => -std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as i64,
            value => value,
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(to, "{}(", self.call.name)?;
        for (index, kind) in self.call.arguments.iter().enumerate() {
            let value = self.arguments[index];
            let comma = if index == 0 { "" } else { ", " };
            write!(to, "{comma}")?;
            let as_address = matches!(kind, Kind::Path | Kind::Pointer | Kind::Bytes);
            match (
                arena::string_at(value as usize),
                arena::structure_at(value as usize),
            ) {
                _ if value == values::OWN => write!(to, "own")?,
                (Some(name), _) if as_address => {
                    write!(to, "\"{}\"", &name[..name.len().min(32)])?;
                }
                (_, Some(kind)) if as_address => write!(to, "{kind:?}@{value:x}")?,
                _ if value < 1 << 12 => write!(to, "{value}")?,
                _ if value as i64 > -4096 && (value as i64) < 0 => write!(to, "{}", value as i64)?,
                _ => write!(to, "{value:#x}")?,
            }
        }
        write!(to, ")")
    }
}

/// A program: the same for the same seed and number, on every kernel and machine.
pub fn generate(random: &mut Random, steps: usize) -> Vec<Step> {
    (0..steps).map(|_| Step::random(random)).collect()
}
