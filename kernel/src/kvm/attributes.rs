//! A virtual CPU's attributes: its timers' interrupts and its stolen time
//! (Documentation/virt/kvm/devices/vcpu.rst). There are no performance counters.

use super::uapi::{self, DeviceAttribute, vcpu as attribute};
use super::vcpu::State;
use super::vm::Machine;
use crate::arch::virt::timer;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;

/// Alignment of the address at which a guest's stolen time is reported.
const ALIGNMENT: u64 = 64;

/// Sets or gets an attribute, or tells whether it exists.
///
/// # Errors
/// ENXIO: there is no such attribute.
pub fn ioctl(
    machine: &Machine,
    state: &mut State,
    request: u32,
    wanted: &DeviceAttribute,
) -> Result<usize> {
    match (wanted.group, wanted.number) {
        (attribute::TIMER, attribute::VIRTUAL_TIMER) => {
            interrupt(machine, request, wanted, timer::VIRTUAL)
        }
        (attribute::TIMER, attribute::PHYSICAL_TIMER) => {
            interrupt(machine, request, wanted, timer::PHYSICAL)
        }
        (attribute::STOLEN_TIME, attribute::ADDRESS) => {
            stolen_time(machine, state, request, wanted)
        }
        // The lack of counters is reported before the number is examined.
        (attribute::PERFORMANCE, _) if request != uapi::HAS_DEVICE_ATTR => Err(Errno::ENODEV),
        _ => Err(Errno::ENXIO),
    }
}

/// The attribute of a timer's interrupt, which can only be set to its present number.
fn interrupt(
    machine: &Machine,
    request: u32,
    wanted: &DeviceAttribute,
    number: u32,
) -> Result<usize> {
    let pointer = UserPtr::<u32>::new(wanted.address as usize);
    match request {
        uapi::SET_DEVICE_ATTR => {
            if machine.vgic().is_none() {
                return Err(Errno::EINVAL);
            }
            match pointer.read()? {
                same if same == number => Ok(0),
                _ => Err(Errno::EINVAL),
            }
        }
        uapi::GET_DEVICE_ATTR => pointer.write(&number).map(|()| 0),
        _ => Ok(0),
    }
}

fn stolen_time(
    machine: &Machine,
    state: &mut State,
    request: u32,
    wanted: &DeviceAttribute,
) -> Result<usize> {
    let pointer = UserPtr::<u64>::new(wanted.address as usize);
    match request {
        uapi::SET_DEVICE_ATTR => {
            let address = pointer.read()?;
            if address % ALIGNMENT != 0 {
                return Err(Errno::EINVAL);
            }
            if state.stolen.address.is_some() {
                return Err(Errno::EEXIST);
            }
            if !machine.has_memory(address) {
                return Err(Errno::EINVAL);
            }
            state.stolen.address = Some(address);
            Ok(0)
        }
        uapi::GET_DEVICE_ATTR => {
            let address = state.stolen.address.unwrap_or(u64::MAX);
            pointer.write(&address).map(|()| 0)
        }
        _ => Ok(0),
    }
}
