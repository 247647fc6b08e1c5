//! Disks and partitions: their names, their ranges on the device, and their page caches.

use super::{BlockDevice, Piece};
use crate::errno::{Errno, Result};
use crate::fs::device;
use crate::fs::page_cache::{Backing, Mapping};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::heap::{try_arc, try_format};
use crate::mm::virtio_blk::{Part, SECTOR};
use crate::sync::Mutex;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

/// The major number of virtio disks: the first that Linux assigns dynamically.
pub const MAJOR: u32 = 254;
/// The major number of further partitions (BLOCK_EXT_MAJOR).
const MORE: u32 = 259;
/// The number of minor numbers per disk: for itself and its first partitions.
const MINORS: u32 = 16;

/// A disk, or a partition of one (Linux's block_device).
pub struct Volume {
    name: String,
    number: u64,
    place: Arc<Place>,
    /// For a partition: its number, and its disk.
    partition: Option<(u32, Arc<Volume>)>,
    mapping: Arc<Mapping>,
    /// The number of open files and mounts.
    users: AtomicUsize,
    /// The number of exclusive users: a mount, or files opened with O_EXCL.
    claims: AtomicUsize,
    /// Set by BLKROSET.
    read_only: AtomicBool,
}

/// A part of a device.
struct Place {
    device: Arc<dyn BlockDevice>,
    /// The first sector.
    start: u64,
    /// The number of sectors.
    len: u64,
}

/// All volumes: each disk comes before its partitions.
static ALL: Mutex<Vec<Arc<Volume>>> = Mutex::new(Vec::new());

impl Place {
    /// The parts of pages that lie within this place.
    fn pieces(&self, pages: &[(usize, FrameRef)]) -> Result<Vec<Piece>> {
        const SECTORS: u64 = (PAGE_SIZE / SECTOR) as u64;
        let mut pieces = Vec::new();
        let room = pieces.try_reserve_exact(pages.len());
        room.map_err(|_| Errno::ENOMEM)?;
        for (index, frame) in pages {
            let first = *index as u64 * SECTORS;
            let len = self.len.saturating_sub(first).min(SECTORS) as usize * SECTOR;
            if len > 0 {
                pieces.push(Piece {
                    sector: self.start + first,
                    part: Part {
                        frame: frame.clone(),
                        offset: 0,
                        len,
                    },
                });
            }
        }
        Ok(pieces)
    }
}

impl Backing for Place {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let pieces = self.pieces(pages)?;
        for Piece { part, .. } in &pieces {
            part.frame.fill(part.len..PAGE_SIZE, 0);
        }
        self.device.transfer(false, &pieces)
    }

    fn write_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        self.device.transfer(true, &self.pieces(pages)?)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }
}

impl Volume {
    fn new(
        name: String,
        number: u64,
        place: Place,
        partition: Option<(u32, Arc<Volume>)>,
    ) -> Result<Arc<Self>> {
        let bytes = place.len * SECTOR as u64;
        let place = try_arc(place)?;
        try_arc(Volume {
            name,
            number,
            mapping: Mapping::new(place.clone(), bytes)?,
            place,
            partition,
            users: AtomicUsize::new(0),
            claims: AtomicUsize::new(0),
            read_only: AtomicBool::new(false),
        })
    }

