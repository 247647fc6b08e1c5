//! The files that a process has mapped: /proc/PID/map_files.

use super::super::dentry::Dentry;
use super::super::file::{File, FileOps, OpenFlags, Record};
use super::super::inode::{Attr, Inode, Kind, Link, SetAttr};
use super::super::path::Path;
use super::super::seq_file;
use super::subject::{self, ProcInode};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_format;
use crate::mm::vma::{Source, Vma};
use crate::task::can;
use alloc::sync::Arc;
use core::any::Any;
use core::ops::Range;
use linux_raw_sys::general::{CAP_CHECKPOINT_RESTORE, CAP_SYS_ADMIN};

const PERMISSIONS: u32 = 0o500;

/// The directory: a link for each VMA of a file, named by its addresses.
pub struct Directory(pub ProcInode);

/// The file of a VMA.
fn file(vma: &Vma) -> Option<Arc<File>> {
    let Source::File { mapping, .. } = &vma.source else {
        return None;
    };
    let mapping: Arc<dyn Any + Send + Sync> = mapping.clone();
    mapping.downcast().ok()
}

/// The addresses in a name, in the kernel's format.
fn range(name: &[u8]) -> Option<Range<usize>> {
    let name = core::str::from_utf8(name).ok()?;
    let (start, end) = name.split_once('-')?;
    let parse = |digits: &str| {
        let plain = digits
            .bytes()
            .all(|byte| b"0123456789abcdef".contains(&byte));
        let short = digits == "0" || !digits.starts_with('0');
        let value = usize::from_str_radix(digits, 16).ok();
        value.filter(|_| plain && short)
    };
    Some(parse(start)?..parse(end)?)
}

impl Inode for Directory {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        self.0.attr(Kind::Directory, PERMISSIONS)
    }

    /// A process can access its own files, whoever owns the directory.
    fn permits(&self) -> bool {
        self.0.is_own()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let range = range(name).ok_or(Errno::ENOENT)?;
        let own = self.0.member(name);
        let link = Mapped { own, range };
        link.file()?;
        seq_file::dentry(here, name, link)
    }
}

impl FileOps for Directory {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        let subject = self.0.who.find_open()?;
        if !seq_file::dots(file.dentry(), position, emit) {
            return Ok(());
        }
        let Some(space) = subject.space() else {
            return Ok(());
        };
        let first = (position as usize)
            .saturating_sub(2)
            .saturating_mul(PAGE_SIZE);
        for vma in space.vmas_from(first) {
            if self::file(&vma).is_none() {
                continue;
            }
            let name = try_format(format_args!("{:x}-{:x}", vma.start, vma.end))?;
            let next = (vma.end / PAGE_SIZE) as u64 + 2;
            if !self.0.emit(emit, Kind::Symlink, name.as_bytes(), next) {
                break;
            }
        }
        Ok(())
    }
}

/// A link to a mapped file.
struct Mapped {
    own: ProcInode,
    range: Range<usize>,
}

impl Mapped {
    fn file(&self) -> Result<Arc<File>> {
        let space = self.own.who.find_open()?.space().ok_or(Errno::ENOENT)?;
        let vma = space.vma_after(self.range.start);
        let vma = vma.filter(|vma| vma.range() == self.range);
        vma.as_ref().and_then(file).ok_or(Errno::ENOENT)
    }
}

impl Inode for Mapped {
    fn kind(&self) -> Kind {
        Kind::Symlink
    }

    fn attr(&self) -> Attr {
        // The permissions show how the file is open.
        let flags = self.file().map(|file| file.flags()).unwrap_or_default();
        let right = |has: bool, bit: u32| if has { bit } else { 0 };
        let permissions = right(flags.readable(), 0o400) | right(flags.writable(), 0o200);
        Attr {
            size: 64,
            ..self.own.attr(Kind::Symlink, permissions)
        }
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ELOOP)
    }

    fn link(&self) -> Result<Link> {
        Ok(Link::Jump(self.file()?.path().clone()))
    }

    /// A process that maps a file may not be allowed to open it, so this requires privileges.
    fn follow(&self) -> Result<Link> {
        if can(CAP_SYS_ADMIN) || can(CAP_CHECKPOINT_RESTORE) {
            self.link()
        } else {
            Err(Errno::EPERM)
        }
    }
}
