//! The Stile kernel's image.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]
// Sockets carry files, and files are sockets: to see that both can be shared takes many steps.
#![recursion_limit = "256"]

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
mod start;
mod sync;
mod syscall;
mod task;
mod upcalls;

#[cfg(feature = "selftest")]
use machine::selftest;
use machine::{arch, errno, fdt, log, mm, params, random};
