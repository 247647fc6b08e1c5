//! A ring of frames: the bytes of a pipe or a socket, copied straight from and to user memory.

use super::io::{Sink, Source};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, FrameRef};
use alloc::vec::Vec;

/// A queue of bytes.
pub struct Ring {
    /// A page each, where one was needed so far. The length is a power of two.
    pages: Vec<Option<FrameRef>>,
    /// Where the next byte is read.
    head: usize,
    len: usize,
}

impl Ring {
    /// An empty ring of `pages` pages, a power of two.
    pub fn new(pages: usize) -> Result<Self> {
        let mut frames = Vec::new();
        frames.try_reserve_exact(pages).map_err(|_| Errno::ENOMEM)?;
        frames.resize(pages, None);
        Ok(Ring {
            pages: frames,
            head: 0,
            len: 0,
        })
    }

    /// The most bytes that it can hold.
    pub fn capacity(&self) -> usize {
        self.pages.len() * PAGE_SIZE
    }

    /// Bytes that it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that it can still take.
    pub fn room(&self) -> usize {
        self.capacity() - self.len
    }

    /// The slot, the offset in its page and the bytes left there, of a position in the ring.
    fn place(&self, position: usize) -> (usize, usize, usize) {
        let position = position & (self.capacity() - 1);
        let offset = position % PAGE_SIZE;
        (position / PAGE_SIZE, offset, PAGE_SIZE - offset)
    }

    /// Copies bytes from `skip` on to `to`, as many as there are and fit; they stay.
    #[inline(always)]
    pub fn peek(&self, to: &mut Sink, skip: usize) -> Result<usize> {
        let wanted = self.len.saturating_sub(skip).min(to.left());
        let (slot, offset, rest) = self.place(self.head + skip);
        match &self.pages[slot] {
            Some(page) if wanted <= rest => to.put_frame(page, offset, wanted),
            _ => self.peek_pages(to, skip, wanted),
        }
    }

