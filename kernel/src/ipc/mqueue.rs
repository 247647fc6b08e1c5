//! POSIX message queues: named files, whose messages are received by priority.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::{
    CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_SYS_RESOURCE, O_ACCMODE, O_CREAT, O_EXCL, O_NONBLOCK,
    O_RDONLY, O_RDWR, O_WRONLY, RLIMIT_MSGQUEUE, S_IFREG, SIGEV_NONE, SIGEV_SIGNAL, SIGEV_THREAD,
};

use super::registry::{READ, WRITE};
use crate::errno::{Errno, Result};
use crate::fs::dentry::Dentry;
use crate::fs::file::FileOps;
use crate::fs::inode::{Attr, Inode, Kind, SetAttr};
use crate::fs::io::Sink;
use crate::fs::path::Path;
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::fs::simple_attr::SimpleAttr;
use crate::fs::{self, File, OpenFlags};
use crate::hash::{self, HashMap};
use crate::mm::heap::{try_arc, try_concat, try_format};
use crate::net::netlink;
use crate::sync::Mutex;
use crate::task::clock::Deadline;
use crate::task::signal::{self, Info};
use crate::task::user::Charge;
use crate::task::{Process, current};

/// The maximum number of queues (`/proc/sys/fs/mqueue/queues_max`).
pub static MOST: AtomicUsize = AtomicUsize::new(256);
/// The maximum number of messages in a queue, and of bytes in a message, that unprivileged programs
/// may ask for (`msg_max`, `msgsize_max`).
pub static MOST_MESSAGES: AtomicUsize = AtomicUsize::new(10);
pub static LARGEST_MESSAGE: AtomicUsize = AtomicUsize::new(8192);
/// The size of a queue that is created without attributes, up to those limits (`msg_default`,
/// `msgsize_default`).
pub static USUAL_MESSAGES: AtomicUsize = AtomicUsize::new(10);
pub static USUAL_MESSAGE: AtomicUsize = AtomicUsize::new(8192);
/// The limits for everybody.
const HARD: Attributes = Attributes {
    messages: 65536,
    bytes: 16 << 20,
};
/// The number of priorities; all are lower than this (MQ_PRIO_MAX).
pub const PRIORITIES: u32 = 32768;
/// The longest name, in bytes.
const NAME_MAX: usize = 255;

/// The maximum number of messages in a queue, and of bytes in a message.
#[derive(Clone, Copy)]
pub struct Attributes {
    /// Messages.
    pub messages: usize,
    /// Bytes in a message.
    pub bytes: usize,
}

impl Attributes {
    /// The bytes that a queue counts against its owner's limit: its messages, with Linux's overhead
    /// for each.
    fn charge(&self) -> usize {
        const BESIDE: usize = 48 + 48;
        self.messages * (self.bytes + BESIDE)
    }
}

struct Message {
    priority: u32,
    data: Vec<u8>,
}

/// A request to be notified of the next message that arrives at the empty queue.
struct Notice {
    process: Arc<Process>,
    /// The exec_id of the program that made the request: a later program may be another user's.
    program: u64,
    method: NotifyMethod,
}

/// How a process is notified of a message.
pub enum NotifyMethod {
    /// Not at all: the request only keeps others from making one.
    Nothing,
    /// By a signal with a value.
    Signal(u32, u64),
    /// With these bytes, which are received from a netlink socket. The last byte gives the reason.
    Socket(Arc<File>, [u8; COOKIE]),
}

/// The number of bytes received from a netlink socket (NOTIFY_COOKIE_LEN).
pub const COOKIE: usize = 32;
/// Reasons of a notification (NOTIFY_WOKENUP, NOTIFY_REMOVED).
const CAME: u8 = 1;
const REMOVED: u8 = 2;

