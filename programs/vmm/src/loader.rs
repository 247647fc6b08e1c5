//! Puts a kernel, an initrd and the device tree into a guest's memory.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::layout::RAM;
use crate::memory::{self, Memory};

/// The offset of a flat image from the start of memory: that of old Linux Images, and of QEMU.
const FLAT_OFFSET: u64 = 0x8_0000;
/// The free space after a flat image, which does not say how much zeroed memory it needs there.
const FLAT_ROOM: u64 = 4 << 20;
/// The maximum size of a device tree, and its alignment: Linux's boot protocol.
const TREE_ROOM: u64 = 2 << 20;

/// The addresses of the loaded parts.
pub struct Loaded {
    /// The entry point of the kernel.
    pub entry: u64,
    /// The address for the device tree, with 2 MiB of room.
    pub tree: u64,
    /// The start and the end of the initrd, both 0 without one.
    pub initrd: (u64, u64),
}

/// Loads the kernel and the initrd.
pub fn load(memory: &Memory, kernel: &Path, initrd: Option<&Path>) -> Result<Loaded> {
    let image = read(kernel)?;
    let (offset, len) = place(&image);
    let entry = RAM + offset;
    memory::load(memory, entry, &image).with_context(|| kernel.display().to_string())?;
    let tree = (entry + len).next_multiple_of(TREE_ROOM);
    let mut loaded = Loaded {
        entry,
        tree,
        initrd: (0, 0),
    };
    if let Some(initrd) = initrd {
        let archive = read(initrd)?;
        let start = tree + TREE_ROOM;
        memory::load(memory, start, &archive).with_context(|| initrd.display().to_string())?;
        loaded.initrd = (start, start + archive.len() as u64);
    }
    Ok(loaded)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// The offset that an image requires, and its size in memory: Linux's
/// `Documentation/arch/arm64/booting.rst`.
fn place(image: &[u8]) -> (u64, u64) {
    let field = |at: usize| Some(u64::from_le_bytes(image.get(at..at + 8)?.try_into().ok()?));
    match (image.get(0x38..0x3c), field(8), field(16)) {
        (Some(b"ARM\x64"), Some(offset), Some(size)) if size != 0 => {
            (offset, size.max(image.len() as u64))
        }
        _ => (FLAT_OFFSET, image.len() as u64 + FLAT_ROOM),
    }
}
