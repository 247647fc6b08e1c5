//! Configuration of the controller by the VMM: KVM_CREATE_DEVICE and the device's attributes
//! (Documentation/virt/kvm/devices/arm-vgic-v3.rst).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use vgic::{PRIVATE, Shared, distributor, redistributor};

use super::super::add_file;
use super::super::uapi::{self, CreateDevice, DeviceAttribute, vgic as attribute};
use super::super::vcpu::Vcpu;
use super::super::vm::Machine;
use super::frames::{Frames, Region, Row};
use super::saved;
use super::{Complete, Vgic};
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;

/// The number of interrupts, unless the VMM sets it.
const DEFAULT_INTERRUPTS: u32 = 256;
/// The numbers of interrupts that the VMM may set.
const INTERRUPTS: core::ops::RangeInclusive<u32> = 64..=1024;
/// Alignment of frames.
const ALIGNMENT: u64 = 0x1_0000;
/// Fields of a redistributor region: index, flags, base and count.
const INDEX: u64 = 0xfff;
const FLAGS: u64 = 0xf000;
const BASE: u64 = 0x000f_ffff_ffff_0000;
const COUNT: u32 = 52;

/// What the VMM has set so far.
pub struct Setup {
    /// The end of the guest's physical addresses.
    limit: u64,
    interrupts: Option<u32>,
    distributor: Option<u64>,
    regions: Vec<Region>,
}

/// The device's file.
struct Device(Arc<Machine>);

/// Creates a device for a machine, or tells whether it could be created.
pub fn create(machine: &Arc<Machine>, argument: usize) -> Result<usize> {
    let pointer = UserPtr::<CreateDevice>::new(argument);
    let mut request = pointer.read()?;
    if ![uapi::DEV_TYPE_ARM_VGIC_V3, uapi::DEV_TYPE_ARM_VGIC_ITS].contains(&request.kind) {
        return Err(Errno::ENODEV);
    }
    if request.flags & uapi::CREATE_DEVICE_TEST != 0 {
        return Ok(0);
    }
    let fd = if request.kind == uapi::DEV_TYPE_ARM_VGIC_ITS {
        add_file("kvm-arm-vgic-its", super::its::create(machine)?)?
    } else {
        let device = try_arc(Device(machine.clone()))?;
        machine.add_vgic(Vgic::new(machine.limit()))?;
        add_file("kvm-arm-vgic-v3", device)?
    };
    request.fd = fd as u32;
    pointer.write(&request)?;
    Ok(0)
}

impl FileOps for Device {
    fn is_stream(&self) -> bool {
        true
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        let machine = &self.0;
        let wanted = read_request(machine, request, argument)?;
        let vgic = machine.vgic().ok_or(Errno::ENXIO)?;
        match request {
            uapi::SET_DEVICE_ATTR => set(machine, vgic, &wanted),
            uapi::GET_DEVICE_ATTR => get(machine, vgic, &wanted),
            _ => has(machine, vgic, &wanted),
        }
    }
}

/// Reads the argument of a request to a device: all requests are about attributes.
pub fn read_request(machine: &Machine, request: u32, argument: usize) -> Result<DeviceAttribute> {
    if !machine.is_mine() {
        return Err(Errno::EIO);
    }
    let known = [
        uapi::SET_DEVICE_ATTR,
        uapi::GET_DEVICE_ATTR,
        uapi::HAS_DEVICE_ATTR,
    ];
    if !known.contains(&request) {
        return Err(Errno::ENOTTY);
    }
    UserPtr::new(argument).read()
}

fn has(machine: &Machine, vgic: &Vgic, wanted: &DeviceAttribute) -> Result<usize> {
    match (wanted.group, wanted.number) {
        (group, _) if saved::GROUPS.contains(&group) => {
            let interrupts = vgic.setup.lock().interrupts;
            saved::has(machine, interrupts.unwrap_or(PRIVATE), wanted)
        }
        (
            attribute::ADDRESS,
            attribute::DISTRIBUTOR | attribute::REDISTRIBUTORS | attribute::REGION,
        )
        | (attribute::INTERRUPTS, _)
        | (attribute::CONTROL, attribute::INIT | attribute::SAVE_PENDING_TABLES) => Ok(0),
        _ => Err(Errno::ENXIO),
    }
}

