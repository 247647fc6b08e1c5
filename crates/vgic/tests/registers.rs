//! Registers of distributor and redistributors, as a guest reads and writes them.

use std::sync::LazyLock;

use affinity::Affinity;
use vgic::redistributor::Identity;
use vgic::{Access, Effect, Private, Shared, distributor, redistributor};

fn access(offset: u32, len: u32, write: Option<u64>) -> Access {
    Access { offset, len, write }
}

fn shared() -> Shared {
    Shared::new(128, Some(0)).unwrap()
}

fn of(shared: &Shared, offset: u32, len: u32, write: Option<u64>) -> (u64, Effect) {
    let find = |affinity: Affinity| (affinity.to_mpidr() == 0x102).then_some(5);
    distributor::access(shared, &access(offset, len, write), find)
}

/// The registers that all redistributors have alike.
static SHARED: LazyLock<Shared> = LazyLock::new(shared);

fn own(private: &Private, offset: u32, len: u32, write: Option<u64>) -> (u64, Effect) {
    let identity = Identity {
        affinity: Affinity::from_mpidr(0x12_0003_0405),
        number: 9,
        last: true,
    };
    redistributor::access(private, &SHARED, identity, &access(offset, len, write))
}

#[test]
fn the_distributor_tells_what_it_is() {
    let shared = shared();
    assert_eq!(of(&shared, 0x4, 4, None).0, 9 << 19 | 3);
    assert_eq!(of(&shared, 0x8, 4, None).0, 0x4b00_343b);
    assert_eq!(of(&shared, 0xffe8, 4, None).0, 0x3b);
    assert_eq!(of(&shared, 0, 4, None).0, 0x50);
    assert_eq!(of(&shared, 0, 4, Some(2)), (0, Effect::Everyone));
    assert_eq!(of(&shared, 0, 4, Some(2)), (0, Effect::Nothing));
    assert_eq!(of(&shared, 0, 4, None).0, 0x52);
}

#[test]
fn bits_are_set_by_one_register_and_cleared_by_another() {
    let shared = shared();
    for (set, clear) in [(0x100, 0x180), (0x200, 0x280), (0x300, 0x380)] {
        let both = Effect::Shared {
            word: 2,
            bits: 0x30,
        };
        assert_eq!(of(&shared, set + 8, 4, Some(0x30)), (0, both));
        assert_eq!(of(&shared, clear + 8, 4, None).0, 0x30);
        let one = Effect::Shared {
            word: 2,
            bits: 0x10,
        };
        assert_eq!(of(&shared, clear + 8, 4, Some(0x10)), (0, one));
        assert_eq!(of(&shared, set + 8, 4, None).0, 0x20);
    }
}

#[test]
fn private_interrupts_are_not_the_distributors() {
    let shared = shared();
    for offset in [0x80, 0x100, 0x200, 0x300, 0x400, 0xc00] {
        assert_eq!(of(&shared, offset, 4, Some(u64::MAX)).1, Effect::Nothing);
        assert_eq!(of(&shared, offset, 4, None).0, 0);
    }
}

#[test]
fn interrupts_that_are_not_there_read_as_zero() {
    let shared = shared();
    for offset in [0x90, 0x110, 0x480, 0xc20, 0x6400, 0x1000, 0xfffc] {
        assert_eq!(of(&shared, offset, 4, Some(u64::MAX)).1, Effect::Nothing);
        assert_eq!(of(&shared, offset, 4, None).0, 0);
    }
}

#[test]
fn a_priority_has_five_bits_and_is_reached_by_bytes_and_words() {
    let shared = shared();
    of(&shared, 0x421, 1, Some(0xff));
    assert_eq!(of(&shared, 0x420, 4, None).0, 0xf800);
    of(&shared, 0x420, 4, Some(0x1122_3344));
    assert_eq!(of(&shared, 0x423, 1, None).0, 0x10);
    assert_eq!(of(&shared, 0x420, 2, None).0, 0);
}

#[test]
fn a_route_has_no_upper_half() {
    let shared = shared();
    let (at, effect) = (
        0x6000 + 8 * 40,
        Effect::Shared {
            word: 1,
            bits: 1 << 8,
        },
    );
    assert_eq!(of(&shared, at, 8, Some(0x102)), (0, effect));
    assert_eq!(shared.target(40), Some(5));
    // The upper half would be Aff3: no write is heeded.
    of(&shared, at + 4, 4, Some(7));
    assert_eq!(shared.target(40), Some(5));
    assert_eq!(of(&shared, at, 8, None).0, 0x102);
    assert_eq!(of(&shared, at + 4, 4, None).0, 0);
    // Those of private interrupts are reserved.
    assert_eq!(of(&shared, 0x6000 + 8 * 31, 8, Some(1)).1, Effect::Nothing);
}

#[test]
fn a_redistributor_tells_whose_it_is() {
    let private = Private::new();
    let kind = 0x1203_0405 << 32 | 9 << 8 | 1 << 4;
    assert_eq!(own(&private, 8, 8, None).0, kind);
    assert_eq!(own(&private, 8, 4, None).0, kind & 0xffff_ffff);
    assert_eq!(own(&private, 12, 4, None).0, kind >> 32);
    assert_eq!(own(&private, 0xffe8, 4, None).0, 0x3b);
}

#[test]
fn sgis_are_edges_and_enabled_from_reset_and_ppis_levels() {
    let private = Private::new();
    assert_eq!(own(&private, 0x1_0100, 4, None).0, 0xffff);
    assert_eq!(own(&private, 0x1_0c00, 4, None).0, 0xaaaa_aaaa);
    own(&private, 0x1_0c00, 4, Some(0));
    assert_eq!(own(&private, 0x1_0c00, 4, None).0, 0xaaaa_aaaa);
    own(&private, 0x1_0c04, 4, Some(0x8));
    assert_eq!(own(&private, 0x1_0c04, 4, None).0, 0);
}

#[test]
fn what_was_sent_reads_as_pending_and_stays() {
    let private = Private::new();
    private.request_refresh();
    private.send(4, true);
    assert_eq!(own(&private, 0x1_0200, 4, None).0, 1 << 4);
    // The look that was asked for is still owed.
    assert!(private.has_arrived());
    assert_eq!(own(&private, 0x1_0280, 4, Some(1 << 4)).1, Effect::Private);
    assert_eq!(own(&private, 0x1_0200, 4, None).0, 0);
}

/// No access, however strange, is out of bounds of anything.
#[test]
fn every_offset_and_length_is_answered() {
    let (shared, private) = (shared(), Private::new());
    for offset in 0..0x2_0000 {
        for len in [1, 2, 4, 8] {
            for write in [None, Some(u64::MAX)] {
                if offset < 0x1_0000 {
                    of(&shared, offset, len, write);
                }
                own(&private, offset, len, write);
            }
        }
    }
}
