//! Names: looking them up, adding, removing and moving them. Each operation is atomic, under the
//! lock of the file system. Once it has been applied, it can fail only in its commit: a call that
//! runs out of memory starts again.

use super::super::alias::second_name;
use super::super::dentry::Dentry;
use super::super::inode::{Inode, Kind, New, Replace, WHITEOUT};
use super::super::names::{check_loop, check_same, check_victim, in_use};
use super::super::recent::Recent;
use super::node::Node;
use super::{Locked, errno};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_vec;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use ext4::{Error, Rename};

impl Node {
    /// The dentry of a name that is in use.
    fn known(&self, name: &[u8]) -> Result<Option<Arc<Dentry>>> {
        Ok(in_use(self.names()?, name))
    }

    /// Reserves room for another name, until the lock of the file system is released.
    fn room(&self, name: &[u8]) -> Result<Vec<u8>> {
        let key = try_vec(name)?;
        self.names()?.lock().reserve()?;
        Ok(key)
    }

    /// Stores the dentry of a name for which [`Node::room`] reserved room.
    fn put(&self, key: Vec<u8>, dentry: &Arc<Dentry>) {
        if let Ok(names) = self.names() {
            names.lock().put(key, dentry);
        }
    }

    /// The dentry of a node under a name of this directory.
    fn dentry(&self, here: &Arc<Dentry>, name: &[u8], node: Arc<Node>) -> Result<Arc<Dentry>> {
        let key = self.room(name)?;
        let dentry = Dentry::named(node.clone(), Some(here.clone()), name)?;
        if let Some(other) = node.alias.claim(&dentry) {
            return Err(second_name("ext4", here, &other));
        }
        self.put(key, &dentry);
        Ok(dentry)
    }

    /// Finds a name.
    pub fn find(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        if let Some(known) = self.known(name)? {
            return Ok(known);
        }
        let mut fs = self.fs().lock()?;
        // Another thread may have looked it up meanwhile.
        if let Some(known) = self.known(name)? {
            return Ok(known);
        }
        let directory = fs.inode(self.number());
        let directory = fs.told(directory).map_err(errno)?;
        let inode = fs.lookup_inode(&directory, name);
        let inode = fs.told(inode).map_err(errno)?;
        let node = self.fs().node(inode)?;
        node.refresh(&mut fs)?;
        self.dentry(here, name, node)
    }

    /// Creates an inode with a name.
    pub fn make(&self, here: &Arc<Dentry>, name: &[u8], new: &New) -> Result<Arc<Dentry>> {
        let new = self.describe(new);
        let mut fs = self.fs().lock()?;
        if here.is_removed() {
            return Err(Errno::ENOENT);
        }
        let inode = fs.create(self.number(), name, new).map_err(errno)?;
        let number = inode.number;
        self.fs().check_new(&mut fs, number)?;
        let made = self.made(&mut fs, inode);
        let made = made.and_then(|node| self.dentry(here, name, node));
        let dentry = made.inspect_err(|_| self.unmake(&mut fs, name, number))?;
        _ = self.refresh(&mut fs);
        drop(fs);
        self.settle()?;
        Ok(dentry)
    }

    /// The node of a new inode.
    fn made(&self, fs: &mut Locked, inode: ext4::Inode) -> Result<Arc<Node>> {
        let node = self.fs().node(inode)?;
        node.capable.store(false, Relaxed);
        _ = node.refresh(fs);
        Ok(node)
    }

    /// Removes a new inode and its name again.
    fn unmake(&self, fs: &mut Locked, name: &[u8], number: u32) {
        self.fs().forget(number);
        let taken = match fs.unlink(self.number(), name) {
            Err(Error::IsDirectory) => fs.rmdir(self.number(), name),
            taken => taken,
        };
        if taken.is_ok() {
            self.fs().free(fs, number);
        }
    }

    /// Creates a file without a name.
    pub fn make_unnamed(
        &self,
        here: &Arc<Dentry>,
        mode: u32,
        linkable: bool,
    ) -> Result<Arc<Dentry>> {
        self.names()?;
        let new = self.describe(&New::Node(mode, 0));
        let mut fs = self.fs().lock()?;
        let inode = fs.create_unnamed(self.number(), new).map_err(errno)?;
        let number = inode.number;
        self.fs().check_new(&mut fs, number)?;
        let name = crate::mm::heap::try_format(format_args!("#{number}"));
        let made = name.and_then(|name| Ok((name, self.fs().node(inode)?)));
        // From here on, dropping the node frees the inode.
        let (name, node) = made.inspect_err(|_| _ = self.fs().free(&mut fs, number))?;
        node.linkable.store(linkable, Relaxed);
        node.capable.store(false, Relaxed);
        let dentry = Dentry::named(node, Some(here.clone()), name.as_bytes())?;
        dentry.remove()?;
        Ok(dentry)
    }

