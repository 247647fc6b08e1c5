//! Leases (F_SETLEASE): an open that conflicts notifies the holder and waits for it to release the
//! lease.

use super::dentry::Dentry;
use super::file::File;
use super::inode::{Inode, Kind};
use super::poll::WaitSource;
use super::sigio;
use crate::arch::time::now_ticks;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::check_room;
use crate::sync::Mutex;
use crate::task::clock::{SECOND, deadline_in};
use crate::task::{current, sched};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use linux_raw_sys::general::{CAP_LEASE, F_RDLCK, F_UNLCK, F_WRLCK};

/// How long an open waits for the holder of a lease (`/proc/sys/fs/lease-break-time`), in seconds;
/// 0 for ever.
pub static BREAK_TIME: AtomicU64 = AtomicU64::new(45);

/// A lease.
struct Lease {
    file: Weak<File>,
    /// Held so that its address is not reused.
    _inode: Arc<dyn Inode>,
    /// F_RDLCK or F_WRLCK.
    kind: u32,
    /// The deadlines (in ticks) by which it must be a read lease, and by which it must be released,
    /// if that was requested.
    downgrade: Option<u64>,
    unlock: Option<u64>,
    changed: Arc<WaitSource>,
}

impl Lease {
    /// Whether the lease conflicts with an open.
    fn conflicts_with_open(&self, write: bool) -> bool {
        write || self.kind == F_WRLCK
    }

    /// Whether its holder was already notified of such an open.
    fn is_asked(&self, write: bool) -> bool {
        self.unlock.is_some() || !write && self.downgrade.is_some()
    }

    /// Begins a break for an open.
    fn begin_break(&mut self, write: bool) {
        let until = match BREAK_TIME.load(Relaxed) {
            0 => u64::MAX,
            seconds => deadline_in(seconds.saturating_mul(SECOND)),
        };
        let asked = if write {
            &mut self.unlock
        } else {
            &mut self.downgrade
        };
        *asked = Some(until);
    }

    /// Whether its complete release was requested, and whether it is a write lease.
    fn counted(&self) -> [bool; 2] {
        [self.unlock.is_some(), self.kind == F_WRLCK]
    }

    /// The time until which an open waits for it.
    fn until(&self) -> u64 {
        let asked = [self.unlock, self.downgrade];
        asked.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Applies the holder's reply, or a forced one: a break that this does not satisfy stays
    /// pending with its deadline.
    fn change(&mut self, kind: u32) {
        self.kind = kind;
        if kind == F_RDLCK {
            self.downgrade = None;
        }
    }
}

/// The leases of an inode.
#[derive(Default)]
struct Leases {
    /// By the address of their open file.
    all: BTreeMap<usize, Lease>,
    /// The number of leases whose complete release was requested.
    unlocking: usize,
    /// The number of write leases, beside which there are few others.
    writing: usize,
}

impl Leases {
    /// Updates the counts for a lease that changes from `before` to `now`.
    fn count(&mut self, before: [bool; 2], now: [bool; 2]) {
        let counts = [&mut self.unlocking, &mut self.writing];
        for (at, count) in counts.into_iter().enumerate() {
            *count = *count + usize::from(now[at]) - usize::from(before[at]);
        }
    }

    /// Changes the lease of an open file.
    fn change<T>(&mut self, address: usize, change: impl FnOnce(&mut Lease) -> T) -> Option<T> {
        let lease = self.all.get_mut(&address)?;
        let before = lease.counted();
        let changed = change(lease);
        let now = lease.counted();
        self.count(before, now);
        Some(changed)
    }

