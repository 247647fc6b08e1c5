//! The Stile kernel.
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod drivers;
mod errno;
mod fs;
mod hash;
mod ipc;
mod log;
mod mm;
mod names;
mod net;
mod panic;
mod params;
mod random;
mod selftest;
mod sync;
mod syscall;
mod task;

/// Everything that is not the architecture's, on the boot CPU: `archive` is the initial one.
fn main(archive: Option<mm::Archive>) -> ! {
    hash::init();
    task::init();
    if let Some(now) = drivers::rtc::now_ns() {
        task::clock::set_realtime(now);
    }
    #[cfg(feature = "selftest")]
    if params::get("selftest").is_some() {
        arch::smp::start_others();
        selftest::run()
    }
    if let Err(error) = fs::init(archive.as_ref().map(mm::Archive::bytes)) {
        panic!("no root file system: {error:?}");
    }
    drop(archive);
    task::start_init();
    arch::smp::start_others();
    task::sched::idle()
}
