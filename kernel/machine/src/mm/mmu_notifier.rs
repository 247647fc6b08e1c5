//! Others that translate to the frames of a space beside its own table: the second stages of
//! guests.

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

/// How much of a space is notified at once while others are to run in between, in bytes.
const PART: usize = 64 << 20;

/// One that shows frames of a space elsewhere.
pub trait MmuNotifier: Send + Sync {
    /// These addresses no longer map what they did. Must not wait or call into the space, which is
    /// usually locked.
    fn invalidate(&self, range: Range<usize>);

    /// These addresses are read-only from now on. The same rules apply.
    fn protect(&self, range: Range<usize>);
}

/// The notifiers of a space, some of them dead.
pub struct MmuNotifiers {
    /// Whether there ever was one. Set before the first frame is shown, under the space's lock as
    /// every change is.
    any: AtomicBool,
    list: Mutex<Vec<Weak<dyn MmuNotifier>>>,
}

impl MmuNotifiers {
    /// None.
    pub const fn new() -> Self {
        MmuNotifiers {
            any: AtomicBool::new(false),
            list: Mutex::new(Vec::new()),
        }
    }

    /// Whether there are any.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Notifies all of them that a range maps something else, or nothing.
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

    /// Notifies all of them for the last time that the space ends.
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
    /// From now on `notifier` is notified of frames of this space that it must show no longer.
    pub fn add_notifier(&self, notifier: Weak<dyn MmuNotifier>) -> Result<()> {
        let _space = self.lock();
        self.context().notifiers.add(notifier)
    }

    /// Removes `notifier`. No call to it is in progress when this returns.
    pub fn remove_notifier(&self, notifier: &Weak<dyn MmuNotifier>) {
        self.context().notifiers.remove(notifier);
    }

    /// Notifies them that all of the space is gone. Waits: the space is not locked.
    #[cold]
    #[inline(never)]
    pub(super) fn notify_of_end(&self) {
        self.notify_by_parts(|_| true, MmuNotifiers::invalidate);
    }

    /// Notifies them that what a child shares is read-only from now on. Waits as well.
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
