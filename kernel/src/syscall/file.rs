//! Opening, reading and writing files.

use super::layout::Layout;
use super::path::{self, UserPath, check_flags, file, opened};
use crate::errno::{Errno, Result};
use crate::fs::file::Whence;
use crate::fs::inode::{Kind, Link, New};
use crate::fs::io::{IoVec, Sink, Source};
use crate::fs::walk::{Scope, Walk};
use crate::fs::{File, OpenFlags, Path, ext4, inotify, lease, page_cache, perm, protected};
use crate::mm::PAGE_SIZE;
use crate::mm::user::{UserPtr, access_ok};
use crate::task::io_accounting::Direction;
use crate::task::{current, oom};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use linux_raw_sys::general::*;

/// openat(2)
pub fn openat(directory: i32, path: usize, flags: u32, mode: u32) -> Result<usize> {
    open_path(directory, path, known_flags(flags)?, mode, Scope::default())
}

/// The flags of an open that ignores unknown ones (Linux's build_open_how).
///
/// # Errors
/// EINVAL: they contradict each other.
pub(super) fn known_flags(flags: u32) -> Result<u32> {
    let flags = match flags & O_PATH {
        0 => flags & OPEN_FLAGS | O_LARGEFILE,
        _ => flags & PATH_FLAGS,
    };
    check_open_flags(flags)?;
    Ok(flags)
}

/// openat2(2)
pub fn openat2(directory: i32, path: usize, how: usize, size: usize) -> Result<usize> {
    const HOW: usize = 24;
    if size < HOW {
        return Err(Errno::EINVAL);
    }
    if size > PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    let [flags, mode, resolve] = UserPtr::<[u64; 3]>::new(how).read()?;
    let more = UserPtr::<u8>::new(how + HOW).read_vec(size - HOW)?;
    if more.iter().any(|&byte| byte != 0) {
        return Err(Errno::E2BIG);
    }
    let flags32 = flags as u32;
    if flags & !u64::from(OPEN_FLAGS) != 0 {
        return Err(Errno::EINVAL);
    }
    let scope = Scope::from_resolve(resolve)?;
    let modeless = flags32 & MAKES == 0 && mode != 0;
    if mode & !0o7777 != 0 || modeless {
        return Err(Errno::EINVAL);
    }
    check_open_flags(flags32)?;
    let flags32 = match flags32 & O_PATH {
        0 => flags32 | O_LARGEFILE,
        _ if flags32 & !PATH_FLAGS != 0 => return Err(Errno::EINVAL),
        _ => flags32,
    };
    if resolve & u64::from(RESOLVE_CACHED) != 0 && flags32 & (MAKES | O_TRUNC) != 0 {
        return Err(Errno::EAGAIN);
    }
    open_path(directory, path, flags32, mode as u32, scope)
}

/// The known flags.
const OPEN_FLAGS: u32 = abi::options::OPEN.mask() as u32;
/// Flags that are valid with O_PATH.
const PATH_FLAGS: u32 = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
/// Flags that create a file.
const MAKES: u32 = O_CREAT | __O_TMPFILE;

