//! Moving bytes between files without copying them to the program: sendfile, copy_file_range,
//! splice, tee, vmsplice. Whole pages of files are lent to pipes; bytes from pipes to files and
//! sockets are copied once.

use super::file::pieces;
use super::layout::Layout;
use super::path::{check_flags, opened};
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::file::Whence;
use crate::fs::inode::Kind;
use crate::fs::io::{MAX_COUNT, RingBytes, RingPlace, Sink, Source};
use crate::fs::pipe::End;
use crate::fs::ring::Ring;
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use crate::net::socket::SocketFile;
use crate::task::io_accounting::count_both;
use crate::task::oom;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::*;

/// One side of a copy between files, with a position: the file's own, or one given by the program.
struct Side {
    file: Arc<File>,
    position: Option<(Place, u64)>,
}

/// A position in the program's memory: its address, and the function that writes it.
struct Place {
    address: usize,
    put: fn(usize, u64) -> Result<()>,
}

/// A 64-bit offset that the program gave, or none.
struct Offset {
    address: usize,
    position: Option<i64>,
}

impl Offset {
    fn read(address: usize) -> Result<Self> {
        let position = UserPtr::<i64>::new(address).read_opt()?;
        Ok(Offset { address, position })
    }
}

/// Writes a 64-bit offset.
fn put_offset64(address: usize, position: u64) -> Result<()> {
    UserPtr::new(address).write(&position)
}

/// Writes a 32-bit offset.
fn put_offset32(address: usize, position: u64) -> Result<()> {
    UserPtr::new(address).write(&(position as u32))
}

impl Side {
    fn new(file: Arc<File>, offset: usize) -> Result<Self> {
        Self::at_offset(file, Offset::read(offset)?)
    }

    fn at_offset(file: Arc<File>, offset: Offset) -> Result<Self> {
        Self::of(file, offset.address, offset.position, put_offset64)
    }

    fn of(
        file: Arc<File>,
        address: usize,
        position: Option<i64>,
        put: fn(usize, u64) -> Result<()>,
    ) -> Result<Self> {
        let position = position.map(u64::try_from).transpose();
        let position = position.map_err(|_| Errno::EINVAL)?;
        let position = position.map(|position| (Place { address, put }, position));
        Ok(Side { file, position })
    }

    /// The position at which the copy begins.
    fn at(&self) -> Result<u64> {
        match &self.position {
            Some((_, position)) => Ok(*position),
            None => self.file.seek(0, Whence::Current),
        }
    }

    /// Reads without advancing the position if the file can be read again; `read_done` does the
    /// rest.
    fn read<'a>(&self, place: &'a mut RingPlace<'a>) -> Result<usize> {
        let to = &mut Sink::ring(place);
        match &self.position {
            Some((_, position)) => self.file.read_at(to, *position),
            None => self.file.read(to),
        }
    }

    /// Like [`read`](Self::read), for a pipe: if that must not block, neither does a Unix stream
    /// socket.
    fn read_for_pipe<'a>(&self, place: &'a mut RingPlace<'a>, nonblocking: bool) -> Result<usize> {
        let socket = self.file.ops_as::<SocketFile>().filter(|_| nonblocking);
        match socket.filter(|socket| socket.is_unix_stream()) {
            Some(socket) => socket.read_now(&self.file, &mut Sink::ring(place)),
            None => self.read(place),
        }
    }

    /// Completes a read, giving `unused` bytes at its end back.
    fn read_done(&mut self, count: usize, unused: usize) {
        match &mut self.position {
            Some((_, position)) => *position += (count - unused) as u64,
            None if unused > 0 => _ = self.file.seek(-(unused as i64), Whence::Current),
            None => {}
        }
    }

    fn write(&mut self, bytes: &mut Source) -> Result<usize> {
        match &mut self.position {
            Some((_, position)) => {
                let count = self.file.write_at(bytes, *position)?;
                *position += count as u64;
                Ok(count)
            }
            None => self.file.write(bytes),
        }
    }

    /// Writes to a socket as with MSG_MORE, and to other files normally.
    fn write_more(&mut self, bytes: &mut Source) -> Result<usize> {
        match self.file.ops_as::<SocketFile>() {
            Some(socket) => socket.write_more(&self.file, bytes),
            None => self.write(bytes),
        }
    }

    fn finish(self) -> Result<()> {
        match self.position {
            Some((place, position)) => (place.put)(place.address, position),
            None => Ok(()),
        }
    }
}

