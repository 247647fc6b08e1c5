//! Filters that seccomp accepts or refuses, and their results.

use bpf::code::*;
use bpf::{Instruction, Invalid, LONGEST, WORDS, run};

fn check(program: &[Instruction]) -> Result<(), Invalid> {
    bpf::check(program, &mut vec![0; program.len()])
}

fn op(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        k,
        ..Instruction::default()
    }
}

fn jump(code: u16, k: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction {
        code,
        if_true,
        if_false,
        k,
    }
}

fn data() -> [u32; WORDS] {
    std::array::from_fn(|at| 100 + at as u32)
}

fn result(program: &[Instruction]) -> u32 {
    check(program).expect("a filter that may run");
    run(program, &data())
}

#[test]
fn words_are_read() {
    assert_eq!(result(&[op(LD_WORD, 0), op(RET_A, 0)]), 100);
    assert_eq!(result(&[op(LD_WORD, 60), op(RET_A, 0)]), 115);
    assert_eq!(result(&[op(LD_LEN, 0), op(RET_A, 0)]), 64);
    for k in [1, 2, 62, 64, u32::MAX] {
        assert_eq!(check(&[op(LD_WORD, k), op(RET_A, 0)]), Err(Invalid(0)));
    }
}

#[test]
fn operations_compute() {
    let with = |code, a, k| result(&[op(LD_IMM, a), op(code, k), op(RET_A, 0)]);
    let with_x = |code, a, x| {
        result(&[
            op(LD_IMM, a),
            op(LDX_IMM, x),
            op(code | WITH_X, 0),
            op(RET_A, 0),
        ])
    };
    for compute in [&with as &dyn Fn(u16, u32, u32) -> u32, &with_x] {
        assert_eq!(compute(ADD, u32::MAX, 2), 1);
        assert_eq!(compute(SUB, 1, 2), u32::MAX);
        assert_eq!(compute(MUL, 1 << 31, 3), 1 << 31);
        assert_eq!(compute(DIV, 17, 5), 3);
        assert_eq!(compute(OR, 5, 10), 15);
        assert_eq!(compute(AND, 6, 3), 2);
        assert_eq!(compute(XOR, 6, 3), 5);
        assert_eq!(compute(LSH, 3, 4), 48);
        assert_eq!(compute(RSH, 48, 4), 3);
    }
    assert_eq!(with(NEG, 1, 0), u32::MAX);
    assert_eq!(with_x(DIV, 17, 0), 0);
    let zero = [op(LD_IMM, 9), op(DIV, 0), op(RET, 1)];
    assert_eq!(check(&zero), Err(Invalid(1)));
    let far = [op(LSH, 32), op(RET, 1)];
    assert_eq!(check(&far), Err(Invalid(0)));
}

#[test]
fn jumps_choose() {
    let chosen = |code, k| result(&[op(LD_WORD, 0), jump(code, k, 1, 0), op(RET, 0), op(RET, 1)]);
    assert_eq!([chosen(JEQ, 100), chosen(JEQ, 99)], [1, 0]);
    assert_eq!([chosen(JGT, 99), chosen(JGT, 100)], [1, 0]);
    assert_eq!([chosen(JGE, 100), chosen(JGE, 101)], [1, 0]);
    assert_eq!([chosen(JSET, 4), chosen(JSET, 8)], [1, 0]);
    assert_eq!(result(&[op(JA, 1), op(RET, 5), op(RET, 6)]), 6);
    assert_eq!(check(&[op(JA, 1), op(RET, 5)]), Err(Invalid(0)));
    assert_eq!(check(&[op(JA, u32::MAX), op(RET, 5)]), Err(Invalid(0)));
    assert_eq!(check(&[jump(JEQ, 0, 0, 1), op(RET, 5)]), Err(Invalid(0)));
}

#[test]
fn memory_is_written_before_it_is_read() {
    assert_eq!(
        result(&[
            op(LD_IMM, 7),
            op(ST, 3),
            op(LDX_MEM, 3),
            op(TXA, 0),
            op(RET_A, 0)
        ]),
        7
    );
    assert_eq!(check(&[op(LD_MEM, 3), op(RET_A, 0)]), Err(Invalid(0)));
    assert_eq!(check(&[op(ST, 16), op(RET_A, 0)]), Err(Invalid(0)));
    // Memory is written on one of two paths only.
    let one_way = [jump(JEQ, 0, 1, 0), op(ST, 0), op(LD_MEM, 0), op(RET_A, 0)];
    assert_eq!(check(&one_way), Err(Invalid(2)));
    let both_ways = [
        op(ST, 0),
        jump(JEQ, 0, 1, 0),
        op(TAX, 0),
        op(LD_MEM, 0),
        op(RET_A, 0),
    ];
    assert_eq!(check(&both_ways), Ok(()));
}

