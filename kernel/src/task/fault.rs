//! Page faults: what happens to a program whose access could not be resolved.

use linux_raw_sys::general::{BUS_ADRERR, SEGV_ACCERR, SEGV_MAPERR, SIGBUS, SIGKILL, SIGSEGV};

use super::{current, oom, sched};
use crate::arch::{PAGE_SIZE, cpu};
use crate::errno::{Errno, Result};
use crate::mm::fault::{Access, Failure, Signal};
use crate::mm::vma::{Flags, Vma};
use crate::mm::{AddressSpace, active};
use core::ops::Range;
use crossings::Kind;

/// Resolves a fault of the current program on `address` in the user half, caused by an `access` of
/// the program or of the kernel on its behalf; otherwise returns the signal for the program.
#[inline]
pub fn handle_user_fault(address: usize, access: Access) -> core::result::Result<(), Signal> {
    match active::fault(address, access) {
        Some(Ok(())) => {
            current().count_fault();
            Ok(())
        }
        failed => handle_failure(failed, address, access),
    }
}

/// Handles a fault that was not resolved at once. It is a function of its own, so that faults that
/// are resolved need no stack for it.
#[cold]
#[inline(never)]
fn handle_failure(
    mut done: Option<core::result::Result<(), Failure>>,
    address: usize,
    access: Access,
) -> core::result::Result<(), Signal> {
    let (signo, code) = loop {
        if let Some(Err(failure @ (Failure::Absent | Failure::Denied))) = done {
            done = Some(page_in(address, access, failure));
        }
        match done.unwrap_or(Err(Failure::Unmapped)) {
            Ok(()) => {
                current().count_fault();
                return Ok(());
            }
            Err(Failure::Unmapped) => break (SIGSEGV, SEGV_MAPERR),
            Err(Failure::Denied) => break (SIGSEGV, SEGV_ACCERR),
            Err(Failure::BeyondEnd | Failure::Absent) => break (SIGBUS, BUS_ADRERR),
            Err(Failure::Paused) if wait_for_access(address, access) => {}
            // The thread dies before it retries.
            Err(Failure::Paused) => break (SIGKILL, 0),
            Err(Failure::NoMemory) if oom::make_room() => {}
            // The thread retries as long as it lives, as on Linux.
            Err(Failure::NoMemory) if may_be_lost(address) => {
                sched::cond_resched();
                return Ok(());
            }
            Err(Failure::NoMemory) => break (SIGKILL, 0),
        }
        done = active::fault(address, access);
    };
    cpu::this().crossings().add(Kind::FaultRefused);
    Err(Signal { signo, code })
}

/// Resolves a fault of the current program that needs data from a file; otherwise fails as
/// `before`.
fn page_in(address: usize, access: Access, before: Failure) -> core::result::Result<(), Failure> {
    if before == Failure::Denied && access != Access::Write {
        return Err(before);
    }
    let space = current().space().ok_or(before)?;
    space.fault_paged(address, access)
}

/// Waits until a fork or a move lets the current program use its memory there; false if the current
/// thread must die.
fn wait_for_access(address: usize, access: Access) -> bool {
    let space = current().space();
    space.is_some_and(|space| space.wait_for_access(address, access).is_ok())
}

/// Whether the current program's memory there is droppable (MAP_DROPPABLE).
fn may_be_lost(address: usize) -> bool {
    let droppable = |vma: &Vma| vma.flags.contains(Flags::DROPPABLE);
    let space = current().space().filter(|_| !current().must_die());
    space.and_then(|space| space.with_vma(address, droppable)) == Some(true)
}

/// Makes the pages of a range present for an access, or as mlock(2) does. May sleep.
///
/// # Errors
/// ENOMEM, EFAULT; EINTR if the current thread is to die.
pub fn populate(
    space: &AddressSpace,
    mut range: Range<usize>,
    access: Option<Access>,
) -> Result<()> {
    while !range.is_empty() {
        let pages = populate_first(space, &range, access)?;
        (0..pages).for_each(|_| current().count_fault());
        range.start += pages * PAGE_SIZE;
        sched::cond_resched_killable()?;
    }
    Ok(())
}

/// Makes the first page of a range present, and others with it; returns their number.
fn populate_first(
    space: &AddressSpace,
    range: &Range<usize>,
    access: Option<Access>,
) -> Result<usize> {
    loop {
        match space.populate_first(range, access)? {
            Ok(pages) => return Ok(pages),
            Err(Failure::NoMemory) if !oom::make_room() => return Err(Errno::ENOMEM),
            Err(Failure::Absent | Failure::Denied) => {
                let access = access.unwrap_or(Access::Read);
                match space.fault_paged(range.start, access) {
                    Ok(()) => return Ok(1),
                    Err(Failure::NoMemory) if oom::make_room() => {}
                    Err(Failure::Paused) => {}
                    Err(failure) => return Err(failure.errno()),
                }
            }
            Err(_) => {}
        }
    }
}
