//! `struct kvm_run`: the page that a virtual CPU shares with the VMM, which may write anything into
//! it at any time.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::uapi::{
    EXIT_ARM_NISV, EXIT_DEBUG, EXIT_HYPERCALL, EXIT_MMIO, EXIT_SYSTEM_EVENT, EXIT_UNKNOWN,
};
use crate::errno::Result;
use crate::mm::frame::FrameRef;
use crate::mm::shared::SharedPages;
use crate::mm::vma::PageSource;

/// Indices of its words of eight bytes: `request_interrupt_window` and `immediate_exit`;
/// `exit_reason`, and the flags of x86; then the details of the reason.
const REQUESTS: usize = 0;
const REASON: usize = 1;
const DETAILS: usize = 4;

/// `exit_reason` and `flags` in their word: the bits in between are the VMM's.
const REASON_BITS: u64 = 0xffff_ffff;
const FLAGS_BITS: u64 = 0xffff << 48;

/// The page.
pub struct RunPage {
    /// The page as the VMM maps it.
    pub source: Arc<SharedPages>,
    frame: FrameRef,
}

impl RunPage {
    /// All zero.
    pub fn new() -> Result<Self> {
        let source = SharedPages::new(1, true)?;
        let frame = source.page(0, true)?;
        Ok(RunPage { source, frame })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.frame.words()[at]
    }

    /// Whether RUN is to come back at once.
    pub fn immediate_exit(&self) -> bool {
        self.word(REQUESTS).load(Relaxed) >> 8 & 0xff != 0
    }

    /// RUN begins: why it comes back is not known yet.
    pub fn begin(&self) {
        self.replace(REASON_BITS | FLAGS_BITS, EXIT_UNKNOWN);
    }

    /// Says why RUN comes back.
    pub fn set_reason(&self, reason: u32) {
        self.replace(REASON_BITS, reason);
    }

    fn replace(&self, bits: u64, reason: u32) {
        let word = self.word(REASON);
        word.store(word.load(Relaxed) & !bits | u64::from(reason), Relaxed);
    }

    /// Stores the reason of an exit, and the first words of its details.
    fn notify<const COUNT: usize>(&self, reason: u32, details: [u64; COUNT]) {
        for (at, detail) in details.into_iter().enumerate() {
            self.word(DETAILS + at).store(detail, Relaxed);
        }
        self.set_reason(reason);
    }

    /// The guest accesses a device of the VMM's; `data` is the value it writes.
    pub fn set_mmio(&self, address: u64, len: usize, data: Option<u64>) {
        let kind = len as u64 | u64::from(data.is_some()) << 32;
        self.notify(EXIT_MMIO, [address, data.unwrap_or(0), kind]);
    }

    /// The VMM's answer to a read.
    pub fn mmio_data(&self) -> u64 {
        self.word(DETAILS + 1).load(Relaxed)
    }

    /// The guest accesses a device in a way that the hardware does not describe.
    pub fn set_undescribed(&self, syndrome: u64, address: u64) {
        self.notify(EXIT_ARM_NISV, [syndrome, address]);
    }

    /// A debug exception that the VMM wants; with the address of a watchpoint's access.
    pub fn set_debug(&self, syndrome: u64, address: u64) {
        // The syndrome's lower and its upper half are two fields.
        self.notify(EXIT_DEBUG, [syndrome, address]);
    }

    /// The guest powered off, resets, is suspended or wakes up; `how` has the details.
    pub fn set_event(&self, kind: u32, how: Option<u64>) {
        let count = u64::from(how.is_some());
        self.notify(
            EXIT_SYSTEM_EVENT,
            [u64::from(kind) | count << 32, how.unwrap_or(0)],
        );
    }

    /// The guest makes a call that is the VMM's.
    pub fn set_hypercall(&self, function: u32, flags: u64) {
        let (arguments, result) = ([0; 6], 0);
        let [a, b, c, d, e, f] = arguments;
        self.notify(
            EXIT_HYPERCALL,
            [function.into(), a, b, c, d, e, f, result, flags],
        );
    }
}
