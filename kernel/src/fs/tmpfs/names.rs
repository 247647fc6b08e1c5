//! Names in the directories of a tmpfs: adding, removing and moving them.
//!
//! The locks are Linux's (Documentation/filesystems/directory-locking.rst): a rename from one
//! directory to another first takes the file system's `rename`, so that no directory's ancestors
//! change meanwhile. Then it locks the directories, ancestors before descendants, and checks that
//! the names still belong to the dentries that the caller found; otherwise it fails with ESTALE,
//! and the caller looks them up again.

use super::super::dentry::Dentry;
use super::super::inode::{Kind, Replace, WHITEOUT};
use super::super::names::check_loop;
use super::directory::Directory;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_bytes;
use crate::sync::{Mutex, MutexGuard};
use crate::task::sched::cond_resched;
use alloc::sync::Arc;

/// Both directories of a rename, locked; `into` is None if they are the same.
struct Locked<'a> {
    from: MutexGuard<'a, Directory>,
    into: Option<MutexGuard<'a, Directory>>,
}

impl<'a> Locked<'a> {
    /// Locks both; `into` first if it is `above` the other.
    fn new(from: &'a Mutex<Directory>, into: &'a Mutex<Directory>, above: bool) -> Self {
        if core::ptr::eq(from, into) {
            let (from, into) = (from.lock(), None);
            return Locked { from, into };
        }
        if above {
            let into = Some(into.lock());
            let from = from.lock();
            return Locked { from, into };
        }
        let from = from.lock();
        let into = Some(into.lock());
        Locked { from, into }
    }

    fn target(&mut self) -> &mut Directory {
        self.into.as_mut().unwrap_or(&mut self.from)
    }
}

/// ESTALE unless `directory` has `dentry` under `name`, or no such name if `dentry` is None.
fn check_same(directory: &Directory, name: &[u8], dentry: Option<&Arc<Dentry>>) -> Result<()> {
    let same = match (directory.get(name), dentry) {
        (Some(found), Some(dentry)) => Arc::ptr_eq(found, dentry),
        (found, dentry) => found.is_none() && dentry.is_none(),
    };
    if same { Ok(()) } else { Err(Errno::ESTALE) }
}

/// The number of links that a directory gets from the entry `dentry`.
fn links_of(dentry: &Dentry) -> i32 {
    i32::from(dentry.kind() == Kind::Directory)
}

impl Node {
    /// Adds `node` to this directory and returns its dentry.
    pub fn add(&self, here: &Arc<Dentry>, name: &[u8], node: Arc<Node>) -> Result<Arc<Dentry>> {
        let name = try_bytes(name)?;
        let dentry = Dentry::new(node, Some(here.clone()), name.clone())?;
        let mut directory = self.directory()?.lock();
        if here.is_removed() {
            return Err(Errno::ENOENT);
        }
        if directory.get(&name).is_some() {
            return Err(Errno::EEXIST);
        }
        directory.reserve()?;
        directory.insert(name, dentry.clone());
        drop(directory);
        self.touched(links_of(&dentry));
        Ok(dentry)
    }

    /// Removes `victim` from this directory.
    pub(super) fn remove_name(&self, victim: &Arc<Dentry>) -> Result<()> {
        let node = self.sibling(victim.inode())?;
        let name = victim.name();
        let mut directory = self.directory()?.lock();
        check_same(&directory, &name, Some(victim))?;
        node.retire(victim)?;
        directory.remove(&name);
        drop(directory);
        self.touched(-links_of(victim));
        Ok(())
    }

    /// Marks the name `dentry` of this inode as removed. A directory must be empty.
    fn retire(&self, dentry: &Dentry) -> Result<()> {
        if dentry.is_covered() {
            return Err(Errno::EBUSY);
        }
        // Held until the dentry is marked, so that nothing is added meanwhile.
        let content = self.directory().ok().map(Mutex::lock);
        if content.as_ref().is_some_and(|content| content.len() > 0) {
            return Err(Errno::ENOTEMPTY);
        }
        dentry.remove()?;
        if self.linked(-1 - links_of(dentry)) > 0 {
            self.fs().inodes.give(super::INODE);
        }
        Ok(())
    }

