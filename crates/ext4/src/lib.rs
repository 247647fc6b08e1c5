//! ext4, read and write, with its journal (JBD2), as Linux's Documentation/filesystems/ext4 and
//! its headers describe it.
//!
//! [`Fs`] itself reads and writes metadata through a [`Device`], which can flush. The caller
//! transfers the data of files: [`Fs::map`] says where it is, [`Fs::allocate`] allocates blocks for
//! it, and [`Fs::mark_written`] is called once it has been written there. Blocks that are allocated
//! and not marked read as zeroes, so old content of the disk never shows, whenever the power fails
//! (`data=ordered`). [`Fs::commit`] is sync(2), [`Fs::sync_inode`] is fsync(2), and a timer of the
//! caller calls [`Fs::commit_if_due`].
//!
//! An operation is done as a whole or not at all, after an error and after a power cut. Everything
//! read from the disk is checked before it is used: a damaged image leads to [`Error::Corrupt`],
//! which is handled as [`Fs::errors`] says. The caller passes errors of read-only operations to
//! [`Fs::report`].
//!
//! Readable are extents and block numbers, linear and indexed directories, inline data and
//! attributes. Writable are images with extents and a journal, without inline data, `bigalloc` and
//! quotas; [`Fs::mount`] refuses others with the name of the feature.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod acl;
mod attribute;
mod attribute_write;
mod bitmap;
mod bytes;
mod crc;
mod create;
mod device;
mod directory;
mod directory_order;
mod directory_write;
mod dirent;
mod error;
mod errors;
mod extent;
mod extent_write;
mod features;
mod file;
mod flags;
mod fs;
mod group;
mod hash;
mod htree;
mod htree_write;
mod inode;
mod inode_bitmap;
mod journal;
mod link;
mod map;
mod orphan;
mod orphan_list;
mod preallocate;
mod rename;
mod seal;
mod space;
mod store;
mod superblock;
mod sync;
mod zones;

pub use acl::{acl_from_disk, acl_to_disk};
pub use create::New;
pub use device::Device;
pub use directory::DirectoryEntry;
pub use error::{Error, Result};
pub use errors::Errors;
pub use extent::Extent;
pub use features::{Compatible, Features, Incompatible, ReadOnly};
pub use file::Change;
pub use fs::{Fs, Options};
pub use hash::Hasher;
pub use inode::{Inode, ROOT, Stamp, Time};
pub use rename::Rename;
pub use space::Statistics;
pub use superblock::Geometry;
