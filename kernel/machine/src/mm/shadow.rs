//! Others that translate to the frames of a space beside its own table: the second stages of guests.

extern crate alloc;

use alloc::sync::Weak;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::space::AddressSpace;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::upcall::cond_resched;

/// How much of a space is told of at once while others are to run in between, in bytes.
const PART: usize = 64 << 20;

/// One that shows frames of a space elsewhere.
pub trait Shadow: Send + Sync {
    /// What these addresses held they hold no longer, or it may be written no longer. Called with the space locked: must
    /// not wait, and not ask the space for anything.
    fn forget(&self, range: Range<usize>);
}

/// The shadows of a space, some of them dead.
pub struct Shadows {
    /// Whether there ever was one. Set before the first frame is shown, under the space's lock as every change is.
    any: AtomicBool,
    list: Mutex<Vec<Weak<dyn Shadow>>>,
}

impl Shadows {
    /// None.
    pub const fn new() -> Self {
        Shadows {
            any: AtomicBool::new(false),
            list: Mutex::new(Vec::new()),
        }
    }

    /// Whether there are any.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Tells all of them.
    #[inline(always)]
    pub fn forget(&self, range: Range<usize>) {
        if self.any() {
            self.tell(range);
        }
    }

    #[cold]
    fn tell(&self, range: Range<usize>) {
        for shadow in self.list.lock().iter().filter_map(Weak::upgrade) {
            shadow.forget(range.clone());
        }
    }

    #[allow(dead_code, reason = "not every architecture has guests")]
    fn add(&self, shadow: Weak<dyn Shadow>) -> Result<()> {
        let mut list = self.list.lock();
        list.retain(|known| known.strong_count() != 0);
        list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.push(shadow);
        self.any.store(true, Relaxed);
        Ok(())
    }

    #[allow(dead_code, reason = "not every architecture has guests")]
    fn remove(&self, shadow: &Weak<dyn Shadow>) {
        let mut list = self.list.lock();
        list.retain(|known| !known.ptr_eq(shadow));
    }
}

impl AddressSpace {
    /// From now on `shadow` is told of what frames it got of this space it must show no longer.
    #[allow(dead_code, reason = "not every architecture has guests")]
    pub fn add_shadow(&self, shadow: Weak<dyn Shadow>) -> Result<()> {
        let _space = self.lock();
        self.context().shadows.add(shadow)
    }

    /// From now on `shadow` is not told, and nobody is just telling it: who tells it has it as long.
    #[allow(dead_code, reason = "not every architecture has guests")]
    pub fn remove_shadow(&self, shadow: &Weak<dyn Shadow>) {
        self.context().shadows.remove(shadow);
    }

    /// Tells shadows that all of the space is gone, or may be written no longer. Waits: the space is not locked.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_shadows(&self) {
        for area in self.areas() {
            for start in area.range().step_by(PART) {
                let part = start..area.end.min(start + PART);
                self.context().shadows.tell(part);
                cond_resched();
            }
        }
    }
}
