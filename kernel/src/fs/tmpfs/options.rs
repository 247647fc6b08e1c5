//! Options of a mount of tmpfs (`size=10m,mode=755`).

use super::super::mount::options::{number, parse, permissions};
use crate::errno::{Errno, Result};
use crate::mm::{PAGE_SIZE, frame};

/// The options that were given. A limit of 0 is none.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Pages that its files may take.
    pub pages: Option<u64>,
    /// Inodes that it may have.
    pub inodes: Option<u64>,
    /// The root's permissions.
    pub permissions: Option<u32>,
    /// The root's owner.
    pub uid: Option<u32>,
    /// The root's group.
    pub gid: Option<u32>,
    /// Its pages are never to be swapped out, as they never are.
    pub noswap: bool,
}

impl Options {
    /// Without limits, for the kernel's own.
    pub const fn unlimited(permissions: u32) -> Self {
        Options {
            pages: Some(0),
            inodes: Some(0),
            permissions: Some(permissions),
            uid: None,
            gid: None,
            noswap: false,
        }
    }

    /// Reads a list of options; returns `flags` (MS_*) as it changes them too.
    ///
    /// # Errors
    /// EINVAL.
    pub fn parse(list: &[u8], flags: u32) -> Result<(Self, u32)> {
        let mut options = Options::default();
        let flags = parse(list, flags, |name, value| {
            match name {
                "size" => options.pages = Some(size(value)?.div_ceil(PAGE_SIZE as u64)),
                "nr_blocks" => options.pages = Some(scaled(value)?),
                "nr_inodes" => options.inodes = Some(scaled(value)?),
                "mode" => options.permissions = Some(permissions(value)? & 0o7777),
                "uid" => options.uid = Some(number(value)?),
                "gid" => options.gid = Some(number(value)?),
                "noswap" if value.is_none() => options.noswap = true,
                // As it is: files have no huge pages, inodes have 64 bits, and memory is one node.
                "huge" if value == Some("never") => {}
                "inode64" if value.is_none() => {}
                "mpol" if value == Some("default") => {}
                _ => return Err(Errno::EINVAL),
            }
            Ok(())
        })?;
        Ok((options, flags))
    }

    /// The default limit of pages, and of inodes: half of memory, in pages.
    pub fn default_limit() -> u64 {
        frame::total() as u64 / 2
    }
}

/// A number that may end in `k`, `m` or `g`.
fn scaled(value: Option<&str>) -> Result<u64> {
    let text = value.ok_or(Errno::EINVAL)?;
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let shift = match text.as_bytes().get(digits.len()) {
        None => 0,
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        _ => 30,
    };
    if text.len() > digits.len() + 1 {
        return Err(Errno::EINVAL);
    }
    let number: u64 = digits.parse().map_err(|_| Errno::EINVAL)?;
    number.checked_mul(1 << shift).ok_or(Errno::EINVAL)
}

/// A scaled number, or a share of memory that ends in `%`.
fn size(value: Option<&str>) -> Result<u64> {
    match value.and_then(|text| text.strip_suffix('%')) {
        None => scaled(value),
        Some(percent) => {
            let percent: u64 = number(Some(percent))?;
            let memory = (frame::total() * PAGE_SIZE) as u64;
            Ok(memory / 100 * percent.min(100))
        }
    }
}
