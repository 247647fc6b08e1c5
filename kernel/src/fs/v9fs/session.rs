//! A session with a server: requests, and what their replies say.

use super::fid::{Fid, Fids};
use crate::drivers::virtio_9p::{Gift, Line};
use crate::errno::{Errno, Result};
use crate::fs::damage;
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::mm::virtio_9p::{Exchange, MOST_PARTS, REPLY};
use crate::mm::virtio_blk::Part;
use crate::sync::Mutex;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::*};
use ninep::{Error, HEAD, Qid, Request, Stat};

/// What a message takes beside its data (P9_IOHDRSZ).
const HEADER: u32 = 24;
/// The maximum size of a message.
pub const MOST_SIZE: u32 = (MOST_PARTS * PAGE_SIZE) as u32 + HEADER;
/// The least maximum, as on Linux.
pub const LEAST_SIZE: u32 = 4096;
/// The head of a reply that brings data: its count follows.
const DATA_HEAD: usize = HEAD + 4;
/// The last error number of Linux (EHWPOISON).
const LAST_ERRNO: u16 = Errno::EHWPOISON.0;

/// A session.
pub struct Session {
    pub line: Line,
    /// The maximum number of bytes of data in a message.
    pub unit: u32,
    pub fids: Mutex<Fids>,
    /// Orders requests and changes ([`Session::now`]).
    clock: AtomicU64,
    me: Weak<Session>,
}

/// Attributes as they were told.
pub struct Told {
    pub stat: Stat,
    /// When they were asked for: they are no older.
    pub asked: u64,
}

/// A file that the server has opened.
pub struct Handle {
    pub fid: Arc<Fid>,
    /// A fid of the same name, which is not open.
    pub name: Arc<Fid>,
    /// How many bytes are read or written at once at most.
    unit: u32,
}

/// An error of a reply, as programs see it.
fn errno(error: Error) -> Errno {
    match error {
        Error::Refused(number @ 1..=LAST_ERRNO) => Errno(number),
        _ => {
            damage::tell("9p", format_args!("the server answers garbage"));
            Errno::EIO
        }
    }
}

/// Frames for bytes, as parts.
///
/// # Errors
/// ENOMEM.
pub fn parts_of(len: usize) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let room = parts.try_reserve_exact(len.div_ceil(PAGE_SIZE));
    room.map_err(|_| Errno::ENOMEM)?;
    for start in (0..len).step_by(PAGE_SIZE) {
        parts.push(Part {
            frame: frame::alloc()?,
            offset: 0,
            len: (len - start).min(PAGE_SIZE),
        });
    }
    Ok(parts)
}

/// The number of bytes of parts.
fn len_of(parts: &[Part]) -> u32 {
    parts.iter().map(|part| part.len as u32).sum()
}

/// A reply: its exchange, and what checks it.
struct Answer {
    exchange: Exchange,
    written: usize,
    tag: u16,
    kind: u8,
}

impl Answer {
    /// The fields in its head, and how many bytes follow.
    fn fields(&self) -> ninep::Result<(&[u8], usize)> {
        let head = self.exchange.reply(self.written);
        ninep::head(head, self.written, self.kind, self.tag)
    }
}

impl Session {
    /// Begins a session, with messages of at most `size` bytes.
    ///
    /// # Errors
    /// EPROTONOSUPPORT: the server does not speak this version.
    pub fn begin(line: Line, size: u32) -> Result<Arc<Self>> {
        let new = |unit| {
            crate::mm::heap::try_arc_cyclic(|me| Session {
                line: line.clone(),
                unit,
                fids: Mutex::new(Fids::default()),
                clock: AtomicU64::new(1),
                me: me.clone(),
            })
        };
        let own = size.min(MOST_SIZE);
        let known = |fields: &[u8]| {
            let version = ninep::version(fields, own)?;
            Ok((version.name == ninep::VERSION).then_some(version.size))
        };
        line.settle()?;
        let told = new(0)?.ask(&Request::Version { size: own }, known)?;
        match told {
            Some(size) if size >= LEAST_SIZE => new(size - HEADER),
            Some(_) => Err(Errno::EIO),
            None => Err(Errno::EPROTONOSUPPORT),
        }
    }

