//! Pending exceptions of a guest, as the VMM sets and reads them (KVM_GET_VCPU_EVENTS,
//! KVM_SET_VCPU_EVENTS).

use super::abort;
use super::uapi::VcpuEvents;
use super::vcpu::State;
use crate::arch::virt::{self, Guest};
use crate::errno::{Errno, Result};

/// ESR_EL1.ISS: the bits of a system error's syndrome.
const SYNDROME: u64 = 0x01ff_ffff;

/// The pending events (KVM_GET_VCPU_EVENTS).
pub fn get(guest: &Guest) -> VcpuEvents {
    let has_syndrome = virt::errors_have_syndromes();
    VcpuEvents {
        error_pending: guest.error.is_some().into(),
        error_has_syndrome: has_syndrome.into(),
        error_syndrome: guest.error.filter(|_| has_syndrome).unwrap_or(0),
        ..VcpuEvents::default()
    }
}

/// Makes the events pending that the VMM asks for, and clears all others.
///
/// # Errors
/// EINVAL: a syndrome although the hardware supports none, or an invalid syndrome.
pub fn set(state: &mut State, wanted: &VcpuEvents) -> Result<()> {
    if wanted.reserved != [0; 12] || wanted.unused != [0; 5] {
        return Err(Errno::EINVAL);
    }
    let has_syndrome = wanted.error_has_syndrome != 0;
    if wanted.error_pending != 0 {
        let good = virt::errors_have_syndromes() && wanted.error_syndrome & !SYNDROME == 0;
        if has_syndrome && !good {
            return Err(Errno::EINVAL);
        }
        state.guest.error = Some(if has_syndrome {
            wanted.error_syndrome
        } else {
            0
        });
    }
    if wanted.abort_pending != 0 {
        // The access that was reported to the VMM is not completed.
        state.pending = None;
        abort::external(&mut state.guest);
    }
    Ok(())
}
