//! Weak references to files, for code that must not sleep: interrupts and spin-locked sections.

use super::file::File;
use crate::errno::Result;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::work_queue::{self, Link, Work};
use alloc::sync::{Arc, Weak};

/// A reference that does not keep the file open. Each access holds the file meanwhile and may drop
/// the last reference. Closing a file may sleep, so a kernel thread then does that (Linux's
/// delayed_fput).
pub struct WeakFile {
    file: Weak<File>,
    end: LateEnd,
}

/// Lets go of a file where nobody may sleep, though it may be the last reference.
pub struct LateEnd(Arc<End>);

impl LateEnd {
    /// What ends one file.
    ///
    /// # Errors
    /// ENOMEM.
    fn try_new() -> Result<Self> {
        Ok(LateEnd(try_arc(End::default())?))
    }

    /// What ends one file, for a moment, also where memory is short: of the kernel's reserve.
    pub fn new() -> Self {
        LateEnd(Arc::default())
    }

    /// Drops a reference. Returns whether it was the last: the file's end is put off then, and this
    /// ends no other.
    pub fn drop_file(&self, file: Arc<File>) -> bool {
        let (address, weak) = (Arc::as_ptr(&file).addr(), Arc::downgrade(&file));
        let Some(mut last) = Arc::into_inner(file) else {
            return false;
        };
        last.move_from(address);
        *self.0.last.lock() = Some((last, weak));
        work_queue::queue(self.0.clone());
        true
    }
}

/// A file's end that is put off.
#[derive(Default)]
struct End {
    link: Link,
    /// The file, and a reference that keeps its address from others: the address is its key.
    last: Mutex<Option<(File, Weak<File>)>>,
}

impl WeakFile {
    /// A reference to `file`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(file: &Arc<File>) -> Result<Self> {
        Ok(WeakFile {
            file: Arc::downgrade(file),
            end: LateEnd::try_new()?,
        })
    }

    /// Calls `look` with the file, as long as it is open.
    pub fn with<T>(&self, look: impl FnOnce(&File) -> T) -> Option<T> {
        let file = self.file.upgrade()?;
        let seen = look(&file);
        self.end.drop_file(file);
        Some(seen)
    }
}

impl Work for End {
    fn link(&self) -> &Link {
        &self.link
    }

    fn run(self: Arc<Self>) {
        let last = self.last.lock().take();
        drop(last);
    }
}
