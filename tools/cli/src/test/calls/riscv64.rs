//! Calls and stack frames in RV64IC code (RISC-V Instruction Set Manual, volume I, 35).

use super::step::{Step, field, signed};

const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 2;

/// Registers, as far as a pair of instructions says their values.
#[derive(Default)]
struct Registers {
    /// What LUI and ADDI left, sign-extended.
    constants: [i64; 32],
    /// What the AUIPC right before left, and where.
    far: Option<(u32, u64)>,
}

/// The steps of the code at an address.
pub fn steps(code: &[u8], start: u64) -> Vec<Step> {
    let mut registers = Registers::default();
    let mut steps = Vec::new();
    let (mut rest, mut at) = (code, start);
    while let [low, high, ..] = *rest {
        let half = u16::from_le_bytes([low, high]);
        let wide = rest.first_chunk().copied().map(u32::from_le_bytes);
        let (step, len) = match wide {
            Some(word) if half & 3 == 3 => (registers.step(word, at), 4),
            _ => (registers.short_step(half.into(), at), 2),
        };
        steps.extend(step);
        rest = rest.get(len..).unwrap_or_default();
        at += len as u64;
    }
    steps
}

impl Registers {
    /// The step of an instruction of 32 bits.
    fn step(&mut self, word: u32, at: u64) -> Option<Step> {
        let far = self.far.take();
        let (to, from, second) = (field(word, 7, 5), field(word, 15, 5), field(word, 20, 5));
        let immediate = signed(field(word, 20, 12), 12);
        let upper = i64::from((word & 0xffff_f000).cast_signed());
        match (word & 0x7f, field(word, 12, 3), word >> 25) {
            // JAL
            (0x6f, ..) => {
                let offset = field(word, 31, 1) << 20
                    | word & 0xff000
                    | field(word, 20, 1) << 11
                    | field(word, 21, 10) << 1;
                Some(goes(to, at.wrapping_add_signed(signed(offset, 21))))
            }
            // BEQ and the other branches
            (0x63, ..) => {
                let offset = field(word, 31, 1) << 12
                    | field(word, 7, 1) << 11
                    | field(word, 25, 6) << 5
                    | field(word, 8, 4) << 1;
                Some(Step::Jumps(at.wrapping_add_signed(signed(offset, 13))))
            }
            // AUIPC
            (0x17, ..) => {
                self.far = Some((to, at.wrapping_add_signed(upper)));
                None
            }
            // JALR
            (0x67, 0, _) => match far {
                Some((base, value)) if base == from => {
                    Some(goes(to, value.wrapping_add_signed(immediate)))
                }
                _ => by_register(to, from),
            },
            // LUI
            (0x37, ..) => self.set(to, upper),
            // ADDI, ADDIW
            (0x13 | 0x1b, 0, _) => self.add(to, from, immediate),
            // ADD, SUB
            (0x33, 0, 0) if to == SP && from == SP => grown(self.constants[second as usize]),
            (0x33, 0, 0x20) if to == SP && from == SP => grown(-self.constants[second as usize]),
            _ => None,
        }
    }

    /// The step of a compressed instruction.
    fn short_step(&mut self, half: u32, at: u64) -> Option<Step> {
        self.far = None;
        let (register, second) = (field(half, 7, 5), field(half, 2, 5));
        let immediate = signed(field(half, 12, 1) << 5 | second, 6);
        match (half & 3, half >> 13) {
            // C.ADDI, C.ADDIW
            (1, 0 | 1) => self.add(register, register, immediate),
            // C.LI
            (1, 2) => self.set(register, immediate),
            // C.ADDI16SP
            (1, 3) if register == SP => {
                let added = field(half, 12, 1) << 9
                    | field(half, 3, 2) << 7
                    | field(half, 5, 1) << 6
                    | field(half, 2, 1) << 5
                    | field(half, 6, 1) << 4;
                grown(signed(added, 10))
            }
            // C.LUI
            (1, 3) => self.set(register, immediate << 12),
            // C.J
            (1, 5) => {
                let offset = field(half, 12, 1) << 11
                    | field(half, 8, 1) << 10
                    | field(half, 9, 2) << 8
                    | field(half, 6, 1) << 7
                    | field(half, 7, 1) << 6
                    | field(half, 2, 1) << 5
                    | field(half, 11, 1) << 4
                    | field(half, 3, 3) << 1;
                Some(Step::Jumps(at.wrapping_add_signed(signed(offset, 12))))
            }
            // C.BEQZ, C.BNEZ
            (1, 6 | 7) => {
                let offset = field(half, 12, 1) << 8
                    | field(half, 5, 2) << 6
                    | field(half, 2, 1) << 5
                    | field(half, 10, 2) << 3
                    | field(half, 3, 2) << 1;
                Some(Step::Jumps(at.wrapping_add_signed(signed(offset, 9))))
            }
            // C.JR, C.JALR
            (2, 4) if second == ZERO && register != ZERO => {
                by_register(field(half, 12, 1), register)
            }
            // C.ADD
            (2, 4) if field(half, 12, 1) == 1 && register == SP => {
                grown(self.constants[second as usize])
            }
            _ => None,
        }
    }

