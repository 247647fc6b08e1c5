//! RISC-V encodings: the unprivileged ISA's opcode tables, and the privileged ISA for SYSTEM.

use super::{Level, Pattern, pattern};

/// `slti x0, x0, TAG`, a HINT (unprivileged ISA, 2.9).
pub fn marker(word: u32) -> Option<u32> {
    (word & 0x000f_ffff == 0x0000_2013).then_some(word >> 20)
}

/// The level is in the two low bits of `priv`; the third says that it is a guest's.
pub fn level(level: Level, _begin: u64) -> u32 {
    (level.state & 3) as u32
}

/// WFI, or `csrr rd, sip`.
pub fn opens(word: u32) -> bool {
    word == 0x1050_0073 || word & 0xffff_f07f == 0x1440_2073
}

/// Fields of an instruction.
const RS1: u32 = 31 << 15;
const RS2: u32 = 31 << 20;

/// SFENCE.VMA: SYSTEM with funct7 = 9, funct3 = 0, rd = x0.
const SFENCE_MASK: u32 = 0xfe00_7fff;
const SFENCE: u32 = 0x1200_0073;

pub const PATTERNS: &[Pattern] = &[
    // Any, then by form: rs1 names an address and rs2 an address space, unless they are x0.
    pattern(SFENCE_MASK, SFENCE, "sfence.vma"),
    pattern(SFENCE_MASK | RS1 | RS2, SFENCE, "sfence.vma.all"),
    pattern(SFENCE_MASK | RS2, SFENCE, "sfence.vma.address").except(RS1, 0),
    pattern(SFENCE_MASK | RS1, SFENCE, "sfence.vma.asid").except(RS2, 0),
    pattern(SFENCE_MASK, SFENCE, "sfence.vma.address_asid")
        .except(RS1, 0)
        .except(RS2, 0),
    pattern(SFENCE_MASK, 0x1600_0073, "sinval.vma"),
    pattern(0x0000_707f, 0x0000_100f, "fence.i"),
    pattern(0x0000_707f, 0x0000_000f, "fence"),
    // Traps: entries by instruction, and returns from all.
    pattern(0xffff_ffff, 0x0000_0073, "ecall"),
    pattern(0xffff_ffff, 0x0010_0073, "ebreak"),
    pattern(0xffff_ffff, 0x0000_9002, "ebreak"),
    pattern(0xffff_ffff, 0x1020_0073, "sret"),
    pattern(0xffff_ffff, 0x3020_0073, "mret"),
    pattern(0xffff_ffff, 0x1050_0073, "wfi"),
    // CSRRW always writes; CSRRS and CSRRC, whose funct3 is 2 or 3 modulo 4, unless rs1 is x0.
    pattern(0x0000_307f, 0x0000_1073, "csr.write"),
    pattern(0x0000_207f, 0x0000_2073, "csr.write").except(RS1, 0),
    pattern(0x0000_207f | RS1, 0x0000_2073, "csr.read"),
    // The A extension: LR, SC, and the AMOs, whose funct5 is another than 2 and 3.
    pattern(0xf800_607f, 0x1000_202f, "exclusive.load"),
    pattern(0xf800_607f, 0x1800_202f, "exclusive.store"),
    pattern(0x1000_607f, 0x0000_202f, "atomic"),
];
