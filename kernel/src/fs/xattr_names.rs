//! Names of extended attributes on disks: the families that are kept, and the list of listxattr(2).

use crate::errno::{Errno, Result};
use alloc::vec::Vec;
use linux_raw_sys::general::XATTR_LIST_MAX;

/// The attributes that are kept: others belong to nobody.
const FAMILIES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// EOPNOTSUPP unless a name is one of a family that is kept.
pub fn check_family(name: &[u8]) -> Result<()> {
    match FAMILIES.iter().any(|family| name.starts_with(family)) {
        true => Ok(()),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// The names of an inode's attributes.
#[derive(Default)]
pub struct List {
    names: Vec<u8>,
    /// Why there are not all.
    failed: Option<Errno>,
}

impl List {
    /// Adds a name by its family, such as `user.`, and the rest; false if it is of no use to add
    /// more.
    pub fn add(&mut self, family: &[u8], name: &[u8]) -> bool {
        if FAMILIES.contains(&family) && self.failed.is_none() {
            self.failed = self.push(family, name).err();
        }
        self.failed.is_none()
    }

    fn push(&mut self, family: &[u8], name: &[u8]) -> Result<()> {
        let length = family.len() + name.len() + 1;
        if self.names.len() + length > XATTR_LIST_MAX as usize {
            return Err(Errno::E2BIG);
        }
        let room = self.names.try_reserve(length);
        room.map_err(|_| Errno::ENOMEM)?;
        self.names.extend_from_slice(family);
        self.names.extend_from_slice(name);
        self.names.push(0);
        Ok(())
    }

    /// All of them, each followed by a zero byte.
    ///
    /// # Errors
    /// ENOMEM. E2BIG: they have more bytes than listxattr(2) returns.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.names),
        }
    }
}
