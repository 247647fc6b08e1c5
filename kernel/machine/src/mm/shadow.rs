//! Others that translate to the frames of a space beside its own table: the second stages of guests.

extern crate alloc;

use alloc::sync::Weak;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::area::Area;
use super::asid::Context;
use super::space::{AddressSpace, Space, USER_START};
use crate::arch::user_end;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::upcall::cond_resched;

/// More areas are not told of one by one, for each of which all that a shadow shows is looked through.
const MANY: usize = 1000;
/// How much of a space is told of at once while others are to run in between, in bytes.
const PART: usize = 64 << 20;

/// One that shows frames of a space elsewhere.
pub trait Shadow: Send + Sync {
    /// What these addresses held they hold no longer. Must not wait, and not ask the space for anything, which is locked as a rule.
    fn forget(&self, range: Range<usize>);

    /// What these addresses hold may be written no longer. The same holds otherwise.
    fn protect(&self, range: Range<usize>);
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

    /// Tells all of them that a range holds something else, or nothing.
    #[inline(always)]
    pub fn forget(&self, range: Range<usize>) {
        if self.any() {
            self.tell(|shadow| shadow.forget(range.clone()));
        }
    }

    /// Tells all of them that a range may be written no longer.
    pub fn protect(&self, range: Range<usize>) {
        if self.any() {
            self.tell(|shadow| shadow.protect(range.clone()));
        }
    }

    #[cold]
    fn tell(&self, what: impl Fn(&dyn Shadow)) {
        let list = self.list.lock();
        list.iter()
            .filter_map(Weak::upgrade)
            .for_each(|shadow| what(&*shadow));
    }

    /// Tells all of them for the last time, of a space that ends: nobody else can want the list.
    pub(super) fn end(&mut self) {
        for shadow in self.list.get_mut().drain(..) {
            if let Some(shadow) = shadow.upgrade() {
                shadow.forget(USER_START..user_end());
            }
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

    /// Tells shadows that all of the space is gone. Waits: the space is not locked.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_of_end(&self) {
        self.tell_by_parts(|_| true, Shadows::forget);
    }

    /// Tells shadows of what a child has got a share, which may be written no longer. Waits as well.
    #[cold]
    #[inline(never)]
    pub(super) fn protect_shared(&self) {
        self.tell_by_parts(Area::is_copied, Shadows::protect);
    }

    fn tell_by_parts(&self, which: impl Fn(&Area) -> bool, tell: impl Fn(&Shadows, Range<usize>)) {
        for area in self.areas().filter(which) {
            for start in area.range().step_by(PART) {
                tell(&self.context().shadows, start..area.end.min(start + PART));
                cond_resched();
            }
        }
    }
}

impl Space {
    /// The same at once, by who holds the space. Where the areas are many, it is all that the space has.
    #[cold]
    #[inline(never)]
    pub(super) fn protect_shared(&self, context: &Context) {
        if self.areas.count() > MANY {
            return context.shadows.protect(USER_START..user_end());
        }
        for area in self.areas.iter().filter(|area| area.is_copied()) {
            context.shadows.protect(area.range());
        }
    }
}
