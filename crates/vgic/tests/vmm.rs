//! Registers as a VMM saves and restores them.

use affinity::Affinity;
use vgic::redistributor::Identity;
use vgic::vmm::{self, Refused, Word};
use vgic::{CpuInterface, Effect, Limits, Private, Shared};

fn of(shared: &Shared, offset: u32, write: Option<u32>) -> vmm::Result {
    vmm::distributor(shared, Word { offset, write }, |_| None)
}

fn own(private: &Private, shared: &Shared, offset: u32, write: Option<u32>) -> vmm::Result {
    let identity = Identity {
        affinity: Affinity::from_mpidr(0x102),
        number: 3,
        last: false,
    };
    vmm::redistributor(private, shared, identity, Word { offset, write })
}

fn shared() -> Shared {
    Shared::new(96, Some(0)).unwrap()
}

#[test]
fn registers_of_interrupts_that_are_not_there_are_absent() {
    for (offset, there) in [
        (0x00, true),
        (0x14, false),
        (0x80, true),
        (0x88, true),
        (0x8c, false),
        (0x45c, true),
        (0x460, false),
        (0xc14, true),
        (0xc18, false),
        (0x6000, true),
        (0x62fc, true),
        (0x6300, false),
        (0xffd0, true),
        (0x81, false),
    ] {
        assert_eq!(vmm::distributor_has(96, offset), there, "{offset:#x}");
    }
    for (offset, there) in [
        (0x18, false),
        (0x70, true),
        (0x1_0080, true),
        (0x1_0084, false),
        (0x1_041c, true),
        (0x1_0420, false),
        (0x1_0e00, true),
        (0x2_0000, false),
    ] {
        assert_eq!(vmm::redistributor_has(offset), there, "{offset:#x}");
    }
}

#[test]
fn what_is_pending_is_the_latch_alone() {
    let shared = shared();
    let bank = shared.bank(1).unwrap();
    bank.edge.store(0, std::sync::atomic::Ordering::Relaxed);
    bank.set_line(3, true);
    assert_eq!(of(&shared, 0x204, None), Ok((0, Effect::Nothing)));
    let effect = Effect::Shared {
        word: 1,
        bits: 0x30,
    };
    assert_eq!(of(&shared, 0x204, Some(0x30)), Ok((0, effect)));
    assert_eq!(of(&shared, 0x204, None).unwrap().0, 0x30);
    assert_eq!(of(&shared, 0x284, Some(0x30)), Ok((0, Effect::Nothing)));
    assert_eq!(of(&shared, 0x284, None).unwrap().0, 0);
    assert_eq!(of(&shared, 0x204, Some(0x10)).unwrap().0, 0);
    assert_eq!(of(&shared, 0x204, None).unwrap().0, 0x10);
    assert_eq!(bank.pending(), 0x18);
}

#[test]
fn lines_are_told_apart_and_sgis_have_none() {
    let (shared, private) = (shared(), Private::new());
    assert_eq!(
        vmm::lines(&shared, &private, 8, None),
        Err(Refused::Invalid)
    );
    let set = |first, value| vmm::lines(&shared, &private, first, Some(value)).unwrap();
    let get = |first| vmm::lines(&shared, &private, first, None).unwrap().0;
    assert_eq!(set(0, u32::MAX), (0, Effect::Private));
    assert_eq!(get(0), 0xffff_0000);
    set(64, 5);
    assert_eq!(get(64), 0, "edges show no level");
    of(&shared, 0xc10, Some(0)).unwrap();
    assert_eq!(get(64), 5);
    assert_eq!(set(96, 5), (0, Effect::Nothing));
    assert_eq!(get(96), 0);
}

#[test]
fn a_revision_can_be_chosen_and_nothing_else_of_the_name() {
    let (shared, private) = (shared(), Private::new());
    assert_eq!(of(&shared, 8, None).unwrap().0, 0x4b00_343b);
    assert_eq!(own(&private, &shared, 0, None).unwrap().0, 6);
    assert_eq!(of(&shared, 8, Some(0x4b00_143b)), Err(Refused::Invalid));
    assert_eq!(of(&shared, 8, Some(0x4b01_243b)), Err(Refused::Invalid));
    assert!(of(&shared, 8, Some(0x4b00_243b)).is_ok());
    assert_eq!(of(&shared, 8, None).unwrap().0, 0x4b00_243b);
    assert_eq!(own(&private, &shared, 4, None).unwrap().0, 0x4b00_043b);
    assert_eq!(own(&private, &shared, 0, None).unwrap().0, 0);
}

#[test]
fn tables_are_kept_by_halves() {
    let (shared, private) = (shared(), Private::new());
    own(&private, &shared, 0x74, Some(0x12)).unwrap();
    own(&private, &shared, 0x70, Some(0x8000_0f8f)).unwrap();
    assert_eq!(own(&private, &shared, 0x70, None).unwrap().0, 0x8000_0f8f);
    assert_eq!(own(&private, &shared, 0x74, None).unwrap().0, 0x12);
    // Shareable, cached; and PTZ is not read.
    own(&private, &shared, 0x7c, Some(0x4000_0001)).unwrap();
    own(&private, &shared, 0x78, Some(0x0801_0000)).unwrap();
    assert_eq!(own(&private, &shared, 0x78, None).unwrap().0, 0x0801_0180);
    assert_eq!(own(&private, &shared, 0x7c, None).unwrap().0, 1);
}

#[test]
fn the_interface_is_saved_and_restored() {
    let register = |crm: u16, op2: u16| 3 << 14 | 12 << 7 | crm << 3 | op2;
    let pmr = 3 << 14 | 4 << 7 | 6 << 3;
    let limits = Limits {
        priority_bits: 5,
        number_bits: 1,
        others: 1 << 15,
    };
    let mut interface = CpuInterface::new(limits);
    for (name, value, kept) in [
        (pmr, 0x1f8, 0xf8),
        (register(8, 3), 10, 2),
        (register(12, 3), 5, 5),
        (register(8, 4), 1 << 40 | 7, 7),
        (register(9, 0), 9, 9),
        (register(12, 4), 0x8c02, 0x8c02),
        (register(12, 6), 3, 1),
        (register(12, 7), 2, 0),
        (register(12, 5), 1, 7),
    ] {
        assert!(CpuInterface::has(name));
        assert_eq!(interface.set(name, value), Ok(()));
        assert_eq!(interface.get(name), Ok(kept), "{name:#x}");
    }
    assert_eq!(
        interface.control,
        0xf8 << 24 | 2 << 21 | 5 << 18 | 1 << 9 | 1
    );
    // One point for both groups.
    interface.set(register(12, 4), 0x8c01).unwrap();
    interface.set(register(12, 3), 7).unwrap();
    assert_eq!(interface.get(register(12, 3)), Ok(3));
    for (name, value, error) in [
        (register(12, 4), 0x8d01, Refused::Invalid),
        (register(12, 4), 0x0c01, Refused::Invalid),
        (register(12, 4), 0x9401, Refused::Invalid),
        (register(12, 5), 6, Refused::Invalid),
        (register(8, 5), 0, Refused::Invalid),
        (register(12, 1), 0, Refused::Absent),
    ] {
        assert_eq!(interface.set(name, value), Err(error), "{name:#x}");
    }
}
