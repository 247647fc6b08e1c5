//! Pages of files that are mapped.

use super::super::inode::{Attr, Time};
use super::super::page_cache::{Backing, Mapping};
use super::session::Handle;
use super::session::Session;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::virtio_blk::Part;
use crate::sync::Mutex;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;

/// The pages of a file, while somebody maps it.
pub struct Mapped(Mutex<Noted>);

/// The pages, and what the file was when they were first read.
struct Noted {
    pages: Weak<Mapping>,
    version: (u64, Time),
}

/// Reads pages by a file that is open.
struct Data {
    session: Arc<Session>,
    handle: Arc<Handle>,
}

impl Mapped {
    /// None.
    pub fn new() -> Self {
        Mapped(Mutex::new(Noted {
            pages: Weak::new(),
            version: Default::default(),
        }))
    }

    /// The pages for a new mapping: those that others have, unless the file was changed since.
    pub fn pages(
        &self,
        session: &Arc<Session>,
        handle: &Arc<Handle>,
        attr: &Attr,
    ) -> Result<Arc<Mapping>> {
        let version = (attr.size, attr.modified);
        let known = {
            let noted = self.0.lock();
            let is_same = noted.version == version;
            is_same.then(|| noted.pages.upgrade()).flatten()
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let data = try_arc(Data {
            session: session.clone(),
            handle: handle.clone(),
        })?;
        let pages = Mapping::new(data, attr.size)?;
        let new = Noted {
            pages: Arc::downgrade(&pages),
            version,
        };
        let old = core::mem::replace(&mut *self.0.lock(), new);
        drop(old);
        Ok(pages)
    }

    fn present(&self) -> Option<Arc<Mapping>> {
        self.0.lock().pages.upgrade()
    }

    /// The file has this size now.
    pub fn resized(&self, size: u64) {
        if let Some(pages) = self.present()
            && pages.size() != size
        {
            pages.changed_elsewhere(0..0, size);
        }
    }

    /// These bytes were written: they are read again. The size follows.
    pub fn written(&self, range: Range<u64>) {
        if let Some(pages) = self.present() {
            let size = pages.size();
            pages.changed_elsewhere(range, size);
        }
    }
}

impl Data {
    /// Reads adjacent pages, from `index` on.
    fn read_run(&self, index: usize, frames: &[(usize, FrameRef)]) -> Result<()> {
        let (start, len) = ((index * PAGE_SIZE) as u64, frames.len() * PAGE_SIZE);
        let unit = self.session.unit_of(&self.handle);
        let mut done = 0;
        while done < len {
            let parts = parts(frames, done..len.min(done + unit))?;
            let (_, count) = self
                .session
                .read(&self.handle, start + done as u64, parts)?;
            if count == 0 {
                break;
            }
            done += count;
        }
        while done < len {
            let offset = done % PAGE_SIZE;
            frames[done / PAGE_SIZE].1.fill(offset..PAGE_SIZE, 0);
            done += PAGE_SIZE - offset;
        }
        Ok(())
    }
}

/// The parts of frames for a range of their bytes.
fn parts(frames: &[(usize, FrameRef)], range: Range<usize>) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let most = range.len() / PAGE_SIZE + 2;
    parts.try_reserve_exact(most).map_err(|_| Errno::ENOMEM)?;
    let mut at = range.start;
    while at < range.end {
        let offset = at % PAGE_SIZE;
        let len = (PAGE_SIZE - offset).min(range.end - at);
        parts.push(Part {
            frame: frames[at / PAGE_SIZE].1.clone(),
            offset,
            len,
        });
        at += len;
    }
    // One that begins within a page touches one page more.
    parts.truncate(crate::mm::virtio_9p::MOST_PARTS);
    Ok(parts)
}

impl Backing for Data {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        for run in pages.chunk_by(|one, next| one.0 + 1 == next.0) {
            self.read_run(run[0].0, run)?;
        }
        Ok(())
    }

    fn write_pages(&self, _pages: &[(usize, FrameRef)]) -> Result<()> {
        Err(Errno::EROFS)
    }

    fn prepare(&self, _start: u64, _end: u64, _mapped: bool) -> Result<u64> {
        Err(Errno::EROFS)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}
