//! The Stile kernel as a library of the host, for tests and fuzzers (`kernel/hosted`). On a machine
//! the library is empty: the image is a single crate, in which calls take a few instructions less.
#![no_std]
#![forbid(unsafe_code)]
// Sockets carry files, and files are sockets: to see that both can be shared takes many steps.
#![recursion_limit = "256"]
#![cfg(not(target_os = "none"))]

extern crate alloc;

mod block;
mod drivers;
mod fs;
mod hash;
mod ipc;
mod keyring;
#[cfg(guests)]
mod kvm;
mod net;
pub mod slow_disk;
mod start;
mod sync;
mod syscall;
mod task;
mod upcalls;
pub mod wire;

use machine::{arch, errno, fdt, log, mm, params, random};

/// Unpacks an archive into the current thread's directory: for those who try archives on the host.
pub fn unpack(archive: &[u8]) {
    let here = task::current().fs().directory();
    fs::initramfs::unpack(here.dentry(), archive);
}
