//! The state machine of TCP, as users of Linux 6.12 see it (RFC 9293 and those that it refers to).
//!
//! Values in, decisions out. There is no clock, device, lock or address look-up here, and no
//! payload: a [`Connection`] counts bytes of the two streams, and its user stores the bytes. So
//! nothing is copied, and what a peer can make grow here is bounded, by [`ranges::MOST`] and
//! [`scoreboard::MOST`] records per connection. Times are ns of any clock; a time earlier than a
//! previous one counts as the latest.
//!
//! Fast open, ECN and MD5 or AO signatures are absent, as in a Linux that has them off.
//!
//! # Use
//!
//! | event | call |
//! | --- | --- |
//! | a segment of a connection, checksum and addresses checked | [`Connection::on_segment`] |
//! | a segment of a connection in TIME_WAIT that no socket holds | [`Waiting::on_segment`] |
//! | a segment of no connection, for a listening socket | [`Listener::on_segment`] |
//! | a segment for no socket | [`Header::reset`] |
//! | an ICMP error | [`Connection::on_icmp`], [`Listener::on_icmp`] |
//! | the time of `next_timer` | [`Connection::on_timer`], [`Listener::due`] until there is none |
//! | `connect` | [`Connection::connect`] |
//! | `listen` | [`Listener::new`] |
//! | `accept` took a connection, or a waiting one is gone | [`Listener::taken`] |
//! | `send`, `recv`, `shutdown`, `close` | [`Connection::write`], `read`, `shutdown`, `close` |
//! | memory is short | [`Connection::prune`] |
//!
//! After each of them the caller sends all segments that [`Connection::transmit`] returns, sets its
//! timer to `next_timer`, and wakes threads that wait for [`Connection::take_events`]. A connection
//! is forgotten once it [is over](Connection::is_over) and no socket holds it. All of this happens
//! under one lock of the connection or the listener: nothing here calls back.
//!
//! ```
//! use tcp::siphash::Key;
//! use tcp::{Answer, Config, Connection, Cookies, Identity, Listener, Secret, Tuple, Write};
//!
//! let (now, config) = (1_000_000_000, Config::default());
//! let (secret, key) = (Secret(Key([1, 2])), Secret(Key([3, 4])));
//! let here = Tuple { local: ([10, 0, 0, 1], 4000).into(), peer: ([10, 0, 0, 2], 80).into() };
//! let there = Tuple { local: here.peer, peer: here.local };
//!
//! let mut client = Connection::connect(now, &config, Identity::of(&secret, now, &here));
//! let mut listener = Listener::new(&config, key, 128, Cookies::WhenFull);
//! let syn = client.transmit(now).unwrap().header;
//! let Answer::Send(answer) = listener.on_segment(now, &there, &syn, 0) else { panic!() };
//! client.on_segment(now, &answer, 0);
//! let ack = client.transmit(now).unwrap().header;
//! let Answer::Accept(accepted) = listener.on_segment(now, &there, &ack, 0) else { panic!() };
//! let mut server = accepted.connection(now, &config);
//! server.on_segment(now, &ack, 0);
//!
//! client.write(5, Write::default()).unwrap();
//! let sent = client.transmit(now).unwrap();
//! assert_eq!(sent.payload, 0..5); // The bytes of the send queue that go after the header.
//! let placement = server.on_segment(now, &sent.header, 5).placement.unwrap();
//! assert_eq!((placement.skip, placement.length, placement.at), (0, 5, 0));
//! assert_eq!(server.readable(), 5);
//! ```
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
mod limiter;
mod listener;
pub mod options;
mod paws;
pub mod ranges;
mod receiver;
pub mod rtt;
pub mod scoreboard;
mod sender;
pub mod seq;
pub mod siphash;
mod waiting;

pub use config::{Config, Keepalive, retransmissions_of, seconds_of};
pub use connection::{Agreed, Connection, Identity, Received, State, Transmit, Write};
pub use event::{Error, Events, Unreachable};
pub use header::{Flags, Header};
pub use info::{Congested, Counts, Info};
pub use isn::{Secret, Tuple};
pub use listener::{Accepted, Answer, Cookies, Listener};
pub use receiver::Placement;
pub use waiting::{Late, Waiting};
