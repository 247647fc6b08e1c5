//! Leases (F_SETLEASE): an open that conflicts notifies the holder and waits for it to release the
//! lease.

use super::dentry::Dentry;
use super::file::File;
use super::inode::{Inode, Kind};
use super::poll::WaitSource;
use super::sigio;
use crate::arch::time::now_ticks;
use crate::errno::{Errno, Result};
use crate::hash::Lists;
use crate::sync::Mutex;
use crate::task::clock::{SECOND, deadline_in};
use crate::task::{current, sched};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use linux_raw_sys::general::{CAP_LEASE, F_RDLCK, F_UNLCK, F_WRLCK};

/// How long an open waits for the holder of a lease (`/proc/sys/fs/lease-break-time`), in
/// seconds; 0: for ever.
pub static BREAK_TIME: AtomicU64 = AtomicU64::new(45);

/// A lease.
struct Lease {
    file: Weak<File>,
    /// The open file, to compare.
    address: usize,
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

    /// Begins a break for an open; false where its holder was notified before.
    fn begin_break(&mut self, write: bool) -> bool {
        if self.unlock.is_some() || !write && self.downgrade.is_some() {
            return false;
        }
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
        true
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

/// Leases by the address of their inode.
static LEASES: Mutex<Lists<usize, Lease>> = Mutex::new(Lists::new());
/// How many inodes have any: without them, an open looks no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn key(inode: &Arc<dyn Inode>) -> usize {
    Arc::as_ptr(inode).addr()
}

/// Takes out the lease of `inode` for which `is_it`.
fn take(inode: &Arc<dyn Inode>, is_it: impl Fn(&Lease) -> bool) -> Option<Lease> {
    let mut leases = LEASES.lock();
    let gone = leases.take(&key(inode), is_it);
    COUNT.store(leases.len(), Release);
    gone
}

/// The lease that an open file holds, or is about to have: F_RDLCK, F_WRLCK or F_UNLCK.
pub fn get(file: &File) -> u32 {
    let leases = LEASES.lock();
    let mut of_inode = leases.of(&key(file.dentry().inode())).iter();
    let held = of_inode.find(|lease| lease.address == file.address());
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
    sigio::own(file, fd)?;
    let changed = WaitSource::new()?;
    let mut leases = LEASES.lock();
    // Again, with the lock: an open from here on finds a lease that is there already, as it is
    // then.
    check_alone(file, kind)?;
    let of_inode = leases.of_mut(&key(inode));
    let own = |lease: &&mut Lease| lease.address == file.address();
    if let Some(held) = of_inode.iter_mut().find(own) {
        held.change(kind);
        let changed = held.changed.clone();
        drop(leases);
        changed.notify();
        return Ok(());
    }
    if of_inode.iter().any(|lease| lease.unlock.is_some()) {
        return Err(Errno::EAGAIN);
    }
    let lease = Lease {
        file: Arc::downgrade(file),
        address: file.address(),
        _inode: inode.clone(),
        kind,
        downgrade: None,
        unlock: None,
        changed,
    };
    leases.push(key(inode), lease)?;
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
    let gone = take(file.dentry().inode(), |lease| {
        lease.address == file.address()
    });
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
            if let Some(holder) = holder.upgrade() {
                sigio::notify_message(&holder);
            }
            sched::cond_resched_killable()?;
        }
        let Some((changed, deadline)) = find_conflict(inode, write) else {
            return Ok(());
        };
        if !waits {
            return Err(Errno::EAGAIN);
        }
        let answered = || !still_conflicts(inode, &changed, write);
        let deadline = (deadline != u64::MAX).then_some(deadline);
        if !changed.wait_until(answered, deadline)? {
            time_out(inode, &changed);
        }
    }
}

/// Breaks the next lease that conflicts with the open, and returns its holder, to be notified.
/// Leases before `from` were seen already. Returns `None` once all have been asked: a second pass
/// finds a lease that took the place of one that went meanwhile.
fn break_next(inode: &Arc<dyn Inode>, write: bool, from: &mut usize) -> Option<Weak<File>> {
    let mut leases = LEASES.lock();
    let of_inode = leases.of_mut(&key(inode));
    let count = of_inode.len();
    let first = (*from).min(count);
    let asks = |lease: &mut Lease| lease.conflicts_with_open(write) && lease.begin_break(write);
    let mut passes = (first..count).chain(0..first);
    let at = passes.find(|&at| asks(&mut of_inode[at]))?;
    *from = at + 1;
    Some(of_inode[at].file.clone())
}

/// A lease that conflicts with the open: the source that reports its end, and the deadline.
fn find_conflict(inode: &Arc<dyn Inode>, write: bool) -> Option<(Arc<WaitSource>, u64)> {
    let leases = LEASES.lock();
    let mut of_inode = leases.of(&key(inode)).iter();
    let lease = of_inode.find(|lease| lease.conflicts_with_open(write))?;
    Some((lease.changed.clone(), lease.until()))
}

fn still_conflicts(inode: &Arc<dyn Inode>, changed: &Arc<WaitSource>, write: bool) -> bool {
    let leases = LEASES.lock();
    let mut of_inode = leases.of(&key(inode)).iter();
    of_inode.any(|lease| Arc::ptr_eq(&lease.changed, changed) && lease.conflicts_with_open(write))
}

/// Does to a lease what its holder was asked to do and did not do in time.
fn time_out(inode: &Arc<dyn Inode>, changed: &Arc<WaitSource>) {
    let now = now_ticks();
    let past = |time: Option<u64>| time.is_some_and(|time| time <= now);
    let is_it = |lease: &Lease| Arc::ptr_eq(&lease.changed, changed);
    if let Some(lease) = (LEASES.lock().of_mut(&key(inode)).iter_mut())
        .find(|lease| is_it(lease) && past(lease.downgrade))
    {
        lease.change(F_RDLCK);
    }
    let gone = take(inode, |lease| is_it(lease) && past(lease.unlock));
    drop(gone);
    changed.notify();
}
