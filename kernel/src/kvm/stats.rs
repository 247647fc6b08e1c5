//! Counts of a virtual CPU's exits, by kind: for `--count`, and for KVM_GET_STATS_FD, which also
//! reports on machines.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossings::{Kind, Table};

use super::vcpu::Vcpu;
use super::vm::Machine;
use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps};
use crate::fs::io::Sink;

/// The reason for an exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum ExitKind {
    Hypercall,
    Register,
    Sgi,
    Controller,
    MmioVmm,
    WaitForInterrupt,
    WaitForEvent,
    Interrupt,
    Memory,
    Signal,
    Other,
}

/// All kinds: the kind in crossings, and the name, which is Linux's if Linux has one.
const KINDS: [(Kind, &str); 11] = [
    (Kind::GuestHvc, "hvc_exit_stat"),
    (Kind::GuestSysreg, "sysreg_exits"),
    (Kind::GuestSgi, "sgi_exits"),
    (Kind::GuestMmioKernel, "mmio_exit_kernel"),
    (Kind::GuestMmioVmm, "mmio_exit_user"),
    (Kind::GuestWfx, "wfi_exit_stat"),
    (Kind::GuestWfx, "wfe_exit_stat"),
    (Kind::GuestIrq, "irq_exits"),
    (Kind::GuestStage2, "stage2_fault_exits"),
    (Kind::GuestIrq, "signal_exits"),
    (Kind::GuestOther, "other_exits"),
];
/// The name of the sum in Linux.
const SUM: &str = "exits";

/// Counters of one virtual CPU.
#[derive(Default)]
pub struct Exits([AtomicU64; KINDS.len()]);

impl Exits {
    /// Counts an exit. Called by the virtual CPU's own thread.
    pub fn count(&self, exit: ExitKind) {
        self.count_with(cpu::this().crossings(), exit);
    }

    /// Counts an exit, also in this CPU's table of crossings, which the caller already has.
    #[inline(always)]
    pub fn count_with(&self, crossings: &Table, exit: ExitKind) {
        let counter = &self.0[exit as usize];
        counter.store(counter.load(Relaxed) + 1, Relaxed);
        crossings.add(KINDS[exit as usize].0);
    }

    /// Names and values; the sum comes last.
    fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + Clone + use<'_> {
        let values = || self.0.iter().map(|counter| counter.load(Relaxed));
        let names = KINDS.iter().map(|(_, name)| *name);
        names.zip(values()).chain([(SUM, values().sum())])
    }
}

/// The length of `struct kvm_stats_header`, and of names.
const HEADER: usize = 24;
const NAME: usize = 48;
/// The length of `struct kvm_stats_desc`, with its name.
const DESCRIPTION: usize = 16 + NAME;
/// The statistics file (Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD).
pub enum Statistics {
    /// A virtual CPU's file: the counts above and their sum.
    Vcpu(Arc<Vcpu>),
    /// A machine's file: how often its translations were flushed on all CPUs.
    Machine(Arc<Machine>),
}

impl Statistics {
    fn bytes(&self) -> Result<Vec<u8>> {
        match self {
            Statistics::Vcpu(vcpu) => bytes(b"kvm-vcpu", vcpu.exits.all()),
            Statistics::Machine(machine) => {
                let names = ["remote_tlb_flush", "remote_tlb_flush_requests"];
                let flushes = machine.memory.translation.flushes();
                bytes(b"kvm", names.map(|name| (name, flushes)).into_iter())
            }
        }
    }
}

/// The content of a file: the name of its subject, and names and values.
fn bytes(whose: &[u8], all: impl Iterator<Item = (&'static str, u64)> + Clone) -> Result<Vec<u8>> {
    let count = all.clone().count();
    let (identity, descriptions) = (HEADER, HEADER + NAME);
    let data = descriptions + count * DESCRIPTION;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(data + 8 * count)
        .map_err(|_| Errno::ENOMEM)?;
    let header = [0, NAME, count, identity, descriptions, data];
    header
        .iter()
        .for_each(|word| bytes.extend((*word as u32).to_ne_bytes()));
    let padded = |name: &[u8], len: usize, bytes: &mut Vec<u8>| {
        bytes.extend(name);
        bytes.resize(bytes.len() + len - name.len(), 0);
    };
    padded(whose, NAME, &mut bytes);
    for (at, (name, _)) in all.clone().enumerate() {
        // Cumulative and without unit; exponent 0, and one 64-bit value; its offset; no buckets.
        let words = [0, 1 << 16, 8 * at as u32, 0];
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_ne_bytes()));
        padded(name.as_bytes(), NAME, &mut bytes);
    }
    all.for_each(|(_, value)| bytes.extend(value.to_ne_bytes()));
    Ok(bytes)
}

impl FileOps for Statistics {
    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let bytes = self.bytes()?;
        let from = usize::try_from(position).map_or(bytes.len(), |at| at.min(bytes.len()));
        to.put(&bytes[from..])
    }
}
