//! When a RISC-V translation fence (`sfence.vma`) is owed, by whom, and how fences are batched.
//!
//! RISC-V lets a hart cache invalid entries, so that by default a new mapping owes a fence
//! (Privileged Architecture, "Supervisor Memory-Management Fence Instruction"). Two things avoid
//! it:
//!
//! - **Svvptc** promises that every hart sees a store that makes an entry valid in bounded time. An
//!   access that comes too early faults, finds the entry valid and is retried.
//! - **Kernel mappings are fenced lazily**, with or without Svvptc: a new mapping sets every hart's
//!   bit in [`Unseen`], and a trap from the kernel on such an address executes the fence then.
//!
//! The [`Policy`] says for each [`Change`] which CPUs must act at once; a [`Batch`] gathers what
//! one operation owes; [`Holders`] spares the CPUs that have left the address space; the
//! [`Injector`] hides new entries for a while, so that recovery runs although the hardware would
//! never need it.
#![no_std]
#![forbid(unsafe_code)]

/// The atomics of `unseen.rs`, which `tests/interleavings.rs` builds once more with its own.
mod atomic {
    #[cfg(not(loom))]
    pub use core::sync::atomic::{AtomicU64, Ordering};
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}
mod batch;
mod entry;
mod holders;
mod inject;
mod policy;
mod unseen;

pub use batch::{Batch, Extent, Fence, PAGE_SIZE, RANGES, Range, THRESHOLD};
pub use holders::Holders;
pub use inject::Injector;
pub use policy::{Asked, Kernel, Policy, Reach, Refused, User, breaks_first};
pub use translation::Change;
pub use unseen::{CPUS_PER_WORD, Unseen, words};