    /// Its name in /dev.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its device number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its page cache.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// The device that it is on.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.place.device
    }

    /// Whether it refuses writes: because the device does, or because this was set for it or its
    /// disk.
    pub fn is_read_only(&self) -> bool {
        let told = |volume: &Volume| volume.read_only.load(Relaxed);
        let disk = self.partition.as_ref().is_some_and(|(_, disk)| told(disk));
        self.device().properties().read_only || disk || told(self)
    }

    /// Sets whether it refuses writes. Existing mappings stay as they are.
    pub fn set_read_only(&self, on: bool) {
        self.read_only.store(on, Relaxed);
    }

    /// Its first sector on the device.
    pub fn start(&self) -> u64 {
        self.place.start
    }

    /// Its length in sectors.
    pub fn sectors(&self) -> u64 {
        self.place.len
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.place.len * SECTOR as u64
    }

    /// Its number among the partitions of its disk; None for a disk.
    pub fn partition(&self) -> Option<u32> {
        self.partition.as_ref().map(|&(number, _)| number)
    }

    /// The disk that it is, or is part of.
    pub fn disk(self: &Arc<Self>) -> &Arc<Volume> {
        self.partition.as_ref().map_or(self, |(_, disk)| disk)
    }

    /// Adds a user, which may ask for exclusive use.
    ///
    /// # Errors
    /// EBUSY: somebody else uses it exclusively.
    pub fn begin_use(&self, alone: bool) -> Result<()> {
        if alone {
            let free = self.claims.compare_exchange(0, 1, AcqRel, Relaxed);
            free.map_err(|_| Errno::EBUSY)?;
        }
        self.users.fetch_add(1, AcqRel);
        Ok(())
    }

    /// Ends a use. The last user's changes are written to the device. May sleep.
    pub fn end_use(&self, alone: bool) {
        if self.users.fetch_sub(1, AcqRel) == 1 {
            // If memory is short, the flusher writes them later.
            _ = self.mapping.write_back(0..usize::MAX);
        }
        if alone {
            self.claims.store(0, Release);
        }
    }

    /// Whether anybody uses it.
    pub fn is_used(&self) -> bool {
        self.users.load(Acquire) > 0
    }
}

/// All disks and partitions.
pub fn all() -> Vec<Arc<Volume>> {
    ALL.lock().clone()
}

/// The disk or partition with this device number.
pub fn find(number: u64) -> Option<Arc<Volume>> {
    let all = ALL.lock();
    all.iter().find(|volume| volume.number == number).cloned()
}

/// The partitions of a disk.
pub fn partitions_of(disk: &Arc<Volume>) -> Vec<Arc<Volume>> {
    let mut all = all();
    all.retain(|volume| volume.partition.is_some() && Arc::ptr_eq(volume.disk(), disk));
    all
}

/// Adds the disk with the number `index`, counted from 0.
pub fn add_disk(index: usize, device: Arc<dyn BlockDevice>) -> Result<()> {
    let len = device.properties().sectors;
    let number = device::number(MAJOR, index as u32 * MINORS);
    let place = Place {
        device,
        start: 0,
        len,
    };
    add(Volume::new(name_of(index)?, number, place, None)?)
}

/// The name of a disk: vda to vdz, then vdaa and so on.
fn name_of(index: usize) -> Result<String> {
    let mut letters = [0; 8];
    let (mut at, mut left) = (letters.len(), index + 1);
    while left > 0 && at > 0 {
        (at, left) = (at - 1, left - 1);
        letters[at] = b'a' + (left % 26) as u8;
        left /= 26;
    }
    let letters = str::from_utf8(&letters[at..]).unwrap_or_default();
    try_format(format_args!("vd{letters}"))
}

/// Adds a partition: its number, first sector and length.
pub(super) fn add_partition(
    disk: &Arc<Volume>,
    found: &partitions::Partition,
) -> Result<Arc<Volume>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (major, minor) = device::split(disk.number);
    let number = match found.number {
        number @ ..MINORS => device::number(major, minor + number),
        _ => device::number(MORE, NEXT.fetch_add(1, Relaxed)),
    };
    let place = Place {
        device: disk.device().clone(),
        start: found.start,
        len: found.len,
    };
    let name = try_format(format_args!("{}{}", disk.name, found.number))?;
    let volume = Volume::new(name, number, place, Some((found.number, disk.clone())))?;
    add(volume.clone())?;
    Ok(volume)
}

fn add(volume: Arc<Volume>) -> Result<()> {
    let mut all = ALL.lock();
    all.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let key = |volume: &Arc<Volume>| (volume.disk().number, volume.partition());
    let at = all.partition_point(|other| key(other) < key(&volume));
    all.insert(at, volume);
    Ok(())
}

/// Removes a partition.
pub(super) fn remove(volume: &Arc<Volume>) {
    let mut gone = None;
    let mut all = ALL.lock();
    if let Some(at) = all.iter().position(|other| Arc::ptr_eq(other, volume)) {
        gone = Some(all.remove(at));
    }
    drop(all);
    drop(gone);
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn disks_beyond_the_alphabet_have_names() {
        let names = [0, 25, 26, 51, 52, 701, 702].map(|index| name_of(index).unwrap());
        assert_eq!(names, ["vda", "vdz", "vdaa", "vdaz", "vdba", "vdzz", "vdaaa"]);
    }
}
