//! Looking names up.

use super::super::alias::second_name;
use super::super::dentry::Dentry;
use super::errno;
use super::node::Node;
use crate::errno::Result;
use crate::mm::heap::try_vec;
use alloc::sync::Arc;

impl Node {
    /// Finds a name.
    pub fn find(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let names = self.names()?;
        if let Some(known) = names.lock().known(name) {
            return Ok(known);
        }
        let number = self.fs.fs.lookup(&self.inode, name).map_err(errno)?;
        let node = self.fs.node(number)?;
        let dentry = Dentry::named(node.clone(), Some(here.clone()), name)?;
        let key = try_vec(name)?;
        let mut names = names.lock();
        // Somebody may have looked meanwhile: a name has one dentry.
        if let Some(faster) = names.known(name) {
            drop(names);
            return Ok(faster);
        }
        names.reserve()?;
        let other = node.alias.claim(&dentry);
        if other.is_none() {
            names.put(key, &dentry);
        }
        drop(names);
        match other {
            Some(other) => Err(second_name("erofs", here, &other)),
            None => Ok(dentry),
        }
    }
}
