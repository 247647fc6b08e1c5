//! The index: one look-up, whatever the size of the VM.
//!
//! vCPUs are kept in rows of sixteen, which one target list can address together. A row is found by
//! the upper 28 bits of its affinity ([`Finder`]). It stores them too, so that a row found by fewer
//! bits is not mistaken for another.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::find::Finder;
use crate::{Affinity, TargetList};

/// A vCPU's index in the VM's table (its place).
pub type Vcpu = u16;

/// There was not enough memory for the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> NoMemory {
        NoMemory
    }
}

/// Sixteen affinities that differ only in their low four bits, and the vCPUs with them.
#[derive(Debug)]
struct Row {
    group: u32,
    present: u16,
    vcpus: [Vcpu; 16],
}

/// The vCPUs by affinity. An index never changes: when vCPUs change, a new one is built and
/// [published](crate::Publication).
#[derive(Debug)]
pub struct Index {
    finder: Finder,
    rows: Vec<Row>,
}

impl Index {
    /// Builds an index of `vcpus`, the affinities of a VM's vCPUs in table order. If several have
    /// the same affinity, the first is found.
    ///
    /// `seed` should be random: the VMM, which chooses the affinities, must not be able to predict
    /// how sparse ones are hashed. The index takes memory in proportion to the number of vCPUs, 40
    /// KiB for 512 unless they are sparse.
    pub fn new(vcpus: &[Affinity], seed: u64) -> Result<Index, NoMemory> {
        let mut sorted = Vec::new();
        sorted.try_reserve_exact(vcpus.len())?;
        sorted.extend(
            vcpus
                .iter()
                .enumerate()
                .map(|(place, affinity)| (*affinity, place as Vcpu)),
        );
        heapsort::sort(&mut sorted);
        sorted.dedup_by_key(|(affinity, _)| *affinity);

        let mut rows: Vec<Row> = Vec::new();
        rows.try_reserve_exact(sorted.chunk_by(|a, b| a.0.group() == b.0.group()).count())?;
        for (affinity, vcpu) in sorted {
            if rows.last().is_none_or(|row| row.group != affinity.group()) {
                rows.push(Row {
                    group: affinity.group(),
                    present: 0,
                    vcpus: [0; 16],
                });
            }
            if let Some(row) = rows.last_mut() {
                row.present |= 1 << affinity.member();
                row.vcpus[affinity.member() as usize] = vcpu;
            }
        }
        let finder = Finder::new(rows.len(), |row| rows[row].group, seed)?;
        Ok(Index { finder, rows })
    }

    /// The vCPU with the affinity `cpu`.
    #[inline]
    pub fn get(&self, cpu: Affinity) -> Option<Vcpu> {
        self.row(cpu.group())
            .filter(|row| row.present >> cpu.member() & 1 == 1)
            .map(|row| row.vcpus[cpu.member() as usize])
    }

    /// The vCPUs that `list` names, in the order of the list; absent CPUs are skipped.
    #[inline]
    pub fn targets(&self, list: TargetList) -> Targets<'_> {
        static NOBODY: [Vcpu; 16] = [0; 16];
        match self.row(list.group()) {
            Some(row) => Targets {
                vcpus: &row.vcpus,
                left: list.members() & row.present,
            },
            None => Targets {
                vcpus: &NOBODY,
                left: 0,
            },
        }
    }

    #[inline]
    fn row(&self, group: u32) -> Option<&Row> {
        self.rows
            .get(self.finder.find(group))
            .filter(|row| row.group == group)
    }
}

/// The vCPUs that a target list names.
#[derive(Clone, Debug)]
pub struct Targets<'a> {
    vcpus: &'a [Vcpu; 16],
    left: u16,
}

impl Iterator for Targets<'_> {
    type Item = Vcpu;

    #[inline]
    fn next(&mut self) -> Option<Vcpu> {
        if self.left == 0 {
            return None;
        }
        let member = self.left.trailing_zeros();
        self.left &= self.left - 1;
        Some(self.vcpus[member as usize % 16])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.left.count_ones() as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Targets<'_> {}
