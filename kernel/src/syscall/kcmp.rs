//! kcmp(2): whether two processes share something.

use core::cmp::Ordering;

use alloc::sync::Arc;

use crate::errno::{Errno, Result};
use crate::task::{Thread, access, tree};

/// What is compared (include/uapi/linux/kcmp.h).
const FILE: u32 = 0;
const MEMORY: u32 = 1;
const FILES: u32 = 2;
const FILE_SYSTEM: u32 = 3;
const HANDLERS: u32 = 4;
const IO: u32 = 5;
const UNDO: u32 = 6;

/// kcmp(2): 0 for the same, else 1 or 2 by an order that means nothing.
pub fn kcmp(one: i32, two: i32, kind: u32, first: u32, second: u32) -> Result<usize> {
    let threads = [one, two].map(|tid| tree::thread(tid).ok_or(Errno::ESRCH));
    let [one, two] = threads;
    let (one, two) = (one?, two?);
    access::check(one.process())?;
    access::check(two.process())?;
    let open = |thread: &Thread, fd: u32| {
        let files = thread.resources().files.ok_or(Errno::EBADF)?;
        Ok::<_, Errno>(address(&files.get(fd as i32)?))
    };
    let (a, b) = match kind {
        FILE => (open(&one, first)?, open(&two, second)?),
        MEMORY => (shared(one.space()), shared(two.space())),
        FILES => (shared(one.resources().files), shared(two.resources().files)),
        FILE_SYSTEM => (shared(one.resources().fs), shared(two.resources().fs)),
        HANDLERS => (
            address(&one.process().signals.actions()),
            address(&two.process().signals.actions()),
        ),
        // Nobody has a context of block devices: all have the same, none.
        IO => (0, 0),
        UNDO => (undo(&one), undo(&two)),
        _ => return Err(Errno::EINVAL),
    };
    Ok(match a.cmp(&b) {
        Ordering::Equal => 0,
        Ordering::Less => 1,
        Ordering::Greater => 2,
    })
}

fn address<T: ?Sized>(of: &Arc<T>) -> usize {
    Arc::as_ptr(of).cast::<u8>().addr()
}

/// What a thread undoes of semaphores at its end; 0 for nothing.
fn undo(thread: &Thread) -> usize {
    if thread.process().has_undo() {
        address(thread.process())
    } else {
        0
    }
}

fn shared<T: ?Sized>(of: Option<Arc<T>>) -> usize {
    of.as_ref().map_or(0, address)
}
