//! The inode of open files that have no file in the tree: eventfd, epoll and their kin.

use super::dentry::Dentry;
use super::file::{File, FileOps, OpenFlags};
use super::inode::{Attr, Inode, Kind, SetAttr};
use super::path::Path;
use super::simple_attr::SimpleAttr;
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_format};
use crate::sync::Once;
use alloc::sync::Arc;

struct Anonymous {
    /// Whether this is a pidfd, whose attributes cannot be changed (Linux's pidfs).
    fixed: bool,
}

/// The name of the inode of pidfds.
pub const PIDFD: &str = "[pidfd]";

/// There is one inode, so a change shows in all of these files.
static ATTR: Once<SimpleAttr> = Once::new();

fn shared_attr() -> &'static SimpleAttr {
    ATTR.call_once(|| {
        SimpleAttr::new(Attr {
            device: super::ANONYMOUS_DEVICE,
            inode: super::new_anonymous_number(),
            mode: 0o600,
            ..Attr::default()
        })
    })
}

impl Inode for Anonymous {
    fn kind(&self) -> Kind {
        Kind::Anonymous
    }

    fn attr(&self) -> Attr {
        shared_attr().get()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        if self.fixed {
            return Err(Errno::EPERM);
        }
        shared_attr().set(change);
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
}

/// An open file that /proc/PID/fd shows as `anon_inode:KIND`.
pub fn file(kind: &str, ops: Arc<dyn FileOps>, flags: OpenFlags) -> Result<Arc<File>> {
    let name = try_format(format_args!("anon_inode:{kind}"))?;
    let inode = Anonymous {
        fixed: kind == PIDFD,
    };
    let dentry = Dentry::named(try_arc(inode)?, None, name.as_bytes())?;
    File::with_ops(dentry, ops, flags)
}
