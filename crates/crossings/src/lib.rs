//! Counters of privilege-boundary crossings: kinds, per-CPU storage, snapshots.
//!
//! Every crossing is counted where it happens, in a [`Table`] that belongs to one CPU. Only that
//! CPU writes it, so a count is a load, an add and a store, without an atomic read-modify-write and
//! without a cache line that another CPU uses. Other CPUs read it on request: a [`Snapshot`] is the
//! sum over all CPUs, and the difference of two snapshots is what happened in between.
//!
//! A count is exact if it is made with interrupts masked, or if no interrupt handler counts the
//! same [`Kind`]: a count by a handler that runs between the load and the store would be lost.
#![no_std]
#![forbid(unsafe_code)]

mod kind;
mod snapshot;
mod table;

pub use kind::{Kind, Section};
pub use snapshot::{Name, Snapshot};
pub use table::{KINDS_OFFSET, SYSCALLS, SYSCALLS_OFFSET, Table, kind_offset};
