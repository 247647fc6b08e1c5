//! Requests.

use crate::Time;
use crate::encoder::Encoder;

/// The version of the protocol.
pub const VERSION: &[u8] = b"9P2000.L";
/// No fid.
pub const NO_FID: u32 = u32::MAX;
/// The tag of [`Request::Version`].
pub const NO_TAG: u16 = u16::MAX;
/// No user.
pub const NOBODY: u32 = u32::MAX;
/// The maximum length of a request without what follows: one with two names.
pub const MOST_HEAD: usize = 640;

bitflags::bitflags! {
    /// Which attributes [`Request::SetAttr`] changes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Valid: u32 {
        /// Permissions.
        const MODE = 1 << 0;
        /// Owner.
        const UID = 1 << 1;
        /// Group.
        const GID = 1 << 2;
        /// Size.
        const SIZE = 1 << 3;
        /// Last read, to the server's present time unless a time is given.
        const ATIME = 1 << 4;
        /// Last change of the content, to the server's present time unless a time is given.
        const MTIME = 1 << 5;
        /// Last change of the inode, to the server's present time.
        const CTIME = 1 << 6;
        /// The time of the last read is given.
        const ATIME_SET = 1 << 7;
        /// The time of the last change of the content is given.
        const MTIME_SET = 1 << 8;
    }
}

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetStat {
    /// Those that are changed.
    pub valid: Valid,
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size.
    pub size: u64,
    /// Last read.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
}

/// The permissions and group of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Permissions, and the type where it is not said otherwise.
    pub mode: u32,
    /// Group.
    pub gid: u32,
}

