//! Debts as values: none gets lost.

use translation::Change;
use translation::owed::{Clear, Debts, FillUser, Owed, Protect, UnlinkTable};

#[test]
fn a_debt_has_no_size() {
    assert_eq!(size_of::<Owed<Clear>>(), 0);
    assert_eq!(size_of::<Option<Owed<Clear>>>(), size_of::<bool>());
}

#[test]
fn what_pays_knows_the_change() {
    let mut owed = Owed::<Protect>::new();
    owed.join(Owed::new());
    assert_eq!(owed.pay(), Change::Protect);
    let tables = Owed::<UnlinkTable>::new().with_pages(Owed::new());
    assert_eq!(tables.pay(), Change::UnlinkTable);
    Owed::<FillUser>::new().leave_to_fault();
    Owed::<Clear>::new().held_by_nobody();
}

#[test]
fn some_become_one() {
    let mut owed = None;
    Owed::<Protect>::new().join_to(&mut owed);
    Owed::<Protect>::new().join_to(&mut owed);
    assert_eq!(owed.map(Owed::pay), Some(Change::Protect));
}

#[test]
fn debts_of_a_span() {
    let mut debts = Debts::<Clear>::new();
    assert!(debts.is_empty() && debts.take().is_none());
    debts.add(0x5000..0x6000, Owed::new());
    debts.add(0x2000..0x3000, Owed::new());
    assert!(!debts.is_empty());
    let (span, owed) = debts.take().expect("two debts");
    assert_eq!((span, owed.pay()), (0x2000..0x6000, Change::Clear));
    assert!(debts.is_empty());
}

#[test]
#[should_panic(expected = "Clear was not paid for")]
fn an_unpaid_debt_is_noticed() {
    drop(Owed::<Clear>::new());
}

#[test]
#[should_panic(expected = "Protect was not paid for")]
fn an_unpaid_span_is_noticed() {
    let mut debts = Debts::<Protect>::new();
    debts.add(0..0x1000, Owed::new());
}
