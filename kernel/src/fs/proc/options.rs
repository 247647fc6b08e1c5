//! Mount options of proc: which processes it shows to whom.

use super::super::mount::options::{number, parse};
use super::subject::Subject;
use crate::errno::{Errno, Result};
use crate::task::current;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The levels of `hidepid`, by number and name. The directory of a process that the caller may not
/// ptrace cannot be entered (1), or is invisible (2); at 4 it is invisible even to members of the
/// group `gid`.
const LEVELS: [(u32, &str); 4] = [
    (0, "off"),
    (1, "noaccess"),
    (2, "invisible"),
    (4, "ptraceable"),
];
const NO_ACCESS: u32 = 1;
const INVISIBLE: u32 = 2;
const PTRACEABLE: u32 = 4;

/// The options.
#[derive(Default)]
pub struct Options {
    hidepid: AtomicU32,
    /// The group that sees all processes.
    gid: AtomicU32,
    /// Only processes are shown.
    pid_only: AtomicBool,
}

/// The options that a mount call names.
#[derive(Default)]
pub struct Change {
    hidepid: Option<u32>,
    gid: Option<u32>,
    pid_only: bool,
}

impl Change {
    /// Parses a list of options; returns `flags` (MS_*) with the changes that the list makes to
    /// them.
    ///
    /// # Errors
    /// EINVAL.
    pub fn parse(list: &[u8], flags: u32) -> Result<(Self, u32)> {
        let mut change = Change::default();
        let flags = parse(list, flags, |name, value| {
            match (name, value) {
                ("hidepid", Some(value)) => change.hidepid = Some(level(value)?),
                ("gid", value) => change.gid = Some(number(value)?),
                ("subset", Some("pid")) => change.pid_only = true,
                _ => return Err(Errno::EINVAL),
            }
            Ok(())
        })?;
        Ok((change, flags))
    }
}

impl Options {
    /// Changes the options that were named.
    pub fn set(&self, change: &Change) {
        if let Some(level) = change.hidepid {
            self.hidepid.store(level, Relaxed);
        }
        if let Some(gid) = change.gid {
            self.gid.store(gid, Relaxed);
        }
        if change.pid_only {
            self.pid_only.store(true, Relaxed);
        }
    }

    /// Whether the caller can see that this process exists.
    pub fn shows(&self, subject: &Subject) -> bool {
        self.allows(subject, INVISIBLE)
    }

    /// Whether the caller may enter this process's directory.
    pub fn admits(&self, subject: &Subject) -> bool {
        self.allows(subject, NO_ACCESS)
    }

    /// Whether only processes are shown.
    pub fn pid_only(&self) -> bool {
        self.pid_only.load(Relaxed)
    }

    /// Linux's `has_pid_permissions`.
    fn allows(&self, subject: &Subject, least: u32) -> bool {
        let level = self.hidepid.load(Relaxed);
        let gid = self.gid.load(Relaxed);
        if level == PTRACEABLE {
            return subject.may_look();
        }
        level < least || current().credentials().in_group(gid) || subject.may_look()
    }
}

impl fmt::Display for Options {
    /// Formats the options as in /proc/PID/mounts, each after a comma.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let [hidepid, gid] = [&self.hidepid, &self.gid].map(|option| option.load(Relaxed));
        if gid != 0 {
            write!(out, ",gid={gid}")?;
        }
        let name = LEVELS.iter().find(|&&(level, _)| level == hidepid);
        if let Some((_, name)) = name.filter(|_| hidepid != 0) {
            write!(out, ",hidepid={name}")?;
        }
        if self.pid_only() {
            out.write_str(",subset=pid")?;
        }
        Ok(())
    }
}

fn level(value: &str) -> Result<u32> {
    let level = LEVELS
        .iter()
        .find(|(level, name)| value == *name || value.parse() == Ok(*level));
    level.map(|&(level, _)| level).ok_or(Errno::EINVAL)
}
