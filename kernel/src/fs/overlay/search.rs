//! Looking a name up in the layers, from the upper one down.

use super::super::dentry::Dentry;
use super::super::inode::Kind;
use super::super::perm;
use super::Overlay;
use super::marks::Mark;
use super::node::{Lower, Node};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_vec;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What the layers have under a name.
#[derive(Default)]
pub struct Found {
    /// In the upper layer.
    pub upper: Option<Arc<Dentry>>,
    /// In lower ones, the uppermost first: of several directories all are merged.
    pub lowers: Vec<Lower>,
}

struct Search<'a> {
    fs: &'a Overlay,
    /// The name, or the path from the layers' roots, once a directory was redirected.
    name: Vec<u8>,
    redirected: bool,
    is_directory: bool,
    /// Layers below do not count.
    stop: bool,
    /// This layer is the last.
    last: bool,
}

impl Overlay {
    /// Looks up what is called `name` in a directory.
    ///
    /// # Errors
    /// ELOOP: it is a layer itself. EPERM: it has data or a place elsewhere that is not looked for.
    /// Those of the layers.
    pub fn search(&self, directory: &Node, name: &[u8]) -> Result<Option<Found>> {
        let top = directory.top()?;
        self.mounter_may(&top, perm::EXECUTE)?;
        let (upper, mut from) = directory.real();
        let follow = self.options.follow;
        let mut search = Search {
            fs: self,
            name: try_vec(name)?,
            redirected: false,
            is_directory: false,
            stop: false,
            last: !follow && from.is_empty(),
        };
        let mut found = Found::default();
        if let Some(upper) = upper {
            found.upper = search.look_in(&upper)?;
        }
        let mut from_root = search.is_from_root();
        if from_root {
            from = self.root_lowers();
        }
        let mut at = 0;
        while !search.stop
            && let Some(lower) = from.get(at)
        {
            let layer = lower.layer;
            at += 1;
            search.last = match follow {
                true => layer == self.layers(),
                false => at == from.len(),
            };
            let Some(dentry) = search.look_in(&lower.dentry)? else {
                continue;
            };
            found.lowers.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            found.lowers.push(Lower { layer, dentry });
            if search.redirected && !follow {
                return Err(Errno::EPERM);
            }
            if search.is_from_root() && !from_root {
                (from, from_root, at) = (self.root_lowers(), true, layer);
            }
        }
        let nothing = found.upper.is_none() && found.lowers.is_empty();
        Ok((!nothing).then_some(found))
    }
}

impl Search<'_> {
    fn is_from_root(&self) -> bool {
        self.name.first() == Some(&b'/')
    }

    /// Looks in one layer, whose directory is `base`.
    fn look_in(&mut self, base: &Arc<Dentry>) -> Result<Option<Arc<Dentry>>> {
        let mut here = base.clone();
        // The part of the name that is still to be looked up, from its end: what is before it may
        // be replaced.
        let mut rest = self.name.len() - usize::from(self.is_from_root());
        loop {
            let start = self.name.len() - rest;
            let slash = self.name[start..].iter().position(|&byte| byte == b'/');
            let len = slash.unwrap_or(rest);
            let Some(next) = self.look_up(&here, start, start + len)? else {
                return Ok(None);
            };
            if slash.is_none() {
                return Ok(Some(next));
            }
            here = next;
            rest -= len + 1;
        }
    }

    /// Looks up one part of the name.
    fn look_up(
        &mut self,
        base: &Arc<Dentry>,
        start: usize,
        end: usize,
    ) -> Result<Option<Arc<Dentry>>> {
        let found = match base.inode().lookup(base, &self.name[start..end]) {
            Err(Errno::ENOENT | Errno::ENAMETOOLONG) => return Ok(None),
            found => found?,
        };
        let is_last = end == self.name.len();
        if self.fs.is_whiteout(&found) {
            self.stop = true;
            return Ok(None);
        }
        if found.kind() != Kind::Directory {
            self.stop = true;
            if self.is_directory || !is_last {
                return Ok(None);
            }
            let is_regular = found.kind() == Kind::Regular;
            if is_regular && self.fs.mark(&found, Mark::Metacopy)?.is_some() {
                return Err(Errno::EPERM);
            }
            return Ok(Some(found));
        }
        if self.fs.is_layer(&found) {
            return Err(Errno::ELOOP);
        }
        self.is_directory |= is_last;
        if self.last {
            return Ok(Some(found));
        }
        match self.fs.opacity(&found) {
            Some(b'y') => self.stop = true,
            _ => self.redirect(&found, start, end)?,
        }
        Ok(Some(found))
    }

    /// Goes on below where a directory, which is the part `start..end` of the name, says.
    ///
    /// # Errors
    /// EINVAL: what it says is no path or name.
    fn redirect(&mut self, directory: &Dentry, start: usize, end: usize) -> Result<()> {
        let Some(mut name) = self.fs.mark(directory, Mark::Redirect)? else {
            return Ok(());
        };
        let is_path = name.first() == Some(&b'/');
        let mut parts = name.split(|&byte| byte == b'/').skip(usize::from(is_path));
        let odd = parts.any(|part| part.is_empty() || !is_path && part.len() < name.len());
        if odd || name.is_empty() {
            return Err(Errno::EINVAL);
        }
        let before = if is_path { 0 } else { start };
        let more = before + self.name.len() - end;
        name.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
        name.extend_from_slice(&self.name[end..]);
        name.splice(..0, self.name[..before].iter().copied());
        self.stop &= !is_path;
        self.redirected = true;
        self.name = name;
        Ok(())
    }
}
