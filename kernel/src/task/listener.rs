//! Who decides on system calls that a filter does not decide on (SECCOMP_RET_USER_NOTIF): an open file, from which questions are
//! received and to which answers are sent.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use linux_raw_sys::general::O_RDWR;
use linux_raw_sys::ptrace::SECCOMP_USER_NOTIF_FLAG_CONTINUE;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::current;
use super::wait::{WaitError, WaitQueue};
use crate::arch::Call;
use crate::errno::{Errno, Result};
use crate::fs::file::FileOps;
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::fs::{File, OpenFlags, anonymous};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::sync::Mutex;

/// Requests (`include/uapi/linux/seccomp.h`); the second number of ID_VALID is how it was defined at first.
const RECEIVE: u32 = 0xc050_2100;
const SEND: u32 = 0xc018_2101;
const IS_VALID: u32 = 0x4008_2102;
const IS_VALID_OLD: u32 = 0x8008_2102;
const ADD_FILE: u32 = 0x4018_2103;
const SET_FLAGS: u32 = 0x4008_2104;
/// SECCOMP_ADDFD_FLAG_SETFD and _SEND.
const ADD_AT: u32 = 1;
const ADD_AND_SEND: u32 = 2;
/// O_CLOEXEC of a file that is added.
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
struct Answer {
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
pub const SIZES: [u16; 3] = [size_of::<Notice>() as u16, size_of::<Answer>() as u16, 64];

/// How far a question has come.
#[derive(Clone, Copy)]
enum Stage {
    New,
    Received,
    Answered(Answer),
}

struct Question {
    notice: Notice,
    stage: Stage,
    /// Files for who asks, who takes them itself: no other process can get them, nor one that asks no more.
    gifts: VecDeque<Arc<Gift>>,
}

/// A file on its way to who asks.
struct Gift {
    request: AddFile,
    file: Arc<File>,
    /// The descriptor that it got.
    result: Mutex<Option<Result<i32>>>,
}

impl Gift {
    /// Enters the file among the descriptors of the current process.
    fn enter(&self) -> Result<i32> {
        let (request, file) = (&self.request, self.file.clone());
        let files = current().files();
        let limit = current().open_files_limit();
        let closes = request.file_flags & CLOSE_ON_EXEC != 0;
        if request.flags & ADD_AT == 0 {
            files.add_from(0, limit, file, closes)
        } else if request.to as usize >= limit {
            Err(Errno::EBADF)
        } else {
            files.set(request.to as usize, file, closes)?;
            Ok(request.to as i32)
        }
    }
}

/// The questions of a filter.
pub struct Listener {
    questions: Mutex<VecDeque<Question>>,
    /// Those who asked wait here, and those who listen there.
    answered: WaitQueue,
    changed: Arc<WaitSource>,
    /// The file is closed; nobody has the filter any more.
    deaf: AtomicBool,
    unused: AtomicBool,
}

/// The open file; its end is that of listening.
struct Ears(Arc<Listener>);

impl Drop for Ears {
    fn drop(&mut self) {
        self.0.deaf.store(true, Release);
        self.0.answered.wake_all();
    }
}

impl Listener {
    /// A listener, and the file by which it is reached.
    pub fn new() -> Result<(Arc<Self>, Arc<File>)> {
        let listener = try_arc(Listener {
            questions: Mutex::new(VecDeque::new()),
            answered: WaitQueue::new(),
            changed: WaitSource::new()?,
            deaf: AtomicBool::new(false),
            unused: AtomicBool::new(false),
        })?;
        let ears = try_arc(Ears(listener.clone()))?;
        let file = anonymous::file("seccomp notify", ears, OpenFlags(O_RDWR))?;
        Ok((listener, file))
    }

    /// Nobody has the filter any more.
    pub fn leave(&self) {
        self.unused.store(true, Release);
        self.changed.notify();
    }

