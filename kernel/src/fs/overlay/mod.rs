//! overlay: one file system made of directories of others (Linux's overlayfs). The lower layers
//! stay as they are. The upper one, if there is any, gets all changes: a lower file is copied there
//! before it is changed, and what is removed leaves a whiteout.
//!
//! Locks, in this order: the file system's `rename`; `changing` of directories, those above before
//! those below; `copying` of an inode; `whiteout`; then those of the layers. A look-up takes none
//! of them, but for `changing` where names changed meanwhile and it begins again.

mod copy_up;
mod directory;
mod file;
mod inode;
mod layers;
mod listing;
mod marks;
mod names;
mod node;
mod options;
mod recent;
mod rename;
mod search;

use super::dentry::Dentry;
use super::inode::{FsStat, Kind, XattrChange};
use super::mount::options::parse;
use super::path::Path;
use super::perm;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc;
use crate::random;
use crate::sync::{Mutex, SleepMutex};
use crate::task::credentials::Credentials;
use crate::task::current;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use layers::{Layers, Upper};
use linux_raw_sys::general::*;
use marks::{Mark, Origin};
use node::{Lower, Node, Stack, key_of};
use options::{Fsync, Options, Uuid};
use recent::Recent;
use search::Found;

/// The magic number of statfs(2) (OVERLAYFS_SUPER_MAGIC).
const MAGIC: u64 = 0x794c_7630;
/// The number of the upper layer; lower ones are counted from 1, the uppermost first.
const UPPER: usize = 0;
/// How many file systems of this kind may be made of one another (FILESYSTEM_MAX_STACK_DEPTH).
const MOST_DEPTH: usize = 2;

/// A file system.
pub struct Overlay {
    /// Its device number.
    device: u64,
    options: Options,
    layers: Layers,
    /// How many of this kind it is made of, with itself.
    depth: usize,
    /// Of its UUID, where it has one.
    id: Option<u64>,
    /// The credentials of the mounter, by which the layers are used.
    mounter: Arc<Credentials>,
    last_number: AtomicU64,
    last_temporary: AtomicU32,
    /// The inodes that somebody has, by the addresses of inodes of the layers.
    nodes: Mutex<HashMap<usize, Weak<Node>>>,
    recent: Mutex<Recent>,
    /// A whiteout among the files that have no place, of which others are links.
    whiteout: SleepMutex<Option<Arc<Dentry>>>,
    /// Held while a directory, or a name from one directory to another, is moved (Linux's
    /// s_vfs_rename_mutex).
    rename: SleepMutex<()>,
}

/// Makes a file system of the directories that the options name; returns its root too, and `flags`
/// (MS_*) as the options change them.
///
/// # Errors
/// EINVAL: there is no such option, or the directories do not serve. ELOOP: they overlap. Those of
/// looking them up, and of preparing the upper layer.
pub fn mount(options: &[u8], flags: u32) -> Result<(Arc<Overlay>, Arc<Dentry>, u32)> {
    let (mut options, places, flags) = Options::parse(options, flags)?;
    let layers = Layers::new(places, &options)?;
    let depth = 1 + layers.most_depth();
    if depth > MOST_DEPTH {
        return Err(Errno::EINVAL);
    }
    let id = layers.identify(&mut options);
    let fs = try_arc(Overlay {
        device: super::new_device(),
        options,
        layers,
        depth,
        id,
        mounter: current().credentials(),
        last_number: AtomicU64::new(1),
        last_temporary: AtomicU32::new(0),
        nodes: Mutex::new(hash::new()),
        recent: Mutex::new(Recent::new()?),
        whiteout: SleepMutex::new(None),
        rename: SleepMutex::new(()),
    })?;
    let root = fs.new_root()?;
    let forced = if fs.is_read_only() { MS_RDONLY } else { 0 };
    Ok((fs, root, flags | forced))
}

impl Overlay {
    fn new_root(self: &Arc<Self>) -> Result<Arc<Dentry>> {
        let upper = self.layers.upper.as_ref();
        let upper = upper.map(|upper| upper.root.dentry().clone());
        let lowers = self.layers.roots.clone();
        let origin = lowers.first().filter(|_| upper.is_none());
        let origin = origin.map(|lower| self.origin_of(lower));
        let stack = Stack {
            upper,
            lowers,
            origin,
            hidden: None,
        };
        let root = Node::new(self.clone(), Kind::Directory, stack)?;
        Dentry::named(root, None, b"")
    }

    /// Whether nothing can be written, however it is mounted.
    fn is_read_only(&self) -> bool {
        let upper = self.layers.upper.as_ref();
        upper.is_none_or(|upper| upper.work.is_none())
    }

