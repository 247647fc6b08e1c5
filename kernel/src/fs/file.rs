//! Open files: Linux's open file descriptions.

use super::dentry::Dentry;
use super::epoll::{HolderList, Holders};
use super::file_lock;
pub use super::file_ops::{FileOps, Memory, Record, Whence, seek_in};
use super::file_table::Counted;
use super::inode::{Kind, Time};
use super::inotify;
use super::io::{Sink, Source};
use super::lease;
pub use super::open_flags::OpenFlags;
use super::page_cache::ErrSeq;
use super::path::{Path, TOO_LONG};
use super::perm;
use super::poll::{Events, PollTable};
use super::seq_file::Text;
use super::sigio::Sigio;
use crate::errno::{Errno, Result};
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::{PAGE_SIZE, PageSource, ReverseMap};
use crate::sync::{Mutex, SleepMutex};
use crate::task;
use crate::task::credentials::Credentials;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::*};
use linux_raw_sys::general::*;

/// EINVAL if a transfer at `position` would end beyond the maximum position.
fn check_end(position: u64, len: usize) -> Result<()> {
    if position.saturating_add(len as u64) > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// An open file.
pub struct File {
    /// Dropped before the path, whose mount may be the last of a file system.
    ops: Arc<dyn FileOps>,
    path: Path,
    flags: AtomicU32,
    /// The credentials of its opener.
    opener: Arc<Credentials>,
    stream: bool,
    written_in_order: bool,
    position: SleepMutex<u64>,
    /// The errors of its file system that were already reported to it.
    told: AtomicU32,
    /// The receiver of its signals, once one was set.
    sigio: Mutex<Option<Arc<Sigio>>>,
    /// The epoll sets that it is a member of.
    holders: Holders,
    _counted: Counted,
}

impl File {
    /// Writes its whole file system back (syncfs(2)).
    ///
    /// # Errors
    /// EIO, ENOSPC, including write-back errors of any file since it was opened, once.
    pub fn sync_fs(&self) -> Result<()> {
        let Some(mount) = self.path.mount() else {
            return Ok(());
        };
        let synced = mount.fs().sync();
        let failed = mount.fs().failed();
        synced.and(failed.map_or(Ok(()), |failed| failed.check(&self.told)))
    }

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
        Self::with_count(path, ops, flags, Counted::new()?)
    }

    /// The same, where the file was counted before.
    pub fn with_count(
        path: impl Into<Path>,
        ops: Arc<dyn FileOps>,
        flags: OpenFlags,
        counted: Counted,
    ) -> Result<Arc<Self>> {
        const KEPT: u32 = !(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC);
        let path = path.into();
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
        let failed = path.mount().and_then(|mount| mount.fs().failed());
        let told = failed.map_or(0, ErrSeq::sample);
        // From here on, a failure drops the file, which releases the claim.
        try_arc(File {
            stream: ops.is_stream(),
            written_in_order: ops.is_written_in_order(),
            path,
            ops,
            flags: AtomicU32::new(flags.0 & KEPT),
            opener: task::current().credentials(),
            position: SleepMutex::new(0),
            told: AtomicU32::new(told),
            sigio: Mutex::new(None),
            holders: Mutex::new(HolderList::new()),
            _counted: counted,
        })
    }

    /// The key by which locks, leases and watches identify it.
    pub(super) fn address(&self) -> usize {
        if self.flags().has(OpenFlags::MOVED) {
            return *self.position.lock() as usize;
        }
        core::ptr::from_ref(self).addr()
    }

    /// Keeps `address` as the key of a file that is moved once it has no other references.
    pub(super) fn move_from(&mut self, address: usize) {
        *self.position.get_mut() = address as u64;
        *self.flags.get_mut() |= OpenFlags::MOVED;
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the calling thread still has the credentials of the opener.
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

    /// Its operations, if they are of type `T`.
    pub fn ops_as<T: FileOps>(&self) -> Option<Arc<T>> {
        let ops: Arc<dyn Any + Send + Sync> = self.ops.clone();
        ops.downcast().ok()
    }

    /// The present flags.
    pub fn flags(&self) -> OpenFlags {
        OpenFlags(self.flags.load(Relaxed))
    }

    /// Sets the flags `which` to those of `to`, and leaves the others unchanged.
    pub fn set_flags(&self, which: u32, to: u32) {
        let set = |flags| Some(flags & !which | to & which);
        _ = self.flags.fetch_update(Relaxed, Relaxed, set);
    }

    /// The epoll sets that it is a member of, unless it is one itself.
    pub fn holders(&self) -> &Holders {
        &self.holders
    }

    /// The receiver of its signals, created by `new` if there is none.
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

    /// Whether it can be read and written at positions.
    pub fn has_places(&self) -> bool {
        !self.stream || self.ops.has_places()
    }

    /// ESPIPE unless it can.
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

    /// The error, if any, of a read at a position.
    pub fn check_read_at(&self) -> Result<()> {
        self.check_position()?;
        self.check_readable()
    }

    /// The error, if any, of a write at a position.
    pub fn check_write_at(&self) -> Result<()> {
        self.check_position()?;
        if self.written_in_order {
            return Err(Errno::ESPIPE);
        }
        self.check_writable()
    }

    /// Reads at the file's position and advances it.
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

    /// Writes at the file's position (or its end) and advances it.
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

    /// Reads at `position`; the file's own position is unchanged.
    pub fn read_at(&self, to: &mut Sink, position: u64) -> Result<usize> {
        self.check_read_at()?;
        check_end(position, to.left())?;
        self.ops.read(self, to, position)
    }

    /// Writes at `position`; the file's own position is unchanged. With O_APPEND it writes at the
    /// end, like Linux.
    pub fn write_at(&self, from: &mut Source, position: u64) -> Result<usize> {
        self.check_write_at()?;
        check_end(position, from.left())?;
        if self.flags().has(O_APPEND) {
            return Ok(self.ops.append(self, from)?.0);
        }
        self.ops.write(self, from, position)
    }

    /// Writes at a position, or at the file's position and advances it, regardless of O_APPEND
    /// (RWF_NOAPPEND).
    ///
    /// # Errors
    /// EPERM: the file is append-only.
    pub fn write_over(&self, from: &mut Source, at: Option<u64>) -> Result<usize> {
        if self.flags().has(O_APPEND) {
            perm::check_flags(&self.path, &self.path, FS_APPEND_FL)?;
        }
        match at {
            Some(at) => {
                self.check_write_at()?;
                check_end(at, from.left())?;
                self.ops.write(self, from, at)
            }
            None => {
                self.check_writable()?;
                if self.stream {
                    return self.ops.write(self, from, 0);
                }
                self.write_here(from)
            }
        }
    }

    /// Writes at the end; with `moves`, the file's position is set to the end too.
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

    /// Fills `buffer` from `position` on, up to the end of the file; returns the number of bytes.
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
            if self.ops.ignores_seeks() {
                return Ok(0);
            }
            self.check_position()?;
            return self.ops.seek(self, 0, offset, whence);
        }
        let mut position = self.position.lock_killable()?;
        *position = self.ops.seek(self, *position, offset, whence)?;
        Ok(*position)
    }

    /// Passes the directory's next records to `emit` until that returns false.
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

    /// Writes its part of `fdinfo`; see [`FileOps::describe`].
    pub fn describe(&self, text: &mut Text) {
        self.ops.describe(text);
    }

    /// Whether it can be waited for: a file in memory is always ready.
    pub fn can_poll(&self) -> bool {
        self.ops.can_poll(self)
    }

    /// The operations that would not block now; see [`FileOps::poll`].
    pub fn poll(&self, table: Option<&mut PollTable>) -> Events {
        self.ops.poll(self, table)
    }

    /// The object that mmap and exec map: the file itself, or fresh memory (`None`). ENODEV if the
    /// file cannot be mapped.
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

    /// The access time after a read now, if it changes (relatime).
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

