//! seccomp(2)

use linux_raw_sys::ptrace::*;

use super::path::check_flags;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::seccomp_notify::{self, Listener};
use crate::task::{current, filter_program, seccomp};

/// Known flags: the filter is for all threads; failures are reported as ESRCH; actions are logged;
/// the CPU may speculate; a listener is created; signals do not interrupt a pending decision.
const FLAGS: u32 = SECCOMP_FILTER_FLAG_TSYNC
    | SECCOMP_FILTER_FLAG_TSYNC_ESRCH
    | SECCOMP_FILTER_FLAG_LOG
    | SECCOMP_FILTER_FLAG_SPEC_ALLOW
    | SECCOMP_FILTER_FLAG_NEW_LISTENER
    | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// seccomp(2)
pub fn seccomp(operation: u32, flags: u32, arguments: usize) -> Result<usize> {
    match operation {
        SECCOMP_SET_MODE_STRICT if flags == 0 && arguments == 0 => {
            seccomp::be_strict()?;
            Ok(0)
        }
        SECCOMP_SET_MODE_FILTER => set_filter(flags, arguments),
        SECCOMP_GET_ACTION_AVAIL if flags == 0 => {
            let known = [
                SECCOMP_RET_KILL_PROCESS,
                SECCOMP_RET_KILL_THREAD,
                SECCOMP_RET_TRAP,
                SECCOMP_RET_ERRNO,
                SECCOMP_RET_USER_NOTIF,
                SECCOMP_RET_TRACE,
                SECCOMP_RET_LOG,
                SECCOMP_RET_ALLOW,
            ];
            if known.contains(&UserPtr::<u32>::new(arguments).read()?) {
                Ok(0)
            } else {
                Err(Errno::EOPNOTSUPP)
            }
        }
        SECCOMP_GET_NOTIF_SIZES if flags == 0 => {
            UserPtr::new(arguments).write(&seccomp_notify::SIZES)?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// SECCOMP_SET_MODE_FILTER; `program` is a `struct sock_fprog`.
pub fn set_filter(flags: u32, program: usize) -> Result<usize> {
    const FOR_ALL: u32 = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_NEW_LISTENER;
    check_flags(flags, FLAGS)?;
    let listens = flags & SECCOMP_FILTER_FLAG_NEW_LISTENER != 0;
    let is_killable = flags & SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV != 0;
    let fails = flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH != 0;
    // A returned number could be a thread's or a descriptor.
    if flags & FOR_ALL == FOR_ALL && !fails || is_killable && !listens {
        return Err(Errno::EINVAL);
    }
    let structure = UserPtr::<u8>::new(program).read_vec(filter_program::size())?;
    let place = filter_program::Place::of(&structure)?;
    seccomp::may_filter()?;
    let instructions = place.read()?;
    if !listens {
        return match seccomp::add(instructions, flags, None)? {
            0 => Ok(0),
            _ if fails => Err(Errno::ESRCH),
            tid => Ok(tid as usize),
        };
    }
    let (listener, file) = Listener::new(is_killable)?;
    let fd = current().files().reserve()?;
    match seccomp::add(instructions, flags, Some(listener))? {
        0 => Ok(fd.install(file, true) as usize),
        _ => Err(Errno::ESRCH),
    }
}
