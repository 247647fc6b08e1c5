//! System-call filters (seccomp(2)), by which a thread gives up calls, for itself and for all its
//! descendants.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bpf::{Instruction, WORDS};
use linux_raw_sys::general::*;
use linux_raw_sys::ptrace::*;

use super::membarrier::{self, Scope};
use super::sched::cond_resched;
use super::seccomp_notify::Listener;
use super::signal::{self, Info};
use super::{Thread, current, exit, ptrace};
use crate::arch::Call;
use crate::arch::regset::AUDITS;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// The cost of a filter in addition to its instructions, and the maximum cost of all filters of a
/// thread (Linux's `MAX_INSNS_PER_PATH`).
const OVERHEAD: usize = 4;
const MOST: usize = 32768;

/// Calls that each filter of a chain allows whatever their arguments, by the index of their
/// architecture and their number (Linux's `action_cache`). Higher numbers are not recorded.
struct Allowed([[u64; Allowed::NUMBERS / 64]; AUDITS.len()]);

impl Allowed {
    const NUMBERS: usize = 512;

    /// The calls that one filter allows.
    fn of(program: &[Instruction]) -> Self {
        let mut allowed = Allowed([[0; _]; _]);
        for (calls, &architecture) in allowed.0.iter_mut().zip(AUDITS) {
            for number in 0..Self::NUMBERS {
                let verdict = bpf::run_by_number(program, number as u32, architecture);
                let action = verdict.map(|verdict| verdict & SECCOMP_RET_ACTION_FULL);
                calls[number / 64] |= u64::from(action == Some(SECCOMP_RET_ALLOW)) << (number % 64);
                cond_resched();
            }
        }
        allowed
    }

    /// Keeps the calls that `other` allows too.
    fn keep(&mut self, other: &Allowed) {
        for (calls, others) in self
            .0
            .as_flattened_mut()
            .iter_mut()
            .zip(other.0.as_flattened())
        {
            *calls &= others;
        }
    }

    fn has(&self, call: &Call) -> bool {
        let mut known = AUDITS.iter().zip(&self.0);
        let calls = known.find(|(architecture, _)| **architecture == call.architecture);
        let number = call.number as usize;
        let word = calls.and_then(|(_, calls)| calls.get(number / 64));
        word.is_some_and(|calls| calls >> (number % 64) & 1 != 0)
    }
}

/// A filter, and the filters that were installed before it.
pub struct Filter {
    program: Vec<Instruction>,
    /// The calls that it and its predecessors always allow.
    allowed: Allowed,
    /// SECCOMP_FILTER_FLAG_LOG, if it was set.
    flags: u32,
    /// The cost of the whole chain.
    cost: usize,
    previous: Option<Arc<Filter>>,
    /// The listener that the filter can defer to.
    listener: Option<Arc<Listener>>,
}

impl Filter {
    /// SECCOMP_FILTER_FLAG_LOG, if it was set.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Its instructions, each a `struct sock_filter`.
    ///
    /// # Errors
    /// ENOMEM
    pub fn words(&self) -> Result<Vec<[u32; 2]>> {
        let mut words = Vec::new();
        let room = words.try_reserve_exact(self.program.len());
        room.map_err(|_| Errno::ENOMEM)?;
        words.extend(self.program.iter().map(|one| {
            let jumps = u32::from(one.if_true) << 16 | u32::from(one.if_false) << 24;
            [u32::from(one.code) | jumps, one.k]
        }));
        Ok(words)
    }
}

impl Drop for Filter {
    /// In a loop: the recursive drop of a long chain would overflow the stack.
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.leave();
        }
        let mut next = self.previous.take();
        while let Some(mut filter) = next.and_then(Arc::into_inner) {
            next = filter.previous.take();
        }
    }
}

/// The seccomp state of a thread.
pub struct State {
    /// SECCOMP_MODE_*.
    mode: AtomicU32,
    filter: Mutex<Option<Arc<Filter>>>,
}

impl State {
    /// No filter.
    pub const fn new() -> Self {
        State {
            mode: AtomicU32::new(SECCOMP_MODE_DISABLED),
            filter: Mutex::new(None),
        }
    }

    /// SECCOMP_MODE_*.
    pub fn mode(&self) -> u32 {
        self.mode.load(Relaxed)
    }

    fn filter(&self) -> Option<Arc<Filter>> {
        self.filter.lock().clone()
    }

    /// Whether `wanted` holds for the newest filter. It is called in place: another thread may drop
    /// all other counts meanwhile, and a filter must not be freed where locks are held.
    fn newest_is(&self, wanted: impl FnOnce(&Arc<Filter>) -> bool) -> bool {
        self.filter.lock().as_ref().is_some_and(wanted)
    }

    fn set(&self, mode: u32, filter: Option<Arc<Filter>>) {
        let old = core::mem::replace(&mut *self.filter.lock(), filter);
        self.mode.store(mode, Relaxed);
        drop(old);
    }

