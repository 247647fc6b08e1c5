//! Names: looking them up on the server, adding, removing and moving them. A name that somebody has
//! keeps its dentry as long as the server finds the same file by it.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::inode::{Inode, Kind, New, Replace};
use super::super::names::{check_loop, check_same, check_victim, in_use};
use super::super::tmpfs;
use super::fid::Fid;
use super::node::Node;
use super::session::{Handle, Told};
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_bytes, try_vec};
use alloc::sync::Arc;
use linux_raw_sys::general::S_IFMT;
use ninep::{Ids, Qid, Request};

/// The flags by which a new file is opened (P9_DOTL_RDWR, P9_DOTL_CREATE, P9_DOTL_EXCL).
const MAKES: u32 = 0o2 | 0o100 | 0o200;
/// How often a look-up is repeated where another file gets the name meanwhile.
const ATTEMPTS: usize = 3;

impl Node {
    /// The dentry of a name that somebody has.
    fn known(&self, name: &[u8]) -> Result<Option<Arc<Dentry>>> {
        Ok(in_use(self.names()?, name))
    }

    /// Forgets a name, if `dentry` has it.
    fn forget(&self, name: &[u8], dentry: &Arc<Dentry>) {
        let Ok(names) = self.names() else { return };
        let mut names = names.lock();
        let known = names.known(name);
        if known
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, dentry))
        {
            names.remove(name);
        }
        // A dentry does not end under a lock.
        drop(names);
        drop(known);
    }

    /// The file with a name, and its attributes.
    fn ask_for(&self, name: &[u8]) -> Result<(Arc<Fid>, Told)> {
        for _ in 0..ATTEMPTS {
            let (fid, qid) = self.session().walk(&self.fid(), name)?;
            let told = self.session().stat(&fid, true)?;
            if told.stat.qid.is_same(&qid) {
                return Ok((fid, told));
            }
        }
        Err(Errno::ESTALE)
    }

    /// Finds a name. What is mounted on stays.
    pub fn find(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        {
            let _names = self.fs.names.read_killable()?;
            if let Some(found) = self.find_beside(here, name, false)? {
                return Ok(found);
            }
        }
        let _alone = self.fs.names.write_killable()?;
        self.find_beside(here, name, true)?.ok_or(Errno::ESTALE)
    }

    /// The same with [`V9fs::names`](super::V9fs::names). None: a directory has to be moved, for
    /// which that must be held alone.
    fn find_beside(
        &self,
        here: &Arc<Dentry>,
        name: &[u8],
        alone: bool,
    ) -> Result<Option<Arc<Dentry>>> {
        // The server may have another directory of this name by now.
        if here.is_removed() {
            return Err(Errno::ENOENT);
        }
        let known = self.known(name)?;
        if let Some(known) = known.as_ref().filter(|known| known.is_covered()) {
            return Ok(Some(known.clone()));
        }
        let found = self.ask_for(name);
        if let (Err(Errno::ENOENT), Some(known)) = (&found, &known) {
            self.forget(name, known);
        }
        let (fid, told) = found?;
        let node = self.fs.node(fid, &told)?;
        if let Some(known) = known
            && core::ptr::addr_eq(Arc::as_ptr(known.inode()), Arc::as_ptr(&node))
        {
            return Ok(Some(known));
        }
        self.enter(here, name, node, alone)
    }

    /// The dentry of a node that has this name now. None, unless alone: a directory has to be
    /// moved.
    fn enter(
        &self,
        here: &Arc<Dentry>,
        name: &[u8],
        node: Arc<Node>,
        alone: bool,
    ) -> Result<Option<Arc<Dentry>>> {
        let dentry = Dentry::named(node.clone(), Some(here.clone()), name)?;
        // It was moved on the host, or it has two names there: one dentry has the last.
        let other = node.alias.claim(&dentry);
        if let Some(other) = other.filter(|other| !other.is_removed()) {
            return match alone {
                true => self.take_over(here, name, other).map(Some),
                false => Ok(None),
            };
        }
        let key = try_vec(name)?;
        let mut names = self.names()?.lock();
        let faster = names.known(name);
        let is_same = |other: &Arc<Dentry>| {
            !other.is_removed()
                && core::ptr::addr_eq(Arc::as_ptr(other.inode()), Arc::as_ptr(&node))
        };
        let kept = match faster.as_ref().is_some_and(is_same) {
            true => Ok(()),
            false => names.reserve().map(|()| names.put(key, &dentry)),
        };
        drop(names);
        kept?;
        Ok(Some(faster.filter(is_same).unwrap_or(dentry)))
    }

    /// The dentry of a directory gets another name.
    fn take_over(
        &self,
        here: &Arc<Dentry>,
        name: &[u8],
        dentry: Arc<Dentry>,
    ) -> Result<Arc<Dentry>> {
        if here.is_within(&dentry) {
            return Err(Errno::ELOOP);
        }
        let (key, new) = (try_vec(name)?, try_bytes(name)?);
        self.names()?.lock().reserve()?;
        if let Some(above) = dentry.parent() {
            self.sibling(above.inode())?.forget(&dentry.name(), &dentry);
        }
        dentry.moved(here, new);
        self.names()?.lock().put(key, &dentry);
        Ok(dentry)
    }

    /// ENOENT unless this directory `here` has its name: the server would change another one.
    fn check_here(&self, here: &Arc<Dentry>) -> Result<()> {
        if here.is_removed() {
            return Err(Errno::ENOENT);
        }
        self.check_name(&self.fid()).map_err(|error| match error {
            Errno::ESTALE => Errno::ENOENT,
            other => other,
        })
    }

    /// Makes a file with a name.
    pub fn make(&self, here: &Arc<Dentry>, name: &[u8], new: &New) -> Result<Arc<Dentry>> {
        let names = self.fs.names.read_killable()?;
        self.check_here(here)?;
        let made = self.ask_to_make(name, new)?;
        let found = self.find_beside(here, name, false)?;
        drop(names);
        let found = match found {
            Some(found) => found,
            None => self.find(here, name)?,
        };
        if let Some((mut handle, qid)) = made {
            let node = self.sibling(found.inode())?;
            if !qid.is_same(&node.qid) {
                return Err(Errno::ESTALE);
            }
            handle.name = node.fid();
            let before = node.made.lock().replace(handle);
            drop(before);
        }
        // Its times, and its links.
        _ = self.refresh();
        Ok(found)
    }

    /// Has the server make a file; returns a regular one open.
    fn ask_to_make(&self, name: &[u8], new: &New) -> Result<Option<(Handle, Qid)>> {
        let attr = self.attributes();
        let (session, directory) = (self.session(), self.fid());
        let fid = directory.number();
        let mut made = None;
        match *new {
            New::Symlink(target) => {
                let (_, (_, gid)) = tmpfs::inherit(attr.mode, attr.gid, 0);
                session.symlink(&directory, name, target, gid)?;
            }
            New::Node(mode, rdev) => {
                let (mode, (_, gid)) = tmpfs::inherit(attr.mode, attr.gid, mode);
                let permissions = Ids {
                    mode: mode & !S_IFMT,
                    gid,
                };
                match Kind::of_mode(mode) {
                    Some(Kind::Regular) => {
                        made = Some(session.create(directory, name, MAKES, permissions)?);
                    }
                    Some(Kind::Directory) => {
                        let ids = permissions;
                        let request = Request::MakeDirectory { fid, name, ids };
                        session.ask(&request, ninep::qid)?;
                    }
                    _ => {
                        let request = Request::MakeNode {
                            fid,
                            name,
                            ids: Ids { mode, gid },
                            device: device::split(rdev),
                        };
                        session.ask(&request, ninep::qid)?;
                    }
                }
            }
        }
        Ok(made)
    }

    /// Adds a name for a file.
    pub fn link_to(&self, here: &Arc<Dentry>, name: &[u8], to: &Arc<dyn Inode>) -> Result<()> {
        let node = self.sibling(to)?;
        if node.kind == Kind::Directory {
            return Err(Errno::EPERM);
        }
        let names = self.fs.names.read_killable()?;
        if node.attributes().links == 0 {
            return Err(Errno::ENOENT);
        }
        self.check_here(here)?;
        let (directory, fid) = (self.fid(), node.fid());
        node.check_name(&fid)?;
        let request = Request::Link {
            directory: directory.number(),
            fid: fid.number(),
            name,
        };
        self.session().ask(&request, ninep::empty)?;
        drop(names);
        _ = node.refresh();
        _ = self.refresh();
        Ok(())
    }

    /// Removes a name.
    pub fn remove_name(&self, victim: &Arc<Dentry>) -> Result<()> {
        let node = self.sibling(victim.inode())?;
        let _alone = self.fs.names.write_killable()?;
        let name = victim.name();
        if let Some(here) = victim.parent() {
            self.check_here(&here)?;
        }
        check_victim(self.names()?, &name, victim)?;
        let directory = self.fid();
        let request = Request::Unlink {
            fid: directory.number(),
            name: &name,
            is_directory: node.kind == Kind::Directory,
        };
        self.session().ask(&request, ninep::empty)?;
        self.lost(&name, victim, &node);
        _ = self.refresh();
        Ok(())
    }

    /// A name of this directory is gone.
    fn lost(&self, name: &[u8], dentry: &Arc<Dentry>, node: &Node) {
        // A mount on it has lost its place, too.
        _ = dentry.remove();
        self.forget(name, dentry);
        node.lost_name();
    }

    /// Moves `source` from this directory to `name` in `there`, where `occupant` has that name now.
    pub fn rename_name(
        &self,
        (here, source): (&Arc<Dentry>, &Arc<Dentry>),
        (there, name): (&Arc<Dentry>, &[u8]),
        occupant: Option<&Arc<Dentry>>,
        replace: Replace,
    ) -> Result<()> {
        // The protocol knows no other, and so does Linux.
        if replace != Replace::Yes {
            return Err(Errno::EINVAL);
        }
        let target = self.sibling(there.inode())?;
        let _alone = self.fs.names.write_killable()?;
        let old = source.name();
        self.check_here(here)?;
        target.check_here(there)?;
        check_same(self.names()?, &old, source)?;
        check_loop((here, source), there, occupant, replace)?;
        if let Some(occupant) = occupant {
            check_victim(target.names()?, name, occupant)?;
            if Arc::ptr_eq(occupant.inode(), source.inode()) {
                return Ok(());
            }
        } else {
            // A file that got the name since it was looked for was not checked: it may be another
            // user's in a sticky directory.
            match target.ask_for(name) {
                Err(Errno::ENOENT) => {}
                Ok(_) => return Err(Errno::ESTALE),
                Err(error) => return Err(error),
            }
        }
        // Reserved first, since there must be no error afterwards.
        let (key, new) = (try_vec(name)?, try_bytes(name)?);
        target.names()?.lock().reserve()?;
        let (from, to) = (self.fid(), target.fid());
        let request = Request::Rename {
            from: (from.number(), &old),
            to: (to.number(), name),
        };
        self.session().ask(&request, ninep::empty)?;
        if let Some(occupant) = occupant {
            let node = self.sibling(occupant.inode())?;
            target.lost(name, occupant, &node);
        }
        self.forget(&old, source);
        source.moved(there, new);
        target.names()?.lock().put(key, source);
        for node in [self, &target, &*self.sibling(source.inode())?] {
            _ = node.refresh();
        }
        Ok(())
    }
}
