//! The feature flags of a superblock, and those that this crate supports.

use bitflags::bitflags;

use crate::{Error, Result};

bitflags! {
    /// Features that need no support for mounting.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Compatible: u32 {
        /// The file system has a journal.
        const JOURNAL = 0x4;
        /// Inodes have attributes.
        const ATTRIBUTES = 0x8;
        /// Directories may have an index.
        const DIR_INDEX = 0x20;
        /// The two groups with copies of the superblock are named in it.
        const SPARSE_SUPER2 = 0x200;
        /// There is a file of orphans besides their list.
        const ORPHAN_FILE = 0x1000;
        const _ = !0;
    }

    /// Features that must be supported for reading.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Incompatible: u32 {
        /// Directory entries contain the file type.
        const FILE_TYPE = 0x2;
        /// The journal must be replayed.
        const RECOVER = 0x4;
        /// Group descriptors are in their groups.
        const META_BG = 0x10;
        /// Files are mapped by extents.
        const EXTENTS = 0x40;
        /// Block numbers have more than 32 bits.
        const BIT64 = 0x80;
        /// A group's bitmaps and inodes may be in another group.
        const FLEX_BG = 0x200;
        /// The seed of checksums is in the superblock.
        const CSUM_SEED = 0x2000;
        /// An index may have three levels.
        const LARGE_DIR = 0x4000;
        /// Small files and directories are in their inodes.
        const INLINE_DATA = 0x8000;
        const _ = !0;
    }

    /// Features that must be supported for writing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadOnly: u32 {
        /// Only few groups have copies of the superblock.
        const SPARSE_SUPER = 0x1;
        /// There are files of 2 GiB and more.
        const LARGE_FILE = 0x2;
        /// An inode may count blocks in file system blocks.
        const HUGE_FILE = 0x8;
        /// Group descriptors have a CRC-16.
        const GDT_CSUM = 0x10;
        /// A directory may have more than 65,000 links.
        const DIR_NLINK = 0x20;
        /// Inodes have fields beyond the first 128 bytes.
        const EXTRA_ISIZE = 0x40;
        /// Metadata has a CRC-32C.
        const METADATA_CSUM = 0x400;
        /// The image must not be written.
        const READ_ONLY = 0x1000;
        /// The file of orphans is not empty.
        const ORPHAN_PRESENT = 0x10000;
        const _ = !0;
    }
}

const READS: Incompatible = Incompatible::FILE_TYPE
    .union(Incompatible::RECOVER)
    .union(Incompatible::META_BG)
    .union(Incompatible::EXTENTS)
    .union(Incompatible::BIT64)
    .union(Incompatible::FLEX_BG)
    .union(Incompatible::CSUM_SEED)
    .union(Incompatible::LARGE_DIR)
    .union(Incompatible::INLINE_DATA);

const WRITES: ReadOnly = ReadOnly::SPARSE_SUPER
    .union(ReadOnly::LARGE_FILE)
    .union(ReadOnly::HUGE_FILE)
    .union(ReadOnly::GDT_CSUM)
    .union(ReadOnly::DIR_NLINK)
    .union(ReadOnly::EXTRA_ISIZE)
    .union(ReadOnly::METADATA_CSUM)
    .union(ReadOnly::ORPHAN_PRESENT);

/// All three sets.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// Those that need no support.
    pub compatible: Compatible,
    /// Those that must be supported for reading.
    pub incompatible: Incompatible,
    /// Those that must be supported for writing.
    pub read_only: ReadOnly,
}

impl Features {
    /// Checks that all features needed for reading are supported.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the name of one that is not.
    pub fn check_reading(&self) -> Result<()> {
        // It changes the meaning of a group's numbers.
        if self.read_only.bits() & 0x200 != 0 {
            return Err(Error::Unsupported("bigalloc"));
        }
        let rest = self.incompatible.difference(READS).bits();
        let name = match rest & rest.wrapping_neg() {
            0 => return Ok(()),
            0x1 => "compression",
            0x8 => "journal_dev",
            0x100 => "mmp",
            0x400 => "ea_inode",
            0x1000 => "dirdata",
            0x10000 => "encrypt",
            0x20000 => "casefold",
            _ => "an incompatible feature that is not known",
        };
        Err(Error::Unsupported(name))
    }

    /// Checks whether the image can be written. Images without extents, without a journal, or with
    /// inline data can only be read.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the name of a feature that forbids it or is missing.
    pub fn check_writing(&self) -> Result<()> {
        let rest = self.read_only.difference(WRITES).bits();
        let name = match rest & rest.wrapping_neg() {
            0 if !self.incompatible.contains(Incompatible::EXTENTS) => "write without extents",
            0 if !self.incompatible.contains(Incompatible::FILE_TYPE) => "write without filetype",
            0 if self.incompatible.contains(Incompatible::INLINE_DATA) => "write with inline_data",
            0 if !self.compatible.contains(Compatible::JOURNAL) => "write without has_journal",
            0 => return Ok(()),
            0x100 => "quota",
            0x1000 => "read-only",
            0x2000 => "project",
            0x8000 => "verity",
            _ => "a read-only feature that is not known",
        };
        Err(Error::Unsupported(name))
    }
}
