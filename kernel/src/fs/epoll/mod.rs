//! epoll: a set of files, and the queue of those that may be ready.
//!
//! Each member watches its file's sources. A change puts the member on the queue, at most once. A
//! wait takes members off, polls their files, and puts those that are level-triggered and still
//! ready back.

mod members;
mod nesting;
mod watch;

use self::members::{Members, Standing};
pub use self::nesting::{HolderList, Holders};
use self::nesting::{Look, Mark};
use self::watch::Watch;
pub use self::watch::{MAX_WATCHES, init};
use super::file::{File, FileOps, OpenFlags};
use super::poll::{Events, PollTable, WaitSource, Watcher};
use super::weak_file::WeakFile;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use crate::task::user::User;
use crate::task::{current, require, sched};
use alloc::sync::{Arc, Weak};
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use linux_raw_sys::general::{
    CAP_NET_ADMIN, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLMSG, EPOLLONESHOT,
    EPOLLOUT, EPOLLRDBAND, EPOLLWAKEUP, O_RDWR,
};

/// Flags that EPOLLEXCLUSIVE may be combined with.
const EXCLUSIVE_KINDS: u32 =
    EPOLLEXCLUSIVE | EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET;

/// The number of members with the same descriptor that are visited under one hold of a set's lock.
const FEW: usize = 64;

/// Bits that no file reports, on Linux either.
const UNTOLD: u32 = EPOLLRDBAND | EPOLLMSG;
const _: () = assert!(
    abi::options::EPOLL.mask()
        == (Events::all().difference(Events::PLAIN).bits()
            | UNTOLD
            | EPOLLEXCLUSIVE
            | EPOLLWAKEUP
            | EPOLLONESHOT
            | EPOLLET) as u64,
    "abi and epoll disagree"
);

/// `struct epoll_event` where it is not packed (all but x86).
#[repr(C)]
#[derive(Clone, Copy, Default, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
pub struct Event {
    /// EPOLL bits.
    pub events: u32,
    /// Padding.
    pub pad: u32,
    /// A word that the program chose.
    pub data: u64,
}

/// The key of a member: its descriptor and its file, since the descriptor may be closed and reused.
type Key = (i32, usize);

struct Item {
    key: Key,
    file: Weak<File>,
    /// Another reference to the file, for a change to poll it.
    exclusive: Option<WeakFile>,
    set: Arc<Set>,
    /// The requested events, with the EPOLLET and EPOLLONESHOT bits; 0 after a one-shot event was
    /// reported.
    wanted: AtomicU32,
    data: AtomicU64,
    queued: AtomicBool,
    standing: Standing,
    /// The charge to its set's user.
    _watch: Watch,
    /// Its number among the holders of the file.
    held_as: u64,
    /// The watches on the file's sources.
    table: Mutex<Option<PollTable>>,
}

impl Item {
    /// The pending events of the file that are among those `wanted`.
    fn events(&self, wanted: u32) -> Events {
        let file = self.file.upgrade();
        file.map_or(Events::empty(), |file| events_of(&file, wanted))
    }

    /// Ends the watches, which refer to the member while it owns them.
    fn unwatch(&self) {
        let table = self.table.lock().take();
        drop(table);
        if let Some(file) = self.file.upgrade() {
            let gone = with_holders(&file, |holders| holders.lock().sets.remove(self.held_as));
            drop(gone);
        }
    }
}

fn events_of(file: &File, wanted: u32) -> Events {
    let wanted = Events::from_bits_retain(wanted);
    if wanted.is_empty() {
        return Events::empty();
    }
    file.poll(None).with_normal() & (wanted | Events::ALWAYS)
}

impl Watcher for Item {
    fn changed(&self) -> bool {
        // An exclusive wake-up must not be consumed by a watcher whose event is not ready.
        let ready = |file: &File| !events_of(file, self.wanted.load(Acquire)).is_empty();
        let exclusive = self.exclusive.as_ref();
        let wanted = exclusive.is_none_or(|file| file.with(ready).unwrap_or(false));
        wanted && self.set.queue(self)
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive.is_some()
    }
}

/// An open epoll set. Its members are removed with it, while the set itself may still be referenced
/// by a notification in progress.
pub struct Epoll(Arc<Set>);

