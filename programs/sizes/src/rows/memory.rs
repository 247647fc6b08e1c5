//! Address spaces with many areas (VMAs), and areas with many pages.

use std::cell::RefCell;
use std::io;

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{PAGE, Region, call, exit, fork, memory_file, read_whole, wait};

pub const ROWS: &[Row] = &[
    among(
        "mmap_munmap",
        10_000,
        map,
        "mmap and munmap of a page beside N areas",
    ),
    among(
        "mprotect_split",
        10_000,
        split,
        "mprotect that splits an area of N, and one that joins it",
    ),
    among(
        "fault_areas",
        10_000,
        fault,
        "a page of each of N areas written, by page",
    ),
    among(
        "fork_areas",
        10_000,
        fork_areas,
        "fork, exit and wait with N areas, by area",
    ),
    among("maps", 10_000, maps, "/proc/self/maps of N areas, by area"),
    among(
        "smaps",
        1_000,
        smaps,
        "/proc/self/smaps of N areas, by area",
    ),
    among(
        "mremap",
        10_000,
        mremap,
        "mremap of N pages to another place, by page",
    ),
    among("mincore", 10_000, mincore, "mincore of N pages, by page"),
    among(
        "mprotect",
        10_000,
        protect,
        "mprotect of N pages, there and back, by page",
    ),
    among(
        "dontneed",
        10_000,
        dontneed,
        "MADV_DONTNEED of N pages, by page",
    ),
    among("munmap", 10_000, unmap, "munmap of N pages, by page"),
    among(
        "msync",
        10_000,
        msync,
        "MS_SYNC of N changed pages of a file in memory, by page",
    ),
    among(
        "map_file",
        10_000,
        map_file,
        "N pages of a file mapped, read and unmapped, by page",
    ),
    among(
        "fork_pages",
        10_000,
        fork_pages,
        "fork, exit and wait with N pages, by page",
    ),
    among(
        "huge_copy",
        100,
        huge,
        "fork with N huge pages, a write to each by the child, by page",
    ),
];

const READ: i32 = libc::PROT_READ;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Creates `number` areas: every second page is read-only.
fn areas(number: usize) -> io::Result<Region> {
    let region = Region::new(number * PAGE)?;
    region.advise(libc::MADV_NOHUGEPAGE)?;
    for page in (0..number).step_by(2) {
        region.protect(page * PAGE, PAGE, READ)?;
    }
    Ok(region)
}

fn map(meter: &mut Meter) -> Done {
    let _areas = areas(meter.size())?;
    meter.repeat(EACH, |_| Region::new(PAGE).map(drop))
}

fn split(meter: &mut Meter) -> Done {
    let _areas = areas(meter.size())?;
    let one = Region::new(3 * PAGE)?;
    meter.repeat(EACH, |_| {
        one.protect(PAGE, PAGE, READ)?;
        one.protect(PAGE, PAGE, BOTH)
    })
}

fn fault(meter: &mut Meter) -> Done {
    let areas = areas(2 * meter.size())?;
    meter.batches(
        meter.size(),
        || areas.advise(libc::MADV_DONTNEED),
        || {
            for at in (PAGE..areas.bytes).step_by(2 * PAGE) {
                areas.write_at(at);
            }
            Ok(())
        },
    )
}

/// Forks a child that exits, and waits for it.
fn forked(child: impl FnOnce()) -> Done {
    wait(fork(child)? as isize)
}

fn fork_areas(meter: &mut Meter) -> Done {
    let _areas = areas(meter.size())?;
    meter.batches(meter.size(), || Ok(()), || forked(|| ()))
}

/// Reads a file of `/proc` that lists areas.
fn told(meter: &mut Meter, path: &std::ffi::CStr) -> Done {
    let size = meter.size();
    let areas = areas(size)?;
    areas.read();
    let mut buffer = vec![0; 64 << 10];
    meter.batches(size, || Ok(()), || read_whole(path, &mut buffer).map(drop))
}

fn maps(meter: &mut Meter) -> Done {
    told(meter, c"/proc/self/maps")
}

fn smaps(meter: &mut Meter) -> Done {
    told(meter, c"/proc/self/smaps")
}

fn mremap(meter: &mut Meter) -> Done {
    let mut region = Region::present(meter.size())?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // The target: as many bytes, without a page. After a move, the old place is the next target.
    let place = Region::new(region.bytes)?;
    let mut other = place.base;
    std::mem::forget(place);
    meter.batches(
        meter.size(),
        || Ok(()),
        || {
            let bytes = region.bytes;
            let old = region.base;
            region.base = call!(SYS_mremap, old, bytes, bytes, flags, other)?;
            other = old;
            Ok(())
        },
    )
}

fn mincore(meter: &mut Meter) -> Done {
    let region = Region::present(meter.size())?;
    let mut there = vec![0u8; meter.size()];
    let mut ask = || call!(SYS_mincore, region.base, region.bytes, there.as_mut_ptr());
    meter.batches(
        meter.size() * EACH,
        || Ok(()),
        || (0..EACH).try_for_each(|_| ask().map(drop)),
    )
}

fn protect(meter: &mut Meter) -> Done {
    let region = Region::present(meter.size())?;
    meter.batches(
        meter.size(),
        || {
            region.write();
            Ok(())
        },
        || {
            region.protect(0, region.bytes, READ)?;
            region.protect(0, region.bytes, BOTH)
        },
    )
}

fn dontneed(meter: &mut Meter) -> Done {
    let region = Region::present(meter.size())?;
    meter.batches(
        meter.size(),
        || {
            region.write();
            Ok(())
        },
        || region.advise(libc::MADV_DONTNEED),
    )
}

fn unmap(meter: &mut Meter) -> Done {
    let (size, next) = (meter.size(), RefCell::new(None));
    meter.batches(
        size,
        || {
            *next.borrow_mut() = Some(Region::present(size)?);
            Ok(())
        },
        || {
            drop(next.take());
            Ok(())
        },
    )
}

fn msync(meter: &mut Meter) -> Done {
    let bytes = meter.size() * PAGE;
    let region = Region::of_file(bytes, &memory_file(bytes)?)?;
    meter.batches(
        meter.size(),
        || {
            region.write();
            Ok(())
        },
        || call!(SYS_msync, region.base, region.bytes, libc::MS_SYNC).map(drop),
    )
}

fn map_file(meter: &mut Meter) -> Done {
    let bytes = meter.size() * PAGE;
    let file = memory_file(bytes)?;
    Region::of_file(bytes, &file)?.write();
    meter.batches(
        meter.size(),
        || Ok(()),
        || {
            Region::of_file(bytes, &file)?.read();
            Ok(())
        },
    )
}

fn fork_pages(meter: &mut Meter) -> Done {
    let _pages = Region::present(meter.size())?;
    meter.batches(meter.size(), || Ok(()), || forked(|| ()))
}

const HUGE: usize = 2 << 20;

fn huge(meter: &mut Meter) -> Done {
    let size = meter.size();
    let region = Region::new((size + 1) * HUGE)?;
    region.advise(libc::MADV_HUGEPAGE)?;
    region.write();
    let first = region.base.next_multiple_of(HUGE) - region.base;
    meter.batches(
        meter.size(),
        || Ok(()),
        || {
            forked(|| {
                for page in 0..size {
                    region.write_at(first + page * HUGE);
                }
                exit(0)
            })
        },
    )
}
