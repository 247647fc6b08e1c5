//! Interfaces with a card, by which packets leave the machine and arrive. `lo` is not one of them:
//! traffic that stays on this machine has no packets (`inet`).

pub mod addresses;
mod input;
pub mod interface;
pub mod neighbours;
mod output;
pub mod routing;

pub use input::{In, receive, report};
pub use interface::{Card, Interface};
pub use output::{Carried, empty, send, send_frame, send_made};

use crate::task::clock;

/// The clock of this layer: CLOCK_MONOTONIC, in ns.
pub fn now() -> u64 {
    clock::monotonic_ns()
}
