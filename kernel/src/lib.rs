//! The Stile kernel but for what touches the machine. It is a library, so that it is also built for
//! the host, where tests and fuzzers are its programs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod drivers;
mod fs;
mod hash;
mod ipc;
mod keyring;
#[cfg(guests)]
mod kvm;
#[cfg(not(guests))]
#[path = "kvm_absent.rs"]
mod kvm;
mod net;
mod sync;
mod syscall;
mod task;
mod upcalls;

#[cfg(feature = "selftest")]
use machine::selftest;
use machine::{arch, errno, fdt, log, mm, params, random};

/// Unpacks an initial archive into the current thread's directory: for those who try archives on
/// the host.
pub fn unpack(archive: &[u8]) {
    fs::unpack(archive);
}

/// Everything that is not the architecture's, on the boot CPU: `archive` is the initial one.
fn main(archive: Option<mm::Archive>) -> ! {
    hash::init();
    kvm::init();
    task::init();
    if let Some(now) = drivers::rtc::now_ns() {
        task::clock::set_realtime(now);
    }
    #[cfg(feature = "selftest")]
    if params::get("selftest").is_some() {
        arch::smp::start_others();
        selftest::run(task::doom)
    }
    if let Err(error) = fs::init(archive.as_ref().map(mm::Archive::bytes)) {
        panic!("no root file system: {error:?}");
    }
    drop(archive);
    task::start_init();
    arch::smp::start_others();
    task::sched::idle()
}
