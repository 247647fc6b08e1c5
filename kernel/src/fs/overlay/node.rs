//! The inodes of an overlay.

use super::super::dentry::Dentry;
use super::super::inode::{Attr, Inode, Key, Kind};
use super::super::path::Path;
use super::super::pipe::Fifo;
use super::super::writers::Writers;
use super::marks::{Mark, Origin};
use super::search::Found;
use super::{Overlay, UPPER};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::{try_arc, try_vec};
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::*};

/// A file of a lower layer.
#[derive(Clone)]
pub struct Lower {
    /// The layer's number.
    pub layer: usize,
    /// The file.
    pub dentry: Arc<Dentry>,
}

/// The files that an inode is made of.
pub struct Stack {
    pub upper: Option<Arc<Dentry>>,
    pub lowers: Arc<Vec<Lower>>,
    /// The file that the upper one was copied from.
    pub origin: Option<Origin>,
    /// What lower layers have and what is hidden: the node may be known by its address.
    pub hidden: Option<Arc<Vec<Lower>>>,
}

impl Stack {
    /// Of a file that the upper layer is about to get.
    pub fn empty() -> Result<Self> {
        Ok(Stack {
            upper: None,
            lowers: try_arc(Vec::new())?,
            origin: None,
            hidden: None,
        })
    }
}

/// The names of a directory that somebody has.
pub struct Names {
    dentries: HashMap<Vec<u8>, Weak<Dentry>>,
    /// Where the search for dead ones goes on.
    swept: usize,
    /// How often names were made or taken away.
    changes: u64,
    /// How many renames are under way: the layers may have a name twice, or not at all.
    moving: usize,
}

impl Names {
    /// The dentry of a name.
    pub fn known(&self, name: &[u8]) -> Option<Arc<Dentry>> {
        self.dentries.get(name)?.upgrade()
    }

    /// How often names were made or taken away; none while one is being moved.
    pub fn changes(&self) -> Option<u64> {
        (self.moving == 0).then_some(self.changes)
    }

    /// Makes room for one name more.
    pub fn reserve(&mut self) -> Result<()> {
        let alive = |_: &Vec<u8>, dentry: &Weak<Dentry>| dentry.strong_count() > 0;
        self.swept = self.dentries.retain_from(self.swept, alive);
        self.dentries.try_reserve(1).map_err(|_| Errno::ENOMEM)
    }

    /// Notes a dentry that was looked up, in the room that there is.
    pub fn put(&mut self, name: Vec<u8>, dentry: &Arc<Dentry>) {
        self.dentries.insert(name, Arc::downgrade(dentry));
    }

    /// Names of the upper layer are about to be moved or removed behind look-ups.
    pub fn begin_move(&mut self) {
        self.moving += 1;
    }

    /// That is over, and look-ups that began before it begin anew.
    pub fn end_move(&mut self) {
        self.moving -= 1;
        self.changes += 1;
    }

    /// A name is made or taken away.
    pub fn change(&mut self, name: &[u8]) {
        self.dentries.remove(name);
        self.changes += 1;
    }
}

/// What an inode is beside its layers' files.
pub enum Content {
    /// A directory.
    Directory {
        names: Mutex<Names>,
        /// Held while its names change (Linux's i_rwsem).
        changing: SleepMutex<()>,
    },
    /// A pipe, which is none of its layers'.
    Fifo(Fifo),
    /// Nothing.
    Other,
}

/// An inode.
pub struct Node {
    pub fs: Arc<Overlay>,
    kind: Kind,
    /// Its number, which is shown where those of the layers do not serve.
    number: u64,
    stack: Mutex<Stack>,
    /// The keys by which the file system knows it; 0 is none.
    keys: [AtomicUsize; 2],
    /// The name by which a lower file was found.
    alias: Mutex<Weak<Dentry>>,
    /// Held while it is copied up.
    pub copying: SleepMutex<()>,
    pub content: Content,
    pub own_writers: Writers,
    pub own_write_hint: AtomicU8,
    /// Its place among those that are kept for a while.
    pub kept: AtomicUsize,
}

/// The node of an overlay's dentry.
///
/// # Errors
/// EXDEV: it is none of an overlay.
pub fn node_of(dentry: &Dentry) -> Result<Arc<Node>> {
    let inode: Arc<dyn Any + Send + Sync> = dentry.inode().clone();
    inode.downcast().map_err(|_| Errno::EXDEV)
}

