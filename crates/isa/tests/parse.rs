//! Parses strings of device trees: real ones, old and new, and arbitrary ones.

use isa::Extension::*;
use isa::{Extension, Extensions, Hart, Malformed, Usable};
use proptest::prelude::*;

/// The node of QEMU 10's `-cpu rv64`.
const QEMU: &str = "rv64imafdch_zic64b_zicbom_zicbop_zicboz_ziccamoa_ziccif_zicclsm_ziccrse_zicntr_zicsr_zifencei_\
    zihintntl_zihintpause_zihpm_zmmul_za64rs_zaamo_zalrsc_zawrs_zfa_zca_zcd_zba_zbb_zbc_zbs_shcounterenw_shgatpa_shtvala_\
    shvsatpa_shvstvala_shvstvecd_ssccptr_sscounterenw_sstc_sstvala_sstvecd_ssu64xl_svadu_svvptc";

fn extensions(isa: &str) -> Extensions {
    let hart = Hart::from_string(isa);
    assert_eq!((hart.xlen, hart.malformed), (64, None), "{isa}");
    hart.extensions
}

fn any_extensions() -> impl Strategy<Value = Extensions> {
    let some = proptest::sample::subsequence(Extension::ALL, 0..=Extension::ALL.len());
    some.prop_map(|some| Extensions::of(&some).with(I).resolved())
}

#[test]
fn an_emulators_string() {
    let hart = Hart::from_string(QEMU);
    assert_eq!((hart.xlen, hart.malformed), (64, None));
    assert_eq!(
        hart.extensions.to_string(),
        "imafdch_zicbom_zicbop_zicboz_ziccrse_zicntr_zicsr_zifencei_zihintntl_zihintpause_zihpm_zaamo_zalrsc_zawrs_zfa_zca_zcd_\
        zba_zbb_zbc_zbs_sstc_svadu_svvptc"
    );
    let names = QEMU
        .split('_')
        .skip(1)
        .chain(["i", "m", "a", "f", "d", "c", "h"]);
    assert_eq!(Hart::from_list("rv64i", names), hart);
}

#[test]
fn strings_of_all_ages() {
    let gc = Extensions::of(&[
        I, M, A, F, D, C, Zaamo, Zalrsc, Zca, Zcd, Zicsr, Zifencei, Zicntr, Zihpm,
    ]);
    for same in [
        "rv64imafdc",
        "rv64gc",
        "RV64GC",
        "rv64imafdcsu",
        "rv64i2p1m2a2p1f2p2d2c2",
        "rv64i2_m2p0_a_f_d_c",
        "rv64imafdc_zicsr2p0_zifencei2",
        "rv64gc_xsomething_zunknown1p0_sunknown",
        "rv64gc__zicsr_",
    ] {
        assert_eq!(extensions(same), gc, "{same}");
    }
    assert!(
        !gc.has(Svvptc)
            && extensions("rv64gc_svvptc").has(Svvptc)
            && extensions("rv64gc_SvVpTc1p0").has(Svvptc)
    );
    // The extension P, then a version of it.
    assert_eq!(extensions("rv64ip2zba"), extensions("rv64i_zba"));
    assert_eq!(extensions("rv64i2p_zba"), extensions("rv64i_zba"));
    // Digits that are part of a name.
    assert!(
        extensions("rv64i_svrsw60t59b").has(Svrsw60t59b) && extensions("rv64imafdv").has(Zve64x)
    );
}

