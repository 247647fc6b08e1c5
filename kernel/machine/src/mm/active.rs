//! The address space that a CPU runs.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use core::ops::Range;
use core::ptr::{self, null_mut};
use core::result;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::asid;
use super::fault::{Access, Failure};
use super::large::is_large;
use super::map::{MapRequest, Place};
use super::page_up;
use super::remap::RemapRequest;
use super::space::AddressSpace;
use super::totals::Limits;
use super::vma::{Flags, Protection, Rights, Source, Vma};
use super::vmas::Removed;
use crate::arch::{cpu, mmu, user_end};
use crate::errno::{Errno, Result};
use crate::sync::lockdep::NoSleep;
use crate::sync::might_sleep;

/// The address space that a CPU runs; holds a reference to it.
pub struct Active(AtomicPtr<AddressSpace>);

impl Active {
    /// No address space.
    pub const fn new() -> Self {
        Active(AtomicPtr::new(null_mut()))
    }

    /// Takes over a reference, or null; drops the previous one, whose space the CPU no longer runs.
    /// Only the CPU itself calls this.
    fn set(&self, space: *mut AddressSpace) {
        let before = self.0.load(Relaxed);
        self.0.store(space, Relaxed);
        if !before.is_null() {
            // SAFETY: `activate` turned a reference into this pointer, and it is taken back once.
            drop(unsafe { Arc::from_raw(before) });
        }
    }
}

impl AddressSpace {
    /// Makes this the address space of this CPU, which holds a reference until it switches away.
    #[inline]
    pub fn activate(self: Arc<Self>) {
        // The previous space may be borrowed in a section that must not sleep.
        might_sleep();
        self.context.activate(|asid| {
            // SAFETY: the root lives as long as the space, to which the CPU holds a reference from
            // now on.
            unsafe { mmu::activate(self.root.0, asid) };
        });
        cpu::this().space.set(Arc::into_raw(self).cast_mut());
    }
}

/// Calls `f` with the address space that this CPU runs, if there is one.
///
/// `f` must neither wait, except by [`wait_borrowing`], nor switch the CPU's space: either may free
/// the borrowed one. The type system cannot express this, hence only this crate may call it, and
/// its callers are few and short. The upper kernel uses the functions below, and [`own`] for longer
/// operations.
#[inline(always)]
pub(crate) fn with_active<T>(f: impl FnOnce(&AddressSpace) -> T) -> Option<T> {
    let space = cpu::this().space.0.load(Relaxed);
    // SAFETY: the CPU's reference keeps the space alive; only this CPU's next switch, which `f`
    // does not make, drops it. Code above this crate that `f` may call (a `PageSource`, an
    // `MmuNotifier` or an upcall) runs under the space's lock, which panics if its space is dropped
    // then.
    let space = unsafe { space.as_ref() }?;
    let _held = NoSleep::begin();
    // No `map`: it would copy the captures of `f`.
    Some(f(space))
}

/// Calls `wait`, which may sleep, while `space` may be borrowed from this CPU.
///
/// # Panics
/// If `space` was borrowed and the thread resumes on a CPU that does not run it.
pub(super) fn wait_borrowing<T>(space: &AddressSpace, wait: impl FnOnce() -> T) -> T {
    // Holds a reference as long as other threads may make CPUs drop theirs.
    let count = is(&space.me).then(|| space.me.upgrade());
    let done = NoSleep::lift(wait);
    if count.is_some() {
        assert!(is(&space.me), "a thread comes back without its space");
    }
    done
}

/// Takes a reference to this CPU's address space, for operations that may sleep.
pub fn own() -> Option<Arc<AddressSpace>> {
    with_active(|space| space.me.upgrade()).flatten()
}

/// Calls `f`, which may sleep only if `waits`, with this CPU's address space.
#[inline(always)]
fn with_own<T>(waits: bool, f: impl FnOnce(&AddressSpace) -> Result<T>) -> Result<T> {
    if waits {
        f(&*own().ok_or(Errno::ENOMEM)?)
    } else {
        with_active(f).unwrap_or(Err(Errno::ENOMEM))
    }
}

/// Returns a number that no other space has while this CPU's exists; none without a space.
#[inline(always)]
pub fn id() -> Option<usize> {
    with_active(|space| ptr::from_ref(space).addr())
}

/// Whether this CPU runs `space`.
#[inline(always)]
pub fn is(space: &Weak<AddressSpace>) -> bool {
    ptr::eq(cpu::this().space.0.load(Relaxed), space.as_ptr())
}

/// [`AddressSpace::fault`]; none without a space.
#[inline(always)]
pub fn fault(address: usize, access: Access) -> Option<result::Result<(), Failure>> {
    // Inlined: an out-of-line closure would get its captures by reference.
    with_active(
        #[inline(always)]
        |space| space.fault(address, access),
    )
}

/// Identifies a word that several processes may use, by the memory that contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// A private page, which the program may write.
    Space,
    /// The object with this number ([`PageSource::object`]), at this offset.
    ///
    /// [`PageSource::object`]: super::PageSource::object
    Object(usize, usize),
    /// The same, as long as the page has not been copied: the program cannot write to it.
    Original(usize, usize),
    /// A private page that the program cannot write.
    Constant,
}

