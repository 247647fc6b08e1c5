//! Stolen time, reported to the guest: the time during which a virtual CPU's thread was ready to
//! run, but others ran (Arm DEN 0057).

use super::vcpu::State;
use super::vm::Machine;
use crate::arch::time;
use crate::task::current;

/// The offset of the nanosecond count in `struct pvclock_vcpu_stolen_time`, and the struct's
/// length.
const COUNT: u64 = 8;
const LEN: usize = 64;

/// A virtual CPU's stolen time.
#[derive(Default)]
pub struct Stolen {
    /// The address at which it is reported to the guest, once the VMM has set it.
    pub address: Option<u64>,
    /// How long the thread had waited when this was last checked, in ticks.
    seen: u64,
}

/// PV_TIME_ST: starts to report stolen time, and returns the guest's address of it if the VMM has
/// set one.
pub fn begin(machine: &Machine, state: &mut State) -> Option<u64> {
    let address = state.stolen.address?;
    state.stolen.seen = current().sched.run_delay();
    // If the VMM has removed the memory, nothing is written.
    _ = machine.write_guest(address, &[0; LEN]);
    Some(address)
}

/// Before the guest runs again, reports to it how much longer the thread has waited.
#[inline]
pub fn notify(machine: &Machine, state: &mut State) {
    let Some(address) = state.stolen.address else {
        return;
    };
    let waited = current().sched.run_delay();
    if waited != state.stolen.seen {
        add(machine, address + COUNT, &mut state.stolen.seen, waited);
    }
}

/// Adds to the count in the guest's memory. The count itself lives only there, so that it is
/// restored with the guest.
#[cold]
fn add(machine: &Machine, address: u64, seen: &mut u64, waited: u64) {
    let mut count = [0; 8];
    if machine.read_guest(address, &mut count).is_err() {
        return;
    }
    let [before, now] = [*seen, waited].map(time::ticks_to_ns);
    *seen = waited;
    let count = u64::from_le_bytes(count).wrapping_add(now.wrapping_sub(before));
    _ = machine.write_guest(address, &count.to_le_bytes());
}
