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

/// The size of the original `struct rseq`, and its alignment.
const FIRST: usize = 32;
/// Bytes of `struct rseq` that the kernel writes: AT_RSEQ_FEATURE_SIZE.
pub const SIZE: usize = 28;
/// Alignment of `struct rseq`: AT_RSEQ_ALIGN.
pub const ALIGN: usize = 32;
/// The offset of the address of the thread's critical section in `struct rseq`.
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

/// `struct rseq_cs`: code that must run on one CPU without interruption.
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
    /// Whether an area is registered.
    #[inline(always)]
    pub fn is_registered(&self) -> bool {
        self.address.load(Relaxed) != 0
    }

    /// Its address, size and signature.
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

    /// Unregisters the area without access to it: its memory is being left.
    pub fn clear(&self) {
        self.set(0, 0, 0);
    }
}

impl Thread {
    /// Makes the thread check its area: it left its CPU, or its program was interrupted.
    #[inline(always)]
    pub fn disturb_rseq(&self) {
        if self.rseq.is_registered() {
            self.arch.work.fetch_or(work::RSEQ, Relaxed);
        }
    }

    /// Copies the registration to a child with its own memory.
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

/// Unregisters the area.
///
/// # Errors
/// EINVAL (it is a different area), EPERM (with another signature), EFAULT.
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

/// Writes the CPU's number as `cpu_id_start`, as `cpu_id` and as the concurrency ID (`mm_cid`), and
/// 0 as the node.
fn write_ids(address: usize, start: u32, id: u32) -> Result<()> {
    UserPtr::new(address).write(&[start, id])?;
    UserPtr::new(address + 20).write(&[0, start])
}

/// Stores the CPU for the program, and aborts the critical section that was disturbed.
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

/// Aborts the critical section before the handler of signal `number` runs.
pub fn interrupt(number: u32) {
    if current().rseq.is_registered() {
        store_cpu_after(restart, number);
    }
}

/// If the program is in a critical section, makes it continue at the section's abort handler.
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
    // The word before the abort handler must be the signature.
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
