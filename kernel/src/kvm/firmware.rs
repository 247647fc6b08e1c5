//! The firmware calls that guests can make, as chosen by the VMM
//! (Documentation/virt/kvm/arm/fw-pseudo-registers.rst).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::psci;
use super::registers::{ARM64, U64};
use super::vm::Machine;
use crate::errno::{Errno, Result};

/// KVM_REG_ARM_PSCI_VERSION, and KVM_REG_ARM_SMCCC_ARCH_WORKAROUND_1 to 3, which all report that
/// there is no workaround.
const PSCI: u64 = ARM64 | U64 | 0x14 << 16;
const WORKAROUNDS: core::ops::RangeInclusive<u64> = PSCI + 1..=PSCI + 3;
/// KVM_REG_ARM_STD_BMAP and the bitmaps after it.
const BITMAPS: u64 = ARM64 | U64 | 0x16 << 16;

/// Services that a bit of a bitmap allows: the register's number and the bit.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Service {
    Random = 0,
    StolenTime = 1 << 8,
    Features = 2 << 8,
    Clock = 2 << 8 | 1,
}

/// All bits of each register.
const ALL: [u64; 3] = [1, 1, 0b11];

/// The bitmaps of a machine.
pub struct Services([AtomicU64; ALL.len()]);

impl Services {
    /// All services.
    pub fn all() -> Self {
        Services(ALL.map(AtomicU64::new))
    }

    /// Whether guests have a service.
    pub fn has(&self, service: Service) -> bool {
        let (register, bit) = (service as usize >> 8, service as usize & 0xff);
        self.0[register].load(Relaxed) >> bit & 1 != 0
    }

    /// The bits of the register that reports the vendor's services to guests.
    pub fn vendor_bits(&self) -> u64 {
        self.0[2].load(Relaxed)
    }
}

/// The names of all firmware registers.
pub fn names() -> impl Iterator<Item = u64> {
    let bitmaps = (0..ALL.len() as u64).map(|at| BITMAPS | at);
    [PSCI].into_iter().chain(WORKAROUNDS).chain(bitmaps)
}

/// The value of a firmware register; None if `id` is that of another register. `has_psci` as for
/// [`psci::version`].
pub fn get(machine: &Machine, has_psci: bool, id: u64) -> Option<u64> {
    if id == PSCI {
        return Some(psci::version(machine, has_psci));
    }
    if WORKAROUNDS.contains(&id) {
        return Some(0);
    }
    let bitmap = machine.services.0.get(id.checked_sub(BITMAPS)? as usize)?;
    Some(bitmap.load(Relaxed))
}

/// Sets a firmware register.
///
/// # Errors
/// EINVAL: no such register or value. EBUSY: the machine has run.
pub fn set(machine: &Machine, has_psci: bool, id: u64, value: u64) -> Result<()> {
    if id == PSCI {
        return psci::set_version(machine, has_psci, value);
    }
    if WORKAROUNDS.contains(&id) {
        return if value == 0 {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        };
    }
    let at = (id - BITMAPS) as usize;
    if value & !ALL[at] != 0 {
        return Err(Errno::EINVAL);
    }
    let bitmap = &machine.services.0[at];
    if machine.has_run() && value != bitmap.load(Relaxed) {
        return Err(Errno::EBUSY);
    }
    bitmap.store(value, Relaxed);
    Ok(())
}
