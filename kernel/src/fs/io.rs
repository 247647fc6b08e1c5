//! The target of a read and the origin of a write: user memory in one or more pieces, or the
//! kernel's own memory, from which a ring takes whole pages without a copy.

use super::ring::Ring;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::user;

/// One piece of user memory, in the layout of Linux's `struct iovec`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
)]
pub struct IoVec {
    /// The address of the first byte.
    pub base: usize,
    /// Length in bytes.
    pub len: usize,
}

impl IoVec {
    /// The piece, limited to what a single call can transfer.
    ///
    /// # Errors
    /// EFAULT: it is outside the user address range.
    pub fn import(self) -> Result<Self> {
        let len = self.len.min(MAX_COUNT);
        if user::access_ok(self.base, len) {
            Ok(IoVec { len, ..self })
        } else {
            Err(Errno::EFAULT)
        }
    }
}

/// The maximum number of bytes of a call, as on Linux (`MAX_RW_COUNT`).
pub const MAX_COUNT: usize = 0x7fff_f000;

/// The number of bytes that are faulted in at a time.
const FAULTED_IN: usize = 64 * PAGE_SIZE;

/// A position in a list of pieces of user memory.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    pieces: &'a [IoVec],
    /// The number of bytes of the first piece that are done.
    done: usize,
    left: usize,
}

impl<'a> Cursor<'a> {
    fn new(pieces: &'a [IoVec]) -> Self {
        let left = pieces
            .iter()
            .fold(0usize, |sum, piece| sum.saturating_add(piece.len));
        Cursor {
            pieces,
            done: 0,
            left: left.min(MAX_COUNT),
        }
    }

    #[inline(always)]
    fn one(piece: &'a IoVec) -> Self {
        Cursor {
            pieces: core::slice::from_ref(piece),
            done: 0,
            left: piece.len.min(MAX_COUNT),
        }
    }

    fn alignment(&self) -> usize {
        let join = |all, piece: &IoVec| all | piece.base | piece.len;
        self.pieces.iter().fold(0, join)
    }

    /// Passes up to `len` bytes, piece by piece, to `copy(address, offset, len)`, which returns how
    /// many it copied. Fails if none could be copied although some were requested.
    #[inline(always)]
    fn advance(
        &mut self,
        len: usize,
        mut copy: impl FnMut(usize, usize, usize) -> usize,
    ) -> Result<usize> {
        let len = len.min(self.left);
        match self.pieces.first() {
            // The common case: the rest of a piece is enough.
            Some(piece) if len <= piece.len - self.done => {
                let did = copy(piece.base.wrapping_add(self.done), 0, len);
                self.done += did;
                self.left -= did;
                if did == 0 && len > 0 {
                    return Err(Errno::EFAULT);
                }
                Ok(did)
            }
            _ => self.advance_pieces(len, &mut copy),
        }
    }

    /// As [`Self::advance`] with a `copy` that resolves no faults: all of `len` bytes, or none.
    #[inline(always)]
    fn advance_whole(
        &mut self,
        len: usize,
        mut copy: impl FnMut(usize, usize, usize) -> usize,
    ) -> Result<usize> {
        let len = len.min(self.left);
        match self.pieces.first() {
            Some(piece) if len <= piece.len - self.done => {
                if copy(piece.base.wrapping_add(self.done), 0, len) < len {
                    return Err(Errno::EFAULT);
                }
                self.done += len;
                self.left -= len;
                Ok(len)
            }
            _ => {
                let start = *self;
                match self.advance_pieces(len, &mut copy) {
                    Ok(did) if did == len => Ok(len),
                    _ => {
                        *self = start;
                        Err(Errno::EFAULT)
                    }
                }
            }
        }
    }

