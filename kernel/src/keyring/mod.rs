//! Keys and keyrings (keyrings(7)): small secrets with numbers, found through the keyrings of
//! threads, processes, sessions and users.

pub mod list;
mod walk;

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Deref;
use core::{mem, slice};

use linux_raw_sys::general::CAP_SYS_ADMIN;

use self::walk::{Mark, Walk};
use crate::errno::{Errno, Result};
use crate::ipc::registry;
use crate::mm::heap::{check_room, try_arc, try_format, try_vec};
use crate::random;
use crate::sync::{Mutex, SleepMutex};
use crate::task::{Thread, can, clock, current, sched, user};

/// Rights, as bits of each of the four classes: possessor, user, group, others.
pub mod right {
    pub const VIEW: u32 = 1;
    pub const READ: u32 = 2;
    pub const WRITE: u32 = 4;
    pub const SEARCH: u32 = 8;
    pub const LINK: u32 = 16;
    pub const SET_ATTRIBUTES: u32 = 32;
    /// All rights.
    pub const ALL: u32 = 63;
}

/// The shift of a class's rights in a key's permissions.
const POSSESSOR: u32 = 24;
const USER: u32 = 16;
const GROUP: u32 = 8;
/// The group that stands for no group.
const NOBODY: u32 = 65534;
/// The lifetime of a negative key.
const NEGATIVE_SECONDS: u32 = 60;
/// The quota that a link takes (KEYQUOTA_LINK_BYTES).
const LINK_BYTES: usize = 4;
/// The limits of a user's keys in number and bytes; and those of root.
const QUOTA: (usize, usize) = (200, 20_000);
const ROOT_QUOTA: (usize, usize) = (1_000_000, 25_000_000);

/// The kind of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A keyring. It is the first kind, so that keyrings come before other keys in a keyring.
    Keyring,
    /// Bytes.
    User,
    /// Bytes that no program can read back.
    Logon,
    /// A payload that may be large.
    Big,
}

impl Kind {
    /// The kind with this name, if there is one.
    pub fn of(name: &[u8]) -> Option<Kind> {
        [Kind::Keyring, Kind::User, Kind::Logon, Kind::Big]
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Keyring => "keyring",
            Kind::User => "user",
            Kind::Logon => "logon",
            Kind::Big => "big_key",
        }
    }

    /// EINVAL unless a key of this kind may have this description and payload.
    fn check(self, description: &[u8], payload: &[u8]) -> Result<()> {
        let fits = match self {
            Kind::Keyring => payload.is_empty(),
            Kind::User => (1..=32767).contains(&payload.len()),
            Kind::Logon => {
                let colon = description.iter().position(|&byte| byte == b':');
                colon.is_some_and(|at| at > 0) && (1..=32767).contains(&payload.len())
            }
            Kind::Big => (1..1 << 20).contains(&payload.len()),
        };
        if fits && !description.is_empty() {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// The quota that a payload of `len` bytes takes: Linux keeps a large one in memory that can be
    /// swapped out.
    fn quota(self, len: usize) -> usize {
        match self {
            Kind::Big => 16,
            _ => len,
        }
    }

    /// Counts the memory of a payload of `len` bytes, if the quota does not.
    ///
    /// # Errors
    /// EDQUOT.
    fn hold(self, len: usize) -> Result<Option<user::Charge>> {
        match self {
            Kind::Big => registry::charge(len).map(Some).ok_or(Errno::EDQUOT),
            _ => Ok(None),
        }
    }

    /// The permissions of a new key, for the possessor and the user.
    fn permissions(self) -> u32 {
        let unreadable = if self == Kind::Logon { right::READ } else { 0 };
        (right::ALL & !unreadable) << POSSESSOR | right::VIEW << USER
    }
}

/// The mutable state of a key.
struct State {
    owner: (u32, u32),
    permissions: u32,
    revoked: bool,
    /// Whether the key is as good as gone, while somebody uses it.
    invalidated: bool,
    /// Whether the key stands for a requested key that was not found (a negative key).
    negative: bool,
    /// When it expires, in ns of CLOCK_MONOTONIC; 0 for never.
    expires: u64,
    /// The user whose quota it counts against, and the bytes that it takes.
    payer: u32,
    counted: usize,
    payload: Vec<u8>,
    /// The memory of a large payload.
    held: Option<user::Charge>,
    /// Ordered by kind and description; a keyring has at most one key of each.
    links: Vec<Arc<Key>>,
}

impl State {
    /// Raises its quota use to `bytes`. EDQUOT.
    fn count(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.counted) {
            Some(more) => charge(self.payer, 0, more, false)?,
            None => uncharge(self.payer, 0, self.counted - bytes),
        }
        self.counted = bytes;
        Ok(())
    }

    /// Lowers its quota use to `bytes`.
    fn count_less(&mut self, bytes: usize) {
        uncharge(self.payer, 0, bytes);
        self.counted -= bytes;
    }

    /// The index of a key among the links, or where it would be.
    fn find(&self, kind: Kind, description: &[u8]) -> core::result::Result<usize, usize> {
        let order = |key: &Arc<Key>| (key.kind, &key.description[..]).cmp(&(kind, description));
        self.links.binary_search_by(order)
    }

    /// Removes the link at an index.
    fn unlink(&mut self, at: usize) -> Arc<Key> {
        self.count_less(LINK_BYTES);
        self.links.remove(at)
    }

    /// Whether `key` itself is among the links.
    fn has_link(&self, key: &Key) -> bool {
        let at = self.find(key.kind, &key.description);
        at.is_ok_and(|at| core::ptr::eq(&*self.links[at], key))
    }

    /// The keyrings that it links to.
    fn rings(&self) -> &[Arc<Key>] {
        let end = self.links.partition_point(|key| key.kind == Kind::Keyring);
        &self.links[..end]
    }
}

