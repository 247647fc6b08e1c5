//! Static branches, patched at boot: the test of a policy on a hot path is a single instruction,
//! which falls through or jumps, without a load.

#[cfg(target_os = "none")]
pub(crate) use super::sites::take;
#[cfg(not(target_os = "none"))]
pub(crate) use super::take;

/// Makes the branches of `affinity=scan` jump; both directions are safe. Other keys depend on the
/// hardware, so only this crate takes them.
///
/// # Panics
/// If other CPUs already run.
pub fn take_affinity_scan() {
    take(Key::AffinityScan);
}

/// The condition that a branch tests.
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
    /// New PTEs of programs are fenced: no Svvptc, or `fence.user=preventive`.
    FenceUserPreventive = 4,
    /// `fence.inject`.
    FenceInject = 5,
    /// All CPUs can zero memory by blocks (RISC-V: Zicboz).
    ZeroByBlock = 6,
    /// Four table levels (RISC-V).
    Sv48 = 7,
    /// Five table levels (RISC-V).
    Sv57 = 8,
    /// The hardware does not set the Access flag.
    SoftwareAccessFlag = 9,
    /// Programs may have more state than general and floating-point registers (arm64).
    MoreState = 10,
    /// Pages of programs can be guarded: FEAT_BTI (arm64).
    GuardedPages = 11,
    /// Memory has tags, which programs can use: FEAT_MTE2 (arm64).
    Tags = 12,
    /// Signal handlers start with PSTATE bits that differ from the interrupted program's: because
    /// of either of the two above (arm64).
    HandlerState = 13,
    /// Runs of contiguous pages of files have contiguous entries (`contpte=on`).
    Contiguous = 14,
}
