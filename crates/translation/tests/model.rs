//! The decisions, tried on the model: with them nothing goes wrong, and without any part of them
//! something does.

use proptest::prelude::*;
use translation::model::{Entry, Hardware, Machine, RUN, Violation};
use translation::{Change, Debt, Invalidation, arm64};

const CPUS: usize = 3;
const PAGES: usize = 4;
const ARM64: Hardware = Hardware {
    caches_invalid: false,
    conflicts: true,
};

/// An event of a history, in numbers that proptest can shrink.
#[derive(Clone, Copy, Debug)]
struct Event {
    change: Change,
    page: usize,
    cpu: usize,
    write: bool,
    walks: u64,
}

fn event() -> impl Strategy<Value = Event> {
    let change = (0..Change::ALL.len()).prop_map(|index| Change::ALL[index]);
    (change, 0..PAGES, 0..CPUS, any::<bool>(), any::<u64>()).prop_map(
        |(change, page, cpu, write, walks)| Event {
            change,
            page,
            cpu,
            write,
            walks,
        },
    )
}

/// The entry that a change leaves, if the change is possible.
fn target(change: Change, old: Option<Entry>, write: bool, fresh: usize) -> Option<Option<Entry>> {
    match (change, old) {
        (Change::FillUser | Change::FillKernel, None) => Some(Some(Entry {
            frame: fresh,
            write,
            young: true,
            block: false,
            contiguous: false,
        })),
        (Change::Clear, Some(_)) => Some(None),
        (Change::Replace, Some(_)) => Some(Some(Entry {
            frame: fresh,
            write,
            young: true,
            block: false,
            contiguous: false,
        })),
        (Change::Protect, Some(entry)) if entry.write => Some(Some(Entry {
            write: false,
            ..entry
        })),
        (Change::Widen, Some(entry)) if !entry.write => Some(Some(Entry {
            write: true,
            ..entry
        })),
        (Change::Touch, Some(entry)) if !entry.young => Some(Some(Entry {
            young: true,
            ..entry
        })),
        (Change::Age, Some(entry)) if entry.young => Some(Some(Entry {
            young: false,
            ..entry
        })),
        (Change::UnlinkTable, entry) => Some(entry),
        _ => None,
    }
}

/// Whether a change of one page of a run may leave the run as it is.
fn of_the_run(change: Change) -> bool {
    matches!(change, Change::Touch | Change::Age)
}

/// Runs the events; `recover` is what a spurious fault forgets on its CPU.
fn run(
    hardware: Hardware,
    owes: fn(Change) -> Debt,
    recover: Invalidation,
    events: &[Event],
) -> Result<(), Violation> {
    run_with(hardware, owes, recover, of_the_run, events)
}

/// As [`run`], with a driver of its own opinion which changes may leave a run as it is.
fn run_with(
    hardware: Hardware,
    owes: fn(Change) -> Debt,
    recover: Invalidation,
    of_the_run: fn(Change) -> bool,
    events: &[Event],
) -> Result<(), Violation> {
    let mut machine = Machine::new(hardware, owes, CPUS, PAGES);
    for (fresh, event) in events.iter().enumerate() {
        let Event {
            change,
            page,
            cpu,
            write,
            mut walks,
        } = *event;
        let mut meanwhile = |machine: &mut Machine| {
            for _ in 0..3 {
                machine.walk(walks as usize % CPUS, walks as usize / CPUS % PAGES);
                if walks >> 8 & 3 == 0 {
                    machine.arrive();
                }
                walks = walks.rotate_right(7);
            }
        };
        meanwhile(&mut machine);
        let is_run = |machine: &Machine, page| {
            let entry: Option<Entry> = machine.entry(page);
            entry.is_some_and(|entry| entry.contiguous)
        };
        // Only an empty table is unlinked.
        if change == Change::UnlinkTable {
            for page in 0..PAGES {
                if is_run(&machine, page) {
                    machine.clear_run(page, &mut meanwhile);
                } else if machine.entry(page).is_some() {
                    machine.change(Change::Clear, page, None, &mut meanwhile);
                }
            }
        }
        let block = (0..PAGES).any(|page| machine.entry(page).is_some_and(|entry| entry.block));
        if change == Change::Resize {
            // Frames far from all others, half of the time those that are there.
            let frame = machine.entry(0).filter(|_| write && block);
            let frame = frame.map_or(1000 * (fresh + 1), |entry| entry.frame);
            machine.resize(frame, !block, &mut meanwhile);
        }
        // A block changes as a whole.
        if block {
            machine.access(cpu, page, write, recover);
            machine.check()?;
            continue;
        }
        let run = page - page % RUN..page - page % RUN + RUN;
        if change == Change::FillUser
            && event.walks >> 60 & 1 == 0
            && run.clone().all(|page| machine.entry(page).is_none())
        {
            machine.fill_run(page, 1000 * (fresh + 1), write, &mut meanwhile);
        }
        if is_run(&machine, page) {
            if change == Change::Clear && write {
                machine.clear_run(page, &mut meanwhile);
            } else if change == Change::Unfold
                || target(change, machine.entry(page), write, fresh).is_some()
                    && !of_the_run(change)
            {
                machine.unfold(page, &mut meanwhile);
            }
            machine.check()?;
        }
        if let Some(new) = target(change, machine.entry(page), write, fresh) {
            machine.change(change, page, new, &mut meanwhile);
            if change == Change::FillKernel {
                machine.kernel_access(cpu, page);
            }
        }
        machine.access(cpu, page, write, recover);
        machine.check()?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arm64_pays_enough(events in prop::collection::vec(event(), 1..60)) {
        prop_assert_eq!(run(ARM64, arm64, Invalidation::Nothing, &events), Ok(()));
    }
}

/// Pseudo-random events, the same ones each time.
fn events(seed: u64) -> Vec<Event> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..60)
        .map(|_| Event {
            change: Change::ALL[next() as usize % Change::ALL.len()],
            page: next() as usize % PAGES,
            cpu: next() as usize % CPUS,
            write: next() & 1 == 0,
            walks: next(),
        })
        .collect()
}

