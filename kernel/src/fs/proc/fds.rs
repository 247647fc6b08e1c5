//! The descriptors of a process: /proc/PID/fd and fdinfo.

use super::super::dentry::Dentry;
use super::super::file::{File, FileOps, OpenFlags, Record, Whence};
use super::super::inode::{Attr, Inode, Kind, Link, SetAttr};
use super::super::path::Path;
use super::super::seq_file::{self, Content, Text};
use super::parse;
use super::subject::{self, ProcInode, Subject};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_format;
use crate::put;
use alloc::sync::Arc;
use linux_raw_sys::general::O_CLOEXEC;

/// A directory of descriptors: of links to the files, or of their details.
pub struct Directory {
    own: ProcInode,
    infos: bool,
}

impl Directory {
    /// The directory with the inode `own`.
    pub fn new(own: ProcInode, infos: bool) -> Self {
        Directory { own, infos }
    }

    /// The process whose descriptors they are; their details are only for processes that may
    /// inspect it.
    fn subject(&self) -> Result<Subject> {
        if self.infos {
            self.own.who.find_open()
        } else {
            self.own.who.find()
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
        self.own.attr(Kind::Directory, permissions)
    }

    /// A process can access its own descriptors, whoever owns its procfs files.
    fn permits(&self) -> bool {
        self.own.is_own()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        self.subject()?;
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let fd = parse(name).ok_or(Errno::ENOENT)?;
        let files = self.subject()?.files();
        files
            .and_then(|files| files.get(fd))
            .map_err(|_| Errno::ENOENT)?;
        let descriptor = Descriptor {
            own: self.own.member(name),
            fd,
            kind: self.member_kind(),
        };
        seq_file::dentry(here, name, descriptor)
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
            let (kind, next) = (self.member_kind(), fd as u64 + 3);
            if !self.own.emit(emit, kind, name.as_bytes(), next) {
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
    own: ProcInode,
    fd: i32,
    kind: Kind,
}

impl Descriptor {
    fn file(&self) -> Result<Arc<File>> {
        self.own
            .who
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
        Attr {
            size: 64,
            ..self.own.attr(self.kind, permissions)
        }
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match self.kind {
            Kind::Regular => {
                self.own.who.find_open()?;
                seq_file::open(*self)
            }
            _ => Err(Errno::ELOOP),
        }
    }

    fn link(&self) -> Result<Link> {
        match self.kind {
            Kind::Symlink => {
                self.own.who.find_open()?;
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
            .own
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
