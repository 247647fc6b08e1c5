//! The code of a hostile guest: random instructions, most of which trap.

use crate::machine::{DISTRIBUTOR, LEN, MEMORY, Memory, REDISTRIBUTORS};
use random::Random;

/// The offset of the vectors in the guest's memory.
pub const VECTORS: usize = 0x8000;
/// Words of code, and the maximum length of an operation.
const WORDS: usize = VECTORS / 4 - 64;
const LONGEST: usize = 16;

/// Instructions by their encodings (Arm ARM, "A64 instruction set encoding").
const MOVZ: u32 = 0xd280_0000;
const MOVK: u32 = 0xf280_0000;
const MSR: u32 = 0xd500_0000;
const READ: u32 = 1 << 21;
const HVC: u32 = 0xd400_0002;
const SMC: u32 = 0xd400_0003;
const ERET: u32 = 0xd69f_03e0;
const BRANCH: u32 = 0x1400_0000;
/// Loads and stores of all kinds of x0 and x2 at [x1]; caches, TLBs, address translation; waits.
const ODD: [u32; 28] = [
    0x3900_0020,
    0x3940_0020,
    0x7900_0020,
    0x7940_0020,
    0xb900_0020,
    0xb940_0020,
    0xf900_0020,
    0xf940_0020,
    0x3980_0020,
    0xb980_0020,
    0xa900_0820,
    0xa940_0820,
    0xf800_8c20,
    0xf840_8420,
    0xc85f_7c20,
    0xc802_7c20,
    0xd50b_7421,
    0xd508_7641,
    0xd508_7e52,
    0xd508_871f,
    0xd508_831f,
    0xd508_7801,
    0xd503_203f,
    0xd503_205f,
    0xd503_207f,
    0xd420_0000,
    0xd400_0001,
    0xd503_3f9f,
];
/// The system registers of interest: op0, op1, CRn, CRm, op2, as instructions encode them.
const REGISTERS: [(u32, u32, u32, u32, u32); 30] = [
    (3, 0, 12, 11, 5),
    (3, 0, 12, 11, 6),
    (3, 0, 12, 11, 7),
    (3, 0, 12, 12, 0),
    (3, 0, 12, 12, 1),
    (3, 0, 12, 12, 2),
    (3, 0, 12, 12, 3),
    (3, 0, 12, 12, 4),
    (3, 0, 12, 12, 5),
    (3, 0, 12, 12, 6),
    (3, 0, 12, 12, 7),
    (3, 0, 12, 8, 0),
    (3, 0, 12, 8, 3),
    (3, 0, 12, 11, 1),
    (3, 0, 12, 9, 0),
    (3, 0, 4, 6, 0),
    (3, 3, 14, 2, 1),
    (3, 3, 14, 2, 2),
    (3, 3, 14, 2, 0),
    (3, 3, 14, 3, 1),
    (3, 3, 14, 3, 2),
    (3, 3, 14, 3, 0),
    (3, 3, 14, 0, 1),
    (3, 0, 0, 4, 0),
    (3, 0, 0, 7, 0),
    (3, 3, 9, 12, 0),
    (2, 0, 0, 2, 2),
    (2, 0, 0, 0, 4),
    (3, 0, 1, 0, 1),
    (3, 0, 14, 1, 0),
];

/// The code of a vector: it returns to the instruction after the trapped one, or, if that is
/// outside of the code, to a random one.
const BACK: [u32; 14] = [
    // mrs x30, elr_el1; mov x29, MEMORY; sub x28, x30, x29; lsr x28, x28, 15; cbnz x28, 1f
    0xd538_403e,
    0xd2a8_001d,
    0xcb1d_03dc,
    0xd34f_ff9c,
    0xb500_007c,
    // add x30, x30, 4; b 2f
    0x9100_13de,
    0x1400_0004,
    // 1: mrs x28, cntvct_el0; ubfx x28, x28, 0, 12; add x30, x29, x28, lsl 2
    0xd53b_e05c,
    0xd340_2f9c,
    0x8b1c_0bbe,
    // 2: mov x28, 0x3c5; msr spsr_el1, x28; msr elr_el1, x30
    0xd280_78bc,
    0xd518_401c,
    0xd518_403e,
    ERET,
];

