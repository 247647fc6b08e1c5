//! The features that a VMM chose for its virtual CPUs, and the resulting values of their ID
//! registers.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use idreg::{Enabled, Feature, Register};

use super::uapi;
use crate::arch;
use crate::arch::virt::encoding;

/// ID registers: op0 3, op1 0, CRn 0, CRm 1 to 7.
pub const IDENTITY: core::ops::Range<u16> = encoding(3, 0, 0, 1, 0)..encoding(3, 0, 0, 8, 0);
const COUNT: usize = (IDENTITY.end - IDENTITY.start) as usize;

/// Features that ID registers show, with their bits of KVM_ARM_VCPU_INIT.
const TOLD: [(u32, Feature); 2] = [
    (uapi::FEATURE_SVE, Feature::Sve),
    (uapi::FEATURE_ADDRESS_AUTH, Feature::PointerAuth),
];

/// ID_AA64PFR0_EL1.CSV2: other contexts do not influence branch prediction. At most 1, since guests
/// have no SCXTNUM_EL1.
const SPECULATION: (u16, u32) = (encoding(3, 0, 0, 4, 0), 56);

/// The features of a machine's virtual CPUs.
pub struct Features {
    /// The bits that the VMM chose, without POWER_OFF.
    pub said: u32,
    /// The values of the ID registers, so that a guest's read takes one load.
    identities: [AtomicU64; COUNT],
}

/// ID_AA64PFR0_EL1.GIC and ID_PFR1_EL1.GIC: the interrupt controller has system registers.
const CONTROLLERS: [(u16, u32); 2] = [(encoding(3, 0, 0, 4, 0), 24), (encoding(3, 0, 0, 1, 1), 28)];

/// A register's value in which a field is limited to 1.
fn limited(value: u64, field: u32) -> u64 {
    let most = (value >> field & 0xf).min(1);
    value & !(0xf << field) | most << field
}

impl Features {
    /// The features with these bits.
    pub fn new(said: u32) -> Self {
        let given = TOLD.iter().filter(|(bit, _)| said >> bit & 1 != 0);
        let enabled = given.fold(Enabled::NONE, |enabled, (_, feature)| {
            enabled.with(*feature)
        });
        let identities = core::array::from_fn(|at| {
            let number = IDENTITY.start + at as u16;
            let register = Register::id((number >> 3 & 7) as u8, (number & 7) as u8);
            let value = arch::features().guest_value(register, enabled);
            AtomicU64::new(if number == SPECULATION.0 {
                limited(value, SPECULATION.1)
            } else {
                value
            })
        });
        Features { said, identities }
    }

    /// Called when the machine starts to run without an interrupt controller: no register shows
    /// one.
    pub fn lose_controller(&self) {
        for (number, field) in CONTROLLERS {
            self.identities[usize::from(number - IDENTITY.start)]
                .fetch_and(!(0xf << field), Relaxed);
        }
    }

    /// Whether a feature was chosen.
    pub fn has(&self, feature: u32) -> bool {
        self.said >> feature & 1 != 0
    }

    /// The value of an ID register; None if `number` is that of another register.
    #[inline]
    pub fn identity(&self, number: u16) -> Option<u64> {
        let at = number.wrapping_sub(IDENTITY.start);
        Some(self.identities.get(usize::from(at))?.load(Relaxed))
    }
}