    /// Adds a name for an inode.
    pub fn link_to(&self, here: &Arc<Dentry>, name: &[u8], to: &Arc<dyn Inode>) -> Result<()> {
        let node = self.sibling(to)?;
        if node.file_kind() == Kind::Directory {
            return Err(Errno::EPERM);
        }
        let mut fs = self.fs().lock()?;
        let unnamed = node.with_inode(|inode| inode.links() == 0);
        if unnamed && !node.linkable.load(Relaxed) || here.is_removed() {
            return Err(Errno::ENOENT);
        }
        let inode = fs.link(node.number(), self.number(), name);
        node.take_over(&fs, inode.map_err(errno)?);
        // A file without a name can be linked once: not again after that name is removed.
        node.linkable.store(false, Relaxed);
        Recent::remember(&self.fs().recent, &node);
        if node.is_dirty() {
            // Without memory, this is repeated when the file is closed.
            _ = self.fs().keep(&node);
        }
        _ = self.refresh(&mut fs);
        drop(fs);
        self.settle()
    }

    /// Removes a name.
    pub fn remove_name(&self, victim: &Arc<Dentry>) -> Result<()> {
        let node = self.sibling(victim.inode())?;
        let name = victim.name();
        let mut fs = self.fs().lock()?;
        check_victim(self.names()?, &name, victim)?;
        let inode = match node.file_kind() {
            Kind::Directory => fs.rmdir(self.number(), &name),
            _ => fs.unlink(self.number(), &name),
        };
        node.take_over(&fs, inode.map_err(errno)?);
        self.forget_name(&name, victim);
        self.fs().release_unnamed(&node);
        _ = self.refresh(&mut fs);
        drop(fs);
        self.settle()
    }

    /// Forgets a removed name.
    fn forget_name(&self, name: &[u8], dentry: &Dentry) {
        // A mount on it has lost its place, too.
        _ = dentry.remove();
        if let Ok(names) = self.names() {
            names.lock().remove(name);
        }
    }

    /// Moves `source` from this directory to `name` in `there`, where `occupant` has that name now.
    pub fn rename_name(
        &self,
        (here, source): (&Arc<Dentry>, &Arc<Dentry>),
        (there, name): (&Arc<Dentry>, &[u8]),
        occupant: Option<&Arc<Dentry>>,
        replace: Replace,
    ) -> Result<()> {
        let target = self.sibling(there.inode())?;
        let how = match (occupant, replace) {
            (None, Replace::Exchange) => return Err(Errno::ENOENT),
            (Some(_), Replace::No) => return Err(Errno::EEXIST),
            (_, Replace::Exchange) => Rename::Exchange,
            // A file that got the name since it was looked for was not checked: it may be another
            // user's in a sticky directory.
            (None, _) => Rename::NoReplace,
            _ => Rename::Replace,
        };
        if let (Some(_), Ok(data)) = (occupant, self.sibling(source.inode())?.data()) {
            // A program that replaces a file in this way has the old content or the new one after a
            // power cut.
            _ = data.write_back(0..usize::MAX);
        }
        let whiteout = (replace == Replace::Whiteout).then(|| self.describe(&WHITEOUT));
        let mut fs = self.fs().lock()?;
        let old = source.name();
        check_same(self.names()?, &old, source)?;
        // The dentries form no loop, whatever is on the disk.
        check_loop((here, source), there, occupant, replace)?;
        if let Some(occupant) = occupant {
            match how {
                Rename::Exchange => check_same(target.names()?, name, occupant)?,
                _ => check_victim(target.names()?, name, occupant)?,
            }
            if Arc::ptr_eq(occupant.inode(), source.inode()) {
                return Ok(());
            }
        }
        // Reserved first, since there must be no error afterwards. The names of an exchange have
        // room.
        let (old_key, new_key) = (self.room(&old)?, target.room(name)?);
        let new = crate::mm::heap::try_bytes(name)?;
        let (from, to) = (self.number(), target.number());
        let lost = fs.rename_and_cover(from, &old, to, name, how, whiteout);
        let lost = lost.map_err(|error| match errno(error) {
            Errno::EEXIST if replace != Replace::No => Errno::ESTALE,
            error => error,
        })?;
        match (occupant, how) {
            (Some(other), Rename::Exchange) => {
                other.moved(here, old.clone());
                self.put(old_key, other);
            }
            (occupant, _) => {
                if let Some(occupant) = occupant {
                    target.forget_name(name, occupant);
                }
                self.names()?.lock().remove(&old);
            }
        }
        source.moved(there, new);
        target.put(new_key, source);
        for dentry in [Some(here), Some(there), Some(source), occupant] {
            if let Some(dentry) = dentry
                && let Ok(node) = self.sibling(dentry.inode())
            {
                _ = node.refresh(&mut fs);
            }
        }
        if let Some(occupant) = occupant {
            let node = self.sibling(occupant.inode())?;
            if let Some(lost) = lost {
                node.take_over(&fs, lost);
            }
            self.fs().release_unnamed(&node);
        }
        drop(fs);
        self.settle()
    }
}
