//! The protocol between the host command and `programs/init`, PID 1 of every guest.
//!
//! Two things are transferred. Before the boot the host writes *jobs* (what to run and how) into
//! the initramfs ([`job`]). Then *frames* go both ways over one byte stream, a virtio console or a
//! serial line ([`frame`]).
//!
//! A stream starts with [`SYNC`], sent by the guest once its end of the line is in raw mode. Bytes
//! before it are the firmware's or the kernel's and belong to the log. The host sends nothing until
//! it has seen `SYNC`.
//!
//! Input is limited by credit: the host has at most [`INPUT_WINDOW`] bytes of standard input in
//! flight, and the guest returns credit as the program reads them. So a slow program neither loses
//! input on a serial line nor delays control frames.
//!
//! Output is limited too: at most [`OUTPUT_WINDOW`] of it is in flight and not yet read by the
//! host, because QEMU drops a virtio console's bytes if the host's end is full. A program whose
//! reader is slow waits, as at a pipe.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod frame;
pub mod job;
pub mod user;

pub use frame::{Channel, Control, Decoder, SYNC, encode};
pub use job::{Input, Job};

/// The number of bytes of standard input that may be in flight to a guest without credit; less than
/// the 4096 of a Linux tty's buffer.
pub const INPUT_WINDOW: usize = 2048;

/// How much output may be in flight to the host without credit, counted by [`output_cost`].
pub const OUTPUT_WINDOW: usize = 64 * 1024;

/// The part of [`OUTPUT_WINDOW`] that a frame of output takes: its bytes, and a socket's overhead
/// for each piece.
pub fn output_cost(payload: &[u8]) -> usize {
    payload.len() + 512
}

/// The path of the jobs in the initramfs.
pub const JOBS_PATH: &str = "/stile/jobs";

/// The path of a file in the initramfs that tells that the root is on the first disk, and how it is
/// mounted: `ro` or `rw`.
pub const ROOT_PATH: &str = "/stile/root";

/// The path of a file in the initramfs that tells that the root is a container image: the disk with
/// it, and after a space the disk that keeps what is written, which is otherwise memory.
pub const IMAGE_PATH: &str = "/stile/image";

/// The path of a file in the initramfs with the host's folders that PID 1 mounts, one in each line:
/// its tag, `ro` or `rw`, and its place.
pub const SHARES_PATH: &str = "/stile/shares";
