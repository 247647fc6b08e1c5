//! The Stile kernel.
#![no_std]
#![no_main]
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

/// Unpacks an archive into the current thread's directory: for those who try archives on the host.
#[cfg(not(target_os = "none"))]
pub fn unpack(archive: &[u8]) {
    let here = task::current().fs().directory();
    fs::initramfs::unpack(here.entry(), archive);
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
