//! Process groups and sessions.

use alloc::sync::Arc;

use linux_raw_sys::general::{SIGCONT, SIGHUP};

use super::{Process, current, pid_table, signal};
use crate::errno::{Errno, Result};

/// The session of process group `group`; none if there is no such group.
pub fn session_of_group(group: i32) -> Option<i32> {
    pid_table::find_of_group(group, |process| Some(process.session()))
}

/// Whether no member's parent is in the session but outside the group, so that nobody could
/// continue a stopped member.
pub fn is_orphaned(group: i32) -> bool {
    !pid_table::any_of_group_with_parent(group, is_guarded)
}

/// Whether a member of a group could be continued by its parent.
pub(super) fn is_guarded(process: &Process, parent: &Process) -> bool {
    !process.has_left_group() && guards(parent, process)
}

fn guards(parent: &Process, process: &Process) -> bool {
    parent.group() != process.group() && parent.session() == process.session() && parent.pid() != 1
}

/// `parent` gives up a child: if this orphans the child's group, calls [`hang_up`].
pub(super) fn orphaned_by(parent: &Process, child: &Process) {
    if guards(parent, child) && is_orphaned(child.group()) {
        hang_up(child.group());
    }
}

/// If an orphaned group has stopped members, sends it SIGHUP and SIGCONT.
pub(super) fn hang_up(group: i32) {
    let stopped = |member: &Arc<Process>| member.signals.stop.is_stopped().then_some(());
    if pid_table::find_of_group(group, stopped).is_some() {
        // Ordinary signals need no room.
        _ = signal::send_group(group, SIGHUP);
        _ = signal::send_group(group, SIGCONT);
    }
}

/// setsid(2): the current process becomes the leader of a session and a group of its own.
///
/// # Errors
/// EPERM: it leads a group.
pub fn new_session() -> Result<i32> {
    let thread = current();
    let process = thread.process();
    let pid = process.pid();
    let leads_none = |group| match group {
        Some(_) => Err(Errno::EPERM),
        None => Ok(()),
    };
    pid_table::move_to(process, pid, Some(pid), leads_none)?;
    Ok(pid)
}

/// setpgid(2): moves process `pid` (0: the current one) to group `group` (0: its own).
///
/// # Errors
/// EINVAL, ESRCH, EPERM, EACCES.
pub fn set_group(pid: i32, group: i32) -> Result<()> {
    let thread = current();
    let this = thread.process();
    if group < 0 || group == 0 && pid < 0 {
        return Err(Errno::EINVAL);
    }
    let process = if pid == 0 {
        this.clone()
    } else {
        let is_thread = || match pid_table::thread(pid) {
            Some(_) => Errno::EINVAL,
            None => Errno::ESRCH,
        };
        pid_table::process(pid).ok_or_else(is_thread)?
    };
    let group = if group == 0 { process.pid() } else { group };
    pid_table::move_to(&process, group, None, |session| {
        check_move(this, &process, group, session)
    })
}

/// Whether `this` may move `process` to a group, which is in `session`, or does not exist.
///
/// # Errors
/// ESRCH, EPERM, EACCES.
fn check_move(this: &Process, process: &Process, group: i32, session: Option<i32>) -> Result<()> {
    if process.pid() != this.pid() {
        if process.parent() != this.pid() {
            return Err(Errno::ESRCH);
        }
        if process.session() != this.session() {
            return Err(Errno::EPERM);
        }
        if process.has_executed() {
            return Err(Errno::EACCES);
        }
    }
    if process.session() == process.pid() {
        return Err(Errno::EPERM);
    }
    if group != process.pid() && session != Some(this.session()) {
        return Err(Errno::EPERM);
    }
    Ok(())
}