/// Fills a guest's memory with code and vectors.
pub fn write(memory: &Memory, random: &mut Random) {
    let mut at = 0;
    // x0 = the vectors; VBAR_EL1.
    load(memory, &mut at, 0, MEMORY + VECTORS as u64);
    put(memory, &mut at, 0xd518_c000);
    while at < WORDS - LONGEST {
        operation(memory, &mut at, random);
    }
    let back = (at as u32).wrapping_neg() & 0x03ff_ffff;
    put(memory, &mut at, BRANCH | back);
    for vector in 0..16 {
        let mut at = VECTORS / 4 + vector * 32;
        for word in BACK {
            put(memory, &mut at, word);
        }
    }
}

/// Writes code that writes to each page of the guest's memory, then powers off.
pub fn touch(memory: &Memory) {
    let mut at = 0;
    load(memory, &mut at, 1, MEMORY + 0x1000);
    load(memory, &mut at, 2, MEMORY + LEN as u64);
    // 1: str x1, [x1]; add x1, x1, 4096; cmp x1, x2; b.ne 1b
    for word in [0xf900_0021, 0x9140_0421, 0xeb02_003f, 0x54ff_ffa1] {
        put(memory, &mut at, word);
    }
    load(memory, &mut at, 0, 0x8400_0008);
    put(memory, &mut at, HVC);
}

fn operation(memory: &Memory, at: &mut usize, random: &mut Random) {
    load(memory, at, 0, random.edge());
    load(memory, at, 1, address(random));
    match random.below(16) {
        0..6 => put(memory, at, random.one_of(&ODD)),
        6..10 => {
            let (op0, op1, n, m, op2) = random.one_of(&REGISTERS);
            put(memory, at, system(op0, op1, n, m, op2, random));
        }
        10 => {
            let part = |random: &mut Random, bound| random.below(bound) as u32;
            let (op0, op1) = (2 + part(random, 2), part(random, 8));
            let (n, m, op2) = (part(random, 16), part(random, 16), part(random, 8));
            // These would end the test: translation enabled, or the vectors elsewhere.
            let fatal = op0 == 3 && op1 == 0 && (n == 1 || n == 2 || n == 12 && m == 0);
            if !fatal {
                put(memory, at, system(op0, op1, n, m, op2, random));
            }
        }
        11..13 => {
            let function = 0x8400_0000 | random.below(2) << 30 | random.below(32);
            // Power off rarely.
            let ends = [0x8400_0002, 0x8400_0008, 0x8400_0009, 0x8400_0012];
            if !ends.contains(&(function & !(1 << 30))) || random.once_in(32) {
                load(memory, at, 0, function);
                load(memory, at, 1, random.below(4));
                put(memory, at, random.one_of(&[HVC, SMC]));
            }
        }
        13 => put(memory, at, 0xd503_40df | (random.below(16) as u32) << 8),
        14 => put(memory, at, random.any() as u32),
        _ => put(memory, at, ERET),
    }
}

/// A random address: a device's, the guest's memory, or one with nothing behind it.
fn address(random: &mut Random) -> u64 {
    let offset = random.below(0x2_0000);
    match random.below(8) {
        0..2 => DISTRIBUTOR + offset % 0x1_0000 / 4 * 4,
        2..4 => REDISTRIBUTORS + random.below(3) * 0x2_0000 + offset / 4 * 4,
        4 => DISTRIBUTOR + offset,
        // Memory after the code.
        5 => MEMORY + 0x1_0000 + offset,
        6 => 0x0a00_0000 + offset,
        _ => random.edge(),
    }
}

fn system(op0: u32, op1: u32, n: u32, m: u32, op2: u32, random: &mut Random) -> u32 {
    let direction = if random.once_in(2) { READ } else { 0 };
    MSR | direction | op0 << 19 | op1 << 16 | n << 12 | m << 8 | op2 << 5
}

fn load(memory: &Memory, at: &mut usize, register: u32, value: u64) {
    for part in 0..4 {
        let word = if part == 0 { MOVZ } else { MOVK };
        let half = (value >> (16 * part)) as u32 & 0xffff;
        put(memory, at, word | part << 21 | half << 5 | register);
    }
}

fn put(memory: &Memory, at: &mut usize, word: u32) {
    memory.write(*at * 4, word);
    *at += 1;
}