impl Node {
    /// A node that nobody knows yet.
    pub fn new(fs: Arc<Overlay>, kind: Kind, stack: Stack) -> Result<Arc<Self>> {
        let content = match kind {
            Kind::Directory => Content::Directory {
                names: Mutex::new(Names {
                    dentries: hash::new(),
                    swept: 0,
                    changes: 0,
                    moving: 0,
                }),
                changing: SleepMutex::new(()),
            },
            Kind::Fifo => Content::Fifo(Fifo::new()?),
            _ => Content::Other,
        };
        let number = fs.new_number();
        try_arc(Node {
            fs,
            kind,
            number,
            stack: Mutex::new(stack),
            keys: [AtomicUsize::new(0), AtomicUsize::new(0)],
            alias: Mutex::new(Weak::new()),
            copying: SleepMutex::new(()),
            content,
            own_writers: Writers::new(),
            own_write_hint: AtomicU8::new(0),
            kept: AtomicUsize::new(usize::MAX),
        })
    }

    /// The type of the file.
    pub fn file_kind(&self) -> Kind {
        self.kind
    }

    /// The files of the layers.
    pub fn real(&self) -> (Option<Arc<Dentry>>, Arc<Vec<Lower>>) {
        let stack = self.stack.lock();
        (stack.upper.clone(), stack.lowers.clone())
    }

    /// The file of the upper layer, if it has one.
    pub fn upper(&self) -> Option<Arc<Dentry>> {
        self.stack.lock().upper.clone()
    }

    /// The file of the uppermost layer that has one.
    pub fn top(&self) -> Result<Path> {
        let (layer, dentry) = {
            let stack = self.stack.lock();
            match (&stack.upper, stack.lowers.first()) {
                (Some(upper), _) => (UPPER, upper.clone()),
                (None, Some(lower)) => (lower.layer, lower.dentry.clone()),
                _ => return Err(Errno::EIO),
            }
        };
        Ok(self.fs.path(layer, dentry))
    }

    /// Whether it is made of several directories.
    pub fn is_merged(&self) -> bool {
        let stack = self.stack.lock();
        let upper = usize::from(stack.upper.is_some());
        self.kind == Kind::Directory && stack.lowers.len() + upper > 1
    }

    /// Whether lower layers have directories of it.
    pub fn has_lowers(&self) -> bool {
        !self.stack.lock().lowers.is_empty()
    }

    /// Whether it is, or was copied from, a file of a lower layer.
    pub fn has_origin(&self) -> bool {
        self.stack.lock().origin.is_some()
    }

    /// It has a file in the upper layer now. Without `keeps_origin` that is another file than the
    /// lower one.
    pub fn set_upper(&self, upper: Arc<Dentry>, keeps_origin: bool) {
        let mut stack = self.stack.lock();
        stack.upper = Some(upper);
        stack.origin = stack.origin.filter(|_| keeps_origin);
    }

