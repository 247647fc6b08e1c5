//! Calls and stack frames in A64 code (Arm ARM, C4.1).

use super::step::{Step, field, signed};

/// The stack pointer, where an instruction adds to it or addresses memory by it.
const SP: u32 = 31;

/// The steps of the code at an address.
pub fn steps(code: &[u8], start: u64) -> Vec<Step> {
    let words = code.as_chunks().0.iter().copied().map(u32::from_le_bytes);
    let addresses = (start..).step_by(4);
    let steps = words.zip(addresses).map(|(word, at)| step(word, at));
    steps.flatten().collect()
}

fn step(word: u32, at: u64) -> Option<Step> {
    let to = |offset: i64| at.wrapping_add_signed(4 * offset);
    let is = |mask: u32, value: u32| word & mask == value;
    if is(0x7c00_0000, 0x1400_0000) {
        // B, BL
        let target = to(signed(field(word, 0, 26), 26));
        return Some(match field(word, 31, 1) {
            0 => Step::Jumps(target),
            _ => Step::Calls(target),
        });
    }
    if is(0xff00_0000, 0x5400_0000) || is(0x7e00_0000, 0x3400_0000) {
        // B.cond, BC.cond; CBZ, CBNZ
        return Some(Step::Jumps(to(signed(field(word, 5, 19), 19))));
    }
    if is(0x7e00_0000, 0x3600_0000) {
        // TBZ, TBNZ
        return Some(Step::Jumps(to(signed(field(word, 5, 14), 14))));
    }
    match word & 0xffff_fc1f {
        0xd63f_0000 => Some(Step::CallsRegister),
        0xd61f_0000 => Some(Step::JumpsRegister),
        _ => grown(word),
    }
}

/// The growth of the stack by an instruction that adds a constant to the stack pointer.
fn grown(word: u32) -> Option<Step> {
    let is = |mask: u32, value: u32| word & mask == value;
    if field(word, 5, 5) != SP {
        return None;
    }
    let added = if is(0xff80_001f, 0xd100_001f) {
        // SUB SP, SP, #imm{, LSL #12}
        -i64::from(field(word, 10, 12) << (12 * field(word, 22, 1)))
    } else if is(0x3a80_0000, 0x2880_0000) {
        // STP and LDP, pre-indexed or post-indexed; the unit depends on the registers' size.
        let simd = field(word, 26, 1) == 1;
        let size = field(word, 30, 2);
        signed(field(word, 15, 7), 7) * (4 << if simd { size } else { size / 2 })
    } else if is(0x3b20_0400, 0x3800_0400) {
        // STR and LDR, pre-indexed or post-indexed
        signed(field(word, 12, 9), 9)
    } else {
        return None;
    };
    (added < 0).then(|| Step::Grows(added.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::{Step, steps};

    #[test]
    fn instructions_are_decoded() {
        let start = 0xffff_ffff_8000_1000;
        for (word, step) in [
            (0x9400_0002, Some(Step::Calls(start + 8))), // bl .+8
            (0x17ff_ffff, Some(Step::Jumps(start - 4))), // b .-4
            (0x5400_0040, Some(Step::Jumps(start + 8))), // b.eq .+8
            (0xb4ff_ffe0, Some(Step::Jumps(start - 4))), // cbz x0, .-4
            (0x3718_0041, Some(Step::Jumps(start + 8))), // tbnz w1, #3, .+8
            (0xd63f_0100, Some(Step::CallsRegister)),    // blr x8
            (0xd61f_0040, Some(Step::JumpsRegister)),    // br x2
            (0xd65f_03c0, None),                         // ret
            (0xd101_c3ff, Some(Step::Grows(112))),       // sub sp, sp, #112
            (0xd140_07ff, Some(Step::Grows(4096))),      // sub sp, sp, #1, lsl #12
            (0xd101_c3e8, None),                         // sub x8, sp, #112
            (0x9101_c3ff, None),                         // add sp, sp, #112
            (0xa9ba_7bfd, Some(Step::Grows(96))),        // stp x29, x30, [sp, #-96]!
            (0xa901_7bfd, None),                         // stp x29, x30, [sp, #16]
            (0xa8c6_7bfd, None),                         // ldp x29, x30, [sp], #96
            (0x6dbe_23e9, Some(Step::Grows(32))),        // stp d9, d8, [sp, #-32]!
            (0xf81c_0ffd, Some(Step::Grows(64))),        // str x29, [sp, #-64]!
            (0xf817_07ff, Some(Step::Grows(144))),       // str xzr, [sp], #-144
            (0xf900_0bfe, None),                         // str x30, [sp, #16]
        ] {
            let found = steps(&u32::to_le_bytes(word), start);
            assert_eq!(found, step.as_slice(), "{word:#x}");
        }
    }
}
