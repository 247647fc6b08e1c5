//! A bare-metal arm64 guest that measures the cost of its exits to a hypervisor, like the
//! micro-bench of kvm-unit-tests. It prints `name least median`, both in nanoseconds; under QEMU's
//! `-icount shift=0` these are instructions of the whole machine, including those of other CPUs.

#![no_std]
#![no_main]

mod cpus;
mod gic;
mod irq;
mod measure;
mod mmu;
mod platform;
mod psci;
mod receiver;
mod rows;
mod sgi;
mod start;
mod time;
mod uart;

use core::panic::PanicInfo;

/// The status that the guest reports on a failure.
const FAILURE: u32 = 1;

/// The entry of the first CPU, with the device tree at `tree`.
extern "C" fn main(tree: usize) -> ! {
    let platform = platform::find(tree);
    uart::set(platform.uart);
    let cpus = cpus::start(&platform);
    println!(
        "# guest-bench: {} vCPUs, counter at {} Hz",
        cpus.count,
        time::frequency()
    );
    gic::start(&platform, &cpus);
    rows::all(&platform, &cpus);
    println!("# done");
    psci::power_off(&platform, 0)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    println!("# failed: {info}");
    match platform::known() {
        Some(platform) => psci::power_off(&platform, FAILURE),
        None => psci::system_off(),
    }
}
