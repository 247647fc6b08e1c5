//! The system-call table of watched threads: each entry lets the watchers see the call before it is
//! executed, and its result.

use super::{HANDLERS, trace};
use crate::arch::{Call, SyscallTable};
use crate::task::{current, ptrace, seccomp};
use machine::full_frame_stub;

/// The table that the entry path uses for a watched thread.
pub static WATCHED: SyscallTable = [full_frame_stub!(watched); _];

extern "C" fn watched(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    let thread = current();
    thread.arch.drop_vectors();
    thread.arch.with_frame(|frame| frame.begin_watched());
    ptrace::enter_call();
    let refused = seccomp::run_filters();
    // Tracers may have changed the call, or cancelled it.
    let call = thread.arch.with_frame(|frame| frame.call());
    let result = if let Some(refused) = refused {
        refused
    } else if call.number == -1 || thread.must_die() {
        thread.arch.with_frame(|frame| frame.result())
    } else if thread.process().is_traced() {
        trace::show(&call)
    } else {
        invoke(&call)
    };
    thread.arch.with_frame(|frame| frame.set_result(result));
    ptrace::leave_call();
    thread.arch.with_frame(|frame| frame.result())
}

/// Executes the call.
pub(super) fn invoke(call: &Call) -> isize {
    let [a, b, c, d, e, f] = call.arguments;
    HANDLERS[call.place](a, b, c, d, e, f)
}
