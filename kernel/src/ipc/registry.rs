//! Objects of one kind by number and by key, and who may use them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use linux_raw_sys::general::{
    __kernel_key_t, CAP_IPC_OWNER, CAP_SYS_ADMIN, S_IRWXG, S_IRWXO, S_IRWXU,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::task::{clock, current};

/// IPC_PRIVATE: a new object that no key finds.
const PRIVATE: __kernel_key_t = 0;
/// IPC_CREAT and IPC_EXCL (include/uapi/linux/ipc.h).
const CREATE: u32 = 0o1000;
const EXCLUSIVE: u32 = 0o2000;
/// Reading and writing, as permission bits of others.
pub const READ: u32 = 4;
/// See [`READ`].
pub const WRITE: u32 = 2;
/// Numbers consist of a place, below this, and of how often a place was given out before (Linux's IPCMNI).
const PLACES: usize = 1 << 15;

/// `struct ipc64_perm` (include/uapi/asm-generic/ipcbuf.h): owner and permissions.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Header {
    /// The key that it is found by.
    pub key: i32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// Who made it.
    pub cuid: u32,
    /// The group of who made it.
    pub cgid: u32,
    /// Permissions, and flags of the kind.
    pub mode: u32,
    /// How often its place was given out before.
    pub sequence: u16,
    pad: [u16; 3],
    unused: [u64; 2],
}

impl Header {
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

    /// EACCES unless the caller may do what `wanted` asks for: permission bits, of any of the three classes.
    pub fn check(&self, wanted: u32) -> Result<()> {
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 7;
        let allowed = current().with_credentials(|who| {
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

    /// EPERM unless the caller owns the object.
    pub fn check_owner(&self) -> Result<()> {
        let owns = current().with_credentials(|who| {
            who.euid == self.uid || who.euid == self.cuid || who.can(CAP_SYS_ADMIN)
        });
        if owns { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// IPC_SET: another owner, other permissions.
    pub fn change(&mut self, to: &Header) {
        let mask = S_IRWXU | S_IRWXG | S_IRWXO;
        (self.uid, self.gid) = (to.uid, to.gid);
        self.mode = self.mode & !mask | to.mode & mask;
    }
}

/// What a registry holds.
pub trait Object {
    /// Calls `f` with owner and permissions.
    fn with_header<T>(&self, f: impl FnOnce(&mut Header) -> T) -> T;

    /// Whether it was removed, and nothing uses it any more.
    fn is_gone(&self) -> bool {
        false
    }
}

struct Slots<T> {
    objects: Vec<Option<Arc<T>>>,
    sequence: u16,
}

/// Objects of one kind.
pub struct Registry<T> {
    slots: Mutex<Slots<T>>,
    most: usize,
}

/// Seconds since 1970.
pub fn now() -> u64 {
    clock::realtime_ns() / clock::SECOND
}

impl<T: Object> Registry<T> {
    /// Without objects; `most` at a time.
    pub const fn new(most: usize) -> Self {
        Registry {
            slots: Mutex::new(Slots {
                objects: Vec::new(),
                sequence: 0,
            }),
            most,
        }
    }

    /// The number of the object with `key`, which `make` makes if `flags` ask for that; `fits` looks at one that is there.
    ///
    /// # Errors
    /// EEXIST, ENOENT, EACCES, ENOSPC (too many), ENOMEM, and those of `make` and `fits`.
    pub fn get(
        &self,
        key: i32,
        flags: u32,
        make: impl FnOnce(Header) -> Result<Arc<T>>,
        fits: impl FnOnce(&T) -> Result<()>,
    ) -> Result<usize> {
        if key != PRIVATE {
            if let Some((number, object)) = self.find(|header| header.key == key) {
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
        self.add(make(Header::new(key, flags))?)
    }

    fn add(&self, object: Arc<T>) -> Result<usize> {
        let key = object.with_header(|header| header.key);
        let mut slots = self.slots.lock();
        let gone = slots.take_gone();
        let used = slots.objects.iter().flatten();
        let taken = used
            .clone()
            .any(|other| key != PRIVATE && other.with_header(|header| header.key == key));
        let count = used.count();
        let free = slots.objects.iter().position(Option::is_none);
        let at = free.unwrap_or(slots.objects.len());
        let result = if taken {
            // Somebody else was quicker.
            Err(Errno::EEXIST)
        } else if count >= self.most || at >= PLACES {
            Err(Errno::ENOSPC)
        } else if slots.objects.try_reserve(1).is_err() {
            Err(Errno::ENOMEM)
        } else {
            let sequence = slots.sequence;
            object.with_header(|header| header.sequence = sequence);
            match free {
                Some(at) => slots.objects[at] = Some(object),
                None => slots.objects.push(Some(object)),
            }
            Ok(number(sequence, at))
        };
        drop(slots);
        drop(gone);
        result
    }

    fn find(&self, wanted: impl Fn(&Header) -> bool) -> Option<(usize, Arc<T>)> {
        let slots = self.slots.lock();
        let found = slots.objects.iter().enumerate().find_map(|(at, object)| {
            let object = object.as_ref()?;
            let header = object.with_header(|header| *header);
            (wanted(&header) && !object.is_gone())
                .then(|| (number(header.sequence, at), object.clone()))
        });
        drop(slots);
        found
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

    /// The object at a place, and its number.
    ///
    /// # Errors
    /// EINVAL.
    pub fn by_place(&self, at: usize) -> Result<(Arc<T>, usize)> {
        let slots = self.slots.lock();
        let object = slots.objects.get(at).cloned().flatten();
        drop(slots);
        let object = object
            .filter(|object| !object.is_gone())
            .ok_or(Errno::EINVAL)?;
        let number = number(object.with_header(|header| header.sequence), at);
        Ok((object, number))
    }

    /// Takes an object out; false if another was quicker.
    pub fn remove(&self, object: &Arc<T>) -> bool {
        let mut slots = self.slots.lock();
        let is_it = |slot: &Option<Arc<T>>| {
            slot.as_ref()
                .is_some_and(|other| Arc::ptr_eq(other, object))
        };
        let at = slots.objects.iter().position(is_it);
        let gone = at.and_then(|at| slots.objects[at].take());
        slots.sequence = slots.sequence.wrapping_add(1) % PLACES as u16;
        drop(slots);
        gone.is_some()
    }

    /// How many there are, and the highest place in use.
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

    /// Calls `f` with all, until it returns something.
    pub fn find_map<U>(&self, f: impl FnMut(&Arc<T>) -> Option<U>) -> Option<U> {
        self.slots.lock().objects.iter().flatten().find_map(f)
    }
}

impl<T: Object> Slots<T> {
    /// Takes one object out that is no more, so that its place is free.
    fn take_gone(&mut self) -> Option<Arc<T>> {
        let is_gone = |slot: &Option<Arc<T>>| slot.as_ref().is_some_and(|object| object.is_gone());
        let at = self.objects.iter().position(is_gone)?;
        self.sequence = self.sequence.wrapping_add(1) % PLACES as u16;
        self.objects[at].take()
    }
}

fn number(sequence: u16, at: usize) -> usize {
    sequence as usize * PLACES + at
}