/// A set of files.
pub struct Set {
    members: Mutex<Members>,
    changed: Arc<WaitSource>,
    /// The settings for busy polling (`struct epoll_params`), which have no effect.
    polling: AtomicU64,
    /// The sets that this one is a member of.
    holders: Holders,
    mark: Mark,
    /// The user that created it, to whom its members are charged.
    user: Arc<User>,
}

/// Calls `f` with the sets that `file` is a member of.
fn with_holders<T>(file: &File, f: impl FnOnce(&Holders) -> T) -> T {
    match file.ops_as::<Epoll>() {
        Some(set) => f(&set.holders),
        None => f(file.holders()),
    }
}

/// A new set, as an open file.
pub fn new() -> Result<Arc<File>> {
    let set = try_arc(Set {
        members: Mutex::new(Members::default()),
        changed: WaitSource::new()?,
        polling: AtomicU64::new(0),
        holders: Mutex::new(HolderList::new()),
        mark: Mark::default(),
        user: current().credentials().user.clone(),
    })?;
    super::anonymous::file("[eventpoll]", try_arc(Epoll(set))?, OpenFlags(O_RDWR))
}

fn key(fd: i32, file: &Arc<File>) -> Key {
    (fd, Arc::as_ptr(file) as usize)
}

impl Deref for Epoll {
    type Target = Set;

    #[inline]
    fn deref(&self) -> &Set {
        &self.0
    }
}

impl Epoll {
    /// EPOLL_CTL_ADD
    pub fn add(&self, fd: i32, file: &Arc<File>, event: Event) -> Result<()> {
        if !file.can_poll() {
            return Err(Errno::EPERM);
        }
        let set = file.ops_as::<Epoll>();
        let exclusive = event.events & EPOLLEXCLUSIVE != 0;
        if exclusive && (event.events & !EXCLUSIVE_KINDS != 0 || set.is_some()) {
            return Err(Errno::EINVAL);
        }
        if set.as_ref().is_some_and(|set| Arc::ptr_eq(&set.0, &self.0)) {
            return Err(Errno::EINVAL);
        }
        if set.is_none() && self.holders.lock().sets.is_empty() {
            return self.0.insert(fd, file, event);
        }
        let mut look = Look::begin()?;
        match set {
            Some(set) => look.check_depth(self, &set)?,
            None => look.add_file(file.clone())?,
        }
        self.0.insert(fd, file, event)?;
        look.check_paths()
            .inspect_err(|_| _ = self.remove(fd, file))
    }
}

impl Set {
    /// Queues a member, and wakes one waiter, which takes ready members and wakes the next waiter
    /// if there are more. True if there was a waiter.
    fn queue(&self, item: &Item) -> bool {
        self.put_back(item) && self.changed.notify_one(Events::READABLE)
    }

    /// Queues a member; true if it was not in the queue.
    fn put_back(&self, item: &Item) -> bool {
        !item.queued.swap(true, AcqRel) && self.members.lock().push_back(item)
    }

    fn insert(self: &Arc<Self>, fd: i32, file: &Arc<File>, event: Event) -> Result<()> {
        if self.item(fd, file).is_ok() {
            return Err(Errno::EEXIST);
        }
        let exclusive = event.events & EPOLLEXCLUSIVE != 0;
        let exclusive = exclusive.then(|| WeakFile::new(file)).transpose()?;
        let watch = Watch::new(&self.user).or_else(|_| {
            self.remove_closed();
            Watch::new(&self.user)
        })?;
        let holder = Arc::downgrade(self);
        let held_as = with_holders(file, |holders| holders.lock().sets.push(holder))?;
        let item = try_arc(Item {
            key: key(fd, file),
            file: Arc::downgrade(file),
            exclusive,
            set: self.clone(),
            wanted: AtomicU32::new(event.events),
            data: AtomicU64::new(event.data),
            queued: AtomicBool::new(false),
            standing: Standing::new(),
            _watch: watch,
            held_as,
            table: Mutex::new(None),
        });
        let entered = item.and_then(|item| self.enter(&item).map(|()| item));
        let item = entered.inspect_err(|_| {
            let gone = with_holders(file, |holders| holders.lock().sets.remove(held_as));
            drop(gone);
        })?;
        let mut table = PollTable::new(item.clone());
        file.poll(Some(&mut table));
        if let Err(error) = table.check() {
            _ = self.remove(fd, file);
            return Err(error);
        }
        *item.table.lock() = Some(table);
        // A thread that removed it meanwhile found no watch to end.
        let member = self.item(fd, file);
        if !member.is_ok_and(|now| Arc::ptr_eq(&now, &item)) {
            item.unwatch();
        }
        self.check(&item);
        Ok(())
    }

