//! Stolen time, reported to the guest: the time during which a virtual CPU's thread was ready to
//! run, but others ran (Arm DEN 0057).

use super::vcpu::State;
use super::vm::Machine;
use crate::arch::time;
use crate::task::current;

/// Where `struct pvclock_vcpu_stolen_time` has its count of nanoseconds, and how long it is.
const COUNT: u64 = 8;
const LEN: usize = 64;

/// A virtual CPU's stolen time.
#[derive(Default)]
pub struct Stolen {
    /// Where it is reported to the guest, once the VMM has set the place.
    pub address: Option<u64>,
    /// How long its thread had waited when that was looked at last, in ticks.
    seen: u64,
}

/// PV_TIME_ST: the address at which the guest finds the time that is stolen from now on, if the VMM
/// gave one.
pub fn begin(machine: &Machine, state: &mut State) -> Option<u64> {
    let address = state.stolen.address?;
    state.stolen.seen = current().sched.run_delay();
    // Memory that the VMM took away is not written.
    _ = machine.write_guest(address, &[0; LEN]);
    Some(address)
}

/// Reports to the guest, before it runs again, by how much the thread's waits have grown.
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

/// The count is the guest's own memory, which goes with it where it is restored.
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
