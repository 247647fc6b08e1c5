//! inotify: what happens to files and in directories, told to who watches them.

use super::entry::Entry;
use super::file::{File, FileOps, OpenFlags};
use super::io::Sink;
use super::poll::{Events, PollTable, WaitSource};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::FIONREAD;

/// Events that wait for a reader, as on Linux (`max_queued_events`).
const MAX_EVENTS: usize = 16384;

/// An inode, by device and number.
type Key = (u64, u64);

struct Event {
    watch: i32,
    mask: u32,
    cookie: u32,
    name: Arc<[u8]>,
}

impl Event {
    /// Bytes as a `struct inotify_event`: the name ends with a zero and is padded to a multiple of 16.
    fn len(&self) -> usize {
        let name = if self.name.is_empty() {
            0
        } else {
            (self.name.len() + 1).next_multiple_of(16)
        };
        16 + name
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let len = self.len();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        for word in [self.watch as u32, self.mask, self.cookie, len as u32 - 16] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&self.name);
        bytes.resize(len, 0);
        Ok(bytes)
    }

    fn same(&self, other: &Event) -> bool {
        (self.watch, self.mask, self.cookie) == (other.watch, other.mask, other.cookie)
            && self.name == other.name
    }
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    watches: BTreeMap<i32, Key>,
    last: i32,
}

/// An open inotify file.
pub struct Inotify {
    state: Mutex<State>,
    readable: Arc<WaitSource>,
}

struct Watch {
    instance: Weak<Inotify>,
    number: i32,
    mask: u32,
}

static WATCHES: Mutex<BTreeMap<Key, Vec<Watch>>> = Mutex::new(BTreeMap::new());
/// Watched inodes: when there are none, nobody looks further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A new instance, with the flags of inotify_init1.
pub fn new(flags: u32) -> Result<Arc<File>> {
    let instance = try_arc(Inotify {
        state: Mutex::new(State::default()),
        readable: WaitSource::new()?,
    })?;
    super::anonymous::file(
        "inotify",
        instance,
        OpenFlags(O_RDONLY | flags & O_NONBLOCK),
    )
}

fn key(entry: &Entry) -> Key {
    let attr = entry.inode().attr();
    (attr.device, attr.inode)
}

/// A number that joins the two events of a rename.
pub fn new_cookie() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// True when anything is watched.
#[inline]
pub fn is_active() -> bool {
    COUNT.load(Relaxed) > 0
}

/// Something happened to the inode of `entry`: told to those who watch it or its directory.
pub fn about(entry: &Arc<Entry>, mask: u32) {
    if !is_active() {
        return;
    }
    let mask = mask
        | if entry.kind() == super::inode::Kind::Directory {
            IN_ISDIR
        } else {
            0
        };
    tell(key(entry), mask, 0, &Arc::from(&b""[..]));
    if let Some(parent) = entry.parent() {
        tell(key(&parent), mask, 0, &entry.name());
    }
}

/// The inode of `entry` was moved.
pub fn moved(entry: &Entry) {
    if is_active() {
        tell(key(entry), IN_MOVE_SELF, 0, &Arc::from(&b""[..]));
    }
}

/// The name `name` in `directory`, of a directory or not, came or went.
pub fn in_directory(directory: &Entry, name: &[u8], is_directory: bool, mask: u32, cookie: u32) {
    if is_active() {
        tell(
            key(directory),
            mask | if is_directory { IN_ISDIR } else { 0 },
            cookie,
            &Arc::from(name),
        );
    }
}

/// The last name of an inode is gone, and with it its watches.
pub fn deleted(entry: &Entry) {
    if is_active() {
        let key = key(entry);
        tell(key, IN_DELETE_SELF, 0, &Arc::from(&b""[..]));
        let watches = WATCHES.lock().remove(&key).unwrap_or_default();
        COUNT.fetch_sub(usize::from(!watches.is_empty()), Relaxed);
        for watch in watches {
            watch.ignored();
        }
    }
}

fn tell(key: Key, mask: u32, cookie: u32, name: &Arc<[u8]>) {
    let mut at = 0;
    loop {
        let found = {
            let watches = WATCHES.lock();
            let Some(watch) = watches.get(&key).and_then(|list| list.get(at)) else {
                return;
            };
            (watch.mask & mask & IN_ALL_EVENTS != 0)
                .then(|| (watch.instance.upgrade(), watch.number))
        };
        if let Some((Some(instance), watch)) = found {
            instance.push(Event {
                watch,
                mask,
                cookie,
                name: name.clone(),
            });
        }
        at += 1;
    }
}

