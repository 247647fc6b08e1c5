//! Extended attributes of an inode.

use super::super::inode::XattrChange;
use super::quota::Quota;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_box;
use crate::sync::Mutex;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The maximum size of an inode's attributes, names and values together.
const MAX: usize = 64 * 1024;

/// A name and its value.
struct Attribute {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Attribute {
    fn len(&self) -> usize {
        self.name.len() + self.value.len()
    }

    /// The number of bytes of the file system's inode quota that it takes, with Linux's overhead.
    fn space(&self) -> u64 {
        40 + self.len() as u64
    }
}

/// The attributes of an inode.
pub struct Xattrs(Mutex<All>);

struct All {
    /// Sorted by name in reverse, as Linux lists them.
    #[expect(clippy::vec_box, reason = "a change in the middle moves all behind it")]
    list: Vec<Box<Attribute>>,
    /// The number of bytes of all names and values.
    len: usize,
}

impl All {
    /// The index of a name, or where it would be.
    fn find(&self, name: &[u8]) -> core::result::Result<usize, usize> {
        self.list.binary_search_by(|known| name.cmp(&known.name))
    }
}

fn copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())
        .map_err(|_| Errno::ENOMEM)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl Xattrs {
    /// No attributes.
    pub const fn new() -> Self {
        Xattrs(Mutex::new(All {
            list: Vec::new(),
            len: 0,
        }))
    }

    /// A value; ENODATA if there is none.
    pub fn get(&self, name: &[u8]) -> Result<Vec<u8>> {
        let all = self.0.lock();
        let at = all.find(name).map_err(|_| Errno::ENODATA)?;
        copy(&all.list[at].value)
    }

    /// The number of bytes of the file system's inode quota that all attributes take.
    pub fn space(&self) -> u64 {
        self.0.lock().list.iter().map(|one| one.space()).sum()
    }

    /// Changes a value and counts it in `quota`; ENODATA, EEXIST, ENOSPC.
    pub fn change(&self, name: &[u8], change: XattrChange, quota: &Quota) -> Result<()> {
        let mut all = self.0.lock();
        let known = all.find(name);
        let value = match (change, known) {
            (XattrChange::Remove, Ok(at)) => {
                let old = all.list.remove(at);
                all.len -= old.len();
                quota.give(old.space());
                return Ok(());
            }
            (XattrChange::Create(_), Ok(_)) => return Err(Errno::EEXIST),
            (XattrChange::Remove | XattrChange::Replace(_), Err(_)) => return Err(Errno::ENODATA),
            (
                XattrChange::Set(value) | XattrChange::Create(value) | XattrChange::Replace(value),
                _,
            ) => value,
        };
        if all.len + name.len() + value.len() > MAX {
            return Err(Errno::ENOSPC);
        }
        let (name, value) = (copy(name)?, copy(value)?);
        let new = try_box(Attribute { name, value }).map_err(|_| Errno::ENOSPC)?;
        all.list.try_reserve(1).map_err(|_| Errno::ENOSPC)?;
        quota.take_many(new.space())?;
        all.len += new.len();
        match known {
            Ok(at) => {
                let old = core::mem::replace(&mut all.list[at], new);
                all.len -= old.len();
                quota.give(old.space());
            }
            Err(at) => all.list.insert(at, new),
        }
        Ok(())
    }

    /// All names, each followed by a zero byte.
    pub fn names(&self) -> Result<Vec<u8>> {
        let all = self.0.lock();
        let mut names = Vec::new();
        for Attribute { name, .. } in all.list.iter().map(|one| &**one) {
            names
                .try_reserve(name.len() + 1)
                .map_err(|_| Errno::ENOMEM)?;
            names.extend_from_slice(name);
            names.push(0);
        }
        Ok(names)
    }
}
