//! Options of a mount (`lowerdir=a:b,upperdir=c,workdir=d`).

use super::super::path::Path;
use super::super::walk::Walk;
use crate::errno::{Errno, Result};
use crate::fs::inode::Kind;
use crate::mm::heap::try_vec;
use crate::task::current;
use alloc::vec::Vec;
use core::fmt;
use linux_raw_sys::general::*;

/// The most lower layers (OVL_MAX_STACK).
const MOST_LAYERS: usize = 500;

/// The directories that the options name.
#[derive(Default)]
pub struct Places {
    /// The lower layers, the uppermost first.
    pub lower: Vec<Path>,
    /// The upper layer.
    pub upper: Option<Path>,
    /// The directory for files that are not complete yet.
    pub work: Option<Path>,
}

/// How the file system is told apart from others (`uuid=`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Uuid {
    /// No UUID counts.
    Off,
    /// It has none.
    Null,
    /// It has one if it is new.
    Auto,
    /// It has one.
    On,
}

/// When data comes to the disk (`fsync=`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// When somebody asks for it, and before a copied file appears.
    Auto,
    /// The same, and the attributes of what was copied.
    Strict,
    /// It may never: the upper layer is thrown away after a power cut.
    Volatile,
}

/// The options that were given.
pub struct Options {
    /// The value of `lowerdir`, where the layers come from that.
    lower_list: Option<Vec<u8>>,
    /// The values of `lowerdir+`.
    lower: Vec<Vec<u8>>,
    upper: Vec<u8>,
    work: Vec<u8>,
    /// Whether redirects of directories are followed.
    pub follow: bool,
    /// `redirect_dir` says so.
    asked_to_follow: bool,
    /// The UUID.
    pub uuid: Uuid,
    /// Syncing.
    pub fsync: Fsync,
    /// Its own attributes are `user.overlay.*`, not `trusted.overlay.*`.
    pub user_attributes: bool,
    default_permissions: bool,
}

/// Splits at `separator`, where no `\` is before it.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut escaped = false;
    text.split(move |&byte| {
        let splits = byte == separator && !escaped;
        escaped = byte == b'\\' && !escaped;
        splits
    })
}

/// A copy without the backslashes that escape what follows.
fn unescape(text: &[u8]) -> Result<Vec<u8>> {
    let mut plain = try_vec(text)?;
    let mut escaped = false;
    plain.retain(|&byte| {
        escaped = byte == b'\\' && !escaped;
        !escaped
    });
    Ok(plain)
}

/// The directory that `name` names for the calling thread.
fn directory(name: &[u8]) -> Result<Path> {
    let context = current().fs();
    let path = Walk::new(&context).resolve(None, name, true)?;
    match path.kind() {
        Kind::Directory => Ok(path),
        _ => Err(Errno::EINVAL),
    }
}

