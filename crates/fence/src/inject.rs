//! Fault injection: makes recovery run although the hardware never needs it.

/// Decides which new entries stay hidden for a while (`fence.inject=SEED`).
///
/// An emulator's TLB caches no invalid entries, so a trap on a new mapping never happens by itself.
/// Therefore a new entry that this hides is written as invalid, with its other content, and the
/// first CPU that traps on it makes it valid. The sequence depends only on the seed and the CPU.
#[derive(Clone, Debug)]
pub struct Injector {
    state: u64,
}

impl Injector {
    /// The sequence of CPU `cpu` with `seed`.
    pub const fn new(seed: u64, cpu: usize) -> Injector {
        Injector {
            state: mix(seed ^ mix(cpu as u64)),
        }
    }

    /// Whether to hide the next new entry: about one in two.
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
