//! The one decompressor of a mount, which keeps the last cluster: readers of its other parts find
//! it there, and however many read, they take no more memory.

use super::device::Disk;
use super::errno;
use crate::errno::Result;
use crate::task::sched::cond_resched_killable;
use alloc::vec::Vec;
use erofs::{Cluster, Fs};

/// The last cluster that was decompressed.
pub struct Decompressor {
    cluster: Option<Cluster>,
    bytes: Vec<u8>,
}

impl Decompressor {
    /// With none.
    pub const fn new() -> Self {
        Decompressor {
            cluster: None,
            bytes: Vec::new(),
        }
    }

    /// What a cluster is, decompressed.
    ///
    /// # Errors
    /// EINTR: a signal kills the process. EUCLEAN, EIO, ENOMEM.
    pub fn decompress(&mut self, fs: &Fs<Disk>, cluster: Cluster) -> Result<&[u8]> {
        if self.cluster != Some(cluster) {
            cond_resched_killable()?;
            self.cluster = None;
            fs.decompress(&cluster, &mut self.bytes).map_err(errno)?;
            self.cluster = Some(cluster);
        }
        Ok(&self.bytes)
    }
}
