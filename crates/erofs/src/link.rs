//! Symbolic links.

use alloc::vec::Vec;

use crate::fs::zeroes;
use crate::{Device, Error, Fs, Inode, Result};

/// Bytes of a path at most.
const LONGEST: u64 = 4095;

impl<D: Device> Fs<D> {
    /// Where a symbolic link leads: the part before the first zero byte, as on Linux, and no more
    /// than 4095 bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: it is none, or damaged. [`Error::Io`], [`Error::NoMemory`].
    pub fn read_link(&self, inode: &Inode) -> Result<Vec<u8>> {
        if !inode.is_link() {
            return Err(Error::Corrupt("a link that is none"));
        }
        let mut path = zeroes(inode.size().min(LONGEST) as usize)?;
        self.read(inode, 0, &mut path)?;
        let end = path.iter().position(|byte| *byte == 0);
        path.truncate(end.unwrap_or(path.len()));
        Ok(path)
    }
}
