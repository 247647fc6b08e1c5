//! Socket filters: their loads from a packet, and the filters that are refused.

use bpf::code::*;
use bpf::packet::{Beside, Packet, check, run};
use bpf::{Instruction, Invalid};

struct Bytes(Vec<u8>);

impl Packet for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0[4..]
    }

    fn beside(&self, what: Beside) -> Option<u32> {
        (what != Beside::Mark).then_some(what as u32 + 1)
    }
}

fn op(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        k,
        ..Instruction::default()
    }
}

fn is_refused(program: &[Instruction]) -> Option<usize> {
    let checked = check(program, &mut vec![0; program.len()]);
    checked.err().map(|Invalid(at)| at)
}

fn result(program: &[Instruction]) -> u32 {
    assert_eq!(is_refused(program), None);
    run(program, &Bytes((0..24).collect()))
}

fn loaded(code: u16, k: u32) -> u32 {
    result(&[op(LDX_IMM, 2), op(code, k), op(RET_A, 0)])
}

#[test]
fn bytes_are_read_in_the_order_of_the_network() {
    assert_eq!(loaded(LD_WORD, 0), 0x0405_0607);
    assert_eq!(loaded(LD_HALF, 1), 0x0506);
    assert_eq!(loaded(LD_BYTE, 19), 23);
    assert_eq!(loaded(LD_WORD_AT, 1), 0x0708_090a);
    assert_eq!(loaded(LD_HALF_AT, 0), 0x0607);
    assert_eq!(loaded(LD_BYTE_AT, u32::MAX), 5);
    assert_eq!(loaded(LD_LEN, 0), 20);
    assert_eq!(result(&[op(LDX_HEADER, 1), op(TXA, 0), op(RET_A, 0)]), 20);
}

#[test]
fn a_read_beyond_the_end_is_the_filters() {
    for (code, k) in [
        (LD_WORD, 17),
        (LD_WORD, 0x7fff_ffff),
        (LD_HALF, 19),
        (LD_BYTE, 20),
        (LD_BYTE_AT, 18),
        (LD_WORD_AT, 0x7fff_fffe),
    ] {
        let program = [op(LDX_IMM, 2), op(code, k), op(RET, 7)];
        assert_eq!(result(&program), 0, "{code:#x} {k:#x}");
    }
    assert_eq!(result(&[op(LDX_HEADER, 20), op(RET, 7)]), 0);
}

#[test]
fn what_is_beside_a_packet_is_read() {
    let beside = -0x1000i32 as u32;
    assert_eq!(loaded(LD_WORD, beside + 8), 9);
    assert_eq!(loaded(LD_HALF, beside + 36), 37);
    assert_eq!(result(&[op(LD_BYTE, beside + 20), op(RET, 7)]), 0);
    let xor = [op(LD_IMM, 5), op(LDX_IMM, 6), op(LD_WORD, beside + 40)];
    assert_eq!(result(&[&xor[..], &[op(RET_A, 0)]].concat()), 3);
    // Unknown items, and those that need a netlink attribute.
    for k in [12, 16, 32, 52, 64, 1, 0xfff] {
        assert_eq!(is_refused(&[op(LD_WORD, beside + k), op(RET, 0)]), Some(0));
    }
    // Headers before the packet.
    for k in [i32::MIN, -0x20_0000, -0x10_0000] {
        assert_eq!(is_refused(&[op(LD_BYTE, k as u32), op(RET, 0)]), Some(0));
    }
}

#[test]
fn remainders_are_taken() {
    let with = |code, k| result(&[op(LD_IMM, 17), op(LDX_IMM, 5), op(code, k), op(RET_A, 0)]);
    assert_eq!(with(MOD, 4), 1);
    assert_eq!(with(MOD | WITH_X, 0), 2);
    let by_none = [op(LDX_IMM, 0), op(MOD | WITH_X, 0), op(RET, 7)];
    assert_eq!(result(&by_none), 0);
    assert_eq!(is_refused(&[op(MOD, 0), op(RET, 0)]), Some(0));
}

#[test]
fn what_filters_of_calls_are_refused_for_is_refused() {
    assert_eq!(is_refused(&[]), Some(0));
    assert_eq!(is_refused(&[op(LD_WORD, 0)]), Some(0));
    assert_eq!(is_refused(&[op(LD_MEM, 0), op(RET, 0)]), Some(0));
    assert_eq!(is_refused(&[op(JA, 1), op(RET, 0)]), Some(0));
    assert_eq!(is_refused(&[op(0x1234, 0), op(RET, 0)]), Some(0));
}
