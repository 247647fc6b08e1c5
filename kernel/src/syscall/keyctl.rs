//! System calls on keys.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::errno::{Errno, Result};
use crate::keyring::{self, Key, KeyRef, Kind, right, rings};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_vec;
use crate::mm::user::{UserPtr, UserSlice, read_cstr};
use crate::task::current;

/// Numbers of the caller's own keyrings (KEY_SPEC_*).
const THREAD: i32 = -1;
const PROCESS: i32 = -2;
const SESSION: i32 = -3;
const USER: i32 = -4;
const USER_SESSION: i32 = -5;

/// The maximum lengths of a type, a description and a payload.
const LONGEST_KIND: usize = 32;
const LONGEST_DESCRIPTION: usize = 4096;
const LONGEST_PAYLOAD: usize = (1 << 20) - 1;
/// The default of KEYCTL_SET_REQKEY_KEYRING, and the value that changes nothing.
const DEFAULT: i32 = 0;
const NO_CHANGE: i32 = -1;

/// KEYCTL_* (include/uapi/linux/keyctl.h).
const GET_KEYRING_ID: u32 = 0;
const JOIN_SESSION_KEYRING: u32 = 1;
const UPDATE: u32 = 2;
const REVOKE: u32 = 3;
const CHOWN: u32 = 4;
const SETPERM: u32 = 5;
const DESCRIBE: u32 = 6;
const CLEAR: u32 = 7;
const LINK: u32 = 8;
const UNLINK: u32 = 9;
const SEARCH: u32 = 10;
const READ: u32 = 11;
const SET_REQKEY_KEYRING: u32 = 14;
const SET_TIMEOUT: u32 = 15;
const INVALIDATE: u32 = 21;

/// The key or keyring with a number, which may denote one of the caller's own; with `create`, that
/// keyring is created if it does not exist.
fn key(number: i32, create: bool) -> Result<KeyRef> {
    let thread = current();
    let install = |place: &crate::sync::Mutex<Option<Arc<Key>>>, name: &[u8]| {
        if let Some(ring) = place.lock().clone() {
            return Ok(ring);
        }
        if !create {
            return Err(Errno::ENOKEY);
        }
        let ring = Key::ring(name, 0, true)?;
        // If another thread was quicker, this keyring is dropped after the lock is released.
        let known = place.lock().get_or_insert_with(|| ring.clone()).clone();
        Ok(known)
    };
    let own = match number {
        THREAD => install(&thread.keyring, b"_tid"),
        PROCESS => install(&thread.process().keyring, b"_pid"),
        SESSION => match thread.with_credentials(|who| who.session_keyring.clone()) {
            Some(ring) => Ok(ring),
            None if create => join(b"_ses", false),
            None => Key::of_current_user(1),
        },
        USER => Key::of_current_user(0),
        USER_SESSION => Key::of_current_user(1),
        1.. => return KeyRef::known(Key::find(number)?, &rings(&thread)?),
        _ => Err(Errno::EINVAL),
    };
    own.map(KeyRef::possessed)
}

/// The key with this number, if the caller has `rights` to it and it is neither negative nor
/// revoked nor expired nor invalidated.
fn allowed(number: i32, create: bool, rights: u32) -> Result<KeyRef> {
    let key = key(number, create)?;
    key.check_valid()?;
    key.check(rights)?;
    Ok(key)
}

/// The key with this number, if the caller has `rights` to it; it may be negative.
fn allowed_any(number: i32, create: bool, rights: u32) -> Result<KeyRef> {
    let key = key(number, create)?;
    key.check_state()?;
    key.check(rights)?;
    Ok(key)
}

/// Joins a session with the keyring of a name, or with a new one.
fn join(name: &[u8], named: bool) -> Result<Arc<Key>> {
    let ring = match Key::named(name).filter(|_| named) {
        Some(ring) => ring,
        None if named => Key::ring(name, right::READ | right::LINK, false)?,
        None => {
            let first = current().with_credentials(|who| who.session_keyring.is_none());
            Key::ring(name, right::READ, first)?
        }
    };
    current().change_credentials(|who| {
        who.session_keyring = Some(ring.clone());
        Ok(())
    })?;
    Ok(ring)
}

fn read_kind(address: usize) -> Result<Vec<u8>> {
    let name = read_cstr(address, LONGEST_KIND).map_err(short)?;
    match name.first() {
        None => Err(Errno::EINVAL),
        Some(b'.') => Err(Errno::EPERM),
        Some(_) => Ok(name),
    }
}

/// The error for text that is too long is EINVAL.
fn short(error: Errno) -> Errno {
    if error == Errno::ENAMETOOLONG {
        Errno::EINVAL
    } else {
        error
    }
}