    /// Drops the filters: the thread makes no more calls.
    pub fn leave(&self) {
        if self.mode() == SECCOMP_MODE_FILTER {
            let old = self.filter.lock().take();
            drop(old);
        }
    }

    /// The filter of this number, the oldest of which is 0.
    ///
    /// # Errors
    /// EINVAL (there are no filters), ENOENT.
    pub fn nth(&self, number: usize) -> Result<Arc<Filter>> {
        if self.mode() != SECCOMP_MODE_FILTER {
            return Err(Errno::EINVAL);
        }
        let newer = self.count().checked_sub(1);
        let newer = newer.and_then(|last| last.checked_sub(number));
        let newer = newer.ok_or(Errno::ENOENT)?;
        let newest = self.filter();
        let mut chain = core::iter::successors(newest.as_ref(), |one| one.previous.as_ref());
        chain.nth(newer).cloned().ok_or(Errno::ENOENT)
    }

    /// The number of filters.
    pub fn count(&self) -> usize {
        let filter = self.filter();
        let chain = core::iter::successors(filter.as_ref(), |filter| filter.previous.as_ref());
        chain.count()
    }
}

impl Thread {
    /// Gives a child its parent's filters, and no_new_privs if the parent has it.
    pub(super) fn copy_filters(&self, from: &Thread) {
        // Under this lock, both threads get the filters of another thread either before or after
        // this.
        let _threads = from.process().threads();
        self.seccomp.set(from.seccomp.mode(), from.seccomp.filter());
        if from.has_no_new_privileges() {
            self.set_no_new_privileges();
        }
        self.watch_calls();
    }
}

/// From now on, only allows read, write and exit.
///
/// # Errors
/// EINVAL: there are filters.
pub fn be_strict() -> Result<()> {
    let thread = current();
    // Another thread may be about to give filters to all threads.
    let threads = thread.process().threads();
    if thread.seccomp.mode() == SECCOMP_MODE_FILTER {
        return Err(Errno::EINVAL);
    }
    thread.seccomp.set(SECCOMP_MODE_STRICT, None);
    drop(threads);
    thread.watch_calls();
    Ok(())
}

/// Whether the current thread may have filters.
///
/// # Errors
/// EACCES: filters could make other programs of the user misbehave.
pub fn may_filter() -> Result<()> {
    let allowed = current().has_no_new_privileges() || super::can(CAP_SYS_ADMIN);
    allowed.then_some(()).ok_or(Errno::EACCES)
}

/// Adds a filter to the current thread, or with SECCOMP_FILTER_FLAG_TSYNC to all threads of its
/// process, which then have the same filters; returns the number of a thread that cannot have them,
/// or 0.
///
/// # Errors
/// EINVAL (no filter, or strict already), ENOMEM (too many), EBUSY (there is a listener already).
pub fn add(program: Vec<Instruction>, flags: u32, listener: Option<Arc<Listener>>) -> Result<i32> {
    let all = flags & SECCOMP_FILTER_FLAG_TSYNC != 0;
    let thread = current();
    if thread.seccomp.mode() == SECCOMP_MODE_STRICT {
        return Err(Errno::EINVAL);
    }
    let mut room = Vec::new();
    room.try_reserve_exact(program.len())
        .map_err(|_| Errno::ENOMEM)?;
    room.resize(program.len(), 0);
    bpf::check(&program, &mut room).map_err(|_| Errno::EINVAL)?;
    drop(room);
    let mut allowed = Allowed::of(&program);
    // Meanwhile, no thread may exec with credentials that are already decided, or give this one
    // filters.
    let guard = thread.process().guard_credentials()?;
    let previous = thread.seccomp.filter();
    let before = previous.as_ref().map_or(0, |filter| filter.cost + OVERHEAD);
    let cost = before + program.len();
    if cost > MOST {
        return Err(Errno::ENOMEM);
    }
    let mut chain = core::iter::successors(previous.as_ref(), |one| one.previous.as_ref());
    if listener.is_some() && chain.any(|one| one.listener.is_some()) {
        return Err(Errno::EBUSY);
    }
    let own = if all {
        addresses(previous.as_ref())?
    } else {
        Vec::new()
    };
    if let Some(previous) = &previous {
        allowed.keep(&previous.allowed);
    }
    let filter = try_arc(Filter {
        program,
        allowed,
        flags: flags & SECCOMP_FILTER_FLAG_LOG,
        cost,
        previous,
        listener,
    })?;
    let install = |thread: &Thread| {
        thread
            .seccomp
            .set(SECCOMP_MODE_FILTER, Some(filter.clone()));
        thread.watch_calls();
    };
    if !all {
        install(&thread);
    } else {
        // Meanwhile, no thread enters strict mode or ends.
        let threads = thread.process().threads();
        if let Some(other) = threads.iter().find(|other| !is_among(other, &own)) {
            return Ok(other.tid());
        }
        for other in threads.iter() {
            if thread.has_no_new_privileges() {
                other.set_no_new_privileges();
            }
            install(other);
        }
        drop(threads);
        drop(guard);
        // When this returns, threads that run on other CPUs are watched.
        membarrier::wait(Scope::Space);
    }
    Ok(0)
}