/// A key.
pub struct Key {
    /// Its number.
    pub serial: i32,
    /// The type of the key.
    pub kind: Kind,
    /// The description by which it is found.
    pub description: Vec<u8>,
    mark: Mark,
    state: Mutex<State>,
}

type Keys = BTreeMap<i32, Weak<Key>>;

/// Held while a keyring is linked: two links made at once could form a cycle
/// (keyring_serialise_link_lock).
static LINKING: SleepMutex<()> = SleepMutex::new(());

/// All keys by number.
static KEYS: Mutex<Keys> = Mutex::new(BTreeMap::new());
/// The number of keys and bytes, by user.
static USED: Mutex<BTreeMap<u32, (usize, usize)>> = Mutex::new(BTreeMap::new());
/// The user keyring and the user session keyring of each user that has requested them.
static USERS: Mutex<BTreeMap<u32, [Arc<Key>; 2]>> = Mutex::new(BTreeMap::new());

impl Drop for Key {
    fn drop(&mut self) {
        self.leave(&mut KEYS.lock());
        let state = self.state.get_mut();
        uncharge(state.payer, 1, state.counted);
        mem::take(&mut state.links)
            .into_iter()
            .for_each(walk::put_tree);
    }
}

fn uncharge(user: u32, keys: usize, bytes: usize) {
    if let Some(used) = USED.lock().get_mut(&user) {
        *used = (used.0 - keys, used.1 - bytes);
    }
}

/// Copies a list; fails if there is no memory.
fn copy<T: Clone>(list: &[T]) -> Result<Vec<T>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(list.len())
        .map_err(|_| Errno::ENOMEM)?;
    copy.extend_from_slice(list);
    Ok(copy)
}

/// Charges keys and bytes to a user; if `beyond`, even above the quota.
///
/// # Errors
/// EDQUOT, ENOMEM.
fn charge(user: u32, keys: usize, bytes: usize, beyond: bool) -> Result<()> {
    let most = if user == 0 { ROOT_QUOTA } else { QUOTA };
    let _room = check_room()?;
    let mut all = USED.lock();
    let used = all.entry(user).or_default();
    let more = (used.0 + keys, used.1 + bytes);
    if !beyond && (more.0 > most.0 || more.1 > most.1) {
        return Err(Errno::EDQUOT);
    }
    *used = more;
    Ok(())
}

/// The keyrings of a thread, in the order in which they are searched.
///
/// # Errors
/// ENOMEM.
pub fn rings(thread: &Thread) -> Result<Vec<Arc<Key>>> {
    let own = [
        thread.keyring.lock().clone(),
        thread.process().keyring.lock().clone(),
    ];
    let session = thread.with_credentials(|who| who.session_keyring.clone());
    let session = match session.map_or_else(|| Key::of_current_user(1), Ok) {
        Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
        session => session.ok(),
    };
    let mut rings = Vec::new();
    rings.try_reserve_exact(3).map_err(|_| Errno::ENOMEM)?;
    rings.extend(own.into_iter().chain([session]).flatten());
    Ok(rings)
}

