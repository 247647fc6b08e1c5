//! The files that somebody has.

use super::super::alias::Alias;
use super::super::inode::{Attr, Inode, Kind, Time};
use super::super::names::Names;
use super::super::pipe::Fifo;
use super::super::tmpfs;
use super::super::writers::Writers;
use super::fid::Fid;
use super::mapped::Mapped;
use super::session::{Handle, Session};
use super::{Key, V9fs, key_of};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, SleepMutex};
use crate::task::current;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::mem;
use linux_raw_sys::general::{CAP_FSETID, S_ISGID, S_ISUID};
use ninep::{Qid, SetStat, Stat, Valid};

/// What a file is beside its attributes.
pub enum Content {
    /// A regular file.
    File(Mapped),
    /// A directory, with the names that somebody has.
    Directory(Mutex<Names>),
    /// A pipe, of this machine's processes alone.
    Fifo(Fifo),
    /// Nothing.
    Other,
}

/// A file.
pub struct Node {
    pub fs: Arc<V9fs>,
    pub qid: Qid,
    pub kind: Kind,
    key: Key,
    pub content: Content,
    pub alias: Alias,
    pub writers: Writers,
    /// By which name it was found last.
    fid: Mutex<Arc<Fid>>,
    /// The attributes that were told last.
    attr: Mutex<Attr>,
    /// The file as it was opened last, for writing if it was.
    opened: Mutex<(Weak<Handle>, bool)>,
    /// The file as it was made, for the open that made it.
    pub made: Mutex<Option<Handle>>,
    /// Held while data is added at the end.
    pub appending: SleepMutex<()>,
}

