use super::NoSleep;
use super::graph;
use super::held::{Atomic, Class, why_atomic};
use crate::selftest;

selftest! {
    fn an_inverted_order_is_seen_also_by_way_of_a_third_lock() {
        let first = Class::of_caller().number();
        let second = Class::of_caller().number();
        let third = Class::of_caller().number();
        assert_eq!(graph::order(first, second), None);
        assert_eq!(graph::order(second, third), None);
        assert_eq!(graph::order(first, third), None);
        assert_eq!(graph::order(second, first), Some(first));
        assert_eq!(graph::order(third, second), Some(second));
        assert!(matches!(graph::order(third, first), Some(class) if class != third));
        // A rejected order is not recorded.
        assert_eq!(graph::order(first, second), None);
    }

    fn sleep_is_refused_under_a_spin_lock_and_a_borrow() {
        assert_eq!(why_atomic(), None);
        let class = Class::of_caller();
        let held = class.spin();
        assert_eq!(why_atomic(), Some(Atomic::Spins(class.number())));
        drop(held);
        let borrow = NoSleep::begin();
        assert_eq!(why_atomic(), Some(Atomic::Borrows));
        drop(borrow);
        assert_eq!(why_atomic(), None);
    }
}
