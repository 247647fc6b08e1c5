//! The layers of a file system, and the directory in which files of the upper one are made.

use super::super::dentry::Dentry;
use super::super::file::{File, OpenFlags};
use super::super::inode::{Kind, New, SetAttr, XattrChange};
use super::super::mount;
use super::super::path::Path;
use super::marks::Mark;
use super::node::{Lower, key_of};
use super::options::{Fsync, Options, Places};
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_vec};
use crate::task::sched::{cond_resched, cond_resched_killable};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::*;

/// A lower layer.
pub struct Layer {
    /// Its root, on a mount of its own.
    root: Path,
    /// Which of the layers' file systems it is in.
    pub fs: usize,
}

/// The upper layer.
pub struct Upper {
    /// Its root, on a mount of its own.
    pub root: Path,
    /// Where files are made before they come to their places; none where there can be no such
    /// directory, and nothing is written.
    pub work: Option<Arc<Dentry>>,
    /// Whether it has extended attributes.
    pub has_attributes: bool,
}

/// All layers.
pub struct Layers {
    /// The upper one.
    pub upper: Option<Upper>,
    /// The lower ones, the uppermost first.
    pub lower: Vec<Layer>,
    /// Their roots.
    pub roots: Arc<Vec<Lower>>,
    /// The numbers of devices that files of each of their file systems show; the upper layer's is
    /// the first.
    pub devices: Vec<u64>,
    /// The keys of all roots, ascending.
    taken: Vec<usize>,
}

fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    Ok(list)
}

/// Whether both are in one file system.
fn same_fs(one: &Path, other: &Path) -> bool {
    match (one.mount(), other.mount()) {
        (Some(one), Some(other)) => core::ptr::eq(one.fs(), other.fs()),
        _ => false,
    }
}

impl Layers {
    /// The layers at these places.
    ///
    /// # Errors
    /// EINVAL: the directory of work is not beside the upper layer, or has what a volatile mount
    /// left. ELOOP: layers overlap. ENOMEM.
    pub fn new(places: Places, options: &Options) -> Result<Self> {
        let mut layers = Layers {
            upper: None,
            lower: reserved(places.lower.len())?,
            roots: try_arc(Vec::new())?,
            devices: reserved(places.lower.len() + 1)?,
            taken: reserved(places.lower.len() + 3)?,
        };
        if let (Some(upper), Some(work)) = (&places.upper, &places.work) {
            layers.add_upper(upper, work, options)?;
        }
        let mut roots = reserved(places.lower.len())?;
        for (at, place) in places.lower.iter().enumerate() {
            layers.take(place)?;
            layers.add_lower(place)?;
            roots.push(Lower {
                layer: at + 1,
                dentry: place.dentry().clone(),
            });
        }
        layers.roots = try_arc(roots)?;
        match places
            .lower
            .iter()
            .any(|place| layers.is_below_another(place))
        {
            true => Err(Errno::ELOOP),
            false => Ok(layers),
        }
    }

    fn add_upper(&mut self, upper: &Path, work: &Path, options: &Options) -> Result<()> {
        self.take(upper)?;
        let root = mount::layer(upper, 0)?;
        let within = work.is_within(upper) || upper.is_within(work);
        if !upper.same_mount(work) || within {
            return Err(Errno::EINVAL);
        }
        self.take(work)?;
        let folder = prepare_work(work, options)?;
        let mut has_attributes = false;
        if let Some(folder) = &folder {
            self.take(&work.with(folder.clone()))?;
            has_attributes = try_attributes(folder, options);
        }
        self.devices.push(super::super::new_device());
        self.upper = Some(Upper {
            root,
            work: folder,
            has_attributes,
        });
        Ok(())
    }

    fn add_lower(&mut self, place: &Path) -> Result<()> {
        let root = mount::layer(place, MS_RDONLY | MS_NOATIME)?;
        let upper = self.upper.as_ref();
        let known = self.lower.iter().find(|layer| same_fs(&layer.root, place));
        let fs = match known {
            _ if upper.is_some_and(|upper| same_fs(&upper.root, place)) => 0,
            Some(layer) => layer.fs,
            None => {
                self.devices.push(super::super::new_device());
                self.devices.len() - 1
            }
        };
        self.lower.push(Layer { root, fs });
        Ok(())
    }

    /// Notes a root; ELOOP where it is one already.
    fn take(&mut self, place: &Path) -> Result<()> {
        let key = key_of(place.inode());
        let Err(at) = self.taken.binary_search(&key) else {
            return Err(Errno::ELOOP);
        };
        self.taken.insert(at, key);
        Ok(())
    }

    /// Whether a directory is a root.
    pub fn is_taken(&self, dentry: &Dentry) -> bool {
        self.taken.binary_search(&key_of(dentry.inode())).is_ok()
    }

