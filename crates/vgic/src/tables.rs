//! The location of LPI tables in a guest's memory: GICR_PROPBASER and GICR_PENDBASER (Arm IHI 0069,
//! 12.11), as Linux's KVM lets a guest set them.

use core::sync::atomic::Ordering::Relaxed;

use crate::lpi::NUMBERS;
use crate::{Private, Shared};

/// Shifts of the shareability, and of the inner and outer cacheability.
const SHARE: u32 = 10;
const INNER: u32 = 7;
const OUTER: u32 = 56;
/// Bits that always read as zero.
const PROPERTIES_ZERO: u64 = 0x1f << 59 | 0xf << 52 | 0x3 << 5;
const PENDING_ZERO: u64 = 1 << 63 | 0x7 << 59 | 0xf << 52 | 0xf << 12 | 0x7f;

/// PENDBASER.PTZ: the table is zeroed. It reads as zero.
pub(crate) const PENDING_IS_ZERO: u64 = 1 << 62;
/// PROPBASER when an ITS is added: the same as PENDBASER at reset.
pub(crate) const PROPERTIES_AT_RESET: u64 = PENDING_AT_RESET;
/// PENDBASER at reset: inner shareable, cached for reads and writes.
pub(crate) const PENDING_AT_RESET: u64 = 1 << SHARE | 3 << INNER;

/// The value of PROPBASER after a write.
pub(crate) fn properties(value: u64) -> u64 {
    attributes(value) & !PROPERTIES_ZERO
}

/// The value of PENDBASER after a write.
pub(crate) fn pending(value: u64) -> u64 {
    attributes(value) & !PENDING_ZERO
}

/// The attributes with which this controller accesses memory: never outer shareable, never
/// uncached, and with the outer cacheability of the inner one.
fn attributes(value: u64) -> u64 {
    let field = |at: u32, mask: u64| value >> at & mask;
    let share = match field(SHARE, 3) {
        2 => 1,
        other => other,
    };
    let inner = match field(INNER, 7) {
        0 | 1 => 3,
        other => other,
    };
    let outer = match field(OUTER, 7) {
        1 => 1,
        _ => 0,
    };
    value & !(3 << SHARE | 7 << INNER | 7 << OUTER)
        | share << SHARE
        | inner << INNER
        | outer << OUTER
}

/// The number after the last LPI that fits in the guest's tables.
pub(crate) fn end(shared: &Shared) -> u32 {
    let bits = (shared.properties.load(Relaxed) & 0x1f) as u32 + 1;
    1 << bits.min(16)
}

/// The address of the byte with an LPI's priority and enable bit.
pub(crate) fn property(shared: &Shared, lpi: u32) -> u64 {
    (shared.properties.load(Relaxed) & 0x000f_ffff_ffff_f000) + u64::from(lpi - NUMBERS.start)
}

/// The address of the byte with an LPI's pending bit, and the bit in it.
pub(crate) fn pending_bit(private: &Private, lpi: u32) -> (u64, u8) {
    let base = private.pending_table.load(Relaxed) & 0x000f_ffff_ffff_0000;
    (base + u64::from(lpi / 8), 1 << (lpi % 8))
}