fn read_description(address: usize) -> Result<Vec<u8>> {
    if address == 0 {
        return Ok(Vec::new());
    }
    read_cstr(address, LONGEST_DESCRIPTION).map_err(short)
}

fn read_payload(address: usize, len: usize) -> Result<Vec<u8>> {
    if len > LONGEST_PAYLOAD {
        return Err(Errno::EINVAL);
    }
    UserPtr::<u8>::new(address).read_vec(len)
}

/// add_key(2)
pub fn add_key(
    kind: usize,
    description: usize,
    payload: usize,
    len: usize,
    ring: i32,
) -> Result<usize> {
    if len > LONGEST_PAYLOAD {
        return Err(Errno::EINVAL);
    }
    let name = read_kind(kind)?;
    let description = read_description(description)?;
    if name == b"keyring" && description.first() == Some(&b'.') {
        return Err(Errno::EPERM);
    }
    let payload = read_payload(payload, len)?;
    let ring = allowed(ring, true, right::WRITE)?;
    let kind = Kind::of(&name).ok_or(Errno::ENODEV)?;
    ring.check_ring()?;
    if kind != Kind::Keyring
        && let Some(key) = ring.linked(kind, &description)
        && key.check_state().is_ok()
    {
        let key = ring.possess(key);
        key.check(right::WRITE)?;
        key.update(payload)?;
        return Ok(key.serial as usize);
    }
    let key = Key::new(kind, description, payload)?;
    ring.link(key.clone())?;
    Ok(key.serial as usize)
}

/// request_key(2): finds a key in the caller's keyrings. No program makes keys on request, so a
/// missing one gets a negative key.
pub fn request_key(kind: usize, description: usize, callout: usize, ring: i32) -> Result<usize> {
    let name = read_kind(kind)?;
    let description = read_cstr(description, LONGEST_DESCRIPTION).map_err(short)?;
    if callout != 0 {
        read_cstr(callout, LONGEST_DESCRIPTION).map_err(short)?;
    }
    let target = if ring == 0 {
        None
    } else {
        Some(allowed(ring, true, right::WRITE)?)
    };
    let kind = Kind::of(&name).ok_or(Errno::ENOKEY)?;
    let rings = rings(&current())?;
    // As on Linux, the error of a negative key takes precedence, then that of a missing one, then
    // that of an unusable one.
    let (mut is_negative, mut why) = (false, None);
    for own in &rings {
        match KeyRef::possessed(own.clone()).search(kind, &description) {
            Ok(key) => {
                if let Some(target) = target {
                    target.link(key.clone())?;
                }
                return Ok(key.serial as usize);
            }
            Err(Errno::ENOKEY) => is_negative = true,
            Err(Errno::EAGAIN) => why = Some(Errno::EAGAIN),
            Err(error) => why = why.or(Some(error)),
        }
    }
    match why.unwrap_or(Errno::EAGAIN) {
        Errno::EAGAIN if callout != 0 && !is_negative => {
            let ring = target.map_or_else(|| default_ring(&rings), Ok)?;
            ring.link(Key::negative(kind, description)?)?;
            // Linux's error if there is no program to ask.
            Err(Errno::ENOENT)
        }
        error if is_negative || error == Errno::EAGAIN => Err(Errno::ENOKEY),
        error => Err(error),
    }
}

/// The keyring for requested keys: the first of the caller's keyrings, unless another one was set.
fn default_ring(rings: &[Arc<Key>]) -> Result<KeyRef> {
    let chosen = current().with_credentials(|who| who.request_keyring);
    match rings.first() {
        Some(first) if chosen == DEFAULT => {
            let first = KeyRef::possessed(first.clone());
            first.check_valid()?;
            first.check(right::WRITE)?;
            Ok(first)
        }
        _ if chosen == DEFAULT => allowed(SESSION, true, right::WRITE),
        _ => allowed(-chosen, true, right::WRITE),
    }
}

