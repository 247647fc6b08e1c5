//! An entropy device (5.4) with the host's random numbers.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context, Result};
use virtio_bindings::virtio_ids::VIRTIO_ID_RNG;
use virtio_queue::Queue;

use super::{Device, each};
use crate::memory::Memory;

/// The maximum length of a request.
const MOST: u64 = 4096;

/// The device.
pub struct Entropy(File);

impl Entropy {
    /// Opens the host's source of random numbers.
    pub fn new() -> Result<Self> {
        let path = "/dev/urandom";
        Ok(Self(File::open(path).context(path)?))
    }
}

impl Device for Entropy {
    fn kind(&self) -> u32 {
        VIRTIO_ID_RNG
    }

    fn work(&mut self, queues: &mut [Queue], memory: &Memory) -> Result<bool> {
        each(&mut queues[0], memory, |chain| {
            let mut writer = chain.writer(memory)?;
            let len = MOST.min(writer.available_bytes() as u64);
            Ok(io::copy(&mut (&self.0).take(len), &mut writer)? as u32)
        })
    }
}
