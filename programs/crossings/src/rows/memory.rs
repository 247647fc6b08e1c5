//! Anonymous memory: faults, unmapping, protection.

use super::Measured;
use crate::meter::Meter;
use crate::region::{LARGE, PAGE, Region};
use crate::sys::{self, Result};

/// Pages in one batch.
const PAGES: usize = 1000;
/// Last-level tables in one batch.
const TABLES: usize = 64;
/// Mappings in one batch.
const MAPPINGS: usize = 100;

/// Wraps `work`, which cannot fail.
fn done(work: impl FnOnce()) -> Result<()> {
    work();
    Ok(())
}

pub fn write(meter: &mut Meter) -> Measured {
    let region = Region::anonymous(PAGES)?;
    region.write();
    meter.batches(PAGES, || region.forget(), || done(|| region.write()))
}

pub fn read(meter: &mut Meter) -> Measured {
    let region = Region::anonymous(PAGES)?;
    region.read();
    meter.batches(PAGES, || region.forget(), || done(|| region.read()))
}

pub fn zero_to_private(meter: &mut Meter) -> Measured {
    let region = Region::anonymous(PAGES)?;
    let prepare = || {
        region.forget()?;
        done(|| region.read())
    };
    meter.batches(PAGES, prepare, || done(|| region.write()))
}

pub fn table_growth(meter: &mut Meter) -> Measured {
    let region = Region::anonymous(TABLES * LARGE / PAGE)?;
    let prepare = || {
        region.unmap()?;
        region.refresh()
    };
    meter.batches(TABLES, prepare, || done(|| region.write_each(LARGE)))
}

pub fn large(meter: &mut Meter) -> Measured {
    let region = Region::anonymous(LARGE / PAGE)?;
    let prepare = || {
        region.unmap()?;
        region.refresh()?;
        done(|| region.ask_large())
    };
    meter.batches(1, prepare, || done(|| region.write()))
}

pub fn unmap(meter: &mut Meter) -> Measured {
    let region = Region::anonymous(PAGES)?;
    let prepare = || {
        region.refresh()?;
        done(|| region.write())
    };
    meter.batches(PAGES, prepare, || region.unmap())
}

pub fn protect(meter: &mut Meter) -> Measured {
    let region = Region::anonymous(PAGES)?;
    let prepare = || {
        region.protect(sys::PROT_READ | sys::PROT_WRITE)?;
        done(|| region.write())
    };
    meter.batches(PAGES, prepare, || region.protect(sys::PROT_READ))
}

/// Maps one page, runs `work` on its address and unmaps it.
#[inline(always)]
fn mapping(work: impl FnOnce(usize)) -> Result<()> {
    let prot = sys::PROT_READ | sys::PROT_WRITE;
    let page = sys::mmap(0, PAGE, prot, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, -1)?;
    work(page);
    sys::munmap(page, PAGE)
}

pub fn map_unmap(meter: &mut Meter) -> Measured {
    meter.batches(
        MAPPINGS,
        || Ok(()),
        || (0..MAPPINGS).try_for_each(|_| mapping(|_| ())),
    )
}

pub fn map_touch_unmap(meter: &mut Meter) -> Measured {
    // SAFETY: the page was just mapped and nothing else uses it.
    let touch = |page: usize| unsafe { (page as *mut u8).write_volatile(1) };
    meter.batches(
        MAPPINGS,
        || Ok(()),
        || (0..MAPPINGS).try_for_each(|_| mapping(touch)),
    )
}
