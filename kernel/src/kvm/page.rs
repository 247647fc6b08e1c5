//! `struct kvm_run`: the page that a virtual CPU shares with the monitor, who may write anything into it at any time.

use alloc::sync::Arc;

use super::uapi::{EXIT_DEBUG, EXIT_MMIO, EXIT_SYSTEM_EVENT, EXIT_UNDESCRIBED, EXIT_UNKNOWN};
use crate::errno::Result;
use crate::mm::area::PageSource;
use crate::mm::frame::FrameRef;
use crate::mm::shared::SharedPages;

/// Offsets of its fields.
const IMMEDIATE_EXIT: usize = 1;
const EXIT_REASON: usize = 8;
const FLAGS: usize = 14;
const MMIO_ADDRESS: usize = 32;
const MMIO_DATA: usize = 40;
const MMIO_LEN: usize = 48;
const MMIO_IS_WRITE: usize = 52;
const EVENT_TYPE: usize = 32;
const EVENT_COUNT: usize = 36;
const EVENT_DATA: usize = 40;

const DEBUG_SYNDROME: usize = 32;
const DEBUG_ADDRESS: usize = 40;
const UNDESCRIBED_SYNDROME: usize = 32;
const UNDESCRIBED_ADDRESS: usize = 40;

/// The page.
pub struct RunPage {
    /// What the monitor maps.
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

    /// Whether RUN is to come back at once.
    pub fn immediate_exit(&self) -> bool {
        let mut byte = [0];
        self.frame.read(IMMEDIATE_EXIT, &mut byte);
        byte[0] != 0
    }

    /// RUN begins: why it comes back is not known yet.
    pub fn begin(&self) {
        self.frame.write(FLAGS, &0u16.to_ne_bytes());
        self.set_reason(EXIT_UNKNOWN);
    }

    /// Says why RUN comes back.
    pub fn set_reason(&self, reason: u32) {
        self.frame.write(EXIT_REASON, &reason.to_ne_bytes());
    }

    /// The guest accesses a device of the monitor's; `data` is what it writes.
    pub fn set_mmio(&self, address: u64, len: usize, data: Option<u64>) {
        self.frame.write(MMIO_ADDRESS, &address.to_ne_bytes());
        self.frame
            .write(MMIO_DATA, &data.unwrap_or(0).to_le_bytes());
        self.frame.write(MMIO_LEN, &(len as u32).to_ne_bytes());
        self.frame.write(MMIO_IS_WRITE, &[data.is_some().into()]);
        self.set_reason(EXIT_MMIO);
    }

    /// The guest accesses a device in a way that the hardware does not describe.
    pub fn set_undescribed(&self, syndrome: u64, address: u64) {
        self.frame
            .write(UNDESCRIBED_SYNDROME, &syndrome.to_ne_bytes());
        self.frame
            .write(UNDESCRIBED_ADDRESS, &address.to_ne_bytes());
        self.set_reason(EXIT_UNDESCRIBED);
    }

    /// A debug exception that the monitor wants; with the address of a watchpoint's access.
    pub fn set_debug(&self, syndrome: u64, address: u64) {
        // Its lower and its upper half.
        self.frame.write(DEBUG_SYNDROME, &syndrome.to_ne_bytes());
        self.frame.write(DEBUG_ADDRESS, &address.to_ne_bytes());
        self.set_reason(EXIT_DEBUG);
    }

    /// What the monitor answered.
    pub fn mmio_data(&self) -> u64 {
        let mut bytes = [0; 8];
        self.frame.read(MMIO_DATA, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// The guest powered off or resets.
    pub fn set_event(&self, kind: u32, how: u64) {
        self.frame.write(EVENT_TYPE, &kind.to_ne_bytes());
        self.frame.write(EVENT_COUNT, &1u32.to_ne_bytes());
        self.frame.write(EVENT_DATA, &how.to_ne_bytes());
        self.set_reason(EXIT_SYSTEM_EVENT);
    }
}
