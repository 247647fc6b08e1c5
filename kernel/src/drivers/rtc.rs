//! The time of day when the machine starts: Arm's PL031 (DDI 0224) or QEMU's goldfish clock.

use crate::arch::mmio::Registers;
use crate::fdt;

/// Nanoseconds since 1970, if the machine has a real-time clock.
pub fn now_ns() -> Option<u64> {
    pl031().or_else(goldfish)
}

fn registers(compatible: &'static [&'static str]) -> Option<Registers> {
    let node = fdt::find(fdt::tree(), compatible).next()?;
    let base = fdt::regions(node).next()?.start;
    Registers::map(base, 0x1000).ok()
}

/// RTCDR counts seconds.
fn pl031() -> Option<u64> {
    let seconds = registers(&["arm,pl031"])?.read(0);
    Some(u64::from(seconds) * 1_000_000_000)
}

/// Reads TIME_LOW, which latches TIME_HIGH; in nanoseconds.
fn goldfish() -> Option<u64> {
    let registers = registers(&["google,goldfish-rtc"])?;
    let low = u64::from(registers.read(0));
    Some(low | u64::from(registers.read(4)) << 32)
}