    #[inline(never)]
    fn advance_pieces(
        &mut self,
        len: usize,
        copy: &mut dyn FnMut(usize, usize, usize) -> usize,
    ) -> Result<usize> {
        let mut total = 0;
        while total < len {
            let Some((piece, rest)) = self.pieces.split_first() else {
                break;
            };
            let chunk = (piece.len - self.done).min(len - total);
            let did = if chunk == 0 {
                0
            } else {
                copy(piece.base.wrapping_add(self.done), total, chunk)
            };
            total += did;
            self.done += did;
            self.left -= did;
            if did < chunk {
                if total == 0 {
                    return Err(Errno::EFAULT);
                }
                break;
            }
            if self.done == piece.len {
                (self.pieces, self.done) = (rest, 0);
            }
        }
        Ok(total)
    }
}

enum Target<'a> {
    User(Cursor<'a>),
    Kernel(Place<'a>),
}

/// A target in the kernel.
enum Place<'a> {
    Buffer(&'a mut [u8]),
    Ring(&'a mut RingPlace<'a>),
}

/// The end of a ring, to which a limited number of bytes is added.
pub struct RingPlace<'a> {
    ring: &'a mut Ring,
    left: usize,
}

impl<'a> RingPlace<'a> {
    /// A place for at most `len` bytes.
    pub fn new(ring: &'a mut Ring, len: usize) -> Self {
        let left = ring.room().min(len);
        RingPlace { ring, left }
    }

    /// Counts the bytes added.
    fn took(&mut self, done: Result<usize>) -> Result<usize> {
        self.left -= *done.as_ref().unwrap_or(&0);
        done
    }
}

impl Place<'_> {
    // A separate function, so that sinks and sources in user memory are inlined.
    #[cold]
    #[inline(never)]
    fn left(&self) -> usize {
        match self {
            Place::Buffer(buffer) => buffer.len(),
            Place::Ring(place) => place.left,
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Place::Buffer(buffer) => {
                let len = len.min(buffer.len());
                let whole = core::mem::take(buffer);
                *buffer = &mut whole[..len];
            }
            Place::Ring(place) => place.left = place.left.min(len),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let bytes = &bytes[..bytes.len().min(self.left())];
        match self {
            Place::Buffer(buffer) => {
                split_off_front(buffer, bytes.len()).copy_from_slice(bytes);
                Ok(bytes.len())
            }
            Place::Ring(place) => {
                let done = place.ring.write(&mut Source::kernel(bytes));
                place.took(done)
            }
        }
    }

    #[inline(never)]
    fn put_frame(&mut self, frame: &FrameRef, offset: usize, len: usize) -> Result<usize> {
        let len = len.min(self.left());
        match self {
            Place::Buffer(buffer) => {
                frame.read(offset, split_off_front(buffer, len));
                Ok(len)
            }
            Place::Ring(place) => {
                let done = match (offset, len) {
                    (0, PAGE_SIZE) if place.ring.lend(frame) => Ok(len),
                    _ => place.ring.write_frame(frame, offset, len),
                };
                place.took(done)
            }
        }
    }

    fn put_zeros(&mut self, len: usize) -> Result<usize> {
        let len = len.min(self.left());
        match self {
            Place::Buffer(buffer) => {
                split_off_front(buffer, len).fill(0);
                Ok(len)
            }
            Place::Ring(place) => {
                let done = place.ring.write_zeros(len);
                place.took(done)
            }
        }
    }
}

/// The next `len` bytes of a buffer.
fn split_off_front<'b>(buffer: &mut &'b mut [u8], len: usize) -> &'b mut [u8] {
    let (head, tail) = core::mem::take(buffer).split_at_mut(len);
    *buffer = tail;
    head
}

/// The target of a read.
pub struct Sink<'a>(Target<'a>);

impl<'a> Sink<'a> {
    /// A sink in user memory.
    pub fn user(pieces: &'a [IoVec]) -> Self {
        Sink(Target::User(Cursor::new(pieces)))
    }

    /// A sink in user memory of one piece.
    #[inline(always)]
    pub fn one(piece: &'a IoVec) -> Self {
        Sink(Target::User(Cursor::one(piece)))
    }

