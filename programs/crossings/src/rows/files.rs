//! Mappings of a file in memory (tmpfs), all of whose pages exist before.

use super::Measured;
use crate::meter::Meter;
use crate::region::{PAGE, Region};
use crate::sys::{self, Result};

/// The number of pages in a batch: a multiple of 16, the pages that Linux maps at one read fault.
const PAGES: usize = 1008;

/// A file whose pages all exist, closed when dropped.
struct File(usize);

impl File {
    fn new() -> Result<Self> {
        let file = Self(sys::memory_file(PAGES * PAGE)?);
        file.map(true)?.write();
        Ok(file)
    }

    /// A file written 16 pages at a time, which a kernel may have allocated together.
    fn written() -> Result<Self> {
        static BYTES: [u8; 16 * PAGE] = [0; 16 * PAGE];
        let file = Self(sys::memory_file(PAGES * PAGE)?);
        for _ in 0..PAGES / 16 {
            sys::write(file.0, &BYTES)?;
        }
        Ok(file)
    }

    fn map(&self, shared: bool) -> Result<Region> {
        Region::file(PAGES, self.0, shared)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// Times `work` on a mapping of the file whose pages are absent, except those that `prepare` maps.
fn faults(meter: &mut Meter, shared: bool, prepare: fn(&Region), work: fn(&Region)) -> Measured {
    faults_of(&File::new()?, meter, shared, prepare, work)
}

fn faults_of(
    file: &File,
    meter: &mut Meter,
    shared: bool,
    prepare: fn(&Region),
    work: fn(&Region),
) -> Measured {
    let region = file.map(shared)?;
    region.read();
    let absent = || {
        region.forget()?;
        prepare(&region);
        Ok(())
    };
    meter.batches(PAGES, absent, || {
        work(&region);
        Ok(())
    })
}

pub fn shared_read(meter: &mut Meter) -> Measured {
    faults(meter, true, |_| (), Region::read)
}

pub fn written_read(meter: &mut Meter) -> Measured {
    faults_of(&File::written()?, meter, true, |_| (), Region::read)
}

pub fn shared_write(meter: &mut Meter) -> Measured {
    faults(meter, true, |_| (), Region::write)
}

pub fn write_after_read(meter: &mut Meter) -> Measured {
    faults(meter, true, Region::read, Region::write)
}

pub fn private_write(meter: &mut Meter) -> Measured {
    faults(meter, false, |_| (), Region::write)
}

pub fn private_write_after_read(meter: &mut Meter) -> Measured {
    faults(meter, false, Region::read, Region::write)
}
