//! The directory `net` of a process: the files of the only network namespace. Ended processes have
//! none.

use super::super::dentry::Dentry;
use super::super::file::{File, FileOps, OpenFlags, Record};
use super::super::inode::{Attr, Inode, Kind, SetAttr};
use super::super::path::Path;
use super::super::seq_file::{Fixed, Node, Tree};
use super::subject::{self, ProcInode};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;

const NET: Node = Node::Directory(crate::net::proc_net::FILES);

/// The directory.
pub struct Directory {
    own: ProcInode,
    files: Fixed,
}

impl Directory {
    /// Creates the directory with the inode `own`.
    pub fn new(own: ProcInode) -> Self {
        Directory {
            own,
            files: Fixed::branch(NET, Tree::Proc, own.device, own.number),
        }
    }

    /// Whether the process is still in a network namespace.
    fn is_in(&self) -> bool {
        self.own
            .who
            .find()
            .is_ok_and(|subject| subject.thread.is_some())
    }
}

impl Inode for Directory {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        self.own.attr(Kind::Directory, 0o555)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        if self.is_in() {
            self.files.lookup(here, name)
        } else {
            Err(Errno::ENOENT)
        }
    }
}

impl FileOps for Directory {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        if self.is_in() {
            self.files.read_dir(file, position, emit)
        } else {
            Err(Errno::EINVAL)
        }
    }
}