/// The memory that contains `address`, which has no tag; none without a mapping that allows
/// `access`.
#[inline(always)]
pub fn holder(address: usize, access: Access) -> Option<Holder> {
    let look = |vma: &Vma| {
        let rights = vma.rights.asked();
        let writes = rights.contains(Rights::WRITE);
        let place = |offset: usize| offset + address - vma.start;
        let holder = match &vma.source {
            Source::File { mapping, offset } if vma.is_shared() => {
                Holder::Object(mapping.object(), place(*offset))
            }
            _ if writes => Holder::Space,
            Source::File { mapping, offset } => Holder::Original(mapping.object(), place(*offset)),
            Source::Anonymous => Holder::Constant,
        };
        (access != Access::Write || writes).then_some(holder)
    };
    with_active(|space| space.with_vma(address, look))
        .flatten()
        .flatten()
}

/// The lock of a new mapping.
#[derive(Clone, Copy)]
pub struct NewLock {
    /// MAP_LOCKED.
    pub asked: bool,
    /// Returns the number of bytes that the caller may lock; called only if it locks something.
    pub limit: fn() -> usize,
}

/// [`AddressSpace::map`], with the lock that new mappings get; returns the address and the lock.
/// Takes the request's source.
///
/// # Errors
/// Those of [`AddressSpace::map`] and [`AddressSpace::check_new_lock`].
#[inline(always)]
pub fn map(request: &mut MapRequest, lock: NewLock, gone: &mut Removed) -> Result<(usize, Flags)> {
    let large = matches!(request.place, Place::Fixed(_)) && is_large(&(0..request.len));
    let mapped = if large || lock.asked {
        None
    } else {
        with_active(
            #[inline(always)]
            |space| match space.locks_new() == Flags::empty() {
                true => Some(space.map(request.take(), gone)),
                false => None,
            },
        )
        .unwrap_or(Some(Err(Errno::ENOMEM)))
    };
    match mapped {
        Some(mapped) => mapped.map(|start| (start, Flags::empty())),
        None => map_waiting(request.take(), lock, gone),
    }
}

#[cold]
#[inline(never)]
fn map_waiting(
    mut request: MapRequest,
    lock: NewLock,
    gone: &mut Removed,
) -> Result<(usize, Flags)> {
    let space = own().ok_or(Errno::ENOMEM)?;
    let mut locked = space.locks_new();
    if lock.asked || locked != Flags::empty() {
        let len = page_up(request.len.min(user_end()));
        space.check_new_lock(len, lock.asked, (lock.limit)())?;
        locked = locked.union(Flags::LOCKED);
    }
    request.flags = request.flags.union(locked);
    Ok((space.map(request, gone)?, locked))
}

/// [`AddressSpace::unmap`]. May sleep if the range is large.
#[inline(always)]
pub fn unmap(range: Range<usize>, gone: &mut Removed) -> Result<()> {
    with_own(is_large(&range), |space| space.unmap(range, gone))
}

/// [`AddressSpace::protect`]. May sleep if the range is large.
#[inline(always)]
pub fn protect(range: Range<usize>, wanted: Protection) -> Result<()> {
    with_own(is_large(&range), |space| space.protect(range, wanted))
}

/// [`AddressSpace::remap`]. May sleep if one of the ranges is large.
#[inline(always)]
pub fn remap(request: RemapRequest, limits: &Limits, gone: &mut Removed) -> Result<(usize, Flags)> {
    with_own(request.is_large(), |space| {
        space.remap(request, limits, gone)
    })
}

/// [`AddressSpace::set_heap_end`]; also returns the previous end of the heap if the pages of new
/// mappings must be faulted in (MCL_FUTURE).
#[inline(always)]
pub fn set_heap_end(
    end: usize,
    rights: Rights,
    limits: &Limits,
    gone: &mut Removed,
) -> Result<(result::Result<usize, Range<usize>>, Option<usize>)> {
    with_own(false, |space| {
        let locked = space.locks_new();
        let present = locked.contains(Flags::LOCKED) && !locked.contains(Flags::LOCK_ON_FAULT);
        let old = present.then(|| space.heap_end());
        Ok((space.set_heap_end(end, rights, limits, gone), old))
    })
}

/// [`AddressSpace::discard`], if no VMA there has `without`. May sleep if the range is large.
///
/// # Errors
/// EINVAL if a VMA has the flag, EPERM if a VMA keeps its content, ENOMEM.
#[inline(always)]
pub fn discard(range: Range<usize>, without: Option<Flags>) -> Result<()> {
    let may = |vma: &Vma| {
        if vma.keeps_content() {
            return Err(Errno::EPERM);
        }
        match without {
            Some(flag) if vma.flags.contains(flag) => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    };
    with_own(is_large(&range), |space| space.discard(range, true, may))
}

/// Leaves this CPU without an address space: before it idles, and before the last thread that holds
/// one drops it.
pub fn deactivate() {
    might_sleep();
    asid::leave(|| {
        // SAFETY: the empty root is never freed.
        unsafe { mmu::activate(mmu::empty_root(), 0) };
    });
    cpu::this().space.set(null_mut());
}