    /// Lower layers count no more.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn hide_lowers(&self) -> Result<()> {
        let none = try_arc(Vec::new())?;
        let mut stack = self.stack.lock();
        let lowers = core::mem::replace(&mut stack.lowers, none);
        // Only the first time there are any.
        stack.hidden.get_or_insert(lowers);
        Ok(())
    }

    /// The dentry by which it was found, while somebody has it.
    pub fn alias(&self) -> Option<Arc<Dentry>> {
        self.alias.lock().upgrade()
    }

    /// Notes that.
    pub fn set_alias(&self, dentry: &Arc<Dentry>) {
        let new = Arc::downgrade(dentry);
        let old = core::mem::replace(&mut *self.alias.lock(), new);
        drop(old);
    }

    /// The names of a directory.
    pub fn names(&self) -> Result<&Mutex<Names>> {
        match &self.content {
            Content::Directory { names, .. } => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The lock of a directory's names.
    pub fn changing(&self) -> Result<&SleepMutex<()>> {
        match &self.content {
            Content::Directory { changing, .. } => Ok(changing),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// What it is known by.
    pub fn key(&self) -> Key {
        (self.fs.device, self.number)
    }

    /// Its attributes: those of its uppermost file, with a number that stays when it is copied up.
    pub fn attributes(&self) -> Attr {
        let origin = self.stack.lock().origin;
        let merged = self.is_merged();
        let Ok(real) = self.top() else {
            return Attr::default();
        };
        let mut attr = real.inode().attr();
        let is_directory = self.kind == Kind::Directory;
        let (same, fs) = (self.fs.is_same_fs(), origin.map_or(0, |origin| origin.fs));
        if let Some(origin) = origin {
            attr.inode = origin.number;
        }
        attr.device = match same || is_directory {
            true => self.fs.device,
            false => self.fs.device_of(fs),
        };
        if is_directory && !same {
            attr.inode = self.number;
        }
        if merged {
            attr.links = 1;
        }
        attr
    }

    /// What the layers have under a name.
    fn search(&self, name: &[u8]) -> Result<Arc<Node>> {
        let found = self.fs.search(self, name)?.ok_or(Errno::ENOENT)?;
        self.note_origin(&found);
        self.fs.node(found)
    }

    /// Looks a name up, where nobody has it; none where names changed meanwhile.
    fn find(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Option<Arc<Dentry>>> {
        let Some(changes) = self.names()?.lock().changes() else {
            return Ok(None);
        };
        let node = match self.search(name) {
            // While it was looked up it was copied up, which somebody does who knows it.
            Err(Errno::EIO) => {
                let known = self.names()?.lock().known(name);
                match known {
                    Some(known) => return Ok(Some(known)),
                    None => self.search(name)?,
                }
            }
            node => node?,
        };
        let key = try_vec(name)?;
        let dentry = Dentry::named(node.clone(), Some(here.clone()), name)?;
        let mut names = self.names()?.lock();
        if names.changes() != Some(changes) {
            return Ok(None);
        }
        if let Some(known) = names.known(name) {
            return Ok(Some(known));
        }
        names.reserve()?;
        // Whoever finds it may want to copy it up by that.
        node.set_alias(&dentry);
        names.put(key, &dentry);
        drop(names);
        self.fs.keep(&node, &dentry);
        Ok(Some(dentry))
    }

    /// Notes the origin of a directory of the upper layer that somebody else made there.
    fn note_origin(&self, found: &Found) {
        let (Some(upper), Some(lower)) = (&found.upper, found.lowers.first()) else {
            return;
        };
        let is_directory = upper.kind() == Kind::Directory;
        if let (true, Some(own), Ok(_)) = (is_directory, self.upper(), self.fs.upper())
            && matches!(self.fs.mark(upper, Mark::Origin), Ok(None))
            && self
                .fs
                .set_origin(upper, lower.dentry.inode().attr().inode)
                .is_ok()
        {
            // Without it the directory has another number among its names than by itself.
            _ = self.fs.set_impure(&own);
        }
    }

    /// The dentry of a name.
    pub fn look_up(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        if let Some(known) = self.names()?.lock().known(name) {
            return Ok(known);
        }
        // Others could change names for ever.
        match self.find(here, name)? {
            Some(found) => Ok(found),
            None => {
                let _alone = self.changing()?.lock_killable()?;
                self.look_up_alone(here, name)
            }
        }
    }

    /// The dentry of a name, where the lock `changing` is held.
    pub fn look_up_alone(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let known = self.names()?.lock().known(name);
        match known {
            Some(known) => Ok(known),
            None => self.find(here, name)?.ok_or(Errno::EIO),
        }
    }

    /// The file system knows it by one more key.
    pub fn add_key(&self, key: usize) {
        let free = self.keys.iter().find(|known| known.load(Relaxed) == 0);
        if let Some(free) = free {
            free.store(key, Relaxed);
        }
    }

    /// The file system does not know it by this key any more.
    pub fn drop_key(&self, key: usize) {
        let known = self.keys.iter().find(|known| known.load(Relaxed) == key);
        if let Some(known) = known {
            known.store(0, Relaxed);
        }
    }
}

/// The key of an inode of a layer.
pub fn key_of(inode: &Arc<dyn Inode>) -> usize {
    Arc::as_ptr(inode).addr()
}

impl Drop for Node {
    fn drop(&mut self) {
        for key in &mut self.keys {
            match *key.get_mut() {
                0 => {}
                key => self.fs.forget(key),
            }
        }
    }
}
