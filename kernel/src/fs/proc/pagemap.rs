//! `/proc/PID/pagemap`: a word for each page of a process's addresses, at eight times its number.

use super::super::file::{File, FileOps};
use super::super::io::Sink;
use super::subject::Who;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::{AddressSpace, PAGE_SHIFT};
use crate::task::sched::cond_resched_killable;
use crate::task::{access, can};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::CAP_SYS_ADMIN;
use zerocopy::IntoBytes;

/// Bytes of a page's word.
const WORD: usize = size_of::<u64>();
/// Words that are told at a time.
const CHUNK: usize = 512;

/// The page is present, and it is a file's or shared (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const SHARED: u64 = 1 << 61;

/// The open file.
struct Map(Who);

/// Opens the map of `who`, whom the caller must be allowed to trace.
pub fn open(who: Who) -> Result<Arc<dyn FileOps>> {
    let map = Map(who);
    map.space()?;
    Ok(try_arc(map)?)
}

impl Map {
    fn space(&self) -> Result<Option<Arc<AddressSpace>>> {
        let subject = self.0.find()?;
        access::check(&subject.process).map_err(|_| Errno::EACCES)?;
        Ok(subject.space())
    }
}

impl FileOps for Map {
    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let Some(space) = self.space()? else {
            return Ok(0);
        };
        if position as usize % WORD != 0 || to.left() % WORD != 0 {
            return Err(Errno::EINVAL);
        }
        let numbers = can(CAP_SYS_ADMIN);
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
                let number = if numbers { frame as u64 } else { 0 };
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
