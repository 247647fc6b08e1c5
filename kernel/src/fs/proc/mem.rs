//! `/proc/PID/mem`: the memory of a process; positions are its addresses.

use super::super::file::{File, FileOps};
use super::super::io::{Sink, Source};
use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use crate::mm::heap::try_arc;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};

/// The number of bytes that are copied at a time.
const CHUNK: usize = 512;

/// The open file, which refers to the memory at the time of open.
struct Memory(Weak<AddressSpace>);

/// Opens a memory that the caller may inspect.
pub fn open(space: Weak<AddressSpace>) -> Result<Arc<dyn FileOps>> {
    Ok(try_arc(Memory(space))?)
}

/// Copies pieces of `CHUNK` with `copy`, which returns the number of bytes copied, until one is
/// short.
fn pieces(len: usize, mut copy: impl FnMut(usize, usize) -> Result<usize>) -> Result<usize> {
    let mut done = 0;
    while done < len {
        let wanted = (len - done).min(CHUNK);
        match copy(done, wanted).and_then(|count| cond_resched_killable().map(|()| count)) {
            Ok(count) => done += count,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn address(position: u64, done: usize) -> Result<usize> {
    let end = position.checked_add(done as u64).ok_or(Errno::EIO)?;
    usize::try_from(end).map_err(|_| Errno::EIO)
}

/// EIO if nothing could be copied.
fn some(count: usize) -> Result<usize> {
    if count > 0 {
        Ok(count)
    } else {
        Err(Errno::EIO)
    }
}

impl FileOps for Memory {
    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let Some(space) = self.0.upgrade() else {
            return Ok(0);
        };
        let mut chunk = [0; CHUNK];
        pieces(to.left(), |done, wanted| {
            let got = some(space.read(address(position, done)?, &mut chunk[..wanted])?)?;
            to.put(&chunk[..got])
        })
    }

    fn write(&self, _file: &File, from: &mut Source, position: u64) -> Result<usize> {
        let Some(space) = self.0.upgrade() else {
            return Ok(0);
        };
        let mut chunk = [0; CHUNK];
        pieces(from.left(), |done, wanted| {
            let got = from.take(&mut chunk[..wanted])?;
            some(space.poke(address(position, done)?, &chunk[..got])?)
        })
    }
}
