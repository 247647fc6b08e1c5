//! System calls on children and on resource usage.

use linux_raw_sys::general::*;

use super::layout::{Layout, given};
use super::path::check_flags;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::clock;
use crate::task::pidfd;
use crate::task::rusage::{Times, Usage, user_hz};
use crate::task::wait_child::{self, Found, Which};
use crate::task::{current, process::Process, signal::Info};

/// `struct rusage` (include/uapi/linux/resource.h), as words: user and system times, the largest
/// size in KiB, three unused, minor and major page faults, six unused, the numbers of sleeps and of
/// preemptions.
fn resource_usage(usage: Usage, times: Times) -> [usize; 18] {
    let mut words = [0; 18];
    for (kind, ticks) in [times.user, times.system].into_iter().enumerate() {
        let ns = time::ticks_to_ns(ticks);
        words[2 * kind] = (ns / clock::SECOND) as usize;
        words[2 * kind + 1] = (ns % clock::SECOND / 1000) as usize;
    }
    words[4] = usage.peak * (PAGE_SIZE / 1024);
    words[8] = usage.faults as usize;
    words[16] = usage.sleeps as usize;
    words[17] = usage.preemptions as usize;
    words
}

/// All options of waitid(2); wait4(2) always includes WEXITED.
const OPTIONS: u32 = abi::options::WAIT.mask() as u32;

/// wait4(2)
pub fn wait4<L: Layout>(pid: i32, status: usize, options: u32, usage: usize) -> Result<usize> {
    check_flags(options, OPTIONS & !(WEXITED | WNOWAIT))?;
    let which = match pid {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => Which::Any,
        0 => Which::Group(current().group()),
        group if group < 0 => Which::Group(-group),
        pid => Which::Process(pid),
    };
    let Some(found) = wait_child::wait(&which, options | WEXITED)? else {
        return Ok(0);
    };
    UserPtr::new(status).write_opt(&found.status)?;
    given(usage, |to| {
        L::put_words(to, &resource_usage(found.usage, found.usage.times()))
    })?;
    Ok(found.pid as usize)
}

/// waitid(2)
pub fn waitid<L: Layout>(
    kind: u32,
    id: i32,
    info: usize,
    options: u32,
    usage: usize,
) -> Result<usize> {
    let found = find(kind, id, options);
    // As on Linux, the result is written even after an error; then it is empty.
    let mut shown = Info::child(0, 0, 0, 0, 0, (0, 0));
    if let Ok(Some(found)) = found {
        given(usage, |to| {
            L::put_words(to, &resource_usage(found.usage, found.usage.times()))
        })?;
        let (code, status) = found.event;
        shown = Info::child(SIGCHLD, code, found.pid, found.uid, status, (0, 0));
    }
    if info != 0 {
        // Only `si_signo` to `si_status` are written.
        let len = L::INFO_DATA + 3 * size_of::<i32>();
        UserSlice::new(info, len).copy_out(&L::info_bytes(&shown)[..len])?;
    }
    found.map(|_| 0)
}

/// Waits for a child as waitid(2) does; `None` with WNOHANG.
fn find(kind: u32, id: i32, options: u32) -> Result<Option<Found>> {
    let states = WEXITED | WSTOPPED | WCONTINUED;
    check_flags(options, OPTIONS)?;
    if options & states == 0 {
        return Err(Errno::EINVAL);
    }
    let mut nonblocking = false;
    let which = match kind {
        P_ALL => Which::Any,
        P_PID if id > 0 => Which::Process(id),
        P_PIDFD if id >= 0 => {
            let (of, flags) = pidfd::of(id)?;
            // For a non-blocking descriptor, the error differs from that of WNOHANG.
            nonblocking = flags.nonblocking();
            Which::Descriptor(of)
        }
        P_PGID if id >= 0 => Which::Group(if id == 0 { current().group() } else { id }),
        _ => return Err(Errno::EINVAL),
    };
    match wait_child::wait(&which, options | if nonblocking { WNOHANG } else { 0 }) {
        Ok(None) if nonblocking && options & WNOHANG == 0 => Err(Errno::EAGAIN),
        found => found,
    }
}

/// getrusage(2)
pub fn getrusage<L: Layout>(who: i32, to: usize) -> Result<usize> {
    let thread = current();
    let process = thread.process();
    let (mut usage, times) = match who {
        RUSAGE_SELF => (process.usage(), process.times()),
        RUSAGE_CHILDREN => (process.children_usage(), process.children_times()),
        RUSAGE_THREAD => (Usage::of(&thread), thread.times()),
        _ => return Err(Errno::EINVAL),
    };
    if who != RUSAGE_CHILDREN {
        let now = thread.space().map_or(0, |space| space.size().peak);
        usage.peak = process.usage().peak.max(now);
    }
    L::put_words(to, &resource_usage(usage, times))?;
    Ok(0)
}

/// RUSAGE_SELF
const RUSAGE_SELF: i32 = 0;
/// RUSAGE_CHILDREN
const RUSAGE_CHILDREN: i32 = -1;
/// RUSAGE_THREAD
const RUSAGE_THREAD: i32 = 1;

/// times(2)
pub fn times<L: Layout>(to: usize) -> Result<usize> {
    let thread = current();
    let process: &Process = thread.process();
    let (user, system) = process.times().in_user_hz();
    let (children_user, children_system) = process.children_times().in_user_hz();
    let times = [user, system, children_user, children_system].map(|ticks| ticks as usize);
    given(to, |to| L::put_words(to, &times))?;
    Ok(user_hz(clock::monotonic_ns()) as usize)
}