fn set(machine: &Machine, vgic: &Vgic, wanted: &DeviceAttribute) -> Result<usize> {
    let address = wanted.address as usize;
    match (wanted.group, wanted.number) {
        (attribute::ADDRESS, number) => {
            let value: u64 = UserPtr::new(address).read()?;
            let vcpus = machine.with_vcpus(|vcpus| vcpus.len()) as u64;
            let mut setup = vgic.setup.lock();
            match number {
                attribute::DISTRIBUTOR => setup.set_distributor(value)?,
                attribute::REDISTRIBUTORS => setup.add_region(0, value, 0, vcpus)?,
                attribute::REGION if value >> COUNT == 0 || value & FLAGS != 0 => {
                    return Err(Errno::EINVAL);
                }
                attribute::REGION => {
                    let (index, count) = ((value & INDEX) as usize, value >> COUNT);
                    setup.add_region(index, value & BASE, count, vcpus)?;
                }
                _ => return Err(Errno::ENODEV),
            }
            Ok(0)
        }
        (attribute::INTERRUPTS, _) => {
            let value: u32 = UserPtr::new(address).read()?;
            if !INTERRUPTS.contains(&value) || !value.is_multiple_of(32) {
                return Err(Errno::EINVAL);
            }
            let mut setup = vgic.setup.lock();
            if setup.interrupts.is_some() || vgic.is_complete() {
                return Err(Errno::EBUSY);
            }
            setup.interrupts = Some(value);
            Ok(0)
        }
        (attribute::CONTROL, attribute::INIT) => {
            machine.with_vcpus(|vcpus| {
                if !vgic.is_complete() {
                    // Routes that were set before are lost here, as in Linux.
                    machine.routes.reset();
                }
                vgic.complete(vcpus)
            })?;
            Ok(0)
        }
        (attribute::CONTROL, attribute::SAVE_PENDING_TABLES) => {
            machine.check_rest()?;
            super::its::save_pending(machine, vgic)
        }
        (group, _) if saved::GROUPS.contains(&group) => saved::set(machine, vgic, wanted),
        _ => Err(Errno::ENXIO),
    }
}

fn get(machine: &Machine, vgic: &Vgic, wanted: &DeviceAttribute) -> Result<usize> {
    if saved::GROUPS.contains(&wanted.group) {
        return saved::get(machine, vgic, wanted);
    }
    let address = wanted.address as usize;
    // The VMM's memory is accessed without the lock, since that may sleep.
    let setup = || vgic.setup.lock();
    let value = match (wanted.group, wanted.number) {
        (attribute::ADDRESS, attribute::DISTRIBUTOR) => setup().distributor.unwrap_or(u64::MAX),
        (attribute::ADDRESS, attribute::REDISTRIBUTORS) => {
            let first = setup().regions.first().map(|region| region.base);
            first.unwrap_or(u64::MAX)
        }
        (attribute::ADDRESS, attribute::REGION) => {
            let index = UserPtr::<u64>::new(address).read()? & INDEX;
            let setup = setup();
            let region = setup.regions.get(index as usize).ok_or(Errno::ENOENT)?;
            index | region.base | region.count << COUNT
        }
        (attribute::ADDRESS, _) => return Err(Errno::ENODEV),
        (attribute::INTERRUPTS, _) => {
            let interrupts = setup().interrupts.unwrap_or(PRIVATE);
            return UserPtr::new(address).write(&interrupts).map(|()| 0);
        }
        _ => return Err(Errno::ENXIO),
    };
    UserPtr::new(address).write(&value)?;
    Ok(0)
}

impl Vgic {
    /// Completes the setup: these are the machine's virtual CPUs.
    fn complete(&self, vcpus: &[Arc<Vcpu>]) -> Result<()> {
        let mut setup = self.setup.lock();
        if self.is_complete() {
            return Ok(());
        }
        let interrupts = *setup.interrupts.get_or_insert(DEFAULT_INTERRUPTS);
        let first = vcpus
            .iter()
            .position(|vcpu| vcpu.affinity().to_mpidr() == 0);
        let shared = Shared::new(interrupts, first.map(|place| place as u16));
        let shared = shared.map_err(|_| Errno::ENOMEM)?;
        let mut all = Vec::new();
        all.try_reserve_exact(vcpus.len())
            .map_err(|_| Errno::ENOMEM)?;
        all.extend_from_slice(vcpus);
        if self.has_its() {
            shared.add_lpis().map_err(|_| Errno::ENOMEM)?;
        }
        let complete = Complete { shared, vcpus: all };
        self.complete.call_once(|| complete);
        Ok(())
    }
}

impl Setup {
    /// Nothing is set yet.
    pub fn new(limit: u64) -> Self {
        Setup {
            limit,
            interrupts: None,
            distributor: None,
            regions: Vec::new(),
        }
    }

