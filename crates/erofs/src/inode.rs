//! Inodes.

use crate::format::{CompactInode, ExtendedInode, SLOT_BITS};
use crate::{Device, Error, Fs, Result};

/// Bits of the format: the form, and how the data lies.
const KNOWN: u16 = 0xf;
/// Bits of a chunk's format: its size, as a shift, and that there are indexes in place of numbers
/// of blocks.
const CHUNK_BITS: u32 = 0x1f;
const CHUNK_INDEXES: u32 = 0x20;
/// The type of a regular file in its mode, as a directory's record has it (DT_REG).
const REGULAR: u16 = 0o10;

/// A point in time since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds below one second.
    pub nanoseconds: u32,
}

/// How an inode's data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In successive blocks from this one on.
    Flat(u32),
    /// The same, but that its last part follows the inode.
    Inline(u32),
    /// In chunks, whose places follow the inode.
    Chunks(Chunks),
    /// Compressed, with indexes that follow the inode.
    Compressed(Compressed),
}

/// The chunks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// Bytes of one, as a shift.
    pub bits: u32,
    /// Whether their places are [`crate::format::ChunkIndex`]es, and not numbers of blocks.
    pub indexed: bool,
}

/// The indexes of a compressed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compressed {
    /// Whether several share a block's number, and whether some of these have two bytes each.
    pub compact: bool,
    /// As above.
    pub short: bool,
    /// Whether clusters may have several blocks: those of the first kind, and others.
    pub big: [bool; 2],
    /// Bytes that an index stands for, as a shift.
    pub bits: u32,
    /// Where they begin.
    pub indexes: u64,
}

/// An inode.
#[derive(Clone, Copy, Debug)]
pub struct Inode {
    number: u64,
    mode: u16,
    uid: u32,
    gid: u32,
    links: u32,
    size: u64,
    time: Time,
    /// See [`CompactInode::content`].
    content: u32,
    pub(crate) layout: Layout,
    /// Where its attributes begin.
    pub(crate) attributes: u64,
    /// How many bytes they take there.
    pub(crate) attributes_size: u32,
}

/// The fields of both forms.
struct Fields {
    format: u16,
    attribute_count: u16,
    mode: u16,
    uid: u32,
    gid: u32,
    links: u32,
    size: u64,
    time: Time,
    content: u32,
    /// Bytes of the form.
    length: u64,
}

impl Fields {
    fn of_compact(raw: CompactInode, time: Time) -> Self {
        Self {
            format: raw.format.get(),
            attribute_count: raw.attribute_count.get(),
            mode: raw.mode.get(),
            uid: raw.uid.get().into(),
            gid: raw.gid.get().into(),
            links: raw.links.get().into(),
            size: raw.size.get().into(),
            time,
            content: raw.content.get(),
            length: size_of::<CompactInode>() as u64,
        }
    }

    fn of_extended(raw: ExtendedInode) -> Self {
        Self {
            format: raw.format.get(),
            attribute_count: raw.attribute_count.get(),
            mode: raw.mode.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            links: raw.links.get(),
            size: raw.size.get(),
            time: time(raw.time.get(), raw.nanoseconds.get()),
            content: raw.content.get(),
            length: size_of::<ExtendedInode>() as u64,
        }
    }
}

fn time(seconds: u64, nanoseconds: u32) -> Time {
    Time {
        seconds: seconds as i64,
        nanoseconds: nanoseconds.min(999_999_999),
    }
}

