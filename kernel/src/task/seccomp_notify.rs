//! Seccomp notifications (SECCOMP_RET_USER_NOTIF): an open file, from which questions are
//! received and to which answers are sent.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use linux_raw_sys::general::O_RDWR;
use linux_raw_sys::ptrace::SECCOMP_USER_NOTIF_FLAG_CONTINUE;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use tree::{Member, Tree};

use super::current;
use super::sched::cond_resched;
use super::wait_queue::{WaitError, WaitQueue};
use crate::arch::Call;
use crate::errno::{Errno, Result};
use crate::fs::fdtable::{FdTable, Replaced};
use crate::fs::file::FileOps;
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::fs::{File, OpenFlags, anonymous};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::sync::Mutex;

/// Requests (`include/uapi/linux/seccomp.h`); the second number of ID_VALID is its original
/// definition.
const RECEIVE: u32 = 0xc050_2100;
const SEND: u32 = 0xc018_2101;
const IS_VALID: u32 = 0x4008_2102;
const IS_VALID_OLD: u32 = 0x8008_2102;
const ADD_FILE: u32 = 0x4018_2103;
const SET_FLAGS: u32 = 0x4008_2104;
/// SECCOMP_ADDFD_FLAG_SETFD and _SEND.
const ADD_AT: u32 = 1;
const ADD_AND_SEND: u32 = 2;
/// O_CLOEXEC for a file that is added.
const CLOSE_ON_EXEC: u32 = linux_raw_sys::general::O_CLOEXEC;

/// `struct seccomp_notif`: a question, with the `struct seccomp_data` that the filter saw.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Notice {
    id: u64,
    pid: i32,
    flags: u32,
    number: i32,
    architecture: u32,
    pc: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Reply {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct AddFile {
    id: u64,
    flags: u32,
    from: i32,
    to: u32,
    file_flags: u32,
}

/// `struct seccomp_notif_sizes`
pub const SIZES: [u16; 3] = [size_of::<Notice>() as u16, size_of::<Reply>() as u16, 64];

/// The state of a question.
#[derive(Clone, Copy)]
enum Stage {
    New,
    Received,
    Answered(Reply),
}

struct Question {
    notice: Notice,
    stage: Stage,
    /// Files for the asking thread, which installs them itself, so that no other process can get
    /// them, nor a thread that no longer asks.
    gifts: VecDeque<Arc<Gift>>,
    /// The queue of the thread that waits for an answer.
    asker: Arc<WaitQueue>,
}

impl Question {
    fn is_answered(&self) -> bool {
        matches!(self.stage, Stage::Answered(_))
    }

    /// Whether the asking thread has something to do.
    fn is_due(&self) -> bool {
        !self.gifts.is_empty() || self.is_answered()
    }
}

impl Member for Question {
    type Key = u64;
    /// Whether any question is new, and whether any waits for its answer.
    type Sum = (bool, bool);

    fn key(&self) -> u64 {
        self.notice.id
    }

    fn sum(&self) -> (bool, bool) {
        let is_received = matches!(self.stage, Stage::Received);
        (matches!(self.stage, Stage::New), is_received)
    }

    fn join(one: (bool, bool), other: (bool, bool)) -> (bool, bool) {
        (one.0 || other.0, one.1 || other.1)
    }
}

/// A file in transit to the asking thread.
struct Gift {
    request: AddFile,
    file: Arc<File>,
    /// The descriptor that it got.
    result: Mutex<Option<Result<i32>>>,
    /// The queue of the supervisor that waits for this result.
    giver: WaitQueue,
}

impl Gift {
    /// Whether adding the descriptor also answers (SECCOMP_ADDFD_FLAG_SEND).
    fn is_reply(&self) -> bool {
        self.request.flags & ADD_AND_SEND != 0
    }

    /// Installs the file in the table of the current process; returns its descriptor there and what
    /// it replaces.
    fn enter<'a>(&self, files: &'a FdTable) -> Result<(i32, Option<Replaced<'a>>)> {
        let (request, file) = (&self.request, self.file.clone());
        let limit = current().open_files_limit();
        let closes = request.file_flags & CLOSE_ON_EXEC != 0;
        if request.flags & ADD_AT == 0 {
            Ok((files.add_from(0, limit, file, closes)?, None))
        } else if request.to as usize >= limit {
            Err(Errno::EBADF)
        } else {
            let replaced = files.replace(request.to as usize, file, closes)?;
            Ok((request.to as i32, Some(replaced)))
        }
    }

    /// Reports the result.
    fn complete(&self, result: Result<i32>) {
        *self.result.lock() = Some(result);
        self.giver.wake_all();
    }

    fn result(&self) -> Option<Result<i32>> {
        *self.result.lock()
    }
}

