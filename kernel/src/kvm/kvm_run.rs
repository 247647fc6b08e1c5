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

/// Indices of the page's 64-bit words: `request_interrupt_window` and `immediate_exit`;
/// `exit_reason`, and x86's flags; then the details of the reason.
const REQUESTS: usize = 0;
const REASON: usize = 1;
const DETAILS: usize = 4;

/// `exit_reason` and `flags` in their word: the bits in between belong to the VMM.
const REASON_BITS: u64 = 0xffff_ffff;
const FLAGS_BITS: u64 = 0xffff << 48;

/// The page.
pub struct RunPage {
    /// The page as the VMM maps it.
    pub source: Arc<SharedPages>,
    frame: FrameRef,
}

impl RunPage {
    /// A zeroed page.
    pub fn new() -> Result<Self> {
        let source = SharedPages::new(1, true)?;
        let frame = source.page(0, true)?;
        Ok(RunPage { source, frame })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.frame.words()[at]
    }

    /// Whether KVM_RUN is to return at once.
    pub fn immediate_exit(&self) -> bool {
        self.word(REQUESTS).load(Relaxed) >> 8 & 0xff != 0
    }

    /// Called when KVM_RUN begins: the exit reason is not known yet.
    pub fn begin(&self) {
        self.replace(REASON_BITS | FLAGS_BITS, EXIT_UNKNOWN);
    }

    /// Sets the reason why KVM_RUN returns.
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

    /// Reports an access to a device of the VMM; `data` is the value written.
    pub fn set_mmio(&self, address: u64, len: usize, data: Option<u64>) {
        let kind = len as u64 | u64::from(data.is_some()) << 32;
        self.notify(EXIT_MMIO, [address, data.unwrap_or(0), kind]);
    }

    /// The value with which the VMM answers a read.
    pub fn mmio_data(&self) -> u64 {
        self.word(DETAILS + 1).load(Relaxed)
    }

    /// Reports an access that the hardware does not decode.
    pub fn set_undescribed(&self, syndrome: u64, address: u64) {
        self.notify(EXIT_ARM_NISV, [syndrome, address]);
    }

    /// Reports a debug exception that the VMM asked for, with the address that a watchpoint
    /// matched.
    pub fn set_debug(&self, syndrome: u64, address: u64) {
        // The syndrome's halves are two fields.
        self.notify(EXIT_DEBUG, [syndrome, address]);
    }

    /// Reports that the guest powers off, resets, is suspended or wakes up; `how` has the details.
    pub fn set_event(&self, kind: u32, how: Option<u64>) {
        let count = u64::from(how.is_some());
        self.notify(
            EXIT_SYSTEM_EVENT,
            [u64::from(kind) | count << 32, how.unwrap_or(0)],
        );
    }

    /// Reports a call that the VMM answers.
    pub fn set_hypercall(&self, function: u32, flags: u64) {
        let (arguments, result) = ([0; 6], 0);
        let [a, b, c, d, e, f] = arguments;
        self.notify(
            EXIT_HYPERCALL,
            [function.into(), a, b, c, d, e, f, result, flags],
        );
    }
}