/// The first key whose number is at least `from`; `None` in place of a key that is about to be
/// freed.
fn after(from: i32) -> Option<(i32, Option<Arc<Key>>)> {
    let keys = KEYS.lock();
    let (&serial, key) = keys.range(from..).next()?;
    Some((serial, key.upgrade()))
}

/// A key, and how the caller has reached it (Linux's `key_ref_t`).
pub struct KeyRef {
    key: Arc<Key>,
    /// Whether the caller has the possessor's rights.
    pub possessed: bool,
}

impl Deref for KeyRef {
    type Target = Arc<Key>;

    fn deref(&self) -> &Arc<Key> {
        &self.key
    }
}

impl KeyRef {
    /// A key that the caller owns, or has reached from a keyring that it possesses.
    pub fn possessed(key: Arc<Key>) -> Self {
        KeyRef {
            key,
            possessed: true,
        }
    }

    /// A key that the caller has found by number; it possesses the key if `rings` lead to it.
    /// EINTR, ENOMEM.
    pub fn known(key: Arc<Key>, rings: &[Arc<Key>]) -> Result<Self> {
        let possessed = walk::possesses(rings, &key)?;
        Ok(KeyRef { key, possessed })
    }

    /// A key that this keyring links to: the caller possesses it if it possesses the keyring.
    pub fn possess(&self, key: Arc<Key>) -> Self {
        KeyRef {
            key,
            possessed: self.possessed,
        }
    }

    /// The key.
    pub fn into_key(self) -> Arc<Key> {
        self.key
    }

