//! A machine with the laziest translation caches that the manuals allow: a CPU keeps every cached
//! translation until it is made to forget it, it may cache one at any moment, and table walks see a
//! store as late as possible.
//!
//! It has one address space of a few pages below one table. The driver ([`Machine::change`]) makes
//! changes as the kernel does and pays what the decisions under test require; [`Machine::check`]
//! says what went wrong.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Change, Debt, Invalidation};

/// Pages of a run.
pub const RUN: usize = 2;

/// The content of a last-level entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The frame.
    pub frame: usize,
    /// Whether stores are allowed.
    pub write: bool,
    /// The Access flag.
    pub young: bool,
    /// Whether the entry is a block's, which then all pages of the table are.
    pub block: bool,
    /// Whether the entry is one of a run of contiguous pages (arm64's Contiguous bit, RISC-V's
    /// Svnapot), which then all entries of the run are. It tells what the others say.
    pub contiguous: bool,
}

impl Entry {
    /// What a CPU that reads this entry for `page` may cache for `other`, a page of the same run.
    fn tells(self, page: usize, other: usize) -> Entry {
        Entry {
            frame: self.frame + other % RUN - page % RUN,
            ..self
        }
    }
}

/// The pages of the run around a page.
fn run_of(page: usize) -> core::ops::Range<usize> {
    let start = page - page % RUN;
    start..start + RUN
}

/// How a machine caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// Invalid entries too may be cached (RISC-V without Svvptc).
    pub caches_invalid: bool,
    /// Two different cached frames for a page, or sizes, are a disaster (arm64's TLB conflict). A
    /// run has a size of its own.
    pub conflicts: bool,
}

/// An error of the decisions under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A CPU holds a translation that the table no longer grants, though the debt is paid.
    Stale,
    /// A CPU holds two frames for a page at once, or a page and a block.
    Conflict,
    /// The entries of a run do not tell the same.
    Torn,
    /// A CPU still knows a table that was freed.
    FreedTable,
    /// An access that the table grants keeps faulting.
    Stuck,
    /// The kernel faulted on a mapping of its own.
    KernelFault,
}

/// The cached entries of one CPU.
#[derive(Clone, Debug, Default)]
struct Cpu {
    /// For each page all that was cached and not forgotten; `None` in it is a cached invalid entry.
    pages: Vec<Vec<Option<Entry>>>,
    /// The table that intermediate caches name.
    table: Option<usize>,
}

/// The machine.
pub struct Machine {
    hardware: Hardware,
    owes: fn(Change) -> Debt,
    /// The entries as stored, and as table walks see them until the stores arrive.
    stored: Vec<Option<Entry>>,
    walked: Vec<Option<Entry>>,
    /// The number of the table that is linked; counts up as tables are freed and made anew.
    table: usize,
    cpus: Vec<Cpu>,
    violation: Option<Violation>,
}

impl Machine {
    /// A machine of `cpus` CPUs and `pages` pages, whose driver pays the debts that `owes` says.
    pub fn new(hardware: Hardware, owes: fn(Change) -> Debt, cpus: usize, pages: usize) -> Self {
        let cpu = Cpu {
            pages: vec![Vec::new(); pages],
            table: None,
        };
        Machine {
            hardware,
            owes,
            stored: vec![None; pages],
            walked: vec![None; pages],
            table: 0,
            cpus: vec![cpu; cpus],
            violation: None,
        }
    }

    /// The table's entry of a page.
    pub fn entry(&self, page: usize) -> Option<Entry> {
        self.stored[page]
    }

    /// The first thing that went wrong.
    pub fn check(&self) -> Result<(), Violation> {
        self.violation.map_or(Ok(()), Err)
    }

