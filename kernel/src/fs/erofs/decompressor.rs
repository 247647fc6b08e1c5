//! The one decompressor of a mount, which keeps the last cluster: readers of its other parts find
//! it there, and however many read, they take no more memory.

use super::device::Disk;
use super::errno;
use crate::errno::Result;
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

    /// Whether it has this cluster.
    pub fn has(&self, cluster: Cluster) -> bool {
        self.cluster == Some(cluster)
    }

    /// The last cluster, decompressed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decompresses a cluster that was read.
    ///
    /// # Errors
    /// EUCLEAN, ENOMEM.
    pub fn decompress(&mut self, fs: &Fs<Disk>, cluster: Cluster, packed: &[u8]) -> Result<()> {
        self.cluster = None;
        let done = fs.decompress(&cluster, packed, &mut self.bytes);
        done.map_err(errno)?;
        self.cluster = Some(cluster);
        Ok(())
    }
}
