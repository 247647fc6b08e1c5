//! The descriptors of a process: /proc/PID/fd and fdinfo.

use super::super::dentry::Dentry;
use super::super::file::{File, FileOps, OpenFlags, Record, Whence};
use super::super::inode::{Attr, Inode, Kind, Link, SetAttr};
use super::super::seq_file::{self, Content, Text};
use super::parse;
use super::subject::{self, Subject, Task};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_format;
use crate::put;
use crate::task::current;
use alloc::sync::Arc;
use linux_raw_sys::general::O_CLOEXEC;

/// The directory of the descriptors: of links to the files, or of what is known of them.
pub struct Directory {
    who: Task,
    device: u64,
    inode: u64,
    infos: bool,
}

impl Directory {
    /// The directory for `who`.
    pub fn new(who: Task, device: u64, inode: u64, infos: bool) -> Self {
        Directory {
            who,
            device,
            inode,
            infos,
        }
    }

    /// The process whose descriptors they are; their details are for those who may look into it.
    fn subject(&self) -> Result<Subject> {
        if self.infos {
            self.who.find_open()
        } else {
            self.who.find()
        }
    }

    fn member_kind(&self) -> Kind {
        if self.infos {
            Kind::Regular
        } else {
            Kind::Symlink
        }
    }
}

impl Inode for Directory {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        let permissions = if self.infos { 0o555 } else { 0o500 };
        let owner = self.who.owner(Kind::Directory, permissions);
        seq_file::attr(self.device, self.inode, Kind::Directory, permissions, owner)
    }

    /// A process finds its own descriptors, whatever the owner of its files.
    fn permits(&self) -> bool {
        self.who.pid == current().process_id()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Arc<Dentry>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        self.subject()?;
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let fd = parse(name).ok_or(Errno::ENOENT)?;
        self.subject()?
            .files()?
            .get(fd)
            .map_err(|_| Errno::ENOENT)?;
        let inode = seq_file::number(self.inode, name);
        seq_file::dentry(
            here,
            name,
            Descriptor {
                who: self.who,
                fd,
                device: self.device,
                inode,
                kind: self.member_kind(),
            },
        )
    }
}

impl FileOps for Directory {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        if !seq_file::dots(file.dentry(), position, emit) {
            return Ok(());
        }
        let Ok(files) = self.subject()?.files() else {
            return Ok(());
        };
        let mut from = (position as usize).saturating_sub(2);
        while let Some(fd) = files.next(from) {
            let name = try_format(format_args!("{fd}"))?;
            let inode = seq_file::number(self.inode, name.as_bytes());
            if !emit(Record {
                inode,
                kind: self.member_kind(),
                name: name.as_bytes(),
                next: fd as u64 + 3,
            }) {
                break;
            }
            from = fd + 1;
        }
        Ok(())
    }
}

/// One descriptor.
#[derive(Clone, Copy)]
struct Descriptor {
    who: Task,
    fd: i32,
    device: u64,
    inode: u64,
    kind: Kind,
}

impl Descriptor {
    fn file(&self) -> Result<Arc<File>> {
        self.who
            .find()?
            .files()?
            .get(self.fd)
            .map_err(|_| Errno::ENOENT)
    }
}

impl Inode for Descriptor {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn attr(&self) -> Attr {
        // A link's permissions show how the file is open.
        let flags = self.file().map(|file| file.flags()).unwrap_or_default();
        let permissions = match self.kind {
            Kind::Symlink => {
                0o100
                    | if flags.readable() { 0o400 } else { 0 }
                    | if flags.writable() { 0o200 } else { 0 }
            }
            _ => 0o444,
        };
        let owner = self.who.owner(self.kind, permissions);
        Attr {
            size: 64,
            ..seq_file::attr(self.device, self.inode, self.kind, permissions, owner)
        }
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Arc<Dentry>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match self.kind {
            Kind::Regular => {
                self.who.find_open()?;
                seq_file::open(*self)
            }
            _ => Err(Errno::ELOOP),
        }
    }

    fn link(&self) -> Result<Link> {
        match self.kind {
            Kind::Symlink => {
                self.who.find_open()?;
                Ok(Link::Jump(self.file()?.path().clone()))
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

impl Content for Descriptor {
    fn write(&self, text: &mut Text) -> Result<()> {
        let file = self.file()?;
        let position = file.seek(0, Whence::Current).unwrap_or(0);
        let close = self
            .who
            .find()?
            .files()?
            .close_on_exec(self.fd)
            .unwrap_or(false);
        let flags = file.flags().visible() | if close { O_CLOEXEC } else { 0 };
        put!(
            text,
            "pos:\t{position}\nflags:\t0{flags:o}\nmnt_id:\t{}\nino:\t{}\n",
            file.path().mount_id(),
            file.dentry().inode().attr().inode
        );
        file.describe(text);
        Ok(())
    }
}
