//! Starts the parts of the kernel that do not depend on the architecture.

#[cfg(guests)]
use crate::kvm;
use crate::{arch, drivers, fs, hash, mm, net, task};
#[cfg(feature = "selftest")]
use crate::{params, selftest};

/// Runs the kernel on the boot CPU; `archive` is the initial archive.
pub fn main(archive: Option<mm::Archive>) -> ! {
    hash::init();
    #[cfg(guests)]
    kvm::init();
    task::init();
    net::init();
    if let Some(now) = drivers::rtc::now_ns() {
        // If the clock shows an invalid time, it is ignored.
        _ = task::clock::set_realtime(now);
    }
    drivers::init();
    #[cfg(feature = "selftest")]
    if params::get("selftest").is_some() {
        arch::smp::start_others();
        selftest::run(task::spawn_and_wait_for_panic, task::selftests::ENDS)
    }
    if let Err(error) = fs::init(archive.as_ref().map(mm::Archive::bytes)) {
        panic!("no root file system: {error:?}");
    }
    drop(archive);
    task::start_init();
    arch::smp::start_others();
    task::sched::idle()
}