    /// EACCES unless the caller has all of `rights`.
    pub fn check(&self, rights: u32) -> Result<()> {
        if self.grants(self.possessed) & rights == rights {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    /// Searches the keyring and the keyrings in it; the caller needs the right to search them.
    ///
    /// # Errors
    /// EAGAIN: no key is found. EACCES: the keyring may not be searched. The error of a key that is
    /// found but cannot be used.
    pub fn search(&self, kind: Kind, description: &[u8]) -> Result<Arc<Key>> {
        let mut why = Errno::EAGAIN;
        self.check(right::SEARCH)?;
        // The keys in a possessed keyring are possessed.
        let is_open = |key: &Key| key.grants(self.possessed) & right::SEARCH != 0;
        let mut walk = Walk::from(slice::from_ref(&self.key))?;
        while let Some(ring) = walk.next()? {
            if !is_open(&ring) || ring.check_valid().is_err() || !walk.descend(&ring)? {
                continue;
            }
            let Some(key) = ring.linked(kind, description) else {
                continue;
            };
            let allowed = || is_open(&key).then_some(()).ok_or(Errno::EACCES);
            let usable = key.check_state().and_then(|()| allowed());
            match usable.and_then(|()| key.check_valid()) {
                Ok(()) => return Ok(key),
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

/// EINVAL unless these are permissions of keys.
pub fn check_permissions(permissions: u32) -> Result<()> {
    match permissions & !(right::ALL * 0x0101_0101) {
        0 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

impl Key {
    /// Creates a key that nothing links to yet.
    ///
    /// # Errors
    /// EINVAL, EDQUOT, ENOMEM.
    pub fn new(kind: Kind, description: Vec<u8>, payload: Vec<u8>) -> Result<Arc<Key>> {
        kind.check(&description, &payload)?;
        let owner = current().with_credentials(|who| (who.fsuid, who.fsgid));
        Self::of_user(kind, description, payload, owner, kind.permissions(), false)
    }

    /// Creates a negative key, which stands for a while for a requested key that was not found.
    ///
    /// # Errors
    /// EDQUOT, ENOMEM.
    pub fn negative(kind: Kind, description: Vec<u8>) -> Result<Arc<Key>> {
        let owner = current().with_credentials(|who| (who.fsuid, who.fsgid));
        let permissions = kind.permissions();
        let key = Self::of_user(kind, description, Vec::new(), owner, permissions, false)?;
        key.state.lock().negative = true;
        key.set_timeout(NEGATIVE_SECONDS);
        Ok(key)
    }

    fn of_user(
        kind: Kind,
        description: Vec<u8>,
        payload: Vec<u8>,
        owner: (u32, u32),
        permissions: u32,
        beyond: bool,
    ) -> Result<Arc<Key>> {
        let held = kind.hold(payload.len())?;
        let counted = description.len() + 1 + kind.quota(payload.len());
        charge(owner.0, 1, counted, beyond)?;
        // On failure the charge is given back.
        let mut key = try_arc(Key {
            serial: 0,
            kind,
            description,
            mark: Mark::default(),
            state: Mutex::new(State {
                owner,
                permissions,
                revoked: false,
                invalidated: false,
                negative: false,
                expires: 0,
                payer: owner.0,
                counted,
                payload,
                held,
                links: Vec::new(),
            }),
        })?;
        let _room = check_room()?;
        let mut keys = KEYS.lock();
        let serial = loop {
            let mut bytes = [0; 4];
            random::fill(&mut bytes);
            let serial = i32::from_ne_bytes(bytes) & i32::MAX;
            if (3..i32::MAX).contains(&serial) && !keys.contains_key(&serial) {
                break serial;
            }
        };
        Arc::get_mut(&mut key).expect("nobody else has it").serial = serial;
        keys.insert(serial, Arc::downgrade(&key));
        Ok(key)
    }

    /// Removes its entry from `keys`.
    fn leave(&self, keys: &mut Keys) {
        let known = keys.get(&self.serial);
        if known.is_some_and(|key| core::ptr::eq(key.as_ptr(), self)) {
            keys.remove(&self.serial);
        }
    }

    /// If nobody else references `key`, removes its entry, so that nobody finds it any more.
    /// Returns whether that is so.
    fn retire(key: &Arc<Key>) -> bool {
        let mut keys = KEYS.lock();
        let sole = Arc::strong_count(key) == 1;
        if sole {
            key.leave(&mut keys);
        }
        sole
    }

    /// Creates a keyring. Its user also has the rights `shared`. `beyond`: it is created whatever
    /// the user's quota is (KEY_ALLOC_QUOTA_OVERRUN).
    pub fn ring(description: &[u8], shared: u32, beyond: bool) -> Result<Arc<Key>> {
        let owner = current().with_credentials(|who| (who.uid, who.gid));
        let permissions = right::ALL << POSSESSOR | (right::VIEW | shared) << USER;
        Self::of_user(
            Kind::Keyring,
            try_vec(description)?,
            Vec::new(),
            owner,
            permissions,
            beyond,
        )
    }

    /// The user keyring (0) or the user session keyring (1) of the caller's user.
    pub fn of_current_user(which: usize) -> Result<Arc<Key>> {
        let (uid, gid) = (current().with_credentials(|who| who.uid), NOBODY);
        if let Some(rings) = USERS.lock().get(&uid) {
            return Ok(rings[which].clone());
        }
        let permissions = (right::ALL & !right::SET_ATTRIBUTES) << POSSESSOR | right::ALL << USER;
        let make = |name| {
            let name = try_format(format_args!("{name}.{uid}"))?.into_bytes();
            Self::of_user(
                Kind::Keyring,
                name,
                Vec::new(),
                (uid, gid),
                permissions,
                false,
            )
        };
        let rings = [make("_uid")?, make("_uid_ses")?];
        {
            let mut state = rings[1].state.lock();
            state.links.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            let counted = state.counted + LINK_BYTES;
            state.count(counted)?;
            state.links.push(rings[0].clone());
        }
        // If another thread created them first, these are dropped without the lock.
        let known = {
            let _room = check_room()?;
            let mut users = USERS.lock();
            users.entry(uid).or_insert_with(|| rings.clone())[which].clone()
        };
        Ok(known)
    }

    /// The key with this number.
    ///
    /// # Errors
    /// ENOKEY.
    pub fn find(serial: i32) -> Result<Arc<Key>> {
        let found = KEYS.lock().get(&serial).and_then(Weak::upgrade);
        found.ok_or(Errno::ENOKEY)
    }

    /// The keyring with this name, if the caller's user may search it.
    pub fn named(name: &[u8]) -> Option<Arc<Key>> {
        let mut from = 0;
        while let Some((serial, key)) = after(from) {
            from = serial + 1;
            let fits = |key: &Arc<Key>| {
                let named = key.kind == Kind::Keyring && key.description == name;
                named && key.grants(false) & right::SEARCH != 0 && key.check_valid().is_ok()
            };
            if let Some(key) = key.filter(fits) {
                return Some(key);
            }
            sched::cond_resched();
        }
        None
    }

    /// The caller's rights, depending on whether it possesses the key.
    fn grants(&self, possessed: bool) -> u32 {
        let state = self.state.lock();
        let class = current().with_credentials(|who| {
            // A group without any rights is none (Linux's key_task_permission).
            let of_group = state.permissions >> GROUP & right::ALL != 0;
            if who.fsuid == state.owner.0 {
                USER
            } else if of_group && who.in_group(state.owner.1) {
                GROUP
            } else {
                0
            }
        });
        let more = if possessed {
            state.permissions >> POSSESSOR
        } else {
            0
        };
        (state.permissions >> class | more) & right::ALL
    }

    /// ENOKEY (a negative or an invalidated key), EKEYREVOKED, EKEYEXPIRED.
    pub fn check_valid(&self) -> Result<()> {
        if self.state.lock().negative {
            return Err(Errno::ENOKEY);
        }
        self.check_state()
    }

    /// ENOKEY (an invalidated key), EKEYREVOKED, EKEYEXPIRED.
    pub fn check_state(&self) -> Result<()> {
        let state = self.state.lock();
        if state.invalidated {
            Err(Errno::ENOKEY)
        } else if state.revoked {
            Err(Errno::EKEYREVOKED)
        } else if state.expires != 0 && clock::monotonic_ns() >= state.expires {
            Err(Errno::EKEYEXPIRED)
        } else {
            Ok(())
        }
    }

    /// ENOTDIR unless it is a keyring.
    pub fn check_ring(&self) -> Result<()> {
        match self.kind {
            Kind::Keyring => Ok(()),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The keyrings that it links to.
    fn rings(&self) -> Result<Vec<Arc<Key>>> {
        copy(self.state.lock().rings())
    }

    /// Whether it links to `key`.
    fn has_link(&self, key: &Key) -> bool {
        self.state.lock().has_link(key)
    }

    /// The key of this kind and description that it links to.
    pub fn linked(&self, kind: Kind, description: &[u8]) -> Option<Arc<Key>> {
        let state = self.state.lock();
        let at = state.find(kind, description).ok()?;
        Some(state.links[at].clone())
    }

    /// Adds a link to `key`; replaces one with the same kind and description.
    ///
    /// # Errors
    /// EDEADLK (a keyring would contain itself), ELOOP (nested too deeply), EDQUOT, EINTR, ENOMEM.
    pub fn link(self: &Arc<Self>, key: Arc<Key>) -> Result<()> {
        let mut _linking = None;
        if key.kind == Kind::Keyring {
            _linking = Some(LINKING.lock_killable()?);
            if walk::leads_to(slice::from_ref(&key), self)? {
                return Err(Errno::EDEADLK);
            }
            walk::check_depth(&key)?;
        }
        let mut state = self.state.lock();
        let old = match state.find(key.kind, &key.description) {
            Ok(at) => Some(mem::replace(&mut state.links[at], key)),
            Err(at) => {
                state.links.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                let counted = state.counted + LINK_BYTES;
                state.count(counted)?;
                state.links.insert(at, key);
                None
            }
        };
        drop(state);
        drop(old);
        Ok(())
    }

    /// Removes the link to `key`, or to another key of its kind and description.
    ///
    /// # Errors
    /// ENOENT.
    pub fn unlink(&self, key: &Arc<Key>) -> Result<()> {
        let mut state = self.state.lock();
        let at = state.find(key.kind, &key.description);
        let gone = state.unlink(at.map_err(|_| Errno::ENOENT)?);
        drop(state);
        drop(gone);
        Ok(())
    }

    /// Removes all links.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let gone = mem::take(&mut state.links);
        state.count_less(gone.len() * LINK_BYTES);
        drop(state);
        drop(gone);
    }

    /// Replaces the payload.
    pub fn update(&self, payload: Vec<u8>) -> Result<()> {
        if self.kind == Kind::Keyring {
            return Err(Errno::EOPNOTSUPP);
        }
        self.kind.check(&self.description, &payload)?;
        let held = self.kind.hold(payload.len())?;
        let mut state = self.state.lock();
        state.count(self.description.len() + 1 + self.kind.quota(payload.len()))?;
        (state.expires, state.negative) = (0, false);
        let old = (
            mem::replace(&mut state.payload, payload),
            mem::replace(&mut state.held, held),
        );
        drop(state);
        drop(old);
        Ok(())
    }

    /// The payload: bytes, or the numbers of the keys that a keyring links to.
    pub fn read(&self) -> Result<Vec<u8>> {
        let state = self.state.lock();
        match self.kind {
            Kind::Logon => Err(Errno::EOPNOTSUPP),
            Kind::Keyring => {
                let mut serials = Vec::new();
                let reserved = serials.try_reserve_exact(state.links.len() * size_of::<i32>());
                reserved.map_err(|_| Errno::ENOMEM)?;
                serials.extend(state.links.iter().flat_map(|key| key.serial.to_ne_bytes()));
                Ok(serials)
            }
            _ => copy(&state.payload),
        }
    }

    /// Makes the key permanently unusable; its payload no longer counts against the quota.
    pub fn revoke(&self) {
        let mut state = self.state.lock();
        state.revoked = true;
        let rest = state.counted - (self.description.len() + 1);
        state.count_less(rest);
        let gone = (
            mem::take(&mut state.links),
            mem::take(&mut state.payload),
            state.held.take(),
        );
        drop(state);
        drop(gone);
    }

    /// Makes the key permanently unusable, and removes it from all keyrings. Linux's collector does
    /// the latter somewhat later.
    pub fn invalidate(&self) {
        self.state.lock().invalidated = true;
        let mut from = 0;
        while let Some((serial, ring)) = after(from) {
            from = serial + 1;
            if let Some(ring) = ring {
                ring.lose(self);
            }
            sched::cond_resched();
        }
    }

    /// Removes the link to `key` itself, if there is one.
    fn lose(&self, key: &Key) {
        let mut state = self.state.lock();
        let at = state.find(key.kind, &key.description).ok();
        let at = at.filter(|&at| core::ptr::eq(&*state.links[at], key));
        let gone = at.map(|at| state.unlink(at));
        drop(state);
        drop(gone);
    }

    /// Sets the time until it expires, in seconds; 0 means never.
    pub fn set_timeout(&self, seconds: u32) {
        let span = u64::from(seconds) * clock::SECOND;
        let expires = if span == 0 {
            0
        } else {
            clock::monotonic_ns() + span
        };
        self.state.lock().expires = expires;
    }

    /// Changes the permissions.
    ///
    /// # Errors
    /// EACCES (of another user), EINVAL.
    pub fn set_permissions(&self, permissions: u32) -> Result<()> {
        check_permissions(permissions)?;
        let mut state = self.state.lock();
        let own = current().with_credentials(|who| who.fsuid == state.owner.0);
        if !own && !can(CAP_SYS_ADMIN) {
            return Err(Errno::EACCES);
        }
        state.permissions = permissions;
        Ok(())
    }

    /// Changes the owner, whose quota it then counts against, and the group; `None` changes
    /// nothing.
    ///
    /// # Errors
    /// EACCES, EDQUOT.
    pub fn set_owner(&self, user: Option<u32>, group: Option<u32>) -> Result<()> {
        let mut state = self.state.lock();
        let (old_user, old_group) = state.owner;
        let may = user.is_none_or(|user| user == old_user)
            && group.is_none_or(|group| {
                group == old_group || current().with_credentials(|who| who.in_group(group))
            });
        if !may && !can(CAP_SYS_ADMIN) {
            return Err(Errno::EACCES);
        }
        if let Some(user) = user.filter(|&user| user != old_user) {
            charge(user, 1, state.counted, false)?;
            uncharge(state.payer, 1, state.counted);
            state.payer = user;
        }
        state.owner = (user.unwrap_or(old_user), group.unwrap_or(old_group));
        Ok(())
    }

    /// The kind, owner, permissions and description, as KEYCTL_DESCRIBE returns them.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn describe(&self) -> Result<Vec<u8>> {
        let state = self.state.lock();
        let (user, group) = state.owner;
        let (kind, permissions) = (self.kind.name(), state.permissions);
        let head = format_args!("{kind};{user};{group};{permissions:08x};");
        let mut text = try_format(head)?.into_bytes();
        let room = text.try_reserve_exact(self.description.len() + 1);
        room.map_err(|_| Errno::ENOMEM)?;
        text.extend_from_slice(&self.description);
        text.push(0);
        Ok(text)
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_big_key_counts_as_little() {
        let used = || USED.lock().get(&0).map_or(0, |used| used.1);
        let before = used();
        let key = Key::new(Kind::Big, b"big".to_vec(), alloc::vec![0; 300_000]).unwrap();
        assert_eq!(used(), before + 4 + 16);
        key.update(alloc::vec![0; 5]).unwrap();
        assert_eq!(used(), before + 4 + 16);
        drop(key);
        assert_eq!(used(), before);
    }
}