    /// Checks whether a frame may be at an address.
    pub fn check(&self, base: u64, len: u64) -> Result<()> {
        let end = base.checked_add(len).ok_or(Errno::EINVAL)?;
        if !base.is_multiple_of(ALIGNMENT) {
            return Err(Errno::EINVAL);
        }
        if base >= self.limit || end > self.limit {
            return Err(Errno::E2BIG);
        }
        Ok(())
    }

    fn set_distributor(&mut self, base: u64) -> Result<()> {
        if self.distributor.is_some() {
            return Err(Errno::EEXIST);
        }
        self.check(base, distributor::LEN)?;
        self.distributor = Some(base);
        Ok(())
    }

    /// Adds a region of `count` redistributors. A `count` of 0 means as many as needed, `vcpus` so
    /// far, and then the region is the only one.
    fn add_region(&mut self, index: usize, base: u64, count: u64, vcpus: u64) -> Result<()> {
        let len = if count == 0 { vcpus } else { count } * redistributor::LEN;
        let end = base.checked_add(len).ok_or(Errno::EINVAL)?;
        if let Some(last) = self.regions.last() {
            if (count == 0) != (last.count == 0) {
                return Err(Errno::EINVAL);
            }
            if count == 0 {
                return Err(Errno::EEXIST);
            }
        }
        let overlaps = |region: &Region| {
            let end = region.base + region.count * redistributor::LEN;
            base < end && region.base < base + len
        };
        if index != self.regions.len() || self.regions.iter().any(overlaps) {
            return Err(Errno::EINVAL);
        }
        self.check(base, len)?;
        if let Some(distributor) = self.distributor
            && base < distributor + distributor::LEN
            && distributor < end
        {
            return Err(Errno::EINVAL);
        }
        self.regions.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.regions.push(Region { base, count });
        Ok(())
    }

    /// The addresses of all registers for `vcpus` virtual CPUs.
    pub fn frames(&self, vcpus: usize) -> Result<Frames> {
        let distributor = self.distributor.ok_or(Errno::ENXIO)?;
        for region in &self.regions {
            let room = if region.count == 0 {
                vcpus as u64
            } else {
                region.count
            };
            let behind = region.base.checked_add(room * redistributor::LEN);
            let behind = behind.ok_or(Errno::EINVAL)?;
            if behind > self.limit
                || distributor < behind && region.base < distributor + distributor::LEN
            {
                return Err(Errno::EINVAL);
            }
        }
        match self.places(vcpus).last() {
            Some((_, places)) if places.end == vcpus as u64 => {
                Ok(Frames::new(distributor, self.rows(vcpus)?))
            }
            _ => Err(Errno::ENXIO),
        }
    }

    /// The rows of redistributors of `vcpus` virtual CPUs, ordered by address.
    fn rows(&self, vcpus: usize) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        rows.try_reserve_exact(self.regions.len())
            .map_err(|_| Errno::ENOMEM)?;
        rows.extend(self.places(vcpus).map(|(region, places)| Row {
            base: region.base,
            places,
            goes_on: false,
        }));
        rows.retain(|row| !row.places.is_empty());
        heapsort::sort_by_key(&mut rows, |row| row.base);
        for at in 1..rows.len() {
            rows[at - 1].goes_on = rows[at - 1].behind() == Some(rows[at].base);
        }
        Ok(rows)
    }

    /// The regions, each with the indices of the virtual CPUs whose redistributors it holds.
    fn places(&self, vcpus: usize) -> impl Iterator<Item = (&Region, Range<u64>)> {
        let all = vcpus as u64;
        self.regions.iter().scan(0u64, move |next, region| {
            let room = if region.count == 0 { all } else { region.count };
            let start = *next;
            *next = start.saturating_add(room).min(all);
            Some((region, start..*next))
        })
    }

    /// Whether the redistributor of the virtual CPU at index `place` of `vcpus` is the last one of
    /// its row.
    pub fn is_last(&self, place: u64, vcpus: usize) -> bool {
        let here = self
            .places(vcpus)
            .find(|(_, places)| places.contains(&place));
        here.is_some_and(|(region, places)| {
            let behind = region.base + (places.end - places.start) * redistributor::LEN;
            let goes_on =
                |(other, places): (&Region, Range<u64>)| other.base == behind && !places.is_empty();
            place + 1 == places.end && !self.places(vcpus).any(goes_on)
        })
    }
}
