//! Classic BPF for seccomp and for sockets ([`packet`]): filters are checked once, and then run
//! without further tests.
//!
//! A system-call filter reads `struct seccomp_data` (include/uapi/linux/seccomp.h) as 16 words,
//! computes with an accumulator, an index register and 16 words of memory, and returns a word.
//! Jumps only go forward, so every filter ends.
#![no_std]
#![forbid(unsafe_code)]

pub mod packet;

/// The maximum length of a filter (BPF_MAXINSNS).
pub const LONGEST: usize = 4096;
/// The number of words of data.
pub const WORDS: usize = 16;

/// `struct sock_filter`: an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Instruction {
    /// The operation: class, size, mode and source.
    pub code: u16,
    /// The number of instructions to skip if the condition holds.
    pub if_true: u8,
    /// The number of instructions to skip if it does not.
    pub if_false: u8,
    /// The constant.
    pub k: u32,
}

/// A filter is invalid; the index of the offending instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalid(pub usize);

/// Codes (include/uapi/linux/{bpf_common,filter}.h).
pub mod code {
    /// A ← the word at byte `k`.
    pub const LD_WORD: u16 = 0x20;
    /// A ← the length of the data.
    pub const LD_LEN: u16 = 0x80;
    /// X ← the length of the data.
    pub const LDX_LEN: u16 = 0x81;
    /// A ← k.
    pub const LD_IMM: u16 = 0x00;
    /// X ← k.
    pub const LDX_IMM: u16 = 0x01;
    /// A ← memory k.
    pub const LD_MEM: u16 = 0x60;
    /// X ← memory k.
    pub const LDX_MEM: u16 = 0x61;
    /// Memory k ← A.
    pub const ST: u16 = 0x02;
    /// Memory k ← X.
    pub const STX: u16 = 0x03;
    /// A ← A + operand; the codes of the other operations follow in steps of 0x10.
    pub const ADD: u16 = 0x04;
    /// A ← A - operand.
    pub const SUB: u16 = 0x14;
    /// A ← A * operand.
    pub const MUL: u16 = 0x24;
    /// A ← A / operand.
    pub const DIV: u16 = 0x34;
    /// A ← A | operand.
    pub const OR: u16 = 0x44;
    /// A ← A & operand.
    pub const AND: u16 = 0x54;
    /// A ← A << operand.
    pub const LSH: u16 = 0x64;
    /// A ← A >> operand.
    pub const RSH: u16 = 0x74;
    /// A ← -A.
    pub const NEG: u16 = 0x84;
    /// A ← A ^ operand.
    pub const XOR: u16 = 0xa4;
    /// Skips k instructions.
    pub const JA: u16 = 0x05;
    /// Tests whether A equals the operand.
    pub const JEQ: u16 = 0x15;
    /// Tests whether A is greater.
    pub const JGT: u16 = 0x25;
    /// Tests whether A is greater or equal.
    pub const JGE: u16 = 0x35;
    /// Tests whether A and the operand have a bit in common.
    pub const JSET: u16 = 0x45;
    /// Returns k.
    pub const RET: u16 = 0x06;
    /// Returns A.
    pub const RET_A: u16 = 0x16;
    /// X ← A.
    pub const TAX: u16 = 0x07;
    /// A ← X.
    pub const TXA: u16 = 0x87;
    /// A ← a half word at byte k; socket filters only.
    pub const LD_HALF: u16 = 0x28;
    /// A ← a byte at byte k; socket filters only.
    pub const LD_BYTE: u16 = 0x30;
    /// A ← a word at byte X + k; socket filters only.
    pub const LD_WORD_AT: u16 = 0x40;
    /// A ← a half word at byte X + k; socket filters only.
    pub const LD_HALF_AT: u16 = 0x48;
    /// A ← a byte at byte X + k; socket filters only.
    pub const LD_BYTE_AT: u16 = 0x50;
    /// X ← 4 times the low nibble of the byte at k: the length of an IPv4 header; socket filters
    /// only.
    pub const LDX_HEADER: u16 = 0xb1;
    /// A ← A % operand; socket filters only.
    pub const MOD: u16 = 0x94;
    /// The bit that makes X, not k, the operand of an operation or a jump.
    pub const WITH_X: u16 = 0x08;
}

use code::*;

/// The number of words of memory.
const MEMORY: usize = 16;

/// Checks a filter: instructions are known, no constant divisor is 0, constant shifts are shorter
/// than a word, loads read whole words inside the data, memory is written on every path before it
/// is read, jumps stay inside the filter, and the last instruction is a return.
///
/// `written` is scratch space, one word for each instruction.
///
/// # Errors
/// The first invalid instruction; 0 if the filter is empty or too long, or `written` too short.
pub fn check(program: &[Instruction], written: &mut [u16]) -> Result<(), Invalid> {
    let whole_words = |one: &Instruction| {
        one.code == LD_WORD && one.k.is_multiple_of(4) && (one.k as usize) < 4 * WORDS
    };
    check_with(program, written, whole_words)
}

