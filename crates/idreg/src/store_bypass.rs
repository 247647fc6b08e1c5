//! Speculative store bypass (Spectre variant 4): whether a load may be executed before an older
//! store to the same address, and whether programs can forbid that (Linux's
//! `arch/arm64/kernel/proton-pack.c`, Documentation/userspace-api/spec_ctrl.rst).

use crate::Raw;
use crate::errata::{ARM, Model};
use crate::register::{ID_AA64PFR1_EL1, MIDR_EL1, Place, place};

pub(crate) const SSBS: Place = place(ID_AA64PFR1_EL1, "SSBS");

/// CPUs that never bypass a store, by implementer and part.
const UNAFFECTED: &[(u64, u64)] = &[
    (ARM, 0xd03),      // Cortex-A53
    (ARM, 0xd04),      // Cortex-A35
    (ARM, 0xd05),      // Cortex-A55
    (BROADCOM, 0x100), // Brahma B53
    (QUALCOMM, 0x803), // Kryo 3XX Silver
    (QUALCOMM, 0x805), // Kryo 4XX Silver
];

const BROADCOM: u64 = 0x42;
const QUALCOMM: u64 = 0x51;

/// What programs can do about it. With several CPUs, the worst (the greatest) counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreBypass {
    /// The CPUs do not bypass stores.
    Unaffected,
    /// PSTATE.SSBS forbids it (FEAT_SSBS).
    Mitigated,
    /// Nothing forbids it. Firmware that could (SMCCC_ARCH_WORKAROUND_2) is not called.
    Vulnerable,
}

impl StoreBypass {
    /// The state of one CPU.
    pub(crate) fn of(cpu: &Raw) -> StoreBypass {
        let model = Model::of(cpu.get(MIDR_EL1), 0);
        if UNAFFECTED.contains(&(model.implementer(), model.part())) {
            StoreBypass::Unaffected
        } else if SSBS.field.get(cpu.get(SSBS.register)) >= 1 {
            StoreBypass::Mitigated
        } else {
            StoreBypass::Vulnerable
        }
    }
}
