//! The kernel's statistics of vCPUs (KVM_GET_STATS_FD), which include exits by kind.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use kvm_bindings::kvm_stats_header;
use kvm_ioctls::VcpuFd;

/// KVM_GET_STATS_FD: `_IO(KVMIO, 0xce)`.
const GET_STATS_FD: u32 = 0xaece;
/// `struct kvm_stats_desc`: its size without the name, and the offsets of its fields.
const DESCRIPTION: usize = 16;
const SIZE: usize = 6;
const OFFSET: usize = 8;
/// More than the size of all statistics of a vCPU.
const LEN: usize = 16 << 10;

/// The statistics of one vCPU.
pub struct Stats(File);

impl Stats {
    /// Opens the statistics of this vCPU.
    pub fn of(vcpu: &VcpuFd) -> Result<Self> {
        // SAFETY: the request takes no argument.
        let file = unsafe { libc::ioctl(vcpu.as_raw_fd(), GET_STATS_FD as _, 0) };
        if file < 0 {
            return Err(std::io::Error::last_os_error()).context("a vCPU's statistics");
        }
        // SAFETY: the descriptor was just opened, and nobody else owns it.
        Ok(Self(unsafe { File::from_raw_fd(file) }))
    }

    /// Adds each value to the sum of the same name.
    fn add(&self, sums: &mut BTreeMap<String, u64>) -> Result<()> {
        let mut bytes = [0; LEN];
        let len = self.0.read_at(&mut bytes, 0)?;
        let bytes = &bytes[..len];
        let word = |at: usize| {
            let bytes = bytes
                .get(at..at + 4)
                .and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes) as usize
        };
        let name_len = word(std::mem::offset_of!(kvm_stats_header, name_size));
        let descriptions = word(std::mem::offset_of!(kvm_stats_header, desc_offset));
        let data = word(std::mem::offset_of!(kvm_stats_header, data_offset));
        for at in 0..word(std::mem::offset_of!(kvm_stats_header, num_desc)) {
            let start = descriptions + at * (DESCRIPTION + name_len);
            let name = bytes.get(start + DESCRIPTION..start + DESCRIPTION + name_len);
            let name = name.context("statistics that end early")?;
            let name = String::from_utf8_lossy(name).replace('\0', "");
            // Sums leave out histograms.
            if word(start + SIZE) & 0xffff == 1 {
                let value = data + word(start + OFFSET);
                *sums.entry(name).or_default() += (word(value) | word(value + 4) << 32) as u64;
            }
        }
        Ok(())
    }
}

/// Prints the sums that are not zero on standard error, each on a line that begins with `start`.
pub fn print(all: &[Stats], start: &str) -> Result<()> {
    let mut sums = BTreeMap::new();
    all.iter().try_for_each(|stats| stats.add(&mut sums))?;
    for (name, value) in sums.iter().filter(|(_, value)| **value != 0) {
        eprintln!("{start}{name} {value}");
    }
    Ok(())
}