/// Checks a filter; `reads` says which instructions are allowed in addition.
fn check_with(
    program: &[Instruction],
    written: &mut [u16],
    reads: impl Fn(&Instruction) -> bool,
) -> Result<(), Invalid> {
    if program.is_empty() || program.len() > LONGEST || written.len() < program.len() {
        return Err(Invalid(0));
    }
    // The words of memory that are certainly written before each instruction. Jumps only go
    // forward, so one pass suffices.
    written.fill(u16::MAX);
    let mut now = 0u16;
    for (at, one) in program.iter().enumerate() {
        let left = program.len() - at - 1;
        let fits = match one.code {
            LD_MEM | LDX_MEM | ST | STX => (one.k as usize) < MEMORY,
            DIV => one.k != 0,
            LSH | RSH => one.k < u32::BITS,
            JA => (one.k as usize) < left,
            _ if is_jump(one.code) => (one.if_true.max(one.if_false) as usize) < left,
            code => is_plain(code) || reads(one),
        };
        now &= written[at];
        let reads = matches!(one.code, LD_MEM | LDX_MEM);
        if !fits || reads && now >> one.k & 1 == 0 {
            return Err(Invalid(at));
        }
        match one.code {
            ST | STX => now |= 1 << one.k,
            JA => {
                written[at + 1 + one.k as usize] &= now;
                now = u16::MAX;
            }
            _ if is_jump(one.code) => {
                written[at + 1 + one.if_true as usize] &= now;
                written[at + 1 + one.if_false as usize] &= now;
                now = u16::MAX;
            }
            _ => {}
        }
    }
    match program.last() {
        Some(last) if matches!(last.code, RET | RET_A) => Ok(()),
        _ => Err(Invalid(program.len() - 1)),
    }
}

fn is_jump(code: u16) -> bool {
    matches!(code & !WITH_X, JEQ | JGT | JGE | JSET)
}

fn is_plain(code: u16) -> bool {
    let operation = matches!(
        code & !WITH_X,
        ADD | SUB | MUL | DIV | OR | AND | LSH | RSH | XOR
    );
    operation
        || matches!(
            code,
            LD_LEN | LDX_LEN | LD_IMM | LDX_IMM | NEG | RET | RET_A | TAX | TXA
        )
}

/// Runs a filter on `data` and returns its result, which is arbitrary if [`check`] refuses it.
pub fn run(program: &[Instruction], data: &[u32; WORDS]) -> u32 {
    let word = |k: u32, _, _| Some(data[k as usize / 4 % WORDS]);
    run_with(program, 4 * WORDS as u32, word, |_, _, _| None)
}

/// The result of a filter for all calls with this number and architecture; `None` if it may depend
/// on other data, or if this function cannot tell (as Linux's `seccomp_is_const_allow`).
pub fn run_by_number(program: &[Instruction], number: u32, architecture: u32) -> Option<u32> {
    // The value of A, while it is known.
    let (mut a, mut at) = (Some(0), 0);
    loop {
        let one = program.get(at)?;
        at += 1;
        let jump = |holds: bool| if holds { one.if_true } else { one.if_false } as usize;
        match one.code {
            LD_WORD if one.k == 0 => a = Some(number),
            LD_WORD if one.k == 4 => a = Some(architecture),
            LD_WORD => a = None,
            LD_IMM => a = Some(one.k),
            AND => a = a.map(|a| a & one.k),
            JA => at += one.k as usize,
            JEQ => at += jump(a? == one.k),
            JGT => at += jump(a? > one.k),
            JGE => at += jump(a? >= one.k),
            JSET => at += jump(a? & one.k != 0),
            RET => return Some(one.k),
            _ => return None,
        }
    }
}

/// Runs a filter on `len` bytes. `word` is the load of a word, given k, A and X; `other` executes
/// the instructions that only some filters have, and returns the new A, or X for [`LDX_HEADER`]. If
/// either returns `None`, the filter returns 0.
#[inline(always)]
fn run_with(
    program: &[Instruction],
    len: u32,
    word: impl Fn(u32, u32, u32) -> Option<u32>,
    other: impl Fn(&Instruction, u32, u32) -> Option<u32>,
) -> u32 {
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
    let mut at = 0;
    while let Some(one) = program.get(at) {
        at += 1;
        let operand = if one.code & WITH_X != 0 { x } else { one.k };
        let slot = one.k as usize % MEMORY;
        let jump = |holds: bool| if holds { one.if_true } else { one.if_false } as usize;
        match one.code {
            LD_WORD => match word(one.k, a, x) {
                Some(word) => a = word,
                None => return 0,
            },
            LD_LEN => a = len,
            LDX_LEN => x = len,
            LD_IMM => a = one.k,
            LDX_IMM => x = one.k,
            LD_MEM => a = memory[slot],
            LDX_MEM => x = memory[slot],
            ST => memory[slot] = a,
            STX => memory[slot] = x,
            NEG => a = a.wrapping_neg(),
            TAX => x = a,
            TXA => a = x,
            JA => at += one.k as usize,
            RET => return one.k,
            RET_A => return a,
            code => match code & !WITH_X {
                ADD => a = a.wrapping_add(operand),
                SUB => a = a.wrapping_sub(operand),
                MUL => a = a.wrapping_mul(operand),
                // As on Linux, a division by 0 ends the filter.
                DIV => match a.checked_div(operand) {
                    Some(quotient) => a = quotient,
                    None => return 0,
                },
                OR => a |= operand,
                AND => a &= operand,
                XOR => a ^= operand,
                LSH => a = a.wrapping_shl(operand),
                RSH => a = a.wrapping_shr(operand),
                JEQ => at += jump(a == operand),
                JGT => at += jump(a > operand),
                JGE => at += jump(a >= operand),
                JSET => at += jump(a & operand != 0),
                _ => match other(one, a, x) {
                    Some(header) if one.code == LDX_HEADER => x = header,
                    Some(read) => a = read,
                    None => return 0,
                },
            },
        }
    }
    0
}
