//! The decisions against a model of harts whose TLBs keep stale entries, valid and invalid ones.

use fence::{
    Asked, Batch, Change, Extent, Kernel, PAGE_SIZE, Policy, Range, Reach, Refused, Unseen, User,
    breaks_first,
};
use proptest::prelude::*;

const HARTS: usize = 3;
const PAGES: usize = 4;
/// Last-level tables, and the pages of each.
const TABLES: usize = 2;
const TABLE_PAGES: usize = PAGES / TABLES;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    frame: u8,
    write: bool,
}

/// A TLB's copy of a page's entry, invalid ones included: none, or the entry as it was walked.
type Cached = Option<Option<Entry>>;

/// A hart's copy of the entry above a table: none, or whether the table was linked.
type CachedTable = Option<bool>;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A hart changes an entry; `walks` has a bit for each hart that walks between any two steps.
    Store {
        hart: usize,
        page: usize,
        entry: Option<Entry>,
        walks: u8,
    },
    /// A hart takes a table out that holds nothing.
    Unlink { hart: usize, table: usize },
    /// A hart walks ahead of need and keeps what it finds.
    Speculate { hart: usize, page: usize },
    /// A program, or the kernel, loads or stores.
    Access {
        hart: usize,
        page: usize,
        write: bool,
    },
}

struct Machine {
    policy: Policy,
    svvptc: bool,
    kernel: bool,
    breaks_first: fn(Change) -> bool,
    table: [Option<Entry>; PAGES],
    linked: [bool; TABLES],
    caches: [[Cached; PAGES]; HARTS],
    tables: [[CachedTable; TABLES]; HARTS],
    unseen: Unseen<1>,
    /// Faults that found a sufficient entry.
    spurious: usize,
}

impl Machine {
    fn forget(&mut self, hart: usize, extent: Extent<'_>) {
        match extent {
            Extent::Everything => {
                self.caches[hart] = [None; PAGES];
                self.tables[hart] = [None; TABLES];
            }
            Extent::Pages(ranges) => {
                for address in ranges.iter().flat_map(|range| range.addresses()) {
                    self.caches[hart][address / PAGE_SIZE] = None;
                }
            }
        }
    }

    fn pay(&mut self, hart: usize, batch: &Batch) {
        let Some(fence) = batch.owed() else { return };
        match fence.reach {
            Reach::Nobody => unreachable!("nothing is owed by nobody"),
            Reach::OnTrap => self.unseen.mark(HARTS),
            Reach::Local => self.forget(hart, fence.extent),
            Reach::Everywhere => (0..HARTS).for_each(|hart| self.forget(hart, fence.extent)),
        }
    }

    fn reach(&self, change: Change) -> Reach {
        if self.kernel {
            self.policy.kernel(change)
        } else {
            self.policy.user(change)
        }
    }

    /// What a hart finds for a page: where it holds copies, those.
    fn walk(&mut self, hart: usize, page: usize) -> Option<Entry> {
        let table = page / TABLE_PAGES;
        // A copy of the last entry needs none of those above.
        if let Some(seen) = self.caches[hart][page] {
            return seen;
        }
        if !*self.tables[hart][table].get_or_insert(self.linked[table]) {
            return None;
        }
        *self.caches[hart][page].insert(self.table[page])
    }

    fn unlink(&mut self, hart: usize, table: usize) {
        let pages = table * TABLE_PAGES..(table + 1) * TABLE_PAGES;
        if !self.linked[table] || self.table[pages].iter().any(|entry| entry.is_some()) {
            return;
        }
        self.linked[table] = false;
        let mut batch = Batch::new();
        let change = Change::UnlinkTable;
        batch.add(change, self.reach(change), table_range(table));
        self.pay(hart, &batch);
    }

    /// Harts walk while an entry changes. No two may use different frames for the page: what one
    /// writes to it, the other must read.
    fn meanwhile(&mut self, walks: u8, page: usize) {
        for hart in (0..HARTS).filter(|hart| walks >> hart & 1 == 1) {
            self.walk(hart, page);
        }
        let held = self.caches.iter().filter_map(|cache| cache[page].flatten());
        let mut frames = held.map(|entry| entry.frame);
        let first = frames.next();
        assert!(
            frames.all(|frame| Some(frame) == first),
            "harts use two frames"
        );
    }