    /// The device that replaces the name of `source` in this directory (RENAME_WHITEOUT).
    fn whiteout(&self, here: &Arc<Dentry>, source: &Dentry) -> Result<Arc<Dentry>> {
        let node = self.make(WHITEOUT)?;
        Dentry::new(node, Some(here.clone()), source.name())
    }

    /// Moves `source` from this directory `here` to `name` in `there`, where `occupant` is now.
    pub(super) fn rename_name(
        &self,
        (here, source): (&Arc<Dentry>, &Arc<Dentry>),
        (there, name): (&Arc<Dentry>, &[u8]),
        occupant: Option<&Arc<Dentry>>,
        replace: Replace,
    ) -> Result<()> {
        let target = self.sibling(there.inode())?;
        let apart = !core::ptr::eq(self, &*target);
        match (occupant, replace) {
            (None, Replace::Exchange) => return Err(Errno::ENOENT),
            (Some(_), Replace::No) => return Err(Errno::EEXIST),
            _ => {}
        }
        let whiteout = match replace {
            Replace::Whiteout => Some(self.whiteout(here, source)?),
            _ => None,
        };
        let _topology = apart.then(|| self.fs().rename.lock());
        check_loop((here, source), there, occupant, replace)?;
        let (old_name, new_name) = (source.name(), try_bytes(name)?);
        let above = apart && here.is_within(there);
        let mut both = Locked::new(self.directory()?, target.directory()?, above);
        if there.is_removed() {
            return Err(Errno::ENOENT);
        }
        check_same(&both.from, &old_name, Some(source))?;
        check_same(both.target(), &new_name, occupant)?;
        let gained = match (occupant, replace) {
            (Some(old), _) if Arc::ptr_eq(old.inode(), source.inode()) => return Ok(()),
            (Some(other), Replace::Exchange) => {
                both.from.replace(&old_name, other.clone());
                both.target().replace(&new_name, source.clone());
                other.moved(here, old_name);
                links_of(source) - links_of(other)
            }
            _ => {
                both.target().reserve()?;
                let freed = match occupant {
                    Some(old) => target.replace_existing(old, source, both.target())?,
                    None => 0,
                };
                match whiteout {
                    Some(whiteout) => both.from.replace(&old_name, whiteout),
                    None => both.from.remove(&old_name),
                };
                both.target().insert(new_name.clone(), source.clone());
                links_of(source) - freed
            }
        };
        source.moved(there, new_name);
        drop(both);
        self.touched(match replace {
            Replace::Exchange => -gained,
            _ => -links_of(source),
        });
        target.touched(gained);
        let exchanged = occupant.filter(|_| replace == Replace::Exchange);
        for moved in [Some(source), exchanged].into_iter().flatten() {
            self.sibling(moved.inode())?.linked(0);
        }
        Ok(())
    }

    /// Removes `old` from this directory, whose `content` is locked, to make way for `source`.
    /// Returns the number of links that the directory had through it.
    fn replace_existing(
        &self,
        old: &Dentry,
        source: &Dentry,
        content: &mut Directory,
    ) -> Result<i32> {
        match (links_of(source), links_of(old)) {
            (1, 0) => return Err(Errno::ENOTDIR),
            (0, 1) => return Err(Errno::EISDIR),
            _ => {}
        }
        self.sibling(old.inode())?.retire(old)?;
        content.remove(&old.name());
        Ok(links_of(old))
    }

    /// Takes the tree below this directory apart, since its dentries and directories hold
    /// references to one another. It goes depth-first through the dentries' own directories,
    /// because a program decides the depth and the size of the tree. Other threads run meanwhile.
    pub fn tear_down(&self, here: &Arc<Dentry>) {
        let mut at = here.clone();
        loop {
            let last = super::node_of(&at).and_then(|node| {
                let (names, last) = node.directory().ok()?.lock().pop();
                for name in names {
                    drop(name);
                    cond_resched();
                }
                last
            });
            cond_resched();
            match last {
                Some(below) if below.kind() == Kind::Directory => at = below,
                Some(_) => {}
                None if Arc::ptr_eq(&at, here) => return,
                None => match at.parent() {
                    Some(above) => at = above,
                    None => return,
                },
            }
        }
    }
}
