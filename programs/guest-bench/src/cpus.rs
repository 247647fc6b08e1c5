//! The CPUs: the first measures and sends, the last receives, and all others only exist.

use crate::platform::Platform;
use crate::{psci, receiver, start, time};

/// The most CPUs there can be.
pub const MAX: usize = 512;

/// The CPUs there are.
#[derive(Clone, Copy)]
pub struct Cpus {
    pub count: usize,
    /// The affinity of the first.
    pub first: u64,
    /// The affinity of the last, where it is another one.
    pub last: Option<u64>,
}

/// Starts them all.
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
    // SAFETY: `index` is below the number of CPUs; the CPU's one write is of a whole byte.
    while unsafe { place.add(index).read_volatile() } == 0 {
        time::relax();
    }
}
