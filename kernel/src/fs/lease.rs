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

/// How long an open waits for the holder of a lease (`/proc/sys/fs/lease-break-time`), in
/// seconds; 0: for ever.
pub static BREAK_TIME: AtomicU64 = AtomicU64::new(45);

/// A lease.
struct Lease {
    file: Weak<File>,
    /// So that no other gets its address.
    _inode: Arc<dyn Inode>,
    /// F_RDLCK or F_WRLCK.
    kind: u32,
    /// Until when (in ticks) it is to be one to read, and gone, where that was asked.
    downgrade: Option<u64>,
    unlock: Option<u64>,
    changed: Arc<WaitSource>,
}

impl Lease {
    /// Whether the lease conflicts with an open.
    fn conflicts_with_open(&self, write: bool) -> bool {
        write || self.kind == F_WRLCK
    }

    /// Whether its holder was notified of such an open before.
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

    /// Whether it is asked back to the last, and whether it is to write.
    fn counted(&self) -> [bool; 2] {
        [self.unlock.is_some(), self.kind == F_WRLCK]
    }

    /// Until when an open waits for it.
    fn until(&self) -> u64 {
        let asked = [self.unlock, self.downgrade];
        asked.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// The holder's reply, or the one made for it: a break that it does not satisfy stays pending
    /// with its deadline.
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
    /// By the address of their open files.
    all: BTreeMap<usize, Lease>,
    /// How many are asked back to the last.
    unlocking: usize,
    /// How many are to write: beside such a lease there are few others.
    writing: usize,
}

impl Leases {
    /// Counts a lease that is `now` as that, and no longer as it was `before`.
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

    /// Whether any may conflict with an open and was not asked back for it yet.
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
/// How many inodes have any: without them, an open looks no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many are looked at under one hold of the lock.
const FEW: usize = 64;

fn key(inode: &Arc<dyn Inode>) -> usize {
    Arc::as_ptr(inode).addr()
}

/// Takes out the lease of the open file at `address` of `inode`, if `is_it`.
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

/// The lease that an open file holds, or is about to have: F_RDLCK, F_WRLCK or F_UNLCK.
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

/// Takes a lease of the file that descriptor `fd` is of, changes it, or gives it back.
///
/// # Errors
/// EACCES (another's file), EINVAL (no regular file), EAGAIN (somebody else has it open so),
/// ENOMEM.
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
    check_room()?;
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
    // Again, with the lock: an open from here on finds a lease that is there already, as it is
    // then.
    check_alone(file, kind)?;
    leases.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
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
    // An opener may have found meanwhile that there are none at all, and not have asked for the
    // lock.
    check_alone(file, kind).inspect_err(|_| _ = remove(file))
}

/// Ends the lease that an open file holds, if it does.
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

/// EAGAIN where somebody else has the file open so that there is no lease of this kind; EINVAL
/// where nobody counts that.
fn check_alone(file: &File, kind: u32) -> Result<()> {
    let claim = file.flags().claim().ok_or(Errno::EBADF)?;
    let others = file.dentry().inode().writers().ok_or(Errno::EINVAL)?;
    let free = match kind {
        F_RDLCK => !others.is_written(),
        _ => others.is_alone(claim),
    };
    if free { Ok(()) } else { Err(Errno::EAGAIN) }
}

/// The inode of `dentry` is opened (to be written, if `write`), and claimed so: asks its leases
/// back and waits until they are.
///
/// # Errors
/// EAGAIN: it shall not wait; ERESTARTSYS.
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
        // All are asked before the first is waited for.
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
/// `Some(None)` where it looked at many first. Leases before `from` were seen already. Returns
/// `None` once all have been asked: a lease that came meanwhile is found by the next pass.
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
    /// That of its open file.
    address: usize,
    /// Reports its end.
    changed: Arc<WaitSource>,
    /// Until when an open waits for it; it came after the others were asked if `None`.
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

/// Does to a lease what its holder was asked to do and did not do in time.
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