impl Notice {
    fn notify(self, why: u8) {
        // If there is no room for the notification, it is lost, as on Linux.
        _ = match self.method {
            NotifyMethod::Signal(number, value)
                if why == CAME && number != 0 && self.process.exec_id() == self.program =>
            {
                signal::send_info(&self.process, None, &Info::queue(number, value))
            }
            NotifyMethod::Socket(socket, mut cookie) => {
                cookie[COOKIE - 1] = why;
                netlink::notify(&socket, &cookie)
            }
            _ => Ok(()),
        };
    }
}

/// A queue.
pub struct Queue {
    attributes: Attributes,
    _charge: Charge,
    attr: SimpleAttr,
    state: Mutex<State>,
    readable: Arc<WaitSource>,
    writable: Arc<WaitSource>,
}

struct State {
    /// Ordered by falling priority, then by age.
    messages: VecDeque<Message>,
    notice: Option<Notice>,
    /// The number of threads that wait for a message.
    receivers: usize,
}

/// The queues by name.
static QUEUES: Mutex<HashMap<Vec<u8>, Arc<Queue>>> = Mutex::new(hash::new());

fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Errno::ENOENT),
        b"." | b".." => Err(Errno::EACCES),
        _ if name.contains(&b'/') => Err(Errno::EACCES),
        _ if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

fn find(name: &[u8]) -> Option<Arc<Queue>> {
    QUEUES.lock().get(name).cloned()
}

/// Opens the queue `name`; its permissions must allow the access that `flags` request.
///
/// # Errors
/// ENOENT, EEXIST, EACCES, ENAMETOOLONG, EINVAL (no access mode), ENOMEM.
pub fn open(name: &[u8], flags: u32) -> Result<Arc<File>> {
    check_name(name)?;
    let queue = find(name).ok_or(Errno::ENOENT)?;
    if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
        return Err(Errno::EEXIST);
    }
    let wanted = match flags & O_ACCMODE {
        O_RDONLY => READ,
        O_WRONLY => WRITE,
        O_RDWR => READ | WRITE,
        _ => return Err(Errno::EINVAL),
    };
    queue.check(wanted)?;
    file(name, queue, flags)
}

/// Creates the queue `name` and opens it.
///
/// # Errors
/// EEXIST, EACCES, ENAMETOOLONG, EINVAL (attributes out of range), ENOSPC, ENOMEM.
pub fn create(
    name: &[u8],
    flags: u32,
    mode: u32,
    attributes: Option<Attributes>,
) -> Result<Arc<File>> {
    check_name(name)?;
    let soft = Attributes {
        messages: MOST_MESSAGES.load(Relaxed),
        bytes: LARGEST_MESSAGE.load(Relaxed),
    };
    let attributes = attributes.unwrap_or_else(|| Attributes {
        messages: USUAL_MESSAGES.load(Relaxed).min(soft.messages),
        bytes: USUAL_MESSAGE.load(Relaxed).min(soft.bytes),
    });
    let privileged = crate::task::can(CAP_SYS_RESOURCE);
    let limit = if privileged { HARD } else { soft };
    if !(1..=limit.messages).contains(&attributes.messages)
        || !(1..=limit.bytes).contains(&attributes.bytes)
    {
        return Err(Errno::EINVAL);
    }
    let is_full = |count| count >= MOST.load(Relaxed) && !privileged;
    if is_full(QUEUES.lock().len()) {
        return Err(Errno::ENOSPC);
    }
    let most = crate::task::rlimit(RLIMIT_MSGQUEUE);
    let charge = Charge::new(|user| &user.queue_bytes, attributes.charge(), most);
    let (uid, gid) = current().with_credentials(|who| (who.fsuid, who.fsgid));
    let queue = try_arc(Queue {
        attributes,
        _charge: charge.ok_or(Errno::EMFILE)?,
        attr: SimpleAttr::new(Attr {
            device: fs::ANONYMOUS_DEVICE,
            inode: fs::new_anonymous_number(),
            mode: S_IFREG | mode & !current().fs().umask() & 0o777,
            uid,
            gid,
            ..Attr::default()
        }),
        state: Mutex::new(State {
            messages: VecDeque::new(),
            notice: None,
            receivers: 0,
        }),
        readable: WaitSource::new()?,
        writable: WaitSource::new()?,
    })?;
    let file = file(name, queue.clone(), flags)?;
    let mut own = Vec::new();
    own.try_reserve_exact(name.len())
        .map_err(|_| Errno::ENOMEM)?;
    own.extend_from_slice(name);
    let mut queues = QUEUES.lock();
    if queues.contains_key(name) {
        return Err(Errno::EEXIST);
    }
    if is_full(queues.len()) {
        return Err(Errno::ENOSPC);
    }
    queues.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    queues.insert(own, queue);
    Ok(file)
}

