//! A disk (5.2) in a file of the host.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_RO, VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK,
    VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN,
    VIRTIO_BLK_T_OUT,
};
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;
use virtio_queue::{Queue, Reader, Writer};

use super::{Chain, Device, each};
use crate::memory::Memory;

const SECTOR: u64 = 512;
/// The answer to VIRTIO_BLK_T_GET_ID.
const NAME: &[u8] = b"disk";

/// The device.
pub struct Block {
    file: File,
    /// The length of the file, in whole sectors.
    len: u64,
    writable: bool,
}

impl Block {
    /// Opens the disk in this file, which may be read-only.
    pub fn new(path: &Path) -> Result<Self> {
        let both = File::options().read(true).write(true).open(path);
        let writable = both.is_ok();
        let file = both.or_else(|_| File::open(path));
        let mut file = file.with_context(|| path.display().to_string())?;
        let len = file.seek(SeekFrom::End(0))? / SECTOR * SECTOR;
        Ok(Self {
            file,
            len,
            writable,
        })
    }

    /// Serves one request; returns the number of bytes written without the status byte, and the
    /// status.
    fn request(&self, reader: &mut Reader, writer: &mut Writer) -> io::Result<(u64, u32)> {
        let kind: u32 = reader.read_obj()?;
        let _reserved: u32 = reader.read_obj()?;
        let sector: u64 = reader.read_obj()?;
        let mut file = &self.file;
        let (read, written) = (reader.available_bytes(), writer.available_bytes() as u64);
        let mut seek = |len: u64| {
            let start = sector.checked_mul(SECTOR);
            let end = start.and_then(|start| start.checked_add(len));
            match start.zip(end) {
                Some((start, end)) if end <= self.len => file.seek(SeekFrom::Start(start)),
                _ => Err(io::ErrorKind::InvalidInput.into()),
            }
        };
        let written = match kind {
            VIRTIO_BLK_T_IN => {
                seek(written)?;
                io::copy(&mut file.take(written), writer)?
            }
            VIRTIO_BLK_T_OUT => {
                seek(read as u64)?;
                io::copy(reader, &mut file)?;
                0
            }
            VIRTIO_BLK_T_FLUSH => {
                file.sync_data()?;
                0
            }
            VIRTIO_BLK_T_GET_ID => {
                let mut name = NAME.to_vec();
                name.resize(VIRTIO_BLK_ID_BYTES as usize, 0);
                name.truncate(written as usize);
                writer.write_all(&name)?;
                name.len() as u64
            }
            _ => return Ok((0, VIRTIO_BLK_S_UNSUPP)),
        };
        Ok((written, VIRTIO_BLK_S_OK))
    }

    fn serve(&self, chain: Chain, memory: &Memory) -> Result<u32> {
        let mut reader = chain.clone().reader(memory)?;
        let mut writer = chain.writer(memory)?;
        let room = writer.available_bytes();
        let data = room.checked_sub(1).context("no room for the status")?;
        let mut status = writer.split_at(data)?;
        let failed = (0, VIRTIO_BLK_S_IOERR);
        let (written, code) = self.request(&mut reader, &mut writer).unwrap_or(failed);
        status.write_all(&[code as u8])?;
        Ok(written as u32 + 1)
    }
}

impl Device for Block {
    fn kind(&self) -> u32 {
        VIRTIO_ID_BLOCK
    }

    fn features(&self) -> u64 {
        1 << VIRTIO_BLK_F_FLUSH | u64::from(!self.writable) << VIRTIO_BLK_F_RO
    }

    fn configuration(&self) -> Vec<u8> {
        (self.len / SECTOR).to_le_bytes().to_vec()
    }

    fn work(&mut self, queues: &mut [Queue], memory: &Memory) -> Result<bool> {
        each(&mut queues[0], memory, |chain| self.serve(chain, memory))
    }
}
