//! devpts file systems and their mount options: the owner of new terminals, and their maximum
//! number.

use super::super::mount::options::{number, parse, permissions};
use super::super::new_device;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::task::current;
use core::fmt;

/// The options.
#[derive(Clone, Copy)]
pub struct Options {
    /// The owner of a new terminal, if not its creator.
    uid: Option<u32>,
    /// The group of a new terminal, if not its creator's.
    gid: Option<u32>,
    /// Permissions of a new terminal.
    pub mode: u32,
    /// Permissions of `ptmx`.
    pub ptmxmode: u32,
    /// The maximum number of terminals.
    pub max: u32,
}

/// A file system of terminals, with its own numbers.
pub struct Instance {
    /// Its device number, which no other file system has.
    pub device: u64,
    options: Mutex<Options>,
}

const DEFAULT: Options = Options {
    uid: None,
    gid: None,
    mode: 0o600,
    ptmxmode: 0,
    max: super::pty::MAX,
};

impl Options {
    /// Owner and group of a new terminal.
    pub fn owner(&self) -> (u32, u32) {
        let (uid, gid) = current().with_credentials(|who| (who.fsuid, who.fsgid));
        (self.uid.unwrap_or(uid), self.gid.unwrap_or(gid))
    }

    /// Parses a list of options; returns `flags` (MS_*) with the changes that the list makes to
    /// them.
    ///
    /// # Errors
    /// EINVAL.
    pub fn parse(list: &[u8], flags: u32) -> Result<(Self, u32)> {
        let mut options = DEFAULT;
        let flags = parse(list, flags, |name, value| {
            match name {
                "uid" => options.uid = Some(number(value)?),
                "gid" => options.gid = Some(number(value)?),
                "mode" => options.mode = permissions(value)? & 0o7777,
                "ptmxmode" => options.ptmxmode = permissions(value)? & 0o7777,
                "max" => options.max = number(value)?,
                "newinstance" if value.is_none() => {}
                _ => return Err(Errno::EINVAL),
            }
            if options.max > super::pty::MAX {
                return Err(Errno::EINVAL);
            }
            Ok(())
        })?;
        Ok((options, flags))
    }
}

impl Instance {
    /// A new instance.
    pub fn new(options: Options) -> Self {
        Instance {
            device: new_device(),
            options: Mutex::new(options),
        }
    }

    /// The current options.
    pub fn get(&self) -> Options {
        *self.options.lock()
    }

    /// Replaces all of them.
    pub fn set(&self, options: Options) {
        *self.options.lock() = options;
    }
}

impl fmt::Display for Instance {
    /// Formats the options as in /proc/PID/mounts, each after a comma.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let options = self.get();
        if let Some(uid) = options.uid {
            write!(out, ",uid={uid}")?;
        }
        if let Some(gid) = options.gid {
            write!(out, ",gid={gid}")?;
        }
        write!(
            out,
            ",mode={:03o},ptmxmode={:03o}",
            options.mode, options.ptmxmode
        )?;
        if options.max < super::pty::MAX {
            write!(out, ",max={}", options.max)?;
        }
        Ok(())
    }
}
