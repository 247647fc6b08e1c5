//! Open files: Linux's open file descriptions.

use super::dentry::Dentry;
use super::dnotify;
use super::epoll::Holders;
use super::file_lock;
use super::inode::{Kind, Time};
use super::inotify;
use super::io::{Sink, Source};
use super::lease;
use super::mount::Mount;
use super::path::{Path, TOO_LONG};
use super::poll::{Events, PollTable};
use super::seq_file::Text;
use super::sequence::Sequence;
use super::sigio::Sigio;
use super::writers::Claim;
use crate::errno::{Errno, Result};
use crate::mm::frame::{self, FrameRef};
use crate::mm::heap::try_arc;
use crate::mm::{PAGE_SIZE, PageSource, ReverseMap};
use crate::sync::{Counter, Mutex, SleepMutex};
use crate::task::credentials::Credentials;
use crate::task::{self, require};
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

/// The flags of open(2) and fcntl(F_SETFL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// The kernel's own: this open made the file.
    const CREATED: u32 = 1 << 31;
    /// The kernel's own: to run it as a program, so that nobody may write it.
    const EXECUTES: u32 = 1 << 30;
    /// The kernel's own: nobody was notified that it was opened, nor will be of its end.
    const UNREPORTED: u32 = 1 << 29;
    /// The kernel's own: the file was moved, to end elsewhere, and its position is where it was.
    const MOVED: u32 = 1 << 28;

    /// To run a program.
    pub fn executing() -> Self {
        OpenFlags(O_RDONLY | Self::EXECUTES)
    }

    /// The same for the open that made the file.
    pub fn creating(self) -> Self {
        OpenFlags(self.0 | Self::CREATED)
    }

    /// True when the open made the file.
    pub fn created(self) -> bool {
        self.has(Self::CREATED)
    }

    /// As programs see them.
    pub fn visible(self) -> u32 {
        self.0 & !(Self::CREATED | Self::EXECUTES | Self::UNREPORTED | Self::MOVED)
    }

    /// True when all of `flags` (not the access mode) are set.
    pub fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }

    /// The access mode allows reading.
    pub fn readable(self) -> bool {
        matches!(self.0 & O_ACCMODE, O_RDONLY | O_RDWR) && !self.has(O_PATH)
    }

    /// The access mode allows writing.
    pub fn writable(self) -> bool {
        matches!(self.0 & O_ACCMODE, O_WRONLY | O_RDWR) && !self.has(O_PATH)
    }

    /// What the file is open for; none where that is its name alone.
    pub(super) fn claim(self) -> Option<Claim> {
        if self.writable() {
            Some(Claim::Write)
        } else if self.has(Self::EXECUTES) {
            Some(Claim::Execute)
        } else {
            self.readable().then_some(Claim::Read)
        }
    }

    /// The mount that counts its writers.
    fn writes_through(self, path: &Path) -> Option<&Arc<Mount>> {
        path.mount()
            .filter(|_| self.writable() && path.kind() == Kind::Regular)
    }

    /// An operation shall fail with EAGAIN where it would wait.
    pub fn nonblocking(self) -> bool {
        self.has(O_NONBLOCK)
    }
}

/// Where lseek(2) counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start.
    Set,
    /// The present position.
    Current,
    /// The end.
    End,
    /// The next byte that is not in a hole.
    Data,
    /// The next hole.
    Hole,
}

/// One record of a directory.
pub struct Record<'a> {
    /// Number of the inode.
    pub inode: u64,
    /// What it is.
    pub kind: Kind,
    /// The name.
    pub name: &'a [u8],
    /// The position from which reading goes on after this record.
    pub next: u64,
}

/// The memory of a file that can be mapped.
pub enum Memory<'a> {
    /// Nothing: ENODEV.
    None,
    /// Fresh zeroed memory, as of /dev/zero.
    Zeroes,
    /// These pages.
    Pages(&'a dyn PageSource),
}

