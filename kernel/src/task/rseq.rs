//! Restartable sequences: a program reads the number of its CPU from its own memory, and code that
//! must run on one CPU restarts if it was moved or interrupted (`include/uapi/linux/rseq.h`).
//!
//! A thread that leaves its CPU, or takes a signal, checks its area before its program continues.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Thread, current, signal};
use crate::arch::{cpu, user_end, work};
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, access_ok};

/// Bytes of the first `struct rseq` that there was, and its alignment.
const FIRST: usize = 32;
/// Bytes of `struct rseq` that the kernel writes: AT_RSEQ_FEATURE_SIZE.
pub const SIZE: usize = 28;
/// Alignment of `struct rseq`: AT_RSEQ_ALIGN.
pub const ALIGN: usize = 32;
/// Where `struct rseq` holds the address of the critical section that the thread is in.
const SECTION: usize = 8;
/// `cpu_id` of an area that is not registered.
const UNINITIALIZED: u32 = u32::MAX;

/// A thread's area.
#[derive(Default)]
pub struct Area {
    /// Its address; 0 for none.
    address: AtomicUsize,
    len: AtomicUsize,
    signature: AtomicU32,
}

/// `struct rseq_cs`: code that must run on one CPU without a break.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Section {
    version: u32,
    flags: u32,
    start: u64,
    len: u64,
    abort: u64,
}

impl Area {
    /// Whether there is one.
    #[inline(always)]
    pub fn is_registered(&self) -> bool {
        self.address.load(Relaxed) != 0
    }

    /// Its address, how long it is, and its signature.
    pub fn registration(&self) -> [usize; 3] {
        let signature = self.signature.load(Relaxed) as usize;
        [
            self.address.load(Relaxed),
            self.len.load(Relaxed),
            signature,
        ]
    }

    fn set(&self, address: usize, len: usize, signature: u32) {
        self.len.store(len, Relaxed);
        self.signature.store(signature, Relaxed);
        self.address.store(address, Relaxed);
    }

    /// Forgets it: the memory is given up.
    pub fn clear(&self) {
        self.set(0, 0, 0);
    }
}

impl Thread {
    /// The thread left its CPU, or its program was interrupted: it looks at its area.
    #[inline(always)]
    pub fn disturb_rseq(&self) {
        if self.rseq.is_registered() {
            self.arch.work.fetch_or(work::RSEQ, Relaxed);
        }
    }

    /// A child in memory of its own has the same area.
    pub(super) fn copy_rseq(&self, from: &Thread) {
        let Area {
            address,
            len,
            signature,
        } = &from.rseq;
        self.rseq.set(
            address.load(Relaxed),
            len.load(Relaxed),
            signature.load(Relaxed),
        );
        self.disturb_rseq();
    }
}

/// Makes `len` bytes at `address` the current thread's area.
///
/// # Errors
/// EINVAL, EFAULT, EBUSY (there is one already), EPERM (with another signature).
pub fn register(address: usize, len: usize, signature: u32) -> Result<()> {
    let area = &current().rseq;
    if area.is_registered() {
        check_same(area, address, len, signature)?;
        return Err(Errno::EBUSY);
    }
    if len < FIRST || !address.is_multiple_of(ALIGN) {
        return Err(Errno::EINVAL);
    }
    if address == 0 || !access_ok(address, len) {
        return Err(Errno::EFAULT);
    }
    area.set(address, len, signature);
    current().disturb_rseq();
    Ok(())
}

/// Takes the area back.
///
/// # Errors
/// EINVAL (it is another), EPERM (with another signature), EFAULT.
pub fn unregister(address: usize, len: usize, signature: u32) -> Result<()> {
    let area = &current().rseq;
    if !area.is_registered() {
        return Err(Errno::EINVAL);
    }
    check_same(area, address, len, signature)?;
    write_ids(address, 0, UNINITIALIZED)?;
    area.clear();
    Ok(())
}

fn check_same(area: &Area, address: usize, len: usize, signature: u32) -> Result<()> {
    if area.address.load(Relaxed) != address || area.len.load(Relaxed) != len {
        Err(Errno::EINVAL)
    } else if area.signature.load(Relaxed) != signature {
        Err(Errno::EPERM)
    } else {
        Ok(())
    }
}

/// Writes the CPU's number as `cpu_id_start` and as `cpu_id`; node 0, and as the number among the
/// threads that run at once (`mm_cid`) the CPU's again.
fn write_ids(address: usize, start: u32, id: u32) -> Result<()> {
    UserPtr::new(address).write(&[start, id])?;
    UserPtr::new(address + 20).write(&[0, start])
}

/// Stores the CPU for the program, and ends the critical section that it was disturbed in.
pub fn resume() {
    store_cpu_after(restart, 0);
}

/// Stores the CPU for the program, while the thread is in a system call.
#[cfg(guests)]
pub fn store_cpu() {
    store_cpu_after(|_| Ok(()), 0);
}

fn store_cpu_after(first: impl FnOnce(&Area) -> Result<()>, delivered: u32) {
    let thread = current();
    thread.arch.work.fetch_and(!work::RSEQ, Relaxed);
    let address = thread.rseq.address.load(Relaxed);
    let cpu = cpu::this().index() as u32;
    if address != 0
        && first(&thread.rseq)
            .and_then(|()| write_ids(address, cpu, cpu))
            .is_err()
    {
        signal::force_sigsegv(delivered);
    }
}

/// The handler of signal `number` is about to run: the critical section ends before.
pub fn interrupt(number: u32) {
    if current().rseq.is_registered() {
        store_cpu_after(restart, number);
    }
}

/// If the program is in a critical section, it goes on where that says for the case that it was
/// disturbed.
fn restart(area: &Area) -> Result<()> {
    let slot = UserPtr::<usize>::new(area.address.load(Relaxed) + SECTION);
    let at = slot.read()?;
    if at == 0 {
        return Ok(());
    }
    let section = UserPtr::<Section>::new(at).read()?;
    let [start, len, abort] = [section.start, section.len, section.abort].map(|word| word as usize);
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    let inside = |pc: usize| pc.wrapping_sub(start) < len;
    if section.version != 0
        || section.flags != 0
        || [start, end, abort].iter().any(|&pc| pc >= user_end())
        || inside(abort)
    {
        return Err(Errno::EINVAL);
    }
    // The word before the way out says that it is one.
    let before = UserPtr::<u32>::new(abort.wrapping_sub(4)).read()?;
    if before != area.signature.load(Relaxed) {
        return Err(Errno::EINVAL);
    }
    slot.write(&0)?;
    current().arch.with_frame(|frame| {
        if inside(frame.pc()) {
            frame.set_pc(abort);
        }
    });
    Ok(())
}