/// The addresses, sorted, of a chain of filters, of which there may be thousands.
///
/// # Errors
/// ENOMEM.
fn addresses(newest: Option<&Arc<Filter>>) -> Result<Vec<*const Filter>> {
    let chain = || core::iter::successors(newest, |filter| filter.previous.as_ref());
    let mut known = Vec::new();
    let room = known.try_reserve_exact(chain().count());
    room.map_err(|_| Errno::ENOMEM)?;
    known.extend(chain().map(Arc::as_ptr));
    heapsort::sort(&mut known);
    Ok(known)
}

/// Whether the filters of a thread are among those with these addresses.
fn is_among(thread: &Thread, known: &[*const Filter]) -> bool {
    let is_other = |filter: &Arc<Filter>| known.binary_search(&Arc::as_ptr(filter)).is_err();
    match thread.seccomp.mode() {
        SECCOMP_MODE_DISABLED => true,
        // A thread that ends has none any more.
        SECCOMP_MODE_FILTER => !thread.seccomp.newest_is(is_other),
        _ => false,
    }
}

/// Runs the filters of the current thread on its system call: `None` if the call may be made, else
/// its result.
pub fn run_filters() -> Option<isize> {
    let thread = current();
    match thread.seccomp.mode() {
        SECCOMP_MODE_DISABLED => None,
        _ if thread.reports(PTRACE_O_SUSPEND_SECCOMP) => None,
        SECCOMP_MODE_STRICT if is_strict(&current_call()) => None,
        SECCOMP_MODE_STRICT => exit::exit_with(SIGKILL),
        _ => {
            let call = current_call();
            if thread.seccomp.newest_is(|newest| newest.allowed.has(&call)) {
                return None;
            }
            apply_verdict(strictest(&call), &call)
        }
    }
}

fn current_call() -> Call {
    current().arch.with_frame(|frame| frame.call())
}

/// Whether strict mode lets the call pass.
fn is_strict(call: &Call) -> bool {
    abi::by_number(call.place).is_some_and(|known| match known.name {
        "read" | "write" | "exit" | "sigreturn" => true,
        "rt_sigreturn" => call.place < abi::compat::FIRST,
        _ => false,
    })
}

/// The strictest verdict of all filters, among equal ones that of the newest, and the listener of
/// that filter.
fn strictest(call: &Call) -> (u32, Option<Arc<Listener>>) {
    let mut data = [0; WORDS];
    (data[0], data[1]) = (call.number as u32, call.architecture);
    let wide = core::iter::once(&call.pc).chain(&call.arguments);
    for (pair, value) in data[2..].chunks_exact_mut(2).zip(wide) {
        pair.copy_from_slice(&[*value as u32, (*value as u64 >> 32) as u32]);
    }
    let newest = current().seccomp.filter();
    let chain = core::iter::successors(newest.as_ref(), |filter| filter.previous.as_ref());
    let action = |verdict: u32| (verdict & SECCOMP_RET_ACTION_FULL) as i32;
    let found = chain.fold((SECCOMP_RET_ALLOW, None), |strictest, filter| {
        let verdict = bpf::run(&filter.program, &data);
        if action(verdict) < action(strictest.0) {
            (verdict, Some(filter))
        } else {
            strictest
        }
    });
    let listener = found.1.and_then(|filter| filter.listener.clone());
    (found.0, listener)
}

fn apply_verdict((verdict, listener): (u32, Option<Arc<Listener>>), call: &Call) -> Option<isize> {
    let data = verdict & SECCOMP_RET_DATA;
    match verdict & SECCOMP_RET_ACTION_FULL {
        SECCOMP_RET_ALLOW | SECCOMP_RET_LOG => None,
        SECCOMP_RET_ERRNO => Some(-(data.min(4095) as isize)),
        SECCOMP_RET_TRAP => {
            signal::force_info(Info::call(call, data));
            Some(current().arch.with_frame(|frame| frame.roll_back()))
        }
        SECCOMP_RET_TRACE => {
            if !ptrace::filtered(data) {
                return Some(Errno::ENOSYS.result());
            }
            // The tracer may have changed the call, which only stricter filters then check again.
            let call = current_call();
            if call.number == -1 {
                return None;
            }
            let again = strictest(&call);
            let asks = again.0 & SECCOMP_RET_ACTION_FULL == SECCOMP_RET_TRACE;
            if asks {
                None
            } else {
                apply_verdict(again, &call)
            }
        }
        SECCOMP_RET_USER_NOTIF => listener.map_or(Some(Errno::ENOSYS.result()), |listener| {
            listener.notify_and_wait(call)
        }),
        SECCOMP_RET_KILL_THREAD => exit::exit_with(SIGSYS),
        _ => exit::exit_group(SIGSYS),
    }
}