/// The questions of a filter.
pub struct Listener {
    questions: Mutex<Tree<Question>>,
    /// Supervisors wait here.
    changed: Arc<WaitSource>,
    /// Whether a received question can only be interrupted by the end of the asking thread.
    is_killable: bool,
    /// The file is closed, or no thread has the filter any more.
    deaf: AtomicBool,
    unused: AtomicBool,
}

/// The open file, whose end closes the listener.
struct ListenerFile(Arc<Listener>);

impl Drop for ListenerFile {
    fn drop(&mut self) {
        self.0.deaf.store(true, Release);
        let mut from = 0;
        while let Some((id, asker)) = self.0.asker_from(from) {
            asker.wake_all();
            cond_resched();
            from = id + 1;
        }
    }
}

impl Listener {
    /// A listener, and the file by which it is accessed.
    pub fn new(is_killable: bool) -> Result<(Arc<Self>, Arc<File>)> {
        let listener = try_arc(Listener {
            questions: Mutex::new(Tree::new()),
            changed: WaitSource::new()?,
            is_killable,
            deaf: AtomicBool::new(false),
            unused: AtomicBool::new(false),
        })?;
        let handle = try_arc(ListenerFile(listener.clone()))?;
        let file = anonymous::file("seccomp notify", handle, OpenFlags(O_RDWR))?;
        Ok((listener, file))
    }

    /// Closes the listener when no thread has the filter any more.
    pub fn leave(&self) {
        self.unused.store(true, Release);
        self.changed.notify();
    }

    /// The first question with this number or a later one, and the queue of its waiter.
    fn asker_from(&self, id: u64) -> Option<(u64, Arc<WaitQueue>)> {
        let questions = self.questions.lock();
        let question = questions.from(&id)?;
        Some((question.notice.id, question.asker.clone()))
    }