/// The directory of the upper layer or of its work, which is not read-only.
fn upper_directory(value: &[u8]) -> Result<Path> {
    let found = directory(&unescape(value)?)?;
    let is_overlay = found.mount().is_none_or(|on| on.fs().overlay().is_some());
    match is_overlay || found.mount_flags() & MS_RDONLY != 0 {
        true => Err(Errno::EINVAL),
        false => Ok(found),
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    list.push(item);
    Ok(())
}

impl Options {
    const fn new() -> Self {
        Options {
            lower_list: None,
            lower: Vec::new(),
            upper: Vec::new(),
            work: Vec::new(),
            follow: true,
            asked_to_follow: false,
            uuid: Uuid::Auto,
            fsync: Fsync::Auto,
            user_attributes: false,
            default_permissions: false,
        }
    }

    /// Reads a list of options; returns the directories too, and `flags` (MS_*) as they are then.
    ///
    /// # Errors
    /// EINVAL: an option is unknown, a directory is none, or one of the upper layer cannot be
    /// written. Those of looking directories up.
    pub fn parse(list: &[u8], flags: u32) -> Result<(Self, Places, u32)> {
        let (mut options, mut places) = (Options::new(), Places::default());
        let mut flags = flags;
        for option in split(list, b',').filter(|option| !option.is_empty()) {
            flags = super::super::mount::options::parse(option, flags, |_, _| Err(Errno::ENOENT))
                .or_else(|_| options.set(option, &mut places).map(|()| flags))?;
        }
        options.check(&mut places)?;
        Ok((options, places, flags))
    }

    fn set(&mut self, option: &[u8], places: &mut Places) -> Result<()> {
        let at = option.iter().position(|&byte| byte == b'=');
        let Some(at) = at else {
            match option {
                b"default_permissions" => self.default_permissions = true,
                b"userxattr" => self.user_attributes = true,
                b"volatile" => self.fsync = Fsync::Volatile,
                _ => return Err(Errno::EINVAL),
            }
            return Ok(());
        };
        let (name, value) = (&option[..at], &option[at + 1..]);
        if value.is_empty() && name != b"lowerdir" {
            return Err(Errno::EINVAL);
        }
        match (name, value) {
            (b"lowerdir", _) => self.set_lower(value, places)?,
            (b"lowerdir+", _) => self.add_lower(value, places)?,
            (b"upperdir", _) => {
                places.upper = Some(upper_directory(value)?);
                self.upper = try_vec(value)?;
            }
            (b"workdir", _) => {
                places.work = Some(upper_directory(value)?);
                self.work = try_vec(value)?;
            }
            // With Debian's default of `redirect_always_follow`.
            (b"redirect_dir", b"off" | b"follow") => {
                (self.follow, self.asked_to_follow) = (true, true);
            }
            (b"redirect_dir", b"nofollow") => {
                (self.follow, self.asked_to_follow) = (false, false);
            }
            (b"uuid", b"off") => self.uuid = Uuid::Off,
            (b"uuid", b"null") => self.uuid = Uuid::Null,
            (b"uuid", b"auto") => self.uuid = Uuid::Auto,
            (b"uuid", b"on") => self.uuid = Uuid::On,
            (b"fsync", b"auto") => self.fsync = Fsync::Auto,
            (b"fsync", b"strict") => self.fsync = Fsync::Strict,
            (b"fsync", b"volatile") => self.fsync = Fsync::Volatile,
            // As it is.
            (b"index" | b"nfs_export" | b"metacopy" | b"xino" | b"verity", b"off") => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// `lowerdir=a:b`: these layers in place of those before.
    fn set_lower(&mut self, value: &[u8], places: &mut Places) -> Result<()> {
        places.lower.clear();
        self.lower.clear();
        self.lower_list = None;
        if value.is_empty() {
            return Ok(());
        }
        self.lower_list = Some(try_vec(value)?);
        for name in split(value, b':') {
            // Two colons begin a layer of data alone, which needs metadata-only copies.
            if name.is_empty() || places.lower.len() == MOST_LAYERS {
                return Err(Errno::EINVAL);
            }
            push(&mut places.lower, directory(&unescape(name)?)?)?;
        }
        Ok(())
    }

    /// `lowerdir+=a`: one more layer at the bottom.
    fn add_lower(&mut self, value: &[u8], places: &mut Places) -> Result<()> {
        let added = directory(value)?;
        if self.lower_list.is_some() || places.lower.len() == MOST_LAYERS {
            return Err(Errno::EINVAL);
        }
        push(&mut self.lower, try_vec(value)?)?;
        push(&mut places.lower, added)
    }

    /// EINVAL where options are missing or do not go together; without an upper layer some of them
    /// mean nothing.
    fn check(&mut self, places: &mut Places) -> Result<()> {
        if self.user_attributes {
            if self.asked_to_follow {
                return Err(Errno::EINVAL);
            }
            self.follow = false;
        }
        if places.lower.is_empty() {
            return Err(Errno::EINVAL);
        }
        if places.upper.is_some() {
            return places.work.as_ref().map(drop).ok_or(Errno::EINVAL);
        }
        places.work = None;
        if self.fsync == Fsync::Volatile {
            self.fsync = Fsync::Auto;
        }
        if matches!(self.uuid, Uuid::On | Uuid::Off) {
            self.uuid = Uuid::Null;
        }
        match places.lower.len() {
            1 => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    }
}

/// A path as the value of an option: what would end it is written in octal.
fn write_value(name: &str, value: &[u8], out: &mut fmt::Formatter) -> fmt::Result {
    write!(out, ",{name}=")?;
    for &byte in value {
        match byte {
            b',' | b' ' | b'\t' | b'\n' | b'\\' | 0x80.. => write!(out, "\\{byte:03o}")?,
            _ => write!(out, "{}", char::from(byte))?,
        }
    }
    Ok(())
}

impl fmt::Display for Options {
    /// The options that are not the usual ones, as /proc/PID/mounts has them, each after a comma.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match &self.lower_list {
            Some(list) => write_value("lowerdir", list, out)?,
            None => {
                for layer in &self.lower {
                    write_value("lowerdir+", layer, out)?;
                }
            }
        }
        if !self.upper.is_empty() {
            write_value("upperdir", &self.upper, out)?;
            write_value("workdir", &self.work, out)?;
        }
        if self.default_permissions {
            out.write_str(",default_permissions")?;
        }
        out.write_str(match (self.follow, self.upper.is_empty()) {
            (false, _) => ",redirect_dir=nofollow",
            // There is nothing that it could redirect.
            (true, true) => ",redirect_dir=on",
            (true, false) => "",
        })?;
        out.write_str(match self.uuid {
            Uuid::Off => ",uuid=off",
            Uuid::Null => ",uuid=null",
            Uuid::Auto => "",
            Uuid::On => ",uuid=on",
        })?;
        out.write_str(match self.fsync {
            Fsync::Auto => "",
            Fsync::Strict => ",fsync=strict",
            Fsync::Volatile => ",fsync=volatile",
        })?;
        out.write_str(match self.user_attributes {
            true => ",userxattr",
            false => "",
        })
    }
}
