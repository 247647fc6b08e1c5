//! A ring of frames: the bytes of a pipe or a socket, copied directly from and to user memory.

use super::io::{Sink, Source};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, FrameRef};
use alloc::vec::Vec;

/// A queue of bytes.
pub struct Ring {
    /// The pages of the slots, allocated on demand. The length is a power of two.
    pages: Vec<Option<FrameRef>>,
    /// Whole pages that were lent, which are not written through the ring, in place of its own:
    /// empty, or as long as `pages`.
    lent: Vec<Option<FrameRef>>,
    /// The position of the next byte to read.
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
            lent: Vec::new(),
            head: 0,
            len: 0,
        })
    }

    /// The maximum number of bytes that it can hold.
    pub fn capacity(&self) -> usize {
        self.pages.len() * PAGE_SIZE
    }

    /// The number of bytes that it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of bytes that it can still take.
    pub fn room(&self) -> usize {
        self.capacity() - self.len
    }

    /// The slot of a position in the ring, the offset in its page and the number of bytes from
    /// there to the page's end.
    fn place(&self, position: usize) -> (usize, usize, usize) {
        let position = position & (self.capacity() - 1);
        let offset = position % PAGE_SIZE;
        (position / PAGE_SIZE, offset, PAGE_SIZE - offset)
    }

    /// Copies bytes from `skip` on to `to`, as many as there are and fit, without removing them.
    #[inline(always)]
    pub fn peek(&self, to: &mut Sink, skip: usize) -> Result<usize> {
        let wanted = self.len.saturating_sub(skip).min(to.left());
        let (slot, offset, rest) = self.place(self.head + skip);
        match &self.pages[slot] {
            Some(page) if wanted <= rest => to.put_frame(page, offset, wanted),
            _ => self.peek_pages(to, skip, wanted),
        }
    }

    /// Copies `wanted` bytes, which may be on several pages, without removing them.
    #[inline(never)]
    fn peek_pages(&self, to: &mut Sink, skip: usize, wanted: usize) -> Result<usize> {
        let mut total = 0;
        while total < wanted {
            let (slot, offset, rest) = self.place(self.head + skip + total);
            let len = rest.min(wanted - total);
            let Some(page) = self.page_at(slot) else {
                break;
            };
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

    /// As [`Self::peek`], under a lock that must not wait for a page of the program: as many bytes
    /// as there are and fit, but at most `most`, or none and EFAULT.
    #[inline(always)]
    pub fn peek_present(&self, to: &mut Sink, skip: usize, most: usize) -> Result<usize> {
        let wanted = self.len.saturating_sub(skip).min(to.left()).min(most);
        let (slot, offset, rest) = self.place(self.head + skip);
        match &self.pages[slot] {
            Some(page) if wanted <= rest => to.put_frame_present(page, offset, wanted),
            _ => self.peek_pages_present(to, skip, wanted),
        }
    }

    #[inline(never)]
    fn peek_pages_present(&self, to: &mut Sink, skip: usize, wanted: usize) -> Result<usize> {
        if to.is_in_kernel() {
            return self.peek_pages(to, skip, wanted);
        }
        to.all_or_none(|to| {
            let mut total = 0;
            while total < wanted {
                let (slot, offset, rest) = self.place(self.head + skip + total);
                let page = self.page_at(slot).ok_or(Errno::EFAULT)?;
                total += to.put_frame_present(page, offset, rest.min(wanted - total))?;
            }
            Ok(total)
        })
    }

    /// Drops the first `count` bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let before = self.head;
        self.head += count;
        self.len -= count;
        if self.len == 0 {
            // The ring is empty: it begins at the first page again, the only one that is kept.
            if self.head > PAGE_SIZE {
                self.discard_pages();
            }
            self.head = 0;
        } else if before / PAGE_SIZE != self.head / PAGE_SIZE {
            self.discard_read_pages(before);
        }
    }

    /// Frees the pages, except the first, whose bytes from position `before` on were all read.
    #[inline(never)]
    fn discard_read_pages(&mut self, before: usize) {
        let end = self.head + self.len;
        for start in (before / PAGE_SIZE..self.head / PAGE_SIZE).map(|page| page * PAGE_SIZE) {
            let slot = self.place(start).0;
            // The last bytes may be at the beginning of the same page.
            if slot != 0 && start + self.capacity() >= end {
                self.pages[slot] = None;
            }
            self.drop_lent(slot);
        }
    }

    fn drop_lent(&mut self, slot: usize) {
        if let Some(lent) = self.lent.get_mut(slot) {
            *lent = None;
        }
    }

    #[inline(never)]
    fn discard_pages(&mut self) {
        self.pages[1..].fill(None);
        self.lent.fill(None);
    }

    /// The page of a slot, its own or lent.
    fn page_at(&self, slot: usize) -> Option<&FrameRef> {
        let lent = || self.lent.get(slot)?.as_ref();
        self.pages[slot].as_ref().or_else(lent)
    }

    /// Appends a whole page without a copy; false if there is no slot for it, which the first page
    /// of the ring never is. The ring may show later writes to the page.
    pub fn lend(&mut self, page: &FrameRef) -> bool {
        let (slot, offset, _) = self.place(self.head + self.len);
        let fits =
            offset == 0 && slot != 0 && self.room() >= PAGE_SIZE && self.page_at(slot).is_none();
        if !fits || self.lent.is_empty() && !self.make_lent() {
            return false;
        }
        self.lent[slot] = Some(page.clone());
        self.len += PAGE_SIZE;
        true
    }

    /// Makes room for lent pages; false if there is no memory.
    #[cold]
    fn make_lent(&mut self) -> bool {
        let enough = self.lent.try_reserve_exact(self.pages.len()).is_ok();
        if enough {
            self.lent.resize(self.pages.len(), None);
        }
        enough
    }

    /// Appends `len` bytes of a frame, for which there is room.
    pub fn write_frame(&mut self, frame: &FrameRef, offset: usize, len: usize) -> Result<usize> {
        let mut total = 0;
        while total < len {
            let (slot, at, rest) = self.place(self.head + self.len);
            let part = rest.min(len - total);
            match self.page(slot) {
                Ok(page) => page.copy_part(at, frame, offset + total, part),
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
            self.len += part;
            total += part;
        }
        Ok(total)
    }

    /// Appends `len` zeroes, for which there is room.
    pub fn write_zeros(&mut self, len: usize) -> Result<usize> {
        let zeros = [0; 256];
        let mut total = 0;
        while total < len {
            let part = &zeros[..zeros.len().min(len - total)];
            match self.write(&mut Source::kernel(part)) {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(total)
    }

    /// Copies `len` bytes of the ring from `skip` on into a frame, without removing them.
    pub fn copy_to_frame(&self, skip: usize, frame: &FrameRef, offset: usize, len: usize) {
        let mut done = 0;
        while done < len {
            let (slot, at, rest) = self.place(self.head + skip + done);
            let part = rest.min(len - done);
            if let Some(page) = self.page_at(slot) {
                frame.copy_part(offset + done, page, at, part);
            }
            done += part;
        }
    }

    /// Drops the last bytes, so that `len` are left.
    pub fn truncate(&mut self, len: usize) {
        let dropped = self.len.saturating_sub(len);
        self.len -= dropped;
        self.release(dropped);
    }

    /// Removes the byte at `index`; those before it move up. Not for a ring with lent pages.
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

    /// Calls `act` with the pieces of `bytes`, each with the page that holds it, and its offset
    /// there; `from` is the position of the first.
    fn each_piece(&self, from: usize, bytes: &mut [u8], act: impl Fn(&FrameRef, usize, &mut [u8])) {
        let (mut left, mut position) = (bytes, self.head + from);
        while !left.is_empty() {
            let (slot, offset, rest) = self.place(position);
            let (now, later) = left.split_at_mut(rest.min(left.len()));
            if let Some(page) = self.page_at(slot) {
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
            _ => self.write_pages::<false>(from, wanted),
        }
    }

    /// As [`Self::write_some`], under a lock that must not wait for a page of the program: a
    /// fault ends it, with EFAULT if it moved nothing.
    #[inline(always)]
    pub fn write_some_present(&mut self, from: &mut Source, most: usize) -> Result<usize> {
        let wanted = most.min(self.room()).min(from.left());
        let (slot, offset, rest) = self.place(self.head + self.len);
        match &self.pages[slot] {
            Some(page) if wanted <= rest => {
                let count = from.take_frame_present(page, offset, wanted)?;
                self.len += count;
                Ok(count)
            }
            _ => self.write_pages::<true>(from, wanted),
        }
    }

    /// As [`Self::write_some_present`], but all of `len` bytes, for which there is room, or EFAULT:
    /// then the source is as before, and the caller truncates the ring.
    #[inline]
    pub fn write_record_present(&mut self, from: &mut Source, len: usize) -> Result<usize> {
        let (slot, offset, rest) = self.place(self.head + self.len);
        match &self.pages[slot] {
            Some(page) if len <= rest => {
                from.take_frame_present(page, offset, len)?;
                self.len += len;
                Ok(len)
            }
            _ => self.write_record_pages(from, len),
        }
    }

    #[inline(never)]
    fn write_record_pages(&mut self, from: &mut Source, len: usize) -> Result<usize> {
        from.all_or_none(|from| match self.write_pages::<true>(from, len)? {
            count if count == len => Ok(len),
            _ => Err(Errno::EFAULT),
        })
    }

    /// Moves `wanted` bytes, for which there is room, to any number of pages.
    #[inline(never)]
    fn write_pages<const PRESENT: bool>(
        &mut self,
        from: &mut Source,
        wanted: usize,
    ) -> Result<usize> {
        let mut total = 0;
        while total < wanted {
            let (slot, offset, rest) = self.place(self.head + self.len);
            let len = rest.min(wanted - total);
            match self.page(slot).and_then(|page| match PRESENT {
                true => from.take_frame_present(page, offset, len),
                false => from.take_frame(page, offset, len),
            }) {
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

    /// Ensures that `count` bytes, for which there is room, can be written without failure.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        let mut done = 0;
        while done < count {
            let (slot, _, rest) = self.place(self.head + self.len + done);
            self.page(slot)?;
            done += rest;
        }
        Ok(())
    }

    /// Frees the pages, except the first, that were reserved for `count` bytes which were not
    /// written.
    pub fn release(&mut self, count: usize) {
        let end = self.head + self.len;
        let mut done = end.next_multiple_of(PAGE_SIZE);
        // The last of them may be the one with the first byte.
        while done < end + count && done + PAGE_SIZE <= self.head + self.capacity() {
            match self.place(done).0 {
                0 => {}
                slot => {
                    self.pages[slot] = None;
                    self.drop_lent(slot);
                }
            }
            done += PAGE_SIZE;
        }
    }

    /// The ring's own page of a slot, for writing. If the last bytes of a lent page there are not
    /// read yet, it is replaced by a copy.
    fn page(&mut self, slot: usize) -> Result<&FrameRef> {
        let page = &mut self.pages[slot];
        match page {
            Some(page) => Ok(page),
            None => {
                let own = page.insert(frame::alloc()?);
                if let Some(lent) = self.lent.get_mut(slot).and_then(Option::take) {
                    own.copy_part(0, &lent, 0, PAGE_SIZE);
                }
                Ok(own)
            }
        }
    }

    /// A ring of `pages` pages with the same bytes; EBUSY if they do not fit.
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

    fn a_lent_page_is_read_and_never_written() {
        let lent = frame::alloc().unwrap();
        lent.write(0, &[5; PAGE_SIZE]);
        let mut ring = Ring::new(2).unwrap();
        assert!(!ring.lend(&lent), "the first page is the ring's own");
        ring.write(&mut Source::kernel(&[1; PAGE_SIZE])).unwrap();
        assert!(ring.lend(&lent));
        assert_eq!(ring.room(), 0);
        let mut read = [0; PAGE_SIZE + 2];
        assert_eq!(ring.read(&mut Sink::kernel(&mut read)), Ok(PAGE_SIZE + 2));
        assert_eq!(read[PAGE_SIZE - 1..], [1, 5, 5]);
        // The end wraps around to where its first bytes were.
        ring.write(&mut Source::kernel(&[2; PAGE_SIZE + 2])).unwrap();
        assert_eq!(ring.room(), 0);
        let mut bytes = [0; PAGE_SIZE];
        lent.read(0, &mut bytes);
        assert_eq!(bytes, [5; PAGE_SIZE]);
        ring.read(&mut Sink::kernel(&mut bytes)).unwrap();
        assert_eq!(bytes[PAGE_SIZE - 3..], [5, 2, 2]);
        ring.read(&mut Sink::kernel(&mut bytes)).unwrap();
        assert_eq!((ring.len(), bytes[0]), (0, 2));
        let frames = ring.lent.iter().chain(&ring.pages);
        assert_eq!(frames.flatten().count(), 1, "the first page is kept");
    }
}
