//! A redistributor's registers (Arm IHI 0069, 12.11): one frame for itself, one for private
//! interrupts.

use core::sync::atomic::Ordering::*;

use affinity::Affinity;

use crate::distributor::{ARCHITECTURE, IDENTITY};
use crate::registers::{self, Access, Accessed, Effect, ZERO};
use crate::{Private, Shared, its, tables};

/// The length of both frames in bytes.
pub const LEN: u64 = 0x2_0000;

/// The offset of the frame of private interrupts.
pub(crate) const PRIVATE_FRAME: u32 = 0x1_0000;
const CTLR: u32 = 0x0000;
const IIDR: u32 = 0x0004;
const TYPER: u32 = 0x0008;
const TYPER_END: u32 = TYPER + 8;
const PROPBASER: u32 = 0x0070;
const PENDBASER: u32 = 0x0078;
const PENDBASER_END: u32 = PENDBASER + 8;
const INVLPIR: u32 = 0x00a0;
const INVALLR: u32 = 0x00b0;
const PIDR2: u32 = 0xffe8;

/// CTLR.CES and CTLR.IR: the third revision's operations on LPIs exist.
const THIRD_REVISION: u64 = 0b110;

/// CTLR.EnableLPIs, and TYPER.PLPIS: LPIs exist.
const LPIS_ON: u64 = 1;
const PHYSICAL_LPIS: u64 = 1;
/// TYPER.Last: the last redistributor of a region.
const LAST: u64 = 1 << 4;
/// SGIs are always edge-triggered, and PPIs always level-sensitive, as timers need.
const FIXED: u32 = u32::MAX;

/// The identity of a redistributor.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The affinity of its virtual CPU.
    pub affinity: Affinity,
    /// The virtual CPU's number.
    pub number: u16,
    /// Whether it is the last one in its region.
    pub last: bool,
}

/// Whether an access is a write that concerns LPIs. [`write_of_lpis`] performs it, since it reads
/// the guest's tables.
#[inline]
pub fn is_of_lpis(shared: &Shared, access: &Access) -> bool {
    shared.has_lpis()
        && access.write.is_some()
        && access.len >= 4
        && matches!(access.offset, CTLR | INVLPIR | INVALLR)
}

/// Performs a write that concerns LPIs, to the redistributor of the virtual CPU at this place.
pub fn write_of_lpis(machine: &impl its::Machine, place: u16, access: &Access) {
    let (Some(private), Some(value)) = (machine.private(place), access.write) else {
        return;
    };
    match access.offset {
        CTLR if value & LPIS_ON == 0 => {
            if private.lpis_on.swap(false, SeqCst) {
                let shared = machine.shared();
                shared
                    .lpis_of(place)
                    .for_each(|(lpi, _)| shared.clear_lpi(lpi));
            }
        }
        CTLR => {
            if !private.lpis_on.swap(true, SeqCst) {
                its::turned_on(machine, place);
            }
        }
        INVLPIR if private.has_lpis_on() => its::configure(machine, value as u32),
        INVALLR if private.has_lpis_on() => its::configure_all(machine, place),
        _ => {}
    }
}

/// Performs an access to a register.
pub fn access(private: &Private, shared: &Shared, identity: Identity, access: &Access) -> Accessed {
    if access.offset >= PRIVATE_FRAME {
        let access = Access {
            offset: access.offset - PRIVATE_FRAME,
            ..*access
        };
        if !registers::is_common(access.offset) || registers::word(access.offset) != 0 {
            return ZERO;
        }
        if private.accept() {
            private.request_refresh();
        }
        let (value, bits) = registers::access(&private.bank, &access, FIXED);
        let effect = match bits {
            0 => Effect::Nothing,
            _ => Effect::Private,
        };
        return (value, effect);
    }
    let aligned = access.len >= 4 && access.offset.is_multiple_of(access.len);
    let value = match access.offset {
        PROPBASER..PENDBASER if aligned => {
            let register = &shared.properties;
            let value = register.load(Relaxed);
            // Writing it while LPIs are on is UNPREDICTABLE.
            if access.write.is_some() && !private.has_lpis_on() {
                register.store(tables::properties(access.merge(PROPBASER, value)), Relaxed);
            }
            access.part(PROPBASER, value)
        }
        PENDBASER..PENDBASER_END if aligned => {
            let register = &private.pending_table;
            let value = register.load(Relaxed);
            if access.write.is_some() && !private.has_lpis_on() {
                register.store(tables::pending(access.merge(PENDBASER, value)), Relaxed);
            }
            access.part(PENDBASER, value & !tables::PENDING_IS_ZERO)
        }
        _ if access.write.is_some() => 0,
        TYPER..TYPER_END if aligned => access.part(TYPER, kind(identity, shared)),
        CTLR if access.is_word() => {
            let revision = if shared.revision() >= 3 {
                THIRD_REVISION
            } else {
                0
            };
            revision | if private.has_lpis_on() { LPIS_ON } else { 0 }
        }
        IIDR if access.is_word() => IDENTITY.into(),
        PIDR2 if access.is_word() => ARCHITECTURE,
        _ => 0,
    };
    (value, Effect::Nothing)
}

fn kind(identity: Identity, shared: &Shared) -> u64 {
    let mpidr = identity.affinity.to_mpidr();
    let affinity = mpidr & 0xff_ffff | mpidr >> 8 & 0xff00_0000;
    let last = if identity.last { LAST } else { 0 };
    let lpis = if shared.has_lpis() { PHYSICAL_LPIS } else { 0 };
    affinity << 32 | u64::from(identity.number) << 8 | last | lpis
}
