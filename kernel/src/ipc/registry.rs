//! Objects of one kind, found by number and by key, and the permissions to use them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::{
    __kernel_key_t, CAP_IPC_LOCK, CAP_IPC_OWNER, CAP_SYS_ADMIN, CAP_SYS_RESOURCE, S_IRWXG, S_IRWXO,
    S_IRWXU,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::{PAGE_SIZE, frame};
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use crate::task::user::Charge;
use crate::task::{Thread, can, clock, current};

/// IPC_PRIVATE: creates an object that no key finds.
const PRIVATE: __kernel_key_t = 0;
/// IPC_CREAT (include/uapi/linux/ipc.h).
pub const CREATE: u32 = 0o1000;
/// IPC_EXCL.
pub const EXCLUSIVE: u32 = 0o2000;
/// Read and write access, as permission bits for others.
pub const READ: u32 = 4;
/// See [`READ`].
pub const WRITE: u32 = 2;
/// The number of places. An object's number consists of its place and the sequence number of that
/// place (Linux's IPCMNI).
pub const PLACES: usize = 1 << 15;

/// `struct ipc64_perm` (include/uapi/asm-generic/ipcbuf.h): owner and permissions.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Header {
    /// The key of the object.
    pub key: i32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// The creator.
    pub cuid: u32,
    /// The creator's group.
    pub cgid: u32,
    /// Permissions, and flags specific to the kind.
    pub mode: u32,
    /// How often its place was reused.
    pub sequence: u16,
    pad: [u16; 3],
    unused: [u64; 2],
}

/// The fields that IPC_SET changes.
#[derive(Clone, Copy)]
pub struct Owner {
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// Permissions.
    pub mode: u32,
}

impl Header {
    /// The current values of the fields that IPC_SET changes.
    pub fn owner(&self) -> Owner {
        Owner {
            uid: self.uid,
            gid: self.gid,
            mode: self.mode,
        }
    }

    fn new(key: i32, mode: u32) -> Self {
        let (uid, gid) = current().with_credentials(|who| (who.euid, who.egid));
        Header {
            key,
            uid,
            gid,
            cuid: uid,
            cgid: gid,
            mode: mode & (S_IRWXU | S_IRWXG | S_IRWXO),
            sequence: 0,
            pad: [0; 3],
            unused: [0; 2],
        }
    }

    /// EACCES unless the caller has the access in `wanted`: permission bits, for any of the three
    /// classes.
    pub fn check(&self, wanted: u32) -> Result<()> {
        self.check_for(&current(), wanted)
    }

