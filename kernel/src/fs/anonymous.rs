//! The inode of open files that stand for no file: eventfd, epoll and their like.

use super::dentry::Entry;
use super::file::{File, FileOps, OpenFlags};
use super::inode::{Attr, Inode, Kind, SetAttr};
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_format};
use alloc::sync::Arc;

struct Anonymous;

impl Inode for Anonymous {
    fn kind(&self) -> Kind {
        Kind::Anonymous
    }

    fn attr(&self) -> Attr {
        Attr {
            device: super::ANONYMOUS_DEVICE,
            inode: 1,
            mode: 0o600,
            links: 1,
            ..Attr::default()
        }
    }

    fn set_attr(&self, _change: &SetAttr) -> Result<()> {
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Arc<Entry>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
}

/// An open file that /proc/PID/fd shows as `anon_inode:KIND`.
pub fn file(kind: &str, ops: Arc<dyn FileOps>, flags: OpenFlags) -> Result<Arc<File>> {
    let name = try_format(format_args!("anon_inode:{kind}"))?;
    let entry = Entry::named(try_arc(Anonymous)?, None, name.as_bytes())?;
    File::with_ops(entry, ops, flags)
}