/// The number of pages that a copy between files moves at a time.
const CHUNK_PAGES: usize = 32;

/// A ring through which `count` bytes pass: files lend it their pages, so that bytes are copied
/// once.
fn ring(count: usize) -> Result<Ring> {
    let pages = count.div_ceil(PAGE_SIZE).next_power_of_two();
    Ring::new(pages.clamp(1, CHUNK_PAGES))
}

fn copy(mut from: Side, mut to: Side, count: usize) -> Result<usize> {
    from.file.check_readable()?;
    to.file.check_writable()?;
    let count = count.min(MAX_COUNT);
    let mut ring = ring(count)?;
    let mut total = 0;
    while total < count {
        let read = from.read(&mut RingPlace::new(&mut ring, count - total));
        let done = read.and_then(|read| {
            let written = match read {
                0 => Ok(0),
                _ => to.write(&mut Source::ring(&mut RingBytes::new(&ring, read))),
            };
            from.read_done(read, read - *written.as_ref().unwrap_or(&0));
            written
        });
        ring.consume(ring.len());
        match done {
            Ok(0) => break,
            Ok(written) => total += written,
            Err(error) if total == 0 => return Err(error),
            Err(Errno::ENOMEM) if oom::make_room() => continue,
            Err(_) => break,
        }
        // A short read is enough if reading on could block.
        if total < count && from.file.dentry().kind() != Kind::Regular {
            break;
        }
        if crate::task::sched::cond_resched_killable().is_err() {
            break;
        }
    }
    from.finish()?;
    to.finish()?;
    Ok(total)
}

/// sendfile64(2): the offset has 64 bits.
pub fn sendfile64(out: i32, input: i32, offset: usize, count: usize) -> Result<usize> {
    let position = UserPtr::<i64>::new(offset).read_opt()?;
    let input = source(input, position.is_some())?;
    send(
        Side::of(input, offset, position, put_offset64)?,
        opened(out)?,
        count,
    )
}

/// sendfile(2) of 32-bit programs: no position exceeds the range of the offset.
pub fn sendfile(out: i32, input: i32, offset: usize, count: usize) -> Result<usize> {
    const LAST: u64 = i32::MAX as u64;
    let position = UserPtr::<i32>::new(offset).read_opt()?.map(i64::from);
    let input = source(input, position.is_some())?;
    let from = Side::of(input, offset, position, put_offset32)?;
    let out = opened(out)?;
    let count = match from.position {
        None => count,
        Some((_, at)) if at >= LAST && count > 0 => return Err(Errno::EOVERFLOW),
        Some((_, at)) => count.min((LAST - at) as usize),
    };
    send(from, out, count)
}

/// The file that sendfile(2) reads, `at` a position or not.
fn source(fd: i32, at: bool) -> Result<Arc<File>> {
    let input = opened(fd)?;
    input.check_readable()?;
    if at && !input.has_places() {
        return Err(Errno::ESPIPE);
    }
    Ok(input)
}

fn send(from: Side, out: Arc<File>, count: usize) -> Result<usize> {
    out.check_writable()?;
    if let Some(pipe) = out.ops_as::<End>() {
        if from.file.ops_as::<End>().is_some() {
            return Err(Errno::EINVAL);
        }
        let nonblocking = out.flags().nonblocking();
        return count_both(fill(from, &pipe, count, nonblocking));
    }
    // Bytes read from a stream would be lost if the other side takes less.
    let directory = from.file.dentry().kind() == Kind::Directory;
    if directory || !from.file.has_places() || out.flags().has(O_APPEND) {
        return Err(Errno::EINVAL);
    }
    count_both(copy(from, Side::new(out, 0)?, count))
}