    /// Asks about the current thread's call: none if it may be made, else its result.
    pub fn ask(&self, call: &Call) -> Option<isize> {
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
        {
            let mut questions = self.questions.lock();
            if questions.try_reserve(1).is_err() {
                return Some(Errno::ENOMEM.result());
            }
            questions.push_back(Question {
                notice,
                stage: Stage::New,
                gifts: VecDeque::new(),
            });
        }
        self.changed.notify();
        let waited = self.await_answer(id);
        let answer = self.answer(id);
        self.forget(id);
        match answer {
            Some(answer) if answer.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE != 0 => None,
            Some(Answer {
                error: 0, value, ..
            }) => Some(value as isize),
            Some(answer) => Some(answer.error as isize),
            None if waited.is_err() => Some(Errno::ERESTARTSYS.result()),
            None => Some(Errno::ENOSYS.result()),
        }
    }

    /// Waits until the current thread's question has an answer, and takes the files that it is given.
    fn await_answer(&self, id: u64) -> core::result::Result<(), WaitError> {
        loop {
            let is_due =
                || self.deaf.load(Acquire) || self.answer(id).is_some() || self.gift(id).is_some();
            self.answered.wait_interruptible(is_due, None)?;
            let Some(gift) = self.gift(id) else {
                return Ok(());
            };
            let result = gift.enter();
            self.take_gift(id, &gift, result);
        }
    }

    fn gift(&self, id: u64) -> Option<Arc<Gift>> {
        let questions = self.questions.lock();
        let question = questions.iter().find(|one| one.notice.id == id)?;
        question.gifts.front().cloned()
    }

    /// Says what came of a gift, which is an answer too if it was to be one.
    fn take_gift(&self, id: u64, gift: &Arc<Gift>, result: Result<i32>) {
        let mut questions = self.questions.lock();
        if let Some(question) = questions.iter_mut().find(|one| one.notice.id == id) {
            question.gifts.retain(|other| !Arc::ptr_eq(other, gift));
            if let Ok(fd) = result
                && gift.request.flags & ADD_AND_SEND != 0
            {
                question.stage = Stage::Answered(Answer {
                    id,
                    value: fd.into(),
                    error: 0,
                    flags: 0,
                });
            }
        }
        drop(questions);
        *gift.result.lock() = Some(result);
        self.changed.notify();
    }

    /// A question is over. Gifts that were not taken have nobody to take them.
    fn forget(&self, id: u64) {
        let mut questions = self.questions.lock();
        let at = questions.iter().position(|one| one.notice.id == id);
        let gone = at.and_then(|at| questions.remove(at));
        drop(questions);
        for gift in gone.iter().flat_map(|question| &question.gifts) {
            *gift.result.lock() = Some(Err(Errno::ESRCH));
        }
        if gone.is_some_and(|question| !question.gifts.is_empty()) {
            self.changed.notify();
        }
    }

