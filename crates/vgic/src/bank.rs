//! The state of 32 interrupts, with one bit for each.

use atomics::{AtomicU32, Ordering::*};

/// The number of words of priorities; each interrupt has one byte.
const PRIORITY_WORDS: usize = 8;
/// The implemented bits of a priority, for 32 levels.
const PRIORITY_BITS: u32 = 0xf8f8_f8f8;

/// 32 interrupts.
#[derive(Debug, Default)]
pub struct Bank {
    /// Interrupts that are enabled.
    pub enabled: AtomicU32,
    /// Made pending by an edge, by software, or by an SGI, until the guest takes them.
    pub latch: AtomicU32,
    /// Inputs that are high: pending as long as they are, unless edge-triggered.
    pub line: AtomicU32,
    /// Taken by the guest, which has not ended them.
    pub active: AtomicU32,
    /// Interrupts in a list register, which then has their pending and active state.
    pub listed: AtomicU32,
    /// The interrupts of group 1.
    pub group1: AtomicU32,
    /// Edge-triggered interrupts.
    pub edge: AtomicU32,
    priority: [AtomicU32; PRIORITY_WORDS],
}

impl Bank {
    /// The bank at reset: all interrupts are in group 1; `edge` are edge-triggered, `enabled`
    /// enabled.
    pub fn new(edge: u32, enabled: u32) -> Self {
        Bank {
            enabled: AtomicU32::new(enabled),
            group1: AtomicU32::new(u32::MAX),
            edge: AtomicU32::new(edge),
            ..Bank::default()
        }
    }

    /// The pending interrupts, without those in list registers.
    #[inline]
    pub fn pending(&self) -> u32 {
        self.latch.load(SeqCst) | self.line.load(Relaxed) & !self.edge.load(Relaxed)
    }

    /// Whether no interrupt is pending, or active outside list registers.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.active.load(Relaxed) | self.latch.load(Relaxed) | self.line.load(Relaxed) == 0
    }

    /// The interrupts to give to the guest, without those in list registers.
    #[inline]
    pub fn due(&self) -> u32 {
        self.pending() & self.enabled.load(Relaxed) & !self.active.load(Relaxed)
    }

    /// The interrupts that could be given to the guest now. If a CPU makes one pending while it is
    /// listed, the CPU that takes it out of the list register notices.
    #[inline]
    pub fn deliverable(&self) -> u32 {
        self.due() & !self.listed.load(SeqCst)
    }

    /// The priority of an interrupt; lower is more urgent.
    #[inline]
    pub fn priority(&self, bit: u32) -> u8 {
        (self.priority[bit as usize / 4 % PRIORITY_WORDS].load(Relaxed) >> (bit % 4 * 8)) as u8
    }

    /// The priorities of four interrupts, from number `4 × word` on.
    pub fn priorities(&self, word: usize) -> u32 {
        self.priority[word % PRIORITY_WORDS].load(Relaxed)
    }

    /// Sets the priorities whose bytes are set in `mask`, of four interrupts.
    pub fn set_priorities(&self, word: usize, value: u32, mask: u32) {
        let word = &self.priority[word % PRIORITY_WORDS];
        let merge = |old: u32| Some(old & !mask | value & mask & PRIORITY_BITS);
        // This always succeeds: `merge` never returns None.
        _ = word.fetch_update(Relaxed, Relaxed, merge);
    }

    /// Sets an input line. Returns true if this made the interrupt pending: for a level by a rise,
    /// for an edge each time it is set high.
    pub fn set_line(&self, bit: u32, high: bool) -> bool {
        let bit = 1 << bit;
        if !high {
            self.line.fetch_and(!bit, SeqCst);
            return false;
        }
        let rose = self.line.fetch_or(bit, SeqCst) & bit == 0;
        let edge = self.edge.load(Relaxed) & bit != 0;
        if edge {
            self.latch.fetch_or(bit, SeqCst);
        }
        rose || edge
    }

    /// The configuration of sixteen interrupts in the lower or upper half, with two bits each.
    pub fn configuration(&self, half: u32) -> u32 {
        let edge = self.edge.load(Relaxed) >> (half * 16);
        (0..16).fold(0, |word, at| word | (edge >> at & 1) << (2 * at + 1))
    }

    /// Sets the configuration of sixteen interrupts.
    pub fn set_configuration(&self, half: u32, value: u32) {
        let edge = (0..16).fold(0, |bits, at| bits | (value >> (2 * at + 1) & 1) << at);
        let shift = half * 16;
        let merge = |old: u32| Some(old & !(0xffff << shift) | edge << shift);
        // This always succeeds, as above.
        _ = self.edge.fetch_update(Relaxed, Relaxed, merge);
    }
}

/// The numbers of the set bits in ascending order.
pub(crate) fn bits(mut word: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 32).then_some(bit)
    })
}
