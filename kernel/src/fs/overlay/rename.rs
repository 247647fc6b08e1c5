//! Moving names.

use super::super::dentry::Dentry;
use super::super::inode::{Kind, Replace};
use super::copy_up::copy_up;
use super::names::settled;
use super::node::{Node, node_of};
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_bytes, try_vec};
use crate::sync::SleepMutexGuard;
use alloc::sync::Arc;

/// A directory of a rename, with a name in it.
struct Place<'a> {
    node: Arc<Node>,
    here: &'a Arc<Dentry>,
    name: Arc<[u8]>,
}

impl Place<'_> {
    /// The directory in the upper layer.
    fn upper(&self) -> Result<Arc<Dentry>> {
        self.node.to_change(self.here)
    }
}

/// The locks of a rename.
struct Locked<'a> {
    _topology: Option<SleepMutexGuard<'a, ()>>,
    _directories: [Option<SleepMutexGuard<'a, ()>>; 2],
}

impl<'a> Locked<'a> {
    /// Locks both directories, `to` first where it lies above.
    fn new(from: &'a Place, to: &'a Place, apart: bool) -> Result<Self> {
        let fs = &from.node.fs;
        if !apart {
            return Ok(Locked {
                _topology: None,
                _directories: [Some(from.node.changing()?.lock_killable()?), None],
            });
        }
        let topology = fs.rename.lock_killable()?;
        let mut order = [from, to];
        if from.here.is_within(to.here) {
            order.reverse();
        }
        let first = order[0].node.changing()?.lock_killable()?;
        let second = order[1].node.changing()?.lock_killable()?;
        Ok(Locked {
            _topology: Some(topology),
            _directories: [Some(first), Some(second)],
        })
    }
}

/// While it lives, names of both directories are being moved.
struct Moving<'a>([&'a Node; 2]);

impl<'a> Moving<'a> {
    fn new(from: &'a Place, to: &'a Place) -> Result<Self> {
        let nodes = [&*from.node, &*to.node];
        // There are names, since both are locked.
        for node in nodes {
            node.names()?.lock().begin_move();
        }
        Ok(Moving(nodes))
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let names = self.0.iter().filter_map(|node| node.names().ok());
        names.for_each(|names| names.lock().end_move());
    }
}

/// EXDEV where a directory is in lower layers: those below it would have to move, too.
fn check_movable(node: &Node) -> Result<()> {
    match node.file_kind() == Kind::Directory && node.has_lowers() {
        true => Err(Errno::EXDEV),
        false => Ok(()),
    }
}

/// Errors of a rename that is impossible by the places of the directories in the tree.
fn check_tree(
    from: &Place,
    to: &Place,
    (source, occupant): (&Arc<Dentry>, Option<&Arc<Dentry>>),
    replace: Replace,
) -> Result<()> {
    if to.here.is_within(source) {
        return Err(Errno::EINVAL);
    }
    match occupant.is_some_and(|occupant| from.here.is_within(occupant)) {
        true if replace == Replace::Exchange => Err(Errno::EINVAL),
        true => Err(Errno::ENOTEMPTY),
        false => Ok(()),
    }
}

