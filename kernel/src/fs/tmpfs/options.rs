//! Options of a mount of tmpfs (`size=10m,mode=755`).

use crate::errno::{Errno, Result};
use crate::mm::{PAGE_SIZE, frame};

/// What was asked for.
#[derive(Clone, Copy)]
pub struct Options {
    /// Pages that its files may take.
    pub pages: Option<u64>,
    /// Inodes that it may have.
    pub inodes: Option<u64>,
    /// The root's permissions.
    pub permissions: Option<u32>,
    /// The root's owner and group.
    pub owner: (u32, u32),
}

impl Options {
    /// Without limits, for the kernel's own.
    pub const fn unlimited(permissions: u32) -> Self {
        Options {
            pages: None,
            inodes: None,
            permissions: Some(permissions),
            owner: (0, 0),
        }
    }

    /// Reads a list of options, 0 or "nothing said" being no limit for inodes and half of memory
    /// for pages. EINVAL.
    pub fn parse(list: &[u8]) -> Result<Self> {
        let half = frame::total() as u64 / 2;
        let mut options = Options {
            pages: Some(half),
            inodes: Some(half),
            permissions: None,
            owner: (0, 0),
        };
        for option in list
            .split(|&byte| byte == b',')
            .filter(|one| !one.is_empty())
        {
            let text = core::str::from_utf8(option).map_err(|_| Errno::EINVAL)?;
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            match name {
                "size" => options.pages = limit(size(value)?.div_ceil(PAGE_SIZE as u64)),
                "nr_blocks" => options.pages = limit(number(value)?),
                "nr_inodes" => options.inodes = limit(number(value)?),
                "mode" => {
                    let mode = u32::from_str_radix(value, 8).map_err(|_| Errno::EINVAL)?;
                    options.permissions = Some(mode & 0o7777);
                }
                "uid" => options.owner.0 = value.parse().map_err(|_| Errno::EINVAL)?,
                "gid" => options.owner.1 = value.parse().map_err(|_| Errno::EINVAL)?,
                // What says how memory is used, and what every mount may say.
                "huge" | "mpol" | "noswap" | "inode32" | "inode64" | "rw" | "source" => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(options)
    }
}

/// 0 is no limit.
fn limit(count: u64) -> Option<u64> {
    (count != 0).then_some(count)
}

/// A number that may end in `k`, `m` or `g`.
fn number(text: &str) -> Result<u64> {
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
    number.checked_shl(shift).ok_or(Errno::EINVAL)
}

/// The same, or a share of memory that ends in `%`.
fn size(text: &str) -> Result<u64> {
    match text.strip_suffix('%') {
        None => number(text),
        Some(percent) => {
            let percent: u64 = percent.parse().map_err(|_| Errno::EINVAL)?;
            let memory = (frame::total() * PAGE_SIZE) as u64;
            Ok(memory / 100 * percent.min(100))
        }
    }
}
