//! Signals about open files: their receiver (F_SETOWN), the signal (F_SETSIG), and the events: each
//! time that the file becomes readable or writable (a socket: writable again) (O_ASYNC), or a lease
//! must be released.

use super::file::File;
use super::poll::{Events, PollTable, Watcher};
use super::weak_file::WeakFile;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, Once};
use crate::task::credentials::Credentials;
use crate::task::pid_table::{self, Pid, Several};
use crate::task::sched::cond_resched;
use crate::task::signal::{self, Info};
use crate::task::work_queue::{Link, Work, WorkQueue};
use crate::task::{Process, current, spawn_kernel};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::{F_OWNER_PGRP, F_OWNER_PID, F_OWNER_TID, FASYNC, SIGIO, SIGURG};

/// The event that a signal reports (`si_code`): POLL_IN, POLL_OUT, POLL_MSG and POLL_HUP.
const READ: i32 = 1;
const WRITE: i32 = 2;
const MESSAGE: i32 = 3;
const HANG_UP: i32 = 6;
/// POLLMSG
const MESSAGE_BIT: u32 = 0x400;

/// The receiver of signals about an open file.
#[derive(Clone, Copy)]
pub struct Owner {
    /// A thread, a process or a group of them (F_OWNER_*).
    pub kind: u32,
    id: Option<Pid>,
    /// Real and effective user of the thread that set it.
    pub users: [u32; 2],
    /// The signal that carries details about the file; 0 for a plain SIGIO.
    pub signal: u32,
    /// The descriptor that it reports.
    descriptor: i32,
}

impl Owner {
    const NOBODY: Owner = Owner {
        kind: F_OWNER_PID,
        id: None,
        users: [0; 2],
        signal: 0,
        descriptor: 0,
    };

    /// Its number; 0 for nobody, or if the receiver no longer exists.
    pub fn id(&self) -> i32 {
        let id = self.id.map_or(0, Pid::number);
        if exists(self.kind, id) { id } else { 0 }
    }

    /// Whether the user that set it may send signals to `target`.
    fn may_signal(&self, target: &Credentials) -> bool {
        let [uid, euid] = self.users;
        let same = |id| id == target.uid || id == target.suid;
        euid == 0 || same(euid) || same(uid)
    }
}

/// The signal settings of an open file, once there are any.
pub struct Sigio {
    state: Mutex<State>,
    /// Signals that the thread of [`GROUPS`] has yet to send.
    pending: Mutex<Vec<(Owner, Info)>>,
    link: Link,
}

/// The maximum number of a file's signals that wait for that thread. Further ones are dropped, as
/// when a process has no room for another.
const MOST_PENDING: usize = 16;

/// Sends signals to process groups. One change may notify as many files as there are descriptors,
/// and each of them a group of as many processes as there are: too much for a notification, which
/// runs with interrupts masked.
static GROUPS: WorkQueue = WorkQueue::new();

/// Creates that thread, if it does not exist yet.
fn start() -> Result<()> {
    static THREAD: Once<()> = Once::new();
    let send = || spawn_kernel("sigio", |_| GROUPS.run(), 0).map(drop);
    THREAD.try_call_once(send).map(drop)
}

struct State {
    owner: Owner,
    /// With O_ASYNC: the watched sources.
    watched: Option<PollTable>,
}

fn of(file: &File) -> Result<Arc<Sigio>> {
    file.sigio(|| {
        try_arc(Sigio {
            state: Mutex::new(State {
                owner: Owner::NOBODY,
                watched: None,
            }),
            pending: Mutex::new(Vec::new()),
            link: Link::default(),
        })
    })
}

fn with<T>(file: &File, change: impl FnOnce(&mut State) -> T) -> Result<T> {
    Ok(change(&mut of(file)?.state.lock()))
}

/// The receiver of signals about the file.
pub fn owner(file: &File) -> Result<Owner> {
    with(file, |state| state.owner)
}

/// Whether there is a thread, a process or a group (F_OWNER_*) with this number.
fn exists(kind: u32, id: i32) -> bool {
    match kind {
        F_OWNER_TID => pid_table::thread(id).is_some(),
        F_OWNER_PID => pid_table::process(id).is_some(),
        _ => pid_table::find_of_group(id, |_| Some(())).is_some(),
    }
}

/// Sets the receiver, which may be of any kind; ESRCH if the number is not in use, except for 0.
pub fn set_owner(file: &File, kind: u32, id: i32) -> Result<()> {
    if ![F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP].contains(&kind) {
        return Err(Errno::EINVAL);
    }
    let pid = pid_table::pid(id);
    if id != 0 && pid.is_none() {
        return Err(Errno::ESRCH);
    }
    if kind == F_OWNER_PGRP {
        start()?;
    }
    let users = current().with_credentials(|who| [who.uid, who.euid]);
    with(file, |state| {
        state.owner = Owner {
            kind,
            id: pid,
            users,
            ..state.owner
        };
    })
}