    /// A sink in the kernel's memory.
    pub fn kernel(buffer: &'a mut [u8]) -> Self {
        Sink(Target::Kernel(Place::Buffer(buffer)))
    }

    /// A sink at the end of a ring.
    pub fn ring(place: &'a mut RingPlace<'a>) -> Self {
        Sink(Target::Kernel(Place::Ring(place)))
    }

    /// The number of bytes that it can still take.
    pub fn left(&self) -> usize {
        match &self.0 {
            Target::User(cursor) => cursor.left,
            Target::Kernel(place) => place.left(),
        }
    }

    /// All addresses and lengths of its pieces, combined by OR, which shows their common alignment.
    pub fn alignment(&self) -> usize {
        match &self.0 {
            Target::User(cursor) => cursor.alignment(),
            Target::Kernel(_) => 0,
        }
    }

    /// Limits it to `len` more bytes.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Target::User(cursor) => cursor.left = cursor.left.min(len),
            Target::Kernel(place) => place.truncate(len),
        }
    }

    /// Extends a limited sink in user memory to `len` bytes again.
    pub fn allow(&mut self, len: usize) {
        if let Target::User(cursor) = &mut self.0 {
            cursor.left = len;
        }
    }

    /// Takes as many of `bytes` as fit and returns their number; EFAULT if the first one already
    /// fails.
    pub fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.0 {
            Target::User(cursor) => cursor.advance(bytes.len(), |to, at, len| {
                user::copy_to(to, &bytes[at..at + len])
            }),
            Target::Kernel(place) => place.put(bytes),
        }
    }

    /// Copies `len` bytes of `frame` from `offset` on, directly from the frame.
    #[inline(always)]
    pub fn put_frame(&mut self, frame: &FrameRef, offset: usize, len: usize) -> Result<usize> {
        match &mut self.0 {
            Target::User(cursor) => {
                cursor.advance(len, |to, at, len| frame.copy_to_user(offset + at, to, len))
            }
            Target::Kernel(place) => place.put_frame(frame, offset, len),
        }
    }

    /// Whether it is in the kernel's memory, which may take less than fits, for lack of memory.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.0, Target::Kernel(_))
    }

    /// As [`Self::put_frame`] under a lock that must not wait for a page: all of `len` bytes, or
    /// none and EFAULT, which [`Self::fault_in`] may cure without the lock.
    #[inline(always)]
    pub fn put_frame_present(
        &mut self,
        frame: &FrameRef,
        offset: usize,
        len: usize,
    ) -> Result<usize> {
        match &mut self.0 {
            Target::User(cursor) => cursor.advance_whole(len, |to, at, len| {
                frame.copy_to_user_present(offset + at, to, len)
            }),
            Target::Kernel(place) => place.put_frame(frame, offset, len),
        }
    }

    /// Faults in the memory of the next bytes, which are about to be written; returns how many can
    /// be written.
    ///
    /// # Errors
    /// EFAULT: not even one.
    pub fn fault_in(&self) -> Result<usize> {
        match &self.0 {
            Target::User(cursor) => {
                let mut ahead = *cursor;
                ahead.advance(FAULTED_IN, |to, _, len| user::fault_in_writable(to, len))
            }
            Target::Kernel(place) => Ok(place.left()),
        }
    }

    /// Calls `put`, and undoes what it did to the place in user memory if it fails.
    pub fn all_or_none(&mut self, put: impl FnOnce(&mut Self) -> Result<usize>) -> Result<usize> {
        let start = match &self.0 {
            Target::User(cursor) => Some(*cursor),
            Target::Kernel(_) => None,
        };
        put(self).inspect_err(|_| {
            if let Some(start) = start {
                self.0 = Target::User(start);
            }
        })
    }

    /// Adds `len` zeroes.
    pub fn put_zeros(&mut self, len: usize) -> Result<usize> {
        match &mut self.0 {
            Target::User(cursor) => cursor.advance(len, |to, _, len| user::clear(to, len)),
            Target::Kernel(place) => place.put_zeros(len),
        }
    }
}

