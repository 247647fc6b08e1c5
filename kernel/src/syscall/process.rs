//! System calls on processes and threads.

use linux_raw_sys::general::*;

use super::path::opened;
use crate::errno::{Errno, Result};
use crate::fs::proc::namespaces;
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::{self, CloneRequest, Process, current, job, pid_table, require};
use alloc::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// getpid(2)
pub fn getpid() -> Result<usize> {
    Ok(current().process_id() as usize)
}

/// gettid(2)
pub fn gettid() -> Result<usize> {
    Ok(current().tid() as usize)
}

/// getppid(2)
pub fn getppid() -> Result<usize> {
    Ok(current().process().parent() as usize)
}

/// exit(2): ends the thread.
pub fn exit(code: u32) -> Result<usize> {
    task::exit_alone(code & 0xff)
}

/// exit_group(2)
pub fn exit_group(code: u32) -> Result<usize> {
    task::exit_group((code & 0xff) << 8)
}

/// set_tid_address(2)
pub fn set_tid_address(address: usize) -> Result<usize> {
    current().own.with(|own| own.clear_tid = address);
    gettid()
}

/// clone(2), with the argument order of arm64 and RISC-V.
pub fn clone(
    flags: usize,
    stack: usize,
    parent_tid: usize,
    tls: usize,
    child_tid: usize,
) -> Result<usize> {
    let request = CloneRequest {
        flags: (flags as u32 & !CSIGNAL) as u64,
        exit_signal: flags as u32 & CSIGNAL,
        stack,
        tls,
        parent_tid,
        child_tid,
        pidfd: parent_tid,
        tid: 0,
    };
    if flags as u32 & CLONE_PIDFD != 0 && flags as u32 & (CLONE_PARENT_SETTID | CLONE_DETACHED) != 0
    {
        return Err(Errno::EINVAL);
    }
    let cloned = current()
        .arch
        .with_frame(|frame| task::clone(&request, frame))?;
    Ok(cloned.finish())
}

/// `struct clone_args` (include/uapi/linux/sched.h).
#[derive(Clone, Copy, Default, FromBytes, IntoBytes)]
#[repr(C)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// clone3(2)
pub fn clone3(arguments: usize, size: usize) -> Result<usize> {
    if size < CLONE_ARGS_SIZE_VER0 as usize {
        return Err(Errno::EINVAL);
    }
    let known = size_of::<CloneArguments>();
    let mut read = CloneArguments::default();
    UserSlice::new(arguments, size.min(known))
        .copy_in(&mut read.as_mut_bytes()[..size.min(known)])?;
    check_rest(arguments, known, size)?;
    let legacy = read.flags & (CSIGNAL | CLONE_DETACHED) as u64 != 0;
    let unknown =
        read.flags & !(u64::from(u32::MAX) | CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP) != 0;
    let stack = (read.stack == 0) == (read.stack_size == 0);
    let unwanted =
        read.flags & u64::from(CLONE_THREAD | CLONE_PARENT) != 0 && read.exit_signal != 0;
    if legacy || unknown || !stack || unwanted {
        return Err(Errno::EINVAL);
    }
    if read.flags & CLONE_INTO_CGROUP != 0 {
        // No descriptor refers to a control group.
        let inside = size >= known && read.cgroup <= i32::MAX as u64;
        return Err(if inside { Errno::EBADF } else { Errno::EINVAL });
    }
    if read.exit_signal > u64::from(crate::task::signal::LAST) {
        return Err(Errno::EINVAL);
    }
    let request = CloneRequest {
        flags: read.flags,
        exit_signal: read.exit_signal as u32,
        stack: read.stack.wrapping_add(read.stack_size) as usize,
        tls: read.tls as usize,
        parent_tid: read.parent_tid as usize,
        child_tid: read.child_tid as usize,
        pidfd: read.pidfd as usize,
        tid: chosen_number(&read)?,
    };
    let cloned = current()
        .arch
        .with_frame(|frame| task::clone(&request, frame))?;
    Ok(cloned.finish())
}

/// The requested number of the child; 0 for any.
fn chosen_number(read: &CloneArguments) -> Result<i32> {
    // There is one PID namespace, so only one number can be requested.
    if read.set_tid_size > 1 || (read.set_tid == 0) != (read.set_tid_size == 0) {
        return Err(Errno::EINVAL);
    }
    if read.set_tid == 0 {
        return Ok(0);
    }
    let tid = UserPtr::<i32>::new(read.set_tid as usize).read()?;
    if !(1..pid_table::pid_max()).contains(&tid) {
        return Err(Errno::EINVAL);
    }
    task::require(CAP_CHECKPOINT_RESTORE)?;
    Ok(tid)
}

/// Requires zeroes after the `known` part of a structure of `size` bytes.
///
/// # Errors
/// E2BIG, EFAULT.
pub fn check_rest(address: usize, known: usize, size: usize) -> Result<()> {
    if size > crate::mm::PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    for at in known..size {
        if UserPtr::<u8>::new(address + at).read()? != 0 {
            return Err(Errno::E2BIG);
        }
    }
    Ok(())
}

/// unshare(2)
pub fn unshare(flags: usize) -> Result<usize> {
    let thread = current();
    let Ok(flags) = u32::try_from(flags) else {
        return Err(Errno::EINVAL);
    };
    task::check_namespaces(flags.into())?;
    if u64::from(flags) & !abi::options::UNSHARE.mask() != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & (CLONE_THREAD | CLONE_SIGHAND | CLONE_VM) != 0
        && thread.process().threads().len() > 1
    {
        return Err(Errno::EINVAL);
    }
    if flags & CLONE_FILES != 0 {
        thread.unshare_files()?;
    }
    if flags & CLONE_FS != 0 {
        thread.unshare_fs()?;
    }
    if flags & CLONE_SYSVSEM != 0 {
        thread.unshare_semaphores();
    }
    Ok(0)
}

/// setns(2): there is one namespace of each kind, which the caller is in already. On Linux a
/// process cannot re-enter its user namespace; re-entering the mount namespace would reset root and
/// directory, which is not supported.
pub fn setns(fd: i32, kind: u32) -> Result<usize> {
    let file = opened(fd)?;
    let namespace = namespaces::of(&file).ok_or(Errno::EINVAL)?;
    if kind != 0 && kind != namespace.kind {
        return Err(Errno::EINVAL);
    }
    match namespace.kind {
        CLONE_NEWUSER => Err(Errno::EINVAL),
        CLONE_NEWNS => {
            require(CAP_SYS_ADMIN)?;
            require(CAP_SYS_CHROOT)?;
            Err(Errno::EINVAL)
        }
        CLONE_NEWTIME if current().process().threads().len() > 1 => Err(Errno::EUSERS),
        _ => require(CAP_SYS_ADMIN).map(|()| 0),
    }
}

/// setpgid(2)
pub fn setpgid(pid: i32, group: i32) -> Result<usize> {
    job::set_group(pid, group)?;
    Ok(0)
}

/// The process that has the number `id`, or that has a thread with it; for 0 the current one.
fn process_of(id: i32) -> Result<Arc<Process>> {
    match id {
        0 => Ok(current().process().clone()),
        id => pid_table::process_of(id).ok_or(Errno::ESRCH),
    }
}

/// getpgid(2)
pub fn getpgid(pid: i32) -> Result<usize> {
    Ok(process_of(pid)?.group() as usize)
}

/// getsid(2)
pub fn getsid(pid: i32) -> Result<usize> {
    Ok(process_of(pid)?.session() as usize)
}

/// setsid(2)
pub fn setsid() -> Result<usize> {
    Ok(job::new_session()? as usize)
}