/// A request. Fids are the client's numbers for files: [`Request::Walk`] and some others give the
/// number `new` to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Statistics of the file system.
    StatFs { fid: u32 },
    /// Opens a file, with Linux's flags.
    Open { fid: u32, flags: u32 },
    /// Makes a regular file in a directory; the directory's fid becomes that of the open file.
    Create {
        fid: u32,
        name: &'a [u8],
        flags: u32,
        ids: Ids,
    },
    /// Makes a symbolic link: its target, of `len` bytes, and the group as four bytes follow.
    Symlink { fid: u32, name: &'a [u8], len: u16 },
    /// Makes a device node, pipe or socket.
    MakeNode {
        fid: u32,
        name: &'a [u8],
        ids: Ids,
        device: (u32, u32),
    },
    /// The target of a symbolic link.
    ReadLink { fid: u32 },
    /// Attributes, with the file's generation if that is wanted.
    GetAttr { fid: u32, generation: bool },
    /// Changes attributes.
    SetAttr { fid: u32, to: SetStat },
    /// Opens an attribute's value, or the list of their names, for reading.
    XattrWalk { fid: u32, new: u32, name: &'a [u8] },
    /// Prepares to write an attribute's value, of `size` bytes; a fid of none removes it.
    XattrCreate {
        fid: u32,
        name: &'a [u8],
        size: u64,
        flags: u32,
    },
    /// Entries of a directory, from a position on.
    ReadDir { fid: u32, offset: u64, count: u32 },
    /// Writes a file to its medium; without its times if only the data is wanted.
    Sync { fid: u32, only_data: bool },
    /// Adds a name for a file.
    Link {
        directory: u32,
        fid: u32,
        name: &'a [u8],
    },
    /// Makes a directory.
    MakeDirectory { fid: u32, name: &'a [u8], ids: Ids },
    /// Moves a name.
    Rename {
        from: (u32, &'a [u8]),
        to: (u32, &'a [u8]),
    },
    /// Removes the name of a directory, or of another file.
    Unlink {
        fid: u32,
        name: &'a [u8],
        is_directory: bool,
    },
    /// Begins a session with messages of at most this size.
    Version { size: u32 },
    /// Gives a fid to the root.
    Attach { new: u32, user: u32 },
    /// Forgets a request.
    Flush { tag: u16 },
    /// Gives a fid to a file of a directory, or with no name to the same file.
    Walk {
        fid: u32,
        new: u32,
        name: Option<&'a [u8]>,
    },
    /// Reads a file.
    Read { fid: u32, offset: u64, count: u32 },
    /// Writes a file: the data follows.
    Write { fid: u32, offset: u64, count: u32 },
    /// Gives a fid back.
    Clunk { fid: u32 },
}

/// The attributes that are asked for (P9_GETATTR_BASIC).
pub(crate) const BASIC: u64 = 0x7ff;
/// The generation is asked for (P9_GETATTR_GEN).
pub(crate) const GENERATION: u64 = 0x1000;
/// Says that a directory is removed (AT_REMOVEDIR).
const REMOVE_DIRECTORY: u32 = 0x200;

impl Request<'_> {
    /// The type of its message.
    pub fn kind(&self) -> u8 {
        match self {
            Request::StatFs { .. } => 8,
            Request::Open { .. } => 12,
            Request::Create { .. } => 14,
            Request::Symlink { .. } => 16,
            Request::MakeNode { .. } => 18,
            Request::ReadLink { .. } => 22,
            Request::GetAttr { .. } => 24,
            Request::SetAttr { .. } => 26,
            Request::XattrWalk { .. } => 30,
            Request::XattrCreate { .. } => 32,
            Request::ReadDir { .. } => 40,
            Request::Sync { .. } => 50,
            Request::Link { .. } => 70,
            Request::MakeDirectory { .. } => 72,
            Request::Rename { .. } => 74,
            Request::Unlink { .. } => 76,
            Request::Version { .. } => 100,
            Request::Attach { .. } => 104,
            Request::Flush { .. } => 108,
            Request::Walk { .. } => 110,
            Request::Read { .. } => 116,
            Request::Write { .. } => 118,
            Request::Clunk { .. } => 120,
        }
    }

    /// The number of bytes that follow elsewhere.
    pub fn following(&self) -> usize {
        match *self {
            Request::Symlink { len, .. } => usize::from(len) + 4,
            Request::Write { count, .. } => count as usize,
            _ => 0,
        }
    }

    /// Writes it into a buffer, without what follows; returns its length there, or `None` if it
    /// does not fit.
    pub fn encode(&self, tag: u16, buffer: &mut [u8]) -> Option<usize> {
        let mut to = Encoder::new(buffer, self.kind(), tag);
        self.fields(&mut to);
        to.finish(self.following())
    }

    fn fields(&self, to: &mut Encoder) {
        match *self {
            Request::StatFs { fid } | Request::ReadLink { fid } | Request::Clunk { fid } => {
                to.u32(fid);
            }
            Request::Open { fid, flags } => {
                to.u32(fid);
                to.u32(flags);
            }
            Request::Create {
                fid,
                name,
                flags,
                ids,
            } => {
                to.u32(fid);
                to.string(name);
                to.u32(flags);
                to.u32(ids.mode);
                to.u32(ids.gid);
            }
            Request::Symlink { fid, name, len } => {
                to.u32(fid);
                to.string(name);
                to.u16(len);
            }
            Request::MakeNode {
                fid,
                name,
                ids,
                device: (major, minor),
            } => {
                to.u32(fid);
                to.string(name);
                to.u32(ids.mode);
                to.u32(major);
                to.u32(minor);
                to.u32(ids.gid);
            }
            Request::GetAttr { fid, generation } => {
                to.u32(fid);
                to.u64(if generation {
                    BASIC | GENERATION
                } else {
                    BASIC
                });
            }
            Request::SetAttr { fid, to: set } => {
                to.u32(fid);
                to.u32(set.valid.bits());
                to.u32(set.mode);
                to.u32(set.uid);
                to.u32(set.gid);
                to.u64(set.size);
                for time in [set.accessed, set.modified] {
                    to.u64(time.seconds as u64);
                    to.u64(time.nanoseconds.into());
                }
            }
            Request::XattrWalk { fid, new, name } => {
                to.u32(fid);
                to.u32(new);
                to.string(name);
            }
            Request::XattrCreate {
                fid,
                name,
                size,
                flags,
            } => {
                to.u32(fid);
                to.string(name);
                to.u64(size);
                to.u32(flags);
            }
            Request::ReadDir { fid, offset, count }
            | Request::Read { fid, offset, count }
            | Request::Write { fid, offset, count } => {
                to.u32(fid);
                to.u64(offset);
                to.u32(count);
            }
            Request::Sync { fid, only_data } => {
                to.u32(fid);
                to.u32(only_data.into());
            }
            Request::Link {
                directory,
                fid,
                name,
            } => {
                to.u32(directory);
                to.u32(fid);
                to.string(name);
            }
            Request::MakeDirectory { fid, name, ids } => {
                to.u32(fid);
                to.string(name);
                to.u32(ids.mode);
                to.u32(ids.gid);
            }
            Request::Rename { from, to: new } => {
                for (fid, name) in [from, new] {
                    to.u32(fid);
                    to.string(name);
                }
            }
            Request::Unlink {
                fid,
                name,
                is_directory,
            } => {
                to.u32(fid);
                to.string(name);
                to.u32(if is_directory { REMOVE_DIRECTORY } else { 0 });
            }
            Request::Version { size } => {
                to.u32(size);
                to.string(VERSION);
            }
            Request::Attach { new, user } => {
                to.u32(new);
                to.u32(NO_FID);
                to.string(b"");
                to.string(b"");
                to.u32(user);
            }
            Request::Flush { tag } => to.u16(tag),
            Request::Walk { fid, new, name } => {
                to.u32(fid);
                to.u32(new);
                to.u16(name.is_some().into());
                if let Some(name) = name {
                    to.string(name);
                }
            }
        }
    }
}
