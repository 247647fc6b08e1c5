//! The decoders against an independent encoder, over the whole encoding space.

use idreg::{El0View, Enabled, Mrs, System};
use proptest::prelude::*;

/// `MRS`, built field by field from the highest down (Arm ARM, "MRS").
fn instruction(mrs: Mrs) -> u32 {
    let fields = [
        (u32::from(mrs.op0 - 2), 1),
        (mrs.op1.into(), 3),
        (mrs.crn.into(), 4),
        (mrs.crm.into(), 4),
    ];
    let fields = fields
        .into_iter()
        .chain([(mrs.op2.into(), 3), (mrs.rt.into(), 5)]);
    fields.fold(0b1101_0101_0011, |word, (value, width): (u32, _)| {
        word << width | value
    })
}

/// The ISS of its trap, built likewise: Op0, Op2, Op1, CRn, Rt, CRm, Direction.
fn iss(mrs: Mrs) -> u32 {
    let fields = [
        (mrs.op0, 2),
        (mrs.op2, 3),
        (mrs.op1, 3),
        (mrs.crn, 4),
        (mrs.rt, 5),
        (mrs.crm, 4),
        (1, 1),
    ];
    fields
        .into_iter()
        .fold(0, |iss, (value, width)| iss << width | u32::from(value))
}

fn any_mrs() -> impl Strategy<Value = Mrs> {
    (2..4u8, 0..8u8, 0..16u8, 0..16u8, 0..8u8, 0..32u8).prop_map(|(op0, op1, crn, crm, op2, rt)| {
        Mrs {
            op0,
            op1,
            crn,
            crm,
            op2,
            rt,
        }
    })
}

#[test]
fn known_words() {
    let isar0 = Mrs {
        op0: 3,
        op1: 0,
        crn: 0,
        crm: 6,
        op2: 0,
        rt: 0,
    };
    assert_eq!(Mrs::from_instruction(0xd538_0600), Some(isar0)); // mrs x0, id_aa64isar0_el1
    assert_eq!(
        Mrs::from_instruction(0xd538_00bf),
        Some(Mrs {
            crm: 0,
            op2: 5,
            rt: 31,
            ..isar0
        })
    ); // mrs xzr, mpidr_el1
    assert_eq!(Mrs::from_instruction(0xd518_0600), None); // msr id_aa64isar0_el1, x0
    assert_eq!(Mrs::from_instruction(0xd503_201f), None); // nop
    assert_eq!(Mrs::from_instruction(0xd52b_7420), None); // sysl x0, #3, c7, c4, #1
}

proptest! {
    #[test]
    fn both_decoders_invert_the_encoders(mrs in any_mrs()) {
        prop_assert_eq!(Mrs::from_instruction(instruction(mrs)), Some(mrs));
        prop_assert_eq!(Mrs::from_iss(iss(mrs)), Some(mrs));
        prop_assert_eq!(mrs.to_instruction(), instruction(mrs));
        prop_assert_eq!(u32::from(mrs.encoding()), instruction(mrs) >> 5 & 0xffff);
    }

    #[test]
    fn a_write_is_never_a_read(mrs in any_mrs()) {
        prop_assert_eq!(Mrs::from_instruction(instruction(mrs) & !(1 << 21)), None);
        prop_assert_eq!(Mrs::from_iss(iss(mrs) & !1), None);
    }
}

/// Every register of the encoding space, each by both decoders: which are defined at EL0.
#[test]
fn only_the_documented_space_is_emulated() {
    let view = El0View::new(&System::new(), Enabled::ALL, 0x410f_d083);
    let step = if cfg!(miri) { 127 } else { 1 };
    for encoding in (0..1 << 15).step_by(step) {
        let bits = |shift: u32, width: u32| (encoding >> shift & ((1 << width) - 1)) as u8;
        let (op0, op1, crn, crm, op2) = (
            2 + bits(14, 1),
            bits(11, 3),
            bits(7, 4),
            bits(3, 4),
            bits(0, 3),
        );
        let mrs = Mrs {
            op0,
            op1,
            crn,
            crm,
            op2,
            rt: 1,
        };
        let in_space = (op0, op1, crn) == (3, 0, 0);
        let cache_type = (op0, op1, crn, crm, op2) == (3, 3, 0, 0, 1);
        let defined = cache_type
            || in_space && ((2..=7).contains(&crm) || crm == 0 && [0, 5, 6].contains(&op2));
        assert_eq!(view.emulate(mrs).is_some(), defined, "{mrs:?}");
        assert_eq!(
            Mrs::from_iss(iss(mrs)).and_then(|mrs| view.emulate(mrs)),
            view.emulate(mrs)
        );
    }
}

/// All 2^32 words and all 2^25 syndromes: seconds in a release build.
#[test]
#[ignore = "long: needs a release build"]
fn every_word() {
    let mut found = 0;
    for word in 0..=u32::MAX {
        if let Some(mrs) = Mrs::from_instruction(word) {
            assert_eq!(instruction(mrs), word);
            found += 1;
        }
    }
    assert_eq!(found, 1 << 20);
    for syndrome in 0..1 << 25 {
        let read = Mrs::from_iss(syndrome);
        assert_eq!(read.is_some(), syndrome & 1 == 1 && syndrome >> 21 & 1 == 1);
        assert!(read.is_none_or(|mrs| iss(mrs) == syndrome & 0x3f_ffff));
    }
}
