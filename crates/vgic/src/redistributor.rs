//! A redistributor's registers (Arm IHI 0069, 12.11): one frame for itself, one for private interrupts.

use affinity::Affinity;

use crate::distributor::{IDENTITY, REVISION};
use crate::registers::{self, Access, Answer, Effect, ZERO};
use crate::{Private, SGIS};

/// Length of both frames, in bytes.
pub const LEN: u64 = 0x2_0000;

/// The frame of private interrupts.
const PRIVATE_FRAME: u32 = 0x1_0000;
const CTLR: u32 = 0x0000;
const IIDR: u32 = 0x0004;
const TYPER: u32 = 0x0008;
const TYPER_END: u32 = TYPER + 8;
const PIDR2: u32 = 0xffe8;

/// TYPER.Last: the last of a region.
const LAST: u64 = 1 << 4;
/// SGIs are edge-triggered for ever.
const FIXED: u32 = (1 << SGIS) - 1;

/// Which redistributor it is.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its virtual CPU's affinity.
    pub affinity: Affinity,
    /// The virtual CPU's place.
    pub place: u16,
    /// Whether no other follows it in its region.
    pub last: bool,
}

/// Accesses a register.
pub fn access(private: &Private, identity: Identity, access: &Access) -> Answer {
    if access.offset >= PRIVATE_FRAME {
        let access = Access {
            offset: access.offset - PRIVATE_FRAME,
            ..*access
        };
        if !registers::is_common(access.offset) || registers::word(access.offset) != 0 {
            return ZERO;
        }
        if private.accept() {
            private.ask_to_look();
        }
        let (value, bits) = registers::access(&private.bank, &access, FIXED);
        let effect = match bits {
            0 => Effect::Nothing,
            _ => Effect::Private,
        };
        return (value, effect);
    }
    let value = match access.offset {
        _ if access.write.is_some() => 0,
        TYPER..TYPER_END if access.len >= 4 && access.offset % access.len == 0 => {
            access.part(TYPER, kind(identity))
        }
        CTLR if access.is_word() => 0,
        IIDR if access.is_word() => IDENTITY,
        PIDR2 if access.is_word() => REVISION,
        _ => 0,
    };
    (value, Effect::Nothing)
}

fn kind(identity: Identity) -> u64 {
    let mpidr = identity.affinity.to_mpidr();
    let affinity = mpidr & 0xff_ffff | mpidr >> 8 & 0xff00_0000;
    let last = if identity.last { LAST } else { 0 };
    affinity << 32 | u64::from(identity.place) << 8 | last
}
