//! The private interrupts of one virtual CPU.

use atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, seq_cst};

use crate::{Bank, SGIS, tables};

/// SGIs are edge-triggered, and enabled at reset, as in KVM.
const SGI_BITS: u32 = (1 << SGIS) - 1;

/// A bit of `arrived`: other interrupts of this virtual CPU have changed.
const LOOK: u32 = 1 << 31;

/// The private interrupts of a virtual CPU.
#[derive(Debug)]
pub struct Private {
    /// Their state.
    pub bank: Bank,
    /// SGIs that were sent since it last looked, and [`LOOK`].
    arrived: AtomicU32,
    /// GICR_PENDBASER: the table of pending LPIs.
    pub(crate) pending_table: AtomicU64,
    /// GICR_CTLR.EnableLPIs.
    pub(crate) lpis_on: AtomicBool,
}

impl Default for Private {
    fn default() -> Self {
        Private::new()
    }
}

impl Private {
    /// The state at reset.
    pub fn new() -> Self {
        Private {
            bank: Bank::new(SGI_BITS, SGI_BITS),
            arrived: AtomicU32::new(0),
            pending_table: AtomicU64::new(tables::PENDING_AT_RESET),
            lpis_on: AtomicBool::new(false),
        }
    }

    /// Whether the guest has turned LPIs on.
    #[inline]
    pub fn has_lpis_on(&self) -> bool {
        self.lpis_on.load(Relaxed)
    }

    /// Sends an SGI to this virtual CPU. `group1` tells whether the register also raises group 1,
    /// not only group 0. True if its CPU must be notified: the SGI was not sent yet, and is
    /// enabled.
    #[inline]
    pub fn send(&self, sgi: u8, group1: bool) -> bool {
        let bit = 1 << (sgi & 15);
        if !group1 && self.bank.group1.load(Relaxed) & bit != 0 {
            return false;
        }
        let before = self.arrived.fetch_or(bit, SeqCst);
        seq_cst();
        before & bit == 0 && self.bank.enabled.load(SeqCst) & bit != 0
    }

    /// Requests a refresh after other interrupts have changed. True if its CPU must be notified.
    #[inline]
    pub fn request_refresh(&self) -> bool {
        let before = self.arrived.fetch_or(LOOK, SeqCst);
        seq_cst();
        before & LOOK == 0
    }

    /// Whether anything arrived since [`Private::accept`].
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.arrived.load(SeqCst) != 0
    }

    /// The flags that other threads have set since then. Its own thread reads them; a thread that
    /// sets one also interrupts it.
    #[inline(always)]
    pub fn pending_flags(&self) -> u32 {
        self.arrived.load(Relaxed)
    }

    /// Makes the SGIs that arrived pending. True if other interrupts must be examined.
    #[inline]
    pub fn accept(&self) -> bool {
        // If a sender does not see yet that this virtual CPU runs here, this sees what it sent.
        if self.arrived.load(SeqCst) == 0 {
            return false;
        }
        let arrived = self.arrived.swap(0, SeqCst);
        self.bank.latch.fetch_or(arrived & SGI_BITS, Relaxed);
        arrived & LOOK != 0
    }

    /// The interrupts that could be given to the guest now, including SGIs that arrived.
    pub fn deliverable(&self) -> u32 {
        let arrived = self.arrived.load(SeqCst) & SGI_BITS & self.bank.enabled.load(Relaxed);
        self.bank.deliverable() | arrived & !self.bank.active.load(Relaxed)
    }
}