    /// EACCES unless `thread` has that access.
    pub fn check_for(&self, thread: &Thread, wanted: u32) -> Result<()> {
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 7;
        let allowed = thread.with_credentials(|who| {
            let granted = if who.euid == self.uid || who.euid == self.cuid {
                self.mode >> 6
            } else if [self.gid, self.cgid]
                .iter()
                .any(|&gid| who.egid == gid || who.in_group(gid))
            {
                self.mode >> 3
            } else {
                self.mode
            };
            wanted & !granted == 0 || who.can(CAP_IPC_OWNER)
        });
        if allowed { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// EPERM unless the caller may lock memory, or its effective user owns the object. Returns
    /// whether it may lock without limit.
    pub fn check_lock(&self) -> Result<bool> {
        let (any, euid) = current().with_credentials(|who| (who.can(CAP_IPC_LOCK), who.euid));
        match any || euid == self.uid || euid == self.cuid {
            true => Ok(any),
            false => Err(Errno::EPERM),
        }
    }

    /// EPERM unless the caller owns the object, or may act for its owner.
    pub fn check_owner(&self) -> Result<()> {
        let owns = current().with_credentials(|who| {
            who.euid == self.uid || who.euid == self.cuid || who.can(CAP_SYS_ADMIN)
        });
        if owns { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// IPC_SET: changes owner and permissions. EPERM if the caller is not the owner; the owner may
    /// have changed since the call began. EINVAL for an invalid owner.
    pub fn change(&mut self, to: &Owner) -> Result<()> {
        self.check_owner()?;
        if [to.uid, to.gid].contains(&u32::MAX) {
            return Err(Errno::EINVAL);
        }
        let mask = S_IRWXU | S_IRWXG | S_IRWXO;
        (self.uid, self.gid) = (to.uid, to.gid);
        self.mode = self.mode & !mask | to.mode & mask;
        Ok(())
    }
}

/// Counts kernel memory of the caller's user that may outlive the caller (semaphores, messages,
/// keys). None if the user would have more than an eighth of memory. Linux has no such limit, and
/// its users can take all memory.
pub fn charge(bytes: usize) -> Option<Charge> {
    let most = match can(CAP_SYS_RESOURCE) {
        true => usize::MAX,
        false => frame::total() / 8 * PAGE_SIZE,
    };
    Charge::new(|user| &user.system_v, bytes, most)
}

/// An object of a registry.
pub trait Object {
    /// Calls `f` with the owner and permissions.
    fn with_header<T>(&self, f: impl FnOnce(&mut Header) -> T) -> T;

    /// Whether the object was removed and nothing uses it any more.
    fn is_gone(&self) -> bool {
        false
    }
}

struct Slots<T> {
    objects: Vec<Option<Arc<T>>>,
    /// By key, the places of the objects that have one.
    by_key: HashMap<i32, usize>,
    count: usize,
    /// The places of objects that no key finds any more, and that exist as long as they are used.
    /// It has room for all objects.
    dying: Vec<usize>,
    /// No place below this one is free.
    free: usize,
    sequence: u16,
    /// The number for the next object, if it is free (`/proc/sys/kernel/*_next_id`).
    next: Option<usize>,
}

/// Objects of one kind.
pub struct Registry<T> {
    slots: Mutex<Slots<T>>,
    /// The maximum number of objects.
    pub most: AtomicUsize,
}

/// Seconds since 1970.
pub fn now() -> u64 {
    clock::realtime_ns() / clock::SECOND
}

impl<T: Object> Registry<T> {
    /// A registry without objects, for at most `most`.
    pub const fn new(most: usize) -> Self {
        Registry {
            slots: Mutex::new(Slots {
                objects: Vec::new(),
                by_key: hash::new(),
                count: 0,
                dying: Vec::new(),
                free: 0,
                sequence: 0,
                next: None,
            }),
            most: AtomicUsize::new(most),
        }
    }

    /// The number requested for the next object.
    pub fn next(&self) -> Option<usize> {
        self.slots.lock().next
    }

    /// Requests a number for the next object.
    pub fn set_next(&self, number: Option<usize>) {
        self.slots.lock().next = number;
    }

    /// The number of the object with `key`. `make` creates the object if `flags` request that;
    /// `fits` checks an existing one.
    ///
    /// # Errors
    /// EEXIST, ENOENT, EACCES, ENOSPC (too many), ENOMEM, and the errors of `make` and `fits`.
    pub fn get(
        &self,
        key: i32,
        flags: u32,
        make: impl Fn(Header) -> Result<Arc<T>>,
        fits: impl FnOnce(&T) -> Result<()>,
    ) -> Result<usize> {
        loop {
            if key != PRIVATE {
                if let Some((number, object)) = self.by_key(key) {
                    if flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE {
                        return Err(Errno::EEXIST);
                    }
                    object.with_header(|header| header.check(flags))?;
                    fits(&object)?;
                    return Ok(number);
                }
                if flags & CREATE == 0 {
                    return Err(Errno::ENOENT);
                }
            }
            match self.add(make(Header::new(key, flags))?) {
                // Another thread created it first.
                Err(Errno::EEXIST) if flags & EXCLUSIVE == 0 => {}
                added => return added,
            }
        }
    }

    fn add(&self, object: Arc<T>) -> Result<usize> {
        let key = object.with_header(|header| header.key);
        let mut slots = self.slots.lock();
        let gone = slots.reap_removed();
        let result = if key != PRIVATE && slots.by_key.contains_key(&key) {
            Err(Errno::EEXIST)
        } else if slots.count >= self.most.load(Relaxed) {
            Err(Errno::ENOSPC)
        } else {
            slots.place().and_then(|(sequence, at)| {
                object.with_header(|header| header.sequence = sequence);
                slots.put(key, at, object)?;
                Ok(number(sequence, at))
            })
        };
        drop(slots);
        drop(gone);
        result
    }

    fn by_key(&self, key: i32) -> Option<(usize, Arc<T>)> {
        let slots = self.slots.lock();
        let at = *slots.by_key.get(&key)?;
        let object = slots.objects[at].clone()?;
        drop(slots);
        let sequence = object.with_header(|header| header.sequence);
        Some((number(sequence, at), object))
    }

    /// The object with this number.
    ///
    /// # Errors
    /// EINVAL.
    pub fn by_number(&self, number: i32) -> Result<Arc<T>> {
        let wanted = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
        let (object, at) = self.by_place(wanted % PLACES)?;
        if at == wanted {
            Ok(object)
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// The object at a place, or the object whose number contains that place; and its number.
    ///
    /// # Errors
    /// EINVAL.
    pub fn by_place(&self, at: usize) -> Result<(Arc<T>, usize)> {
        let at = at % PLACES;
        let slots = self.slots.lock();
        let object = slots.objects.get(at).cloned().flatten();
        drop(slots);
        let object = object
            .filter(|object| !object.is_gone())
            .ok_or(Errno::EINVAL)?;
        let number = number(object.with_header(|header| header.sequence), at);
        Ok((object, number))
    }

    /// Removes the object with this number, unless another thread did that first.
    pub fn remove(&self, number: i32, object: &Arc<T>) {
        let key = object.with_header(|header| header.key);
        let at = number as usize % PLACES;
        let mut slots = self.slots.lock();
        let is_it =
            matches!(slots.objects.get(at), Some(Some(other)) if Arc::ptr_eq(other, object));
        let gone = if is_it { slots.take(key, at) } else { None };
        drop(slots);
        drop(gone);
    }

    /// Removes the key of the object with this number, which the caller keeps alive. Its place is
    /// freed when it is gone.
    pub fn unlink_key(&self, number: i32, object: &T) {
        let key = object.with_header(|header| core::mem::replace(&mut header.key, PRIVATE));
        let mut slots = self.slots.lock();
        slots.by_key.remove(&key);
        slots.dying.push(number as usize % PLACES);
    }

    /// Frees the place of one object that is gone after [`Registry::unlink_key`].
    pub fn reap(&self) {
        let gone = self.slots.lock().reap_removed();
        drop(gone);
    }

    /// The number of objects, and the highest place in use.
    pub fn extent(&self) -> (usize, usize) {
        let slots = self.slots.lock();
        let mut used = slots
            .objects
            .iter()
            .enumerate()
            .filter(|(_, object)| object.as_ref().is_some_and(|object| !object.is_gone()));
        let (count, last) = used
            .by_ref()
            .fold((0, 0), |(count, _), (at, _)| (count + 1, at));
        (count, last)
    }

    /// The first existing object at a place or after it, and its number.
    pub fn at_or_after(&self, at: usize) -> Option<(usize, Arc<T>)> {
        let slots = self.slots.lock();
        let mut rest = slots.objects.iter().enumerate().skip(at);
        let (at, object) = rest.find_map(|(at, object)| {
            let object = object.as_ref().filter(|object| !object.is_gone())?;
            Some((at, object.clone()))
        })?;
        drop(slots);
        let number = number(object.with_header(|header| header.sequence), at);
        Some((number, object))
    }

    /// Calls `f` with each existing object. Other threads run meanwhile.
    pub fn for_each(&self, mut f: impl FnMut(&T)) {
        let mut at = 0;
        while let Some((number, object)) = self.at_or_after(at) {
            f(&object);
            at = number % PLACES + 1;
            cond_resched();
        }
    }
}

impl<T: Object> Slots<T> {
    /// Takes out one object that is gone, so that its place is free.
    fn reap_removed(&mut self) -> Option<Arc<T>> {
        let is_gone = |at: &usize| {
            let object = self.objects[*at].as_ref();
            object.is_some_and(|object| object.is_gone())
        };
        let gone = self.dying.iter().position(is_gone)?;
        let at = self.dying.swap_remove(gone);
        self.take(PRIVATE, at)
    }

    /// The sequence number and the place of the next object: those requested, or the first free
    /// place.
    fn place(&mut self) -> Result<(u16, usize)> {
        let (sequence, first) = match self.next.take() {
            Some(next) => ((next / PLACES) as u16, next % PLACES),
            None => (self.sequence, self.free),
        };
        let taken = self.objects.iter().skip(first);
        let at = first + taken.take_while(|slot| slot.is_some()).count();
        if at < PLACES {
            Ok((sequence, at))
        } else {
            Err(Errno::ENOSPC)
        }
    }

    fn put(&mut self, key: i32, at: usize, object: Arc<T>) -> Result<()> {
        let more = (at + 1).saturating_sub(self.objects.len());
        self.objects.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
        let living = self.count + 1 - self.dying.len();
        self.dying.try_reserve(living).map_err(|_| Errno::ENOMEM)?;
        if key != PRIVATE {
            self.by_key.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            self.by_key.insert(key, at);
        }
        if more > 0 {
            self.objects.resize(at + 1, None);
        }
        self.objects[at] = Some(object);
        self.count += 1;
        if self.free == at {
            self.free = at + 1;
        }
        Ok(())
    }

    fn take(&mut self, key: i32, at: usize) -> Option<Arc<T>> {
        let object = self.objects[at].take()?;
        self.by_key.remove(&key);
        self.count -= 1;
        self.free = self.free.min(at);
        self.sequence = self.sequence.wrapping_add(1) % PLACES as u16;
        Some(object)
    }
}

fn number(sequence: u16, at: usize) -> usize {
    sequence as usize * PLACES + at
}
