//! The controller's state as a VMM saves and restores it, when no virtual CPU runs: registers of
//! the distributor, of redistributors and of CPU interfaces, and lines
//! (Documentation/virt/kvm/devices/arm-vgic-v3.rst).

use alloc::sync::Arc;

use vgic::redistributor::Identity;
use vgic::vmm::{self, Refused, Word};
use vgic::{CpuInterface, Shared};

use affinity::Affinity;

use super::super::uapi::{DeviceAttribute, vgic as attribute};
use super::super::vcpu::Vcpu;
use super::super::vm::Machine;
use super::{Vgic, frames, its};
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;

/// The groups of attributes handled here.
pub const GROUPS: [u32; 4] = [
    attribute::DISTRIBUTOR_REGISTERS,
    attribute::REDISTRIBUTOR_REGISTERS,
    attribute::CPU_REGISTERS,
    attribute::LEVELS,
];

/// Whether an attribute exists for a controller with this many interrupts.
pub fn has(machine: &Machine, interrupts: u32, wanted: &DeviceAttribute) -> Result<usize> {
    let there = match wanted.group {
        attribute::LEVELS => kind_of_level(wanted) == attribute::LINE_LEVEL,
        group => {
            machine.with_vcpus(|vcpus| place(vcpus, wanted).map(|_| ()))?;
            match group {
                attribute::DISTRIBUTOR_REGISTERS => {
                    vmm::distributor_has(interrupts, wanted.number as u32)
                }
                attribute::REDISTRIBUTOR_REGISTERS => vmm::redistributor_has(wanted.number as u32),
                _ => CpuInterface::has(wanted.number as u16),
            }
        }
    };
    if there { Ok(0) } else { Err(Errno::ENXIO) }
}

/// Sets an attribute from the VMM's memory.
pub fn set(machine: &Machine, vgic: &Vgic, wanted: &DeviceAttribute) -> Result<usize> {
    machine.with_vcpus(|vcpus| place(vcpus, wanted).map(|_| ()))?;
    let address = wanted.address as usize;
    let value = match wanted.group {
        attribute::CPU_REGISTERS => UserPtr::new(address).read()?,
        _ => u64::from(UserPtr::<u32>::new(address).read()?),
    };
    access(machine, vgic, wanted, Some(value)).map(|_| 0)
}

/// Reads an attribute into the VMM's memory.
pub fn get(machine: &Machine, vgic: &Vgic, wanted: &DeviceAttribute) -> Result<usize> {
    let value = access(machine, vgic, wanted, None)?;
    let address = wanted.address as usize;
    match wanted.group {
        attribute::CPU_REGISTERS => UserPtr::new(address).write(&value)?,
        _ => UserPtr::new(address).write(&(value as u32))?,
    }
    Ok(0)
}

fn access(
    machine: &Machine,
    vgic: &Vgic,
    wanted: &DeviceAttribute,
    write: Option<u64>,
) -> Result<u64> {
    machine.with_vcpus(|vcpus| place(vcpus, wanted).map(|_| ()))?;
    machine.check_rest()?;
    let (shared, vcpus) = vgic.all().ok_or(Errno::EBUSY)?;
    let place = place(vcpus, wanted)?;
    let vcpu = &*vcpus[place];
    if wanted.group == attribute::CPU_REGISTERS {
        return interface(vcpu, wanted.number as u16, write);
    }
    if wanted.group == attribute::REDISTRIBUTOR_REGISTERS {
        let access = vgic::Access {
            offset: wanted.number as u32,
            len: 4,
            write,
        };
        if its::write_of_lpis(machine, vgic, place as u16, &access) {
            return Ok(0);
        }
    }
    let write = write.map(|value| value as u32);
    let last = vgic.is_last(place as u64, vcpus.len());
    let (value, effect) = word(shared, vcpus, vcpu, last, wanted, write)?;
    frames::notify(effect, shared, vcpus, Some(vcpu));
    Ok(value.into())
}

/// A 32-bit register, or interrupt lines.
fn word(
    shared: &Shared,
    vcpus: &[Arc<Vcpu>],
    vcpu: &Vcpu,
    last: bool,
    wanted: &DeviceAttribute,
    write: Option<u32>,
) -> Result<(u32, vgic::Effect)> {
    let register = Word {
        offset: wanted.number as u32,
        write,
    };
    let answer = match wanted.group {
        attribute::DISTRIBUTOR_REGISTERS => vmm::distributor(shared, register, |affinity| {
            find(vcpus, affinity).map(|place| place as u16)
        }),
        attribute::REDISTRIBUTOR_REGISTERS => {
            let identity = Identity {
                affinity: vcpu.affinity(),
                number: vcpu.id as u16,
                last,
            };
            vmm::redistributor(&vcpu.private, shared, identity, register)
        }
        _ if kind_of_level(wanted) != attribute::LINE_LEVEL => return Err(Errno::EINVAL),
        _ => {
            let first = wanted.number as u32 % (1 << attribute::LEVELS_KIND);
            vmm::lines(shared, &vcpu.private, first, write)
        }
    };
    answer.map_err(|refused| error(refused, Errno::ENXIO))
}

/// A register of a virtual CPU's CPU interface.
fn interface(vcpu: &Vcpu, register: u16, write: Option<u64>) -> Result<u64> {
    let mut state = vcpu.at_rest().ok_or(Errno::EBUSY)?;
    let interface = &mut state.guest.controller.interface;
    match write {
        None => interface.get(register),
        Some(value) => interface.set(register, value).map(|()| 0),
    }
    .map_err(|refused| error(refused, Errno::ENOENT))
}

fn error(refused: Refused, absent: Errno) -> Errno {
    match refused {
        Refused::Absent => absent,
        Refused::Invalid => Errno::EINVAL,
    }
}

/// The index of the virtual CPU that an attribute belongs to; any for the distributor's.
fn place(vcpus: &[Arc<Vcpu>], wanted: &DeviceAttribute) -> Result<usize> {
    if wanted.group == attribute::DISTRIBUTOR_REGISTERS {
        return if vcpus.is_empty() {
            Err(Errno::EINVAL)
        } else {
            Ok(0)
        };
    }
    // Aff3 to Aff0, one byte each.
    let packed = wanted.number >> attribute::AFFINITY;
    let mpidr = packed & 0xff_ffff | packed >> 24 << 32;
    find(vcpus, Affinity::from_mpidr(mpidr)).ok_or(Errno::EINVAL)
}

fn find(vcpus: &[Arc<Vcpu>], affinity: Affinity) -> Option<usize> {
    vcpus.iter().position(|vcpu| vcpu.affinity() == affinity)
}

/// The kind of information that a LEVEL_INFO attribute asks for.
fn kind_of_level(wanted: &DeviceAttribute) -> u64 {
    u64::from(wanted.number as u32) >> attribute::LEVELS_KIND
}
