//! Messages of 9P2000.L, the protocol by which a guest uses a folder of its host: requests are
//! encoded, replies are checked and decoded.
//!
//! Nothing is allocated: a [`Request`] is written into a buffer, and a reply is decoded where it
//! lies. The data of large requests and replies need not lie behind their heads: a request tells
//! how many bytes follow ([`Request::encode`]), and [`head`] how many of a reply's belong to it.
//!
//! A server is not trusted. A reply has the length that the device told, its own request's tag and
//! type, and no count beyond what was asked for; names are those of files in the directory, and a
//! qid says the same type of file as the mode beside it. All else is [`Error::Garbage`].
#![no_std]
#![forbid(unsafe_code)]

mod encoder;
mod entries;
mod head;
mod names;
mod reader;
mod reply;
mod request;
mod types;

pub use entries::{Entries, Entry};
pub use head::{HEAD, head};
pub use names::is_name;
pub use reply::stat;
pub use reply::{
    Created, Opened, Version, count, empty, qid, statfs, string, version, walked, xattr_size,
};
pub use request::{Ids, MOST_HEAD, NO_FID, NO_TAG, NOBODY, Request, SetStat, VERSION, Valid};
pub use types::{Qid, QidType, Stat, StatFs, Time};

/// Why a reply is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The server refuses the request, with a Linux error number from 1 to 4095.
    Refused(u16),
    /// It is no answer to the request.
    Garbage,
}

/// The result of decoding a reply.
pub type Result<T> = core::result::Result<T, Error>;
