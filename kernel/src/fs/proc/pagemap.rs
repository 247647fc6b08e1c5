//! `/proc/PID/pagemap`: one 64-bit word per page; the offset is eight times the page number.

use super::super::file::{File, FileOps};
use super::super::io::Sink;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::{AddressSpace, PAGE_SHIFT};
use crate::task::can;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use linux_raw_sys::general::CAP_SYS_ADMIN;
use zerocopy::IntoBytes;

/// Bytes of a page's word.
const WORD: usize = size_of::<u64>();
/// The number of words written at a time.
const CHUNK: usize = 512;

/// The page is present, and it is shared or belongs to a file
/// (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const SHARED: u64 = 1 << 61;

/// The open file.
struct Map {
    /// The memory that the process had when the file was opened.
    space: Weak<AddressSpace>,
    /// Whether the opener may see frame numbers.
    numbers: bool,
}

/// Opens the map of an address space that the caller may inspect.
pub fn open(space: Weak<AddressSpace>) -> Result<Arc<dyn FileOps>> {
    let numbers = can(CAP_SYS_ADMIN);
    Ok(try_arc(Map { space, numbers })?)
}

impl FileOps for Map {
    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let Some(space) = self.space.upgrade() else {
            return Ok(0);
        };
        if !(position as usize).is_multiple_of(WORD) || !to.left().is_multiple_of(WORD) {
            return Err(Errno::EINVAL);
        }
        let mut page = position as usize / WORD;
        let end = space.end() >> PAGE_SHIFT;
        let mut done = 0;
        let mut words = Vec::new();
        words.try_reserve_exact(CHUNK).map_err(|_| Errno::ENOMEM)?;
        words.resize(CHUNK, 0u64);
        while to.left() > 0 && page < end {
            words.fill(0);
            let count = CHUNK.min(to.left() / WORD).min(end - page);
            let range = page << PAGE_SHIFT..(page + count) << PAGE_SHIFT;
            space.held(range, |address, frame, anonymous| {
                let number = if self.numbers { frame as u64 } else { 0 };
                let word = &mut words[(address >> PAGE_SHIFT) - page];
                *word = PRESENT | if anonymous { 0 } else { SHARED } | number;
            });
            done += to.put(words[..count].as_bytes())?;
            page += count;
            cond_resched_killable()?;
        }
        Ok(done)
    }
}