    /// Whether any lease may conflict with an open, and was not broken for it yet.
    fn may_break(&self, write: bool) -> bool {
        if write {
            self.unlocking < self.all.len()
        } else {
            self.writing > 0
        }
    }
}

/// Leases by the address of their inode.
static LEASES: Mutex<HashMap<usize, Leases>> = Mutex::new(hash::new());
/// The number of inodes with leases: if it is 0, an open does nothing more.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The number of leases that are visited under one hold of the lock.
const FEW: usize = 64;

fn key(inode: &Arc<dyn Inode>) -> usize {
    Arc::as_ptr(inode).addr()
}

/// Removes the lease of the open file at `address` of `inode`, if `is_it`.
fn take(
    inode: &Arc<dyn Inode>,
    address: usize,
    is_it: impl FnOnce(&Lease) -> bool,
) -> Option<Lease> {
    let mut leases = LEASES.lock();
    let of_inode = leases.get_mut(&key(inode))?;
    of_inode.all.get(&address).filter(|lease| is_it(lease))?;
    let gone = of_inode.all.remove(&address)?;
    of_inode.count(gone.counted(), [false; 2]);
    if of_inode.all.is_empty() {
        leases.remove(&key(inode));
    }
    COUNT.store(leases.len(), Release);
    Some(gone)
}

/// The kind of lease that an open file holds, or will have after a break: F_RDLCK, F_WRLCK or
/// F_UNLCK.
pub fn get(file: &File) -> u32 {
    let address = file.address();
    let leases = LEASES.lock();
    let of_inode = leases.get(&key(file.dentry().inode()));
    let held = of_inode.and_then(|of_inode| of_inode.all.get(&address));
    held.map_or(F_UNLCK, |lease| match lease {
        _ if lease.unlock.is_some() => F_UNLCK,
        _ if lease.downgrade.is_some() => F_RDLCK,
        _ => lease.kind,
    })
}

/// Sets, changes or removes the lease on the file of descriptor `fd`.
///
/// # Errors
/// EACCES (another user's file), EINVAL (not a regular file), EAGAIN (the file is open elsewhere in
/// a conflicting mode), ENOMEM.
pub fn set(file: &Arc<File>, fd: i32, kind: u32) -> Result<()> {
    let inode = file.dentry().inode();
    let owner = inode.attr().uid;
    if !current().with_credentials(|who| who.fsuid == owner || who.can(CAP_LEASE)) {
        return Err(Errno::EACCES);
    }
    if file.dentry().kind() != Kind::Regular {
        return Err(Errno::EINVAL);
    }
    match kind {
        F_UNLCK if remove(file) => return Ok(()),
        F_UNLCK => return Err(Errno::EAGAIN),
        F_RDLCK | F_WRLCK => check_alone(file, kind)?,
        _ => return Err(Errno::EINVAL),
    }
    sigio::own(file)?;
    sigio::set_descriptor(file, fd)?;
    let changed = WaitSource::new()?;
    let address = file.address();
    let lease = Lease {
        file: Arc::downgrade(file),
        _inode: inode.clone(),
        kind,
        downgrade: None,
        unlock: None,
        changed,
    };
    let mut leases = LEASES.lock();
    // Again, with the lock: an open from here on finds the lease, as it is then.
    check_alone(file, kind)?;
    leases.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let _room = check_room()?;
    let of_inode = leases.get_or_insert_with(key(inode), Leases::default);
    let held = of_inode.change(address, |held| {
        held.change(kind);
        held.changed.clone()
    });
    if let Some(changed) = held {
        drop(leases);
        changed.notify();
        return Ok(());
    }
    if of_inode.unlocking > 0 {
        return Err(Errno::EAGAIN);
    }
    of_inode.count([false; 2], lease.counted());
    of_inode.all.insert(address, lease);
    COUNT.store(leases.len(), SeqCst);
    drop(leases);
    // Meanwhile an opener may have found that there are no leases at all, and skipped the lock.
    check_alone(file, kind).inspect_err(|_| _ = remove(file))
}

/// Removes the lease of an open file; returns whether there was one.
pub fn remove(file: &File) -> bool {
    if COUNT.load(Acquire) == 0 {
        return false;
    }
    let gone = take(file.dentry().inode(), file.address(), |_| true);
    if let Some(gone) = &gone {
        gone.changed.notify();
    }
    gone.is_some()
}

/// EAGAIN if the file is open elsewhere in a mode that excludes a lease of this kind; EINVAL if the
/// file system does not count openers.
fn check_alone(file: &File, kind: u32) -> Result<()> {
    let claim = file.flags().claim().ok_or(Errno::EBADF)?;
    let others = file.dentry().inode().writers().ok_or(Errno::EINVAL)?;
    let free = match kind {
        F_RDLCK => !others.is_written(),
        _ => others.is_alone(claim),
    };
    if free { Ok(()) } else { Err(Errno::EAGAIN) }
}

/// The inode of `dentry` is being opened (for writing, if `write`), and has been claimed: breaks
/// its leases and waits until that is done.
///
/// # Errors
/// EAGAIN: the caller may not wait; ERESTARTSYS.
#[inline]
pub fn break_leases(dentry: &Dentry, write: bool, waits: bool) -> Result<()> {
    if COUNT.load(SeqCst) == 0 {
        return Ok(());
    }
    wait_for_leases(dentry, write, waits)
}

#[cold]
fn wait_for_leases(dentry: &Dentry, write: bool, waits: bool) -> Result<()> {
    let inode = dentry.inode();
    loop {
        // All holders are notified before the first is waited for.
        let mut from = 0;
        while let Some(holder) = break_next(inode, write, &mut from) {
            if let Some(holder) = holder.and_then(|holder| holder.upgrade()) {
                sigio::notify_message(&holder);
            }
            sched::cond_resched_killable()?;
        }
        let Some(conflict) = find_conflict(inode, write) else {
            return Ok(());
        };
        let Conflict {
            address,
            changed,
            until,
        } = conflict;
        let Some(until) = until else { continue };
        if !waits {
            return Err(Errno::EAGAIN);
        }
        let answered = || !still_conflicts(inode, address, &changed, write);
        let deadline = (until != u64::MAX).then_some(until);
        if !changed.wait_until(answered, deadline)? {
            time_out(inode, address, &changed);
        }
    }
}

/// Breaks the next lease that conflicts with the open, and returns its holder, to be notified;
/// `Some(None)` if it visited many first. Leases before `from` were visited already. Returns `None`
/// once all have been broken: a lease that was added meanwhile is found by the next pass.
fn break_next(inode: &Arc<dyn Inode>, write: bool, from: &mut usize) -> Option<Option<Weak<File>>> {
    let mut leases = LEASES.lock();
    let of_inode = leases.get_mut(&key(inode))?;
    if !of_inode.may_break(write) {
        return None;
    }
    let rest = of_inode.all.range(*from..);
    let seen = rest.take(FEW).map(|(&address, lease)| {
        let asks = lease.conflicts_with_open(write) && !lease.is_asked(write);
        (address, asks)
    });
    let mut last = None;
    let found = seen.inspect(|seen| last = Some(seen.0)).find(|seen| seen.1);
    *from = last?.checked_add(1)?;
    let holder = found.and_then(|(address, _)| {
        of_inode.change(address, |lease| {
            lease.begin_break(write);
            lease.file.clone()
        })
    });
    Some(holder)
}

/// A lease that conflicts with an open.
struct Conflict {
    /// The address of its open file.
    address: usize,
    /// Notified of its end.
    changed: Arc<WaitSource>,
    /// The time until which an open waits for it; `None` if it was added after the others were
    /// broken.
    until: Option<u64>,
}

fn find_conflict(inode: &Arc<dyn Inode>, write: bool) -> Option<Conflict> {
    let leases = LEASES.lock();
    let of_inode = leases.get(&key(inode))?;
    if !write && of_inode.writing == 0 {
        return None;
    }
    let mut all = of_inode.all.iter();
    let (&address, lease) = all.find(|(_, lease)| lease.conflicts_with_open(write))?;
    Some(Conflict {
        address,
        changed: lease.changed.clone(),
        until: lease.is_asked(write).then(|| lease.until()),
    })
}

fn still_conflicts(
    inode: &Arc<dyn Inode>,
    address: usize,
    changed: &Arc<WaitSource>,
    write: bool,
) -> bool {
    let leases = LEASES.lock();
    let lease = leases
        .get(&key(inode))
        .and_then(|of_inode| of_inode.all.get(&address));
    lease.is_some_and(|lease| {
        Arc::ptr_eq(&lease.changed, changed) && lease.conflicts_with_open(write)
    })
}

/// Applies the requested change to a lease whose holder did not do so in time.
fn time_out(inode: &Arc<dyn Inode>, address: usize, changed: &Arc<WaitSource>) {
    let now = now_ticks();
    let past = |time: Option<u64>| time.is_some_and(|time| time <= now);
    let is_it = |lease: &Lease| Arc::ptr_eq(&lease.changed, changed);
    if let Some(of_inode) = LEASES.lock().get_mut(&key(inode)) {
        of_inode.change(address, |lease| {
            if is_it(lease) && past(lease.downgrade) {
                lease.change(F_RDLCK);
            }
        });
    }
    let gone = take(inode, address, |lease| is_it(lease) && past(lease.unlock));
    drop(gone);
    changed.notify();
}
