//! A mounted image, and reading bytes of it.

use alloc::vec::Vec;

use zerocopy::{FromBytes, IntoBytes};

use crate::prefix::Prefix;
use crate::{Device, Error, Geometry, Inode, Result};

/// An image on a device.
pub struct Fs<D> {
    pub(crate) device: D,
    pub(crate) geometry: Geometry,
    pub(crate) prefixes: Vec<Prefix>,
}

impl<D: Device> Fs<D> {
    /// Reads what an image is like.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is none. [`Error::Unsupported`]: it has what this crate does not.
    pub fn mount(device: D) -> Result<Self> {
        let mut fs = Self {
            geometry: Geometry::read(&device)?,
            device,
            prefixes: Vec::new(),
        };
        fs.check_algorithms()?;
        if !fs.inode(fs.root())?.is_directory() {
            return Err(Error::Invalid("the root is no directory"));
        }
        fs.prefixes = fs.read_prefixes()?;
        Ok(fs)
    }

    /// What the image is like.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The root's number.
    pub fn root(&self) -> u64 {
        self.geometry.superblock.root.get().into()
    }

    /// Reads a structure at a byte of the device.
    pub(crate) fn load<T: FromBytes + IntoBytes>(&self, at: u64) -> Result<T> {
        load(&self.device, at)
    }

    /// Reads bytes of the device.
    ///
    /// # Errors
    /// [`Error::Io`]: also where they lie behind its end. [`Error::NoMemory`].
    pub fn read_device(&self, at: u64, into: &mut [u8]) -> Result<()> {
        read_at(&self.device, at, into)
    }

    /// Reads from byte `at` of an inode's data on; what is behind its end reads as zeroes.
    ///
    /// # Errors
    /// Those of [`Fs::map`].
    pub fn read(&self, inode: &Inode, at: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let extent = self.map(inode, at + done as u64)?;
            let left = into.len() - done;
            let length = extent.length.min(left as u64) as usize;
            self.read_extent(&extent, &mut into[done..done + length])?;
            done += length;
        }
        Ok(())
    }
}

/// Reads a structure at a byte.
pub(crate) fn load<T: FromBytes + IntoBytes>(device: &impl Device, at: u64) -> Result<T> {
    let mut value = T::new_zeroed();
    read_at(device, at, value.as_mut_bytes())?;
    Ok(value)
}

/// Reads bytes that must be on the device.
pub(crate) fn read_at(device: &impl Device, at: u64, into: &mut [u8]) -> Result<()> {
    match at.checked_add(into.len() as u64) {
        Some(end) if end <= device.size() => device.read(at, into),
        _ => Err(Error::Io),
    }
}

/// `size` zeroes.
pub(crate) fn zeroes(size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size)?;
    bytes.resize(size, 0);
    Ok(bytes)
}
