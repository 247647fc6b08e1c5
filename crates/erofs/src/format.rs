//! The structures of an image, as Linux's `fs/erofs/erofs_fs.h` has them. Numbers are
//! little-endian, and nothing is aligned.

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

/// Where the superblock begins.
pub const SUPERBLOCK: u64 = 1024;
/// Its magic number.
pub const MAGIC: u32 = 0xe0f5_e1e2;
/// The number of a block that is a hole.
pub const NO_BLOCK: u32 = u32::MAX;
/// An inode's number counts units of so many bytes (as a shift).
pub const SLOT_BITS: u32 = 5;

bitflags! {
    /// Features that need no knowledge to read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Compatible: u32 {
        /// The superblock has a checksum.
        const CHECKSUM = 0x1;
        const _ = !0;
    }

    /// Features that one must know to read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Incompatible: u32 {
        /// Compressed data ends with its block: zeroes are before it.
        const ZERO_PADDING = 0x1;
        /// Algorithms of compression have their configuration behind the superblock, and clusters
        /// may have several blocks.
        const CONFIGURATIONS = 0x2;
        /// Files may consist of chunks.
        const CHUNKED_FILE = 0x4;
        /// There may be more devices, and a second kind of compressed cluster.
        const DEVICE_TABLE = 0x8;
        /// The compressed end of a file may follow its inode.
        const TAIL_PACKING = 0x10;
        /// The ends of files may be in an inode of their own, and data may be shared.
        const FRAGMENTS = 0x20;
        /// Attributes may have prefixes that the image defines.
        const XATTR_PREFIXES = 0x40;
    }
}

/// The superblock (`erofs_super_block`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: U32,
    /// CRC-32C of the block, or of what follows byte 1024 of it, with zeroes here.
    pub checksum: U32,
    /// See [`Compatible`].
    pub compatible: U32,
    /// A block's size, as a shift.
    pub block_bits: u8,
    /// Units of 16 bytes that follow the superblock.
    pub extension_slots: u8,
    /// The root's number.
    pub root: U16,
    /// How many inodes there are.
    pub inodes: U64,
    /// The time of compact inodes, in seconds.
    pub time: U64,
    /// The nanoseconds beside them.
    pub nanoseconds: U32,
    /// Blocks of this device.
    pub blocks: U32,
    /// The block from which inodes are counted.
    pub inode_block: U32,
    /// The block from which shared attributes are counted.
    pub attribute_block: U32,
    /// The image's UUID.
    pub uuid: [u8; 16],
    /// Its name.
    pub name: [u8; 16],
    /// See [`Incompatible`].
    pub incompatible: U32,
    /// With [`Incompatible::CONFIGURATIONS`] a bit for each algorithm, else LZ4's distance.
    pub algorithms: U16,
    /// How many devices there are beside this one.
    pub extra_devices: U16,
    /// Where their table is, in units of 128 bytes.
    pub device_table: U16,
    /// A directory's block, as a shift beside `block_bits`.
    pub directory_bits: u8,
    /// How many prefixes of attributes there are.
    pub prefixes: u8,
    /// Where they begin, in units of four bytes.
    pub prefix_start: U32,
    /// The inode that has parts of others.
    pub packed: U64,
    /// Not zero where the filter of attributes is of another format.
    pub filter: u8,
    /// Unused.
    pub reserved: [u8; 23],
}

/// An entry of the device table (`erofs_deviceslot`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct DeviceSlot {
    /// Its name, or a digest.
    pub tag: [u8; 64],
    /// Its blocks.
    pub blocks: U32,
    /// Where they follow on the first device.
    pub mapped: U32,
    /// Unused.
    pub reserved: [u8; 56],
}

/// The small form of an inode (`erofs_inode_compact`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct CompactInode {
    /// Bit 0: the form; bits 1 to 3: how the data lies.
    pub format: U16,
    /// Of attributes: 0, or a header and words of four bytes, less one.
    pub attribute_count: U16,
    /// Type and permissions.
    pub mode: U16,
    /// Names.
    pub links: U16,
    /// Bytes.
    pub size: U32,
    /// Unused.
    pub reserved: U32,
    /// The first block, a device's number, or how chunks lie.
    pub content: U32,
    /// A number for programs with 32 bits.
    pub number: U32,
    /// Owner.
    pub uid: U16,
    /// Group.
    pub gid: U16,
    /// Unused.
    pub reserved2: U32,
}

/// The large form of an inode (`erofs_inode_extended`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct ExtendedInode {
    /// As that of [`CompactInode`].
    pub format: U16,
    /// As that of [`CompactInode`].
    pub attribute_count: U16,
    /// Type and permissions.
    pub mode: U16,
    /// Unused.
    pub reserved: U16,
    /// Bytes.
    pub size: U64,
    /// As that of [`CompactInode`].
    pub content: U32,
    /// A number for programs with 32 bits.
    pub number: U32,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Seconds of its time.
    pub time: U64,
    /// The nanoseconds beside them.
    pub nanoseconds: U32,
    /// Names.
    pub links: U32,
    /// Unused.
    pub reserved2: [u8; 16],
}

/// What an inode's own attributes begin with (`erofs_xattr_ibody_header`); the places of shared
/// ones follow, four bytes each.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct AttributeHeader {
    /// A bit for each hash that no name has.
    pub filter: U32,
    /// How many shared attributes there are.
    pub shared: u8,
    /// Unused.
    pub reserved: [u8; 7],
}

/// An attribute, before its name and value (`erofs_xattr_entry`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct AttributeEntry {
    /// Bytes of the name.
    pub name_length: u8,
    /// The family, or with bit 7 one of the image's prefixes.
    pub family: u8,
    /// Bytes of the value.
    pub value_length: U16,
}

/// A chunk (`erofs_inode_chunk_index`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct ChunkIndex {
    /// Unused.
    pub advise: U16,
    /// 0, or the place in the device table, from 1.
    pub device: U16,
    /// Its first block, or [`NO_BLOCK`].
    pub block: U32,
}

/// How a file is compressed (`z_erofs_map_header`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct MapHeader {
    /// Where its end is, if that is elsewhere.
    pub end: U32,
    /// What its indexes are like.
    pub flags: U16,
    /// The algorithms of both kinds of clusters, four bits each.
    pub algorithms: u8,
    /// What an index stands for, as a shift beside that of a block; bit 7: all of it is elsewhere.
    pub cluster_bits: u8,
}

/// An index of a compressed file (`z_erofs_lcluster_index`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct ClusterIndex {
    /// Bits 0 and 1: its type.
    pub advise: U16,
    /// Where its cluster begins.
    pub offset: U16,
    /// The cluster's first block, or distances to others.
    pub place: U32,
}

/// An entry of a directory (`erofs_dirent`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub struct Dirent {
    /// The inode's number.
    pub inode: U64,
    /// Where in the block its name begins.
    pub name: U16,
    /// The type of the file (FT_*).
    pub kind: u8,
    /// Unused.
    pub reserved: u8,
}

const _: () = assert!(
    size_of::<Superblock>() == 128
        && size_of::<DeviceSlot>() == 128
        && size_of::<CompactInode>() == 32
        && size_of::<ExtendedInode>() == 64
        && size_of::<AttributeHeader>() == 12
        && size_of::<AttributeEntry>() == 4
        && size_of::<ChunkIndex>() == 8
        && size_of::<MapHeader>() == 8
        && size_of::<ClusterIndex>() == 8
        && size_of::<Dirent>() == 12
);