#[test]
fn bundles_and_what_is_implied() {
    let v = extensions("rv64gcv");
    assert!(v.has_all(Extensions::of(&[V, Zve64d, Zve64f, Zve64x, Zve32f, Zve32x])));
    assert!(extensions("rv64gc_b_zkn").has_all(Extensions::of(&[
        Zba, Zbb, Zbs, Zbkb, Zbkc, Zbkx, Zknd, Zkne, Zknh
    ])));
    assert!(extensions("rv64gcv_zvbb").has(Zvkb));
    // An extension without its requirements is dropped: F without D, vector cryptography without
    // vectors.
    assert_eq!(extensions("rv64imacf"), extensions("rv64imac"));
    assert!(
        !extensions("rv64gc_zvkned").has(Zvkned) && extensions("rv64gc_zve32x_zvkned").has(Zvkned)
    );
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_read() {
    for (isa, at) in [
        ("rv64im?ac_svvptc", 6),
        ("rv64ima_z!b_svvptc", 8),
        ("rv64imac_s_svvptc", 9),
        ("rv65imac_svvptc", 0),
        ("", 0),
    ] {
        let hart = Hart::from_string(isa);
        assert_eq!(hart.malformed, Some(Malformed { at }), "{isa}");
        assert_eq!(hart.extensions.has(Svvptc), !isa.is_empty(), "{isa}");
    }
    assert_eq!(
        Hart::from_string("rv64imac?")
            .malformed
            .unwrap()
            .to_string(),
        "malformed ISA string at byte 8"
    );
    assert!(Hart::from_list("rv64e", ["svvptc"]).malformed.is_some());
    assert_eq!(
        Hart::from_list("rv64i", ["unknown", ""]).extensions,
        Extensions::of(&[I])
    );
}

#[test]
fn the_system_has_what_every_hart_has() {
    let with = Hart::from_string("rv64gc_sstc_svvptc").extensions;
    let without = Hart::from_list("rv64i", ["i", "m", "a", "f", "d", "c", "svvptc"]).extensions;
    assert!(with.and(without).has(Svvptc) && !with.and(without).has(Sstc));
    assert!(!with.and(Hart::from_string("rv64gc").extensions).has(Svvptc));
}

#[test]
fn programs_get_what_the_kernel_saves() {
    let all = extensions("rv64gcv_zfh_zvfh_zvkned_zicbom_zicboz_zba");
    let nothing = all.usable(Usable::default());
    assert_eq!(
        nothing.to_string(),
        "imac_zicntr_zicsr_zifencei_zihpm_zaamo_zalrsc_zca_zba"
    );
    let float = all.usable(Usable {
        float: true,
        ..Usable::default()
    });
    assert!(
        float.has_all(Extensions::of(&[F, D, Zfh, Zcd]))
            && !float.has(V)
            && !float.has(Zvkned)
            && !float.has(Zvfh)
    );
    let vector = all.usable(Usable {
        vector: true,
        ..Usable::default()
    });
    assert!(
        vector.has_all(Extensions::of(&[Zve32x, Zve64x, Zvkned]))
            && !vector.has(Zve32f)
            && !vector.has(V)
    );
    assert_eq!(
        all.usable(Usable {
            float: true,
            vector: true,
            zicbom: true,
            zicboz: true
        }),
        all
    );
    assert_eq!(nothing.hwcap(), 1 << 8 | 1 << 12 | 1 << 0 | 1 << 2);
    assert_eq!(float.hwcap(), nothing.hwcap() | 1 << 5 | 1 << 3);
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(set in any_extensions()) {
        let told = set.or(Extensions::of(&[Zicsr, Zifencei, Zicntr, Zihpm])).resolved();
        let hart = Hart::from_string(&format!("rv64{set}"));
        prop_assert_eq!(hart.malformed, None);
        prop_assert_eq!(hart.extensions, told);
        prop_assert_eq!(Hart::from_string(&format!("RV64{set}").to_uppercase()).extensions, told);
    }

    #[test]
    fn order_versions_and_the_way_of_telling_do_not_matter(
        set in any_extensions(), versions in proptest::collection::vec(0..4usize, 128), order in any::<u64>(),
    ) {
        let mut names: Vec<_> = set.iter().map(Extension::name).collect();
        let listed = Hart::from_list("rv64i", names.iter().copied()).extensions;
        prop_assert_eq!(listed, set);
        names.sort_by_key(|name| name.bytes().fold(order, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte)));
        let version = |at: usize| ["", "1", "2p0", "10p12"][versions[at]];
        let names = names.iter().enumerate().map(|(at, name)| format!("_{name}{}", version(at)));
        let string = Hart::from_string(&format!("rv64{}", names.collect::<String>()));
        prop_assert_eq!(string.extensions, listed.or(Extensions::of(&[Zicsr, Zifencei, Zicntr, Zihpm])).resolved());
    }

    #[test]
    fn any_string_is_survived(isa in ".{0,60}", tail in "[a-zA-Z0-9_?. ]{0,60}") {
        for isa in [isa.clone(), format!("rv64i{isa}"), format!("rv64{tail}"), format!("{tail}{isa}")] {
            let hart = Hart::from_string(&isa);
            prop_assert!(hart.malformed.is_none_or(|malformed| malformed.at <= isa.len()));
            prop_assert_eq!(hart.extensions, hart.extensions.resolved());
            let _ = Hart::from_list(&isa, [isa.as_str(), &tail]);
            // A separator ends the name before it.
            let ended = isa + "_svvptc";
            prop_assert!(Hart::from_string(&ended).extensions.has(Svvptc));
        }
    }

    #[test]
    fn usable_only_takes_away_and_is_monotonic(set in any_extensions(), a in any::<[bool; 4]>(), b in any::<[bool; 4]>()) {
        let usable = |[float, vector, zicbom, zicboz]: [bool; 4]| Usable { float, vector, zicbom, zicboz };
        let some = set.usable(usable(a));
        let more = set.usable(usable([0, 1, 2, 3].map(|at| a[at] || b[at])));
        prop_assert!(set.has_all(more) && more.has_all(some));
        prop_assert_eq!(some.usable(usable(a)), some);
    }
}
