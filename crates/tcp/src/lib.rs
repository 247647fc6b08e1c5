//! The state machine of TCP, as users of Linux 6.12 see it (RFC 9293 and those it names).
//!
//! Values in, decisions out. There is no clock, device, lock or address look-up here, and no
//! payload: a [`Connection`] counts bytes of the two streams, and its user keeps the bytes wherever
//! they lie. So nothing is copied, and what a peer can make grow here is bounded: by
//! [`ranges::MOST`] and [`scoreboard::MOST`] records a connection. Times are ns of any clock;
//! an earlier one than before counts as the latest.
//!
//! Fast open, ECN and MD5 or AO signatures are absent, as in a Linux that has them off.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;
pub mod congestion;
mod connection;
mod event;
pub mod header;
mod info;
mod isn;
mod listener;
pub mod options;
pub mod ranges;
mod receiver;
pub mod rtt;
pub mod scoreboard;
mod sender;
pub mod seq;
pub mod siphash;

pub use config::{Config, Keepalive, retransmissions_of, seconds_of};
pub use connection::{Agreed, Connection, Identity, Received, State, Transmit, Write};
pub use event::{Error, Events, Unreachable};
pub use header::{Flags, Header};
pub use info::{Congested, Counts, Info};
pub use isn::{Secret, Tuple};
pub use listener::{Accepted, Answer, Listener};
pub use receiver::Placement;
