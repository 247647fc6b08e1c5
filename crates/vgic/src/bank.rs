//! The state of 32 interrupts, with one bit for each.

use atomics::{AtomicU32, Ordering::*};

/// Words of priorities, a byte an interrupt.
const PRIORITY_WORDS: usize = 8;
/// The bits of a priority that there are: 32 levels.
const PRIORITY_BITS: u32 = 0xf8f8_f8f8;

/// 32 interrupts.
#[derive(Debug, Default)]
pub struct Bank {
    /// Let through.
    pub enabled: AtomicU32,
    /// Made pending by an edge, by software, or by an SGI, until taken.
    pub latch: AtomicU32,
    /// Inputs that are high: pending as long as they are, unless edge-triggered.
    pub line: AtomicU32,
    /// Taken by the guest, and not done with.
    pub active: AtomicU32,
    /// In a list register, which knows better than this whether it is pending or active.
    pub listed: AtomicU32,
    /// The interrupts of group 1.
    pub group1: AtomicU32,
    /// Edge-triggered.
    pub edge: AtomicU32,
    priority: [AtomicU32; PRIORITY_WORDS],
}

impl Bank {
    /// At reset, all in group 1, these edge-triggered and these enabled.
    pub fn new(edge: u32, enabled: u32) -> Self {
        Bank {
            enabled: AtomicU32::new(enabled),
            group1: AtomicU32::new(u32::MAX),
            edge: AtomicU32::new(edge),
            ..Bank::default()
        }
    }

    /// The pending interrupts, list registers aside.
    #[inline]
    pub fn pending(&self) -> u32 {
        self.latch.load(SeqCst) | self.line.load(Relaxed) & !self.edge.load(Relaxed)
    }

    /// Whether none is pending, or active outside of list registers.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.active.load(Relaxed) | self.latch.load(Relaxed) | self.line.load(Relaxed) == 0
    }

    /// The interrupts to give to the guest, list registers aside.
    #[inline]
    pub fn due(&self) -> u32 {
        self.pending() & self.enabled.load(Relaxed) & !self.active.load(Relaxed)
    }

    /// The interrupts that could be given to the guest now. If a CPU makes one pending while it is
    /// listed, the CPU that takes it out of the list notices.
    #[inline]
    pub fn deliverable(&self) -> u32 {
        self.due() & !self.listed.load(SeqCst)
    }

    /// The priority of one, lower is more urgent.
    #[inline]
    pub fn priority(&self, bit: u32) -> u8 {
        (self.priority[bit as usize / 4 % PRIORITY_WORDS].load(Relaxed) >> (bit % 4 * 8)) as u8
    }

    /// The priorities of four, beginning with number `4 × word`.
    pub fn priorities(&self, word: usize) -> u32 {
        self.priority[word % PRIORITY_WORDS].load(Relaxed)
    }

    /// Sets the priorities of some of four: those whose bytes are set in `mask`.
    pub fn set_priorities(&self, word: usize, value: u32, mask: u32) {
        let word = &self.priority[word % PRIORITY_WORDS];
        let merge = |old: u32| Some(old & !mask | value & mask & PRIORITY_BITS);
        // Always succeeds: `merge` never says no.
        _ = word.fetch_update(Relaxed, Relaxed, merge);
    }

    /// An input line is set. True if its interrupt became pending so: by a rise, or for an edge by
    /// each time it is high.
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

    /// The configuration of sixteen, two bits each: those of the lower or the upper half.
    pub fn configuration(&self, half: u32) -> u32 {
        let edge = self.edge.load(Relaxed) >> (half * 16);
        (0..16).fold(0, |word, at| word | (edge >> at & 1) << (2 * at + 1))
    }

    /// Sets the configuration of sixteen.
    pub fn set_configuration(&self, half: u32, value: u32) {
        let edge = (0..16).fold(0, |bits, at| bits | (value >> (2 * at + 1) & 1) << at);
        let shift = half * 16;
        let merge = |old: u32| Some(old & !(0xffff << shift) | edge << shift);
        // Always succeeds, as above.
        _ = self.edge.fetch_update(Relaxed, Relaxed, merge);
    }
}

/// The numbers of the bits that are set, ascending.
pub(crate) fn bits(mut word: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 32).then_some(bit)
    })
}
