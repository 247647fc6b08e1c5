//! An allocator of the identifiers that TLBs tag translations with: address-space identifiers
//! (ASIDs) and those of virtual machines (VMIDs).
//!
//! As on Linux (`arch/arm64/mm/context.c`, `arch/arm64/kvm/vmid.c`), identifiers are handed out in
//! generations. A space keeps its [`Context`], a generation and an identifier, until no identifier
//! is free. Then a new generation begins: only the contexts that CPUs run at that moment keep their
//! identifiers, and every CPU flushes its TLB before it runs another.
//!
//! A switch in the current generation takes no lock: the CPU exchanges its own [`Active`] context,
//! unless a rollover has zeroed it.
#![no_std]
#![forbid(unsafe_code)]

mod active;
mod allocator;

pub use active::Active;
pub use allocator::{Allocator, Hardware, Lock, Tables};

use atomics::{AtomicU64, Ordering::*, const_fn};

/// The identifier that all spaces share if there are too few for generations: then every switch
/// flushes. Otherwise, the identifier of CPUs without a space.
pub const SHARED: u16 = 0;

/// Generations are multiples of this; the bits below are the identifier.
const GENERATION: u64 = 1 << 16;

/// A generation and an identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context(u64);

impl Context {
    /// The context of a CPU without a space. No generation becomes so large.
    pub const NONE: Context = Context(1 << 63);

    /// The identifier.
    #[inline]
    pub const fn id(self) -> u16 {
        self.0 as u16
    }

    const fn generation(self) -> u64 {
        self.0 & !(GENERATION - 1)
    }
}

/// The context of a space, which changes from generation to generation.
#[derive(Debug)]
pub struct ContextId(AtomicU64);

impl ContextId {
    const_fn! {
        /// The context of a space that has never run.
        pub fn new() -> Self {
            ContextId(AtomicU64::new(0))
        }
    }

    /// The identifier under which TLBs may hold translations of the space; `None` if there are
    /// none.
    ///
    /// A CPU that changes entries of the space executes a full fence, and then reads the identifier
    /// that it has to flush. A CPU on which the space gets a new identifier executes the fence of
    /// [`Allocator::switch`] before it reads entries. So either the former sees the new identifier,
    /// or the latter sees the new entries.
    #[inline]
    pub fn get(&self) -> Option<u16> {
        match self.0.load(Acquire) {
            0 => None,
            context => Some(context as u16),
        }
    }
}

impl Default for ContextId {
    fn default() -> Self {
        Self::new()
    }
}
