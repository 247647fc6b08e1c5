//! Open regular files.

use super::super::file::{File, FileOps, Memory, OpenFlags};
use super::super::io::{Sink, Source};
use super::super::page_cache::Mapping;
use super::super::path::Path;
use super::super::tmpfs::limit_size;
use super::node::{Content, Node};
use super::session::{Handle, parts_of};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc;
use crate::sync::Once;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use core::ops::Range;
use linux_raw_sys::general::*;
use ninep::Request;

/// The server's flags to read, to write, to do both, and to add at the end (P9_DOTL_*).
const READS: u32 = 0;
const WRITES: u32 = 1;
const BOTH: u32 = 2;
const APPENDS: u32 = 0o2000;

/// An open file.
pub struct Open {
    handle: Arc<Handle>,
    node: Arc<Node>,
    /// Its pages, once it is mapped.
    pages: Once<Arc<Mapping>>,
}

impl Open {
    /// Opens it. The open that made it takes the file as it was made: its permissions may forbid
    /// another.
    pub fn open(node: Arc<Node>, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        let made = flags.created().then(|| node.made.lock().take()).flatten();
        let wanted = server_flags(flags);
        let handle = match made {
            // It was made without O_APPEND, which another open tells the server.
            Some(made) if wanted & APPENDS != 0 => node.open_as(wanted).unwrap_or(made),
            Some(made) => made,
            None => node.open_as(wanted)?,
        };
        let handle = try_arc(handle)?;
        node.note_opened(&handle, flags.writable());
        let pages = Once::new();
        Ok(try_arc(Open {
            handle,
            node,
            pages,
        })?)
    }

    /// Writes from `position` on; returns how many bytes.
    fn put(&self, from: &mut Source, position: u64) -> Result<usize> {
        limit_size(from, position)?;
        self.node.lose_privileges()?;
        let session = self.node.session();
        let unit = session.unit_of(&self.handle);
        let mut total = 0;
        while from.left() > 0 {
            let at = position + total as u64;
            let len = from.left().min(unit);
            let sent = take(from, len).and_then(|(parts, taken)| {
                let count = session.write(&self.handle, at, parts)?;
                Ok((taken, count))
            });
            match sent {
                Ok((taken, count)) => {
                    total += count;
                    if count < len || taken < len {
                        break;
                    }
                }
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
            if from.left() > 0 && cond_resched_killable().is_err() {
                break;
            }
        }
        if total > 0 {
            self.node.wrote(position..position + total as u64);
        }
        Ok(total)
    }

    /// Waits until what was written is on the medium, where the file or its mount wants that.
    fn settle(&self, file: &File) -> Result<()> {
        let mounted = file.path().mount_flags() & MS_SYNCHRONOUS != 0;
        match file.flags().has(O_DSYNC) || mounted {
            true => self.flush_to_medium(!file.flags().has(O_SYNC)),
            false => Ok(()),
        }
    }

    fn flush_to_medium(&self, only_data: bool) -> Result<()> {
        let request = Request::Sync {
            fid: self.handle.fid.number(),
            only_data,
        };
        self.node.session().ask(&request, ninep::empty)
    }

    /// Its pages, for a mapping.
    fn pages(&self) -> Result<&Arc<Mapping>> {
        if let Some(pages) = self.pages.get() {
            return Ok(pages);
        }
        let Content::File(mapped) = &self.node.content else {
            return Err(Errno::ENODEV);
        };
        self.node.refresh()?;
        let attr = self.node.attributes();
        let pages = mapped.pages(self.node.session(), &self.handle, &attr)?;
        Ok(self.pages.call_once(|| pages))
    }
}

/// What the server is to open it for. Data is flushed by requests of their own.
fn server_flags(flags: OpenFlags) -> u32 {
    let access = match (flags.readable(), flags.writable()) {
        (true, true) => BOTH,
        (false, true) => WRITES,
        _ => READS,
    };
    match flags.writable() && flags.has(O_APPEND) {
        true => access | APPENDS,
        false => access,
    }
}

/// Up to `len` bytes of a source, as parts, and how many there are.
fn take(
    from: &mut Source,
    len: usize,
) -> Result<(alloc::vec::Vec<crate::mm::virtio_blk::Part>, usize)> {
    let mut parts = parts_of(len)?;
    let mut total = 0;
    for part in &mut parts {
        let wanted = part.len;
        match from.take_frame(&part.frame, 0, wanted) {
            Ok(count) => part.len = count,
            Err(error) if total == 0 => return Err(error),
            Err(_) => part.len = 0,
        }
        total += part.len;
        if part.len < wanted {
            break;
        }
    }
    parts.truncate(total.div_ceil(PAGE_SIZE));
    Ok((parts, total))
}

impl FileOps for Open {
    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let session = self.node.session();
        let unit = session.unit_of(&self.handle);
        let mut total = 0;
        while to.left() > 0 {
            let len = to.left().min(unit);
            let read = parts_of(len)
                .and_then(|parts| session.read(&self.handle, position + total as u64, parts));
            let (parts, count) = match read {
                Ok(read) => read,
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            };
            let mut left = count;
            for part in &parts {
                let len = part.len.min(left);
                if len == 0 {
                    break;
                }
                match to.put_frame(&part.frame, 0, len) {
                    Ok(copied) if copied == len => left -= len,
                    Ok(copied) => return Ok(total + count - left + copied),
                    Err(error) if total + count == left => return Err(error),
                    Err(_) => return Ok(total + count - left),
                }
            }
            total += count;
            if count < len || to.left() > 0 && cond_resched_killable().is_err() {
                break;
            }
        }
        Ok(total)
    }

    fn write(&self, file: &File, from: &mut Source, position: u64) -> Result<usize> {
        let count = self.put(from, position)?;
        self.settle(file)?;
        Ok(count)
    }

    /// The server adds at the end by itself; the lock is for files that got O_APPEND later.
    fn append(&self, file: &File, from: &mut Source) -> Result<(usize, u64)> {
        let alone = self.node.appending.lock_killable()?;
        self.node.refresh()?;
        let start = self.node.attributes().size;
        let count = self.put(from, start)?;
        drop(alone);
        self.settle(file)?;
        Ok((count, start + count as u64))
    }

    fn maps_read_only(&self) -> bool {
        true
    }

    fn memory(&self) -> Memory<'_> {
        match self.pages() {
            Ok(pages) => Memory::Pages(&**pages),
            Err(_) => Memory::None,
        }
    }

    /// Nothing is cached, which is what it asks for.
    fn has_direct(&self, _path: &Path) -> bool {
        true
    }

    fn sync(&self, _file: &File, _range: Range<u64>) -> Result<()> {
        self.flush_to_medium(false)
    }
}
