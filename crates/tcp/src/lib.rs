//! The state machine of TCP, as users of Linux 6.12 see it (RFC 9293 and those it names).
//!
//! Values in, decisions out. There is no clock, device, lock or address here, and no payload:
//! a connection counts bytes of the two streams, and its user keeps the bytes wherever they lie.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod congestion;
pub mod header;
pub mod options;
pub mod ranges;
pub mod rtt;
pub mod scoreboard;
pub mod seq;
pub mod siphash;

pub use header::{Flags, Header};
