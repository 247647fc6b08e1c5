//! The guest's identity mapping: devices in the first GiB, memory above. Arm ARM, "Translation
//! table descriptor formats": 4 KiB granule and 39 bits of address, so that one table of 1 GiB
//! blocks suffices.

/// The level 1 table.
#[repr(C, align(4096))]
pub struct Table([u64; 512]);

/// A valid block with the Access flag.
const BLOCK: u64 = 1 | 1 << 10;
/// Index 1 of MAIR_EL1, inner shareable.
const NORMAL: u64 = 1 << 2 | 3 << 8;
/// Index 0 of MAIR_EL1, not executable.
const DEVICE: u64 = 1 << 53 | 1 << 54;

/// The identity mapping.
pub static TABLE: Table = {
    let mut table = [0; 512];
    let mut index = 0;
    while index < table.len() {
        let kind = if index == 0 { DEVICE } else { NORMAL };
        table[index] = (index as u64) << 30 | BLOCK | kind;
        index += 1;
    }
    Table(table)
};

/// MAIR_EL1: index 0 is Device-nGnRnE, index 1 is Normal, write-back.
pub const MEMORY_TYPES: u64 = 0xff00;
/// TCR_EL1: 39 bits of address, walks write-back and inner shareable, no upper half, 40 bits of
/// output address.
pub const CONTROL: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32;
/// SCTLR_EL1: the RES1 bits, translation, data and instruction caches.
pub const SYSTEM: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 12;
