//! Access control lists. The disk and programs use different formats: the disk's (version 1) omits
//! the id of entries without one; that of getxattr(2) (version 2, see `linux/posix_acl_xattr.h`)
//! does not.

use alloc::vec::Vec;

use crate::bytes::{u16_at, u32_at};
use crate::{Error, Result};

const ON_DISK: u32 = 1;
const FOR_PROGRAMS: u32 = 2;
const HEADER: usize = 4;
/// The size in bytes of a program's entry, and of an entry on disk without an id.
const WIDE: usize = 8;
const SHORT: usize = 4;
/// The id of a program's entry that has none.
const NOBODY: u32 = u32::MAX;

/// Whether entries with this tag have the id of a user or group: `ACL_USER` and `ACL_GROUP`.
fn has_number(tag: u16) -> Option<bool> {
    match tag {
        0x02 | 0x08 => Some(true),
        0x01 | 0x04 | 0x10 | 0x20 => Some(false),
        _ => None,
    }
}

/// Converts a list from the format of setxattr(2) to that of the disk, for
/// [`crate::Fs::set_attribute`].
///
/// # Errors
/// [`Error::Unsupported`] for another version, [`Error::Invalid`] for a malformed list.
pub fn acl_to_disk(list: &[u8]) -> Result<Vec<u8>> {
    if list.len() < HEADER {
        return Err(Error::Invalid);
    }
    if u32_at(list, 0) != FOR_PROGRAMS {
        return Err(Error::Unsupported("version of an access control list"));
    }
    let (entries, []) = list[HEADER..].as_chunks::<WIDE>() else {
        return Err(Error::Invalid);
    };
    let mut disk = Vec::new();
    disk.try_reserve_exact(list.len())?;
    disk.extend_from_slice(&ON_DISK.to_le_bytes());
    for entry in entries {
        let kept = match has_number(u16_at(entry, 0)) {
            Some(true) => WIDE,
            Some(false) => SHORT,
            None => return Err(Error::Invalid),
        };
        disk.extend_from_slice(&entry[..kept]);
    }
    Ok(disk)
}

/// Converts a list that [`crate::Fs::attribute`] returned to the format of getxattr(2).
///
/// # Errors
/// [`Error::Corrupt`] for a malformed list.
pub fn acl_from_disk(list: &[u8]) -> Result<Vec<u8>> {
    let bad = Error::Corrupt("access control list");
    if list.len() < HEADER || u32_at(list, 0) != ON_DISK {
        return Err(bad);
    }
    let mut wide = Vec::new();
    wide.try_reserve_exact(HEADER + (list.len() - HEADER).div_ceil(SHORT) * WIDE)?;
    wide.extend_from_slice(&FOR_PROGRAMS.to_le_bytes());
    let mut rest = &list[HEADER..];
    while !rest.is_empty() {
        let numbered = has_number(u16_at(rest, 0)).ok_or(bad)?;
        let length = if numbered { WIDE } else { SHORT };
        let (entry, behind) = rest.split_at_checked(length).ok_or(bad)?;
        let number = if numbered {
            u32_at(entry, SHORT)
        } else {
            NOBODY
        };
        wide.extend_from_slice(&entry[..SHORT]);
        wide.extend_from_slice(&number.to_le_bytes());
        rest = behind;
    }
    Ok(wide)
}
