//! What the file system notes in its layers: extended attributes and whiteouts.

use super::super::dentry::Dentry;
use super::super::inode::{Kind, XattrChange};
use super::Overlay;
use super::options::Options;
use crate::errno::{Errno, Result};
use alloc::vec::Vec;

/// An attribute of a file in a layer that belongs to the file system.
#[derive(Clone, Copy)]
pub enum Mark {
    /// `y`: a directory hides those of its name below. `x`: it has whiteouts that are files.
    Opaque,
    /// The file that it was copied from.
    Origin,
    /// Where a directory is found below.
    Redirect,
    /// The directory of the upper layer has files that were copied up.
    Impure,
    /// An empty file is a whiteout.
    Whiteout,
    /// The file has no data of its own.
    Metacopy,
    /// The UUID of the file system.
    Uuid,
}

/// The beginnings of the names of all marks.
const TRUSTED: &[u8] = b"trusted.overlay.";
const USER: &[u8] = b"user.overlay.";
/// What follows these in the names of attributes that another overlay has in its files.
pub const ESCAPE: &[u8] = b"overlay.";

impl Mark {
    /// The name, among trusted attributes and among users'.
    const fn names(self) -> [&'static [u8]; 2] {
        match self {
            Mark::Opaque => [b"trusted.overlay.opaque", b"user.overlay.opaque"],
            Mark::Origin => [b"trusted.overlay.origin", b"user.overlay.origin"],
            Mark::Redirect => [b"trusted.overlay.redirect", b"user.overlay.redirect"],
            Mark::Impure => [b"trusted.overlay.impure", b"user.overlay.impure"],
            Mark::Whiteout => [b"trusted.overlay.whiteout", b"user.overlay.whiteout"],
            Mark::Metacopy => [b"trusted.overlay.metacopy", b"user.overlay.metacopy"],
            Mark::Uuid => [b"trusted.overlay.uuid", b"user.overlay.uuid"],
        }
    }
}

/// The file that one of the upper layer was copied from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Which of the layers' file systems it is in.
    pub fs: usize,
    /// Its inode's number there.
    pub number: u64,
}

/// The head of a file handle (struct ovl_fb): version, magic number, length, flags, type of the
/// handle (FILEID_INO32_GEN), and a UUID, which is not known here.
const HANDLE: [u8; 21] = [
    0, 0xfb, 33, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The handle of an inode: of any generation, and its number.
pub fn handle(number: u64) -> [u8; 33] {
    let mut handle = [0; 33];
    handle[..21].copy_from_slice(&HANDLE);
    handle[25..].copy_from_slice(&number.to_le_bytes());
    handle
}

/// The number of the inode that a handle is of, where it is of a kind that is known.
fn number(handle: &[u8]) -> Option<u64> {
    let known = [0, 1, 4].map(|at| handle.get(at) == HANDLE.get(at));
    let word = |at: usize| Some(u32::from_le_bytes(*handle.get(at..)?.first_chunk()?).into());
    match (known, handle.len()) {
        // ext4's has the generation behind the number.
        ([true, true, true], 29) => word(21),
        ([true, true, true], 33) => Some(word(25)? | word(29)? << 32),
        _ => None,
    }
}

impl Options {
    /// The name of a mark.
    pub fn name_of(&self, mark: Mark) -> &'static [u8] {
        let [trusted, user] = mark.names();
        match self.user_attributes {
            true => user,
            false => trusted,
        }
    }
}

impl Overlay {
    fn prefix(&self) -> &'static [u8] {
        match self.options.user_attributes {
            true => USER,
            false => TRUSTED,
        }
    }

    /// What follows the beginning of an attribute's name, where that is the file system's.
    pub fn own_name<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        name.strip_prefix(self.prefix())
    }

    /// Whether an attribute is a mark, and none that stands for a file's own.
    pub fn is_private(&self, name: &[u8]) -> bool {
        self.own_name(name)
            .is_some_and(|rest| !rest.starts_with(ESCAPE))
    }

    /// The name in the layers of what is called `name` in the file system.
    ///
    /// # Errors
    /// EOPNOTSUPP: it is too long. ENOMEM.
    pub fn escaped(&self, rest: &[u8]) -> Result<Vec<u8>> {
        const NAME_MAX: usize = 255;
        let parts = [self.prefix(), ESCAPE, rest];
        let len = parts.iter().map(|part| part.len()).sum();
        if len > NAME_MAX {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut name = Vec::new();
        name.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        parts.iter().for_each(|part| name.extend_from_slice(part));
        Ok(name)
    }

    /// The mark that a file of a layer has.
    ///
    /// # Errors
    /// Those of reading it; that there is none is no error.
    pub fn mark(&self, dentry: &Dentry, mark: Mark) -> Result<Option<Vec<u8>>> {
        match dentry.inode().xattr(self.options.name_of(mark)) {
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Marks a file of the upper layer.
    ///
    /// # Errors
    /// `without`, where that layer has no attributes. Those of setting it.
    pub fn set_mark(
        &self,
        dentry: &Dentry,
        mark: Mark,
        value: &[u8],
        without: Errno,
    ) -> Result<()> {
        if self.has_no_attributes() {
            return Err(without);
        }
        let change = XattrChange::Set(value);
        dentry.inode().set_xattr(self.options.name_of(mark), change)
    }

    /// The letter by which a directory of a layer hides those below, or some of their files.
    pub fn opacity(&self, dentry: &Dentry) -> Option<u8> {
        match self.mark(dentry, Mark::Opaque) {
            Ok(Some(value)) => value.first().copied().filter(|_| value.len() == 1),
            _ => None,
        }
    }

    /// Whether a file of a layer says that there is none.
    pub fn is_whiteout(&self, dentry: &Dentry) -> bool {
        match dentry.kind() {
            Kind::Character => dentry.inode().attr().rdev == 0,
            Kind::Regular => self.is_file_whiteout(dentry),
            _ => false,
        }
    }

    /// Whether an empty file is a whiteout.
    pub fn is_file_whiteout(&self, dentry: &Dentry) -> bool {
        dentry.inode().attr().size == 0 && matches!(self.mark(dentry, Mark::Whiteout), Ok(Some(_)))
    }

    /// The file that one of the upper layer was copied from, if that is known: the numbers of
    /// several lower file systems could not be told apart.
    pub fn origin(&self, upper: &Dentry) -> Option<Origin> {
        let fs = self.only_lower_fs()?;
        let handle = self.mark(upper, Mark::Origin).ok()??;
        let number = number(&handle)?;
        Some(Origin { fs, number })
    }
}
