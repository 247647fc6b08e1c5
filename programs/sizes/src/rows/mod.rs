//! The rows: the timed operations, and their numbers of objects or bytes.

mod descriptors;
mod epoll;
mod files;
mod ipc;
mod memory;
mod names;
mod processes;
mod sockets;
mod threads;
mod timers;
mod transfers;

use std::fmt;

use crate::meter::{Done, Meter};

/// Operations in a batch, if one alone is too short for the counter.
const EACH: usize = 16;

/// One operation.
pub struct Row {
    /// A short name.
    pub name: &'static str,
    /// The measured quantity; `N` is the number of objects or bytes.
    pub about: &'static str,
    /// The sizes at which it is measured.
    pub sizes: Sizes,
    /// Measures the row at one size.
    pub run: fn(&mut Meter) -> Done,
}

/// The sizes of a row.
#[derive(Clone, Copy)]
pub enum Sizes {
    /// Up to this many objects.
    Objects(usize),
    /// Up to `most` bytes, each of them copied at least `copies` times.
    Bytes { most: usize, copies: usize },
}

/// Numbers of objects, and of bytes.
const OBJECTS: &[usize] = &[1, 10, 100, 1_000, 10_000];
const BYTES: &[usize] = &[1, 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];
/// With `--quick`.
const FEW_OBJECTS: &[usize] = &[1, 100, 1_000];
const FEW_BYTES: &[usize] = &[1, 4 << 10, 1 << 20];

impl Sizes {
    /// All sizes, or few if `quick`.
    pub fn each(self, quick: bool) -> impl Iterator<Item = usize> {
        let (sizes, most) = match (self, quick) {
            (Self::Objects(most), false) => (OBJECTS, most),
            (Self::Objects(most), true) => (FEW_OBJECTS, most),
            (Self::Bytes { most, .. }, false) => (BYTES, most),
            (Self::Bytes { most, .. }, true) => (FEW_BYTES, most),
        };
        sizes.iter().copied().filter(move |size| *size <= most)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Objects(_) => write!(to, "objects 0"),
            Self::Bytes { copies, .. } => write!(to, "bytes {copies}"),
        }
    }
}

/// A row that is measured among objects.
const fn among(
    name: &'static str,
    most: usize,
    run: fn(&mut Meter) -> Done,
    about: &'static str,
) -> Row {
    Row {
        name,
        about,
        sizes: Sizes::Objects(most),
        run,
    }
}

/// A row that transfers bytes, each of them copied `copies` times.
const fn bytes(
    name: &'static str,
    most: usize,
    copies: usize,
    run: fn(&mut Meter) -> Done,
    about: &'static str,
) -> Row {
    Row {
        name,
        about,
        sizes: Sizes::Bytes { most, copies },
        run,
    }
}

/// All rows, in order.
pub fn all() -> impl Iterator<Item = &'static Row> {
    let parts = [
        descriptors::ROWS,
        epoll::ROWS,
        timers::ROWS,
        memory::ROWS,
        processes::ROWS,
        threads::ROWS,
        files::ROWS,
        names::ROWS,
        ipc::ROWS,
        sockets::ROWS,
        transfers::ROWS,
    ];
    parts.into_iter().flatten()
}
