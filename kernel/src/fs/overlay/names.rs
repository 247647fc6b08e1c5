//! Names: making and removing them. The lock `changing` of the directory is held.

use super::super::dentry::Dentry;
use super::super::inode::{Inode, Kind, New, Replace, SetAttr, WHITEOUT};
use super::super::perm;
use super::super::tmpfs::inherit;
use super::copy_up::copy_up;
use super::layers::names_in;
use super::listing::Listing;
use super::marks::Mark;
use super::node::{Node, Stack, key_of, node_of};
use super::{Overlay, UPPER};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_vec;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::*;

/// An operation on a layer failed since that was changed by another way: a caller that is told
/// ESTALE would try again for ever.
pub fn settled<T>(done: Result<T>) -> Result<T> {
    done.map_err(|error| match error {
        Errno::ESTALE => Errno::EIO,
        error => error,
    })
}

impl Node {
    /// This directory's file in the upper layer, in which names are about to change.
    pub fn to_change(&self, here: &Arc<Dentry>) -> Result<Arc<Dentry>> {
        self.fs.upper()?;
        copy_up(here)?;
        let upper = self.upper().ok_or(Errno::EIO)?;
        self.fs.mounter_may(&upper, perm::WRITE | perm::EXECUTE)?;
        Ok(upper)
    }

    /// Whether lower layers have something of this name.
    pub fn is_below(&self, name: &[u8]) -> bool {
        for lower in self.real().1.iter() {
            match lower.dentry.inode().lookup(&lower.dentry, name) {
                Err(Errno::ENOENT | Errno::ENAMETOOLONG) => {}
                found => return found.map_or(true, |found| !self.fs.is_whiteout(&found)),
            }
        }
        false
    }

    /// ESTALE unless a name of this directory is `dentry` still.
    pub fn check_same(&self, name: &[u8], dentry: &Arc<Dentry>) -> Result<()> {
        let known = self.names()?.lock().known(name);
        match known.is_some_and(|known| Arc::ptr_eq(&known, dentry)) {
            true => Ok(()),
            false => Err(Errno::ESTALE),
        }
    }

