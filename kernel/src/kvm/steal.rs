//! Time that a guest was ready to use and others used, as the guest is told it (Arm DEN 0057).

use super::vcpu::State;
use super::vm::Machine;
use crate::arch::time;

/// Where `struct pvclock_vcpu_stolen_time` has its count of nanoseconds, and how long it is.
const COUNT: u64 = 8;
const LEN: usize = 64;

/// A virtual CPU's stolen time.
#[derive(Default)]
pub struct Stolen {
    /// Where the guest is told, once the monitor said.
    pub address: Option<u64>,
    /// Ticks of the host's counter.
    ticks: u64,
    /// What the guest was told last.
    told: u64,
    /// Whether the guest wants to be told.
    wanted: bool,
}

impl Stolen {
    /// Does what may give the CPU to others.
    #[inline]
    pub fn around(&mut self, gives: impl FnOnce()) {
        if !self.wanted {
            return gives();
        }
        let before = time::now_ticks();
        gives();
        self.ticks += time::now_ticks() - before;
    }
}

/// The guest asks where it is told (PV_TIME_ST). Nowhere unless the monitor said.
pub fn begin(machine: &Machine, state: &mut State) -> Option<u64> {
    let address = state.stolen.address?;
    machine.write_guest(address, &[0; LEN]).ok()?;
    (state.stolen.wanted, state.stolen.told) = (true, 0);
    Some(address)
}

/// Tells the guest, before it runs again.
pub fn tell(machine: &Machine, state: &mut State) {
    let stolen = &mut state.stolen;
    if stolen.wanted
        && stolen.told != stolen.ticks
        && let Some(address) = stolen.address
    {
        stolen.told = stolen.ticks;
        let nanoseconds = time::ticks_to_ns(stolen.ticks);
        // Memory that the monitor took away is not told.
        _ = machine.write_guest(address + COUNT, &nanoseconds.to_le_bytes());
    }
}
