//! The table against the standard library's, and the work that one call does.

use std::cell::Cell;
use std::collections::HashMap as Model;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use hash_table::HashMap;
use proptest::prelude::*;

type Table<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

fn table<K, V>() -> Table<K, V> {
    HashMap::with_hasher(BuildHasherDefault::new())
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u32),
    GetOrInsert(u16, u32),
    Remove(u16),
    Change(u16, u32),
    Reserve(usize),
    Sweep(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..600u16, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        3 => (0..600u16, any::<u32>()).prop_map(|(key, value)| Step::GetOrInsert(key, value)),
        4 => (0..600u16).prop_map(Step::Remove),
        2 => (0..600u16, any::<u32>()).prop_map(|(key, value)| Step::Change(key, value)),
        1 => (0..900usize).prop_map(Step::Reserve),
        1 => (2..9u16).prop_map(Step::Sweep),
    ];
    prop::collection::vec(step, 0..1500)
}

proptest! {
    #[test]
    fn it_is_as_the_standard_librarys(steps in steps()) {
        let (mut table, mut model) = (table(), Model::new());
        let mut at = 0;
        for step in steps {
            match step {
                Step::Insert(key, value) => {
                    table.try_reserve(1).unwrap();
                    prop_assert_eq!(table.insert(key, value), model.insert(key, value));
                }
                Step::GetOrInsert(key, value) => {
                    table.try_reserve(1).unwrap();
                    let known = *model.entry(key).or_insert(value);
                    prop_assert_eq!(*table.get_or_insert_with(key, || value), known);
                }
                Step::Remove(key) => prop_assert_eq!(table.remove(&key), model.remove(&key)),
                Step::Change(key, value) => {
                    let known = table.get_mut(&key).map(|known| *known = value);
                    prop_assert_eq!(known, model.get_mut(&key).map(|known| *known = value));
                }
                Step::Reserve(more) => table.try_reserve(more).unwrap(),
                Step::Sweep(by) => {
                    let keep = |key: &u16, _: &u32| key % by != 1;
                    let all = table.len();
                    at = table.retain_from(at, keep);
                    prop_assert!(table.len() <= all);
                    model.retain(|key, _| table.contains_key(key) || keep(key, &0));
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
        for (key, value) in &model {
            prop_assert_eq!(table.get(key), Some(value));
        }
        let mut all: Vec<_> = table.iter().map(|(key, value)| (*key, *value)).collect();
        let mut known: Vec<_> = model.into_iter().collect();
        all.sort();
        known.sort();
        prop_assert_eq!(&all, &known);
        let mut taken: Vec<_> = table.into_iter().collect();
        taken.sort();
        prop_assert_eq!(taken, known);
    }
}

thread_local!(static HASHED: Cell<usize> = const { Cell::new(0) });

/// A key that counts how often it is hashed.
#[derive(PartialEq, Eq)]
struct Counted(usize);

impl Hash for Counted {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        HASHED.set(HASHED.get() + 1);
        self.0.hash(hasher);
    }
}

#[test]
fn no_insertion_moves_many() {
    let mut table = table();
    let mut most = 0;
    for number in 0..200_000 {
        HASHED.set(0);
        table.try_reserve(1).unwrap();
        table.insert(Counted(number), ());
        // Some come and go, as names do.
        if number % 3 == 0 {
            table.remove(&Counted(number / 2));
        }
        most = most.max(HASHED.get());
    }
    assert!(most < 150, "{most} members were hashed for one");
}

#[test]
fn one_that_stays_as_large_moves_few_either() {
    let mut table = table();
    for number in 0..300_000_usize {
        HASHED.set(0);
        table.try_reserve(1).unwrap();
        table.insert(Counted(number), ());
        if number >= 20_000 {
            table.remove(&Counted(number - 20_000)).unwrap();
        }
        assert!(HASHED.get() < 150);
    }
    assert_eq!(table.len(), 20_000);
}

#[test]
fn a_sweep_comes_to_all() {
    let mut table = table();
    table.try_reserve(1000).unwrap();
    for number in 0..1000 {
        table.insert(number, ());
    }
    let mut at = 0;
    for _ in 0..2048 / 32 {
        at = table.retain_from(at, |number, ()| number % 2 == 0);
    }
    assert_eq!(table.len(), 500);
}