/// keyctl(2)
pub fn keyctl(operation: u32, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    let number = a as i32;
    match operation {
        GET_KEYRING_ID => Ok(allowed(number, b != 0, right::SEARCH)?.serial as usize),
        JOIN_SESSION_KEYRING => join_session(a),
        UPDATE => {
            if c > PAGE_SIZE {
                return Err(Errno::EINVAL);
            }
            let payload = read_payload(b, c)?;
            allowed(number, false, right::WRITE)?
                .update(payload)
                .map(|()| 0)
        }
        REVOKE => {
            let key = allowed(number, false, right::WRITE)
                .or_else(|_| allowed(number, false, right::SET_ATTRIBUTES))?;
            key.revoke();
            Ok(0)
        }
        CHOWN => {
            let [user, group] = [b, c].map(|id| Some(id as u32).filter(|&id| id != u32::MAX));
            allowed_any(number, true, right::SET_ATTRIBUTES)?
                .set_owner(user, group)
                .map(|()| 0)
        }
        SETPERM => {
            keyring::check_permissions(b as u32)?;
            let key = allowed_any(number, true, right::SET_ATTRIBUTES)?;
            key.set_permissions(b as u32).map(|()| 0)
        }
        DESCRIBE => {
            let key = allowed_any(number, false, right::VIEW)?;
            put(&key.describe()?, b, c, true)
        }
        CLEAR => {
            let ring = allowed(number, true, right::WRITE)?;
            ring.check_ring()?;
            ring.clear();
            Ok(0)
        }
        LINK => {
            let ring = allowed(b as i32, true, right::WRITE)?;
            let key = allowed(number, true, right::LINK)?;
            ring.check_ring()?;
            ring.link(key.into_key()).map(|()| 0)
        }
        UNLINK => {
            let ring = allowed(b as i32, false, right::WRITE)?;
            let key = key(number, false)?;
            ring.check_ring()?;
            ring.unlink(&key).map(|()| 0)
        }
        SEARCH => search(number, b, c, d as i32),
        READ => read(number, b, c),
        SET_REQKEY_KEYRING => set_request_keyring(number),
        SET_TIMEOUT => {
            allowed_any(number, true, right::SET_ATTRIBUTES)?.set_timeout(b as u32);
            Ok(0)
        }
        INVALIDATE => {
            allowed(number, false, right::SEARCH)?.invalidate();
            Ok(0)
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// KEYCTL_JOIN_SESSION_KEYRING: the keyring whose name is at `name`, or a new one for 0.
fn join_session(name: usize) -> Result<usize> {
    let description = if name == 0 {
        try_vec(b"_ses")?
    } else {
        read_description(name)?
    };
    if description.first() == Some(&b'.') {
        return Err(Errno::EPERM);
    }
    Ok(join(&description, name != 0)?.serial as usize)
}

/// KEYCTL_SEARCH: searches below a keyring; `to` is the keyring to link the found key to, or 0.
fn search(ring: i32, kind: usize, description: usize, to: i32) -> Result<usize> {
    let (name, description) = (read_kind(kind)?, read_description(description)?);
    let ring = allowed(ring, false, right::SEARCH)?;
    ring.check_ring()?;
    let kind = Kind::of(&name).ok_or(Errno::ENOKEY)?;
    let key = ring
        .search(kind, &description)
        .map_err(|error| match error {
            Errno::EAGAIN => Errno::ENOKEY,
            error => error,
        })?;
    if to != 0 {
        allowed(to, true, right::WRITE)?.link(key.clone())?;
    }
    Ok(key.serial as usize)
}

/// KEYCTL_READ: reads into `room` bytes at `to`.
fn read(number: i32, to: usize, room: usize) -> Result<usize> {
    let key = key(number, false).map_err(|_| Errno::ENOKEY)?;
    key.check_valid()?;
    // A process that can find a key by a search of its own keyrings may read it too.
    if key.check(right::READ).is_err() && !key.possessed {
        return Err(Errno::EACCES);
    }
    // A keyring is read in whole numbers; as on Linux, a buffer of more than a page is not checked.
    let odd = to != 0 && room <= PAGE_SIZE && !room.is_multiple_of(size_of::<i32>());
    if key.kind == Kind::Keyring && odd {
        return Err(Errno::EINVAL);
    }
    put(&key.read()?, to, room, false)
}

/// KEYCTL_SET_REQKEY_KEYRING: the keyring for requested keys; returns the old one.
fn set_request_keyring(number: i32) -> Result<usize> {
    let old = current().with_credentials(|who| who.request_keyring);
    match number {
        NO_CHANGE => {}
        1 | 2 => _ = key(-number, true)?,
        DEFAULT | 3..=5 => {}
        _ => return Err(Errno::EINVAL),
    }
    if number != NO_CHANGE {
        current().change_credentials(|who| {
            who.request_keyring = number;
            Ok(())
        })?;
    }
    Ok(old as usize)
}

/// Writes as much as there is room for, or with `whole` all or nothing; returns the full length.
fn put(bytes: &[u8], to: usize, room: usize, whole: bool) -> Result<usize> {
    if to != 0 && (!whole || room >= bytes.len()) {
        let len = room.min(bytes.len());
        UserSlice::new(to, len).copy_out(&bytes[..len])?;
    }
    Ok(bytes.len())
}