    /// Makes `item` a member, replacing one with the same descriptor whose file is closed, if that
    /// is soon found.
    fn enter(&self, item: &Arc<Item>) -> Result<()> {
        let (fd, _) = item.key;
        let mut members = self.members.lock();
        let is_closed = |item: &Item| item.file.strong_count() == 0;
        let gone = members.take_next(fd, is_closed);
        let entered = match members.get(&item.key) {
            Some(_) => Err(Errno::EEXIST),
            None => members.insert(item.clone()),
        };
        drop(members);
        gone.iter().for_each(|item| item.unwatch());
        entered
    }

    /// Queues a member whose file is ready.
    fn check(&self, item: &Item) {
        if !item.events(item.wanted.load(Acquire)).is_empty() {
            self.queue(item);
        }
    }

    /// Removes a member whose file was not ready from the queue, so that later waits do not poll
    /// it.
    fn unqueue(&self, item: &Arc<Item>) {
        let mut members = self.members.lock();
        let first = members.front();
        let is_first = first.is_some_and(|first| Arc::ptr_eq(first, item));
        let gone = is_first && members.unqueue(item);
        drop(members);
        if gone {
            item.queued.store(false, Release);
            // An event in the meantime found it queued.
            self.check(item);
        }
    }

    fn item(&self, fd: i32, file: &Arc<File>) -> Result<Arc<Item>> {
        let members = self.members.lock();
        members.get(&key(fd, file)).cloned().ok_or(Errno::ENOENT)
    }

    /// The file of the member that was added as descriptor `fd`; if there are several, the one
    /// after the first `which`.
    pub fn member(&self, fd: i32, which: usize) -> Option<Arc<File>> {
        let (mut from, mut left) = ((fd, 0), which);
        loop {
            let members = self.members.lock();
            let mut last = None;
            for item in members.of(from).take(FEW) {
                if left == 0 {
                    return item.file.upgrade();
                }
                left -= 1;
                last = Some(item.key);
            }
            drop(members);
            sched::cond_resched_killable().ok()?;
            from = (fd, last?.1 + 1);
        }
    }

    /// EPOLL_CTL_MOD
    pub fn modify(&self, fd: i32, file: &Arc<File>, event: Event) -> Result<()> {
        let item = self.item(fd, file)?;
        if item.is_exclusive() || event.events & EPOLLEXCLUSIVE != 0 {
            return Err(Errno::EINVAL);
        }
        // A waiter that finds a disarmed member armed again must find its new data.
        item.data.store(event.data, Release);
        item.wanted.store(event.events, Release);
        self.check(&item);
        Ok(())
    }

    /// EPOLL_CTL_DEL
    pub fn remove(&self, fd: i32, file: &Arc<File>) -> Result<()> {
        let gone = self.members.lock().remove(&key(fd, file));
        gone.ok_or(Errno::ENOENT)?.unwatch();
        Ok(())
    }

    /// Removes the members whose files are closed.
    #[cold]
    fn remove_closed(&self) {
        let mut next = self.member_from((i32::MIN, 0));
        while let Some(item) = next {
            let (fd, file) = item.key;
            if item.file.strong_count() == 0 {
                let mut members = self.members.lock();
                let now = members.get(&item.key);
                let still = now.is_some_and(|now| Arc::ptr_eq(now, &item));
                let gone = still.then(|| members.remove(&item.key)).flatten();
                drop(members);
                gone.iter().for_each(|item| item.unwatch());
            }
            sched::cond_resched();
            next = self.member_from((fd, file + 1));
        }
    }

    /// The first member with a key from `from` on.
    fn member_from(&self, from: Key) -> Option<Arc<Item>> {
        self.members.lock().from(from).next().cloned()
    }

    /// Removes the first member from the queue.
    fn next(&self) -> Option<Arc<Item>> {
        let mut members = self.members.lock();
        let first = members.front()?.clone();
        members.unqueue(&first);
        Some(first)
    }

