//! Open regular files. What is done to them is done to the file of the layer that has them, with
//! the flags and the path of the open file: of these are the times of access, and the name of a
//! mapping.

use super::super::dentry::Dentry;
use super::super::file::{File, FileOps, Memory, OpenFlags, Whence};
use super::super::io::{Sink, Source};
use super::super::path::Path;
use super::super::perm;
use super::UPPER;
use super::copy_up::copy_up;
use super::layers::open;
use super::node::Node;
use crate::errno::Result;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::ops::Range;
use linux_raw_sys::general::*;

/// An open file.
pub struct Open {
    node: Arc<Node>,
    real: Real,
    /// The upper file, of one that was opened before it was copied up.
    later: Mutex<Option<Arc<dyn FileOps>>>,
}

/// The file of a layer.
enum Real {
    /// One of the upper layer, and where it is written.
    Upper(Arc<dyn FileOps>, Option<Path>),
    /// One of a lower layer, which nobody's access changes.
    Lower(Arc<File>),
}

impl Open {
    /// Opens it, and copies it up first if it is to be written: with its data even for O_TRUNC, as
    /// the open may still fail (ETXTBSY, a lease).
    pub fn open(node: Arc<Node>, here: &Arc<Dentry>, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        if flags.writable() || flags.has(O_TRUNC) {
            node.fs.upper()?;
            copy_up(here)?;
        }
        let top = node.top()?;
        let mut wanted = if flags.readable() { perm::READ } else { 0 };
        if flags.writable() {
            wanted |= perm::WRITE;
        }
        node.fs.mounter_may(&top, wanted)?;
        let real = match node.upper() {
            Some(_) => Real::upper(&top, flags)?,
            None => Real::Lower(open(&top, O_RDONLY)?),
        };
        let later = Mutex::new(None);
        // From here on a failure ends the write.
        Ok(try_arc(Open { node, real, later })?)
    }

    /// The upper file of one that was copied up since it was opened.
    fn copied(&self) -> Result<Option<Arc<dyn FileOps>>> {
        let Some(upper) = self.node.upper() else {
            return Ok(None);
        };
        let known = self.later.lock().clone();
        if known.is_some() {
            return Ok(known);
        }
        let path = self.node.fs.path(UPPER, upper);
        let flags = OpenFlags(O_RDONLY | O_LARGEFILE);
        let ops = path.inode().clone().open(&path, flags)?;
        Ok(Some(self.later.lock().get_or_insert(ops).clone()))
    }

    /// Calls `act` with the operations of the file as it is now, and the open file for them.
    fn with<T>(
        &self,
        file: &File,
        act: impl FnOnce(&dyn FileOps, &File) -> Result<T>,
    ) -> Result<T> {
        match &self.real {
            Real::Upper(ops, _) => act(&**ops, file),
            Real::Lower(lower) => match self.copied()? {
                Some(ops) => act(&*ops, file),
                None => act(&**lower.ops(), lower),
            },
        }
    }

    /// The operations of the file as it was opened.
    fn opened(&self) -> &dyn FileOps {
        match &self.real {
            Real::Upper(ops, _) => &**ops,
            Real::Lower(lower) => &**lower.ops(),
        }
    }
}

impl Real {
    fn upper(path: &Path, flags: OpenFlags) -> Result<Self> {
        let ops = path.inode().clone().open(path, flags)?;
        let mount = path.mount().filter(|_| flags.writable());
        if let Some(mount) = mount {
            mount.begin_write()?;
        }
        Ok(Real::Upper(ops, mount.map(|_| path.clone())))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if let Real::Upper(_, Some(path)) = self
            && let Some(mount) = path.mount()
        {
            mount.end_write();
        }
    }
}

impl FileOps for Open {
    fn held(&self) -> usize {
        self.opened().held()
    }

    fn read(&self, file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        self.with(file, |ops, file| ops.read(file, to, position))
    }

    fn write(&self, file: &File, from: &mut Source, position: u64) -> Result<usize> {
        self.with(file, |ops, file| ops.write(file, from, position))
    }

    fn append(&self, file: &File, from: &mut Source) -> Result<(usize, u64)> {
        self.with(file, |ops, file| ops.append(file, from))
    }

    fn seek(&self, file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        self.with(file, |ops, file| ops.seek(file, position, offset, whence))
    }

    fn allocate(&self, file: &File, mode: u32, offset: u64, len: u64) -> Result<()> {
        self.with(file, |ops, file| ops.allocate(file, mode, offset, len))
    }

    fn sync(&self, file: &File, range: Range<u64>) -> Result<()> {
        match self.node.upper().is_some() && self.node.fs.syncs() {
            true => self.with(file, |ops, file| ops.sync(file, range)),
            false => Ok(()),
        }
    }

    fn write_range(&self, file: &File, range: Range<u64>) -> Result<()> {
        self.with(file, |ops, file| ops.write_range(file, range))
    }

    fn read_ahead(&self, file: &File, range: Range<u64>) -> Result<()> {
        self.with(file, |ops, file| ops.read_ahead(file, range))
    }

    fn forget(&self, file: &File, range: Range<u64>) {
        _ = self.with(file, |ops, file| {
            ops.forget(file, range);
            Ok(())
        });
    }

    fn has_direct(&self, _path: &Path) -> bool {
        self.node
            .top()
            .is_ok_and(|real| self.opened().has_direct(&real))
    }

    fn mapped(&self, file: &File) {
        match &self.real {
            Real::Upper(ops, _) => ops.mapped(file),
            Real::Lower(lower) => lower.ops().mapped(lower),
        }
    }

    /// A mapping stays with the file as it was opened.
    fn memory(&self) -> Memory<'_> {
        self.opened().memory()
    }
}