fn time(time: ninep::Time) -> Time {
    Time {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

/// A time for the server.
pub fn to_server(time: Time) -> ninep::Time {
    ninep::Time {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

impl Node {
    /// The node of a file with these attributes.
    pub fn new(fs: Arc<V9fs>, fid: Arc<Fid>, stat: &Stat) -> Result<Arc<Self>> {
        let kind = Kind::of_mode(stat.mode).ok_or(Errno::EIO)?;
        let content = match kind {
            Kind::Regular => Content::File(Mapped::new()),
            Kind::Directory => Content::Directory(Mutex::new(Names::new())),
            Kind::Fifo => Content::Fifo(Fifo::new()?),
            _ => Content::Other,
        };
        let attr = attributes(fs.device, stat);
        try_arc(Node {
            fs,
            qid: stat.qid,
            kind,
            key: key_of(stat),
            content,
            alias: Alias::new(),
            writers: Writers::new(),
            fid: Mutex::new(fid),
            attr: Mutex::new(attr),
            opened: Mutex::new((Weak::new(), false)),
            made: Mutex::new(None),
            appending: SleepMutex::new(()),
        })
    }

    /// The session with its server.
    pub fn session(&self) -> &Arc<Session> {
        &self.fs.session
    }

    /// The fid of the name by which it was found last.
    pub fn fid(&self) -> Arc<Fid> {
        self.fid.lock().clone()
    }

    /// The names of a directory that somebody has.
    pub fn names(&self) -> Result<&Mutex<Names>> {
        match &self.content {
            Content::Directory(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The attributes that were told last.
    pub fn attributes(&self) -> Attr {
        *self.attr.lock()
    }

    /// It was found by a name.
    pub fn found(&self, fid: Arc<Fid>, stat: &Stat) {
        let old = mem::replace(&mut *self.fid.lock(), fid);
        drop(old);
        self.told(stat);
    }

    /// Its attributes were told.
    fn told(&self, stat: &Stat) {
        let attr = attributes(self.fs.device, stat);
        *self.attr.lock() = attr;
        if let Content::File(mapped) = &self.content {
            mapped.resized(attr.size);
        }
    }

    /// It was opened.
    pub fn note_opened(&self, handle: &Arc<Handle>, writable: bool) {
        let mut opened = self.opened.lock();
        let is_better = writable || !opened.1 || opened.0.strong_count() == 0;
        let new = is_better.then(|| (Arc::downgrade(handle), writable));
        let old = new.map(|new| mem::replace(&mut *opened, new));
        drop(opened);
        drop(old);
    }

    /// The fid by which it is best asked for: one that is open stays with the file when its name is
    /// gone.
    fn best_fid(&self) -> Arc<Fid> {
        let opened = self.opened.lock().0.upgrade();
        match opened {
            Some(handle) => handle.fid.clone(),
            None => self.fid(),
        }
    }

    /// Asks the server for the attributes.
    ///
    /// # Errors
    /// ESTALE: another file has its name now. Those of the server.
    pub fn refresh(&self) -> Result<()> {
        match self.session().stat(&self.best_fid()) {
            Ok(stat) if key_of(&stat) == self.key => {
                self.told(&stat);
                Ok(())
            }
            // What is open without a name is not found by servers that keep names.
            Ok(_) | Err(Errno::ENOENT) if self.attributes().links == 0 => Ok(()),
            Ok(_) => Err(Errno::ESTALE),
            Err(error) => Err(error),
        }
    }

    /// Changes attributes, after a look whether it is still the same file.
    pub fn change(&self, to: SetStat) -> Result<()> {
        self.refresh()?;
        let fid = self.best_fid();
        let request = ninep::Request::SetAttr {
            fid: fid.number(),
            to,
        };
        self.session().ask(&request, ninep::empty)?;
        // The change has been made.
        _ = self.refresh();
        Ok(())
    }

    /// Removes set-user-ID and set-group-ID from a file that this thread changes.
    pub fn lose_privileges(&self) -> Result<()> {
        let attr = self.attributes();
        if attr.mode & (S_ISUID | S_ISGID) == 0 {
            return Ok(());
        }
        let left = current().with_credentials(|who| match who.can(CAP_FSETID) {
            true => attr.mode,
            false => tmpfs::without_set_id(attr.mode, attr.gid, who),
        });
        match left == attr.mode {
            true => Ok(()),
            false => self.change(SetStat {
                valid: Valid::MODE,
                mode: left & 0o7777,
                ..SetStat::default()
            }),
        }
    }

    /// This thread has written up to `end`.
    pub fn grew(&self, end: u64) {
        let mut attr = self.attr.lock();
        attr.size = attr.size.max(end);
    }

    /// One of its names was removed.
    pub fn lost_name(&self) {
        let mut attr = self.attr.lock();
        attr.links = match self.kind {
            Kind::Directory => 0,
            _ => attr.links.saturating_sub(1),
        };
    }

    /// The node of `inode`, if it is in the same file system.
    pub fn sibling(&self, inode: &Arc<dyn Inode>) -> Result<Arc<Node>> {
        let inode: Arc<dyn Any + Send + Sync> = inode.clone();
        let node = inode.downcast::<Node>().map_err(|_| Errno::EXDEV)?;
        match Arc::ptr_eq(&node.fs, &self.fs) {
            true => Ok(node),
            false => Err(Errno::EXDEV),
        }
    }
}

fn attributes(device: u64, stat: &Stat) -> Attr {
    Attr {
        device,
        inode: stat.qid.path,
        mode: stat.mode,
        links: u32::try_from(stat.links).unwrap_or(u32::MAX),
        uid: stat.uid,
        gid: stat.gid,
        rdev: stat.rdev as u32 as u64,
        size: stat.size,
        blocks: stat.blocks,
        accessed: time(stat.accessed),
        modified: time(stat.modified),
        changed: time(stat.changed),
        created: None,
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut nodes = self.fs.nodes.lock();
        // Another node may have the key by now, or nobody ever had this one.
        let dead = nodes
            .get(&self.key)
            .is_some_and(|node| node.strong_count() == 0);
        if dead {
            nodes.remove(&self.key);
        }
    }
}
