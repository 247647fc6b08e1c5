//! The answers of `riscv_hwprobe`, against the keys that Linux documents.

use isa::hwprobe::{Facts, MAX_KEY, Misaligned, matches};
use isa::{Extension, Extension::*, Extensions};
use proptest::prelude::*;

/// Names of `RISCV_HWPROBE_EXT_*` in IMA_EXT_0 from bit 3 on; a dash for bits that Stile never
/// sets.
const NAMES: &str = "zba zbb zbs zicboz zbc zbkb zbkc zbkx zknd zkne zknh zksed zksh zkt zvbb zvbc zvkb zvkg zvkned zvknha \
    zvknhb zvksed zvksh zvkt zfh zfhmin zihintntl zvfh zvfhmin zfa ztso zacas zicond zihintpause zve32x zve32f zve64x zve64f \
    zve64d zimop zca zcb zcd - zcmop zawrs - zicntr zihpm zfbfmin zvfbfmin zvfbfwma zicbom zaamo zalrsc zabha";

fn facts(extensions: Extensions) -> Facts {
    Facts {
        ids: [0, 42, 0],
        extensions,
        misaligned_scalar: Misaligned::Fast,
        misaligned_vector: Misaligned::Unknown,
        zicboz_block: 64,
        zicbom_block: 64,
        address_end: 1 << 47,
        time_frequency: 10_000_000,
    }
}

#[test]
fn each_extension_has_its_bit_and_no_other() {
    for extension in Extension::ALL {
        let expected = match extension {
            C => 1 << 1,
            V => 1 << 2,
            _ => NAMES
                .split_whitespace()
                .position(|name| name == extension.name())
                .map_or(0, |at| 1 << (3 + at)),
        };
        assert_eq!(
            facts(Extensions::of(&[*extension])).value(4),
            Some(expected),
            "{extension:?}"
        );
    }
    assert_eq!(facts(Extensions::of(&[F, D])).value(4), Some(1));
}

#[test]
fn other_keys() {
    let all = facts(Extensions::of(&[Zicboz]));
    let values: Vec<_> = (0..=MAX_KEY).map(|key| all.value(key).unwrap()).collect();
    assert_eq!(
        values,
        [
            0,
            42,
            0,
            1,
            1 << 6,
            3,
            64,
            1 << 47,
            10_000_000,
            3,
            0,
            0,
            0,
            0,
            0
        ]
    );
    assert_eq!(
        [-1, MAX_KEY + 1, i64::MAX, i64::MIN].map(|key| all.value(key)),
        [None; 4]
    );
}

#[test]
fn harts_that_differ() {
    let one = facts(Extensions::of(&[F, D, Zba, Zicboz]));
    let other = Facts {
        ids: [0, 43, 0],
        misaligned_scalar: Misaligned::Slow,
        ..facts(Extensions::of(&[F, D, Zbb]))
    };
    let both = one.and(other);
    assert_eq!(
        [0, 1, 2].map(|key| both.value(key)),
        [Some(0), Some(u64::MAX), Some(0)]
    );
    assert_eq!(
        [4, 5, 6].map(|key| both.value(key)),
        [Some(1), Some(0), Some(0)]
    );
    assert_eq!(both.and(one), both);
}

#[test]
fn which_cpus() {
    assert!(matches(4, 0b111, 0b101) && !matches(4, 0b011, 0b101));
    assert!(matches(6, 64, 64) && !matches(6, 64, 0) && !matches(1, 3, 1));
}

proptest! {
    #[test]
    fn both_is_commutative_and_never_more_than_either(
        a in proptest::sample::subsequence(Extension::ALL, 0..40), b in proptest::sample::subsequence(Extension::ALL, 0..40),
    ) {
        let [one, other] = [a, b].map(|extensions| facts(Extensions::of(&extensions)));
        prop_assert_eq!(one.and(other), other.and(one));
        let both = one.and(other).value(4).unwrap();
        prop_assert_eq!(both, one.value(4).unwrap() & other.value(4).unwrap());
    }
}
