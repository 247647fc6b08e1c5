//! The initial archive, which the loader put into memory: read once, then memory like any other.

use core::ops::Range;

use super::{PhysAddr, frame, page_down, page_up};

/// The archive. Its memory goes to the allocator with it.
pub struct Archive {
    bytes: Range<usize>,
    /// Whether nothing else that must stay lies there.
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

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        let start = PhysAddr(self.bytes.start).linear() as *const u8;
        // SAFETY: reserved memory in the linear map, which nobody writes until this goes.
        unsafe { core::slice::from_raw_parts(start, self.bytes.len()) }
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if self.alone {
            // SAFETY: reserved for the archive alone, which goes.
            unsafe { frame::add(page_up(self.bytes.start)..page_down(self.bytes.end)) };
        }
    }
}
