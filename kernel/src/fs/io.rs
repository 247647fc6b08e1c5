//! The target of a read and the origin of a write: user memory in one or more pieces, or the
//! kernel's own memory, from which a ring takes whole pages without a copy.

use super::ring::Ring;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::user;

/// One piece of user memory, laid out as Linux's `struct iovec`.
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
    /// Its bytes as a call moves them that has this piece alone: no more than one call can.
    ///
    /// # Errors
    /// EFAULT: no program has them.
    pub fn import(self) -> Result<Self> {
        let len = self.len.min(MAX_COUNT);
        if user::access_ok(self.base, len) {
            Ok(IoVec { len, ..self })
        } else {
            Err(Errno::EFAULT)
        }
    }
}

/// The most that one call moves, as on Linux (`MAX_RW_COUNT`).
pub const MAX_COUNT: usize = 0x7fff_f000;

/// A position in a list of pieces of user memory.
struct Cursor<'a> {
    pieces: &'a [IoVec],
    /// Bytes of the first piece that are done.
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

    /// Hands up to `len` bytes, piece by piece, to `copy(address, offset, len)`, which says how
    /// many it did. Fails when none could be done although some were asked for.
    #[inline(always)]
    fn advance(
        &mut self,
        len: usize,
        mut copy: impl FnMut(usize, usize, usize) -> usize,
    ) -> Result<usize> {
        let len = len.min(self.left);
        match self.pieces.first() {
            // Nearly always: what is left of a piece is enough.
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

/// Where bytes go in the kernel.
enum Place<'a> {
    Buffer(&'a mut [u8]),
    Ring(&'a mut RingPlace<'a>),
}

/// The end of a ring, which takes so many bytes.
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

    /// Counts what was put in.
    fn took(&mut self, done: Result<usize>) -> Result<usize> {
        self.left -= *done.as_ref().unwrap_or(&0);
        done
    }
}

impl Place<'_> {
    // Out of line, so that sinks and sources in user memory have theirs at hand.
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

/// Takes the bytes of a read.
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

    /// Bytes that it can still take.
    pub fn left(&self) -> usize {
        match &self.0 {
            Target::User(cursor) => cursor.left,
            Target::Kernel(place) => place.left(),
        }
    }

    /// The addresses and lengths of its pieces, joined by or: what they are multiples of.
    pub fn alignment(&self) -> usize {
        match &self.0 {
            Target::User(cursor) => cursor.alignment(),
            Target::Kernel(_) => 0,
        }
    }

    /// Ends after `len` more bytes at most.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Target::User(cursor) => cursor.left = cursor.left.min(len),
            Target::Kernel(place) => place.truncate(len),
        }
    }

    /// Takes `len` bytes again after it was ended early, in user memory.
    pub fn allow(&mut self, len: usize) {
        if let Target::User(cursor) = &mut self.0 {
            cursor.left = len;
        }
    }

    /// Takes as many of `bytes` as fit and returns how many; EFAULT when the first already fails.
    pub fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.0 {
            Target::User(cursor) => cursor.advance(bytes.len(), |to, at, len| {
                user::copy_to(to, &bytes[at..at + len])
            }),
            Target::Kernel(place) => place.put(bytes),
        }
    }

    /// Puts `len` bytes of `frame` from `offset` on, straight from the frame.
    #[inline(always)]
    pub fn put_frame(&mut self, frame: &FrameRef, offset: usize, len: usize) -> Result<usize> {
        match &mut self.0 {
            Target::User(cursor) => {
                cursor.advance(len, |to, at, len| frame.copy_to_user(offset + at, to, len))
            }
            Target::Kernel(place) => place.put_frame(frame, offset, len),
        }
    }

    /// Puts `len` zeroes.
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

/// Bytes of the kernel.
enum Bytes<'a> {
    Buffer(&'a [u8]),
    Ring(&'a mut RingBytes<'a>),
}

/// The first bytes of a ring, where they stay.
pub struct RingBytes<'a> {
    ring: &'a Ring,
    done: usize,
    left: usize,
}

impl<'a> RingBytes<'a> {
    /// At most `len`.
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
    // Out of line, so that sinks and sources in user memory have theirs at hand.
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

/// Gives the bytes of a write.
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

    /// Bytes that it still has.
    pub fn left(&self) -> usize {
        match &self.0 {
            Origin::User(cursor) => cursor.left,
            Origin::Kernel(bytes) => bytes.left(),
        }
    }

    /// The addresses and lengths of its pieces, joined by or: what they are multiples of.
    pub fn alignment(&self) -> usize {
        match &self.0 {
            Origin::User(cursor) => cursor.alignment(),
            Origin::Kernel(_) => 0,
        }
    }

    /// Ends after `len` more bytes at most.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Origin::User(cursor) => cursor.left = cursor.left.min(len),
            Origin::Kernel(bytes) => bytes.truncate(len),
        }
    }

    /// Fills as much of `buffer` as it can and returns how much; EFAULT when the first byte already
    /// fails.
    pub fn take(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match &mut self.0 {
            Origin::User(cursor) => cursor.advance(buffer.len(), |from, at, len| {
                user::copy_from(from, &mut buffer[at..at + len])
            }),
            Origin::Kernel(bytes) => bytes.take(buffer),
        }
    }

    /// Takes bytes straight into `frame`, from `offset` on.
    #[inline(always)]
    pub fn take_frame(&mut self, frame: &FrameRef, offset: usize, len: usize) -> Result<usize> {
        match &mut self.0 {
            Origin::User(cursor) => cursor.advance(len, |from, at, len| {
                frame.copy_from_user(offset + at, from, len)
            }),
            Origin::Kernel(bytes) => bytes.take_frame(frame, offset, len),
        }
    }

    /// Reads all that is left, for nothing but to see that it can be read.
    pub fn discard(&mut self) -> Result<usize> {
        let (mut bytes, mut total) = ([0; 256], 0);
        while self.left() > 0 {
            total += self.take(&mut bytes)?;
        }
        Ok(total)
    }

    /// Drops `len` bytes unread, as /dev/null does.
    pub fn skip(&mut self, len: usize) -> usize {
        match &mut self.0 {
            Origin::User(cursor) => cursor.advance(len, |_, _, len| len).unwrap_or(0),
            Origin::Kernel(bytes) => bytes.skip(len),
        }
    }
}
