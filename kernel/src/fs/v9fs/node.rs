//! The files that somebody has.

use super::super::alias::Alias;
use super::super::inode::{Attr, Inode, Kind, Time};
use super::super::names::Names;
use super::super::pipe::Fifo;
use super::super::tmpfs;
use super::super::writers::Writers;
use super::fid::Fid;
use super::mapped::Mapped;
use super::session::{Handle, Session, Told};
use super::{Key, V9fs, key_of};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, SleepMutex};
use crate::task::current;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::mem;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::*};
use linux_raw_sys::general::{CAP_FSETID, S_ISGID, S_ISUID};
use ninep::{Qid, Request, SetStat, Stat, Valid};

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
    known: Mutex<Known>,
    /// Its last name was removed: another file may have its number.
    gone: AtomicBool,
    /// The file as it was opened last, for writing if it was.
    opened: Mutex<(Weak<Handle>, bool)>,
    /// The file as it was made, for the open that made it.
    pub made: Mutex<Option<Handle>>,
    /// Held while data is added at the end.
    pub appending: SleepMutex<()>,
}

/// What is known of a file.
struct Known {
    /// The attributes that were told last.
    attr: Attr,
    generation: Option<u64>,
    /// When they were asked for.
    asked: u64,
    /// When this machine wrote last: what was asked for before may not count that.
    wrote: u64,
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
    pub fn new(fs: Arc<V9fs>, fid: Arc<Fid>, told: &Told) -> Result<Arc<Self>> {
        let stat = &told.stat;
        let kind = Kind::of_mode(stat.mode).ok_or(Errno::EIO)?;
        let content = match kind {
            Kind::Regular => Content::File(Mapped::new()),
            Kind::Directory => Content::Directory(Mutex::new(Names::new())),
            Kind::Fifo => Content::Fifo(Fifo::new()?),
            _ => Content::Other,
        };
        let known = Known {
            attr: attributes(fs.device, stat),
            generation: stat.generation,
            asked: told.asked,
            wrote: 0,
        };
        try_arc(Node {
            fs,
            qid: stat.qid,
            kind,
            key: key_of(stat),
            content,
            alias: Alias::new(),
            writers: Writers::new(),
            fid: Mutex::new(fid),
            known: Mutex::new(known),
            gone: AtomicBool::new(false),
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
        self.known.lock().attr
    }

    /// It was found by a name.
    pub fn found(&self, fid: Arc<Fid>, told: &Told) {
        let old = mem::replace(&mut *self.fid.lock(), fid);
        drop(old);
        self.told(told);
    }

    /// Its attributes were told; what was asked for later may have been told before.
    fn told(&self, told: &Told) {
        let mut attr = attributes(self.fs.device, &told.stat);
        {
            let mut known = self.known.lock();
            if told.asked < known.asked {
                return;
            }
            if told.asked < known.wrote {
                attr.size = attr.size.max(known.attr.size);
            }
            known.attr = attr;
            known.asked = told.asked;
            known.generation = told.stat.generation.or(known.generation);
        }
        self.fit_pages();
    }

    /// Gives its pages its size.
    fn fit_pages(&self) {
        let Content::File(mapped) = &self.content else {
            return;
        };
        loop {
            let size = self.attributes().size;
            mapped.resized(size);
            // Two threads may come here in another order than to the attributes.
            if self.attributes().size == size {
                return;
            }
        }
    }

    /// Whether what was told is of this file.
    fn is_same(&self, stat: &Stat) -> bool {
        let known = self.known.lock().generation;
        let differs = known.zip(stat.generation).is_some_and(|(a, b)| a != b);
        key_of(stat) == self.key && !differs
    }

    /// The same of what was told of a name: no name leads to a file that is gone.
    pub fn is_still(&self, stat: &Stat) -> bool {
        self.is_same(stat) && !self.gone.load(Acquire)
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

    /// It as somebody has it open, for writing if that is wanted.
    fn handle(&self, writable: bool) -> Option<Arc<Handle>> {
        let opened = self.opened.lock();
        let handle = opened.0.upgrade();
        let fits = opened.1 || !writable;
        drop(opened);
        handle.filter(|_| fits)
    }

    /// Opens it by its name, with the protocol's flags.
    ///
    /// # Errors
    /// ESTALE: another file has its name now. Those of the server.
    pub fn open_as(&self, flags: u32) -> Result<Handle> {
        let _names = self.fs.names.read_killable()?;
        let handle = self.session().open(self.fid(), flags)?;
        let told = self.session().stat(&handle.fid, true)?;
        match self.is_still(&told.stat) {
            true => {
                self.told(&told);
                Ok(handle)
            }
            false => Err(Errno::ESTALE),
        }
    }

    /// Checks that a fid's name leads to it. With [`V9fs::names`].
    pub fn check_name(&self, fid: &Fid) -> Result<()> {
        match self.is_still(&self.session().stat(fid, true)?.stat) {
            true => Ok(()),
            false => Err(Errno::ESTALE),
        }
    }

    /// Does something by its name, once that was found to lead to it.
    ///
    /// # Errors
    /// ENOENT, ESTALE: nothing has its name now, or another file. Those of `act`.
    pub fn by_name<T>(&self, act: impl FnOnce(&Fid) -> Result<T>) -> Result<T> {
        let name = self.fid();
        self.while_named(&name, || act(&name))
    }

    /// The same by a fid with this name.
    fn while_named<T>(&self, name: &Fid, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let _names = self.fs.names.read_killable()?;
        self.check_name(name)?;
        act()
    }

    /// Asks the server for the attributes.
    ///
    /// # Errors
    /// ESTALE: another file has its name now. Those of the server.
    pub fn refresh(&self) -> Result<()> {
        // A fid that is open stays with the file when its name is gone.
        let told = match self.handle(false) {
            Some(handle) => self.session().stat(&handle.fid, false),
            None => self.session().stat(&self.fid(), true),
        };
        match told {
            Ok(told) if self.is_same(&told.stat) => {
                self.told(&told);
                Ok(())
            }
            // What is open without a name is not found by servers that keep names.
            Ok(_) | Err(Errno::ENOENT) if self.attributes().links == 0 => Ok(()),
            Ok(_) => Err(Errno::ESTALE),
            Err(error) => Err(error),
        }
    }

    /// Changes attributes. The size by a fid that is open for writing, if there is one: it needs no
    /// permission any more.
    ///
    /// # Errors
    /// ENOENT: nothing has its name now, and the server does not do this without. ESTALE: another
    /// file has it. Those of the server.
    pub fn change(&self, to: SetStat) -> Result<()> {
        let sets_size = to.valid.contains(Valid::SIZE);
        let opened = self.handle(sets_size);
        let done = match &opened {
            Some(handle) if sets_size => {
                self.while_named(&handle.name, || self.ask_change(&handle.fid, to))
            }
            _ => self.by_name(|name| self.ask_change(name, to)),
        };
        match (done, opened) {
            (Err(Errno::ENOENT), Some(handle)) => self.change_unnamed(&handle, to)?,
            (done, _) => done?,
        }
        // The change has been made.
        _ = self.refresh();
        Ok(())
    }

    /// Changes attributes of what is open and has no name; nor gets another file that name
    /// meanwhile.
    fn change_unnamed(&self, open: &Handle, to: SetStat) -> Result<()> {
        let _alone = self.fs.names.write_killable()?;
        match self.check_name(&open.name) {
            Ok(()) | Err(Errno::ENOENT) => self.ask_change(&open.fid, to),
            Err(error) => Err(error),
        }
    }

    fn ask_change(&self, fid: &Fid, to: SetStat) -> Result<()> {
        let fid = fid.number();
        let request = Request::SetAttr { fid, to };
        self.session().ask(&request, ninep::empty)
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

    /// These bytes were written.
    pub fn wrote(&self, range: Range<u64>) {
        let now = self.session().now();
        {
            let mut known = self.known.lock();
            known.wrote = known.wrote.max(now);
            known.attr.size = known.attr.size.max(range.end);
        }
        if let Content::File(mapped) = &self.content {
            mapped.written(range);
        }
        self.fit_pages();
    }

    /// One of its names was removed.
    pub fn lost_name(&self) {
        let links = {
            let attr = &mut self.known.lock().attr;
            attr.links = match self.kind {
                Kind::Directory => 0,
                _ => attr.links.saturating_sub(1),
            };
            attr.links
        };
        if links == 0 {
            self.gone.store(true, Release);
        }
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
