//! Branches settled at boot: a policy's test on a hot path is one instruction, which falls through
//! or jumps, and loads nothing.

#[cfg(target_os = "none")]
pub(crate) use super::sites::take;
#[cfg(not(target_os = "none"))]
pub(crate) use super::take;

/// Makes the branches of `affinity=scan` jump, which either way may take. Other keys say what the
/// hardware has, and are the machine's to take.
///
/// # Panics
/// If other CPUs run already.
pub fn take_affinity_scan() {
    take(Key::AffinityScan);
}

/// What a branch tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(dead_code, reason = "each architecture has some of them")]
pub enum Key {
    /// `hwaf=reread`.
    HwafReread = 1,
    /// `affinity=scan`.
    AffinityScan = 2,
    /// `fence.kernel=preventive`.
    FenceKernelPreventive = 3,
    /// Programs' new entries are fenced for: no Svvptc, or not wanted.
    FenceUserPreventive = 4,
    /// `fence.inject`.
    FenceInject = 5,
    /// All CPUs zero memory by blocks (RISC-V: Zicboz).
    ZeroByBlock = 6,
    /// Tables have four levels (RISC-V).
    Sv48 = 7,
    /// Tables have five levels (RISC-V).
    Sv57 = 8,
    /// The hardware does not set the Access flag.
    SoftwareAccessFlag = 9,
    /// Programs have more than general and floating-point registers (arm64).
    MoreState = 10,
    /// Pages of programs can be guarded: FEAT_BTI (arm64).
    GuardedPages = 11,
    /// Memory has tags, of which programs have the use: FEAT_MTE2 (arm64).
    Tags = 12,
    /// Signal handlers begin with another state of the program than what they interrupt: either of
    /// the two (arm64).
    HandlerState = 13,
}
