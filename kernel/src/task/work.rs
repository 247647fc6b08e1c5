//! Work that a thread does before its program continues.

use core::sync::atomic::Ordering::Relaxed;

use super::{current, itimer, oom, rseq, sched, signal};
use crate::arch::work::{CPU_TIMERS, MEMORY, NEED_RESCHED, RSEQ, SIGNAL, TRACE};
#[cfg(guests)]
use crate::errno::{Errno, Result};

/// Does the work requested in the thread's work word. Called on return to the program, until the
/// word is 0.
pub fn exit_work() {
    let work = current().arch.work.load(Relaxed);
    if work & NEED_RESCHED != 0 {
        // Other work, and work that arrives meanwhile, is handled on the next pass.
        sched::schedule();
    } else {
        other_work(work);
    }
}

/// All work except rescheduling. It is a separate function, so that a mere switch does not need its
/// stack.
#[inline(never)]
fn other_work(work: u32) {
    if work & MEMORY != 0 {
        return oom::wait_for_memory();
    }
    if work & CPU_TIMERS != 0 {
        itimer::resume();
    }
    if work & SIGNAL != 0 {
        signal::deliver();
    }
    if work & TRACE != 0 {
        current().enter_debug();
    }
    // Done last, since the thread may have moved to another CPU meanwhile.
    if current().arch.work.load(Relaxed) & RSEQ != 0 {
        rseq::resume();
    }
}

/// Does such work for a thread that is about to enter a guest, since it must not wait until the
/// program continues (Linux's xfer_to_guest_mode_handle_work).
///
/// # Errors
/// EINTR: a signal is due.
#[cfg(guests)]
pub fn guest_work() -> Result<()> {
    loop {
        sched::cond_resched();
        let work = current().arch.work.load(Relaxed);
        if work & SIGNAL != 0 {
            return Err(Errno::EINTR);
        } else if work & MEMORY != 0 {
            oom::wait_in_guest();
        } else if work & CPU_TIMERS != 0 {
            itimer::resume();
        } else if work & RSEQ != 0 {
            rseq::store_cpu();
        } else {
            return Ok(());
        }
    }
}

#[cfg(all(feature = "selftest", guests))]
crate::selftest! {
    fn a_guest_is_entered_without_work() {
        let thread = current();
        thread.arch.work.fetch_or(NEED_RESCHED | MEMORY | RSEQ, Relaxed);
        assert_eq!(guest_work(), Ok(()));
        assert_eq!(thread.arch.work.load(Relaxed), 0);
        thread.arch.work.fetch_or(SIGNAL, Relaxed);
        assert_eq!(guest_work(), Err(Errno::EINTR));
        thread.arch.work.fetch_and(!SIGNAL, Relaxed);
    }
}
