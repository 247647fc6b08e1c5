//! The answers of the system call `riscv_hwprobe` (Linux, `Documentation/arch/riscv/hwprobe.rst`
//! and `arch/riscv/include/uapi/asm/hwprobe.h`).

use crate::Extension::{self, *};
use crate::Extensions;

/// The speed of misaligned accesses, with Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Misaligned {
    /// Unknown, or not the same on all harts.
    Unknown = 0,
    /// Emulated by the kernel or the firmware.
    Emulated = 1,
    /// Slower than byte accesses.
    Slow = 2,
    /// Faster than byte accesses.
    Fast = 3,
    /// Misaligned accesses fault.
    Unsupported = 4,
}

/// The facts about some harts that programs may query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// mvendorid, marchid and mimpid (SBI base extension); [`u64::MAX`] where harts differ.
    pub ids: [u64; 3],
    /// The extensions that all of these harts have and programs can use.
    pub extensions: Extensions,
    /// Misaligned accesses of integer and floating-point registers.
    pub misaligned_scalar: Misaligned,
    /// Misaligned accesses of vector registers.
    pub misaligned_vector: Misaligned,
    /// The size in bytes of the block that Zicboz zeroes.
    pub zicboz_block: u64,
    /// The size in bytes of the block that Zicbom cleans.
    pub zicbom_block: u64,
    /// The end of the addresses that a program can map. The key's name says highest address, but
    /// Linux reports the end.
    pub address_end: u64,
    /// Frequency of the time CSR in Hz.
    pub time_frequency: u64,
}

/// The highest key.
pub const MAX_KEY: i64 = 14;

const BASE_BEHAVIOR: i64 = 3;
const IMA_EXT_0: i64 = 4;
const CPUPERF_0: i64 = 5;

impl Facts {
    /// The facts that hold for the harts of both operands.
    pub fn and(self, other: Facts) -> Facts {
        let same = |a: u64, b: u64| if a == b { a } else { u64::MAX };
        let speed = |a: Misaligned, b: Misaligned| if a == b { a } else { Misaligned::Unknown };
        Facts {
            ids: core::array::from_fn(|id| same(self.ids[id], other.ids[id])),
            extensions: self.extensions.and(other.extensions),
            misaligned_scalar: speed(self.misaligned_scalar, other.misaligned_scalar),
            misaligned_vector: speed(self.misaligned_vector, other.misaligned_vector),
            ..self
        }
    }

    /// The value of `key`; `None` if Linux has no such key: the system call then sets the key to
    /// −1.
    pub fn value(&self, key: i64) -> Option<u64> {
        let block = |extension, size| {
            if self.extensions.has(extension) {
                size
            } else {
                0
            }
        };
        Some(match key {
            0..=2 => self.ids[key as usize],
            BASE_BEHAVIOR => 1, // IMA, which the kernel itself needs
            IMA_EXT_0 => ima_ext_0(self.extensions),
            CPUPERF_0 | 9 => self.misaligned_scalar as u64,
            6 => block(Zicboz, self.zicboz_block),
            7 => self.address_end,
            8 => self.time_frequency,
            10 => self.misaligned_vector as u64,
            12 => block(Zicbom, self.zicbom_block),
            11 | 13 | 14 => 0, // vendor extensions
            _ => return None,
        })
    }
}

/// True if harts whose `key` has the value `has` match `wanted` (flag WHICH_CPUS). A value that is
/// a set must contain the wanted one; any other must equal it.
pub const fn matches(key: i64, has: u64, wanted: u64) -> bool {
    match key {
        BASE_BEHAVIOR | IMA_EXT_0 | CPUPERF_0 | 11 | 13 | 14 => has & wanted == wanted,
        _ => has == wanted,
    }
}

/// The value of the key IMA_EXT_0.
fn ima_ext_0(extensions: Extensions) -> u64 {
    let fd = extensions.has_all(Extensions::of(&[F, D])) as u64;
    let has = |bit: &(Extension, u32)| extensions.has(bit.0);
    BITS.iter()
        .filter(|bit| has(bit))
        .fold(fd, |word, (_, bit)| word | 1 << bit)
}

/// The bits of IMA_EXT_0 other than FD. Zcf (46) is for 32-bit harts; Supm (49) needs pointer
/// masking by the kernel.
const BITS: &[(Extension, u32)] = &[
    (C, 1),
    (V, 2),
    (Zba, 3),
    (Zbb, 4),
    (Zbs, 5),
    (Zicboz, 6),
    (Zbc, 7),
    (Zbkb, 8),
    (Zbkc, 9),
    (Zbkx, 10),
    (Zknd, 11),
    (Zkne, 12),
    (Zknh, 13),
    (Zksed, 14),
    (Zksh, 15),
    (Zkt, 16),
    (Zvbb, 17),
    (Zvbc, 18),
    (Zvkb, 19),
    (Zvkg, 20),
    (Zvkned, 21),
    (Zvknha, 22),
    (Zvknhb, 23),
    (Zvksed, 24),
    (Zvksh, 25),
    (Zvkt, 26),
    (Zfh, 27),
    (Zfhmin, 28),
    (Zihintntl, 29),
    (Zvfh, 30),
    (Zvfhmin, 31),
    (Zfa, 32),
    (Ztso, 33),
    (Zacas, 34),
    (Zicond, 35),
    (Zihintpause, 36),
    (Zve32x, 37),
    (Zve32f, 38),
    (Zve64x, 39),
    (Zve64f, 40),
    (Zve64d, 41),
    (Zimop, 42),
    (Zca, 43),
    (Zcb, 44),
    (Zcd, 45),
    (Zcmop, 47),
    (Zawrs, 48),
    (Zicntr, 50),
    (Zihpm, 51),
    (Zfbfmin, 52),
    (Zvfbfmin, 53),
    (Zvfbfwma, 54),
    (Zicbom, 55),
    (Zaamo, 56),
    (Zalrsc, 57),
    (Zabha, 58),
];
