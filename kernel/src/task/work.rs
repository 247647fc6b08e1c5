//! What a thread has to do before its program goes on.

use core::sync::atomic::Ordering::Relaxed;

use super::{current, oom, rseq, sched, signal};
use crate::arch::{
    Frame,
    work::{MEMORY, NEED_RESCHED, RSEQ, SIGNAL, TRACE},
};

/// Does what the thread's work word asks for. Called on the way back to the program, until the word is 0.
pub fn exit_work(frame: &mut Frame) {
    let work = current().arch.work.load(Relaxed);
    if work & NEED_RESCHED != 0 {
        // What else there is, and what came meanwhile, is asked for next.
        return sched::schedule();
    }
    if work & MEMORY != 0 {
        return oom::repay(frame);
    }
    if work & SIGNAL != 0 {
        signal::deliver(frame);
    }
    if work & TRACE != 0 {
        current().enter_debug();
    }
    // Last: the thread may have come to another CPU meanwhile.
    if current().arch.work.load(Relaxed) & RSEQ != 0 {
        rseq::resume(frame);
    }
}
