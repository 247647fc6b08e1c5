//! Boot parameters that remove features of a CPU, so that an emulator's CPUs differ:
//! `cpuN.NAME=VALUE`, and `cpuN.late` for one that comes up after the features are finalized.

use crate::params;

/// The parameter of a CPU that is not considered when the features common to all CPUs are
/// determined.
pub(super) const LATE: &str = "late";

/// The parameters of CPU `index`: names without their prefix, and values.
pub(super) fn parameters(
    index: usize,
) -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    numbered().filter_map(move |(cpu, name, value)| (cpu == index).then_some((name, value)))
}

/// Whether CPU `index` comes late.
pub(super) fn is_late(index: usize) -> bool {
    parameters(index).any(|(name, _)| name == LATE)
}

/// Warns about parameters that apply to none of `possible` CPUs; the boot CPU, which determines the
/// common features, is never late.
pub(super) fn warn(possible: usize) {
    for (cpu, name, _) in numbered() {
        if cpu >= possible {
            crate::log!("cpu{cpu}.{name}: there is no such CPU");
        } else if cpu == 0 && name == LATE {
            crate::log!("cpu0.{name}: the boot CPU is never late");
        }
    }
}

/// Logs that a parameter of CPU `index` does not apply.
pub(super) fn refuse(index: usize, name: &str, value: &str, why: impl core::fmt::Display) {
    crate::log!("cpu{index}.{name}={value}: {why}");
}

fn numbered() -> impl Iterator<Item = (usize, &'static str, &'static str)> + Clone {
    params::all().filter_map(|(name, value)| {
        let (number, name) = name.strip_prefix("cpu")?.split_once('.')?;
        Some((number.parse().ok()?, name, value))
    })
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_cpu_is_online_unless_it_lacks_a_promise() {
        use super::{cpu, cpus, time};
        let refused = (1..cpu::possible()).find(|index| is_late(*index));
        // They come up by themselves after they are released.
        let deadline = time::now_ticks() + time::ns_to_ticks(cpus::PATIENCE_NS);
        let all = || (0..cpu::possible()).all(|index| cpu::get(index).is_some());
        while time::now_ticks() < deadline && !all() {
            core::hint::spin_loop();
        }
        for index in 0..cpu::possible() {
            assert_eq!(cpu::get(index).is_none(), Some(index) == refused, "CPU {index}");
        }
    }
}
