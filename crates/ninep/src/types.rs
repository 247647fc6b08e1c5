//! What replies say about files.

bitflags::bitflags! {
    /// The type of file of a qid; no bits for a regular file.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QidType: u8 {
        /// A directory.
        const DIRECTORY = 0x80;
        /// A symbolic link.
        const SYMLINK = 0x02;
    }
}

/// What a server knows a file by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Qid {
    /// Directory, symbolic link, or neither.
    pub kind: QidType,
    /// Changes with the content.
    pub version: u32,
    /// The number of the file: no other one has it while this one exists.
    pub path: u64,
}

impl Qid {
    /// Whether both are of the same file, whatever its content.
    pub fn is_same(&self, other: &Qid) -> bool {
        (self.path, self.kind) == (other.path, other.kind)
    }
}

/// A time since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds below one second.
    pub nanoseconds: u32,
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The file.
    pub qid: Qid,
    /// Type and permissions, as Linux's `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub links: u64,
    /// Device number of a device node, as Linux's `new_encode_dev`.
    pub rdev: u64,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// Differs between files that had the same number one after the other, where the server knows.
    pub generation: Option<u64>,
}

/// The statistics of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Magic number.
    pub kind: u32,
    /// Size of a block.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks that everybody may use.
    pub available: u64,
    /// Number of inodes.
    pub files: u64,
    /// Free inodes.
    pub free_files: u64,
    /// Its own number.
    pub id: u64,
}
