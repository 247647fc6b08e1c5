//! Open directories.

use super::super::file::{File, FileOps, Record, Whence, seek_in};
use super::super::inode::Kind;
use super::node::Node;
use super::session::Handle;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use alloc::sync::Arc;
use core::ops::Range;
use ninep::{Entries, Request};

/// The flags by which it is opened (P9_DOTL_DIRECTORY).
const FLAGS: u32 = 0o200_000;

/// An open directory.
pub struct OpenDirectory {
    handle: Arc<Handle>,
    node: Arc<Node>,
}

impl OpenDirectory {
    /// Opens it.
    pub fn open(node: Arc<Node>) -> Result<Arc<dyn FileOps>> {
        let handle = try_arc(node.open_as(FLAGS)?)?;
        node.note_opened(&handle, false);
        Ok(try_arc(OpenDirectory { handle, node })?)
    }
}

impl FileOps for OpenDirectory {
    /// Positions are the server's own.
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        if file.dentry().is_removed() {
            return Err(Errno::ENOENT);
        }
        let mut position = position;
        loop {
            let data = self.node.session().read_directory(&self.handle, position)?;
            if data.is_empty() {
                return Ok(());
            }
            let before = position;
            for entry in Entries::new(&data) {
                let entry = entry.map_err(|_| Errno::EIO)?;
                let record = Record {
                    inode: entry.qid.path,
                    kind: Kind::of_mode(u32::from(entry.kind) << 12).unwrap_or(Kind::Anonymous),
                    name: entry.name,
                    next: entry.next,
                };
                if !emit(record) {
                    return Ok(());
                }
                position = entry.next;
            }
            // It would never end.
            if position == before {
                return Err(Errno::EIO);
            }
        }
    }

    fn seek(&self, _file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        seek_in(self.node.attributes().size, position, offset, whence)
    }

    fn sync(&self, _file: &File, _range: Range<u64>) -> Result<()> {
        let request = Request::Sync {
            fid: self.handle.fid.number(),
            only_data: false,
        };
        self.node.session().ask(&request, ninep::empty)
    }
}