    fn call(&self, request: &Request, exchange: Exchange, gift: Gift) -> Result<Answer> {
        let done = self.line.call(request, exchange, gift);
        if self.has_doomed()
            && let Some(me) = self.me.upgrade()
        {
            me.clunk_doomed();
        }
        let (exchange, written, tag) = done?;
        Ok(Answer {
            exchange,
            written,
            tag,
            kind: request.kind(),
        })
    }

    /// Sends a request without data, and parses the fields of a short reply.
    pub fn ask<T>(
        &self,
        request: &Request,
        parse: impl FnOnce(&[u8]) -> ninep::Result<T>,
    ) -> Result<T> {
        self.ask_for(request, Vec::new(), None, parse)
    }

    /// The same with data that follows, and a gift ([`Line::call`]).
    fn ask_for<T>(
        &self,
        request: &Request,
        send: Vec<Part>,
        gift: Gift,
        parse: impl FnOnce(&[u8]) -> ninep::Result<T>,
    ) -> Result<T> {
        let mut exchange = Exchange::new(REPLY)?;
        exchange.send = send;
        let answer = self.call(request, exchange, gift)?;
        let parsed = match answer.fields() {
            Ok((fields, 0)) => parse(fields),
            Ok(_) => Err(Error::Garbage),
            Err(error) => Err(error),
        };
        parsed.map_err(errno)
    }

    /// Sends a request that gives `fid` to a file.
    fn ask_fid<T>(
        &self,
        request: &Request,
        fid: &Arc<Fid>,
        parse: impl FnOnce(&[u8]) -> ninep::Result<T>,
    ) -> Result<T> {
        // If this thread is killed meanwhile, the fid is given back after the answer.
        fid.set_known(true);
        let answered = self.ask_for(request, Vec::new(), Some(fid.clone()), parse);
        answered.inspect_err(|error| fid.set_known(matches!(*error, Errno::EINTR | Errno::EIO)))
    }

    /// The root, for a user.
    pub fn attach(self: &Arc<Self>, user: u32) -> Result<(Arc<Fid>, Qid)> {
        let fid = Fid::reserve(self)?;
        let new = fid.number();
        let qid = self.ask_fid(&Request::Attach { new, user }, &fid, ninep::qid)?;
        Ok((fid, qid))
    }

    /// The file with a name in a directory.
    pub fn walk(self: &Arc<Self>, from: &Fid, name: &[u8]) -> Result<(Arc<Fid>, Qid)> {
        let (fid, qid) = self.step(from, Some(name))?;
        Ok((fid, qid.ok_or(Errno::EIO)?))
    }

    /// One more fid of the same file.
    fn clone_fid(self: &Arc<Self>, from: &Fid) -> Result<Arc<Fid>> {
        Ok(self.step(from, None)?.0)
    }

    fn step(self: &Arc<Self>, from: &Fid, name: Option<&[u8]>) -> Result<(Arc<Fid>, Option<Qid>)> {
        let fid = Fid::reserve(self)?;
        let request = Request::Walk {
            fid: from.number(),
            new: fid.number(),
            name,
        };
        let parse = |fields: &[u8]| ninep::walked(fields, name.is_some());
        let qid = self.ask_fid(&request, &fid, parse)?;
        Ok((fid, qid))
    }

