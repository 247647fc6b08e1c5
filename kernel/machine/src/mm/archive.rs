//! The initial archive, which the loader put into memory. It is read once; then its memory is
//! freed.

use core::ops::Range;

use super::{PhysAddr, frame, page_down, page_up};

/// The archive. Dropping it gives its memory to the allocator.
pub struct Archive {
    bytes: Range<usize>,
    /// Whether no other reserved range overlaps it.
    alone: bool,
}

impl Archive {
    /// The archive at `bytes`, if it lies in memory.
    pub(super) fn find(
        bytes: Range<usize>,
        ram: &[Range<usize>],
        reserved: &[Range<usize>],
    ) -> Option<Self> {
        let inside = |ram: &Range<usize>| ram.start <= bytes.start && bytes.end <= ram.end;
        if bytes.is_empty() || !ram.iter().any(inside) {
            return None;
        }
        let touches = |other: &&Range<usize>| other.start < bytes.end && bytes.start < other.end;
        let alone = reserved.iter().filter(touches).all(|r| *r == bytes);
        Some(Archive { bytes, alone })
    }

    /// The archive's content.
    pub fn bytes(&self) -> &[u8] {
        let start = PhysAddr(self.bytes.start).linear() as *const u8;
        // SAFETY: reserved memory in the linear map, which nobody writes until `self` is dropped.
        unsafe { core::slice::from_raw_parts(start, self.bytes.len()) }
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if self.alone {
            // SAFETY: reserved for the archive alone, which is being dropped.
            unsafe { frame::add(page_up(self.bytes.start)..page_down(self.bytes.end)) };
        }
    }
}