/// copy_file_range(2)
pub fn copy_file_range(
    input: i32,
    input_offset: usize,
    out: i32,
    out_offset: usize,
    count: usize,
    flags: u32,
) -> Result<usize> {
    let (input, out) = (opened(input)?, opened(out)?);
    let offsets = [Offset::read(input_offset)?, Offset::read(out_offset)?];
    check_flags(flags, 0)?;
    for file in [&input, &out] {
        match file.dentry().kind() {
            Kind::Regular => {}
            Kind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
    }
    if out.flags().has(O_APPEND) {
        return Err(Errno::EBADF);
    }
    let [from, to] = offsets;
    let (from, to) = (Side::at_offset(input, from)?, Side::at_offset(out, to)?);
    let count = extent(&from, &to, count)?;
    count_both(copy(from, to, count))
}

/// The part of `count` that a copy moves: it stays within one file system (EXDEV), ends at the end
/// of the source or of the largest file (EFBIG, EOVERFLOW), and does not overlap itself (EINVAL).
fn extent(from: &Side, to: &Side, count: usize) -> Result<usize> {
    let [source, target] = [from, to].map(|side| side.file.dentry().inode().attr());
    if source.device != target.device {
        return Err(Errno::EXDEV);
    }
    let (read, written) = (from.at()?, to.at()?);
    if read.max(written).checked_add(count as u64).is_none() {
        return Err(Errno::EOVERFLOW);
    }
    let room = (i64::MAX as u64).saturating_sub(written);
    if room == 0 {
        return Err(Errno::EFBIG);
    }
    let count = (count as u64)
        .min(source.size.saturating_sub(read))
        .min(room);
    if source.inode == target.inode && written < read + count && read < written + count {
        return Err(Errno::EINVAL);
    }
    Ok(count as usize)
}

/// The number of bytes that are moved from or to a pipe at a time.
const CHUNK: usize = CHUNK_PAGES * PAGE_SIZE;

/// All flags of the family (SPLICE_F_ALL).
const SPLICE_FLAGS: u32 = abi::options::SPLICE.mask() as u32;

/// Moves bytes from a file to a pipe, as many as there is room for; waits for room. There is no
/// other writer of the pipe meanwhile, so the bytes that were read fit.
fn fill(mut from: Side, pipe: &End, count: usize, nonblocking: bool) -> Result<usize> {
    // A file that can be read again needs no room before it is read, and its pages are lent.
    let regular = from.file.dentry().kind() == Kind::Regular;
    let most = if regular { CHUNK } else { PASSED };
    let total = pipe.fill(nonblocking, |ring| {
        let count = count.min(ring.room());
        by_parts(count, most, |_, len| {
            if !regular {
                ring.reserve(len)?;
            }
            let before = ring.len();
            let read = from.read_for_pipe(&mut RingPlace::new(ring, len), nonblocking);
            let there = *read.as_ref().unwrap_or(&0);
            from.read_done(there, 0);
            ring.truncate(before + there);
            if !regular {
                ring.release(len - there);
            }
            // A short read is enough if reading on could block.
            let ends = there == 0 || !regular;
            read.map(|count| (count, ends))
        })
    })?;
    from.finish()?;
    Ok(total)
}

/// Moves bytes out of a pipe: its present content, or the next bytes if it is empty. Bytes that the
/// other side does not accept stay, since there is no other reader meanwhile. With `more`, more
/// bytes will follow (SPLICE_F_MORE).
fn drain(pipe: &End, mut to: Side, count: usize, nonblocking: bool, more: bool) -> Result<usize> {
    let total = pipe.drain(nonblocking, |ring| {
        by_parts(count.min(ring.len()), CHUNK, |_, len| {
            let mut bytes = RingBytes::new(ring, len);
            let bytes = &mut Source::ring(&mut bytes);
            let written = if more {
                to.write_more(bytes)?
            } else {
                to.write(bytes)?
            };
            ring.consume(written);
            Ok((written, written == 0))
        })
    })?;
    to.finish()?;
    Ok(total)
}

/// The number of bytes that are moved from one pipe to another at a time.
const PASSED: usize = 16 * 1024;

/// Moves bytes from one pipe to another, or copies them unless `moves`.
fn pass([from, to]: [&End; 2], count: usize, nonblocking: bool, moves: bool) -> Result<usize> {
    from.check_other(to)?;
    let mut buffer = Vec::new();
    let room = count.min(PASSED);
    buffer.try_reserve_exact(room).map_err(|_| Errno::ENOMEM)?;
    buffer.resize(room, 0);
    End::pass(from, to, nonblocking, moves, |from, to| {
        let count = count.min(from.len()).min(to.room());
        by_parts(count, buffer.len(), |done, len| {
            from.peek(&mut Sink::kernel(&mut buffer[..len]), done)?;
            let count = to.write(&mut Source::kernel(&buffer[..len]))?;
            Ok((count, count < len))
        })
    })
}

/// Moves `count` bytes in parts of `most`. `act` gets the number of bytes done and the number to
/// do, and returns how many it did, and whether that is the end.
fn by_parts(
    count: usize,
    most: usize,
    mut act: impl FnMut(usize, usize) -> Result<(usize, bool)>,
) -> Result<usize> {
    let mut total = 0;
    while total < count {
        match act(total, most.min(count - total)) {
            Ok((done, ends)) => {
                total += done;
                if ends {
                    break;
                }
            }
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        }
        if crate::task::sched::cond_resched_killable().is_err() {
            break;
        }
    }
    Ok(total)
}

/// EINVAL for files that Linux does not splice: directories, eventfd and its kin; and for an offset
/// in a file without positions.
fn check_splice(file: &File, offset: usize) -> Result<()> {
    let apart = matches!(file.dentry().kind(), Kind::Directory | Kind::Anonymous);
    if apart || offset != 0 && !file.has_places() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// The files of a call that moves bytes from `input` to `out`; neither pipe blocks if one of them
/// is non-blocking.
fn files(
    input: i32,
    out: i32,
    flags: u32,
) -> Result<([Arc<File>; 2], [Option<Arc<End>>; 2], bool)> {
    check_flags(flags, SPLICE_FLAGS)?;
    let files = [opened(input)?, opened(out)?];
    let pipes = [0, 1].map(|side: usize| files[side].ops_as::<End>());
    let never = |side: usize| pipes[side].is_some() && files[side].flags().nonblocking();
    let nonblocking = flags & SPLICE_F_NONBLOCK != 0 || never(0) || never(1);
    Ok((files, pipes, nonblocking))
}

/// splice(2): one side is a pipe.
pub fn splice(
    input: i32,
    input_offset: usize,
    out: i32,
    out_offset: usize,
    count: usize,
    flags: u32,
) -> Result<usize> {
    if count == 0 {
        return Ok(0);
    }
    let ([input, out], [from, to], nonblocking) = files(input, out, flags)?;
    if from.is_some() && input_offset != 0 || to.is_some() && out_offset != 0 {
        return Err(Errno::ESPIPE);
    }
    let (out_at, input_at) = (Offset::read(out_offset)?, Offset::read(input_offset)?);
    input.check_readable()?;
    out.check_writable()?;
    match (from, to) {
        (None, None) => Err(Errno::EINVAL),
        (None, Some(to)) => {
            check_splice(&input, input_offset)?;
            fill(Side::at_offset(input, input_at)?, &to, count, nonblocking)
        }
        (Some(from), None) => {
            check_splice(&out, out_offset)?;
            if out.flags().has(O_APPEND) {
                return Err(Errno::EINVAL);
            }
            let more = flags & SPLICE_F_MORE != 0;
            let to = Side::at_offset(out, out_at)?;
            drain(&from, to, count, nonblocking, more)
        }
        (Some(from), Some(to)) => pass([&from, &to], count, nonblocking, true),
    }
}

/// tee(2)
pub fn tee(input: i32, out: i32, count: usize, flags: u32) -> Result<usize> {
    check_flags(flags, SPLICE_FLAGS)?;
    if count == 0 {
        return Ok(0);
    }
    let ([input, out], [from, to], nonblocking) = files(input, out, flags)?;
    input.check_readable()?;
    out.check_writable()?;
    let (from, to) = (from.ok_or(Errno::EINVAL)?, to.ok_or(Errno::EINVAL)?);
    pass([&from, &to], count, nonblocking, false)
}

/// vmsplice(2): a write to the pipe of as many bytes as there is room for, or a read from it. Only
/// `flags` decide whether to wait.
pub fn vmsplice<L: Layout>(fd: i32, vector: usize, count: usize, flags: u32) -> Result<usize> {
    check_flags(flags, SPLICE_FLAGS)?;
    let file = opened(fd)?;
    let pieces = pieces::<L>(vector, count)?;
    let nonblocking = flags & SPLICE_F_NONBLOCK != 0;
    let mut from = Source::user(&pieces);
    // As on Linux, no other file is refused if there is nothing to move.
    if from.left() == 0 {
        return Ok(0);
    }
    let pipe = file.ops_as::<End>().ok_or(Errno::EBADF)?;
    if file.flags().writable() {
        pipe.fill(nonblocking, |ring| ring.write(&mut from))
    } else {
        let mut to = Sink::user(&pieces);
        pipe.drain(nonblocking, |ring| ring.read(&mut to))
    }
}
