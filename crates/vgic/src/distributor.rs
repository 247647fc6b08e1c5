//! The distributor's registers (Arm IHI 0069, 12.9), as Linux's KVM has them.

use affinity::Affinity;

use crate::registers::{self, Access, Accessed, Effect, ZERO};
use crate::{MAX, PRIVATE, Shared};

/// The length of the frame in bytes.
pub const LEN: u64 = 0x1_0000;

const CTLR: u32 = 0x0000;
const TYPER: u32 = 0x0004;
pub(crate) const IIDR: u32 = 0x0008;
pub(crate) const TYPER2: u32 = 0x000c;
const STATUSR: u32 = 0x0010;
const ROUTERS: u32 = 0x6000;
const ROUTERS_END: u32 = ROUTERS + 8 * MAX;
const PIDR2: u32 = 0xffe8;

/// CTLR: group 1 is enabled; affinity routing and one security state are fixed.
const ENABLE: u64 = 1 << 1;
const ALWAYS: u64 = 1 << 4 | 1 << 6;
/// TYPER.IDbits: numbers have ten bits, or sixteen if there are LPIs; then TYPER.LPIS is set.
const NUMBER_BITS: u64 = 9 << 19;
const WITH_LPIS: u64 = 15 << 19 | 1 << 17;
/// KVM's IIDR without the revision: product `K`, implementer Arm.
pub(crate) const IDENTITY: u32 = 0x4b << 24 | 0x43b;
/// IIDR.Revision, and the existing revisions: from the third on, registers can turn off and
/// invalidate LPIs.
pub(crate) const REVISION_FIELD: u32 = 0xf000;
pub(crate) const REVISIONS: core::ops::RangeInclusive<u32> = 2..=3;
/// Aff2 to Aff0.
const AFFINITY: u64 = 0xff_ffff;
/// PIDR2.ArchRev: GICv3.
pub(crate) const ARCHITECTURE: u64 = 0x3b;

/// Performs an access to a register; `find` returns the place of the virtual CPU with an affinity.
pub fn access(
    shared: &Shared,
    access: &Access,
    find: impl FnOnce(Affinity) -> Option<u16>,
) -> Accessed {
    let offset = access.offset;
    if registers::is_common(offset) {
        let word = registers::word(offset);
        // Private interrupts belong to the redistributors.
        let Some(bank) = shared.bank(word) else {
            return ZERO;
        };
        let (value, bits) = registers::access(bank, access, 0);
        if access.sets_active() {
            shared.hold(word, bits);
        }
        let effect = match bits {
            0 => Effect::Nothing,
            bits => Effect::Shared { word, bits },
        };
        return (value, effect);
    }
    if (ROUTERS..ROUTERS_END).contains(&offset) {
        return router(shared, access, find);
    }
    if !access.is_word() {
        return ZERO;
    }
    match (offset, access.write) {
        (CTLR, None) => (
            ALWAYS | if shared.is_enabled() { ENABLE } else { 0 },
            Effect::Nothing,
        ),
        (CTLR, Some(value)) => {
            let enabled = value & ENABLE != 0;
            if enabled == shared.is_enabled() {
                return ZERO;
            }
            shared.enable(enabled);
            (0, Effect::Everyone)
        }
        (TYPER, None) => (
            if shared.has_lpis() {
                WITH_LPIS
            } else {
                NUMBER_BITS
            } | u64::from(shared.interrupts() / 32 - 1),
            Effect::Nothing,
        ),
        (IIDR, None) => (shared.identity().into(), Effect::Nothing),
        // Linux has no status to report, and reads as all ones.
        (STATUSR, None) => (u32::MAX.into(), Effect::Nothing),
        (PIDR2, None) => (ARCHITECTURE, Effect::Nothing),
        _ => ZERO,
    }
}

fn router(
    shared: &Shared,
    access: &Access,
    find: impl FnOnce(Affinity) -> Option<u16>,
) -> Accessed {
    let aligned = access.len >= 4 && access.offset.is_multiple_of(access.len);
    let number = (access.offset - ROUTERS) / 8;
    let start = ROUTERS + 8 * number;
    let Some(route) = shared
        .route(number)
        .filter(|_| aligned && number >= PRIVATE)
    else {
        return ZERO;
    };
    let old = route.to_mpidr();
    if access.write.is_none() {
        return (access.part(start, old), Effect::Nothing);
    }
    // There is no Aff3 (ICC_CTLR_EL1.A3V belongs to the CPU interface).
    let route = Affinity::from_mpidr(access.merge(start, old) & AFFINITY);
    shared.set_route(number, route, find(route));
    let (word, bits) = (number / 32, 1 << (number % 32));
    (0, Effect::Shared { word, bits })
}