/// The new access time of a file other than a directory, on a mount with the flags `mounted`.
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

/// A mapping holds the open file, whose name `/proc/PID/maps` shows.
impl PageSource for File {
    fn may_have_tags(&self) -> bool {
        self.page_source()
            .is_some_and(|pages| pages.may_have_tags())
    }

    fn page(&self, index: usize, write: bool) -> Result<FrameRef> {
        self.page_source().ok_or(Errno::ENXIO)?.page(index, write)
    }

    fn load(&self, index: usize, write: bool) -> Result<()> {
        self.page_source().ok_or(Errno::ENXIO)?.load(index, write)
    }

    fn sync(&self, pages: Range<usize>) -> Result<()> {
        // As on Linux, what cannot write its file is no shared mapping of it.
        if !self.flags().writable() {
            return Ok(());
        }
        let [start, end] = [pages.start, pages.end].map(|page| (page * PAGE_SIZE) as u64);
        self.ops.sync(self, start..end)
    }

    fn hears_of_writes(&self) -> bool {
        self.page_source()
            .is_some_and(|pages| pages.hears_of_writes())
    }

    fn write_mapped(&self, index: usize, allow: &mut dyn FnMut(&FrameRef)) -> Result<()> {
        let pages = self.page_source().ok_or(Errno::EIO)?;
        pages.write_mapped(index, allow)
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

    fn tells_presence(&self) -> bool {
        perm::owner(self.dentry()).is_ok() || perm::check(self.path(), perm::WRITE).is_ok()
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
        let text = text.as_ref().map_or(TOO_LONG, |(text, _)| text);
        text.utf8_chunks()
            .try_for_each(|chunk| out.write_str(chunk.valid()))
    }
}

/// A file opened with O_PATH, of which only the path can be used.
struct PathOnly;

impl FileOps for PathOnly {
    fn poll(&self, _file: &File, _table: Option<&mut PollTable>) -> Events {
        Events::INVALID
    }

    fn ioctl(&self, _file: &File, _request: u32, _argument: usize) -> Result<usize> {
        Err(Errno::EBADF)
    }
}
