//! What a thread has to do before its program goes on.

use core::sync::atomic::Ordering::Relaxed;

use super::{current, sched, signal};
use crate::arch::{
    Frame,
    work::{NEED_RESCHED, SIGNAL},
};

/// Does what the thread's work word asks for. Called on the way back to the program, until the word is 0.
pub fn exit_work(frame: &mut Frame) {
    let work = current().arch.work.load(Relaxed);
    if work & NEED_RESCHED != 0 {
        sched::schedule();
    }
    if work & SIGNAL != 0 {
        signal::deliver(frame);
    }
}
