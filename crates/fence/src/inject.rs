//! Fault injection: makes recovery run although the hardware never needs it.

/// Decides which new entries stay unseen for a while (`fence.inject=SEED`).
///
/// An emulator's TLB caches no invalid entries, so that a trap on a new mapping never comes by
/// itself. So a new entry that this says to hide is written as invalid, with its content kept, and
/// made valid by the first CPU that traps on it. The sequence depends on the seed and the CPU
/// alone.
#[derive(Clone, Debug)]
pub struct Injector {
    state: u64,
}

impl Injector {
    /// The sequence of CPU `cpu` for `seed`.
    pub const fn new(seed: u64, cpu: usize) -> Injector {
        Injector {
            state: mix(seed ^ mix(cpu as u64)),
        }
    }

    /// Whether to inject a fault, a hidden entry, at the next new one: about one in two.
    pub const fn should_inject(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state) >> 63 == 1
    }
}

/// SplitMix64's mixing.
const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
