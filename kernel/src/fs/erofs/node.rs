//! The inodes that somebody has.

use super::super::alias::Alias;
use super::super::device;
use super::super::inode::{Attr, Kind, Time};
use super::super::names::Names;
use super::super::page_cache::Mapping;
use super::super::pipe::Fifo;
use super::super::recent::Numbered;
use super::super::writers::Writers;
use super::Erofs;
use super::backing::FileData;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use erofs::Inode;

/// What an inode is beside its attributes.
pub enum Content {
    /// A regular file.
    File(Arc<Mapping>),
    /// A directory, with the names that somebody has.
    Directory(Mutex<Names>),
    /// A pipe.
    Fifo(Fifo),
    /// Nothing.
    Other,
}

/// An inode.
pub struct Node {
    pub fs: Arc<Erofs>,
    pub inode: Inode,
    pub kind: Kind,
    pub content: Content,
    pub alias: Alias,
    pub writers: Writers,
    /// Somebody looked it up since it was last asked.
    pub wanted: AtomicBool,
}

impl Node {
    /// The node of an inode.
    pub fn new(fs: Arc<Erofs>, inode: Inode) -> Result<Arc<Self>> {
        let kind = Kind::of_mode(inode.mode().into()).ok_or(Errno::EUCLEAN)?;
        let content = match kind {
            Kind::Regular => {
                let data = FileData::new(fs.clone(), inode)?;
                Content::File(Mapping::new(data, inode.size())?)
            }
            Kind::Directory => Content::Directory(Mutex::new(Names::new())),
            Kind::Fifo => Content::Fifo(Fifo::new()?),
            _ => Content::Other,
        };
        try_arc(Node {
            fs,
            inode,
            kind,
            content,
            alias: Alias::new(),
            writers: Writers::new(),
            wanted: AtomicBool::new(false),
        })
    }

    /// The content of a regular file.
    pub fn data(&self) -> Result<&Arc<Mapping>> {
        match &self.content {
            Content::File(mapping) => Ok(mapping),
            Content::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The names of a directory that somebody has.
    pub fn names(&self) -> Result<&Mutex<Names>> {
        match &self.content {
            Content::Directory(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Its attributes: there is one time, and none of its making.
    pub fn attributes(&self) -> Attr {
        let (inode, block) = (&self.inode, self.fs.fs.geometry().block_size() as u64);
        let (major, minor) = inode.device();
        let time = Time {
            seconds: inode.time().seconds,
            nanoseconds: inode.time().nanoseconds,
        };
        Attr {
            device: self.fs.volume.number(),
            inode: inode.number(),
            mode: inode.mode().into(),
            links: inode.links(),
            uid: inode.uid(),
            gid: inode.gid(),
            rdev: device::number(major, minor),
            size: inode.size(),
            blocks: match inode.noted_blocks() {
                Some(blocks) => u64::from(blocks) * block / 512,
                None => inode.size().next_multiple_of(block) / 512,
            },
            accessed: time,
            modified: time,
            changed: time,
            created: None,
        }
    }
}

impl Numbered for Node {
    fn place(&self) -> usize {
        self.inode.number() as usize
    }

    fn wanted(&self) -> &AtomicBool {
        &self.wanted
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let at = self.place();
        let mut nodes = self.fs.nodes.lock();
        // Another node may have the number by now, or nobody ever had this one.
        if nodes.get(at).is_some_and(|node| node.strong_count() == 0) {
            nodes.remove_range(at, at, &mut drop);
        }
    }
}