    /// An entry is stored, in a new table where there is none; one payment is for both.
    fn store(&mut self, hart: usize, page: usize, entry: Option<Entry>, walks: u8) {
        let change = match (self.table[page], entry) {
            (old, new) if old == new => return,
            (None, Some(_)) if self.kernel => Change::FillKernel,
            (None, _) => Change::FillUser,
            (Some(_), None) => Change::Clear,
            (Some(old), Some(new)) if old.frame != new.frame => Change::Replace,
            (Some(old), Some(_)) if old.write => Change::Protect,
            (Some(_), Some(_)) => Change::Widen,
        };
        let mut batch = Batch::new();
        let table = page / TABLE_PAGES;
        if !self.linked[table] {
            self.linked[table] = true;
            let change = Change::LinkTable;
            batch.add(change, self.reach(change), table_range(table));
        }
        let breaks = (self.breaks_first)(change);
        self.table[page] = entry.filter(|_| !breaks);
        self.meanwhile(walks, page);
        let range = Range {
            start: page * PAGE_SIZE,
            pages: 1,
        };
        batch.add(change, self.reach(change), range);
        self.pay(hart, &batch);
        self.meanwhile(walks, page);
        if breaks && self.kernel {
            self.store(hart, page, entry, walks);
        } else if breaks {
            // Not paid for: a fault recovers.
            self.table[page] = entry;
            self.meanwhile(walks, page);
        }
    }

    /// One access, faults and retries included.
    fn access(&mut self, hart: usize, page: usize, write: bool) {
        let sufficient = |entry: Option<Entry>| entry.filter(|entry| entry.write || !write);
        for _ in 0..3 {
            let seen = self.walk(hart, page);
            if let Some(entry) = sufficient(seen) {
                assert_eq!(
                    self.table[page].map(|entry| entry.frame),
                    Some(entry.frame),
                    "a stale frame was used"
                );
                return;
            }
            if self.svvptc && seen.is_none() {
                // The store becomes visible in bounded time: by the time that a trap is over, says
                // the model.
                self.caches[hart][page] = None;
                self.tables[hart][page / TABLE_PAGES] = None;
            }
            if self.kernel && self.unseen.take(hart) {
                self.forget(hart, Extent::Everything);
            } else if sufficient(self.table[page]).is_none() {
                return; // a true fault
            } else if !self.kernel && self.policy.spurious() == Reach::Local {
                // The stale one may be that of the table.
                self.forget(hart, Extent::Everything);
            }
            self.spurious += 1;
        }
        panic!("the fault repeats for ever");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Store {
                hart,
                page,
                entry,
                walks,
            } => self.store(hart, page, entry, walks),
            Step::Unlink { hart, table } => self.unlink(hart, table),
            Step::Speculate { hart, page } => {
                self.walk(hart, page);
            }
            Step::Access { hart, page, write } => self.access(hart, page, write),
        }
        for tables in &self.tables {
            for (cached, linked) in tables.iter().zip(self.linked) {
                assert!(linked || *cached != Some(true), "a table may be freed");
            }
        }
        for cached in self
            .caches
            .iter()
            .flat_map(|cache| cache.iter().zip(&self.table))
        {
            if let (Some(Some(cached)), entry) = cached {
                let allowed = entry.is_some_and(|entry| {
                    entry.frame == cached.frame && entry.write >= cached.write
                });
                assert!(
                    allowed,
                    "a hart may still use {cached:?}, the entry is {entry:?}"
                );
            }
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let entry = proptest::option::of(
        (0..2u8, any::<bool>()).prop_map(|(frame, write)| Entry { frame, write }),
    );
    prop_oneof![
        (0..HARTS, 0..PAGES, entry, any::<u8>()).prop_map(|(hart, page, entry, walks)| {
            Step::Store {
                hart,
                page,
                entry,
                walks,
            }
        }),
        (0..HARTS, 0..TABLES).prop_map(|(hart, table)| Step::Unlink { hart, table }),
        (0..HARTS, 0..PAGES).prop_map(|(hart, page)| Step::Speculate { hart, page }),
        (0..HARTS, 0..PAGES, any::<bool>()).prop_map(|(hart, page, write)| Step::Access {
            hart,
            page,
            write
        }),
    ]
}

fn table_range(table: usize) -> Range {
    Range {
        start: table * TABLE_PAGES * PAGE_SIZE,
        pages: TABLE_PAGES,
    }
}

fn machine(kernel: bool, svvptc: bool, policy: Policy) -> Machine {
    Machine {
        policy,
        svvptc,
        kernel,
        breaks_first,
        table: [None; PAGES],
        linked: [false; TABLES],
        caches: [[None; PAGES]; HARTS],
        tables: [[None; TABLES]; HARTS],
        unseen: Unseen::new(),
        spurious: 0,
    }
}

fn run(kernel: bool, svvptc: bool, policy: Policy, steps: &[Step]) {
    let mut machine = machine(kernel, svvptc, policy);
    steps.iter().for_each(|step| machine.step(*step));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 4096 }, ..ProptestConfig::default() })]

    #[test]
    fn programs_never_use_stale_entries_and_always_get_on(svvptc: bool, steps in proptest::collection::vec(any_step(), 0..60)) {
        let user = Asked::Auto.resolve(svvptc, false).unwrap();
        run(false, svvptc, Policy { kernel: Kernel::Lazy, user }, &steps);
        run(false, svvptc, Policy { kernel: Kernel::Lazy, user: User::Preventive }, &steps);
    }

    #[test]
    fn the_kernel_never_uses_stale_entries_and_always_gets_on(svvptc: bool, steps in proptest::collection::vec(any_step(), 0..60)) {
        for kernel in [Kernel::Lazy, Kernel::Preventive] {
            run(true, svvptc, Policy { kernel, user: User::Preventive }, &steps);
        }
    }
}