enum Origin<'a> {
    User(Cursor<'a>),
    Kernel(Bytes<'a>),
}

/// Bytes in the kernel.
enum Bytes<'a> {
    Buffer(&'a [u8]),
    Ring(&'a mut RingBytes<'a>),
}

/// The first bytes of a ring, which are not removed.
pub struct RingBytes<'a> {
    ring: &'a Ring,
    done: usize,
    left: usize,
}

impl<'a> RingBytes<'a> {
    /// At most `len` bytes.
    pub fn new(ring: &'a Ring, len: usize) -> Self {
        RingBytes {
            ring,
            done: 0,
            left: ring.len().min(len),
        }
    }

    fn skip(&mut self, len: usize) {
        self.done += len;
        self.left -= len;
    }
}

impl Bytes<'_> {
    // A separate function, so that sinks and sources in user memory are inlined.
    #[cold]
    #[inline(never)]
    fn left(&self) -> usize {
        match self {
            Bytes::Buffer(bytes) => bytes.len(),
            Bytes::Ring(bytes) => bytes.left,
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Bytes::Buffer(bytes) => *bytes = &bytes[..len.min(bytes.len())],
            Bytes::Ring(bytes) => bytes.left = bytes.left.min(len),
        }
    }

    fn take(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let len = buffer.len().min(self.left());
        let buffer = &mut buffer[..len];
        match self {
            Bytes::Buffer(bytes) => buffer.copy_from_slice(&bytes[..len]),
            Bytes::Ring(bytes) => _ = bytes.ring.peek(&mut Sink::kernel(buffer), bytes.done)?,
        }
        Ok(self.skip(len))
    }

    #[inline(never)]
    fn take_frame(&mut self, frame: &FrameRef, offset: usize, len: usize) -> Result<usize> {
        let len = len.min(self.left());
        match self {
            Bytes::Buffer(bytes) => frame.write(offset, &bytes[..len]),
            Bytes::Ring(bytes) => bytes.ring.copy_to_frame(bytes.done, frame, offset, len),
        }
        Ok(self.skip(len))
    }

    fn skip(&mut self, len: usize) -> usize {
        let len = len.min(self.left());
        match self {
            Bytes::Buffer(bytes) => *bytes = &bytes[len..],
            Bytes::Ring(bytes) => bytes.skip(len),
        }
        len
    }
}

/// The origin of a write.
pub struct Source<'a>(Origin<'a>);

impl<'a> Source<'a> {
    /// A source in user memory.
    pub fn user(pieces: &'a [IoVec]) -> Self {
        Source(Origin::User(Cursor::new(pieces)))
    }

    /// A source in user memory of one piece.
    #[inline(always)]
    pub fn one(piece: &'a IoVec) -> Self {
        Source(Origin::User(Cursor::one(piece)))
    }

    /// A source in the kernel's memory.
    pub fn kernel(bytes: &'a [u8]) -> Self {
        Source(Origin::Kernel(Bytes::Buffer(bytes)))
    }

    /// A source of the first bytes of a ring.
    pub fn ring(bytes: &'a mut RingBytes<'a>) -> Self {
        Source(Origin::Kernel(Bytes::Ring(bytes)))
    }

    /// The number of bytes that are left.
    pub fn left(&self) -> usize {
        match &self.0 {
            Origin::User(cursor) => cursor.left,
            Origin::Kernel(bytes) => bytes.left(),
        }
    }

    /// The length of the first piece, of which nothing was taken yet. Linux writes to some files
    /// piece by piece.
    pub fn first_piece(&self) -> usize {
        match &self.0 {
            Origin::User(cursor) => cursor
                .pieces
                .iter()
                .map(|piece| piece.len)
                .find(|&len| len > 0)
                .unwrap_or(0),
            Origin::Kernel(bytes) => bytes.left(),
        }
    }

