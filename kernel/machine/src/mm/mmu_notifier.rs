//! MMU notifiers: users that translate to the frames of a space apart from its own table, such as
//! the second stages of guests.

extern crate alloc;

use alloc::sync::Weak;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::space::AddressSpace;
use super::vma::Vma;
use crate::arch::PAGE_SIZE;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::upcall::cond_resched;

/// The maximum number of bytes of a space that are notified at once before other threads may run.
/// If a notifier is slow, or the bytes are translated to at more than [`FEW`] addresses, this is
/// about the minimum instead.
const PART: usize = 64 << 20;
const LEAST: usize = 2 << 20;
const FEW: usize = 8;

/// The maximum number of notifiers of a space: each is called whenever memory of the space is
/// unmapped.
const MOST: usize = 1024;
/// The maximum number of additional addresses at which all notifiers of a space together may map
/// the same memory. When it is unmapped, it is unmapped from each of them, while the space is
/// locked and nothing else runs on the CPU.
const MOST_ALIASES: usize = 128;

/// A secondary translation of the frames of a space.
pub trait MmuNotifier: Send + Sync {
    /// Removes translations of a range whose mapping changed. Must not sleep or call into the
    /// space, which is usually locked.
    fn invalidate(&self, range: Range<usize>);

    /// Makes a range read-only for copy-on-write. The same rules apply.
    fn protect(&self, range: Range<usize>);

    /// Whether a change takes long for each page.
    fn is_slow(&self) -> bool {
        false
    }

    /// The number of addresses at which it maps memory of a range, counted up to `most`. The same
    /// rules apply.
    fn aliases(&self, range: &Range<usize>, most: usize) -> usize;

    /// Removes all translations: the space is gone. May sleep.
    fn end(&self);
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

    /// Removes all notifiers, after a last notification that the space ends. May sleep.
    #[cold]
    pub(super) fn end(&self) {
        let list = core::mem::take(&mut *self.list.lock());
        for notifier in list {
            if let Some(notifier) = notifier.upgrade() {
                notifier.end();
            }
            cond_resched();
        }
    }

    fn are_slow(&self) -> bool {
        let list = self.list.lock();
        let mut known = list.iter().filter_map(Weak::upgrade);
        known.any(|notifier| notifier.is_slow())
    }

    /// Whether a range is mapped at more than `most` addresses.
    fn has_more_aliases(list: &[Weak<dyn MmuNotifier>], range: &Range<usize>, most: usize) -> bool {
        let mut left = most + 1;
        for notifier in list.iter().filter_map(Weak::upgrade) {
            left -= notifier.aliases(range, left);
            if left == 0 {
                return true;
            }
        }
        false
    }

    fn add(&self, notifier: Weak<dyn MmuNotifier>) -> Result<()> {
        let mut list = self.list.lock();
        list.retain(|known| known.strong_count() != 0);
        if list.len() >= MOST {
            return Err(Errno::ENOMEM);
        }
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

    /// Makes the `change` by which a notifier of this space maps a range at one more address.
    ///
    /// # Errors
    /// ENOMEM: the notifiers map it at the maximum number of addresses already. The errors of
    /// `change`.
    pub fn add_alias<T>(
        &self,
        range: &Range<usize>,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let list = self.context().notifiers.list.lock();
        if MmuNotifiers::has_more_aliases(&list, range, MOST_ALIASES) {
            return Err(Errno::ENOMEM);
        }
        change()
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
        let notifiers = &self.context().notifiers;
        let most = if notifiers.are_slow() { LEAST } else { PART };
        for vma in self.vmas().filter(which) {
            let mut left = vma.range();
            while !left.is_empty() {
                let mut part = left.start..left.end.min(left.start + most);
                while part.len() > LEAST
                    && MmuNotifiers::has_more_aliases(&notifiers.list.lock(), &part, FEW)
                {
                    part.end = (part.start + part.len() / 2).next_multiple_of(PAGE_SIZE);
                }
                left.start = part.end;
                notify(notifiers, part);
                cond_resched();
            }
        }
    }
}
