//! Extended attributes of an inode.

use super::super::inode::XattrChange;
use super::quota::Quota;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::task::can;
use alloc::vec::Vec;
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// The most that the attributes of one inode take, names and values.
const MAX: usize = 64 * 1024;

/// Names and values, in the order in which they were set.
pub struct Xattrs(Mutex<Vec<(Vec<u8>, Vec<u8>)>>);

/// The bytes that an attribute takes of the file system's inode quota, with Linux's overhead.
fn space((name, value): &(Vec<u8>, Vec<u8>)) -> u64 {
    40 + (name.len() + value.len()) as u64
}

fn copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())
        .map_err(|_| Errno::ENOSPC)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl Xattrs {
    /// None.
    pub const fn new() -> Self {
        Xattrs(Mutex::new(Vec::new()))
    }

    /// A value; ENODATA.
    pub fn get(&self, name: &[u8]) -> Result<Vec<u8>> {
        let all = self.0.lock();
        let (_, value) = all
            .iter()
            .find(|(known, _)| known == name)
            .ok_or(Errno::ENODATA)?;
        copy(value)
    }

    /// The bytes that all attributes take of the file system's inode quota.
    pub fn space(&self) -> u64 {
        self.0.lock().iter().map(space).sum()
    }

    /// Changes a value, which `quota` counts; ENODATA, EEXIST, ENOSPC.
    pub fn change(&self, name: &[u8], change: XattrChange, quota: &Quota) -> Result<()> {
        let mut all = self.0.lock();
        let known = all.iter().position(|(known, _)| known == name);
        let value = match (change, known) {
            (XattrChange::Remove, Some(at)) => {
                quota.give(space(&all.remove(at)));
                return Ok(());
            }
            (XattrChange::Create(_), Some(_)) => return Err(Errno::EEXIST),
            (XattrChange::Remove | XattrChange::Replace(_), None) => return Err(Errno::ENODATA),
            (
                XattrChange::Set(value) | XattrChange::Create(value) | XattrChange::Replace(value),
                _,
            ) => value,
        };
        let used: usize = all
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if used + name.len() + value.len() > MAX {
            return Err(Errno::ENOSPC);
        }
        let new = (copy(name)?, copy(value)?);
        all.try_reserve(1).map_err(|_| Errno::ENOSPC)?;
        quota.take_many(space(&new))?;
        match known {
            Some(at) => quota.give(space(&core::mem::replace(&mut all[at], new))),
            None => all.push(new),
        }
        Ok(())
    }

    /// All names that the caller may know, each followed by a zero byte.
    pub fn names(&self) -> Result<Vec<u8>> {
        let all = self.0.lock();
        let mut names = Vec::new();
        let privileged = can(CAP_SYS_ADMIN);
        for (name, _) in all.iter() {
            if name.starts_with(b"trusted.") && !privileged {
                continue;
            }
            names
                .try_reserve(name.len() + 1)
                .map_err(|_| Errno::ENOMEM)?;
            names.extend_from_slice(name);
            names.push(0);
        }
        Ok(names)
    }
}
