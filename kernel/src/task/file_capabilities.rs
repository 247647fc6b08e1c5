//! The capabilities of an executable file: its attribute `security.capability`
//! (include/uapi/linux/capability.h).

use super::credentials::ALL_CAPABILITIES;
use crate::errno::{Errno, Result};
use alloc::vec::Vec;

/// The attribute's name.
pub const NAME: &[u8] = b"security.capability";

/// The sizes of revision 2, and of revision 3, which ends with the user ID of root in the file's
/// namespace.
const XATTR_CAPS_SZ_2: usize = 20;
const XATTR_CAPS_SZ_3: usize = 24;
const VFS_CAP_REVISION_2: u32 = 0x0200_0000;
const VFS_CAP_REVISION_3: u32 = 0x0300_0000;
const VFS_CAP_FLAGS_EFFECTIVE: u32 = 1;

/// The capabilities that a program gets.
#[derive(Clone, Copy)]
pub struct FileCapabilities {
    /// Capabilities that every caller gets.
    pub permitted: u64,
    /// Capabilities that a caller gets if it has them as inheritable.
    pub inheritable: u64,
    /// Whether the capabilities are effective from the start.
    pub effective: bool,
}

/// The words of a value; EINVAL if its revision is unknown, or its length is not that of its
/// revision.
fn words(value: &[u8]) -> Result<[u32; 6]> {
    let mut words = [0; 6];
    for (word, bytes) in words.iter_mut().zip(value.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    match (words[0] & !VFS_CAP_FLAGS_EFFECTIVE, value.len()) {
        (VFS_CAP_REVISION_2, XATTR_CAPS_SZ_2) | (VFS_CAP_REVISION_3, XATTR_CAPS_SZ_3) => Ok(words),
        _ => Err(Errno::EINVAL),
    }
}

/// EINVAL if the value cannot be set.
pub fn check(value: &[u8]) -> Result<()> {
    words(value).map(|_| ())
}

/// A value as it is read: in revision 2 if the root user is 0.
pub fn shown(mut value: Vec<u8>) -> Vec<u8> {
    if let Ok(words) = words(&value)
        && value.len() == XATTR_CAPS_SZ_3
        && words[5] == 0
    {
        let magic = VFS_CAP_REVISION_2 | words[0] & VFS_CAP_FLAGS_EFFECTIVE;
        value[..4].copy_from_slice(&magic.to_le_bytes());
        value.truncate(XATTR_CAPS_SZ_2);
    }
    value
}

impl FileCapabilities {
    /// The capabilities in an attribute's value; `None` if its root is another user.
    ///
    /// # Errors
    /// EINVAL.
    pub fn parse(value: &[u8]) -> Result<Option<Self>> {
        let [
            magic,
            permitted,
            inheritable,
            permitted_high,
            inheritable_high,
            root,
        ] = words(value)?;
        let set = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)) & ALL_CAPABILITIES;
        Ok((root == 0).then_some(FileCapabilities {
            permitted: set(permitted, permitted_high),
            inheritable: set(inheritable, inheritable_high),
            effective: magic & VFS_CAP_FLAGS_EFFECTIVE != 0,
        }))
    }
}