    fn fail(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// A CPU walks the table for a page, asked for or not, and caches the result.
    pub fn walk(&mut self, cpu: usize, page: usize) {
        let found = self.walked[page];
        let cacheable = match found {
            Some(entry) => entry.young,
            None => self.hardware.caches_invalid,
        };
        let table = self.cpus[cpu].table.unwrap_or(self.table);
        self.cpus[cpu].table = Some(table);
        if !cacheable {
            return;
        }
        match found {
            Some(entry) if entry.contiguous => {
                run_of(page).for_each(|other| self.hold(cpu, other, Some(entry.tells(page, other))))
            }
            found => self.hold(cpu, page, found),
        }
    }

    /// A CPU caches what it found for a page.
    fn hold(&mut self, cpu: usize, page: usize, found: Option<Entry>) {
        let held = &mut self.cpus[cpu].pages[page];
        if held.contains(&found) {
            return;
        }
        held.push(found);
        let mut frames = held
            .iter()
            .flatten()
            .map(|entry| (entry.frame, entry.block, entry.contiguous));
        let first = frames.next();
        if self.hardware.conflicts && frames.any(|frame| Some(frame) != first) {
            self.fail(Violation::Conflict);
        }
    }

    /// All stores become visible to table walks.
    pub fn arrive(&mut self) {
        self.walked.clone_from(&self.stored);
    }

    /// Stores an entry; table walks may or may not see it yet.
    fn store(&mut self, page: usize, entry: Option<Entry>) {
        self.stored[page] = entry;
    }

    fn invalidate(&mut self, what: Invalidation, page: usize) {
        if what == Invalidation::Nothing {
            return;
        }
        // Forgetting is ordered after the store: a walk that follows sees it.
        self.arrive();
        for cpu in &mut self.cpus {
            match what {
                Invalidation::Page => cpu.pages[page].clear(),
                Invalidation::Run => run_of(page).for_each(|page| cpu.pages[page].clear()),
                _ => {
                    cpu.pages.iter_mut().for_each(Vec::clear);
                    cpu.table = None;
                }
            }
        }
    }

    /// Makes a block of all pages, or pages of it, their frames consecutive from `frame` on.
    pub fn resize(&mut self, frame: usize, block: bool, meanwhile: &mut dyn FnMut(&mut Self)) {
        let debt = (self.owes)(Change::Resize);
        let whole = |page| {
            Some(Entry {
                frame: frame + page,
                write: true,
                young: true,
                block,
                contiguous: false,
            })
        };
        let pages = self.stored.len();
        // The old table is out of the tree with the first store, or the new one is in it.
        self.table += 1;
        if debt.break_first {
            (0..pages).for_each(|page| self.store(page, None));
            meanwhile(self);
            self.invalidate(debt.invalidate, 0);
            meanwhile(self);
        }
        (0..pages).for_each(|page| self.store(page, whole(page)));
        meanwhile(self);
        if !debt.break_first {
            self.invalidate(debt.invalidate, 0);
        }
        (0..pages).for_each(|page| self.check_paid(page));
    }

    /// Fills a run whose pages have no entries, their frames consecutive from `frame` on, while
    /// other CPUs see some of the entries and not yet others.
    pub fn fill_run(
        &mut self,
        page: usize,
        frame: usize,
        write: bool,
        meanwhile: &mut dyn FnMut(&mut Self),
    ) {
        for page in run_of(page) {
            let entry = Entry {
                frame: frame + page % RUN,
                write,
                // As where the hardware sets the flag: one entry of the run may have it alone.
                young: page % RUN == 0,
                block: false,
                contiguous: true,
            };
            self.store(page, Some(entry));
            meanwhile(self);
        }
        run_of(page).for_each(|page| self.check_paid(page));
    }

    /// Makes entries of their own of those of the run around a page.
    pub fn unfold(&mut self, page: usize, meanwhile: &mut dyn FnMut(&mut Self)) {
        let debt = (self.owes)(Change::Unfold);
        let old = run_of(page).map(|page| self.stored[page]);
        let old: Vec<_> = old.map(|entry| entry.expect("a run is whole")).collect();
        let young = old.iter().any(|entry| entry.young);
        if debt.break_first {
            for page in run_of(page) {
                self.store(page, None);
                meanwhile(self);
            }
            self.invalidate(debt.invalidate, page);
            meanwhile(self);
        }
        for (page, entry) in run_of(page).zip(old) {
            let alone = Entry {
                young,
                contiguous: false,
                ..entry
            };
            self.store(page, Some(alone));
            meanwhile(self);
        }
        if !debt.break_first {
            self.invalidate(debt.invalidate, page);
        }
        run_of(page).for_each(|page| self.check_paid(page));
    }

    /// Empties all entries of the run around a page: no unfolding is needed, and one payment is for
    /// all of them.
    pub fn clear_run(&mut self, page: usize, meanwhile: &mut dyn FnMut(&mut Self)) {
        let debt = (self.owes)(Change::Clear);
        for page in run_of(page) {
            self.store(page, None);
            meanwhile(self);
        }
        run_of(page).for_each(|page| self.invalidate(debt.invalidate, page));
        run_of(page).for_each(|page| self.check_paid(page));
    }

    /// Makes a change as the kernel does, with `meanwhile` (the actions of other CPUs) between any
    /// two steps.
    pub fn change(
        &mut self,
        change: Change,
        page: usize,
        new: Option<Entry>,
        meanwhile: &mut dyn FnMut(&mut Self),
    ) {
        let debt = (self.owes)(change);
        if debt.break_first {
            self.store(page, None);
            meanwhile(self);
            self.invalidate(debt.invalidate, page);
            meanwhile(self);
        }
        match change {
            Change::UnlinkTable => self.table += 1,
            Change::LinkTable => {}
            _ => self.store(page, new),
        }
        meanwhile(self);
        if debt.publish {
            self.arrive();
        }
        if !debt.break_first {
            self.invalidate(debt.invalidate, page);
        }
        self.check_paid(page);
    }

    /// Whether the table grants what a CPU holds for a page.
    fn grants(&self, page: usize, held: Entry) -> bool {
        self.stored[page]
            .is_some_and(|entry| entry.frame == held.frame && (entry.write || !held.write))
    }

    /// Whether an entry of the run tells of a page, at any time from now on, what the table does
    /// not grant.
    fn is_torn(&self, page: usize) -> bool {
        run_of(page).any(|other| {
            self.walked[other].is_some_and(|entry| {
                entry.contiguous && !self.grants(page, entry.tells(other, page))
            })
        })
    }

    /// Checks the conditions that must hold once the debt of a change is paid.
    fn check_paid(&mut self, page: usize) {
        let held = self
            .cpus
            .iter()
            .flat_map(|cpu| cpu.pages[page].iter().flatten());
        // Walks in flight may still complete, and their result be cached.
        let seen = self.walked[page];
        if held.chain(&seen).any(|&entry| !self.grants(page, entry)) {
            self.fail(Violation::Stale);
        }
        if run_of(page).any(|page| self.is_torn(page)) {
            self.fail(Violation::Torn);
        }
        let current = self.table;
        if self
            .cpus
            .iter()
            .any(|cpu| cpu.table.is_some_and(|table| table != current))
        {
            self.fail(Violation::FreedTable);
        }
    }

    /// A program's access, which the kernel tries again after each fault that finds the entry
    /// sufficient; the store that a fault found has arrived by the time it returns. `recover` is
    /// the invalidation by the kernel after such a fault, on this CPU.
    pub fn access(&mut self, cpu: usize, page: usize, write: bool, recover: Invalidation) {
        let granted = self.stored[page].is_some_and(|entry| entry.young && (entry.write || !write));
        if !granted {
            return;
        }
        for _ in 0..3 {
            if self.allowed(cpu, page, write) {
                return;
            }
            self.arrive();
            if recover != Invalidation::Nothing {
                self.cpus[cpu].pages[page].clear();
            }
        }
        self.fail(Violation::Stuck);
    }

    /// The kernel's access to a mapping of its own right after it made it.
    pub fn kernel_access(&mut self, cpu: usize, page: usize) {
        if self.stored[page].is_some() && !self.allowed(cpu, page, false) {
            self.fail(Violation::KernelFault);
        }
    }

    /// Whether an access succeeds; of the cached entries, the worst decides.
    fn allowed(&mut self, cpu: usize, page: usize, write: bool) -> bool {
        if self.cpus[cpu].pages[page].is_empty() {
            self.walk(cpu, page);
        }
        let held = &self.cpus[cpu].pages[page];
        !held.is_empty()
            && held
                .iter()
                .all(|entry| entry.is_some_and(|entry| entry.write || !write))
    }
}
