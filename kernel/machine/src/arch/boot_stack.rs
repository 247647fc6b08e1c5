//! The stacks of the boot CPU, which are part of the image. They have the layout of all others in
//! `mm`: each is above a guard of the same size, so that a single address bit distinguishes the
//! two, and the guards are left out of the kernel's map.

use core::cell::UnsafeCell;
use core::ops::Range;

use super::KERNEL_STACK_SIZE;

/// A stack above its guard.
#[repr(C, align(32768))]
pub struct BootStack {
    guard: [u8; KERNEL_STACK_SIZE],
    stack: UnsafeCell<[u8; KERNEL_STACK_SIZE]>,
}

const _: () = assert!(align_of::<BootStack>() == 2 * KERNEL_STACK_SIZE);

// SAFETY: only the boot CPU's stack pointer refers to the bytes.
unsafe impl Sync for BootStack {}

/// The stack on which the boot CPU starts, and its idle thread stays; and the one on which an
/// overflow of it is reported.
pub static BOOT_STACKS: [BootStack; 2] = [const {
    BootStack {
        guard: [0; KERNEL_STACK_SIZE],
        stack: UnsafeCell::new([0; KERNEL_STACK_SIZE]),
    }
}; 2];

impl BootStack {
    /// The end of the stack.
    pub fn top(&'static self) -> usize {
        self.stack.get() as usize + KERNEL_STACK_SIZE
    }

    fn guard(&'static self) -> Range<usize> {
        let start = &raw const self.guard as usize;
        start..start + KERNEL_STACK_SIZE
    }
}

/// Whether an address belongs to one of the stacks or their guards.
pub fn contains(address: usize) -> bool {
    let start = &raw const BOOT_STACKS as usize;
    (start..start + size_of_val(&BOOT_STACKS)).contains(&address)
}

/// The mapped parts of a range of the image that contains both stacks: all but the guards.
pub fn without_guards(range: Range<usize>) -> [Range<usize>; 3] {
    let [first, second] = [BOOT_STACKS[0].guard(), BOOT_STACKS[1].guard()];
    [
        range.start..first.start,
        first.end..second.start,
        second.end..range.end,
    ]
}