    /// Whether a root is within another.
    fn is_below_another(&self, place: &Path) -> bool {
        let mut above = place.parent();
        while let Some(dentry) = above {
            if self.is_taken(&dentry) {
                return true;
            }
            above = dentry.parent();
            cond_resched();
        }
        false
    }

    /// The root of a layer.
    pub fn root(&self, layer: usize) -> &Path {
        match (&self.upper, layer) {
            (Some(upper), super::UPPER) => &upper.root,
            _ => &self.lower[layer.max(1) - 1].root,
        }
    }

    /// The depth of the deepest overlay among the layers.
    pub fn most_depth(&self) -> usize {
        let mounts = self.lower.iter().filter_map(|layer| layer.root.mount());
        let depths = mounts.map(|mount| mount.fs().overlay().map_or(0, |fs| fs.depth()));
        depths.max().unwrap_or(0)
    }
}

/// The empty directory `work` in the one that was named; none where there can be no such.
///
/// # Errors
/// EINVAL: a volatile mount used it. EINTR, ENOMEM. Those of leaving the sign of a volatile mount.
fn prepare_work(place: &Path, options: &Options) -> Result<Option<Arc<Dentry>>> {
    let made = match make_work(place) {
        Err(error @ (Errno::EINVAL | Errno::EINTR | Errno::ENOMEM)) => return Err(error),
        made => made.ok(),
    };
    if let (Some(work), Fsync::Volatile) = (&made, options.fsync) {
        // The next mount has to be told.
        mark_volatile(work)?;
    }
    Ok(made)
}

fn make_work(place: &Path) -> Result<Arc<Dentry>> {
    match place.inode().lookup(place, b"work") {
        Ok(old) => clean(place, &old, 0)?,
        Err(Errno::ENOENT) => {}
        Err(error) => return Err(error),
    }
    let work = place
        .inode()
        .create(place, b"work", New::Node(S_IFDIR, 0))?;
    work.inode().set_attr(&SetAttr {
        permissions: Some(0),
        ..SetAttr::default()
    })?;
    Ok(work)
}

/// Whether the file system of `work` has the attributes that are needed.
fn try_attributes(work: &Arc<Dentry>, options: &Options) -> bool {
    let name = options.name_of(Mark::Opaque);
    let has = work.inode().set_xattr(name, XattrChange::Set(b"0")).is_ok();
    if has {
        _ = work.inode().set_xattr(name, XattrChange::Remove);
    }
    has
}

/// Leaves a sign that says, until somebody removes it, that the upper layer may lack data.
fn mark_volatile(work: &Arc<Dentry>) -> Result<()> {
    let mut here = work.clone();
    for name in [&b"incompat"[..], b"volatile"] {
        here = here.inode().create(&here, name, New::Node(S_IFDIR, 0))?;
    }
    let file = New::Node(S_IFREG, 0);
    here.inode().create(&here, b"dirty", file).map(drop)
}

/// Removes what an earlier mount left in `parent`. There is no more than files, and directories of
/// files.
///
/// # Errors
/// EINVAL: it needs what is not known here. ENOTEMPTY: there is more.
fn clean(parent: &Path, victim: &Arc<Dentry>, level: usize) -> Result<()> {
    let removed = parent.inode().remove(parent, victim);
    if removed.is_ok() || victim.kind() != Kind::Directory || level > 1 {
        return removed;
    }
    let here = parent.with(victim.clone());
    let is_incompatible = level == 1 && &*victim.name() == b"incompat";
    for name in names_in(&here)? {
        if is_incompatible {
            return Err(Errno::EINVAL);
        }
        let child = here.inode().lookup(&here, &name)?;
        clean(&here, &child, level + 1)?;
        cond_resched_killable()?;
    }
    parent.inode().remove(parent, victim)
}

/// The names in a directory of a layer.
pub fn names_in(directory: &Path) -> Result<Vec<Vec<u8>>> {
    let file = open(directory, O_RDONLY | O_DIRECTORY)?;
    let (mut names, mut outcome) = (Vec::new(), Ok(()));
    file.ops().read_dir(&file, 0, &mut |record| {
        if matches!(record.name, b"." | b"..") {
            return true;
        }
        outcome = cond_resched_killable().and_then(|()| {
            names.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            names.push(try_vec(record.name)?);
            Ok(())
        });
        outcome.is_ok()
    })?;
    outcome.map(|()| names)
}

/// Opens a file of a layer, of which nobody is notified.
pub fn open(path: &Path, flags: u32) -> Result<Arc<File>> {
    let flags = OpenFlags(flags | O_LARGEFILE | OpenFlags::UNREPORTED);
    let ops = path.inode().clone().open(path, flags)?;
    File::with_ops(path.clone(), ops, flags)
}
