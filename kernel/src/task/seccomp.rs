//! Filters of system calls (seccomp(2)): a thread gives up calls, for itself and all that it begins.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bpf::{Instruction, WORDS};
use linux_raw_sys::general::*;
use linux_raw_sys::ptrace::*;

use super::barrier::{self, Scope};
use super::listener::Listener;
use super::signal::{self, Info};
use super::{Process, Thread, current, exit, ptrace};
use crate::arch::{Frame, regset};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// What a filter costs beside its instructions, and how much all filters of a thread may cost (Linux's
/// `MAX_INSNS_PER_PATH`).
const OVERHEAD: usize = 4;
const MOST: usize = 32768;
/// The calls of strict mode.
const STRICT: [u32; 4] = [__NR_read, __NR_write, __NR_exit, __NR_rt_sigreturn];

/// A filter, and those that were there before it.
pub struct Filter {
    program: Vec<Instruction>,
    /// What all cost together.
    cost: usize,
    previous: Option<Arc<Filter>>,
    /// Who decides where it does not.
    listener: Option<Arc<Listener>>,
}

impl Drop for Filter {
    /// One after the other: a stack would not hold all of a long chain.
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

/// What a thread has of it.
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

    fn set(&self, mode: u32, filter: Option<Arc<Filter>>) {
        let old = core::mem::replace(&mut *self.filter.lock(), filter);
        self.mode.store(mode, Relaxed);
        drop(old);
    }

    /// Lets go of the filters: the thread makes no more calls.
    pub fn leave(&self) {
        if self.mode() == SECCOMP_MODE_FILTER {
            let old = self.filter.lock().take();
            drop(old);
        }
    }

    /// How many filters there are.
    pub fn count(&self) -> usize {
        let filter = self.filter();
        let chain = core::iter::successors(filter.as_ref(), |filter| filter.previous.as_ref());
        chain.count()
    }
}

impl Thread {
    /// A child begins with the same filters.
    pub(super) fn copy_filters(&self, from: &Thread) {
        self.seccomp.set(from.seccomp.mode(), from.seccomp.filter());
        self.watch_calls();
    }
}

/// Only reading, writing, and ending from now on.
///
/// # Errors
/// EINVAL: there are filters.
pub fn be_strict() -> Result<()> {
    let thread = current();
    if thread.seccomp.mode() == SECCOMP_MODE_FILTER {
        return Err(Errno::EINVAL);
    }
    thread.seccomp.set(SECCOMP_MODE_STRICT, None);
    thread.watch_calls();
    Ok(())
}

