//! Sums over CPUs, and the difference between two of them.

use core::fmt;

use zerocopy::FromZeros;

use crate::{Kind, SYSCALLS, Section, Table};

/// The sum of the tables of several CPUs at about one moment. Some 8.5 KiB: too large for a small
/// stack.
#[derive(Clone, Debug, PartialEq, Eq, FromZeros)]
pub struct Snapshot {
    syscalls: [u64; SYSCALLS],
    kinds: [u64; Kind::COUNT],
}

/// The name of a counter in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A system call, by number.
    Syscall(usize),
    /// A kind of crossing.
    Kind(Kind),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Syscall(number) => number.fmt(f),
            Name::Kind(kind) => f.pad(kind.name()),
        }
    }
}

impl Snapshot {
    /// A snapshot whose counts are all zero.
    pub const fn new() -> Self {
        Snapshot {
            syscalls: [0; SYSCALLS],
            kinds: [0; Kind::COUNT],
        }
    }

    /// The sum over `tables`.
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a Table>) -> Self {
        let mut sum = Snapshot::new();
        tables.into_iter().for_each(|table| sum.add(table));
        sum
    }

    /// Adds one CPU's counts.
    pub fn add(&mut self, table: &Table) {
        for (number, sum) in self.syscalls.iter_mut().enumerate() {
            *sum = sum.wrapping_add(table.get_syscall(number));
        }
        for (kind, sum) in Kind::ALL.iter().zip(&mut self.kinds) {
            *sum = sum.wrapping_add(table.get(*kind));
        }
        let mapped = &mut self.kinds[Kind::MappedPages as usize];
        for kind in Kind::MAPPING {
            *mapped = mapped.wrapping_add(table.get(kind));
        }
    }

    /// Subtracts the counts of `earlier`; a count that went down (another set of CPUs) gives zero.
    pub fn subtract(&mut self, earlier: &Snapshot) {
        let counts = self.syscalls.iter_mut().chain(&mut self.kinds);
        for (now, before) in counts.zip(earlier.syscalls.iter().chain(&earlier.kinds)) {
            *now = now.saturating_sub(*before);
        }
    }

    /// The count of one kind.
    pub fn get(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    /// The count of one system call, by the low 10 bits of its number.
    pub fn get_syscall(&self, number: usize) -> u64 {
        self.syscalls[number % SYSCALLS]
    }

    /// The count of all system calls together.
    pub fn syscalls(&self) -> u64 {
        self.syscalls
            .iter()
            .fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Every counter, those at zero included: system calls by number, then the kinds in their
    /// order, section by section.
    pub fn iter(&self) -> impl Iterator<Item = (Section, Name, u64)> + '_ {
        let syscalls = self.syscalls.iter().enumerate();
        let kinds = Kind::ALL.iter().zip(&self.kinds);
        syscalls
            .map(|(number, count)| (Section::Syscall, Name::Syscall(number), *count))
            .chain(kinds.map(|(kind, count)| (kind.section(), Name::Kind(*kind), *count)))
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot::new()
    }
}