    /// Copies `wanted` bytes, which may lie on several pages, and leaves them in the ring.
    #[inline(never)]
    fn peek_pages(&self, to: &mut Sink, skip: usize, wanted: usize) -> Result<usize> {
        let mut total = 0;
        while total < wanted {
            let (slot, offset, rest) = self.place(self.head + skip + total);
            let len = rest.min(wanted - total);
            let Some(page) = &self.pages[slot] else { break };
            match to.put_frame(page, offset, len) {
                Ok(count) => {
                    total += count;
                    if count < len {
                        break;
                    }
                }
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(total)
    }

    /// Drops the first `count` bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let before = self.head;
        self.head += count;
        self.len -= count;
        if self.len == 0 {
            // Empty: begins at the first page again, the only one that is kept.
            if self.head > PAGE_SIZE {
                self.discard_pages();
            }
            self.head = 0;
        } else if before / PAGE_SIZE != self.head / PAGE_SIZE {
            self.discard_read_pages(before);
        }
    }

    /// Drops the pages, other than the first, whose bytes from position `before` on were all read.
    #[inline(never)]
    fn discard_read_pages(&mut self, before: usize) {
        let end = self.head + self.len;
        for start in (before / PAGE_SIZE..self.head / PAGE_SIZE).map(|page| page * PAGE_SIZE) {
            let slot = self.place(start).0;
            // The last bytes may be at the beginning of the same page.
            if slot != 0 && start + self.capacity() >= end {
                self.pages[slot] = None;
            }
        }
    }

    #[inline(never)]
    fn discard_pages(&mut self) {
        self.pages[1..].fill(None);
    }

    /// Drops the last bytes, so that `len` are left.
    pub fn truncate(&mut self, len: usize) {
        let dropped = self.len.saturating_sub(len);
        self.len -= dropped;
        self.release(dropped);
    }

    /// Takes out the byte at `index`; those before it move up.
    pub fn remove(&mut self, index: usize) {
        let mut bytes = [0; 256];
        let mut left = index;
        while left > 0 {
            let moved = &mut bytes[..left.min(256)];
            left -= moved.len();
            self.each_piece(left, moved, |page, offset, piece| page.read(offset, piece));
            self.each_piece(left + 1, moved, |page, offset, piece| {
                page.write(offset, piece);
            });
        }
        self.consume(1);
    }

    /// Hands `act` the pieces of `bytes`, each with the place of one page in the ring that it has,
    /// `from` being that of the first.
    fn each_piece(&self, from: usize, bytes: &mut [u8], act: impl Fn(&FrameRef, usize, &mut [u8])) {
        let (mut left, mut position) = (bytes, self.head + from);
        while !left.is_empty() {
            let (slot, offset, rest) = self.place(position);
            let (now, later) = left.split_at_mut(rest.min(left.len()));
            if let Some(page) = &self.pages[slot] {
                act(page, offset, now);
            }
            position += now.len();
            left = later;
        }
    }

    /// Moves bytes from the ring to `to`, as many as there are and fit.
    #[inline(always)]
    pub fn read(&mut self, to: &mut Sink) -> Result<usize> {
        let count = self.peek(to, 0)?;
        self.consume(count);
        Ok(count)
    }

    /// Moves bytes from `from` to the ring, as many as there are and fit.
    #[inline]
    pub fn write(&mut self, from: &mut Source) -> Result<usize> {
        self.write_some(from, usize::MAX)
    }

    /// Moves at most `most` bytes from `from` to the ring.
    #[inline(always)]
    pub fn write_some(&mut self, from: &mut Source, most: usize) -> Result<usize> {
        let wanted = most.min(self.room()).min(from.left());
        let (slot, offset, rest) = self.place(self.head + self.len);
        match &self.pages[slot] {
            Some(page) if wanted <= rest => {
                let count = from.take_frame(page, offset, wanted)?;
                self.len += count;
                Ok(count)
            }
            _ => self.write_pages(from, wanted),
        }
    }

    /// Moves `wanted` bytes, for which there is room, to any number of pages.
    #[inline(never)]
    fn write_pages(&mut self, from: &mut Source, wanted: usize) -> Result<usize> {
        let mut total = 0;
        while total < wanted {
            let (slot, offset, rest) = self.place(self.head + self.len);
            let len = rest.min(wanted - total);
            match self
                .page(slot)
                .and_then(|page| from.take_frame(page, offset, len))
            {
                Ok(count) => {
                    total += count;
                    self.len += count;
                    if count < len {
                        break;
                    }
                }
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(total)
    }

    /// Makes sure that `count` bytes, for which there is room, can be written without fail.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        let mut done = 0;
        while done < count {
            let (slot, _, rest) = self.place(self.head + self.len + done);
            self.page(slot)?;
            done += rest;
        }
        Ok(())
    }

    /// Drops the pages, other than the first, of `count` bytes that were not written after all.
    pub fn release(&mut self, count: usize) {
        let end = self.head + self.len;
        let mut done = end.next_multiple_of(PAGE_SIZE);
        // The last of them may be the one where the first byte is.
        while done < end + count && done + PAGE_SIZE <= self.head + self.capacity() {
            match self.place(done).0 {
                0 => {}
                slot => self.pages[slot] = None,
            }
            done += PAGE_SIZE;
        }
    }

    fn page(&mut self, slot: usize) -> Result<&FrameRef> {
        let page = &mut self.pages[slot];
        match page {
            Some(page) => Ok(page),
            None => Ok(page.insert(frame::alloc()?)),
        }
    }

    /// A ring of `pages` pages with these bytes; EBUSY when they do not fit.
    pub fn resized(&self, pages: usize) -> Result<Ring> {
        if self.len > pages * PAGE_SIZE {
            return Err(Errno::EBUSY);
        }
        let mut ring = Ring::new(pages)?;
        let mut bytes = [0; 256];
        for done in (0..self.len).step_by(bytes.len()) {
            let chunk = &mut bytes[..(self.len - done).min(256)];
            self.each_piece(done, chunk, |page, offset, piece| page.read(offset, piece));
            ring.write(&mut Source::kernel(chunk))?;
        }
        Ok(ring)
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn pages_whose_bytes_were_read_are_given_back() {
        let pages = |ring: &Ring| ring.pages.iter().flatten().count();
        let page = [7; PAGE_SIZE];
        let mut ring = Ring::new(4).unwrap();
        let write = |ring: &mut Ring, len| ring.write(&mut Source::kernel(&page[..len])).unwrap();
        for _ in 0..3 {
            assert_eq!(write(&mut ring, PAGE_SIZE), PAGE_SIZE);
        }
        ring.consume(2 * PAGE_SIZE + 1);
        assert_eq!(pages(&ring), 2, "the first page, and that of the bytes left");
        for _ in 0..3 {
            write(&mut ring, PAGE_SIZE);
        }
        // The page with the first byte has no room for others before it.
        assert_eq!((ring.room(), pages(&ring)), (1, 4));
        ring.consume(PAGE_SIZE - 1);
        assert_eq!(pages(&ring), 3);
        // Now the last bytes are where those were, and stay when the page before is read.
        write(&mut ring, 1);
        ring.consume(PAGE_SIZE);
        assert_eq!(pages(&ring), 3);
        ring.truncate(1);
        assert_eq!((ring.len(), pages(&ring)), (1, 1));
    }
}
