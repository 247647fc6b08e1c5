//! MMU notifiers: users that translate to the frames of a space apart from its own table, such as
//! the second stages of guests.

extern crate alloc;

use alloc::sync::Weak;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::space::AddressSpace;
use super::vma::Vma;
use crate::arch::user_end;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::upcall::cond_resched;

/// Bytes of a space that are notified at once before others may run.
const PART: usize = 64 << 20;

/// A secondary translation of the frames of a space.
pub trait MmuNotifier: Send + Sync {
    /// Removes translations of a range whose mapping changed. Must not sleep or call into the
    /// space, which is usually locked.
    fn invalidate(&self, range: Range<usize>);

    /// Makes a range read-only. The same rules apply.
    fn protect(&self, range: Range<usize>);
}

/// The notifiers of a space, including dead ones.
pub struct MmuNotifiers {
    /// Whether a notifier was ever added. Set before the notifier maps the first frame, under the
    /// space's lock, like every change.
    any: AtomicBool,
    list: Mutex<Vec<Weak<dyn MmuNotifier>>>,
}

impl MmuNotifiers {
    /// No notifiers.
    pub const fn new() -> Self {
        MmuNotifiers {
            any: AtomicBool::new(false),
            list: Mutex::new(Vec::new()),
        }
    }

    /// Whether there may be notifiers.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Notifies all of them that the mapping of a range has changed or is gone.
    #[inline(always)]
    pub fn invalidate(&self, range: Range<usize>) {
        if self.any() {
            self.notify(|notifier| notifier.invalidate(range.clone()));
        }
    }

    /// Notifies all of them that a range is read-only from now on.
    pub fn protect(&self, range: Range<usize>) {
        if self.any() {
            self.notify(|notifier| notifier.protect(range.clone()));
        }
    }

    #[cold]
    fn notify(&self, what: impl Fn(&dyn MmuNotifier)) {
        let list = self.list.lock();
        list.iter()
            .filter_map(Weak::upgrade)
            .for_each(|notifier| what(&*notifier));
    }

    /// Removes all notifiers, after a last notification that the space ends.
    #[cold]
    pub(super) fn end(&self) {
        let list = core::mem::take(&mut *self.list.lock());
        for notifier in list {
            if let Some(notifier) = notifier.upgrade() {
                notifier.invalidate(0..user_end());
            }
        }
    }

    fn add(&self, notifier: Weak<dyn MmuNotifier>) -> Result<()> {
        let mut list = self.list.lock();
        list.retain(|known| known.strong_count() != 0);
        list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.push(notifier);
        self.any.store(true, Relaxed);
        Ok(())
    }

    fn remove(&self, notifier: &Weak<dyn MmuNotifier>) {
        let mut list = self.list.lock();
        list.retain(|known| !known.ptr_eq(notifier));
    }
}

impl AddressSpace {
    /// Registers `notifier` for changes to the frames of this space.
    pub fn add_notifier(&self, notifier: Weak<dyn MmuNotifier>) -> Result<()> {
        let _space = self.lock();
        self.context().notifiers.add(notifier)
    }

    /// Removes `notifier`. No call to it is in progress when this returns.
    pub fn remove_notifier(&self, notifier: &Weak<dyn MmuNotifier>) {
        self.context().notifiers.remove(notifier);
    }

    /// Notifies them that the whole space is gone. May sleep: must be called without the space's
    /// lock.
    #[cold]
    #[inline(never)]
    pub(super) fn notify_of_end(&self) {
        self.notify_by_parts(|_| true, MmuNotifiers::invalidate);
    }

    /// Notifies them that pages shared with a child are read-only from now on. May sleep as well.
    #[cold]
    #[inline(never)]
    pub(super) fn protect_shared(&self) {
        self.notify_by_parts(Vma::is_copied, MmuNotifiers::protect);
    }

    fn notify_by_parts(
        &self,
        which: impl Fn(&Vma) -> bool,
        notify: impl Fn(&MmuNotifiers, Range<usize>),
    ) {
        for vma in self.vmas().filter(which) {
            for start in vma.range().step_by(PART) {
                notify(&self.context().notifiers, start..vma.end.min(start + PART));
                cond_resched();
            }
        }
    }
}