    /// Asks about the current thread's call: `None` if it may be made, else its result.
    pub fn notify_and_wait(&self, call: &Call) -> Option<isize> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Relaxed);
        let notice = Notice {
            id,
            pid: current().tid(),
            flags: 0,
            number: call.number,
            architecture: call.architecture,
            pc: call.pc as u64,
            arguments: call.arguments.map(|argument| argument as u64),
        };
        let Ok(asker) = try_arc(WaitQueue::new()) else {
            return Some(Errno::ENOMEM.result());
        };
        let question = Question {
            notice,
            stage: Stage::New,
            gifts: VecDeque::new(),
            asker: asker.clone(),
        };
        if self.questions.lock().insert(question).is_err() {
            return Some(Errno::ENOMEM.result());
        }
        self.changed.notify();
        let waited = self.wait_reply(id, &asker);
        match self.remove_request(id) {
            Some(answer) if answer.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE != 0 => None,
            Some(Reply {
                error: 0, value, ..
            }) => Some(value as isize),
            Some(answer) => Some(answer.error as isize),
            None if waited.is_err() => Some(Errno::ERESTARTSYS.result()),
            None => Some(Errno::ENOSYS.result()),
        }
    }

    /// Waits until the current thread's question has an answer, and installs the files that it is
    /// given.
    fn wait_reply(&self, id: u64, asker: &WaitQueue) -> core::result::Result<(), WaitError> {
        let is_due = || self.deaf.load(Acquire) || self.looks(id, Question::is_due);
        let is_received = || self.looks(id, |one| one.sum().1);
        loop {
            if let Err(error) = asker.wait_interruptible(is_due, None) {
                if !(self.is_killable && is_received()) {
                    return Err(error);
                }
                asker.wait_killable(|| is_due() || !is_received())?;
            }
            // A gift may be withdrawn after this, and replaced by another.
            let next = self.change(id, |one| Ok((one.gifts.pop_front(), one.is_answered())));
            match next {
                Ok((Some(gift), _)) => self.take(id, &gift),
                Ok((None, false)) if !self.deaf.load(Acquire) => {}
                _ => return Ok(()),
            }
        }
    }

    /// Installs a gift that can no longer be withdrawn.
    fn take(&self, id: u64, gift: &Gift) {
        let files = current().files();
        let (result, replaced) = match gift.enter(&files) {
            Ok((fd, replaced)) => (Ok(fd), replaced),
            Err(error) => (Err(error), None),
        };
        if gift.is_reply() {
            // The current thread's question exists until it is removed.
            _ = self.change(id, |question| {
                question.stage = match result {
                    Ok(fd) => Stage::Answered(Reply {
                        id,
                        value: fd.into(),
                        error: 0,
                        flags: 0,
                    }),
                    Err(_) => Stage::Received,
                };
                Ok(())
            });
        }
        gift.complete(result);
        self.changed.notify();
        // A socket may linger here, for which the supervisor does not wait.
        drop(replaced);
    }

    /// Removes a question; returns its answer. Gifts that were not installed are dropped.
    fn remove_request(&self, id: u64) -> Option<Reply> {
        let gone = self.questions.lock().remove(&id)?;
        for gift in &gone.gifts {
            gift.complete(Err(Errno::ESRCH));
        }
        // A file that was to be the answer does not count if it was not installed.
        let untaken = gone.gifts.iter().any(|gift| gift.is_reply());
        match gone.stage {
            Stage::Answered(answer) if !untaken => Some(answer),
            _ => None,
        }
    }

    fn looks(&self, id: u64, wanted: impl FnOnce(&Question) -> bool) -> bool {
        self.questions.lock().get(&id).is_some_and(wanted)
    }

    /// Whether any question is new, and whether any waits for its answer.
    fn summary(&self) -> (bool, bool) {
        let questions = self.questions.lock();
        let has_new = questions.first(|sum| sum.0).is_some();
        (has_new, questions.first(|sum| sum.1).is_some())
    }

    /// Calls `f` with a question.
    ///
    /// # Errors
    /// ENOENT, and those of `f`.
    fn change<T>(&self, id: u64, f: impl FnOnce(&mut Question) -> Result<T>) -> Result<T> {
        let mut questions = self.questions.lock();
        let mut question = questions.remove(&id).ok_or(Errno::ENOENT)?;
        let result = f(&mut question);
        // The question fits where it was.
        _ = questions.insert(question);
        result
    }

    fn receive(&self, to: usize) -> Result<usize> {
        let old = UserPtr::<[u8; size_of::<Notice>()]>::new(to).read()?;
        if old.iter().any(|&byte| byte != 0) {
            return Err(Errno::EINVAL);
        }
        self.changed
            .wait(|| self.summary().0 || self.unused.load(Acquire))?;
        let notice = {
            let mut questions = self.questions.lock();
            let next = questions.first(|sum| sum.0).ok_or(Errno::ENOENT)?.notice;
            if let Some(mut question) = questions.remove(&next.id) {
                question.stage = Stage::Received;
                _ = questions.insert(question);
            }
            next
        };
        self.changed.notify();
        let written = UserPtr::new(to).write(&notice);
        if written.is_err() {
            let asker = self.change(notice.id, |question| {
                question.stage = Stage::New;
                Ok(question.asker.clone())
            });
            // The asker can be interrupted again, and other supervisors can receive the question.
            asker.iter().for_each(|asker| asker.wake_all());
            self.changed.notify();
        }
        written.map(|()| 0)
    }

    fn send(&self, answer: Reply) -> Result<usize> {
        let goes_on = answer.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE != 0;
        let says_more = answer.error != 0 || answer.value != 0;
        if answer.flags & !SECCOMP_USER_NOTIF_FLAG_CONTINUE != 0 || goes_on && says_more {
            return Err(Errno::EINVAL);
        }
        let asker = self.change(answer.id, |question| match question.stage {
            Stage::Received => {
                question.stage = Stage::Answered(answer);
                Ok(question.asker.clone())
            }
            _ => Err(Errno::EINPROGRESS),
        })?;
        asker.wake_all();
        Ok(0)
    }

    /// Gives a file of the current process to the asking thread; returns the descriptor there.
    fn add_file(&self, request: AddFile) -> Result<usize> {
        if request.flags & !(ADD_AT | ADD_AND_SEND) != 0
            || request.file_flags & !CLOSE_ON_EXEC != 0
            || request.to != 0 && request.flags & ADD_AT == 0
        {
            return Err(Errno::EINVAL);
        }
        let file = current().files().get(request.from)?;
        let gift = try_arc(Gift {
            request,
            file,
            result: Mutex::new(None),
            giver: WaitQueue::new(),
        })?;
        self.give(request.id, &gift)?.wake_all();
        let is_settled = || gift.result().is_some();
        let waited = gift.giver.wait_interruptible(is_settled, None);
        if waited.is_err() && self.take_back(request.id, &gift) {
            return Err(Errno::ERESTARTSYS);
        }
        // The asking thread is installing it, and does not wait for anything.
        let waited = gift.giver.wait_killable(is_settled);
        waited.map_err(|_| Errno::EINTR)?;
        let result = gift.result().unwrap_or(Err(Errno::ESRCH));
        result.map(|fd| fd as usize)
    }

    /// Gives a file to the asking thread, which the caller then wakes; with SECCOMP_ADDFD_FLAG_SEND
    /// the descriptor's number is the reply.
    ///
    /// # Errors
    /// ENOENT, EINPROGRESS (there is an answer, or the question was not received), EBUSY (it would
    /// be the answer, and there is another gift), ENOMEM.
    fn give(&self, id: u64, gift: &Arc<Gift>) -> Result<Arc<WaitQueue>> {
        self.change(id, |question| {
            if !matches!(question.stage, Stage::Received) {
                return Err(Errno::EINPROGRESS);
            }
            if gift.is_reply() && !question.gifts.is_empty() {
                return Err(Errno::EBUSY);
            }
            let gifts = &mut question.gifts;
            gifts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            gifts.push_back(gift.clone());
            if gift.is_reply() {
                let (value, error, flags) = (0, 0, 0);
                question.stage = Stage::Answered(Reply {
                    id,
                    value,
                    error,
                    flags,
                });
            }
            Ok(question.asker.clone())
        })
    }

    /// Withdraws a file; false if the asking thread has already taken it.
    fn take_back(&self, id: u64, gift: &Arc<Gift>) -> bool {
        let taken = self.change(id, |question| {
            let mut gifts = question.gifts.iter();
            let at = gifts.position(|other| Arc::ptr_eq(other, gift));
            if at.is_some() && gift.is_reply() {
                question.stage = Stage::Received;
            }
            Ok(at.and_then(|at| question.gifts.remove(at)))
        });
        matches!(taken, Ok(Some(_)))
    }
}

impl FileOps for ListenerFile {
    fn is_stream(&self) -> bool {
        true
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        let listener = &self.0;
        match request {
            RECEIVE => listener.receive(argument),
            SEND => listener.send(UserPtr::<Reply>::new(argument).read()?),
            IS_VALID | IS_VALID_OLD => {
                let id = UserPtr::<u64>::new(argument).read()?;
                match listener.looks(id, |one| one.sum().1) {
                    true => Ok(0),
                    false => Err(Errno::ENOENT),
                }
            }
            ADD_FILE => listener.add_file(UserPtr::<AddFile>::new(argument).read()?),
            // Whether an answer wakes the asking thread on the same CPU.
            SET_FLAGS if argument <= 1 => Ok(0),
            _ => Err(Errno::EINVAL),
        }
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.0.changed);
        }
        let (has_new, has_received) = self.0.summary();
        let mut events = Events::empty();
        events.set(Events::IN, has_new);
        events.set(Events::OUT, has_received);
        events.set(Events::HANG_UP, self.0.unused.load(Acquire));
        events
    }
}
