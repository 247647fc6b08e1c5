//! The index against the scan, on all shapes of affinities, present and absent.

use affinity::{Affinity, Index, TargetList, Vcpu, scan};
use proptest::prelude::*;

/// vCPUs of the biggest VM; fewer under Miri, which takes a thousand times as long.
const VCPUS: u32 = if cfg!(miri) { 48 } else { 512 };

/// An MPIDR of packed fields, RES1 and U set as a real one may have them.
fn mpidr(packed: u32) -> u64 {
    u64::from(packed >> 24) << 32 | u64::from(packed & 0xff_ffff) | 3 << 30
}

fn affinities(packed: impl IntoIterator<Item = u32>) -> Vec<Affinity> {
    packed
        .into_iter()
        .map(|packed| Affinity::from_mpidr(mpidr(packed)))
        .collect()
}

/// Packed affinities: as Linux numbers them, in odd clusters, with few bits, or anywhere;
/// duplicates among them.
fn any_vm() -> impl Strategy<Value = Vec<u32>> {
    let linux = (1..=VCPUS).prop_map(|count| (0..count).map(|id| id & 15 | id >> 4 << 8).collect());
    let clusters = (any::<u32>(), 1..40u32, 1..9u32).prop_map(|(base, clusters, size)| {
        let cpus =
            (0..clusters).flat_map(move |cluster| (0..size).map(move |cpu| cluster << 16 | cpu));
        cpus.map(|cpu| cpu ^ base).collect()
    });
    let few_bits = (
        any::<u32>(),
        any::<u32>(),
        proptest::collection::vec(any::<u32>(), 1..80),
    )
        .prop_map(|(a, b, cpus)| cpus.into_iter().map(|cpu| cpu & a & b | !a).collect());
    let anywhere = proptest::collection::vec(any::<u32>(), 0..VCPUS as usize);
    prop_oneof![linux.prop_shuffle(), clusters, few_bits, anywhere]
}

/// Those present, those one bit away from them, and some anywhere.
fn probes(vm: &[u32], strangers: &[u32]) -> Vec<u32> {
    let near = vm
        .iter()
        .take(if cfg!(miri) { 2 } else { 64 })
        .flat_map(|cpu| (0..32).map(move |bit| cpu ^ 1 << bit));
    vm.iter()
        .copied()
        .chain(near)
        .chain(strangers.iter().copied())
        .collect()
}

fn list(packed: u32, members: u16) -> TargetList {
    let [aff3, aff2, aff1, aff0] = packed.to_be_bytes();
    TargetList::new(aff3, aff2, aff1, aff0 >> 4, members)
}

proptest! {
    #[test]
    fn one_cpu_is_found_as_by_the_scan(
        vm in any_vm(), strangers in proptest::collection::vec(any::<u32>(), 20), seed in any::<u64>(),
    ) {
        let vcpus = affinities(vm.iter().copied());
        let index = Index::new(&vcpus, seed).unwrap();
        for probe in affinities(probes(&vm, &strangers)) {
            prop_assert_eq!(index.get(probe), scan::get(&vcpus, probe));
        }
    }

    #[test]
    fn a_target_list_is_found_as_by_the_scan(
        vm in any_vm(), strangers in proptest::collection::vec(any::<u32>(), 20), members in any::<u16>(),
        seed in any::<u64>(),
    ) {
        let vcpus = affinities(vm.iter().copied());
        let index = Index::new(&vcpus, seed).unwrap();
        for probe in probes(&vm, &strangers) {
            let list = list(probe, members);
            let found: Vec<Vcpu> = index.targets(list).collect();
            prop_assert_eq!(index.targets(list).len(), found.len());
            let mut scanned: Vec<Vcpu> = scan::targets(&vcpus, list).collect();
            prop_assert!(scanned.is_sorted());
            scanned.sort_by_key(|&vcpu| vcpus[usize::from(vcpu)]);
            prop_assert_eq!(&found, &scanned);
            prop_assert!(found.iter().all(|vcpu| list.names(vcpus[usize::from(*vcpu)])));
        }
    }

    #[test]
    fn mpidrs_pack_and_unpack(value: u64) {
        let affinity = Affinity::from_mpidr(value);
        prop_assert_eq!(affinity.to_mpidr(), value & 0xff_00ff_ffff);
        prop_assert_eq!(Affinity::from_mpidr(affinity.to_mpidr()), affinity);
    }

    #[test]
    fn levels_widen(a: u32, b: u32) {
        let [one, other] = [a, b].map(|packed| Affinity::from_mpidr(mpidr(packed)));
        prop_assert!(one.matches(other, 4));
        for level in 0..4 {
            prop_assert_eq!(one.matches(other, level), a >> (8 * level) == b >> (8 * level));
        }
    }
}

/// Sparse ones must always find room: 512 affinities anywhere, many times over.
#[test]
fn sparse_affinities_are_hashed_whatever_the_seed() {
    let mut random = 1u32;
    for seed in 0..if cfg!(miri) { 1 } else { 200 } {
        let packed: Vec<u32> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            random ^ random >> 15
        })
        .take(VCPUS as usize)
        .collect();
        let vcpus = affinities(packed);
        let index = Index::new(&vcpus, seed).unwrap();
        assert!(
            vcpus
                .iter()
                .all(|cpu| index.get(*cpu) == scan::get(&vcpus, *cpu))
        );
    }
}

#[test]
fn an_absent_cpu_is_not_taken_for_a_present_one() {
    // The two differ in one bit only, so that the table has two places; every other CPU would land
    // on one of them.
    let vcpus = affinities([0x0000_0000, 0x0000_0100]);
    let index = Index::new(&vcpus, 0).unwrap();
    for absent in affinities([
        0x0000_0200,
        0x0001_0000,
        0x0100_0100,
        0x0000_0010,
        0x0000_0001,
        0xffff_ffff,
    ]) {
        assert_eq!(index.get(absent), None);
    }
    assert_eq!(index.targets(list(0x0000_0300, 0xffff)).count(), 0);
    assert_eq!(
        index.targets(list(0x0000_0100, 0xffff)).collect::<Vec<_>>(),
        [1]
    );
}

#[test]
fn a_vm_without_vcpus_and_one_of_twins() {
    let none = Index::new(&[], 0).unwrap();
    assert_eq!(none.get(Affinity::of_vcpu_id(0)), None);
    assert_eq!(none.targets(list(0, 0xffff)).next(), None);
    let twins = affinities([7, 7, 7]);
    assert_eq!(Index::new(&twins, 0).unwrap().get(twins[0]), Some(0));
}

#[test]
fn vcpu_ids_become_affinities_as_in_linux() {
    let mpidrs = [0, 15, 16, 511, 0x1234].map(|id| Affinity::of_vcpu_id(id).to_mpidr());
    assert_eq!(mpidrs, [0, 15, 0x100, 0x1f0f, 0x1_2304]);
}