    /// Takes up to `max` events from the queue and passes each to `emit`; returns their number.
    pub fn take(
        &self,
        max: usize,
        emit: &mut dyn FnMut(usize, Event) -> Result<()>,
    ) -> Result<usize> {
        let mut taken = 0;
        let mut more = false;
        let mut failed = None;
        // Each member is visited once: those that are queued again are for the next wait.
        let mut candidates = self.members.lock().queued();
        while taken < max && candidates > 0 {
            candidates -= 1;
            sched::cond_resched();
            let Some(item) = self.next() else { break };
            item.queued.store(false, Release);
            if item.file.strong_count() == 0 {
                let gone = self.members.lock().remove(&item.key);
                gone.iter().for_each(|item| item.unwatch());
                continue;
            }
            let wanted = item.wanted.load(Acquire);
            let events = item.events(wanted);
            if events.is_empty() {
                continue;
            }
            // Disarmed before it is reported: a thread that finds it ready again meanwhile must not
            // report it, too.
            let once = wanted & EPOLLONESHOT != 0;
            let disarm = |from, to| item.wanted.compare_exchange(from, to, AcqRel, Acquire);
            if once && disarm(wanted, 0).is_err() {
                more |= self.put_back(&item);
                continue;
            }
            let event = Event {
                events: events.bits(),
                pad: 0,
                data: item.data.load(Acquire),
            };
            if let Err(error) = emit(taken, event) {
                if once {
                    _ = disarm(0, wanted);
                }
                more |= self.put_back(&item);
                failed = Some(error);
                break;
            }
            taken += 1;
            if !once && wanted & EPOLLET == 0 {
                more |= self.put_back(&item);
            }
        }
        // The next waiter is woken once, however many events are left for it. Sets that contain
        // this one were notified of those that stayed in the queue.
        if more {
            self.changed.notify_one(Events::READABLE);
        } else if candidates > 0 {
            self.changed.wake_next();
        }
        match failed {
            Some(error) if taken == 0 => Err(error),
            _ => Ok(taken),
        }
    }

    /// Waits until the queue is not empty; false if `deadline` (in ticks) passed first, up to
    /// `slack` ticks ago.
    pub fn wait(&self, deadline: Option<u64>, slack: u64) -> Result<bool> {
        let ready = || self.members.lock().queued() > 0;
        let waited = self.changed.wait_with_slack(ready, deadline, slack);
        waited.map_err(|error| {
            if error == Errno::ERESTARTSYS {
                Errno::EINTR
            } else {
                error
            }
        })
    }
}

impl Drop for Epoll {
    /// Ends the watches of all members, which refer to the set.
    fn drop(&mut self) {
        let members = self.members.lock().take_all();
        for item in members {
            item.unwatch();
            drop(item);
            sched::cond_resched();
        }
    }
}

/// Requests for busy polling (include/uapi/linux/eventpoll.h).
const EPIOCSPARAMS: u32 = 0x4008_8a01;
const EPIOCGPARAMS: u32 = 0x8008_8a02;
/// The maximum budget without privileges (NAPI_POLL_WEIGHT).
const POLL_BUDGET: u16 = 64;

/// Checks a `struct epoll_params`: microseconds, a budget, whether busy polling is preferred, and a
/// byte that must be 0.
///
/// # Errors
/// EINVAL, EPERM.
fn check_polling([t0, t1, t2, t3, b0, b1, prefers, zero]: [u8; 8]) -> Result<()> {
    let time = i32::from_ne_bytes([t0, t1, t2, t3]);
    if time < 0 || prefers > 1 || zero != 0 {
        return Err(Errno::EINVAL);
    }
    if u16::from_ne_bytes([b0, b1]) > POLL_BUDGET {
        require(CAP_NET_ADMIN)?;
    }
    Ok(())
}

impl FileOps for Epoll {
    fn ignores_seeks(&self) -> bool {
        true
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        let params = UserPtr::<[u8; 8]>::new(argument);
        match request {
            EPIOCSPARAMS => {
                let given = params.read()?;
                check_polling(given)?;
                self.polling.store(u64::from_ne_bytes(given), Relaxed);
            }
            EPIOCGPARAMS => params.write(&self.polling.load(Relaxed).to_ne_bytes())?,
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    fn held(&self) -> usize {
        self.members.lock().len() * watch::COST
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.changed);
        }
        loop {
            let Some(item) = self.members.lock().front().cloned() else {
                return Events::empty();
            };
            if !item.events(item.wanted.load(Acquire)).is_empty() {
                return Events::IN;
            }
            self.unqueue(&item);
            sched::cond_resched();
        }
    }
}