impl Inode {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Type and permissions (`S_IF*`).
    pub fn mode(&self) -> u16 {
        self.mode
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Names.
    pub fn links(&self) -> u32 {
        self.links
    }

    /// Bytes, fewer than 2^63.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether its data is compressed.
    pub fn is_compressed(&self) -> bool {
        matches!(self.layout, Layout::Compressed(_))
    }

    /// Blocks of its data on the device, where that is noted.
    pub fn noted_blocks(&self) -> Option<u32> {
        Some(self.content).filter(|blocks| self.is_compressed() && *blocks > 0)
    }

    /// When it was last changed in any way.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The numbers of a device, the major one first; (0, 0) of others.
    pub fn device(&self) -> (u32, u32) {
        match self.kind() {
            0o02 | 0o06 => (
                self.content >> 8 & 0xfff,
                self.content & 0xff | self.content >> 12 & 0xf_ff00,
            ),
            _ => (0, 0),
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == 0o04
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.kind() == 0o12
    }

    /// The type in its mode, as a directory's record has it (DT_*).
    fn kind(&self) -> u16 {
        self.mode >> 12
    }

    /// The byte behind the inode and its attributes.
    pub(crate) fn tail(&self) -> u64 {
        self.attributes + u64::from(self.attributes_size)
    }
}

impl<D: Device> Fs<D> {
    /// Reads an inode.
    ///
    /// # Errors
    /// [`Error::Io`]: also where the number is none of this image. [`Error::Corrupt`],
    /// [`Error::Unsupported`], [`Error::NoMemory`].
    pub fn inode(&self, number: u64) -> Result<Inode> {
        let base = self
            .geometry
            .byte_of(self.geometry.superblock.inode_block.get());
        // Where the sum is too large, that is behind the end of any device.
        let offset = number.saturating_mul(1 << SLOT_BITS);
        let at = base.saturating_add(offset);
        let compact: CompactInode = self.load(at)?;
        if compact.format.get() & !KNOWN != 0 {
            return Err(Error::Unsupported("format of an inode"));
        }
        let fields = match compact.format.get() & 1 {
            0 => Fields::of_compact(compact, self.build_time()),
            _ => Fields::of_extended(self.load(at)?),
        };
        let attributes = at + fields.length;
        let attributes_size = match fields.attribute_count {
            0 => 0,
            count => 12 + 4 * (u32::from(count) - 1),
        };
        check(&fields)?;
        let layout = self.layout(&fields, attributes + u64::from(attributes_size))?;
        Ok(Inode {
            number,
            mode: fields.mode,
            uid: fields.uid,
            gid: fields.gid,
            links: fields.links,
            size: fields.size,
            time: fields.time,
            content: fields.content,
            layout,
            attributes,
            attributes_size,
        })
    }

    /// The time of inodes that have none.
    fn build_time(&self) -> Time {
        let superblock = &self.geometry.superblock;
        time(superblock.time.get(), superblock.nanoseconds.get())
    }

    /// How the data lies, with what is at `tail` behind the inode.
    fn layout(&self, fields: &Fields, tail: u64) -> Result<Layout> {
        let content = fields.content;
        match fields.format >> 1 {
            0 => Ok(Layout::Flat(content)),
            // Others are read in small parts, each of which would decompress a whole cluster.
            1 | 3 if fields.mode >> 12 != REGULAR => {
                Err(Error::Unsupported("compressed directories and links"))
            }
            format @ (1 | 3) => Ok(Layout::Compressed(self.read_compressed(tail, format == 3)?)),
            2 => Ok(Layout::Inline(content)),
            4 if content & 0xffff & !(CHUNK_BITS | CHUNK_INDEXES) == 0 => {
                Ok(Layout::Chunks(Chunks {
                    bits: self.geometry.block_bits + (content & CHUNK_BITS),
                    indexed: content & CHUNK_INDEXES != 0,
                }))
            }
            _ => Err(Error::Unsupported("layout of data")),
        }
    }
}

fn check(fields: &Fields) -> Result<()> {
    if fields.size > i64::MAX as u64 {
        return Err(Error::Corrupt("size of an inode"));
    }
    match fields.mode >> 12 {
        0o01 | 0o02 | 0o04 | 0o06 | 0o10 | 0o12 | 0o14 => Ok(()),
        _ => Err(Error::Corrupt("type of an inode")),
    }
}
