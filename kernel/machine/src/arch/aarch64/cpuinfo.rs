//! The contents of `/proc/cpuinfo` for a CPU, in Linux's format.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::{cpu, hwcap_names, time};
use idreg::register::MIDR_EL1;

/// Writes the entry of CPU `index`; nothing if it is not online.
pub fn describe(index: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    // SAFETY: a view is stored before its CPU comes online, and lives forever.
    let view = cpu::get(index).and_then(|cpu| unsafe { cpu.view.load(Relaxed).as_ref() });
    let Some(view) = view else { return Ok(()) };
    let midr = view.value(MIDR_EL1);
    // Two "bogus" instructions per tick of the counter, in units of 10,000.
    let mips = time::frequency() * 2 / 10_000;
    writeln!(out, "processor\t: {index}")?;
    writeln!(out, "BogoMIPS\t: {}.{:02}", mips / 100, mips % 100)?;
    write!(out, "Features\t:")?;
    for name in hwcap_names() {
        write!(out, " {name}")?;
    }
    writeln!(out)?;
    // The fields of MIDR_EL1.
    writeln!(out, "CPU implementer\t: {:#04x}", midr >> 24 & 0xff)?;
    writeln!(out, "CPU architecture: 8")?;
    writeln!(out, "CPU variant\t: {:#x}", midr >> 20 & 0xf)?;
    writeln!(out, "CPU part\t: {:#05x}", midr >> 4 & 0xfff)?;
    writeln!(out, "CPU revision\t: {}\n", midr & 0xf)
}