/// Sets the signal; 0 for a plain SIGIO. EINVAL.
pub fn set_signal(file: &File, signal: usize) -> Result<()> {
    if signal > signal::LAST as usize {
        return Err(Errno::EINVAL);
    }
    with(file, |state| state.owner.signal = signal as u32)
}

/// Makes the current process the receiver, unless there is one.
pub fn own(file: &File) -> Result<()> {
    match owner(file)?.id {
        Some(_) => Ok(()),
        None => set_owner(file, F_OWNER_PID, current().process_id()),
    }
}

/// Sets the descriptor that signals report.
pub fn set_descriptor(file: &File, fd: i32) -> Result<()> {
    with(file, |state| state.owner.descriptor = fd)
}

/// Starts or stops signals about readiness, for descriptor `fd`: sets or clears O_ASYNC.
pub fn watch(file: &Arc<File>, fd: i32, on: bool) -> Result<()> {
    let table = if on {
        let mut table = PollTable::new(try_arc(Listener(WeakFile::new(file)?))?);
        file.poll(Some(&mut table));
        table.check()?;
        Some(table)
    } else {
        None
    };
    let before = with(file, |state| {
        state.owner.descriptor = fd;
        file.set_flags(FASYNC, if on { FASYNC } else { 0 });
        core::mem::replace(&mut state.watched, table)
    });
    before.map(drop)
}

/// Watches a file with O_ASYNC.
struct Listener(WeakFile);

impl Watcher for Listener {
    fn changed(&self) -> bool {
        self.0.with(notify_ready).unwrap_or(false)
    }

    fn is_sparing(&self) -> bool {
        true
    }
}

/// Notifies the file's owner of its readiness, if it is ready.
fn notify_ready(file: &File) -> bool {
    let ready = file.poll(None);
    let code = match ready {
        _ if ready.contains(Events::IN) => READ,
        _ if ready.contains(Events::OUT) => WRITE,
        _ if ready.contains(Events::HANG_UP) => HANG_UP,
        _ => return false,
    };
    notify(file, code, ready.with_normal().bits(), None);
    true
}

/// Notifies the file's owner that another open conflicts with its lease.
pub fn notify_message(file: &File) {
    notify(file, MESSAGE, message(), None);
}

/// Notifies the file's owner that the directory changed that it watches through a descriptor.
pub fn notify_message_of(file: &File, descriptor: i32) {
    notify(file, MESSAGE, message(), Some(descriptor));
}

fn message() -> u32 {
    Events::IN.with_normal().bits() | MESSAGE_BIT
}

fn notify(file: &File, code: i32, band: u32, descriptor: Option<i32>) {
    send(file, |owner| match owner.signal {
        0 => Info::kernel(SIGIO),
        signal => {
            let descriptor = descriptor.unwrap_or(owner.descriptor);
            Info::ready(signal, code, band, descriptor)
        }
    });
}

/// Notifies the file's owner of an out-of-band byte.
pub fn notify_urgent(file: &File) {
    send(file, |_| Info::kernel(SIGURG));
}

/// Sends a signal to the file's owner. A receiver that no longer exists, or has no room for another
/// signal, is not notified.
fn send(file: &File, info: impl FnOnce(&Owner) -> Info) {
    let Ok(sigio) = of(file) else { return };
    let owner = sigio.state.lock().owner;
    let Some(id) = owner.id else { return };
    let info = info(&owner);
    let may = |target: &Credentials| owner.may_signal(target);
    match owner.kind {
        F_OWNER_TID => {
            if let Some(thread) = id.thread().filter(|thread| thread.with_credentials(may)) {
                _ = signal::send_thread(&thread, &info);
            }
        }
        F_OWNER_PID => {
            let found = id.with_credentials().filter(|(_, target)| may(target));
            if let Some((process, _)) = found {
                _ = signal::send_info(&process, None, &info);
            }
        }
        _ => sigio.send_later(owner, info),
    }
}

impl Sigio {
    fn send_later(self: Arc<Self>, owner: Owner, info: Info) {
        let mut pending = self.pending.lock();
        let is_first = pending.is_empty();
        if pending.len() == MOST_PENDING || pending.try_reserve(1).is_err() {
            return;
        }
        pending.push((owner, info));
        drop(pending);
        if is_first {
            GROUPS.queue(self);
        }
    }
}

impl Work for Sigio {
    fn link(&self) -> &Link {
        &self.link
    }

    fn run(self: Arc<Self>) {
        let pending = core::mem::take(&mut *self.pending.lock());
        for (owner, info) in pending {
            let Some(group) = owner.id.map(Pid::number) else {
                continue;
            };
            let may = |target: &Process| target.with_credentials(|who| owner.may_signal(who));
            _ = pid_table::send_each(Several::Group(group), info.number(), may, |process| {
                _ = signal::send_info(process, None, &info);
                cond_resched();
            });
        }
    }
}
