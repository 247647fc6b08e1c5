//! Names of extended attributes on disks: the families that are kept, and the list of listxattr(2).

use crate::errno::{Errno, Result};
use alloc::vec::Vec;

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
    /// There was no memory for one.
    short: bool,
}

impl List {
    /// Adds a name by its family, such as `user.`, and the rest.
    pub fn add(&mut self, family: &[u8], name: &[u8]) {
        if !FAMILIES.contains(&family) || self.short {
            return;
        }
        let length = family.len() + name.len() + 1;
        self.short = self.names.try_reserve(length).is_err();
        if !self.short {
            self.names.extend_from_slice(family);
            self.names.extend_from_slice(name);
            self.names.push(0);
        }
    }

    /// All of them, each followed by a zero byte.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.short {
            true => Err(Errno::ENOMEM),
            false => Ok(self.names),
        }
    }
}