    /// Flags (MS_*) that a remount gives it; as on Linux, it looks at no other options.
    ///
    /// # Errors
    /// EROFS: nothing can be written. Those of writing the upper layer to its disk.
    pub fn remount(&self, list: &[u8], flags: u32) -> Result<u32> {
        let flags = parse(list, flags, |_, _| Ok(())).unwrap_or(flags);
        if self.is_read_only() && flags & MS_RDONLY == 0 {
            return Err(Errno::EROFS);
        }
        if flags & MS_RDONLY != 0 {
            self.sync()?;
        }
        Ok(flags)
    }

    /// Writes the upper layer to the disk that it is on.
    pub fn sync(&self) -> Result<()> {
        let upper = self.layers.upper.as_ref().filter(|_| self.syncs());
        let mount = upper.and_then(|upper| upper.root.mount());
        mount.map_or(Ok(()), |mount| mount.fs().sync())
    }

    /// Whether data comes to the disk when somebody asks for it.
    fn syncs(&self) -> bool {
        self.options.fsync != Fsync::Volatile
    }

    /// Lets go of what it keeps, as it is unmounted.
    pub fn tear_down(&self) {
        self.forget_recent();
    }

    /// How many of this kind it is made of, with itself.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The upper layer, to be changed.
    ///
    /// # Errors
    /// EROFS.
    fn upper(&self) -> Result<(&Upper, &Arc<Dentry>)> {
        let upper = self.layers.upper.as_ref().ok_or(Errno::EROFS)?;
        let work = upper.work.as_ref().ok_or(Errno::EROFS)?;
        match upper.root.mount_flags() & MS_RDONLY {
            0 => Ok((upper, work)),
            _ => Err(Errno::EROFS),
        }
    }

    /// Whether the upper layer has no extended attributes.
    fn has_no_attributes(&self) -> bool {
        let upper = self.layers.upper.as_ref();
        upper.is_some_and(|upper| !upper.has_attributes)
    }

    /// A file of a layer, as it is used there.
    fn path(&self, layer: usize, dentry: Arc<Dentry>) -> Path {
        self.layers.root(layer).with(dentry)
    }

    /// How many lower layers there are.
    fn layers(&self) -> usize {
        self.layers.roots.len()
    }

    fn root_lowers(&self) -> Arc<Vec<Lower>> {
        self.layers.roots.clone()
    }

    /// Whether a directory is a layer's root, or where the upper one is worked on.
    fn is_layer(&self, dentry: &Dentry) -> bool {
        self.layers.is_taken(dentry)
    }

    /// Whether all layers are in one file system, so that their numbers serve.
    fn is_same_fs(&self) -> bool {
        self.layers.devices.len() == 1
    }

    /// The device number of files of one of the layers' file systems.
    fn device_of(&self, fs: usize) -> u64 {
        self.layers.devices.get(fs).copied().unwrap_or(self.device)
    }

    /// The one file system that all lower layers are in.
    fn only_lower_fs(&self) -> Option<usize> {
        let mut all = self.layers.lower.iter().map(|layer| layer.fs);
        let first = all.next()?;
        all.all(|fs| fs == first).then_some(first)
    }

    fn origin_of(&self, lower: &Lower) -> Origin {
        Origin {
            fs: self.layers.lower[lower.layer - 1].fs,
            number: lower.dentry.inode().attr().inode,
        }
    }

    fn new_number(&self) -> u64 {
        self.last_number.fetch_add(1, Relaxed) + 1
    }

    /// EACCES where the mounter may not do `wanted` to a file of a layer.
    fn mounter_may(&self, dentry: &Dentry, wanted: u32) -> Result<()> {
        let runs = wanted & perm::EXECUTE != 0 && dentry.kind() != Kind::Directory;
        if self.mounter.can(CAP_DAC_OVERRIDE) && !runs {
            return Ok(());
        }
        perm::check_as(&self.mounter, &dentry.inode().attr(), wanted)
    }