/// Removes the name; the queue exists as long as it is open.
///
/// # Errors
/// ENOENT, EACCES.
pub fn unlink(name: &[u8]) -> Result<()> {
    check_name(name)?;
    let queue = find(name).ok_or(Errno::ENOENT)?;
    let owner = queue.attr.get().uid;
    if !current().with_credentials(|who| who.fsuid == owner || who.can(CAP_FOWNER)) {
        // The directory of queues is sticky.
        return Err(Errno::EPERM);
    }
    let mut queues = QUEUES.lock();
    let is_named = queues
        .get(name)
        .is_some_and(|named| Arc::ptr_eq(named, &queue));
    let gone = if is_named { queues.remove(name) } else { None };
    drop(queues);
    gone.map(drop).ok_or(Errno::ENOENT)
}

fn file(name: &[u8], queue: Arc<Queue>, flags: u32) -> Result<Arc<File>> {
    let shown = try_concat(&[b"/", name])?;
    let dentry = Dentry::named(queue.clone(), None, &shown)?;
    File::with_ops(dentry, queue, OpenFlags(flags & (O_ACCMODE | O_NONBLOCK)))
}

impl Queue {
    fn check(&self, wanted: u32) -> Result<()> {
        let Attr { uid, gid, mode, .. } = self.attr.get();
        let allowed = current().with_credentials(|who| {
            let granted = if who.fsuid == uid {
                mode >> 6
            } else if who.in_group(gid) {
                mode >> 3
            } else {
                mode
            };
            wanted & !granted == 0 || who.can(CAP_DAC_OVERRIDE)
        });
        if allowed { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// The queue's attributes, and the number of messages in it.
    pub fn attributes(&self) -> (Attributes, usize) {
        (self.attributes, self.state.lock().messages.len())
    }

    /// Adds a message. If there is no room, this waits for it until `deadline`, or not at all.
    ///
    /// # Errors
    /// EMSGSIZE, EAGAIN, ETIMEDOUT, ENOMEM, ERESTARTSYS.
    pub fn send(
        &self,
        data: Vec<u8>,
        priority: u32,
        waits: bool,
        deadline: Option<Deadline>,
    ) -> Result<()> {
        if data.len() > self.attributes.bytes {
            return Err(Errno::EMSGSIZE);
        }
        let has_room = || self.state.lock().messages.len() < self.attributes.messages;
        let mut message = Some(Message { priority, data });
        loop {
            match self.try_send(&mut message) {
                Err(Errno::EAGAIN) if !waits => return Err(Errno::EAGAIN),
                Err(Errno::EAGAIN) if self.writable.wait_by(has_room, deadline)? => {}
                Err(Errno::EAGAIN) => return Err(Errno::ETIMEDOUT),
                other => return other,
            }
        }
    }

    fn try_send(&self, message: &mut Option<Message>) -> Result<()> {
        let mut state = self.state.lock();
        if state.messages.len() >= self.attributes.messages {
            return Err(Errno::EAGAIN);
        }
        state.messages.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let first = state.messages.is_empty() && state.receivers == 0;
        if let Some(message) = message.take() {
            let at = state
                .messages
                .partition_point(|other| other.priority >= message.priority);
            state.messages.insert(at, message);
        }
        let notice = if first { state.notice.take() } else { None };
        drop(state);
        self.readable.notify_one(Events::READABLE);
        if let Some(notice) = notice {
            notice.notify(CAME);
        }
        Ok(())
    }

    /// Takes the oldest message of the highest priority; it must fit in `most` bytes.
    ///
    /// # Errors
    /// EMSGSIZE, EAGAIN, ETIMEDOUT, ERESTARTSYS.
    pub fn receive(
        &self,
        most: usize,
        waits: bool,
        deadline: Option<Deadline>,
    ) -> Result<(Vec<u8>, u32)> {
        if most < self.attributes.bytes {
            return Err(Errno::EMSGSIZE);
        }
        loop {
            let message = self.state.lock().messages.pop_front();
            if let Some(message) = message {
                self.writable.notify_one(Events::WRITABLE);
                return Ok((message.data, message.priority));
            }
            if !waits {
                return Err(Errno::EAGAIN);
            }
            self.state.lock().receivers += 1;
            let came = self
                .readable
                .wait_by(|| !self.state.lock().messages.is_empty(), deadline);
            self.state.lock().receivers -= 1;
            if !came? {
                return Err(Errno::ETIMEDOUT);
            }
        }
    }

    /// Requests a notification for the caller's process of the next message to the empty queue.
    ///
    /// # Errors
    /// EBUSY: another process has made a request.
    pub fn notify(&self, method: NotifyMethod) -> Result<()> {
        let mut state = self.state.lock();
        if state
            .notice
            .as_ref()
            .is_some_and(|notice| !notice.process.is_zombie())
        {
            return Err(Errno::EBUSY);
        }
        let thread = current();
        let process = thread.process();
        let old = state.notice.replace(Notice {
            process: process.clone(),
            program: process.exec_id(),
            method,
        });
        drop(state);
        drop(old);
        Ok(())
    }

    /// Removes the request of the caller's process, if it has made one.
    pub fn cancel_notify(&self) {
        let mut state = self.state.lock();
        let own = |notice: &mut Notice| Arc::ptr_eq(&notice.process, current().process());
        let gone = state.notice.take_if(own);
        drop(state);
        if let Some(gone) = gone {
            gone.notify(REMOVED);
        }
    }
}

impl Inode for Queue {
    fn kind(&self) -> Kind {
        Kind::Regular
    }

    fn attr(&self) -> Attr {
        self.attr.get()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.attr.set(change);
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }
}

impl FileOps for Queue {
    fn is_stream(&self) -> bool {
        true
    }

    fn flush(&self) {
        self.cancel_notify();
    }

    fn read(&self, _file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        let state = self.state.lock();
        let bytes: usize = state
            .messages
            .iter()
            .map(|message| message.data.len())
            .sum();
        let (how, signo) = match state.notice.as_ref().map(|notice| &notice.method) {
            Some(NotifyMethod::Signal(number, _)) => (SIGEV_SIGNAL, *number),
            Some(NotifyMethod::Nothing) => (SIGEV_NONE, 0),
            Some(NotifyMethod::Socket(..)) => (SIGEV_THREAD, 0),
            None => (0, 0),
        };
        let pid = state
            .notice
            .as_ref()
            .map_or(0, |notice| notice.process.pid());
        drop(state);
        let text = try_format(format_args!(
            "QSIZE:{bytes:<10} NOTIFY:{how:<5} SIGNO:{signo:<5} NOTIFY_PID:{pid:<6}\n"
        ))?;
        to.put(text.as_bytes())
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.readable);
            table.add(&self.writable);
        }
        let count = self.state.lock().messages.len();
        let mut events = Events::empty();
        events.set(Events::IN, count > 0);
        events.set(Events::OUT, count < self.attributes.messages);
        events
    }
}