/// Errors of replacing one kind of file by another.
fn check_kinds(source: &Dentry, occupant: &Dentry) -> Result<()> {
    let [source, occupant] = [source, occupant].map(|one| one.kind() == Kind::Directory);
    match (source, occupant) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

impl Node {
    /// Moves `source` from this directory to `name` in `there`, which has `occupant` now.
    pub fn rename_name(
        &self,
        (here, source): (&Arc<Dentry>, &Arc<Dentry>),
        (there, name): (&Arc<Dentry>, &[u8]),
        occupant: Option<&Arc<Dentry>>,
        replace: Replace,
    ) -> Result<()> {
        let from = Place {
            node: node_of(here)?,
            here,
            name: source.name(),
        };
        let to = Place {
            node: node_of(there)?,
            here: there,
            name: try_bytes(name)?,
        };
        if !Arc::ptr_eq(&from.node.fs, &to.node.fs) {
            return Err(Errno::EXDEV);
        }
        match (occupant, replace) {
            (_, Replace::Whiteout) => return Err(Errno::EINVAL),
            (None, Replace::Exchange) => return Err(Errno::ENOENT),
            (Some(_), Replace::No) => return Err(Errno::EEXIST),
            _ => {}
        }
        let apart = !Arc::ptr_eq(&from.node, &to.node);
        let _locked = Locked::new(&from, &to, apart)?;
        if there.is_removed() {
            return Err(Errno::ENOENT);
        }
        from.node.check_same(&from.name, source)?;
        if apart {
            check_tree(&from, &to, (source, occupant), replace)?;
        }
        match occupant {
            Some(occupant) => to.node.check_same(&to.name, occupant)?,
            None => to.node.check_absent(there, name)?,
        }
        check_movable(&*node_of(source)?)?;
        match occupant {
            Some(old) if Arc::ptr_eq(old.inode(), source.inode()) => Ok(()),
            Some(other) if replace == Replace::Exchange => exchange(&from, source, &to, other),
            occupant => move_to(&from, source, &to, occupant),
        }
    }
}

/// Two files change places.
fn exchange(from: &Place, source: &Arc<Dentry>, to: &Place, other: &Arc<Dentry>) -> Result<()> {
    let (source_node, other_node) = (node_of(source)?, node_of(other)?);
    check_movable(&other_node)?;
    copy_up(source)?;
    copy_up(other)?;
    let (old, new) = (from.upper()?, to.upper()?);
    arrive(&source_node, &to.node, &new)?;
    arrive(&other_node, &from.node, &old)?;
    let moved = source_node.upper_at(&old, &from.name)?.ok_or(Errno::EIO)?;
    let back = other_node.upper_at(&new, &to.name)?.ok_or(Errno::EIO)?;
    let (source_key, other_key) = (try_vec(&to.name)?, try_vec(&from.name)?);
    let place = (&new, &*to.name);
    let _moving = Moving::new(from, to)?;
    settled(
        old.inode()
            .rename((&old, &moved), place, Some(&back), Replace::Exchange),
    )?;
    source.moved(to.here, to.name.clone());
    other.moved(from.here, from.name.clone());
    note(&from.node, &from.name, Some((other_key, other)));
    note(&to.node, &to.name, Some((source_key, source)));
    Ok(())
}

/// A file gets another name, and what has that goes.
fn move_to(
    from: &Place,
    source: &Arc<Dentry>,
    to: &Place,
    occupant: Option<&Arc<Dentry>>,
) -> Result<()> {
    let node = node_of(source)?;
    let replaced = occupant.map(|occupant| node_of(occupant)).transpose()?;
    if let Some(occupant) = occupant {
        check_kinds(source, occupant)?;
        if occupant.is_covered() {
            return Err(Errno::EBUSY);
        }
    }
    let lock = replaced.as_ref().and_then(|node| node.changing().ok());
    let _within = lock.map(|lock| lock.lock_killable()).transpose()?;
    if let Some(replaced) = &replaced
        && replaced.file_kind() == Kind::Directory
    {
        replaced.empty(false)?;
    }
    copy_up(source)?;
    let (old, new) = (from.upper()?, to.upper()?);
    let lock = replaced.as_ref().map(|node| node.copying.lock_killable());
    let copying = lock.transpose()?;
    let is_directory = node.file_kind() == Kind::Directory;
    let covered = match &replaced {
        Some(replaced) => replaced.upper_at(&new, &to.name)?,
        None => to.node.whiteout_at(&new, &to.name)?,
    };
    let is_whiteout = replaced.is_none() && covered.is_some();
    let leaves_whiteout = from.node.is_below(&from.name);
    // A whiteout that is in the way goes where one is wanted.
    let how = match (leaves_whiteout, is_whiteout) {
        (true, false) => Replace::Whiteout,
        (true, true) => Replace::Exchange,
        (false, true) if is_directory => Replace::Exchange,
        (false, _) => Replace::Yes,
    };
    arrive(&node, &to.node, &new)?;
    let moved = node.upper_at(&old, &from.name)?.ok_or(Errno::EIO)?;
    let key = try_vec(&to.name)?;
    let place = (&new, &*to.name);
    let moving = Moving::new(from, to)?;
    settled(
        old.inode()
            .rename((&old, &moved), place, covered.as_ref(), how),
    )?;
    if let (Replace::Exchange, false, Some(whiteout)) = (how, leaves_whiteout, &covered) {
        // The next look-up would find it and hide nothing by it.
        _ = old.inode().remove(&old, whiteout);
    }
    if let Some(occupant) = occupant {
        _ = occupant.remove();
    }
    source.moved(to.here, to.name.clone());
    note(&from.node, &from.name, None);
    note(&to.node, &to.name, Some((key, source)));
    drop((moving, copying));
    if let (Some(replaced), Some(occupant)) = (&replaced, occupant) {
        from.node.fs.let_go(replaced, occupant);
    }
    Ok(())
}

/// Prepares a file for a directory that it is about to be moved to.
fn arrive(node: &Node, directory: &Node, upper: &Arc<Dentry>) -> Result<()> {
    if node.has_origin() {
        node.fs.set_impure(upper)?;
    }
    match (node.file_kind(), node.upper()) {
        (Kind::Directory, Some(own)) if directory.has_lowers() => {
            node.fs.set_opaque(&own, Errno::EXDEV)
        }
        _ => Ok(()),
    }
}

/// Notes who has a name now.
fn note(directory: &Node, name: &[u8], new: Option<(alloc::vec::Vec<u8>, &Arc<Dentry>)>) {
    let Ok(names) = directory.names() else { return };
    let mut names = names.lock();
    names.change(name);
    if let Some((key, dentry)) = new
        && names.reserve().is_ok()
    {
        names.put(key, dentry);
    }
}
