//! Options as mount(2) passes them: `size=10m,mode=755`.

use crate::errno::{Errno, Result};
use linux_raw_sys::general::*;

/// Flags of a file system by the words that set them (`ro`, `sync`) and take them back.
const FLAGS: [(&str, u32, &str); 5] = [
    ("ro", MS_RDONLY, "rw"),
    ("sync", MS_SYNCHRONOUS, "async"),
    ("dirsync", MS_DIRSYNC, ""),
    ("lazytime", MS_LAZYTIME, "nolazytime"),
    ("mand", MS_MANDLOCK, "nomand"),
];

/// Calls `each` with the name and value of every option except those of all file systems; returns
/// `flags` (MS_*) as changed by those.
///
/// # Errors
/// EINVAL: an option is no text, or `each` does not know it.
pub fn parse(
    list: &[u8],
    mut flags: u32,
    mut each: impl FnMut(&str, Option<&str>) -> Result<()>,
) -> Result<u32> {
    let list = core::str::from_utf8(list).map_err(|_| Errno::EINVAL)?;
    for option in list.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let known = FLAGS
            .iter()
            .find(|known| [known.0, known.2].contains(&name));
        match (known, value) {
            (Some(&(set, flag, _)), None) if name == set => flags |= flag,
            (Some(&(_, flag, _)), None) => flags &= !flag,
            _ if name == "source" => {}
            _ => each(name, value)?,
        }
    }
    Ok(flags)
}

/// A decimal number.
pub fn number<T: core::str::FromStr>(value: Option<&str>) -> Result<T> {
    let value = value.ok_or(Errno::EINVAL)?;
    value.parse().map_err(|_| Errno::EINVAL)
}

/// Permissions, in octal.
pub fn permissions(value: Option<&str>) -> Result<u32> {
    let value = value.ok_or(Errno::EINVAL)?;
    u32::from_str_radix(value, 8).map_err(|_| Errno::EINVAL)
}