#[test]
fn a_filter_ends_by_a_return() {
    assert_eq!(check(&[]), Err(Invalid(0)));
    assert_eq!(check(&[op(LD_IMM, 1)]), Err(Invalid(0)));
    assert_eq!(check(&[op(RET, 0), op(TAX, 0)]), Err(Invalid(1)));
    assert_eq!(check(&vec![op(RET, 0); LONGEST]), Ok(()));
    assert_eq!(check(&vec![op(RET, 0); LONGEST + 1]), Err(Invalid(0)));
}

#[test]
fn what_is_not_for_filters_is_refused() {
    // Half words, bytes, loads relative to X, BPF_MOD, and codes without a meaning.
    for code in [
        0x28, 0x30, 0x40, 0x48, 0x50, 0xb1, 0x94, 0x9c, 0x0e, 0xffff, 0x8c,
    ] {
        assert_eq!(
            check(&[op(code, 0), op(RET, 0)]),
            Err(Invalid(0)),
            "{code:#x}"
        );
    }
}

#[test]
fn no_filter_runs_for_ever_or_fails() {
    // Random instructions: a filter that passes the check returns; others are not run.
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    let mut passed = 0;
    for _ in 0..20_000 {
        let codes = [
            LD_WORD,
            LD_IMM,
            ST,
            LD_MEM,
            ADD,
            DIV | WITH_X,
            JEQ,
            JA,
            TAX,
            RET_A,
        ];
        let mut program: Vec<_> = (0..8)
            .map(|_| {
                let code = codes[random() as usize % codes.len()];
                jump(code, random() % 8, random() as u8 % 4, random() as u8 % 4)
            })
            .collect();
        program.push(op(RET, 1));
        if check(&program).is_ok() {
            run(&program, &data());
            passed += 1;
        }
    }
    assert!(passed > 10);
}

#[test]
fn what_depends_on_the_number_alone_is_known() {
    let known = |program: &[Instruction], number| {
        check(program).expect("a filter that may run");
        bpf::run_by_number(program, number, 7)
    };
    let by_number = [
        op(LD_WORD, 4),
        jump(JEQ, 7, 0, 4),
        op(LD_WORD, 0),
        jump(JEQ, 3, 2, 0),
        jump(JGE, 5, 0, 1),
        op(RET, 1),
        op(RET, 2),
    ];
    for (number, result) in [(3, 2), (4, 2), (5, 1), (u32::MAX, 1)] {
        assert_eq!(known(&by_number, number), Some(result), "number {number}");
        let mut data = data();
        (data[0], data[1]) = (number, 7);
        assert_eq!(run(&by_number, &data), result);
    }
    assert_eq!(bpf::run_by_number(&by_number, 5, 8), Some(2));
    // The filter reads an argument, and tests it for one number only.
    let by_argument = [
        op(LD_WORD, 0),
        jump(JEQ, 3, 0, 2),
        op(LD_WORD, 16),
        jump(JEQ, 0, 0, 1),
        op(RET, 1),
        op(RET, 2),
    ];
    assert_eq!(known(&by_argument, 3), None);
    assert_eq!(known(&by_argument, 4), Some(1));
    // Values that are loaded or computed but not tested have no effect.
    let unused = [
        op(LD_WORD, 16),
        op(AND, 1),
        op(LD_IMM, 2),
        op(AND, 6),
        op(RET, 3),
    ];
    assert_eq!(known(&unused, 0), Some(3));
    let returned = [op(LD_WORD, 0), op(RET_A, 0)];
    assert_eq!(known(&returned, 0), None);
    let jumps = [
        op(LD_WORD, 0),
        jump(JGT, 8, 0, 2),
        jump(JSET, 4, 0, 1),
        op(JA, 0),
        op(RET, 1),
    ];
    assert_eq!(known(&jumps, 12), Some(1));
    let with_x = [jump(JEQ | WITH_X, 0, 0, 0), op(RET, 1)];
    assert_eq!(known(&with_x, 0), None);
}
