//! Weak references to files that are looked at where nobody may sleep: in interrupts, and under
//! spin locks.

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
    end: Arc<End>,
}

/// A file's end that is put off.
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
        let end = End {
            link: Link::default(),
            last: Mutex::new(None),
        };
        Ok(WeakFile {
            file: Arc::downgrade(file),
            end: try_arc(end)?,
        })
    }

    /// Calls `look` with the file, as long as it is open.
    pub fn with<T>(&self, look: impl FnOnce(&File) -> T) -> Option<T> {
        let file = self.file.upgrade()?;
        let seen = look(&file);
        let address = Arc::as_ptr(&file).addr();
        if let Some(mut last) = Arc::into_inner(file) {
            last.move_from(address);
            *self.end.last.lock() = Some((last, self.file.clone()));
            work_queue::queue(self.end.clone());
        }
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