    /// All addresses and lengths of its pieces, combined by OR, which shows their common alignment.
    pub fn alignment(&self) -> usize {
        match &self.0 {
            Origin::User(cursor) => cursor.alignment(),
            Origin::Kernel(_) => 0,
        }
    }

    /// Limits it to `len` more bytes.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Origin::User(cursor) => cursor.left = cursor.left.min(len),
            Origin::Kernel(bytes) => bytes.truncate(len),
        }
    }

    /// Fills as much of `buffer` as it can and returns the number of bytes; EFAULT if the first
    /// byte already fails.
    pub fn take(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match &mut self.0 {
            Origin::User(cursor) => cursor.advance(buffer.len(), |from, at, len| {
                user::copy_from(from, &mut buffer[at..at + len])
            }),
            Origin::Kernel(bytes) => bytes.take(buffer),
        }
    }

    /// Copies bytes directly into `frame`, from `offset` on.
    #[inline(always)]
    pub fn take_frame(&mut self, frame: &FrameRef, offset: usize, len: usize) -> Result<usize> {
        match &mut self.0 {
            Origin::User(cursor) => cursor.advance(len, |from, at, len| {
                frame.copy_from_user(offset + at, from, len)
            }),
            Origin::Kernel(bytes) => bytes.take_frame(frame, offset, len),
        }
    }

    /// As [`Self::take_frame`] under a lock that must not wait for a page: all of `len` bytes, or
    /// none and EFAULT, which [`Self::fault_in`] may cure without the lock.
    #[inline(always)]
    pub fn take_frame_present(
        &mut self,
        frame: &FrameRef,
        offset: usize,
        len: usize,
    ) -> Result<usize> {
        match &mut self.0 {
            Origin::User(cursor) => cursor.advance_whole(len, |from, at, len| {
                frame.copy_from_user_present(offset + at, from, len)
            }),
            Origin::Kernel(bytes) => bytes.take_frame(frame, offset, len),
        }
    }

    /// Calls `take`, and undoes what it did to the place in user memory if it fails.
    pub fn all_or_none(&mut self, take: impl FnOnce(&mut Self) -> Result<usize>) -> Result<usize> {
        let start = match &self.0 {
            Origin::User(cursor) => Some(*cursor),
            Origin::Kernel(_) => None,
        };
        take(self).inspect_err(|_| {
            if let Some(start) = start {
                self.0 = Origin::User(start);
            }
        })
    }

    /// Faults in the memory of the next bytes; returns how many can be read.
    ///
    /// # Errors
    /// EFAULT: not even one.
    pub fn fault_in(&self) -> Result<usize> {
        let Origin::User(cursor) = &self.0 else {
            return Ok(self.left());
        };
        let (mut ahead, mut bytes, mut done) = (*cursor, [0; 256], 0);
        ahead.left = ahead.left.min(FAULTED_IN);
        while ahead.left > 0 {
            let read = ahead.advance(bytes.len(), |from, at, len| {
                user::copy_from(from, &mut bytes[at..at + len])
            });
            match read {
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Extends a limited source in user memory to `len` bytes again.
    pub fn allow(&mut self, len: usize) {
        if let Origin::User(cursor) = &mut self.0 {
            cursor.left = len;
        }
    }

    /// Reads all that is left, only to check that it can be read.
    pub fn discard(&mut self) -> Result<usize> {
        let (mut bytes, mut total) = ([0; 256], 0);
        while self.left() > 0 {
            total += self.take(&mut bytes)?;
        }
        Ok(total)
    }

    /// Skips `len` bytes without reading them, as /dev/null does.
    pub fn skip(&mut self, len: usize) -> usize {
        match &mut self.0 {
            Origin::User(cursor) => cursor.advance(len, |_, _, len| len).unwrap_or(0),
            Origin::Kernel(bytes) => bytes.skip(len),
        }
    }
}