    /// A number that is larger than all earlier ones: of two that were taken one after the other,
    /// the first is smaller.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, AcqRel)
    }

    /// The attributes of a file, with its generation if that is wanted: QEMU asks for that by the
    /// fid's name, even if the fid is open and the name is another file's.
    pub fn stat(&self, fid: &Fid, generation: bool) -> Result<Told> {
        let asked = self.now();
        let fid = fid.number();
        let stat = self.ask(&Request::GetAttr { fid, generation }, ninep::stat)?;
        Ok(Told { stat, asked })
    }

    /// Opens what has a fid by one of its own, with the protocol's flags.
    pub fn open(self: &Arc<Self>, name: Arc<Fid>, flags: u32) -> Result<Handle> {
        let fid = self.clone_fid(&name)?;
        let request = Request::Open {
            fid: fid.number(),
            flags,
        };
        let opened = self.ask(&request, ninep::Opened::parse)?;
        Ok(self.handle(fid, name, opened.unit))
    }

    fn handle(&self, fid: Arc<Fid>, name: Arc<Fid>, unit: u32) -> Handle {
        let unit = match unit {
            0 => self.unit,
            told => told.min(self.unit),
        };
        Handle { fid, name, unit }
    }

    /// Makes a regular file in a directory and opens it. The handle has the directory's name yet.
    pub fn create(
        self: &Arc<Self>,
        directory: Arc<Fid>,
        name: &[u8],
        flags: u32,
        ids: ninep::Ids,
    ) -> Result<(Handle, Qid)> {
        let fid = self.clone_fid(&directory)?;
        let request = Request::Create {
            fid: fid.number(),
            name,
            flags,
            ids,
        };
        let made = self.ask(&request, ninep::Created::parse)?;
        Ok((self.handle(fid, directory, made.unit), made.qid))
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, directory: &Fid, name: &[u8], target: &[u8], gid: u32) -> Result<Qid> {
        let mut parts = parts_of(target.len() + 4)?;
        fill(&mut parts, &[target, &gid.to_le_bytes()]);
        let request = Request::Symlink {
            fid: directory.number(),
            name,
            len: u16::try_from(target.len()).map_err(|_| Errno::ENAMETOOLONG)?,
        };
        self.ask_for(&request, parts, None, ninep::qid)
    }

    /// Sends a request whose reply may be long: all its fields in one piece.
    fn ask_long(&self, request: &Request, most: usize) -> Result<Vec<u8>> {
        let mut exchange = Exchange::new(REPLY)?;
        exchange.receive = parts_of(most)?;
        let answer = self.call(request, exchange, None)?;
        let (fields, more) = answer.fields().map_err(errno)?;
        let mut all = Vec::new();
        let room = all.try_reserve_exact(fields.len() + more);
        room.map_err(|_| Errno::ENOMEM)?;
        all.extend_from_slice(fields);
        append(&mut all, &answer.exchange.receive, more);
        Ok(all)
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, fid: &Fid) -> Result<Vec<u8>> {
        let fid = fid.number();
        let fields = self.ask_long(&Request::ReadLink { fid }, PAGE_SIZE)?;
        let target = ninep::string(&fields).map_err(errno)?;
        crate::mm::heap::try_vec(target)
    }

    /// Entries of an open directory from a position on, as [`ninep::Entries`] reads them.
    pub fn read_directory(&self, handle: &Handle, offset: u64) -> Result<Vec<u8>> {
        const AT_ONCE: u32 = 4 * PAGE_SIZE as u32;
        let count = handle.unit.min(AT_ONCE);
        let request = Request::ReadDir {
            fid: handle.fid.number(),
            offset,
            count,
        };
        let (parts, count) = self.receive(&request, parts_of(count as usize)?)?;
        let mut data = Vec::new();
        let room = data.try_reserve_exact(count);
        room.map_err(|_| Errno::ENOMEM)?;
        append(&mut data, &parts, count);
        Ok(data)
    }

    /// Sends a request for data, which comes into `parts`; returns them and its length.
    fn receive(&self, request: &Request, parts: Vec<Part>) -> Result<(Vec<Part>, usize)> {
        let asked = len_of(&parts);
        let mut exchange = Exchange::new(DATA_HEAD)?;
        exchange.receive = parts;
        let answer = self.call(request, exchange, None)?;
        let fields = answer.fields();
        let count = fields.and_then(|(fields, rest)| ninep::count(fields, asked, Some(rest)));
        let count = count.map_err(errno)?;
        Ok((answer.exchange.receive, count))
    }

    /// How many bytes one read or write may have.
    pub fn unit_of(&self, handle: &Handle) -> usize {
        handle.unit as usize
    }

    /// Reads from a position on into `parts`, of at most [`Session::unit_of`] bytes; returns them
    /// and the number of bytes. 0 is the end.
    pub fn read(
        &self,
        handle: &Handle,
        offset: u64,
        parts: Vec<Part>,
    ) -> Result<(Vec<Part>, usize)> {
        let request = Request::Read {
            fid: handle.fid.number(),
            offset,
            count: len_of(&parts),
        };
        self.receive(&request, parts)
    }

    /// Writes `parts`, of at most [`Session::unit_of`] bytes, at a position; returns how many bytes
    /// were written.
    pub fn write(&self, handle: &Handle, offset: u64, parts: Vec<Part>) -> Result<usize> {
        let count = len_of(&parts);
        let request = Request::Write {
            fid: handle.fid.number(),
            offset,
            count,
        };
        self.ask_for(&request, parts, None, |fields| {
            ninep::count(fields, count, None)
        })
    }

    /// All bytes of an extended attribute, or of the list of their names (no name).
    pub fn xattr(self: &Arc<Self>, file: &Fid, name: &[u8], most: usize) -> Result<Vec<u8>> {
        let fid = Fid::reserve(self)?;
        let request = Request::XattrWalk {
            fid: file.number(),
            new: fid.number(),
            name,
        };
        let size = self.ask_fid(&request, &fid, ninep::xattr_size)? as usize;
        if size > most {
            return Err(Errno::E2BIG);
        }
        let handle = self.handle(fid.clone(), fid, 0);
        let mut value = Vec::new();
        value.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
        while value.len() < size {
            let part = parts_of((size - value.len()).min(handle.unit as usize))?;
            let (parts, count) = self.read(&handle, value.len() as u64, part)?;
            if count == 0 {
                return Err(Errno::EIO);
            }
            append(&mut value, &parts, count);
        }
        Ok(value)
    }

    /// Sets an extended attribute, with the flags of setxattr(2); no bytes remove it.
    pub fn set_xattr(
        self: &Arc<Self>,
        file: &Fid,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let fid = self.clone_fid(file)?;
        let handle = self.handle(fid.clone(), fid, 0);
        let request = Request::XattrCreate {
            fid: handle.fid.number(),
            name,
            size: value.len() as u64,
            flags,
        };
        self.ask(&request, ninep::empty)?;
        let mut done = 0;
        while done < value.len() {
            let next = &value[done..value.len().min(done + handle.unit as usize)];
            let mut parts = parts_of(next.len())?;
            fill(&mut parts, &[next]);
            match self.write(&handle, done as u64, parts)? {
                0 => return Err(Errno::EIO),
                count => done += count,
            }
        }
        // The attribute is set by this.
        handle.fid.clunk()
    }
}

/// Writes pieces of bytes into parts that have room for them.
fn fill(parts: &mut [Part], pieces: &[&[u8]]) {
    for (at, &byte) in pieces.iter().copied().flatten().enumerate() {
        let part = &parts[at / PAGE_SIZE];
        part.frame.write(at % PAGE_SIZE, &[byte]);
    }
}

/// Adds `len` bytes of parts to bytes that have room for them.
fn append(to: &mut Vec<u8>, parts: &[Part], len: usize) {
    let (start, mut left) = (to.len(), len);
    to.resize(start + len, 0);
    let mut at = start;
    for part in parts {
        let count = part.len.min(left);
        part.frame.read(part.offset, &mut to[at..at + count]);
        at += count;
        left -= count;
    }
}
