//! EROFS, which is only read, as Linux's `fs/erofs` reads it.
//!
//! [`Fs`] needs no lock: nothing changes, and whoever reads has what it reads for itself. Names,
//! attributes and the ends of files that lie beside their inodes are read through a [`Device`].
//! The data of files is the caller's, for whom [`Fs::map`] says where it is; [`Fs::read`] reads it
//! too.
//!
//! Everything that an image says is checked where it is used: a damaged one leads to
//! [`Error::Corrupt`] or [`Error::Io`], in as many steps as Linux would take, and with no more
//! memory than a block, a name, a value, a compressed cluster or the table of devices needs. Of
//! compression there is LZ4 with padding, in clusters of any size; what is absent, other algorithms
//! and the ends of files in other files, is refused as by a Linux without it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attribute;
mod compressed;
mod device;
mod directory;
mod error;
pub mod format;
mod fs;
mod index;
mod inode;
mod link;
mod map;
mod prefix;
mod superblock;

pub use compressed::Cluster;
pub use device::Device;
pub use directory::Entry;
pub use error::{Error, Result};
pub use fs::Fs;
pub use inode::{Inode, Time};
pub use map::{Extent, Place};
pub use superblock::Geometry;