    /// ESTALE where something has a name of this directory by now.
    pub fn check_absent(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<()> {
        match self.look_up_alone(here, name) {
            Ok(_) => Err(Errno::ESTALE),
            Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The whiteout that the upper layer has under a name that is free.
    pub fn whiteout_at(&self, upper: &Arc<Dentry>, name: &[u8]) -> Result<Option<Arc<Dentry>>> {
        match upper.inode().lookup(upper, name) {
            Err(Errno::ENOENT) => Ok(None),
            Ok(found) if self.fs.is_whiteout(&found) => Ok(Some(found)),
            Ok(_) => Err(Errno::EIO),
            Err(error) => Err(error),
        }
    }

    /// The name of this file in a directory of the upper layer; none where it is a lower file.
    ///
    /// # Errors
    /// EIO: another file has the name there.
    pub fn upper_at(&self, directory: &Arc<Dentry>, name: &[u8]) -> Result<Option<Arc<Dentry>>> {
        let Some(own) = self.upper() else {
            return Ok(None);
        };
        match directory.inode().lookup(directory, name) {
            Ok(found) if Arc::ptr_eq(found.inode(), own.inode()) => Ok(Some(found)),
            Ok(_) | Err(Errno::ENOENT) => Err(Errno::EIO),
            Err(error) => Err(error),
        }
    }

    /// Makes an inode under a name.
    pub fn make(&self, here: &Arc<Dentry>, name: &[u8], new: New) -> Result<Arc<Dentry>> {
        let mode = match new {
            New::Node(mode, 0) if mode & S_IFMT == S_IFCHR => return Err(Errno::EPERM),
            New::Node(mode, _) => mode,
            New::Symlink(_) => S_IFLNK,
        };
        let kind = Kind::of_mode(mode).ok_or(Errno::EINVAL)?;
        let upper = self.to_change(here)?;
        let _alone = self.changing()?.lock_killable()?;
        self.check_free(here, name)?;
        let node = Node::new(self.fs.clone(), kind, Stack::empty()?)?;
        let dentry = Dentry::named(node.clone(), Some(here.clone()), name)?;
        let key = try_vec(name)?;
        let made = match self.whiteout_at(&upper, name)? {
            None => settled(upper.inode().create(&upper, name, new))?,
            Some(whiteout) => self.make_over(&upper, &whiteout, new, mode)?,
        };
        node.set_upper(made.clone(), false);
        let registered = self.fs.insert(key_of(made.inode()), &node);
        if registered.is_ok_and(|known| !Arc::ptr_eq(&known, &node)) {
            // Somebody found it already.
            return self.look_up_alone(here, name);
        }
        let mut names = self.names()?.lock();
        if let Some(known) = names.known(name) {
            return Ok(known);
        }
        if names.reserve().is_ok() {
            names.put(key, &dentry);
        }
        Ok(dentry)
    }

    /// EEXIST where a name is taken, ENOENT where this directory was removed.
    fn check_free(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<()> {
        if here.is_removed() {
            return Err(Errno::ENOENT);
        }
        match self.look_up_alone(here, name) {
            Ok(_) => Err(Errno::EEXIST),
            Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes an inode in place of a whiteout.
    fn make_over(
        &self,
        upper: &Arc<Dentry>,
        whiteout: &Arc<Dentry>,
        new: New,
        mode: u32,
    ) -> Result<Arc<Dentry>> {
        let attr = upper.inode().attr();
        let (mode, (uid, gid)) = inherit(attr.mode, attr.gid, mode);
        let made = self.fs.make_temporary(new)?;
        let is_directory = made.kind() == Kind::Directory;
        let ready = made.inode().set_attr(&SetAttr {
            permissions: (made.kind() != Kind::Symlink).then_some(mode & 0o7777),
            uid: Some(uid),
            gid: Some(gid),
            ..SetAttr::default()
        });
        let placed = ready
            .and_then(|()| match is_directory {
                true => self.fs.set_opaque(&made, Errno::EIO),
                false => Ok(()),
            })
            .and_then(|()| self.fs.put_over(&made, upper, whiteout));
        match placed {
            Err(error) => {
                self.fs.dispose(&made);
                Err(error)
            }
            Ok(()) => Ok(made),
        }
    }

    /// Gives an inode one more name.
    pub fn link_to(&self, here: &Arc<Dentry>, name: &[u8], to: &Arc<dyn Inode>) -> Result<()> {
        let inode: Arc<dyn core::any::Any + Send + Sync> = to.clone();
        let node: Arc<Node> = inode.downcast().map_err(|_| Errno::EXDEV)?;
        if !Arc::ptr_eq(&node.fs, &self.fs) {
            return Err(Errno::EXDEV);
        }
        let source = node.copy_up()?;
        let upper = self.to_change(here)?;
        let _alone = self.changing()?.lock_killable()?;
        self.check_free(here, name)?;
        if node.has_origin() {
            self.fs.set_impure(&upper)?;
        }
        let Some(whiteout) = self.whiteout_at(&upper, name)? else {
            return settled(upper.inode().add_link(&upper, name, source.inode()));
        };
        let (_, work) = self.fs.upper()?;
        let link = self.fs.temporary_name()?;
        work.inode()
            .add_link(work, link.as_bytes(), source.inode())?;
        let link = work.inode().lookup(work, link.as_bytes())?;
        self.fs
            .put_over(&link, &upper, &whiteout)
            .inspect_err(|_| self.fs.dispose(&link))
    }

    /// Removes a name: of an empty directory, or of anything else.
    pub fn remove_name(&self, here: &Arc<Dentry>, victim: &Arc<Dentry>) -> Result<()> {
        let node = node_of(victim)?;
        let upper = self.to_change(here)?;
        let _alone = self.changing()?.lock_killable()?;
        let name = victim.name();
        self.check_same(&name, victim)?;
        if victim.is_covered() {
            return Err(Errno::EBUSY);
        }
        let within = node.changing().ok().map(|lock| lock.lock_killable());
        let _within = within.transpose()?;
        let below = self.is_below(&name);
        if node.file_kind() == Kind::Directory {
            node.empty(below)?;
        }
        let copying = node.copying.lock_killable()?;
        let own = node.upper_at(&upper, &name)?;
        match (below, &own) {
            (false, Some(own)) => settled(upper.inode().remove(&upper, own))?,
            (false, None) => {}
            (true, _) => self.fs.white_out(&upper, &name, own.as_ref())?,
        }
        // What is mounted there by now has lost its place, too.
        _ = victim.remove();
        self.names()?.lock().change(&name);
        drop(copying);
        self.fs.let_go(&node, victim);
        Ok(())
    }

    /// Whether names of a directory of the upper layer may be whiteouts: there are, or were, others
    /// below.
    pub fn may_have_whiteouts(&self, upper: &Dentry) -> Result<bool> {
        Ok(self.has_lowers() || self.fs.mark(upper, Mark::Origin)?.is_some())
    }

    /// Makes a directory without names empty in the upper layer, too: it has whiteouts there. If a
    /// whiteout is to take its place (`below`), the upper layer does not check that it is empty.
    ///
    /// # Errors
    /// ENOTEMPTY: it has names.
    pub fn empty(&self, below: bool) -> Result<()> {
        let own = self.upper();
        if let Some(upper) = &own
            && !below
            && !self.may_have_whiteouts(upper)?
        {
            // The upper layer checks whether it is empty.
            return Ok(());
        }
        if Listing::read(self)?.has_names() {
            return Err(Errno::ENOTEMPTY);
        }
        let Some(upper) = own else {
            return Ok(());
        };
        let whiteouts = names_in(&self.fs.path(UPPER, upper.clone()))?;
        if whiteouts.is_empty() {
            return Ok(());
        }
        // First, so that nothing below comes to light.
        self.fs.set_opaque(&upper, Errno::EIO)?;
        self.hide_lowers()?;
        // A look-up that still knows the lower directories must not miss a whiteout.
        self.names()?.lock().begin_move();
        let removed = remove_all(&upper, &whiteouts);
        self.names()?.lock().end_move();
        removed
    }
}

fn remove_all(directory: &Arc<Dentry>, names: &[Vec<u8>]) -> Result<()> {
    for name in names {
        let found = directory.inode().lookup(directory, name)?;
        settled(directory.inode().remove(directory, &found))?;
        cond_resched_killable()?;
    }
    Ok(())
}

impl Overlay {
    /// Lets a directory of the upper layer hide those below.
    pub(super) fn set_opaque(&self, directory: &Dentry, without: Errno) -> Result<()> {
        self.set_mark(directory, Mark::Opaque, b"y", without)
    }

    /// Puts a file that has no place where a whiteout is in a directory of the upper layer.
    fn put_over(
        &self,
        made: &Arc<Dentry>,
        upper: &Arc<Dentry>,
        whiteout: &Arc<Dentry>,
    ) -> Result<()> {
        let (_, work) = self.upper()?;
        let is_directory = made.kind() == Kind::Directory;
        let replace = match is_directory {
            true => Replace::Exchange,
            false => Replace::Yes,
        };
        let (from, to) = ((work, made), (upper, &*whiteout.name()));
        settled(work.inode().rename(from, to, Some(whiteout), replace))?;
        if is_directory {
            self.dispose(whiteout);
        }
        Ok(())
    }

    /// A whiteout that has no place: a link, so that all take one inode.
    fn new_whiteout(&self) -> Result<Arc<Dentry>> {
        let (_, work) = self.upper()?;
        let mut shared = self.whiteout.lock_killable()?;
        let first = match shared.take() {
            Some(first) => first,
            None => self.make_temporary(WHITEOUT)?,
        };
        let name = self.temporary_name()?;
        let linked = work.inode().add_link(work, name.as_bytes(), first.inode());
        let link = linked.and_then(|()| work.inode().lookup(work, name.as_bytes()));
        match link {
            Ok(link) => {
                *shared = Some(first);
                Ok(link)
            }
            // It has as many names as it may have.
            Err(_) => Ok(first),
        }
    }

    /// Puts a whiteout under a name of a directory of the upper layer, in place of `own`.
    fn white_out(&self, upper: &Arc<Dentry>, name: &[u8], own: Option<&Arc<Dentry>>) -> Result<()> {
        let (_, work) = self.upper()?;
        let whiteout = self.new_whiteout()?;
        let is_directory = own.is_some_and(|own| own.kind() == Kind::Directory);
        let replace = match is_directory {
            true => Replace::Exchange,
            false => Replace::Yes,
        };
        let placed = work
            .inode()
            .rename((work, &whiteout), (upper, name), own, replace);
        match placed {
            Err(_) => self.dispose(&whiteout),
            Ok(()) if is_directory => own.into_iter().for_each(|own| self.dispose(own)),
            Ok(()) => {}
        }
        settled(placed)
    }
}
