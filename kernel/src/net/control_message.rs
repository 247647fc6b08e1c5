//! Control messages (ancillary data), which travel beside the bytes, as sendmsg(2) takes and
//! recvmsg(2) returns them.

use super::STREAM;
use super::inet::{self, Header, Over};
use super::options::Options;
use super::scm_rights::{MAX_FILES, Rights};
use super::socket::Base;
use super::unix::Charge;
use crate::errno::{Errno, Result};
use crate::fs::FdTable;
use crate::fs::inode::Time;
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::credentials::Credentials as Identity;
use crate::task::{Process, current, pid_table, pidfd};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::{CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN};
use linux_raw_sys::net::{
    AF_UNIX, MSG_CTRUNC, SCM_CREDENTIALS, SCM_RIGHTS, SO_MARK, SO_PASSCRED, SO_PASSPIDFD,
    SO_RCVMARK, SO_RXQ_OVFL, SO_TIMESTAMP_NEW, SO_TIMESTAMPING_NEW, SO_TIMESTAMPNS_NEW,
    SO_TIMESTAMPNS_OLD, SOL_SOCKET,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `sizeof(struct cmsghdr)`: a length of `word` bytes, level and type of 4 bytes each.
const fn header_len(word: usize) -> usize {
    word + 8
}
/// A descriptor for the process that sent a message (`include/linux/socket.h`).
const SCM_PIDFD: u32 = 4;
/// The maximum number of `long`s in a control message, that of SO_TIMESTAMPING.
const MOST_LONGS: usize = 6;
/// The maximum size of control messages in one call (`net.core.optmem_max`).
const MAX_CONTROL: usize = 128 * 1024;

/// `struct ucred`: the credentials of a sender.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub struct Credentials {
    /// Process.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Credentials {
    /// Credentials of an unknown sender, as Linux shows them.
    pub const UNKNOWN: Credentials = Credentials {
        pid: 0,
        uid: 65534,
        gid: 65534,
    };

    /// The credentials of the kernel.
    pub const KERNEL: Credentials = Credentials {
        pid: 0,
        uid: 0,
        gid: 0,
    };

    /// The credentials that Linux shows if there is no peer.
    pub const NONE: Credentials = Credentials {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };

    /// The calling thread's credentials: the effective ones (SO_PEERCRED), or the real ones
    /// (SCM_CREDENTIALS).
    pub fn current(effective: bool) -> Self {
        let pid = current().process_id();
        current().with_credentials(|who| {
            let (uid, gid) = if effective {
                (who.euid, who.egid)
            } else {
                (who.uid, who.gid)
            };
            Credentials { pid, uid, gid }
        })
    }

    /// EPERM unless the calling thread may claim these credentials, EINVAL for invalid ones.
    fn check(&self) -> Result<()> {
        if self.uid == u32::MAX || self.gid == u32::MAX {
            return Err(Errno::EINVAL);
        }
        let pid = current().process_id();
        let may = |who: &Identity| {
            (self.pid == pid || who.can(CAP_SYS_ADMIN))
                && ([who.uid, who.euid, who.suid].contains(&self.uid) || who.can(CAP_SETUID))
                && ([who.gid, who.egid, who.sgid].contains(&self.gid) || who.can(CAP_SETGID))
        };
        if current().with_credentials(may) {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }
}

/// The sender of a message: its credentials as they are reported, and its process, which is still
/// identified when its number is reused.
#[derive(Clone, Copy)]
pub struct Sender {
    /// The credentials.
    pub who: Credentials,
    /// The start time of the process; 0 for none.
    began: u64,
}

impl Sender {
    /// The kernel.
    pub const KERNEL: Sender = Sender {
        who: Credentials::KERNEL,
        began: 0,
    };

    /// An unknown sender.
    pub const UNKNOWN: Sender = Sender {
        who: Credentials::UNKNOWN,
        began: 0,
    };

    /// The calling thread, with the IDs of [`Credentials::current`].
    pub fn current(effective: bool) -> Self {
        Sender {
            who: Credentials::current(effective),
            began: current().process().started(),
        }
    }

    /// The credentials that a program claims (SCM_CREDENTIALS).
    fn given(who: Credentials) -> Self {
        let began = pid_table::process(who.pid).map_or(0, |process| process.started());
        Sender { who, began }
    }

    /// The process, if it still exists.
    pub fn process(&self) -> Option<Arc<Process>> {
        pid_table::process(self.who.pid).filter(|process| process.started() == self.began)
    }
}

/// The credentials of a connection's peer.
#[derive(Clone)]
pub struct Peer {
    /// The process, and its credentials.
    pub sender: Sender,
    /// Its supplementary groups.
    pub groups: Arc<Vec<u32>>,
}

impl Peer {
    /// The calling thread.
    pub fn current() -> Self {
        Peer {
            sender: Sender::current(true),
            groups: current().with_credentials(|who| who.groups.clone()),
        }
    }
}

/// Ancillary data that travels with bytes: open files, credentials, a datagram's header.
#[derive(Default)]
pub struct Ancillary {
    /// Open files.
    pub rights: Option<Rights>,
    /// The sender.
    pub credentials: Option<Sender>,
    /// A datagram's header.
    pub header: Header,
    /// The time of arrival, if it is requested.
    pub arrived: Option<Time>,
    /// The number of messages that were lost before this one.
    pub lost: u32,
    /// The charge for the message to the sender's buffer.
    pub charge: Option<Charge>,
}

impl Ancillary {
    /// Whether there is no ancillary data.
    pub fn is_empty(&self) -> bool {
        self.rights.is_none() && self.credentials.is_none()
    }

    /// A copy, for MSG_PEEK.
    pub fn copy(&self) -> Result<Self> {
        Ok(Ancillary {
            rights: self.rights.as_ref().map(Rights::copy).transpose()?,
            credentials: self.credentials,
            header: self.header,
            arrived: self.arrived,
            lost: self.lost,
            charge: None,
        })
    }

    /// Reads a program's control messages: files only for Unix sockets, credentials only for these
    /// and for netlink, header fields for IP datagram sockets. `word` is the size of the program's
    /// words.
    pub fn read(
        address: usize,
        len: usize,
        word: usize,
        socket: &Base,
        over: Over,
    ) -> Result<Self> {
        if len > MAX_CONTROL {
            return Err(Errno::ENOBUFS);
        }
        let control = UserPtr::<u8>::new(address).read_vec(len)?;
        let mut rest = &control[..];
        let (mut files, mut credentials) = (Vec::new(), None);
        let mut header_fields = Header::default();
        let head = header_len(word);
        while rest.len() >= head {
            let (len, level, kind) = header(rest, word);
            if len < head || len > rest.len() {
                return Err(Errno::EINVAL);
            }
            let data = &rest[head..len];
            match (level, kind) {
                // As on Linux, these are ignored without an error.
                (SOL_SOCKET, SCM_RIGHTS | SCM_CREDENTIALS) if inet::is_family(socket.domain) => {}
                _ if inet::is_family(socket.domain) => {
                    if socket.kind != STREAM || level == SOL_SOCKET {
                        header_fields.set(level, kind, data, over)?;
                    }
                }
                (SOL_SOCKET, SCM_RIGHTS) if socket.domain == AF_UNIX => {
                    if data.len() / 4 + files.len() > MAX_FILES {
                        return Err(Errno::EINVAL);
                    }
                    let table = current().files();
                    files
                        .try_reserve(data.len() / 4)
                        .map_err(|_| Errno::ENOMEM)?;
                    for &fd in data.as_chunks().0 {
                        files.push(table.get(i32::from_ne_bytes(fd))?);
                    }
                }
                (SOL_SOCKET, SCM_CREDENTIALS) => {
                    let given = Credentials::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
                    given.check()?;
                    if !pid_table::is_used(given.pid) {
                        return Err(Errno::ESRCH);
                    }
                    credentials = Some(Sender::given(given));
                }
                (SOL_SOCKET, _) => return Err(Errno::EINVAL),
                _ => {}
            }
            rest = &rest[len.next_multiple_of(word).min(rest.len())..];
        }
        // A 64-bit program may leave some bytes after the last message.
        if word < size_of::<usize>() && !rest.is_empty() {
            return Err(Errno::EINVAL);
        }
        let rights = (!files.is_empty())
            .then(|| Rights::new(files))
            .transpose()?;
        Ok(Ancillary {
            rights,
            credentials,
            header: header_fields,
            arrived: None,
            lost: 0,
            charge: None,
        })
    }
}

/// The length, level and type of a message.
fn header(bytes: &[u8], word: usize) -> (usize, u32, u32) {
    let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
    let mut len = [0; size_of::<usize>()];
    len[..word].copy_from_slice(&bytes[..word]);
    (usize::from_ne_bytes(len), half(word), half(word + 4))
}

/// The program's room for control messages.
pub struct Control {
    address: usize,
    room: usize,
    used: usize,
    /// The size of the program's words.
    word: usize,
    /// MSG_CTRUNC if something did not fit.
    pub flags: u32,
}

impl Control {
    /// A buffer of `len` bytes at `address`, of a program whose words have `word` bytes.
    pub fn new(address: usize, len: usize, word: usize) -> Self {
        Control {
            address,
            room: if address == 0 { 0 } else { len },
            used: 0,
            word,
            flags: 0,
        }
    }

    /// The number of bytes written.
    pub fn used(&self) -> usize {
        self.used
    }

    fn left(&self) -> usize {
        self.room - self.used
    }

    /// Writes one message, truncated to the remaining room.
    pub fn put(&mut self, level: u32, kind: u32, data: &[u8]) -> Result<()> {
        let head = header_len(self.word);
        if self.left() < head {
            self.flags |= MSG_CTRUNC;
            return Ok(());
        }
        let mut len = head + data.len();
        if len > self.left() {
            self.flags |= MSG_CTRUNC;
            len = self.left();
        }
        let at = UserSlice::new(self.address.wrapping_add(self.used), self.left());
        at.skip(head).copy_out(&data[..len - head])?;
        self.finish(level, kind, len)
    }

    /// Writes the header of a message of `len` bytes, whose data has been written already.
    fn finish(&mut self, level: u32, kind: u32, len: usize) -> Result<()> {
        let at = self.address + self.used;
        UserSlice::new(at, self.word).copy_out(&len.to_ne_bytes()[..self.word])?;
        UserPtr::new(at + self.word).write(&[level, kind])?;
        self.used += len.next_multiple_of(self.word).min(self.left());
        Ok(())
    }

    /// Reports the time of a message's arrival, as the option `kind` requests.
    pub fn put_time(&mut self, kind: u32, arrived: Time) -> Result<()> {
        let whole = matches!(kind, SO_TIMESTAMPNS_OLD | SO_TIMESTAMPNS_NEW);
        let part = arrived.nanoseconds / if whole { 1 } else { 1000 };
        let time = [arrived.seconds, part.into()];
        match kind {
            SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW => self.put(SOL_SOCKET, kind, time.as_bytes()),
            _ => self.put_longs(kind, &time),
        }
    }

    /// Writes one message of `long`s.
    fn put_longs(&mut self, kind: u32, longs: &[i64]) -> Result<()> {
        if self.word == size_of::<i64>() {
            return self.put(SOL_SOCKET, kind, longs.as_bytes());
        }
        let mut narrow = [0i32; MOST_LONGS];
        for (narrow, &long) in narrow.iter_mut().zip(longs) {
            *narrow = long as i32;
        }
        self.put(SOL_SOCKET, kind, narrow[..longs.len()].as_bytes())
    }

    /// Reports the time of a message's arrival, as the option `kind` (SO_TIMESTAMPING) requests:
    /// the software timestamp, and no hardware timestamp.
    pub fn put_stamping(&mut self, kind: u32, arrived: Time) -> Result<()> {
        let times: [i64; MOST_LONGS] = [arrived.seconds, arrived.nanoseconds.into(), 0, 0, 0, 0];
        match kind {
            SO_TIMESTAMPING_NEW => self.put(SOL_SOCKET, kind, times.as_bytes()),
            _ => self.put_longs(kind, &times),
        }
    }

    /// Reports what else is known about a message, as options request.
    pub fn put_ancillary(&mut self, ancillary: &Ancillary, options: &Options) -> Result<()> {
        if ancillary.lost != 0 && options.is_on(SO_RXQ_OVFL) {
            self.put(SOL_SOCKET, SO_RXQ_OVFL, ancillary.lost.as_bytes())?;
        }
        if let Some(mark) = ancillary.header.mark.filter(|_| options.is_on(SO_RCVMARK)) {
            self.put(SOL_SOCKET, SO_MARK, mark.as_bytes())?;
        }
        Ok(())
    }

    /// Passes the sender's credentials and files to the program, as its options request.
    pub fn put_passed(
        &mut self,
        ancillary: &Ancillary,
        socket: &Base,
        close_on_exec: bool,
    ) -> Result<()> {
        let (sender, options) = (ancillary.credentials.as_ref(), &socket.options);
        if let Some(sender) = sender.filter(|_| options.is_on(SO_PASSCRED)) {
            self.put(SOL_SOCKET, SCM_CREDENTIALS, sender.who.as_bytes())?;
        }
        self.put_rights(ancillary, close_on_exec)?;
        let unix = socket.domain == AF_UNIX;
        if let Some(sender) = sender.filter(|_| unix && options.is_on(SO_PASSPIDFD)) {
            self.put_process(sender)?;
        }
        Ok(())
    }

    /// SCM_PIDFD: a descriptor for the process that sent a message, or the error that prevented it.
    fn put_process(&mut self, sender: &Sender) -> Result<()> {
        if self.left() < header_len(self.word) + size_of::<i32>() {
            self.flags |= MSG_CTRUNC;
            return Ok(());
        }
        let opened = sender
            .process()
            .ok_or(Errno::ESRCH)
            .and_then(|process| pidfd::file(process, None, 0))
            .and_then(|file| Ok((current().files().reserve()?, file)));
        let value = match &opened {
            Ok((fd, _)) => fd.number(),
            Err(error) => error.result() as i32,
        };
        self.put(SOL_SOCKET, SCM_PIDFD, value.as_bytes())?;
        if let Ok((fd, file)) = opened {
            fd.install(file, true);
        }
        Ok(())
    }

    /// SCM_RIGHTS: installs descriptors for the files.
    fn put_rights(&mut self, ancillary: &Ancillary, close_on_exec: bool) -> Result<()> {
        let Some(rights) = &ancillary.rights else {
            return Ok(());
        };
        let head = header_len(self.word);
        let fit = self.left().saturating_sub(head) / 4;
        let (mut count, files) = (0, current().files());
        while count < fit.min(rights.files().len()) {
            let at = self.address.wrapping_add(self.used + head + count * 4);
            if give(&files, rights, count, at, close_on_exec).is_err() {
                break;
            }
            count += 1;
        }
        if count < rights.files().len() {
            self.flags |= MSG_CTRUNC;
        }
        if count == 0 {
            return Ok(());
        }
        self.finish(SOL_SOCKET, SCM_RIGHTS, head + count * 4)
    }
}

/// Installs a descriptor for one file, and writes its number to user address `at`.
fn give(
    files: &Arc<FdTable>,
    rights: &Rights,
    which: usize,
    at: usize,
    close_on_exec: bool,
) -> Result<()> {
    let fd = files.reserve()?;
    UserPtr::new(at).write(&fd.number())?;
    fd.install(rights.files()[which].clone(), close_on_exec);
    Ok(())
}
