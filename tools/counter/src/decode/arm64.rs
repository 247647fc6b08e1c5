//! A64 encodings: Arm Architecture Reference Manual, "A64 instruction set encoding" and "The A64
//! System Instruction Class".

use super::{Level, Pattern, pattern};

/// `movz xzr, #TAG`; in a 32-bit program `dbg #TAG` (encoding A1), a word that A64 does not
/// allocate.
pub fn marker(word: u32) -> Option<u32> {
    let wide = (word & 0xffe0_001f == 0xd280_001f).then_some(word >> 5 & 0xffff);
    wide.or((word & 0xffff_fff0 == 0xe320_f0f0).then_some(word & 0xf))
}

/// The level is in PSTATE (CurrentEL). In AArch32, which only programs use, QEMU's `cpsr` and `pc`
/// stay as the kernel left them: a CPU that is not where the block begins is in a program.
pub fn level(level: Level, begin: u64) -> u32 {
    match level.pc == begin {
        true => (level.state >> 2 & 3) as u32,
        false => 0,
    }
}

/// `sub x0, sp, x0`: where it is entered from itself, Stile's kernel adds x0 to the stack pointer
/// and takes one from the other, to see without a free register whether the stack has overflowed.
pub const WITHOUT_STACK: u32 = 0xcb20_63e0;

/// WFI, or a read of ISR_EL1.
pub fn opens(word: u32) -> bool {
    word == 0xd503_207f || word & 0xffff_ffe0 == 0xd538_c100
}

/// A named system instruction or register: all of op0 to op2 decide, Rt and the direction too.
const fn system(base: u32, op1: u32, crn: u32, crm: u32, op2: u32, name: &'static str) -> Pattern {
    pattern(
        0xffff_ffe0,
        base | op1 << 16 | crn << 12 | crm << 8 | op2 << 5,
        name,
    )
}

/// SYS, op0 = 1.
const SYS: u32 = 0xd508_0000;
/// MSR (register), op0 = 3.
const WRITE: u32 = 0xd518_0000;
/// MRS, op0 = 3.
const READ: u32 = 0xd538_0000;

/// The bits that say whether a system register is an ID register.
const ID_SPACE: u32 = 0xffff_f000;

const fn tlbi(op1: u32, crm: u32, op2: u32, name: &'static str) -> Pattern {
    system(SYS, op1, 8, crm, op2, name)
}

pub const PATTERNS: &[Pattern] = &[
    // TLB maintenance instructions: any, then by name.
    pattern(0xfff8_e000, SYS | 8 << 12, "tlbi"),
    tlbi(0, 7, 0, "tlbi.vmalle1"),
    tlbi(0, 7, 1, "tlbi.vae1"),
    tlbi(0, 7, 2, "tlbi.aside1"),
    tlbi(0, 7, 3, "tlbi.vaae1"),
    tlbi(0, 7, 5, "tlbi.vale1"),
    tlbi(0, 7, 7, "tlbi.vaale1"),
    tlbi(0, 3, 0, "tlbi.vmalle1is"),
    tlbi(0, 3, 1, "tlbi.vae1is"),
    tlbi(0, 3, 2, "tlbi.aside1is"),
    tlbi(0, 3, 3, "tlbi.vaae1is"),
    tlbi(0, 3, 5, "tlbi.vale1is"),
    tlbi(0, 3, 7, "tlbi.vaale1is"),
    tlbi(0, 6, 1, "tlbi.rvae1"),
    tlbi(0, 6, 3, "tlbi.rvaae1"),
    tlbi(0, 6, 5, "tlbi.rvale1"),
    tlbi(0, 6, 7, "tlbi.rvaale1"),
    tlbi(0, 2, 1, "tlbi.rvae1is"),
    tlbi(0, 2, 3, "tlbi.rvaae1is"),
    tlbi(0, 2, 5, "tlbi.rvale1is"),
    tlbi(0, 2, 7, "tlbi.rvaale1is"),
    tlbi(4, 7, 0, "tlbi.alle2"),
    tlbi(4, 7, 1, "tlbi.vae2"),
    tlbi(4, 7, 4, "tlbi.alle1"),
    tlbi(4, 7, 6, "tlbi.vmalls12e1"),
    tlbi(4, 3, 0, "tlbi.alle2is"),
    tlbi(4, 3, 1, "tlbi.vae2is"),
    tlbi(4, 3, 4, "tlbi.alle1is"),
    tlbi(4, 3, 5, "tlbi.vale2is"),
    tlbi(4, 3, 6, "tlbi.vmalls12e1is"),
    tlbi(4, 0, 1, "tlbi.ipas2e1is"),
    tlbi(4, 4, 1, "tlbi.ipas2e1"),
    // Cache maintenance: SYS with CRn = 7.
    pattern(0xfff8_f000, SYS | 7 << 12, "cache"),
    // System registers, the ID space (op0 = 3, op1 = 0, CRn = 0) apart.
    pattern(ID_SPACE, READ, "idreg.read"),
    system(READ, 0, 0, 7, 1, "idreg.mmfr1.read"),
    pattern(0xfff0_0000, 0xd530_0000, "sysreg.read").except(ID_SPACE, READ),
    pattern(0xfff0_0000, 0xd510_0000, "sysreg.write"),
    system(WRITE, 0, 2, 0, 0, "ttbr0.write"),
    system(WRITE, 0, 12, 11, 5, "sgi.write"),
    pattern(0xfff8_f01f, 0xd500_401f, "pstate.write"),
    // Exceptions: entries by instruction, and returns from all.
    pattern(0xffe0_001f, 0xd400_0001, "svc"),
    pattern(0xffe0_001f, 0xd400_0002, "hvc"),
    pattern(0xffe0_001f, 0xd400_0003, "smc"),
    pattern(0xffff_ffff, 0xd69f_03e0, "eret"),
    pattern(0xffff_fbff, 0xd69f_0bff, "eret"),
    pattern(0xffff_ffff, 0xd503_207f, "wfi"),
    // Barriers.
    pattern(0xffff_f0ff, 0xd503_309f, "dsb"),
    pattern(0xffff_f0ff, 0xd503_30bf, "dmb"),
    pattern(0xffff_f0ff, 0xd503_30df, "isb"),
    // Exclusives, single and pair; compare and swap; ordered; the atomics of FEAT_LSE.
    pattern(0x3fe0_0000, 0x0840_0000, "exclusive.load"),
    pattern(0xbfe0_0000, 0x8860_0000, "exclusive.load"),
    pattern(0x3fe0_0000, 0x0800_0000, "exclusive.store"),
    pattern(0xbfe0_0000, 0x8820_0000, "exclusive.store"),
    pattern(0x3fa0_7c00, 0x08a0_7c00, "atomic"),
    pattern(0xbfa0_7c00, 0x0820_7c00, "atomic"),
    pattern(0x3f20_8c00, 0x3820_0000, "atomic"),
    pattern(0x3f20_fc00, 0x3820_8000, "atomic"),
    pattern(0x3fa0_0000, 0x0880_0000, "ordered"),
    // BR and BLR, RET; with pointer authentication too.
    pattern(0xfedf_f000, 0xd61f_0000, "branch.indirect"),
    pattern(0xffff_f000, 0xd65f_0000, "branch.return"),
];