    /// The node of what was found.
    ///
    /// # Errors
    /// EIO: the layers were changed, so that it is another than it was. ENOMEM.
    fn node(self: &Arc<Self>, found: Found) -> Result<Arc<Node>> {
        let Found { upper, lowers } = found;
        let top = upper.as_ref().or(lowers.first().map(|lower| &lower.dentry));
        let kind = top.ok_or(Errno::ENOENT)?.kind();
        let key = self.key(&upper, &lowers);
        let origin = match (&upper, lowers.first()) {
            (Some(upper), _) if kind != Kind::Directory => self.origin(upper),
            (_, lower) => lower.map(|lower| self.origin_of(lower)),
        };
        // A lower file is only an origin.
        let lowers = match upper.is_some() && kind != Kind::Directory {
            true => Vec::new(),
            false => lowers,
        };
        let stack = Stack {
            upper: upper.clone(),
            lowers: try_arc(lowers)?,
            origin,
            hidden: None,
        };
        let new = Node::new(self.clone(), kind, stack)?;
        let Some(key) = key else {
            return Ok(new);
        };
        let known = self.insert(key, &new)?;
        if Arc::ptr_eq(&known, &new) {
            return Ok(new);
        }
        let same = match (&upper, &known.upper()) {
            (Some(found), Some(known)) => Arc::ptr_eq(found.inode(), known.inode()),
            (None, Some(_)) => kind != Kind::Directory,
            (Some(_), None) => false,
            (None, None) => true,
        };
        match same {
            true => Ok(known),
            false => Err(Errno::EIO),
        }
    }

    /// The key by which a node is known, so that a file has one, whatever name leads to it. A lower
    /// file with several names has none: each name gets a copy of its own.
    fn key(&self, upper: &Option<Arc<Dentry>>, lowers: &[Lower]) -> Option<usize> {
        let lower = lowers.first().map(|lower| lower.dentry.inode());
        match (upper, lower) {
            (Some(upper), Some(lower)) if upper.kind() == Kind::Directory => Some(key_of(lower)),
            (Some(upper), _) => Some(key_of(upper.inode())),
            (None, Some(lower)) => {
                let one = lower.kind() == Kind::Directory || lower.attr().links <= 1;
                (one || self.layers.upper.is_none()).then(|| key_of(lower))
            }
            (None, None) => None,
        }
    }

    /// The node that is known by a key: `new`, where there was none.
    fn insert(&self, key: usize, new: &Arc<Node>) -> Result<Arc<Node>> {
        let mut nodes = self.nodes.lock();
        let known = nodes.get(&key).and_then(Weak::upgrade);
        if let Some(known) = known {
            return Ok(known);
        }
        nodes.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        nodes.insert(key, Arc::downgrade(new));
        drop(nodes);
        new.add_key(key);
        Ok(new.clone())
    }

    /// A node gets no file with this key after all.
    fn withdraw(&self, key: usize, node: &Node) {
        node.drop_key(key);
        self.nodes.lock().remove(&key);
    }

    /// A node with this key is gone.
    fn forget(&self, key: usize) {
        let mut nodes = self.nodes.lock();
        // Another may have the key by now.
        if nodes.get(&key).is_some_and(|node| node.strong_count() == 0) {
            nodes.remove(&key);
        }
    }

    /// Its result of statfs(2): that of the uppermost layer.
    fn stat(&self) -> FsStat {
        let top = match &self.layers.upper {
            Some(upper) => &upper.root,
            None => self.layers.root(1),
        };
        let stat = top
            .mount()
            .map_or(FsStat::default(), |mount| mount.fs().stat());
        let id = stat.id.unwrap_or_else(|| top.inode().attr().device);
        FsStat {
            magic: MAGIC,
            id: Some(self.id.unwrap_or(id)),
            ..stat
        }
    }
}

impl fmt::Display for Overlay {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        self.options.fmt(out)
    }
}

impl Layers {
    /// Finds or makes the UUID that `uuid=` asks for, and returns a number of it. As on Linux, an
    /// upper layer that was used before there were such stays without.
    fn identify(&self, options: &mut Options) -> Option<u64> {
        if options.uuid == Uuid::Off && self.devices.len() > 1 {
            options.uuid = Uuid::Null;
        }
        let wanted = matches!(options.uuid, Uuid::Auto | Uuid::On);
        let root = self.upper.as_ref().filter(|_| wanted)?.root.dentry();
        let [name, impure] = [Mark::Uuid, Mark::Impure].map(|mark| options.name_of(mark));
        let known = root.inode().xattr(name).ok();
        let known = known.and_then(|uuid| <[u8; 16]>::try_from(&*uuid).ok());
        if let Some(uuid) = known {
            return Some(folded(&uuid));
        }
        let uuid = random::bytes();
        let old = options.uuid == Uuid::Auto && root.inode().xattr(impure).is_ok();
        let set = XattrChange::Set(&uuid);
        let lost = old || root.inode().set_xattr(name, set).is_err();
        options.uuid = if lost { Uuid::Null } else { Uuid::On };
        (!lost).then(|| folded(&uuid))
    }
}

/// A UUID as statfs(2) has it.
fn folded(uuid: &[u8; 16]) -> u64 {
    let half = |at: usize| {
        uuid[at..]
            .first_chunk()
            .map_or(0, |half| u64::from_le_bytes(*half))
    };
    half(0) ^ half(8)
}
