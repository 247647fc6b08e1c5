//! `/proc/PID/pagemap`: a word for each page of a process's addresses, at eight times its number.

use super::super::file::{File, FileOps};
use super::super::io::Sink;
use super::subject::Who;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::{AddressSpace, PAGE_SHIFT};
use crate::task::{access, can};
use alloc::sync::Arc;
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// Bytes of a page's word.
const WORD: usize = size_of::<u64>();
/// Words that are told at a time.
const CHUNK: usize = 64;

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
        while to.left() > 0 && page < end {
            let mut words = [0u64; CHUNK];
            let count = CHUNK.min(to.left() / WORD).min(end - page);
            for (word, page) in words[..count].iter_mut().zip(page..) {
                if let Some((frame, anonymous)) = space.held(page << PAGE_SHIFT) {
                    let number = if numbers { frame as u64 } else { 0 };
                    *word = PRESENT | if anonymous { 0 } else { SHARED } | number;
                }
            }
            for word in &words[..count] {
                done += to.put(&word.to_ne_bytes())?;
            }
            page += count;
        }
        Ok(done)
    }
}
