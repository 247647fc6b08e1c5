//! System calls on pidfds.

use alloc::sync::Arc;

use linux_raw_sys::general::SI_TKILL;

use super::layout::{Layout, given};
use super::path::{check_flags, file};
use super::signal::{check_permission, check_signal};
use crate::errno::{Errno, Result};
use crate::fs::{self, File};
use crate::task::pidfd::{self, PidFd, THREAD};
use crate::task::ptrace_access::{self, By};
use crate::task::signal::{self, Info};
use crate::task::{Process, current, pid_table};

/// PIDFD_SIGNAL_THREAD and _PROCESS_GROUP (include/uapi/linux/pidfd.h).
const TO_THREAD: u32 = 1 << 0;
const TO_GROUP: u32 = 1 << 2;

/// pidfd_open(2)
pub fn pidfd_open(pid: i32, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::PIDFD.mask() as u32)?;
    if pid <= 0 {
        return Err(Errno::EINVAL);
    }
    let file = if flags & THREAD != 0 {
        let thread = pid_table::thread(pid).ok_or(Errno::ESRCH)?;
        pidfd::file(thread.process().clone(), Some(&thread), flags)?
    } else {
        match pid_table::process(pid) {
            Some(process) => pidfd::file(process, None, flags)?,
            None if pid_table::thread(pid).is_some() => return Err(Errno::EINVAL),
            None => return Err(Errno::ESRCH),
        }
    };
    Ok(current().files().add(file, true)? as usize)
}

/// The process that a file refers to: a pidfd, or a directory of procfs.
fn process_of(file: &File) -> Result<Arc<Process>> {
    match file.ops_as::<PidFd>() {
        Some(of) => of.process().cloned(),
        None => fs::proc::process_of(file),
    }
}

/// pidfd_send_signal(2)
pub fn pidfd_send_signal<L: Layout>(
    fd: i32,
    number: u32,
    info: usize,
    flags: u32,
) -> Result<usize> {
    check_flags(flags, abi::options::PIDFD_SIGNAL.mask() as u32)?;
    if flags.count_ones() > 1 {
        return Err(Errno::EINVAL);
    }
    let file = file(fd)?;
    let process = process_of(&file)?;
    let of_thread = file.ops_as::<PidFd>().filter(|of| of.is_thread());
    let alone = flags == TO_THREAD || flags == 0 && of_thread.is_some();
    let thread = match &of_thread {
        Some(of) => Some(of.thread()?),
        None => process.find_thread(|_| true),
    };
    let info = match given(info, L::info)? {
        Some(info) if info.number() != number => return Err(Errno::EINVAL),
        Some(info)
            if (info.code >= 0 || info.code == SI_TKILL)
                && (process.pid() != current().process_id() || flags == TO_GROUP) =>
        {
            return Err(Errno::EPERM);
        }
        Some(info) => info,
        None if alone => Info::thread(number),
        None => Info::user(number),
    };
    check_signal(number)?;
    if flags == TO_GROUP {
        return super::signal::send_to_group(process.pid(), number, &info);
    }
    let thread = thread.filter(|_| alone);
    check_permission(&process, thread.as_deref(), number)?;
    if number != 0 {
        signal::send_info(&process, thread.as_ref(), &info)?;
    }
    Ok(0)
}

/// pidfd_getfd(2)
pub fn pidfd_getfd(of: i32, fd: i32, flags: u32) -> Result<usize> {
    check_flags(flags, 0)?;
    let thread = pidfd::of(of)?.0.thread()?;
    let file = ptrace_access::look(&thread, By::Real, |thread| {
        thread.try_files().ok_or(Errno::ESRCH)?.get(fd)
    })?;
    Ok(current().files().add(file, true)? as usize)
}
