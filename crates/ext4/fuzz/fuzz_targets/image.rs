//! Damaged images: the input selects the image, the bytes to change, and the operations. Images
//! have no checksums, so that changed bytes are read.
#![no_main]

use std::collections::HashMap;
use std::sync::OnceLock;

use ext4::{Device, Error, Fs, Options, Result, Time};
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/mod.rs"]
mod support;

use support::exercise::exercise;
use support::model::Pair;

const BLOCK: usize = 1024;
const KINDS: [&str; 4] = [
    "-b 1024 -J size=1 -O ^metadata_csum,^64bit -N 512",
    "-b 1024 -J size=1 -O ^metadata_csum,^uninit_bg,large_dir -I 128 -N 512",
    "-b 1024 -J size=1 -O ^metadata_csum,meta_bg,^resize_inode -g 1024",
    "-b 1024 -J size=1 -O ^metadata_csum,inline_data -N 512",
];

/// An image, and where it is not empty: only there it is worth to change something.
struct Base {
    image: Vec<u8>,
    used: Vec<usize>,
}

/// A disk that leaves the image as it is.
struct Patched {
    base: &'static [u8],
    changed: HashMap<u64, [u8; BLOCK]>,
}

impl Patched {
    fn set(&mut self, at: usize, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            let (block, offset) = ((at + index) / BLOCK, (at + index) % BLOCK);
            let Some(old) = self.base.get(block * BLOCK..(block + 1) * BLOCK) else {
                return;
            };
            let block = self.changed.entry(block as u64);
            block.or_insert(old.try_into().unwrap())[offset] = *byte;
        }
    }
}

impl Device for Patched {
    fn size(&self) -> u64 {
        self.base.len() as u64
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        for (index, part) in into.chunks_mut(BLOCK).enumerate() {
            let block = at / BLOCK as u64 + index as u64;
            let from = block as usize * BLOCK;
            part.copy_from_slice(match self.changed.get(&block) {
                Some(changed) => changed,
                None => self.base.get(from..from + BLOCK).ok_or(Error::Io)?,
            });
        }
        Ok(())
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<()> {
        if at + from.len() as u64 > self.size() {
            return Err(Error::Io);
        }
        for (index, part) in from.chunks(BLOCK).enumerate() {
            let block = at / BLOCK as u64 + index as u64;
            self.changed.insert(block, part.try_into().unwrap());
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let kinds = KINDS.into_iter().enumerate();
        kinds
            .map(|(seed, kind)| {
                let mut image = support::make(5, kind).expect("mkfs.ext4");
                if !kind.contains("inline_data") {
                    let mut pair = Pair::new(support::mount(image), seed as u64);
                    for _ in 0..300 {
                        pair.step();
                    }
                    // A journal that is replayed, too.
                    pair.fs.commit().unwrap();
                    image = pair.fs.device().image.clone();
                }
                let chunks = image.chunks(64).enumerate();
                let used = chunks.filter(|(_, chunk)| chunk.iter().any(|byte| *byte != 0));
                let used = used.map(|(index, _)| index * 64).collect();
                Base { image, used }
            })
            .collect()
    })
}

fuzz_target!(|input: &[u8]| {
    let [kind, patches, rest @ ..] = input else {
        return;
    };
    let bases = bases();
    let base = &bases[usize::from(*kind) % bases.len()];
    let mut disk = Patched {
        base: &base.image,
        changed: HashMap::new(),
    };
    // Each change: where, how many bytes, and which.
    let (changes, operations) = rest.split_at(rest.len().min(usize::from(patches % 16) * 8));
    for change in changes.chunks_exact(8) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let at = base.used[place * base.used.len() >> 16] + usize::from(change[2] % 64);
        let length = [1, 2, 4][usize::from(change[3]) % 3];
        disk.set(at, &change[4..4 + length]);
    }
    let now = Time {
        seconds: 1_800_000_000,
        nanoseconds: 5,
    };
    let options = Options {
        read_only: kind & 0x80 != 0,
        now,
        ..Options::default()
    };
    if let Ok(mut fs) = Fs::mount(disk, options) {
        exercise(&mut fs, operations);
        let _ = fs.unmount();
    }
});
