//! Weak references to files, for code that must not sleep: interrupts and spin-locked sections.

use super::file::File;
use crate::errno::Result;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::work_queue::{self, Link, Work};
use alloc::sync::{Arc, Weak};

/// A reference that does not keep the file open. Each access takes a reference meanwhile, which may
/// be the last one to be dropped. Closing a file may sleep, so a kernel thread does that then
/// (Linux's delayed_fput).
pub struct WeakFile {
    file: Weak<File>,
    end: LateEnd,
}

/// Drops references to a file in code that must not sleep, even if they are the last.
pub struct LateEnd(Arc<End>);

impl LateEnd {
    /// The means to close one file.
    ///
    /// # Errors
    /// ENOMEM.
    fn try_new() -> Result<Self> {
        Ok(LateEnd(try_arc(End::default())?))
    }

    /// The same for a short time, even if memory is short: from the kernel's reserve.
    pub fn new() -> Self {
        LateEnd(Arc::default())
    }

    /// Drops a reference. Returns whether it was the last one: then closing the file is deferred,
    /// and this can close no other.
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

/// The deferred close of a file.
#[derive(Default)]
struct End {
    link: Link,
    /// The file, and a reference that prevents reuse of its address, which is its key.
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

    /// Calls `look` with the file, if it is open.
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