/// Adds a filter to those of the current thread, or with `all` of all threads of its process, which then have the same;
/// then the number of one that cannot, 0 if all could.
///
/// # Errors
/// EINVAL (no filter, or strict already), EACCES (it could make other programs of the user misbehave), ENOMEM (too many),
/// EBUSY (there is a listener already).
pub fn add(program: Vec<Instruction>, all: bool, listener: Option<Arc<Listener>>) -> Result<i32> {
    let thread = current();
    if thread.seccomp.mode() == SECCOMP_MODE_STRICT {
        return Err(Errno::EINVAL);
    }
    let allowed = thread.has_no_new_privileges() || super::can(CAP_SYS_ADMIN);
    if !allowed {
        return Err(Errno::EACCES);
    }
    let mut room = Vec::new();
    room.try_reserve_exact(program.len())
        .map_err(|_| Errno::ENOMEM)?;
    room.resize(program.len(), 0);
    bpf::check(&program, &mut room).map_err(|_| Errno::EINVAL)?;
    drop(room);
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
    // No thread is to begin a program meanwhile, as whom it has already decided.
    let guard = all
        .then(|| thread.process().guard_credentials())
        .transpose()?;
    if all && let Some(other) = stranger(thread.process(), previous.as_ref()) {
        return Ok(other);
    }
    let filter = try_arc(Filter {
        program,
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
    install(thread);
    if all {
        thread.process().threads().iter().for_each(|other| {
            if thread.has_no_new_privileges() {
                other.set_no_new_privileges();
            }
            install(other);
        });
        drop(guard);
        // Those that run on other CPUs are watched when this returns.
        barrier::wait(Scope::Space);
    }
    Ok(0)
}

/// A thread whose filters are not among those of the current one.
fn stranger(process: &Process, own: Option<&Arc<Filter>>) -> Option<i32> {
    let is_among = |filter: &Arc<Filter>| {
        core::iter::successors(own, |filter| filter.previous.as_ref())
            .any(|known| Arc::ptr_eq(known, filter))
    };
    let found = process.find_thread(|other| match other.seccomp.mode() {
        SECCOMP_MODE_DISABLED => false,
        SECCOMP_MODE_FILTER => !other.seccomp.filter().as_ref().is_some_and(is_among),
        _ => true,
    });
    found.map(|thread| thread.tid())
}

/// What the filters of the current thread make of system call `number`: none if it may be made, else its result.
pub fn judge(number: usize, registers: [usize; 6]) -> Option<isize> {
    let thread = current();
    match thread.seccomp.mode() {
        SECCOMP_MODE_DISABLED => None,
        SECCOMP_MODE_STRICT if STRICT.iter().any(|&known| known as usize == number) => None,
        SECCOMP_MODE_STRICT => end_thread(SIGKILL),
        _ => {
            let verdict = ask(number, registers);
            obey(verdict, number)
        }
    }
}

/// The strictest verdict of all filters; of equal ones the newest's.
fn ask(number: usize, registers: [usize; 6]) -> u32 {
    strictest(number, registers).0
}

/// The same, and who listens to the filter that it is from.
fn strictest(number: usize, registers: [usize; 6]) -> (u32, Option<Arc<Listener>>) {
    let pc = current().arch.with_frame(|frame| frame.pc()) as u64;
    let mut data = [0; WORDS];
    (data[0], data[1]) = (number as u32, regset::AUDIT);
    let wide = core::iter::once(pc).chain(registers.map(|register| register as u64));
    for (pair, value) in data[2..].chunks_exact_mut(2).zip(wide) {
        pair.copy_from_slice(&[value as u32, (value >> 32) as u32]);
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

fn obey(verdict: u32, number: usize) -> Option<isize> {
    let data = verdict & SECCOMP_RET_DATA;
    match verdict & SECCOMP_RET_ACTION_FULL {
        SECCOMP_RET_ALLOW | SECCOMP_RET_LOG => None,
        SECCOMP_RET_ERRNO => Some(-(data.min(4095) as isize)),
        SECCOMP_RET_TRAP => {
            let (pc, argument) = current()
                .arch
                .with_frame(|frame| (frame.pc(), frame.roll_back()));
            signal::force_info(Info::call(pc, number as i32, regset::AUDIT, data));
            Some(argument)
        }
        SECCOMP_RET_TRACE => {
            if !ptrace::filtered(data) {
                return Some(Errno::ENOSYS.result());
            }
            // The tracer may have made it another call, which is not asked about again but by stricter filters.
            let (number, registers) = current().arch.with_frame(|frame: &mut Frame| frame.call());
            if number as i32 == -1 {
                return Some(current().arch.with_frame(|frame| frame.result()));
            }
            let again = ask(number, registers);
            let asks = again & SECCOMP_RET_ACTION_FULL == SECCOMP_RET_TRACE;
            if asks { None } else { obey(again, number) }
        }
        SECCOMP_RET_USER_NOTIF => {
            let (number, registers) = current().arch.with_frame(|frame: &mut Frame| frame.call());
            let pc = current().arch.with_frame(|frame| frame.pc());
            match strictest(number, registers).1 {
                Some(listener) => listener.ask(number, pc, registers),
                None => Some(Errno::ENOSYS.result()),
            }
        }
        SECCOMP_RET_KILL_THREAD => end_thread(SIGSYS),
        _ => exit::exit_group(SIGSYS),
    }
}

/// Ends the current thread as by `number`; with the last one its process.
fn end_thread(number: u32) -> ! {
    if current().process().threads().len() == 1 {
        exit::exit_group(number)
    }
    exit::exit_thread()
}
