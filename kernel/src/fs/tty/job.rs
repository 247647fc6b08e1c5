//! Job control: the session that a terminal controls, and the process group in its foreground.

use super::super::{device, file::File};
use super::{Tty, pty, serial};
use crate::errno::{Errno, Result};
use crate::task::sched::cond_resched;
use crate::task::{Process, can, current, job, signal};
use alloc::sync::Arc;
use linux_raw_sys::general::*;

/// The controlling terminal of the calling process.
pub fn controlling() -> Option<Arc<Tty>> {
    of_session(current().session())
}

/// The controlling terminal of a session.
pub fn of_session(session: i32) -> Option<Arc<Tty>> {
    let controls = |tty: &Arc<Tty>| tty.state.lock().session == session;
    serial::all()
        .find(controls)
        .or_else(|| pty::find_by(controls))
}

/// The device number of a session's terminal and the terminal's foreground process group, as in
/// /proc/PID/stat.
pub fn of_process(session: i32) -> (u64, i32) {
    let tty = if session > 0 {
        of_session(session)
    } else {
        None
    };
    tty.map_or((0, -1), |tty| {
        (device::number(tty.device.0, tty.device.1), tty.foreground())
    })
}

/// Handles the end of a session leader: the terminal becomes free, and the foreground group gets a
/// signal.
pub fn session_ended(session: i32) {
    if let Some(tty) = of_session(session) {
        let (_, foreground) = tty.release();
        hang_up(session, foreground);
    }
}

/// Tells a process group of a session, if any, that its terminal is gone. Other threads run
/// meanwhile.
fn hang_up(session: i32, group: i32) {
    send_group(session, group, SIGHUP, cond_resched);
    send_group(session, group, SIGCONT, cond_resched);
}

/// Sends a signal to the members of a process group that are in the session. The group may have
/// ended, and its number may belong to a group of another session by now.
fn send_group(session: i32, group: i32, number: u32, pause: fn()) {
    if group > 0 {
        let wanted = |member: &Process| member.session() == session;
        _ = signal::send_group_where(group, number, wanted, pause);
    }
}

impl Tty {
    /// Sends a signal to the foreground process group.
    pub(super) fn signal_foreground(&self, number: u32) {
        let (session, group) = {
            let state = self.state.lock();
            (state.session, state.foreground)
        };
        // The bytes of a serial line arrive in an interrupt.
        let pause: fn() = if self.is_pty() { cond_resched } else { || {} };
        send_group(session, group, number, pause);
    }

    /// TIOCSIG: the master sends a signal to the foreground.
    pub(super) fn signal(&self, number: usize) -> Result<()> {
        if ![SIGINT, SIGQUIT, SIGTSTP].contains(&(number as u32)) {
            return Err(Errno::EINVAL);
        }
        self.signal_foreground(number as u32);
        Ok(())
    }

    /// Signals the session leader and the foreground group that the line is gone.
    pub(super) fn signal_hang_up(&self) {
        let (session, foreground) = self.release();
        hang_up(session, foreground);
        if session > 0 {
            _ = signal::send_process(session, SIGHUP);
            _ = signal::send_process(session, SIGCONT);
        }
    }

    /// Detaches the terminal from its session; returns that session and the foreground group. The
    /// caller sends the signals after this, so that a program that SIGHUP wakes finds no terminal.
    pub(super) fn release(&self) -> (i32, i32) {
        let mut state = self.state.lock();
        (
            core::mem::take(&mut state.session),
            core::mem::take(&mut state.foreground),
        )
    }

    /// Becomes the controlling terminal of the calling process, if that is a session leader without
    /// one and no session has this terminal.
    pub(super) fn acquire(&self) -> bool {
        let (session, group) = (current().session(), current().group());
        if session != current().process_id() || controlling().is_some() {
            return false;
        }
        let mut state = self.state.lock();
        if state.session != 0 {
            return false;
        }
        (state.session, state.foreground) = (session, group);
        true
    }

    /// TIOCSCTTY by `file`; `steal`: also takes the terminal from the session that has it.
    pub(super) fn set_controlling(&self, file: &File, steal: bool) -> Result<()> {
        let session = current().session();
        let leads = session == current().process_id();
        if leads && self.state.lock().session == session {
            return Ok(());
        }
        // As in open(2), who may only write gets no right to read.
        let may_read = || file.flags().readable() || can(CAP_SYS_ADMIN);
        if !leads || controlling().is_some() || !may_read() {
            return Err(Errno::EPERM);
        }
        if steal && can(CAP_SYS_ADMIN) {
            self.release();
        }
        if self.acquire() {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// TIOCGPGRP
    pub(super) fn foreground(&self) -> i32 {
        self.state.lock().foreground
    }

    /// The foreground process group; this must be the caller's controlling terminal.
    pub(super) fn own_foreground(&self) -> Result<i32> {
        self.own_session().map(|_| self.foreground())
    }

    /// The session, which must be the caller's.
    pub(super) fn own_session(&self) -> Result<i32> {
        let session = self.session()?;
        if session == current().session() {
            Ok(session)
        } else {
            Err(Errno::ENOTTY)
        }
    }

    /// TIOCGSID
    pub(super) fn session(&self) -> Result<i32> {
        match self.state.lock().session {
            0 => Err(Errno::ENOTTY),
            session => Ok(session),
        }
    }

    /// TIOCSPGRP
    pub(super) fn set_foreground(&self, group: i32) -> Result<()> {
        let session = current().session();
        if self.state.lock().session != session {
            return Err(Errno::ENOTTY);
        }
        self.check_background(SIGTTOU)?;
        if group < 0 {
            return Err(Errno::EINVAL);
        }
        match job::session_of_group(group) {
            None => return Err(Errno::ESRCH),
            Some(other) if other != session => return Err(Errno::EPERM),
            Some(_) => {}
        }
        self.state.lock().foreground = group;
        Ok(())
    }

    /// Stops a background process with the signal `number`, unless it ignores the signal (then a
    /// read fails with EIO) or nobody could continue it.
    fn check_background(&self, number: u32) -> Result<()> {
        let (session, foreground) = {
            let state = self.state.lock();
            (state.session, state.foreground)
        };
        let group = current().group();
        if session != current().session() || foreground == group || foreground == 0 {
            return Ok(());
        }
        if signal::is_ignored_or_blocked(number) {
            return if number == SIGTTIN {
                Err(Errno::EIO)
            } else {
                Ok(())
            };
        }
        if job::is_orphaned(group) {
            return Err(Errno::EIO);
        }
        _ = signal::send_group(group, number);
        Err(Errno::ERESTARTSYS)
    }

    pub(super) fn check_foreground_read(&self) -> Result<()> {
        self.check_background(SIGTTIN)
    }

    pub(super) fn check_foreground_write(&self) -> Result<()> {
        if self.state.lock().discipline.termios().local(TOSTOP) {
            self.check_change()
        } else {
            Ok(())
        }
    }

    /// Only the foreground group may change the terminal's settings.
    pub(super) fn check_change(&self) -> Result<()> {
        self.check_background(SIGTTOU)
    }
}