    fn answer(&self, id: u64) -> Option<Answer> {
        let questions = self.questions.lock();
        let question = questions.iter().find(|one| one.notice.id == id)?;
        match question.stage {
            Stage::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    fn has(&self, wanted: impl Fn(Stage) -> bool) -> bool {
        let questions = self.questions.lock();
        questions.iter().any(|question| wanted(question.stage))
    }

    /// Calls `f` with the stage of a question that was received; ENOENT where there is none, `EINPROGRESS` when it has an answer.
    fn with<T>(&self, id: u64, f: impl FnOnce(&mut Stage) -> T) -> Result<T> {
        let mut questions = self.questions.lock();
        let question = questions.iter_mut().find(|one| one.notice.id == id);
        let question = question.ok_or(Errno::ENOENT)?;
        match question.stage {
            Stage::Received => Ok(f(&mut question.stage)),
            _ => Err(Errno::EINPROGRESS),
        }
    }

    fn receive(&self, to: usize) -> Result<usize> {
        let old = UserPtr::<[u8; size_of::<Notice>()]>::new(to).read()?;
        if old.iter().any(|&byte| byte != 0) {
            return Err(Errno::EINVAL);
        }
        let is_new = |stage| matches!(stage, Stage::New);
        self.changed
            .wait(|| self.has(is_new) || self.unused.load(Acquire))?;
        let notice = {
            let mut questions = self.questions.lock();
            let next = questions.iter_mut().find(|one| is_new(one.stage));
            let next = next.ok_or(Errno::ENOENT)?;
            next.stage = Stage::Received;
            next.notice
        };
        self.changed.notify();
        UserPtr::new(to).write(&notice).inspect_err(|_| {
            _ = self.with(notice.id, |stage| *stage = Stage::New);
        })?;
        Ok(0)
    }

    fn send(&self, answer: Answer) -> Result<usize> {
        let goes_on = answer.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE != 0;
        let says_more = answer.error != 0 || answer.value != 0;
        if answer.flags & !SECCOMP_USER_NOTIF_FLAG_CONTINUE != 0 || goes_on && says_more {
            return Err(Errno::EINVAL);
        }
        self.with(answer.id, |stage| *stage = Stage::Answered(answer))?;
        self.answered.wake_all();
        Ok(0)
    }

    /// Gives a file of the current process to the one that asks; the descriptor there.
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
        })?;
        self.give(request.id, &gift)?;
        self.answered.wake_all();
        let is_taken = || gift.result.lock().is_some();
        let waited = self.changed.wait(is_taken);
        if waited.is_err() {
            self.take_back(request.id, &gift);
        }
        let result = *gift.result.lock();
        match result {
            Some(result) => result.map(|fd| fd as usize),
            None => Err(waited.err().unwrap_or(Errno::ESRCH)),
        }
    }

    /// Puts a gift before who asks. EBUSY where it were to be the answer and another is there.
    fn give(&self, id: u64, gift: &Arc<Gift>) -> Result<()> {
        let mut questions = self.questions.lock();
        let question = questions.iter_mut().find(|one| one.notice.id == id);
        let question = question.ok_or(Errno::ENOENT)?;
        let answers = |gift: &Arc<Gift>| gift.request.flags & ADD_AND_SEND != 0;
        if !matches!(question.stage, Stage::Received) || question.gifts.iter().any(answers) {
            return Err(Errno::EINPROGRESS);
        }
        if answers(gift) && !question.gifts.is_empty() {
            return Err(Errno::EBUSY);
        }
        let gifts = &mut question.gifts;
        gifts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        gifts.push_back(gift.clone());
        Ok(())
    }

    /// Takes a gift back that was not taken.
    fn take_back(&self, id: u64, gift: &Arc<Gift>) {
        let mut questions = self.questions.lock();
        if let Some(question) = questions.iter_mut().find(|one| one.notice.id == id) {
            question.gifts.retain(|other| !Arc::ptr_eq(other, gift));
        }
    }
}

impl FileOps for Ears {
    fn is_stream(&self) -> bool {
        true
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        let listener = &self.0;
        match request {
            RECEIVE => listener.receive(argument),
            SEND => listener.send(UserPtr::<Answer>::new(argument).read()?),
            IS_VALID | IS_VALID_OLD => {
                let id = UserPtr::<u64>::new(argument).read()?;
                match listener.with(id, |_| 0) {
                    Err(_) => Err(Errno::ENOENT),
                    valid => valid,
                }
            }
            ADD_FILE => listener.add_file(UserPtr::<AddFile>::new(argument).read()?),
            // Whether who answers shall wake who asks on its own CPU.
            SET_FLAGS if argument <= 1 => Ok(0),
            _ => Err(Errno::EINVAL),
        }
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.0.changed);
        }
        let mut events = Events::empty();
        events.set(Events::IN, self.0.has(|stage| matches!(stage, Stage::New)));
        let received = self.0.has(|stage| matches!(stage, Stage::Received));
        events.set(Events::OUT, received);
        events.set(Events::HANG_UP, self.0.unused.load(Acquire));
        events
    }
}
