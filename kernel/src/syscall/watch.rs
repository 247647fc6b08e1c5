//! The table of watched threads: every entry lets whoever watches see the call before it is made, and what came of it.

use super::{HANDLERS, trace};
use crate::arch::SyscallTable;
use crate::errno::Errno;
use crate::full_frame_stub;
use crate::task::{current, ptrace, seccomp};

/// What the entry path calls for a watched thread.
pub static WATCHED: SyscallTable = [full_frame_stub!(watched); _];

extern "C" fn watched(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    let thread = current();
    ptrace::enter_call();
    // A tracer may have changed the call, or taken it away.
    let (number, registers) = thread.arch.with_frame(|frame| frame.call());
    let result = if let Some(refused) = seccomp::judge(number, registers) {
        refused
    } else if thread.process().is_traced() && number < HANDLERS.len() {
        trace::show(number, registers)
    } else {
        invoke(number, registers)
    };
    thread.arch.with_frame(|frame| frame.set_result(result));
    ptrace::leave_call();
    thread.arch.with_frame(|frame| frame.result())
}

/// Makes the call.
pub(super) fn invoke(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    match HANDLERS.get(number) {
        Some(handler) => handler(a, b, c, d, e, f),
        None => Errno::ENOSYS.result(),
    }
}
