//! Leases (F_SETLEASE): who holds one is told before somebody else opens the file, who waits for its answer.

use super::entry::Entry;
use super::file::File;
use super::inode::{Inode, Kind};
use super::poll::WaitSource;
use super::sigio;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::task::clock::{SECOND, deadline_in};
use crate::task::{current, tree};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use linux_raw_sys::general::{CAP_LEASE, F_RDLCK, F_UNLCK, F_WRLCK};

/// How long who opens a file waits for the holder of a lease (`/proc/sys/fs/lease-break-time`), in seconds.
pub static BREAK_TIME: AtomicU64 = AtomicU64::new(45);

/// A lease.
struct Lease {
    file: Weak<File>,
    /// The open file, to compare.
    address: usize,
    inode: Arc<dyn Inode>,
    /// F_RDLCK or F_WRLCK.
    kind: u32,
    /// What it is asked to become, F_RDLCK or F_UNLCK, and until when (in ticks).
    breaking: Option<(u32, u64)>,
    changed: Arc<WaitSource>,
}

static LEASES: Mutex<Vec<Lease>> = Mutex::new(Vec::new());
/// How many there are: without any, an open looks no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn address(file: &File) -> usize {
    core::ptr::from_ref(file).addr()
}

/// The lease that an open file holds, or is about to have: F_RDLCK, F_WRLCK or F_UNLCK.
pub fn get(file: &File) -> u32 {
    let leases = LEASES.lock();
    let held = leases.iter().find(|lease| lease.address == address(file));
    held.map_or(F_UNLCK, |lease| {
        lease.breaking.map_or(lease.kind, |(kind, _)| kind)
    })
}

/// Takes a lease of the file that descriptor `fd` is of, changes it, or gives it back.
///
/// # Errors
/// EACCES (another's file), EINVAL (no regular file), EAGAIN (somebody else has it open so), ENOMEM.
pub fn set(file: &Arc<File>, fd: i32, kind: u32) -> Result<()> {
    let inode = file.entry().inode();
    let owner = inode.attr().uid;
    if !current().with_credentials(|who| who.fsuid == owner || who.can(CAP_LEASE)) {
        return Err(Errno::EACCES);
    }
    if file.entry().kind() != Kind::Regular {
        return Err(Errno::EINVAL);
    }
    match kind {
        F_UNLCK => {
            return if give_back(file) {
                Ok(())
            } else {
                Err(Errno::EAGAIN)
            };
        }
        F_RDLCK if file.flags().writable() || opened_elsewhere(file, true)? => {
            return Err(Errno::EAGAIN);
        }
        F_WRLCK if opened_elsewhere(file, false)? => return Err(Errno::EAGAIN),
        F_RDLCK | F_WRLCK => {}
        _ => return Err(Errno::EINVAL),
    }
    sigio::own(file, fd)?;
    let changed = WaitSource::new()?;
    let mut leases = LEASES.lock();
    if let Some(held) = leases
        .iter_mut()
        .find(|lease| lease.address == address(file))
    {
        held.kind = kind;
        held.breaking = None;
        let changed = held.changed.clone();
        drop(leases);
        changed.notify();
        return Ok(());
    }
    let asked_back = |lease: &Lease| Arc::ptr_eq(&lease.inode, inode) && lease.breaking.is_some();
    if leases.iter().any(asked_back) {
        return Err(Errno::EAGAIN);
    }
    leases.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    leases.push(Lease {
        file: Arc::downgrade(file),
        address: address(file),
        inode: inode.clone(),
        kind,
        breaking: None,
        changed,
    });
    COUNT.store(leases.len(), Release);
    Ok(())
}

/// Ends the lease that an open file holds, if it does.
pub fn give_back(file: &File) -> bool {
    if COUNT.load(Acquire) == 0 {
        return false;
    }
    let mut leases = LEASES.lock();
    let at = leases
        .iter()
        .position(|lease| lease.address == address(file));
    let gone = at.map(|at| leases.swap_remove(at));
    COUNT.store(leases.len(), Release);
    drop(leases);
    if let Some(gone) = &gone {
        gone.changed.notify();
    }
    gone.is_some()
}

/// Whether another open file is of the same inode; `writable`: and can be written.
fn opened_elsewhere(file: &Arc<File>, writable: bool) -> Result<bool> {
    let inode = file.entry().inode();
    let mut found = false;
    tree::for_each(
        |_| true,
        |process| {
            let files = process
                .find_thread(|_| true)
                .and_then(|thread| thread.try_files());
            found |= files.is_some_and(|files| {
                files.any(|other| {
                    Arc::ptr_eq(other.entry().inode(), inode)
                        && !Arc::ptr_eq(other, file)
                        && (!writable || other.flags().writable())
                })
            });
        },
    )?;
    Ok(found)
}

/// Before the inode of `entry` is opened (to be written, if `write`): asks its leases back and waits until they are.
///
/// # Errors
/// EAGAIN: it shall not wait; ERESTARTSYS.
#[inline]
pub fn ask_back(entry: &Entry, write: bool, waits: bool) -> Result<()> {
    if COUNT.load(Acquire) == 0 {
        return Ok(());
    }
    wait_for_leases(entry, write, waits)
}

#[cold]
fn wait_for_leases(entry: &Entry, write: bool, waits: bool) -> Result<()> {
    let inode = entry.inode();
    while let Some((holder, changed, deadline)) = demand(inode, write) {
        if let Some(holder) = holder {
            sigio::tell_message(&holder);
        }
        if !waits {
            return Err(Errno::EAGAIN);
        }
        let answered = || !is_asked(inode, &changed);
        if !changed.wait_until(answered, Some(deadline))? {
            let gone = take(&changed);
            drop(gone);
        }
    }
    Ok(())
}

/// A lease that stands against the open, of which its holder was not told yet (or was), where its end is told, and until
/// when that is waited for.
type Demand = (Option<Arc<File>>, Arc<WaitSource>, u64);

fn demand(inode: &Arc<dyn Inode>, write: bool) -> Option<Demand> {
    let wanted = if write { F_UNLCK } else { F_RDLCK };
    let mut leases = LEASES.lock();
    let lease = leases
        .iter_mut()
        .find(|lease| Arc::ptr_eq(&lease.inode, inode) && (write || lease.kind == F_WRLCK))?;
    let told = lease.breaking.is_some();
    let until = lease.breaking.map_or_else(
        || deadline_in(BREAK_TIME.load(Relaxed).saturating_mul(SECOND)),
        |(_, until)| until,
    );
    lease.breaking = Some((wanted, until));
    let holder = if told { None } else { lease.file.upgrade() };
    Some((holder, lease.changed.clone(), until))
}

fn is_asked(inode: &Arc<dyn Inode>, changed: &Arc<WaitSource>) -> bool {
    let leases = LEASES.lock();
    leases.iter().any(|lease| {
        Arc::ptr_eq(&lease.inode, inode)
            && Arc::ptr_eq(&lease.changed, changed)
            && lease.breaking.is_some()
    })
}

fn take(changed: &Arc<WaitSource>) -> Option<Lease> {
    let mut leases = LEASES.lock();
    let at = leases
        .iter()
        .position(|lease| Arc::ptr_eq(&lease.changed, changed))?;
    let gone = leases.swap_remove(at);
    COUNT.store(leases.len(), Release);
    Some(gone)
}
