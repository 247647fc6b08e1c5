//! Memory self-tests inside the kernel, and their shared helpers.

mod contpte;
mod lifetime;
mod memory;
mod model;
mod spaces;

use alloc::vec::Vec;
use core::ops::Range;

use super::frame::{self, FrameRef};
use super::space::SpaceUser;
use super::totals::Limits;
use super::vma::Rights;
use super::vmas::Removed;
use super::{AddressSpace, MapRequest, Move, PAGE_SIZE, Place, RemapRequest, huge_page};
use crate::arch::user_end;
use crate::errno::Errno;

/// Xorshift, so that all runs are the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// Number of pages in VMAs, and of resident pages.
fn size(space: &AddressSpace) -> (usize, usize) {
    let size = space.size();
    (size.vmas, size.resident)
}

const BASE: usize = 0x2000_0000;

fn map(space: &AddressSpace, at: usize, pages: usize, prot: u32) -> Result<usize, Errno> {
    let request = MapRequest {
        rights: Rights::from_prot(prot),
        ..MapRequest::anonymous(Place::Free(at), pages * PAGE_SIZE)
    };
    space.map(request, &mut Removed::new())
}

fn remap(
    space: &AddressSpace,
    old: Range<usize>,
    len: usize,
    place: Move,
    gone: &mut Removed,
) -> Result<usize, Errno> {
    let keep = false;
    let request = RemapRequest {
        old,
        len,
        place,
        keep,
    };
    Ok(space.remap(request, &Limits::NONE, gone)?.0)
}

fn byte(space: &AddressSpace, at: usize) -> Option<u8> {
    let mut byte = [0];
    (space.read(at, &mut byte) == Ok(1)).then_some(byte[0])
}

/// Makes huge pages available again after earlier tests: each write here takes some chains of
/// single frames apart, until there are none.
fn join_single_frames() {
    let space = SpaceUser::new(user_end()).unwrap();
    let writes = frame::free_count() / (frame::CHAINS * huge_page::SIZE / PAGE_SIZE) + 1;
    let range = BASE..BASE + writes * huge_page::SIZE;
    map(&space, BASE, range.len() / PAGE_SIZE, 3).unwrap();
    for at in range.step_by(huge_page::SIZE) {
        assert_eq!(space.write(at, &[1]), Ok(1));
    }
}

/// Allocates all memory, including the kernel's reserve.
fn take_all() -> (Vec<FrameRef>, Vec<Vec<u8>>) {
    let mut last: Vec<Vec<u8>> = Vec::with_capacity(4096);
    let mut frames = Vec::with_capacity(frame::free_count());
    while let Ok(frame) = frame::alloc() {
        frames.push(frame);
    }
    while last.len() < last.capacity() {
        let mut page = Vec::new();
        if page.try_reserve_exact(PAGE_SIZE).is_err() {
            break;
        }
        last.push(page);
    }
    (frames, last)
}