/// A hart that kept the invalid entry above a page sees the table that its fault made at once. A
/// fence of the page alone would leave it a second fault.
#[test]
fn a_new_table_is_paid_for_with_its_page() {
    let policy = Policy {
        kernel: Kernel::Lazy,
        user: User::Preventive,
    };
    let entry = Entry {
        frame: 1,
        write: true,
    };
    let (hart, page, write) = (0, 0, true);
    for with_table in [true, false] {
        let mut machine = machine(false, false, policy);
        machine.step(Step::Speculate { hart, page });
        machine.linked[0] = !with_table;
        let entry = Some(entry);
        let walks = 0;
        machine.step(Step::Store {
            hart,
            page,
            entry,
            walks,
        });
        machine.step(Step::Access { hart, page, write });
        assert_eq!(machine.spurious, usize::from(!with_table));
    }
}

/// Copy on write: one hart changes the frame, another holds the old one, and a third walks before
/// that one has fenced.
fn copy_on_write(breaks_first: fn(Change) -> bool) {
    let policy = Policy {
        kernel: Kernel::Lazy,
        user: User::Svvptc,
    };
    let mut machine = machine(false, true, policy);
    machine.breaks_first = breaks_first;
    let [writer, reader, third] = [0, 1, 2];
    let page = 0;
    for (frame, walks) in [(0, 0), (1, 1 << third)] {
        let entry = Some(Entry { frame, write: true });
        machine.step(Step::Store {
            hart: writer,
            page,
            entry,
            walks,
        });
        machine.step(Step::Access {
            hart: reader,
            page,
            write: false,
        });
    }
}

#[test]
fn copy_on_write_breaks_first() {
    copy_on_write(breaks_first);
}

#[test]
#[should_panic(expected = "harts use two frames")]
fn copy_on_write_must_break_first() {
    copy_on_write(|_| false);
}

#[test]
fn svvptc_must_be_there_to_be_asked_for() {
    let (yes, no) = (User::Svvptc, User::Preventive);
    assert_eq!(
        [true, false].map(|svvptc| Asked::Auto.resolve(svvptc, false)),
        [Ok(yes), Ok(no)]
    );
    assert_eq!(
        [true, false].map(|svvptc| Asked::This(yes).resolve(svvptc, false)),
        [Ok(yes), Err(Refused)]
    );
    assert_eq!(
        [true, false].map(|svvptc| Asked::This(yes).resolve(svvptc, true)),
        [Ok(yes); 2]
    );
    assert_eq!(
        [true, false].map(|svvptc| Asked::This(no).resolve(svvptc, true)),
        [Ok(no); 2]
    );
}

/// Each policy spares the fences that it names, and no others.
#[test]
fn policies_differ_in_what_becomes_valid_and_in_who_sees_it() {
    let new = [Change::FillUser, Change::FillKernel, Change::LinkTable];
    let wider = [Change::Widen, Change::Touch];
    for change in Change::ALL {
        let policy = |kernel, user| Policy { kernel, user };
        let lazy = policy(Kernel::Lazy, User::Svvptc);
        let preventive = policy(Kernel::Preventive, User::Preventive);
        let expected = match change {
            change if new.contains(&change) => [
                Reach::OnTrap,
                Reach::Everywhere,
                Reach::Nobody,
                Reach::Local,
            ],
            change if wider.contains(&change) => [
                Reach::Everywhere,
                Reach::Everywhere,
                Reach::Everywhere,
                Reach::Local,
            ],
            // A page that still looks young to someone only looks younger than it is.
            Change::Age => [
                Reach::Everywhere,
                Reach::Everywhere,
                Reach::Nobody,
                Reach::Nobody,
            ],
            _ => [Reach::Everywhere; 4],
        };
        let decided = [
            lazy.kernel(change),
            preventive.kernel(change),
            lazy.user(change),
            preventive.user(change),
        ];
        assert_eq!(decided, expected, "{change:?}");
    }
}
