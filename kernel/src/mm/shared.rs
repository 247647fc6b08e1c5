//! Memory shared between processes without a file: MAP_SHARED | MAP_ANONYMOUS.

extern crate alloc;

use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use radix::Radix;

use super::area::PageSource;
use super::frame::{self, FrameRef};
use super::heap::try_arc;
use super::number::Number;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::task;
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// Pages of zeroes at first, made when touched.
pub struct SharedPages {
    pages: Mutex<Radix<FrameRef>>,
    len: usize,
    /// The key, of a segment of System V shared memory.
    key: Option<i32>,
    number: Number,
}

impl SharedPages {
    /// `len` pages.
    pub fn new(len: usize) -> Result<Arc<Self>> {
        Self::named(len, None)
    }

    /// `len` pages of a segment of System V shared memory with `key`.
    pub fn named(len: usize, key: Option<i32>) -> Result<Arc<Self>> {
        try_arc(SharedPages {
            pages: Mutex::new(Radix::new()),
            len,
            key,
            number: Number::new(),
        })
    }
}

impl PageSource for SharedPages {
    fn object(&self) -> usize {
        self.number.get()
    }

    fn page(&self, index: usize, _write: bool) -> Result<FrameRef> {
        if index >= self.len {
            return Err(Errno::ENXIO);
        }
        let mut pages = self.pages.lock();
        if let Some(frame) = pages.get(index) {
            return Ok(frame.clone());
        }
        // A segment may have nobody whose end gives it back.
        if self.key.is_some() && frame::is_scarce() && !task::can(CAP_SYS_ADMIN) {
            return Err(Errno::ENOSPC);
        }
        let frame = frame::alloc_zeroed()?;
        pages
            .insert(index, frame.clone())
            .map_err(|_| Errno::ENOMEM)?;
        Ok(frame)
    }

    fn present(&self, first: usize, frames: &mut [Option<FrameRef>]) {
        let pages = self.pages.lock();
        pages.each(first..first + frames.len(), |index, page| {
            frames[index - first] = Some(page.clone())
        });
    }

    fn next_present(&self, first: usize) -> Option<usize> {
        self.pages.lock().next_item(first)
    }

    fn len_pages(&self) -> usize {
        self.len
    }

    /// Others may map the frames, so they stay.
    fn clear(&self, range: Range<usize>) -> Result<()> {
        let pages = self.pages.lock();
        pages.each(range, |_, page| page.zero());
        Ok(())
    }

    fn write_name(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self.key {
            Some(key) => write!(out, "/SYSV{key:08x} (deleted)"),
            None => out.write_str("/dev/zero (deleted)"),
        }
    }
}
