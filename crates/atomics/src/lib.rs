//! The atomics of the mechanism crates: core's in the kernel, and [loom](https://docs.rs/loom)'s in
//! a build with `--cfg loom`, which tries every interleaving and every order that the memory model
//! allows.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(not(loom))]
pub use core::{hint::spin_loop, sync::atomic::*};
#[cfg(loom)]
pub use loom::{sync::atomic::*, thread::yield_now as spin_loop};

/// Placed between a `SeqCst` store and a `SeqCst` load whose order matters. It is no instruction:
/// loom treats such accesses as `AcqRel`, and needs the fence instead.
#[inline(always)]
pub fn seq_cst() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// A `const fn`; a plain one with loom, whose atomics have no constant constructor.
#[cfg(not(loom))]
#[macro_export]
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $($function:tt)*) => {
        $(#[$attribute])* $visibility const fn $($function)*
    };
}

/// A plain `fn`; a `const` one without loom.
#[cfg(loom)]
#[macro_export]
macro_rules! const_fn {
    ($($function:tt)*) => { $($function)* };
}

/// An array of equal elements, which is constant if its elements are.
#[cfg(not(loom))]
#[macro_export]
macro_rules! array {
    ($element:expr) => {
        [const { $element }; _]
    };
}

/// An array of equal elements.
#[cfg(loom)]
#[macro_export]
macro_rules! array {
    ($element:expr) => {
        core::array::from_fn(|_| $element)
    };
}
