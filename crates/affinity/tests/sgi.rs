//! Writes to SGI registers.

use affinity::{Affinity, Destination, Sgi, SgiRegister, TargetList};
use proptest::prelude::*;

proptest! {
    /// Every CPU that the write names by the GIC specification's words is named by the list, and no
    /// other.
    #[test]
    fn the_list_names_whom_the_register_names(
        [aff3, aff2, aff1, range] in any::<[u8; 4]>(), members in any::<u16>(), intid in 0..16u8, cpu in 0..16u8,
        other in any::<u32>(),
    ) {
        let range = range & 15;
        let fields = [(u64::from(aff3), 48), (range.into(), 44), (aff2.into(), 32), (intid.into(), 24), (aff1.into(), 16)];
        let value = fields.into_iter().fold(u64::from(members), |value, (field, shift)| value | field << shift);
        let sgi = Sgi::decode(value);
        prop_assert_eq!(sgi.intid, intid);
        let list = TargetList::new(aff3, aff2, aff1, range, members);
        prop_assert_eq!(sgi.destination, Destination::List(list));

        let low = u64::from(aff2) << 16 | u64::from(aff1) << 8 | u64::from(range * 16 + cpu);
        let named = Affinity::from_mpidr(u64::from(aff3) << 32 | low);
        prop_assert_eq!(list.names(named), members >> cpu & 1 == 1);
        let other = Affinity::from_mpidr(u64::from(other >> 24) << 32 | u64::from(other & 0xff_ffff));
        prop_assert!(other.matches(named, 1) || !list.names(other));
    }

    #[test]
    fn the_routing_mode_wins_over_the_list(value: u64) {
        prop_assert_eq!(Sgi::decode(value | 1 << 40).destination, Destination::AllButSelf);
        prop_assert_ne!(Sgi::decode(value & !(1 << 40)).destination, Destination::AllButSelf);
    }
}

#[test]
fn group_0_registers_raise_group_0_only() {
    assert!(SgiRegister::Sgi1r.may_raise(true) && SgiRegister::Sgi1r.may_raise(false));
    for register in [SgiRegister::Sgi0r, SgiRegister::Asgi1r] {
        assert!(register.may_raise(false) && !register.may_raise(true));
    }
}