impl Watch {
    fn ignored(self) {
        if let Some(instance) = self.instance.upgrade() {
            instance.state.lock().watches.remove(&self.number);
            instance.push(Event {
                watch: self.number,
                mask: IN_IGNORED,
                cookie: 0,
                name: Arc::from(&b""[..]),
            });
        }
    }
}

impl Inotify {
    fn push(&self, event: Event) {
        let mut state = self.state.lock();
        if state.events.back().is_some_and(|last| last.same(&event)) {
            return;
        }
        let event = match state.events.len().cmp(&MAX_EVENTS) {
            core::cmp::Ordering::Less => event,
            core::cmp::Ordering::Equal => Event {
                watch: -1,
                mask: IN_Q_OVERFLOW,
                cookie: 0,
                name: Arc::from(&b""[..]),
            },
            core::cmp::Ordering::Greater => return,
        };
        if state.events.try_reserve(1).is_ok() {
            state.events.push_back(event);
        }
        drop(state);
        self.readable.notify();
    }

    /// Watches the inode of `entry` for `mask`, or changes what it is watched for. Returns the watch's number.
    pub fn watch(self: &Arc<Self>, entry: &Entry, mask: u32) -> Result<i32> {
        let key = key(entry);
        let mut watches = WATCHES.lock();
        let fresh = !watches.contains_key(&key);
        let list = watches.entry(key).or_default();
        list.retain(|watch| watch.instance.strong_count() > 0);
        let own = list
            .iter_mut()
            .find(|watch| core::ptr::eq(watch.instance.as_ptr(), Arc::as_ptr(self)));
        if let Some(watch) = own {
            if mask & IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            watch.mask = if mask & IN_MASK_ADD != 0 {
                watch.mask | mask
            } else {
                mask
            };
            return Ok(watch.number);
        }
        list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.watches.insert(number, key);
        list.push(Watch {
            instance: Arc::downgrade(self),
            number,
            mask,
        });
        COUNT.fetch_add(fresh.into(), Relaxed);
        Ok(number)
    }

    /// Ends a watch.
    pub fn unwatch(&self, number: i32) -> Result<()> {
        let key = self
            .state
            .lock()
            .watches
            .remove(&number)
            .ok_or(Errno::EINVAL)?;
        let watch = self.take(key, number);
        watch.into_iter().for_each(Watch::ignored);
        Ok(())
    }

    fn take(&self, key: Key, number: i32) -> Option<Watch> {
        let mut watches = WATCHES.lock();
        let list = watches.get_mut(&key)?;
        let mine =
            |watch: &Watch| watch.number == number && core::ptr::eq(watch.instance.as_ptr(), self);
        let watch = list.iter().position(mine).map(|at| list.swap_remove(at));
        if list.is_empty() {
            watches.remove(&key);
            COUNT.fetch_sub(1, Relaxed);
        }
        watch
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        let watches = core::mem::take(&mut self.state.lock().watches);
        for (number, key) in watches {
            self.take(key, number);
        }
    }
}

impl FileOps for Inotify {
    fn is_stream(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        let mut total = 0;
        loop {
            let event = {
                let mut state = self.state.lock();
                match state.events.front() {
                    Some(event) if event.len() > to.left() && total == 0 => {
                        return Err(Errno::EINVAL);
                    }
                    Some(event) if event.len() <= to.left() => state.events.pop_front(),
                    _ => None,
                }
            };
            match event {
                Some(event) => total += to.put(&event.encode()?)?,
                None if total > 0 => return Ok(total),
                None if file.flags().nonblocking() => return Err(Errno::EAGAIN),
                None => self
                    .readable
                    .wait(|| !self.state.lock().events.is_empty())?,
            }
        }
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.readable);
        }
        let mut events = Events::empty();
        events.set(Events::IN, !self.state.lock().events.is_empty());
        events
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        if request != FIONREAD {
            return Err(Errno::ENOTTY);
        }
        let len: usize = self.state.lock().events.iter().map(Event::len).sum();
        UserPtr::new(argument).write(&(len as i32))?;
        Ok(0)
    }
}