fn first_violation(owes: fn(Change) -> Debt) -> Option<Violation> {
    (1..2000).find_map(|seed| run(ARM64, owes, Invalidation::Nothing, &events(seed)).err())
}

/// A test that takes one part out of a debt, and the violation that must follow.
macro_rules! needed {
    ($($name:ident: $change:ident without $($part:ident = $value:expr),+ => $violation:ident;)*) => {$(
        #[test]
        fn $name() {
            fn owes(change: Change) -> Debt {
                match change {
                    Change::$change => Debt { $($part: $value,)+ ..arm64(change) },
                    _ => arm64(change),
                }
            }
            assert_eq!(first_violation(owes), Some(Violation::$violation));
        }
    )*};
}

needed! {
    clear_must_invalidate: Clear without invalidate = Invalidation::Nothing => Stale;
    protect_must_invalidate: Protect without invalidate = Invalidation::Nothing => Stale;
    widen_must_invalidate: Widen without invalidate = Invalidation::Nothing => Stuck;
    replace_must_break_first: Replace without break_first = false => Conflict;
    replace_must_invalidate: Replace without invalidate = Invalidation::Nothing => Stale;
    unlink_must_invalidate_all: UnlinkTable without invalidate = Invalidation::Page => FreedTable;
    resize_must_break_first: Resize without break_first = false => Conflict;
    resize_must_invalidate_all: Resize without invalidate = Invalidation::Page => FreedTable;
    unfold_must_break_first: Unfold without break_first = false => Conflict;
    unfold_must_invalidate: Unfold without invalidate = Invalidation::Nothing => Conflict;
    unfold_must_invalidate_the_run: Unfold without invalidate = Invalidation::Page => Conflict;
    kernel_fill_must_publish: FillKernel without publish = false => KernelFault;
}

/// A page of a run that changes alone is a disaster, or the CPU goes on by what the others say.
macro_rules! unfolds_first {
    ($($name:ident: $change:ident, $conflicts:literal => $violation:ident;)*) => {$(
        #[test]
        fn $name() {
            let hardware = Hardware { conflicts: $conflicts, ..ARM64 };
            let of_the_run = |change| of_the_run(change) || change == Change::$change;
            let found = (1..2000).find_map(|seed| {
                run_with(hardware, arm64, Invalidation::Nothing, of_the_run, &events(seed)).err()
            });
            assert_eq!(found, Some(Violation::$violation));
        }
    )*};
}

unfolds_first! {
    clear_of_a_page_unfolds_first: Clear, true => Torn;
    replace_of_a_page_unfolds_first: Replace, true => Torn;
    replace_of_a_page_unfolds_first_without_conflicts: Replace, false => Torn;
    protect_of_a_page_unfolds_first: Protect, true => Torn;
    widen_of_a_page_unfolds_first: Widen, true => Torn;
}

/// The same decisions on a machine that caches invalid entries: a new mapping is never seen.
#[test]
fn cached_invalid_entries_need_more() {
    let riscv = Hardware {
        caches_invalid: true,
        conflicts: false,
    };
    let found =
        (1..2000).find_map(|seed| run(riscv, arm64, Invalidation::Nothing, &events(seed)).err());
    assert!(
        matches!(found, Some(Violation::Stuck | Violation::KernelFault)),
        "{found:?}"
    );
}
