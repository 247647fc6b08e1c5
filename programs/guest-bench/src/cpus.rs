//! The CPUs: the first measures and sends, the last receives, and all others are parked.

use crate::platform::Platform;
use crate::{psci, receiver, start, time};

/// The maximum number of CPUs.
pub const MAX: usize = 512;

/// The CPUs of the machine.
#[derive(Clone, Copy)]
pub struct Cpus {
    pub count: usize,
    /// The affinity of the first.
    pub first: u64,
    /// The affinity of the last, if there are several.
    pub last: Option<u64>,
}

/// Starts all CPUs.
pub fn start(platform: &Platform) -> Cpus {
    let count = platform.affinities().count();
    assert!((1..=MAX).contains(&count), "{count} CPUs");
    let mut cpus = Cpus {
        count,
        first: 0,
        last: None,
    };
    for (index, affinity) in platform.affinities().enumerate() {
        if index == 0 {
            cpus.first = affinity;
        } else if index == count - 1 {
            cpus.last = Some(affinity);
            psci::start_cpu(affinity, start::start_receiver, index as u64);
            receiver::wait_until_ready();
        } else {
            psci::start_cpu(affinity, start::start_parked, index as u64);
            wait_until_parked(index);
        }
    }
    time::pause(10_000);
    cpus
}

fn wait_until_parked(index: usize) {
    let place = (&raw const start::PARKED).cast::<u8>();
    // SAFETY: `index` is below the number of CPUs; the CPU writes a whole byte, once.
    while unsafe { place.add(index).read_volatile() } == 0 {
        time::relax();
    }
}