/// EINVAL for flags that contradict each other, whatever the path is.
fn check_open_flags(flags: u32) -> Result<()> {
    let makes_directory = flags & (O_DIRECTORY | O_CREAT) == O_DIRECTORY | O_CREAT;
    let unnamed = flags & __O_TMPFILE != 0;
    let read_only = flags & O_ACCMODE == O_RDONLY;
    if makes_directory || unnamed && (flags & O_DIRECTORY == 0 || read_only) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// As on Linux, first checks the path's syntax, then reserves a descriptor, and only then looks for
/// the file.
fn open_path(directory: i32, path: usize, flags: u32, mode: u32, scope: Scope) -> Result<usize> {
    let flags = OpenFlags(flags);
    let path: &[u8] = &UserPath::read(path)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let fd = current().files().reserve()?;
    let from = path::base(directory, if scope.is_bounded() { b"" } else { path })?;
    let context = current().fs();
    let mut walk = Walk::new(&context).within(scope, from.as_ref());
    let (place, created) = if flags.has(__O_TMPFILE) {
        (open_unnamed(&mut walk, from, path, flags, mode)?, true)
    } else if flags.has(O_CREAT) {
        open_or_create(walk, from, path, flags, mode)?
    } else {
        let follow = !flags.has(O_NOFOLLOW);
        let place = walk.resolve(from.as_ref(), path, follow)?;
        check_open(&place, flags)?;
        (place, false)
    };
    let kept = if created { flags.creating() } else { flags };
    let opened = match created {
        // The name exists by now: another attempt of the call would not create it.
        true => oom::insist(|| open_checked(place.clone(), kept))?,
        false => open_checked(place, kept)?,
    };
    Ok(fd.install(opened, flags.has(O_CLOEXEC)) as usize)
}

/// Checks that an existing inode may be opened with these flags.
pub(super) fn check_open(place: &Path, flags: OpenFlags) -> Result<()> {
    let kind = place.kind();
    if flags.has(O_DIRECTORY) && kind != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    if flags.has(O_PATH) {
        return Ok(());
    }
    match kind {
        Kind::Symlink => return Err(Errno::ELOOP),
        Kind::Directory if flags.writable() || flags.has(O_CREAT) => return Err(Errno::EISDIR),
        _ => {}
    }
    // Access mode 3 only permits control operations, and requires both permissions.
    let both = flags.has(O_ACCMODE);
    let mut wanted = 0;
    if flags.readable() || both {
        wanted |= perm::READ;
    }
    if flags.writable() || both || flags.has(O_TRUNC) {
        wanted |= perm::WRITE;
    }
    perm::check(place, wanted)?;
    if flags.writable() && !flags.has(O_APPEND) || flags.has(O_TRUNC) {
        perm::check_flags(place, place, FS_APPEND_FL)?;
    }
    if flags.has(O_NOATIME) {
        perm::owner(place)?;
    }
    Ok(())
}

/// Opens an inode after the check, and truncates it with O_TRUNC.
pub(super) fn open_checked(place: Path, flags: OpenFlags) -> Result<Arc<File>> {
    let opened = File::open(place, flags)?;
    if flags.has(O_TRUNC) && !flags.has(O_PATH) && opened.dentry().kind() == Kind::Regular {
        opened.dentry().inode().truncate(0)?;
        if !flags.created() {
            inotify::about(opened.dentry(), IN_MODIFY);
        }
    }
    Ok(opened)
}

/// Creates a file without a name in the file system of a directory.
fn open_unnamed(
    walk: &mut Walk,
    from: Option<Path>,
    path: &[u8],
    flags: OpenFlags,
    mode: u32,
) -> Result<Path> {
    let directory = walk.resolve(from.as_ref(), path, true)?;
    if directory.kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    perm::check(&directory, perm::WRITE | perm::EXECUTE)?;
    let mode = S_IFREG | mode & 0o7777 & !current().fs().umask();
    let made = directory
        .inode()
        .create_unnamed(&directory, mode, !flags.has(O_EXCL))?;
    Ok(directory.step(made))
}

/// Finds or creates the file that open(O_CREAT) names, and returns whether it was created; a
/// symbolic link at the end is followed even if it dangles.
fn open_or_create(
    mut walk: Walk,
    from: Option<Path>,
    path: &[u8],
    flags: OpenFlags,
    mode: u32,
) -> Result<(Path, bool)> {
    let umask = current().fs().umask();
    let (mut from, mut expanded) = (from, Vec::new());
    loop {
        let path = if expanded.is_empty() { path } else { &expanded };
        let (directory, last) = walk.parent(from.as_ref(), path)?;
        perm::search(&directory)?;
        if last.directory && last.last_component(Errno::EISDIR).is_ok() {
            return Err(Errno::EISDIR);
        }
        match walk.last(&directory, &last) {
            Ok(place) if flags.has(O_EXCL) => {
                walk.cover(place)?;
                return Err(Errno::EEXIST);
            }
            Ok(place) if place.kind() == Kind::Symlink && !flags.has(O_NOFOLLOW) => {
                match walk.follow(&directory, &place, true)? {
                    Link::Path(target) => (from, expanded) = (Some(directory), target),
                    Link::Jump(place) => {
                        check_open(&place, flags)?;
                        return Ok((place, false));
                    }
                }
            }
            Ok(place) => {
                let place = walk.cover(place)?;
                protected::check_create(&directory, &place)?;
                check_open(&place, flags)?;
                return Ok((place, false));
            }
            Err(Errno::ENOENT) => {
                let name = last.last_component(Errno::EISDIR)?;
                perm::check(&directory, perm::WRITE)?;
                let mode = mode & 0o7777 & !umask;
                match directory
                    .inode()
                    .create(&directory, name, New::Node(S_IFREG | mode, 0))
                {
                    // Another thread was faster: the file exists now.
                    Err(Errno::EEXIST) if !flags.has(O_EXCL) => {}
                    made => {
                        let made = made?;
                        inotify::in_directory(&directory, name, false, IN_CREATE, 0);
                        return Ok((directory.step(made), true));
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// close(2)
pub fn close(fd: i32) -> Result<usize> {
    current().files().close(fd)?;
    Ok(0)
}

/// Flags of close_range (linux/close_range.h).
const CLOSE_RANGE_UNSHARE: u32 = 1 << 1;
const CLOSE_RANGE_CLOEXEC: u32 = 1 << 2;

/// close_range(2)
pub fn close_range(first: u32, last: u32, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::CLOSE_RANGE.mask() as u32)?;
    if first > last {
        return Err(Errno::EINVAL);
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        current().unshare_files()?;
    }
    let files = current().files();
    if flags & CLOSE_RANGE_CLOEXEC != 0 {
        files.mark_range(first as usize, last as usize);
    } else {
        files.close_range(first as usize, last as usize);
    }
    Ok(0)
}

/// The result of a transfer outside the user address range, unless another error takes precedence.
#[cold]
fn out_of_reach(allowed: Result<()>) -> Result<usize> {
    allowed.and(Err(Errno::EFAULT))
}

/// read(2)
pub fn read(fd: i32, buffer: usize, len: usize) -> Result<usize> {
    let piece = IoVec { base: buffer, len };
    let thread = current();
    let file = thread.file(fd)?;
    if !access_ok(buffer, len) {
        return out_of_reach(file.check_readable());
    }
    let done = file.read(&mut Sink::one(&piece));
    thread.transfers.count(Direction::Read, done)
}

/// write(2)
pub fn write(fd: i32, buffer: usize, len: usize) -> Result<usize> {
    let piece = IoVec { base: buffer, len };
    let thread = current();
    let file = thread.file(fd)?;
    if !access_ok(buffer, len) {
        return out_of_reach(file.check_writable());
    }
    let done = file.write(&mut Source::one(&piece));
    thread.transfers.count(Direction::Write, done)
}

/// The maximum number of pieces in a call (`IOV_MAX`).
const MAX_PIECES: usize = 1024;

/// Copies the pieces of readv and its kin, and checks them.
pub fn pieces<L: Layout>(address: usize, count: usize) -> Result<Vec<IoVec>> {
    if count > MAX_PIECES {
        return Err(Errno::EINVAL);
    }
    let mut pieces = L::pieces(address, count)?;
    if pieces.iter().any(|piece| piece.len > isize::MAX as usize) {
        return Err(Errno::EINVAL);
    }
    match &mut *pieces {
        [one] => *one = one.import()?,
        many if many.iter().any(|piece| !access_ok(piece.base, piece.len)) => {
            return Err(Errno::EFAULT);
        }
        _ => {}
    }
    Ok(pieces)
}

/// Whether a call that moves `left` bytes is done without a look at the file, as on Linux. Some of
/// the files that are no file system's cannot be read, or written, at all.
fn moves_nothing(file: &File, left: usize) -> bool {
    left == 0 && file.dentry().kind() != Kind::Anonymous
}

/// readv(2)
pub fn readv<L: Layout>(fd: i32, vector: usize, count: usize) -> Result<usize> {
    let file = file(fd)?;
    file.check_readable()?;
    let pieces = pieces::<L>(vector, count)?;
    let mut sink = Sink::user(&pieces);
    if moves_nothing(&file, sink.left()) {
        return Ok(0);
    }
    let done = file.read(&mut sink);
    current().transfers.count(Direction::Read, done)
}

/// writev(2)
pub fn writev<L: Layout>(fd: i32, vector: usize, count: usize) -> Result<usize> {
    let file = file(fd)?;
    file.check_writable()?;
    let pieces = pieces::<L>(vector, count)?;
    let mut source = Source::user(&pieces);
    if moves_nothing(&file, source.left()) {
        return Ok(0);
    }
    let done = file.write(&mut source);
    current().transfers.count(Direction::Write, done)
}

fn position(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// pread64(2)
pub fn pread64(fd: i32, buffer: usize, len: usize, offset: i64) -> Result<usize> {
    let piece = IoVec { base: buffer, len };
    let position = position(offset)?;
    let file = file(fd)?;
    if !access_ok(buffer, len) {
        return out_of_reach(file.check_read_at());
    }
    let done = file.read_at(&mut Sink::one(&piece), position);
    current().transfers.count(Direction::Read, done)
}

/// pwrite64(2)
pub fn pwrite64(fd: i32, buffer: usize, len: usize, offset: i64) -> Result<usize> {
    let piece = IoVec { base: buffer, len };
    let position = position(offset)?;
    let file = file(fd)?;
    if !access_ok(buffer, len) {
        return out_of_reach(file.check_write_at());
    }
    let done = file.write_at(&mut Source::one(&piece), position);
    current().transfers.count(Direction::Write, done)
}

/// preadv(2); with 64-bit words the low half of the offset is the whole offset.
pub fn preadv<L: Layout>(fd: i32, vector: usize, count: usize, offset: i64) -> Result<usize> {
    let position = position(offset)?;
    let file = file(fd)?;
    file.check_read_at()?;
    let pieces = pieces::<L>(vector, count)?;
    let mut sink = Sink::user(&pieces);
    if moves_nothing(&file, sink.left()) {
        return Ok(0);
    }
    let done = file.read_at(&mut sink, position);
    current().transfers.count(Direction::Read, done)
}

/// pwritev(2)
pub fn pwritev<L: Layout>(fd: i32, vector: usize, count: usize, offset: i64) -> Result<usize> {
    let position = position(offset)?;
    let file = file(fd)?;
    file.check_write_at()?;
    let pieces = pieces::<L>(vector, count)?;
    let mut source = Source::user(&pieces);
    if moves_nothing(&file, source.left()) {
        return Ok(0);
    }
    let done = file.write_at(&mut source, position);
    current().transfers.count(Direction::Write, done)
}

/// RWF_NOAPPEND (linux/fs.h)
pub(super) const RWF_NOAPPEND: u32 = 0x20;

/// Checks the flags of preadv2, pwritev2 and io_submit; RWF_HIPRI has no effect.
pub(super) fn check_rwf(flags: u32) -> Result<()> {
    if u64::from(flags) & !abi::options::RWF.mask() != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & (RWF_APPEND | RWF_NOAPPEND) == RWF_APPEND | RWF_NOAPPEND {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// After a write with these flags: with RWF_DSYNC or RWF_SYNC, waits until the whole file is on the
/// device.
pub(super) fn sync_written(file: &File, flags: u32, done: Result<usize>) -> Result<usize> {
    let count = done?;
    if flags & (RWF_DSYNC | RWF_SYNC) != 0 && count > 0 {
        oom::insist(|| file.ops().sync(file, 0..u64::MAX))?;
    }
    Ok(count)
}

/// preadv2(2)
pub fn preadv2<L: Layout>(
    fd: i32,
    vector: usize,
    count: usize,
    offset: i64,
    _high: usize,
    flags: u32,
) -> Result<usize> {
    let at = match offset {
        -1 => None,
        _ => Some(position(offset)?),
    };
    let file = file(fd)?;
    match at {
        None => file.check_readable()?,
        Some(_) => file.check_read_at()?,
    }
    let pieces = pieces::<L>(vector, count)?;
    let mut sink = Sink::user(&pieces);
    // As on Linux, no flag is refused if there is nothing to read.
    if moves_nothing(&file, sink.left()) {
        return Ok(0);
    }
    check_rwf(flags)?;
    let done = match at {
        None => file.read(&mut sink),
        Some(at) => file.read_at(&mut sink, at),
    };
    current().transfers.count(Direction::Read, done)
}

/// pwritev2(2)
pub fn pwritev2<L: Layout>(
    fd: i32,
    vector: usize,
    count: usize,
    offset: i64,
    _high: usize,
    flags: u32,
) -> Result<usize> {
    let at = match offset {
        -1 => None,
        _ => Some(position(offset)?),
    };
    let file = file(fd)?;
    match at {
        None => file.check_writable()?,
        Some(_) => file.check_write_at()?,
    }
    let pieces = pieces::<L>(vector, count)?;
    let mut source = Source::user(&pieces);
    if moves_nothing(&file, source.left()) {
        return Ok(0);
    }
    check_rwf(flags)?;
    let done = match (flags & (RWF_APPEND | RWF_NOAPPEND), at) {
        (RWF_APPEND, _) => file.append(&mut source, at.is_none()),
        (RWF_NOAPPEND, _) => file.write_over(&mut source, at),
        (_, Some(at)) => file.write_at(&mut source, at),
        (_, None) => file.write(&mut source),
    };
    let done = sync_written(&file, flags, done);
    current().transfers.count(Direction::Write, done)
}

/// lseek(2)
pub fn lseek(fd: i32, offset: i64, whence: u32) -> Result<usize> {
    let file = opened(fd)?;
    let whence = match whence {
        SEEK_SET => Whence::Set,
        SEEK_CUR => Whence::Current,
        SEEK_END => Whence::End,
        SEEK_DATA => Whence::Data,
        SEEK_HOLE => Whence::Hole,
        _ => return Err(Errno::EINVAL),
    };
    Ok(file.seek(offset, whence)? as usize)
}

/// truncate(2)
pub fn truncate(path: usize, len: i64) -> Result<usize> {
    let len = u64::try_from(len).map_err(|_| Errno::EINVAL)?;
    let place = path::resolve(AT_FDCWD, path, 0)?;
    if place.kind() == Kind::Directory {
        return Err(Errno::EISDIR);
    }
    perm::check(&place, perm::WRITE)?;
    perm::check_flags(&place, &place, FS_APPEND_FL)?;
    lease::break_leases(&place, true, true)?;
    place.inode().truncate(len)?;
    inotify::about(&place, IN_MODIFY);
    Ok(0)
}

/// ftruncate(2)
pub fn ftruncate(fd: i32, len: i64) -> Result<usize> {
    let len = u64::try_from(len).map_err(|_| Errno::EINVAL)?;
    let file = opened(fd)?;
    if !file.flags().writable() {
        return Err(Errno::EINVAL);
    }
    perm::check_flags(file.path(), file.dentry(), FS_APPEND_FL)?;
    file.dentry().inode().truncate(len)?;
    inotify::about(file.dentry(), IN_MODIFY);
    Ok(0)
}

/// fallocate(2)
pub fn fallocate(fd: i32, mode: u32, offset: i64, len: i64) -> Result<usize> {
    let file = opened(fd)?;
    if offset < 0 || len <= 0 {
        return Err(Errno::EINVAL);
    }
    check_mode(mode)?;
    file.check_writable()?;
    let grows = mode & !FALLOC_FL_KEEP_SIZE == 0;
    let fixed = if grows { FS_IMMUTABLE_FL } else { perm::FIXED };
    perm::check_flags(file.path(), file.dentry(), fixed)?;
    match file.dentry().kind() {
        Kind::Fifo => return Err(Errno::ESPIPE),
        Kind::Directory => return Err(Errno::EISDIR),
        Kind::Regular | Kind::Block => {}
        _ => return Err(Errno::ENODEV),
    }
    if offset.checked_add(len).is_none() {
        return Err(Errno::EFBIG);
    }
    file.ops()
        .allocate(&file, mode, offset as u64, len as u64)?;
    Ok(0)
}

/// EOPNOTSUPP unless `mode` is one of fallocate(2)'s modes, with FALLOC_FL_KEEP_SIZE where that is
/// allowed, or needed.
fn check_mode(mode: u32) -> Result<()> {
    let keeps_size = mode & FALLOC_FL_KEEP_SIZE != 0;
    let valid = match mode & !FALLOC_FL_KEEP_SIZE {
        0 | FALLOC_FL_UNSHARE_RANGE | FALLOC_FL_ZERO_RANGE => true,
        FALLOC_FL_PUNCH_HOLE => keeps_size,
        FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE => !keeps_size,
        _ => false,
    };
    valid.then_some(()).ok_or(Errno::EOPNOTSUPP)
}

/// fsync(2), fdatasync(2)
pub fn fsync(fd: i32) -> Result<usize> {
    let file = opened(fd)?;
    match file.dentry().kind() {
        Kind::Fifo | Kind::Socket | Kind::Character | Kind::Anonymous => Err(Errno::EINVAL),
        _ => file.ops().sync(&file, 0..u64::MAX).map(|()| 0),
    }
}

/// syncfs(2)
pub fn syncfs(fd: i32) -> Result<usize> {
    opened(fd)?.sync_fs().map(|()| 0)
}

/// sync(2)
pub fn sync() -> Result<usize> {
    // First all files, with one commit; then what was written to block devices directly.
    ext4::sync_all();
    page_cache::sync_all();
    Ok(0)
}

/// sync_file_range(2)
pub fn sync_file_range(fd: i32, offset: i64, len: i64, flags: u32) -> Result<usize> {
    let file = opened(fd)?;
    check_flags(flags, abi::options::SYNC_FILE_RANGE.mask() as u32)?;
    if offset < 0 || len < 0 || offset.checked_add(len).is_none() {
        return Err(Errno::EINVAL);
    }
    match file.dentry().kind() {
        Kind::Regular | Kind::Block | Kind::Directory | Kind::Symlink => {
            file.ops().write_range(&file, byte_range(offset, len))?;
            Ok(0)
        }
        _ => Err(Errno::ESPIPE),
    }
}

/// fadvise64(2)
pub fn fadvise64(fd: i32, offset: i64, len: i64, advice: u32) -> Result<usize> {
    let file = opened(fd)?;
    if file.dentry().kind() == Kind::Fifo {
        return Err(Errno::ESPIPE);
    }
    if !abi::options::FADVISE.has(advice.into()) || len < 0 {
        return Err(Errno::EINVAL);
    }
    let range = byte_range(offset.max(0), len);
    match advice {
        POSIX_FADV_WILLNEED => file.ops().read_ahead(&file, range)?,
        POSIX_FADV_DONTNEED => file.ops().forget(&file, range),
        _ => {}
    }
    Ok(0)
}

/// `len` bytes from `offset` on, or all of them if `len` is 0.
fn byte_range(offset: i64, len: i64) -> Range<u64> {
    let start = offset as u64;
    match len {
        0 => start..u64::MAX,
        len => start..start.saturating_add(len as u64),
    }
}

/// readahead(2)
pub fn readahead(fd: i32, offset: i64, count: usize) -> Result<usize> {
    let file = file(fd)?;
    file.check_readable()?;
    match file.dentry().kind() {
        Kind::Regular | Kind::Block => {
            let start = offset.max(0) as u64;
            let end = start.saturating_add(count as u64);
            file.ops().read_ahead(&file, start..end)?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}
