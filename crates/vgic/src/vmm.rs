//! Registers as a VMM saves and restores them, word by word (Linux's
//! `Documentation/virt/kvm/devices/arm-vgic-v3.rst`).
//!
//! The registers are the guest's, with differences: pending states are those of the latches, and
//! writes to clear registers do not change them; line levels are separate; and a revision can be
//! chosen.

use core::sync::atomic::Ordering::*;

use affinity::Affinity;

use crate::distributor::{self, IIDR, REVISION_FIELD, REVISIONS, TYPER2};
use crate::redistributor::{self, Identity, PRIVATE_FRAME};
use crate::registers::{Access, CLEAR_PENDING, Effect, SET_ACTIVE, SET_PENDING};
use crate::{Bank, Private, SGIS, Shared};

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such register.
    Absent,
    /// The register cannot have this value.
    Invalid,
}

/// The result of an access: the value read, and the virtual CPUs that must refresh their
/// interrupts.
pub type Result = core::result::Result<(u32, Effect), Refused>;

/// An access to one word.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// Its offset in the frame.
    pub offset: u32,
    /// The value written; `None` for a read.
    pub write: Option<u32>,
}

/// A range of registers, and the number of bits per interrupt; 0 if they are not per interrupt.
struct Row(core::ops::Range<u32>, u32);

const DISTRIBUTOR: [Row; 7] = [
    Row(0x0000..0x0014, 0),
    Row(0x0080..0x0400, 1),
    Row(0x0400..0x0c00, 8),
    Row(0x0c00..0x0d00, 2),
    Row(0x0d00..0x0d80, 1),
    Row(0x6000..0x8000, 64),
    Row(0xffd0..0x1_0000, 0),
];

const REDISTRIBUTOR: [core::ops::Range<u32>; 7] = [
    0x0000..0x0010,
    0x0014..0x0018,
    0x0070..0x0080,
    0x00a0..0x00a8,
    0x00b0..0x00b8,
    0x00c0..0x00c4,
    0xffd0..0x1_0000,
];
/// In the frame of private interrupts, there is one word every 0x80 bytes with a bit per interrupt.
const PRIVATE_BITS: core::ops::Range<u32> = 0x0080..0x0400;
const PRIVATE_OTHERS: [core::ops::Range<u32>; 4] = [
    0x0400..0x0420,
    0x0c00..0x0c08,
    0x0d00..0x0d04,
    0x0e00..0x0e04,
];

/// Whether the distributor of a controller with this many interrupts has a register at an offset.
pub fn distributor_has(interrupts: u32, offset: u32) -> bool {
    offset.is_multiple_of(4)
        && DISTRIBUTOR.iter().any(|Row(row, bits)| {
            row.contains(&offset)
                && (*bits == 0 || (offset - row.start) % (bits * 128) * 8 / bits < interrupts)
        })
}

/// Whether a redistributor has a register at an offset.
pub fn redistributor_has(offset: u32) -> bool {
    let there = match offset.checked_sub(PRIVATE_FRAME) {
        None => REDISTRIBUTOR.iter().any(|row| row.contains(&offset)),
        Some(offset) if PRIVATE_BITS.contains(&offset) => offset % 0x80 == 0,
        Some(offset) => PRIVATE_OTHERS.iter().any(|row| row.contains(&offset)),
    };
    offset.is_multiple_of(4) && there
}

/// Performs an access to the distributor; if there is no register, nothing happens, as in Linux.
/// `find` returns the place of the virtual CPU with an affinity.
pub fn distributor(
    shared: &Shared,
    word: Word,
    find: impl FnOnce(Affinity) -> Option<u16>,
) -> Result {
    if !distributor_has(shared.interrupts(), word.offset) {
        return Ok((0, Effect::Nothing));
    }
    match (word.offset, word.write) {
        (SET_PENDING..SET_ACTIVE, _) => {
            let number = word.offset % 0x80 / 4;
            let latch = shared.bank(number).map_or((0, 0), |bank| latch(bank, word));
            Ok(effect_of(latch, |bits| Effect::Shared {
                word: number,
                bits,
            }))
        }
        (IIDR, Some(value)) => {
            let revision = (value & REVISION_FIELD) >> 12;
            if (value ^ shared.identity()) & !REVISION_FIELD != 0 || !REVISIONS.contains(&revision)
            {
                return Err(Refused::Invalid);
            }
            shared.set_revision(revision);
            Ok((0, Effect::Nothing))
        }
        (TYPER2, Some(1..)) => Err(Refused::Invalid),
        _ => {
            let (value, effect) = distributor::access(shared, &word.as_guests(), find);
            Ok((value as u32, effect))
        }
    }
}

/// Performs an access to a redistributor; if there is no register, nothing happens.
pub fn redistributor(private: &Private, shared: &Shared, identity: Identity, word: Word) -> Result {
    if !redistributor_has(word.offset) {
        return Ok((0, Effect::Nothing));
    }
    match word.offset.checked_sub(PRIVATE_FRAME) {
        Some(SET_PENDING..SET_ACTIVE) => {
            if private.accept() {
                private.request_refresh();
            }
            let word = Word {
                offset: word.offset - PRIVATE_FRAME,
                ..word
            };
            Ok(effect_of(latch(&private.bank, word), |_| Effect::Private))
        }
        _ => {
            let access = word.as_guests();
            let (value, effect) = redistributor::access(private, shared, identity, &access);
            Ok((value as u32, effect))
        }
    }
}

/// Reads or sets the lines of the 32 interrupts from `first` on. SGIs and interrupts that do not
/// exist have no lines.
pub fn lines(shared: &Shared, private: &Private, first: u32, write: Option<u32>) -> Result {
    if !first.is_multiple_of(32) {
        return Err(Refused::Invalid);
    }
    let (bank, mask) = match first / 32 {
        0 => (Some(&private.bank), u32::MAX << SGIS),
        word => (shared.bank(word), u32::MAX),
    };
    let Some(bank) = bank else {
        return Ok((0, Effect::Nothing));
    };
    let Some(value) = write else {
        return Ok((
            bank.line.load(Relaxed) & !bank.edge.load(Relaxed),
            Effect::Nothing,
        ));
    };
    bank.line.store(value & mask, SeqCst);
    Ok(match first / 32 {
        0 => (0, Effect::Private),
        word => (0, Effect::Shared { word, bits: value }),
    })
}

impl Word {
    fn as_guests(self) -> Access {
        Access {
            offset: self.offset,
            len: 4,
            write: self.write.map(u64::from),
        }
    }
}

/// Reads or sets the latches of a bank's interrupts; returns the value read, and the interrupts
/// that became pending.
fn latch(bank: &Bank, word: Word) -> (u32, u32) {
    match word.write {
        _ if word.offset >= CLEAR_PENDING => (0, 0),
        None => (bank.latch.load(Relaxed), 0),
        Some(value) => {
            bank.latch.store(value, SeqCst);
            (0, value)
        }
    }
}

fn effect_of((value, bits): (u32, u32), effect: impl FnOnce(u32) -> Effect) -> (u32, Effect) {
    match bits {
        0 => (value, Effect::Nothing),
        bits => (value, effect(bits)),
    }
}
