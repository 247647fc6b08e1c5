//! Disks and their partitions.

use super::super::device;
use super::super::seq_file::Node::{self, Directory, Each, Link, Of};
use super::super::seq_file::{Family, Text};
use crate::block::volume::{self, Volume};
use crate::mm::virtio_blk::SECTOR;
use crate::put;
use alloc::sync::Arc;

/// Members of a directory.
type Members = &'static [(&'static str, Node)];

/// `/sys/block`
pub const DISKS: Family = Family {
    from: |_, first| from(first, |volume| volume.partition().is_none()),
    name,
    node: |_| Each(DISK, &PARTITIONS),
};

/// `/sys/class/block`
pub const ALL: Family = Family {
    from: |_, first| from(first, |_| true),
    name,
    node: |number| match volume::find(number as u64).and_then(|volume| volume.partition()) {
        Some(_) => Directory(PARTITION),
        None => Each(DISK, &PARTITIONS),
    },
};

/// `/sys/dev/block`
pub const BY_NUMBER: Family = Family {
    from: |_, first| from(first, |_| true),
    name: |number, text| {
        let (major, minor) = device::split(number as u64);
        put!(text, "{major}:{minor}");
    },
    node: ALL.node,
};

/// The partitions of a disk.
const PARTITIONS: Family = Family {
    from: |disk, first| {
        from(first, |volume| {
            volume.partition().is_some() && volume.disk().number() == disk as u64
        })
    },
    name,
    node: |_| Directory(PARTITION),
};

const DISK: Members = &[
    ("dev", Of(dev)),
    ("queue", Directory(QUEUE)),
    ("removable", Of(|_, text| text.push(b"0\n"))),
    ("ro", Of(read_only)),
    (
        "serial",
        Of(|number, text| of(number, |volume| text.push(volume.device().serial()))),
    ),
    ("size", Of(size)),
    ("subsystem", Link(|text| text.push(b"/sys/class/block"))),
    ("uevent", Of(uevent)),
];

const PARTITION: Members = &[
    ("dev", Of(dev)),
    (
        "partition",
        Of(|number, text| {
            of(number, |volume| {
                put!(text, "{}\n", volume.partition().unwrap_or(0))
            })
        }),
    ),
    ("ro", Of(read_only)),
    ("size", Of(size)),
    (
        "start",
        Of(|number, text| of(number, |volume| put!(text, "{}\n", volume.start()))),
    ),
    ("subsystem", Link(|text| text.push(b"/sys/class/block"))),
    ("uevent", Of(uevent)),
];

const QUEUE: Members = &[
    (
        "discard_granularity",
        Of(|number, text| {
            of(number, |volume| {
                let properties = volume.device().properties();
                let discards = usize::from(properties.most_discarded > 0);
                put!(text, "{}\n", discards * properties.block_size)
            })
        }),
    ),
    ("discard_max_bytes", Of(discard_max_bytes)),
    ("discard_max_hw_bytes", Of(discard_max_bytes)),
    (
        "hw_sector_size",
        Of(|number, text| {
            of(number, |volume| {
                put!(text, "{}\n", volume.device().properties().block_size)
            })
        }),
    ),
    (
        "logical_block_size",
        Of(|number, text| {
            of(number, |volume| {
                put!(text, "{}\n", volume.device().properties().block_size)
            })
        }),
    ),
    (
        "physical_block_size",
        Of(|number, text| {
            of(number, |volume| {
                put!(
                    text,
                    "{}\n",
                    volume.device().properties().physical_block_size
                );
            })
        }),
    ),
    ("rotational", Of(|_, text| text.push(b"1\n"))),
    (
        "write_cache",
        Of(|number, text| {
            of(number, |volume| {
                match volume.device().properties().has_cache {
                    true => text.push(b"write back\n"),
                    false => text.push(b"write through\n"),
                }
            })
        }),
    ),
    (
        "write_zeroes_max_bytes",
        Of(|number, text| {
            of(number, |volume| {
                let most = volume.device().properties().most_zeroed;
                put!(text, "{}\n", u64::from(most) * SECTOR as u64)
            })
        }),
    ),
];

fn discard_max_bytes(number: usize, text: &mut Text) {
    of(number, |volume| {
        let most = volume.device().properties().most_discarded;
        put!(text, "{}\n", u64::from(most) * SECTOR as u64)
    })
}

/// The lowest device number, from `first` on, of a volume that is `wanted`.
fn from(first: usize, wanted: impl Fn(&Arc<Volume>) -> bool) -> Option<usize> {
    let all = volume::all();
    let numbers = all.iter().filter(|volume| wanted(volume));
    let numbers = numbers.map(|volume| volume.number() as usize);
    numbers.filter(|&number| number >= first).min()
}

/// Calls `write` with a disk or partition, if it still exists.
fn of(number: usize, write: impl FnOnce(&Volume)) {
    if let Some(volume) = volume::find(number as u64) {
        write(&volume);
    }
}

fn name(number: usize, text: &mut Text) {
    of(number, |volume| text.push(volume.name().as_bytes()));
}

fn dev(number: usize, text: &mut Text) {
    let (major, minor) = device::split(number as u64);
    put!(text, "{major}:{minor}\n");
}

fn size(number: usize, text: &mut Text) {
    of(number, |volume| put!(text, "{}\n", volume.sectors()));
}

fn read_only(number: usize, text: &mut Text) {
    of(number, |volume| {
        put!(text, "{}\n", u8::from(volume.is_read_only()))
    });
}

fn uevent(number: usize, text: &mut Text) {
    let (major, minor) = device::split(number as u64);
    of(number, |volume| {
        let kind = if volume.partition().is_some() {
            "partition"
        } else {
            "disk"
        };
        let name = volume.name();
        put!(
            text,
            "MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE={kind}\n"
        );
        if let Some(partition) = volume.partition() {
            put!(text, "PARTN={partition}\n");
        }
    });
}
