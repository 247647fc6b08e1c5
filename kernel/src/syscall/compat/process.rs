//! Processes, limits, signals and the machine.

use linux_raw_sys::general::*;
use zerocopy::{Immutable, IntoBytes};

use crate::errno::{Errno, Result};
use crate::mm::frame;
use crate::mm::user::UserPtr;
use crate::syscall::layout::{Compat, Layout};
use crate::syscall::sched::{PRIO_PROCESS, setpriority};
use crate::syscall::{limits, process};
use crate::task::clock::{self, SECOND};
use crate::task::wait_queue::{WaitError, WaitQueue};
use crate::task::{current, loadavg, sched};

pub fn fork() -> Result<usize> {
    process::clone(SIGCHLD as usize, 0, 0, 0, 0)
}

pub fn vfork() -> Result<usize> {
    process::clone((CLONE_VFORK | CLONE_VM | SIGCHLD) as usize, 0, 0, 0, 0)
}

pub fn getpgrp() -> Result<usize> {
    process::getpgid(0)
}

/// Adds to the caller's nice value.
pub fn nice(more: i32) -> Result<usize> {
    let nice = current().nice() + more.clamp(-40, 40);
    let changed = setpriority(PRIO_PROCESS, 0, nice);
    changed.map_err(|error| match error {
        Errno::EACCES => Errno::EPERM,
        error => error,
    })
}

pub fn pause() -> Result<usize> {
    match WaitQueue::new().wait_interruptible(|| false, None) {
        Err(WaitError::Interrupted) => Err(Errno::ERESTARTNOHAND),
        _ => Ok(0),
    }
}

/// RLIM_INFINITY of 32-bit programs.
const NO_LIMIT: usize = u32::MAX as usize;

pub fn ugetrlimit(kind: u32, to: usize) -> Result<usize> {
    let limit = limits::exchange(current().process(), kind, None)?;
    Compat::put_words(
        to,
        &[limit.soft, limit.hard].map(|words| words.min(NO_LIMIT)),
    )?;
    Ok(0)
}

pub fn setrlimit(kind: u32, from: usize) -> Result<usize> {
    let limit = Compat::words(from)?.map(|words| match words {
        NO_LIMIT => usize::MAX,
        words => words,
    });
    limits::exchange(current().process(), kind, Some(limit))?;
    Ok(0)
}

/// `struct sysinfo` (`struct compat_sysinfo`).
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct SystemInformation {
    uptime: u32,
    loads: [u32; 3],
    memory: [u32; 2],
    shared: u32,
    buffers: u32,
    swap: [u32; 2],
    processes: u16,
    pad: u16,
    high: [u32; 2],
    unit: u32,
    rest: [u32; 2],
}

const _: () = assert!(size_of::<SystemInformation>() == 64);

pub fn sysinfo(to: usize) -> Result<usize> {
    let page = crate::mm::PAGE_SIZE;
    let frames = [frame::total(), frame::free_count()];
    // Memory whose size in bytes does not fit in 32 bits is reported in pages.
    let unit = if (frames[0] * page) >> 32 == 0 {
        1
    } else {
        page
    };
    UserPtr::new(to).write(&SystemInformation {
        uptime: (clock::monotonic_ns() / SECOND) as u32,
        loads: loadavg::averages().map(|load| (load << (16 - loadavg::SHIFT)) as u32),
        memory: frames.map(|frames| (frames * (page / unit)) as u32),
        shared: 0,
        buffers: 0,
        swap: [0; 2],
        processes: sched::threads().min(u16::MAX.into()) as u16,
        pad: 0,
        high: [0; 2],
        unit: unit as u32,
        rest: [0; 2],
    })?;
    Ok(0)
}