/// The operations of a file on which open(2) succeeded.
pub trait FileOps: Send + Sync + Any {
    /// True for what has no position: pipes, terminals. Asked once, at open.
    fn is_stream(&self) -> bool {
        false
    }

    /// Whether a place in a stream may be asked for, though all are alike: in /dev/zero.
    fn has_places(&self) -> bool {
        false
    }

    /// Bytes of kernel memory that are freed when it is closed for good, roughly. Takes no lock
    /// that sleeps.
    fn held(&self) -> usize {
        0
    }

    /// Reads from `position` on; 0 is end-of-file.
    fn read(&self, file: &File, _to: &mut Sink, _position: u64) -> Result<usize> {
        match file.dentry().kind() {
            Kind::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes at `position`.
    fn write(&self, _file: &File, _from: &mut Source, _position: u64) -> Result<usize> {
        Err(Errno::EINVAL)
    }

    /// Writes at the end and returns the position after it too (`O_APPEND`).
    fn append(&self, file: &File, from: &mut Source) -> Result<(usize, u64)> {
        Ok((self.write(file, from, 0)?, 0))
    }

    /// Whether there is anything to wait for.
    fn can_poll(&self, file: &File) -> bool {
        !matches!(file.path.kind(), Kind::Regular | Kind::Directory)
    }

    /// Which operations would not wait now. With `table`, the poll is notified when that changes.
    fn poll(&self, _file: &File, _table: Option<&mut PollTable>) -> Events {
        Events::IN | Events::OUT
    }

    /// Whether a signal may report that it became ready (O_ASYNC). Not for what signals make ready:
    /// each such signal would cause the next.
    fn has_async(&self) -> bool {
        false
    }

    /// A descriptor of it is closed by the current process, which may have others.
    fn flush(&self) {}

    /// Writes what `/proc/PID/fdinfo` shows of it beside what it shows of every file.
    fn describe(&self, _text: &mut Text) {}

    /// A control operation; `argument` is a number or a user address.
    fn ioctl(&self, _file: &File, _request: u32, _argument: usize) -> Result<usize> {
        Err(Errno::ENOTTY)
    }

    /// Hands a directory's records from `position` on to `emit` until that returns false.
    fn read_dir(
        &self,
        _file: &File,
        _position: u64,
        _emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        Err(Errno::ENOTDIR)
    }

    /// The new position for lseek(2).
    fn seek(&self, file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        let size = file.path.inode().attr().size;
        seek_in(size, position, offset, whence)
    }

    /// Makes room from `offset` on (fallocate(2)), with its mode bits.
    fn allocate(&self, _file: &File, _mode: u32, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Whether it can be read and written past a cache (O_DIRECT) where it was opened by `path`.
    fn has_direct(&self, _path: &Path) -> bool {
        false
    }

    /// It is mapped: that counts as reading it.
    fn mapped(&self, _file: &File) {}

    /// The memory of it that mmap can map.
    fn memory(&self) -> Memory<'_> {
        Memory::None
    }
}

/// EINVAL where a transfer at `position` would end beyond the last position that there is.
fn check_end(position: u64, len: usize) -> Result<()> {
    if position.saturating_add(len as u64) > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// lseek(2) in a file of `size` bytes without holes.
pub fn seek_in(size: u64, position: u64, offset: i64, whence: Whence) -> Result<u64> {
    let base = match whence {
        Whence::Set => 0,
        Whence::Current => position,
        Whence::End => size,
        Whence::Data | Whence::Hole => {
            return match u64::try_from(offset) {
                Ok(offset) if offset < size => {
                    Ok(if whence == Whence::Data { offset } else { size })
                }
                _ => Err(Errno::ENXIO),
            };
        }
    };
    match base.checked_add_signed(offset) {
        Some(position) if position <= i64::MAX as u64 => Ok(position),
        Some(_) => Err(Errno::EOVERFLOW),
        None => Err(Errno::EINVAL),
    }
}

/// An open file.
pub struct File {
    path: Path,
    ops: Arc<dyn FileOps>,
    flags: AtomicU32,
    /// As whom it was opened.
    opener: Arc<Credentials>,
    stream: bool,
    position: SleepMutex<u64>,
    /// The receiver of signals about it, if anybody asked.
    sigio: Mutex<Option<Arc<Sigio>>>,
    /// The epoll sets that it is a member of.
    holders: Holders,
    _counted: Counted,
}

impl File {
    /// Opens the inode at `path`.
    pub fn open(path: impl Into<Path>, flags: OpenFlags) -> Result<Arc<Self>> {
        let path = path.into();
        let ops = if flags.has(O_PATH) {
            try_arc(PathOnly)?
        } else {
            let device = matches!(path.kind(), Kind::Character | Kind::Block);
            if device && path.mount_flags() & MS_NODEV != 0 {
                return Err(Errno::EACCES);
            }
            path.inode().clone().open(&path, flags)?
        };
        if flags.has(O_DIRECT) && !ops.has_direct(&path) {
            return Err(Errno::EINVAL);
        }
        let file = Self::with_ops(path, ops, flags)?;
        if flags.has(O_PATH) {
            return Ok(file);
        }
        if file.dentry().kind() == Kind::Regular {
            let write = flags.writable() || flags.has(O_ACCMODE);
            lease::break_leases(file.dentry(), write, !flags.nonblocking())
                .inspect_err(|_| _ = file.flags.fetch_or(OpenFlags::UNREPORTED, Relaxed))?;
        }
        inotify::about(&file.path, IN_OPEN);
        Ok(file)
    }

    /// An open file with these operations.
    pub fn with_ops(
        path: impl Into<Path>,
        ops: Arc<dyn FileOps>,
        flags: OpenFlags,
    ) -> Result<Arc<Self>> {
        const KEPT: u32 = !(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC);
        let path = path.into();
        let counted = Counted::new()?;
        if let Some(mount) = path.mount() {
            mount.used();
        }
        if let Some(mount) = flags.writes_through(&path) {
            mount.begin_write()?;
        }
        if let (Some(claim), Some(writers)) = (flags.claim(), path.inode().writers())
            && let Err(error) = writers.claim(claim)
        {
            if let Some(mount) = flags.writes_through(&path) {
                mount.end_write()
            }
            return Err(error);
        }
        // What fails from here on gives the claim back when it is dropped.
        try_arc(File {
            stream: ops.is_stream(),
            path,
            ops,
            flags: AtomicU32::new(flags.0 & KEPT),
            opener: task::current().credentials(),
            position: SleepMutex::new(0),
            sigio: Mutex::new(None),
            holders: Mutex::new(Sequence::new()),
            _counted: counted,
        })
    }

    /// The key by which locks, leases and watches know it.
    pub(super) fn address(&self) -> usize {
        if self.flags().has(OpenFlags::MOVED) {
            return *self.position.lock() as usize;
        }
        core::ptr::from_ref(self).addr()
    }

    /// It was at `address`, and nobody has it any more.
    pub(super) fn move_from(&mut self, address: usize) {
        *self.position.get_mut() = address as u64;
        *self.flags.get_mut() |= OpenFlags::MOVED;
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the calling thread opened it, and acts as the same since.
    pub fn is_openers(&self) -> bool {
        task::current().with_credentials(|who| core::ptr::eq(who, &*self.opener))
    }

    /// The name under which it was opened.
    pub fn dentry(&self) -> &Arc<Dentry> {
        &self.path
    }

    /// Its operations.
    pub fn ops(&self) -> &Arc<dyn FileOps> {
        &self.ops
    }

    /// Its operations, if they are a `T`.
    pub fn ops_as<T: FileOps>(&self) -> Option<Arc<T>> {
        let ops: Arc<dyn Any + Send + Sync> = self.ops.clone();
        ops.downcast().ok()
    }

    /// The flags it was opened with, as changed since.
    pub fn flags(&self) -> OpenFlags {
        OpenFlags(self.flags.load(Relaxed))
    }

    /// Changes those flags that fcntl(F_SETFL) may change.
    pub fn set_flags(&self, flags: u32) {
        const CHANGEABLE: u32 = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME | FASYNC;
        let kept = self.flags.load(Relaxed) & !CHANGEABLE;
        self.flags.store(kept | flags & CHANGEABLE, Relaxed);
    }

    /// The epoll sets that it is a member of, where it is none itself.
    pub fn holders(&self) -> &Holders {
        &self.holders
    }

    /// The receiver of signals about it, made by `new` where nobody asked yet.
    pub fn sigio(&self, new: impl FnOnce() -> Result<Arc<Sigio>>) -> Result<Arc<Sigio>> {
        let known = self.sigio.lock().clone();
        match known {
            Some(known) => Ok(known),
            None => {
                let new = new()?;
                Ok(self.sigio.lock().get_or_insert(new).clone())
            }
        }
    }

    /// EBADF unless it was opened for reading.
    pub fn check_readable(&self) -> Result<()> {
        if self.flags().readable() {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }

    /// Whether there are positions in it to read and write at.
    pub fn has_places(&self) -> bool {
        !self.stream || self.ops.has_places()
    }

    /// ESPIPE unless there are.
    fn check_position(&self) -> Result<()> {
        if !self.has_places() {
            return Err(Errno::ESPIPE);
        }
        Ok(())
    }

    /// EBADF unless it was opened for writing.
    pub fn check_writable(&self) -> Result<()> {
        if self.flags().writable() {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }

    /// The error, if any, of a read at a place in it.
    pub fn check_read_at(&self) -> Result<()> {
        self.check_position()?;
        self.check_readable()
    }

    /// The error, if any, of a write at a place in it.
    pub fn check_write_at(&self) -> Result<()> {
        self.check_position()?;
        self.check_writable()
    }

    /// Reads at the file's position and moves it.
    #[inline]
    pub fn read(&self, to: &mut Sink) -> Result<usize> {
        self.check_readable()?;
        if self.stream {
            return self.ops.read(self, to, 0);
        }
        self.read_on(to)
    }

    #[inline(never)]
    fn read_on(&self, to: &mut Sink) -> Result<usize> {
        let mut position = self.position.lock_killable()?;
        let count = self.ops.read(self, to, *position)?;
        *position += count as u64;
        drop(position);
        inotify::about(&self.path, IN_ACCESS);
        Ok(count)
    }

    /// Writes at the file's position (or its end) and moves it.
    #[inline]
    pub fn write(&self, from: &mut Source) -> Result<usize> {
        self.check_writable()?;
        if self.stream {
            return self.ops.write(self, from, 0);
        }
        self.write_on(from)
    }

    #[inline(never)]
    fn write_on(&self, from: &mut Source) -> Result<usize> {
        if self.flags().has(O_APPEND) {
            return self.append(from, true);
        }
        self.write_here(from)
    }

    fn write_here(&self, from: &mut Source) -> Result<usize> {
        let mut position = self.position.lock_killable()?;
        let count = self.ops.write(self, from, *position)?;
        *position += count as u64;
        drop(position);
        inotify::about(&self.path, IN_MODIFY);
        Ok(count)
    }

    /// Reads at `position`; the file's own stays.
    pub fn read_at(&self, to: &mut Sink, position: u64) -> Result<usize> {
        self.check_read_at()?;
        check_end(position, to.left())?;
        self.ops.read(self, to, position)
    }

    /// Writes at `position`; the file's own stays. With O_APPEND at the end, as Linux does.
    pub fn write_at(&self, from: &mut Source, position: u64) -> Result<usize> {
        self.check_write_at()?;
        check_end(position, from.left())?;
        if self.flags().has(O_APPEND) {
            return Ok(self.ops.append(self, from)?.0);
        }
        self.ops.write(self, from, position)
    }

    /// Writes at a place, or at the file's position and moves it, in spite of O_APPEND
    /// (RWF_NOAPPEND).
    pub fn write_over(&self, from: &mut Source, at: Option<u64>) -> Result<usize> {
        self.check_writable()?;
        match at {
            Some(at) => {
                self.check_position()?;
                check_end(at, from.left())?;
                self.ops.write(self, from, at)
            }
            None if self.stream => self.ops.write(self, from, 0),
            None => self.write_here(from),
        }
    }

    /// Writes at the end; `moves`: the file's position goes there too.
    pub fn append(&self, from: &mut Source, moves: bool) -> Result<usize> {
        self.check_writable()?;
        if self.stream {
            return self.ops.write(self, from, 0);
        }
        let mut position = self.position.lock_killable()?;
        let (count, end) = self.ops.append(self, from)?;
        if moves {
            *position = end;
        }
        drop(position);
        inotify::about(&self.path, IN_MODIFY);
        Ok(count)
    }

    /// Fills `buffer` from `position` on, as far as the file goes, and returns how much that is.
    pub fn read_kernel(&self, position: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.ops.read(
                self,
                &mut Sink::kernel(&mut buffer[done..]),
                position + done as u64,
            )? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    /// lseek(2).
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<u64> {
        if self.stream {
            self.check_position()?;
            return self.ops.seek(self, 0, offset, whence);
        }
        let mut position = self.position.lock_killable()?;
        *position = self.ops.seek(self, *position, offset, whence)?;
        Ok(*position)
    }

    /// Hands the directory's next records to `emit` until that returns false.
    pub fn read_dir(&self, emit: &mut dyn FnMut(&Record) -> bool) -> Result<()> {
        self.check_readable()?;
        let mut position = self.position.lock_killable()?;
        let mut next = *position;
        let done = self.ops.read_dir(self, *position, &mut |record| {
            let taken = emit(&record);
            if taken {
                next = record.next;
            }
            taken
        });
        *position = next;
        done
    }

    /// Writes its description; see [`FileOps::describe`].
    pub fn describe(&self, text: &mut Text) {
        self.ops.describe(text);
    }

    /// Whether there is anything to wait for: a file in memory is always ready.
    pub fn can_poll(&self) -> bool {
        self.ops.can_poll(self)
    }

    /// Which operations would not wait now; see [`FileOps::poll`].
    pub fn poll(&self, table: Option<&mut PollTable>) -> Events {
        self.ops.poll(self, table)
    }

    /// What mmap and exec map: the file itself, or fresh memory (`None`). ENODEV where it cannot be
    /// mapped.
    pub fn mapping(self: &Arc<Self>) -> Result<Option<Arc<dyn PageSource>>> {
        match self.ops.memory() {
            Memory::None => Err(Errno::ENODEV),
            Memory::Zeroes => Ok(None),
            Memory::Pages(_) => {
                self.ops.mapped(self);
                Ok(Some(self.clone()))
            }
        }
    }

    fn page_source(&self) -> Option<&dyn PageSource> {
        match self.ops.memory() {
            Memory::Pages(pages) => Some(pages),
            _ => None,
        }
    }

    /// The time of last reading that a read now leaves, if it changes it (relatime).
    pub fn access_time(&self, accessed: Time, modified: Time) -> Option<Time> {
        let directory = self.path.kind() == Kind::Directory;
        let never = if directory { MS_NODIRATIME } else { 0 };
        let mounted = self.path.mount_flags();
        if self.flags().has(O_NOATIME) || mounted & never != 0 {
            return None;
        }
        access_time(mounted, accessed, modified)
    }
}

/// The same for what is mounted so, and is no directory.
pub fn access_time(mounted: u32, accessed: Time, modified: Time) -> Option<Time> {
    const DAY: i64 = 24 * 60 * 60;
    if mounted & (MS_RDONLY | MS_NOATIME) != 0 {
        return None;
    }
    let now = Time::now();
    let always = mounted & MS_STRICTATIME != 0 || accessed <= modified;
    (always || now.seconds - accessed.seconds >= DAY).then_some(now)
}

impl Drop for File {
    fn drop(&mut self) {
        file_lock::release_file(self);
        lease::remove(self);
        dnotify::remove_file(self);
        if let (Some(claim), Some(writers)) = (self.flags().claim(), self.path.inode().writers()) {
            writers.release(claim);
        }
        if let Some(mount) = self.flags().writes_through(&self.path) {
            mount.end_write();
        }
        if self.flags().0 & (O_PATH | OpenFlags::UNREPORTED) == 0 {
            let written = self.flags().writable();
            inotify::about(
                &self.path,
                if written {
                    IN_CLOSE_WRITE
                } else {
                    IN_CLOSE_NOWRITE
                },
            );
        }
    }
}

/// Open files.
static OPEN: Counter = Counter::new();

/// The most open files without CAP_SYS_ADMIN (`/proc/sys/fs/file-max`); 0 as long as nobody has
/// said, and it is what takes some tenth of memory.
static MOST_OPEN: AtomicUsize = AtomicUsize::new(0);
/// The fewest that this is (NR_FILE).
const LEAST_OPEN: usize = 8192;

/// How many files are open.
pub fn open_files() -> usize {
    OPEN.exactly()
}

/// The most that may be without CAP_SYS_ADMIN.
pub fn most_open() -> usize {
    match MOST_OPEN.load(Relaxed) {
        0 => LEAST_OPEN.max(frame::total() * (PAGE_SIZE / 1024) / 10),
        most => most,
    }
}

/// Changes that.
pub fn set_most_open(most: usize) {
    MOST_OPEN.store(most.max(1), Relaxed);
}

/// One of the open files, as long as it lives.
struct Counted;

impl Counted {
    /// Counts one more; ENFILE where there are too many.
    fn new() -> Result<Self> {
        let most = most_open();
        if OPEN.approximate() >= most && OPEN.exactly() >= most {
            require(CAP_SYS_ADMIN).map_err(|_| Errno::ENFILE)?;
        }
        OPEN.add(1);
        Ok(Counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.add(-1);
    }
}

/// A mapping holds the open file, which has the name that `/proc/PID/maps` shows.
impl PageSource for File {
    fn page(&self, index: usize, write: bool) -> Result<FrameRef> {
        self.page_source().ok_or(Errno::ENXIO)?.page(index, write)
    }

    fn written(&self) {
        if let Some(pages) = self.page_source() {
            pages.written();
        }
    }

    fn present(&self, first: usize, frames: &mut [Option<FrameRef>]) {
        if let Some(pages) = self.page_source() {
            pages.present(first, frames);
        }
    }

    fn next_present(&self, first: usize) -> Option<usize> {
        self.page_source()?.next_present(first)
    }

    fn len_pages(&self) -> usize {
        self.page_source().map_or(0, PageSource::len_pages)
    }

    fn is_sealed(&self) -> bool {
        self.page_source().is_some_and(|pages| pages.is_sealed())
    }

    fn reverse_map(&self) -> Option<&ReverseMap> {
        self.page_source()?.reverse_map()
    }

    fn clear(&self, range: Range<usize>) -> Result<()> {
        self.page_source().ok_or(Errno::EOPNOTSUPP)?.clear(range)
    }

    fn object(&self) -> usize {
        self.page_source()
            .map_or(core::ptr::from_ref(self).addr(), PageSource::object)
    }

    fn id(&self) -> (u64, u64) {
        let attr = self.path.inode().attr();
        (attr.device, attr.inode)
    }

    fn write_name(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let text = self.path.text(&super::root());
        let text = text.map_or_else(|_| TOO_LONG.to_vec(), |(text, _)| text);
        text.utf8_chunks()
            .try_for_each(|chunk| out.write_str(chunk.valid()))
    }
}

/// A file that O_PATH opened: only its place is of use.
struct PathOnly;

impl FileOps for PathOnly {
    fn poll(&self, _file: &File, _table: Option<&mut PollTable>) -> Events {
        Events::INVALID
    }

    fn ioctl(&self, _file: &File, _request: u32, _argument: usize) -> Result<usize> {
        Err(Errno::EBADF)
    }
}
