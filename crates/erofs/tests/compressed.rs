//! Compressed files of the tests' own writer, with indexes of eight bytes: their clusters are read,
//! and what is damaged is an error.

mod support;

use erofs::format::{ClusterIndex, Incompatible, MapHeader};
use erofs::{Error, Inode, Result};
use support::lz4::{padded, run};
use support::writer::{DIRECTORY, LINK, New, REGULAR, Writer};
use support::{content, find, mount};
use zerocopy::{FromZeros, IntoBytes};

const SIZE: usize = 512;
const PLAIN: u16 = 0;
const HEAD: u16 = 1;
const OTHER: u16 = 2;

/// A file: three clusters, of which the second is not compressed and the third has two blocks.
struct Sample {
    mode: u16,
    header: MapHeader,
    indexes: Vec<ClusterIndex>,
    first: Vec<u8>,
    incompatible: Incompatible,
    algorithms: u16,
}

fn index(advise: u16, offset: u16, place: u32) -> ClusterIndex {
    let mut index = ClusterIndex::new_zeroed();
    index.advise.set(advise);
    index.offset.set(offset);
    index.place.set(place);
    index
}

/// The file's content.
fn expected() -> Vec<u8> {
    let last: Vec<u8> = (0..800).map(|at| (at % 256) as u8).collect();
    [&[7; 1200][..], &[8; 400], &last].concat()
}

impl Sample {
    fn new() -> Self {
        let mut header = MapHeader::new_zeroed();
        // Clusters of the first kind may have several blocks.
        header.flags.set(2);
        Self {
            mode: REGULAR,
            header,
            // Where blocks are is filled in later.
            indexes: vec![
                index(HEAD, 0, 0),
                index(OTHER, 0, 1 | 1 << 16),
                index(PLAIN, 176, 1),
                index(HEAD, 64, 2),
                index(OTHER, 0, (1 << 11 | 2) | 1 << 16),
            ],
            first: padded(&run(7, 1200), SIZE),
            incompatible: Incompatible::ZERO_PADDING | Incompatible::CONFIGURATIONS,
            algorithms: 1,
        }
    }

    /// Mounts an image with it, and calls `look` with it.
    fn read<T>(
        &self,
        look: impl FnOnce(&erofs::Fs<support::Disk>, &Inode) -> Result<T>,
    ) -> Result<T> {
        let mut writer = Writer::new(9);
        writer.add(self.incompatible);
        writer.superblock.algorithms.set(self.algorithms);
        // The configuration of LZ4: its length, and how many blocks a cluster may have.
        writer.image[1024 + 128..1024 + 134].copy_from_slice(&[14, 0, 0, 0, 2, 0]);
        let first = writer.blocks(&self.first);
        writer.blocks(&[8; 400]);
        let last = &expected()[1600..];
        // Literals alone: 15, three times 255, and the rest.
        let packed = [&[0xf0, 255, 255, 255, (800 - 15 - 765) as u8][..], last].concat();
        writer.blocks(&padded(&packed, SIZE));
        let mut tail = self.header.as_bytes().to_vec();
        tail.extend_from_slice(&[0; 8]);
        for index in &self.indexes {
            let mut index = *index;
            if index.advise.get() & 3 != OTHER {
                index.place.set(index.place.get() + first);
            }
            tail.extend_from_slice(index.as_bytes());
        }
        let inode = writer.inode(New {
            mode: self.mode,
            layout: 1,
            size: 2400,
            content: 4,
            tail: &tail,
            links: 1,
            ..New::default()
        });
        let root = writer.directory(&[(b"file", inode, 1)]);
        let fs = mount(writer.finish(root))?;
        look(&fs, &find(&fs, "file")?)
    }

    fn content(&self) -> Result<Vec<u8>> {
        self.read(content)
    }
}

#[test]
fn clusters_are_read() {
    assert_eq!(Sample::new().content().unwrap(), expected());
    let parts = |fs: &erofs::Fs<support::Disk>, file: &Inode| {
        assert_eq!((file.is_compressed(), file.noted_blocks()), (true, Some(4)));
        for at in (0..2400).step_by(37) {
            let mut part = [1; 100];
            fs.read(file, at as u64, &mut part)?;
            let end = (at + 100).min(2400);
            assert_eq!(part[..end - at], expected()[at..end], "{at}");
        }
        Ok(())
    };
    Sample::new().read(parts).unwrap();
}

#[test]
fn what_is_absent_is_refused() {
    let refused = |change: &dyn Fn(&mut Sample)| {
        let mut sample = Sample::new();
        change(&mut sample);
        matches!(sample.content(), Err(Error::Unsupported(_)))
    };
    assert!(refused(&|sample| sample.algorithms = 2));
    assert!(refused(&|sample| sample.header.algorithms = 2));
    assert!(refused(&|sample| sample.header.algorithms = 0x20));
    assert!(refused(&|sample| sample.header.cluster_bits = 0x80));
    for flag in [0x8, 0x10, 0x20] {
        assert!(refused(&|sample| sample.header.flags.set(2 | flag)));
    }
    let padding = Incompatible::ZERO_PADDING;
    assert!(refused(&|sample| sample.incompatible.remove(padding)));
    for mode in [DIRECTORY, LINK] {
        assert!(refused(&|sample| sample.mode = mode), "{mode:o}");
    }
    // A part of a cluster that is shared.
    let shared = |sample: &mut Sample| sample.indexes[0].advise.set(HEAD | 1 << 15);
    assert!(refused(&shared));
}

#[test]
fn damage_is_an_error() {
    let damaged = |change: &dyn Fn(&mut Sample)| {
        let mut sample = Sample::new();
        change(&mut sample);
        matches!(sample.content(), Err(Error::Corrupt(_)))
    };
    // Without the feature there are no large clusters.
    assert!(damaged(&|sample| {
        sample.incompatible.remove(Incompatible::CONFIGURATIONS);
        sample.algorithms = 0;
    }));
    assert!(damaged(&|sample| sample.algorithms = 0));
    // Distances that lead nowhere, or before the file.
    for back in [0, 2, 600] {
        assert!(
            damaged(&|sample| sample.indexes[1].place.set(back)),
            "{back}"
        );
    }
    assert!(damaged(&|sample| sample.indexes[0].offset.set(5)));
    assert!(damaged(&|sample| sample.indexes[3].offset.set(512)));
    // A number of blocks where there is one.
    assert!(damaged(&|sample| {
        sample.header.flags.set(0);
        sample.indexes[1].place.set(1 << 11 | 1);
    }));
    // One block that is not compressed has no more than it has.
    assert!(damaged(&|sample| sample.indexes[0].advise.set(PLAIN)));
    for first in [
        padded(&run(7, 1199), SIZE),
        padded(&run(7, 1201), SIZE),
        vec![0; SIZE],
    ] {
        assert!(damaged(&|sample| sample.first = first.clone()));
    }
    assert!(damaged(&|sample| sample.first = vec![0xff; SIZE]));
    let mut far = Sample::new();
    far.indexes[0].place.set(1 << 30);
    assert_eq!(far.content(), Err(Error::Io));
}
