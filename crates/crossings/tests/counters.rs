//! Counts, reads from other threads, and snapshots.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crossings::{
    KINDS_OFFSET, Kind, Name, SYSCALLS, SYSCALLS_OFFSET, Section, Snapshot, Table, kind_offset,
};

static STATIC: Table = Table::new();

#[test]
fn counts_what_it_is_told_and_nothing_else() {
    let table = Table::new();
    table.add(Kind::FaultFileRead);
    table.add(Kind::FaultCow);
    table.add_n(Kind::MappedPages, 15);
    table.syscall(173);
    table.syscall(173 + SYSCALLS);
    let snapshot = Snapshot::of([&table]);
    let seen: Vec<_> = snapshot.iter().filter(|(.., count)| *count != 0).collect();
    let expected = [
        (Section::Syscall, Name::Syscall(173), 2),
        (Section::Fault, Name::Kind(Kind::FaultFileRead), 1),
        (Section::Fault, Name::Kind(Kind::FaultCow), 1),
        (Section::Memory, Name::Kind(Kind::MappedPages), 16),
    ];
    assert_eq!(seen, expected);
    assert_eq!(snapshot.syscalls(), 2);
}

#[test]
fn numbers_follow_the_order_and_names_are_unique() {
    let mut names = HashSet::new();
    for (number, kind) in Kind::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, number);
        assert!(
            names.insert((kind.section().name(), kind.name())),
            "{kind:?} has another's name"
        );
    }
    assert_eq!(names.len(), Kind::COUNT);
}

#[test]
fn offsets_are_where_assembly_finds_the_counters() {
    assert_eq!(SYSCALLS_OFFSET, 0);
    assert_eq!(KINDS_OFFSET, SYSCALLS * 8);
    assert_eq!(kind_offset(Kind::CallUnknown), KINDS_OFFSET);
    assert_eq!(align_of::<Table>(), 128);
    assert_eq!(size_of::<Table>() % 128, 0);
}

#[test]
fn the_difference_of_two_snapshots_saturates() {
    let table = Table::new();
    table.add(Kind::Signal);
    let mut earlier = Snapshot::of([&table]);
    table.add(Kind::Signal);
    table.syscall(64);
    let later = Snapshot::of([&table, &STATIC]);
    let mut difference = later.clone();
    difference.subtract(&earlier);
    assert_eq!(difference.get(Kind::Signal), 1);
    assert_eq!(difference.get_syscall(64), 1);
    earlier.subtract(&later);
    assert_eq!(earlier, Snapshot::new());
}

#[test]
fn a_reader_on_another_cpu_sees_counts_grow_and_misses_none_at_the_end() {
    let (tables, done) = ([Table::new(), Table::new()], AtomicBool::new(false));
    let each = if cfg!(miri) { 50 } else { 10_000 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = Snapshot::of(&tables);
            while !done.load(Ordering::Acquire) {
                let now = Snapshot::of(&tables);
                assert!(now.get(Kind::InterruptTimer) >= last.get(Kind::InterruptTimer));
                last = now;
            }
        });
        let writers = tables.each_ref().map(|table| {
            scope.spawn(move || (0..each).for_each(|_| table.add(Kind::InterruptTimer)))
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
    });
    assert_eq!(Snapshot::of(&tables).get(Kind::InterruptTimer), 2 * each);
}