    fn set(&mut self, register: u32, value: i64) -> Option<Step> {
        self.constants[register as usize] = value;
        None
    }

    fn add(&mut self, to: u32, from: u32, immediate: i64) -> Option<Step> {
        match to {
            SP if from == SP => grown(immediate),
            ZERO | SP => None,
            _ => self.set(to, self.constants[from as usize] + immediate),
        }
    }
}

/// The step of a jump to an address, which leaves the next one in `link`.
fn goes(link: u32, target: u64) -> Step {
    match link {
        ZERO => Step::Jumps(target),
        _ => Step::Calls(target),
    }
}

/// The step of a jump to the address in a register, which leaves the next one in `link`.
fn by_register(link: u32, register: u32) -> Option<Step> {
    match (link, register) {
        (ZERO, RA) => None,
        (ZERO, _) => Some(Step::JumpsRegister),
        _ => Some(Step::CallsRegister),
    }
}

/// The growth of the stack if this is added to the stack pointer.
fn grown(added: i64) -> Option<Step> {
    (added < 0).then(|| Step::Grows(added.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::{Step, steps};

    const START: u64 = 0xffff_ffff_8000_1000;

    #[test]
    fn instructions_are_decoded() {
        let calls = |offset: i64| vec![Step::Calls(START.wrapping_add_signed(offset))];
        let jumps = |offset: i64| vec![Step::Jumps(START.wrapping_add_signed(offset))];
        let grows = |bytes| vec![Step::Grows(bytes)];
        for (code, found) in [
            (&[0xffdf_f0ef_u32][..], calls(-4)),          // jal .-4
            (&[0x0080_006f], jumps(8)),                   // j .+8
            (&[0xfeb5_0ce3], jumps(-8)),                  // beq a0, a1, .-8
            (&[0x0000_1097, 0xff00_80e7], calls(0xff0)),  // auipc ra, 1; jalr -16(ra)
            (&[0x0000_1317, 0x0103_0067], jumps(0x1010)), // auipc t1, 1; jr 16(t1)
            (&[0x0000_1317, 0x0105_0067], vec![Step::JumpsRegister]), // the same with jr 16(a0)
            (&[0x0007_80e7], vec![Step::CallsRegister]),  // jalr a5
            (&[0x0000_8067], vec![]),                     // ret
            (&[0xe101_0113], grows(496)),                 // addi sp, sp, -496
            (&[0x1f01_0113], vec![]),                     // addi sp, sp, 496
            (&[0x0000_2737, 0xe407_0713, 0x40e1_0133], grows(0x1e40)), // lui a4; addi a4; sub sp
        ] {
            let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(steps(&bytes, START), found, "{code:x?}");
        }
    }

    #[test]
    fn compressed_instructions_are_decoded() {
        let jumps = |offset: i64| vec![Step::Jumps(START.wrapping_add_signed(offset))];
        for (half, found) in [
            (0x1141_u16, vec![Step::Grows(16)]), // addi sp, sp, -16
            (0x715d, vec![Step::Grows(80)]),     // addi sp, sp, -80
            (0x6161, vec![]),                    // addi sp, sp, 80
            (0xbffd, jumps(-2)),                 // j .-2
            (0xa011, jumps(4)),                  // j .+4
            (0xc501, jumps(8)),                  // beqz a0, .+8
            (0xfd6d, jumps(-6)),                 // bnez a0, .-6
            (0x9782, vec![Step::CallsRegister]), // jalr a5
            (0x8782, vec![Step::JumpsRegister]), // jr a5
            (0x8082, vec![]),                    // ret
        ] {
            assert_eq!(steps(&half.to_le_bytes(), START), found, "{half:#x}");
        }
    }
}
