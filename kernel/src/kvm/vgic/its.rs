//! ITSs: created and configured by the VMM (Documentation/virt/kvm/devices/arm-vgic-its.rst), used
//! by the guest, and by devices that send it messages. The guest's commands read and write the
//! guest's memory, so they are executed outside the guest's context.

use alloc::sync::Arc;

use spin::Once;
use vgic::its::{self, Dropped, Injector, Its, TRANSLATER, Unsaved};
use vgic::vmm::Refused;
use vgic::{Access, Private, Shared, redistributor};

use super::super::uapi::{self, DeviceAttribute, Msi, its as number, vgic as attribute};
use super::super::vcpu::Vcpu;
use super::super::vm::Machine;
use super::Vgic;
use super::attributes::read_request;
use super::frames::Frame;
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::random;
use crate::sync::SleepMutex;
use crate::task::{current, sched};

/// An ITS.
struct Unit {
    /// The address of its frames, once the VMM has set it.
    base: Once<u64>,
    injector: Injector,
    its: SleepMutex<Its>,
    next: Link,
}

/// The next ITS, if any. ITSs are added, and live as long as the machine.
pub struct Link(Once<Arc<Unit>>);

/// The maximum number of ITSs in a machine: Linux's limit of devices on a bus (NR_IOBUS_DEVS).
const MOST: usize = 1000;

impl Drop for Link {
    /// This is a loop, because recursion could exhaust the stack.
    fn drop(&mut self) {
        let mut rest = self.take();
        while let Some(mut unit) = rest.and_then(Arc::into_inner) {
            rest = unit.next.take();
        }
    }
}

/// The file of an ITS.
struct Device {
    machine: Arc<Machine>,
    unit: Arc<Unit>,
}

/// An ITS's view of its machine.
struct Bus<'a> {
    machine: &'a Machine,
    shared: &'a Shared,
    vcpus: &'a [Arc<Vcpu>],
}

impl Link {
    /// No ITS.
    pub const fn new() -> Self {
        Link(Once::new())
    }

    fn take(&mut self) -> Option<Arc<Unit>> {
        core::mem::replace(&mut self.0, Once::new()).try_into_inner()
    }

    /// Whether no ITS follows.
    pub fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    /// The next ITS.
    fn first(&self) -> Option<&Unit> {
        self.0.get().map(|unit| &**unit)
    }

    /// All ITSs that follow.
    fn all(&self) -> impl Iterator<Item = &Unit> {
        core::iter::successors(self.first(), |unit| unit.next.first())
    }
}

/// Creates an ITS.
pub fn create(machine: &Arc<Machine>) -> Result<Arc<dyn FileOps>> {
    let vgic = machine.vgic().ok_or(Errno::ENXIO)?;
    let unit = try_arc(Unit {
        base: Once::new(),
        injector: Injector::new(random::u64()),
        its: SleepMutex::new(Its::new()),
        next: Link::new(),
    })?;
    let device = try_arc(Device {
        machine: machine.clone(),
        unit: unit.clone(),
    })?;
    let _setup = vgic.setup.lock();
    if vgic.its.all().count() >= MOST {
        return Err(Errno::ENOSPC);
    }
    if let Some(shared) = vgic.shared() {
        shared.add_lpis().map_err(|_| Errno::ENOMEM)?;
    }
    let last = vgic.its.all().last().map_or(&vgic.its, |unit| &unit.next);
    last.0.call_once(|| unit);
    Ok(device)
}

/// Writes the pending state of LPIs to the guest's tables.
pub fn save_pending(machine: &Machine, vgic: &Vgic) -> Result<usize> {
    let bus = Bus::new(machine, vgic).ok_or(Errno::ENXIO)?;
    for place in 0..bus.vcpus.len() {
        its::save_pending(&bus, place as u16).map_err(error)?;
    }
    Ok(0)
}

/// Delivers a message to the ITS that it addresses. Returns 1 if this made an interrupt pending, 0
/// if the guest has not mapped it.
///
/// # Errors
/// ENODEV: there is no ITS. EINVAL: no ITS has this address, or the message names no device. EBUSY:
/// the guest has not turned the ITS on.
pub fn signal_msi(machine: &Machine, message: &Msi) -> Result<usize> {
    let vgic = machine.vgic().filter(|vgic| vgic.has_its());
    let vgic = vgic.ok_or(Errno::ENODEV)?;
    if message.flags & uapi::MSI_DEVICE == 0 {
        return Err(Errno::EINVAL);
    }
    let [low, high] = message.address.map(u64::from);
    let doorbell = high << 32 | low;
    let rings = |unit: &&Unit| {
        unit.base
            .get()
            .is_some_and(|base| base + TRANSLATER == doorbell)
    };
    let unit = vgic.its.all().find(rings).ok_or(Errno::EINVAL)?;
    let bus = Bus::new(machine, vgic).ok_or(Errno::EBUSY)?;
    match unit.injector.inject(&bus, message.device, message.data) {
        Ok(place) => {
            place
                .into_iter()
                .for_each(|place| its::Machine::notify(&bus, place));
            Ok(1)
        }
        Err(Dropped::Unknown) => Ok(0),
        Err(Dropped::Off) => Err(Errno::EBUSY),
    }
}

/// Performs a guest's access that needs its memory, outside its context. Returns the value read;
/// None if the address does not belong to the controller.
pub fn access_by_memory(
    machine: &Machine,
    address: u64,
    access: impl FnOnce(u32) -> Option<Access>,
) -> Option<u64> {
    let vgic = machine.vgic().filter(|vgic| vgic.has_its())?;
    let bus = Bus::new(machine, vgic)?;
    if let Some((Frame::Redistributor { place, .. }, offset)) = vgic.frames()?.find(address) {
        redistributor::write_of_lpis(&bus, place, &access(offset)?);
        return Some(0);
    }
    let (unit, offset) = vgic.its.all().find_map(|unit| {
        let offset = address.checked_sub(*unit.base.get()?)?;
        (offset < its::LEN).then_some((unit, offset as u32))
    })?;
    let access = access(offset)?;
    // A killed thread does not return to its guest.
    let mut its = unit.its.lock_killable().ok()?;
    Some(its.access(&unit.injector, &bus, &access))
}

/// Performs a VMM's write to a redistributor if it concerns LPIs; false if not.
pub fn write_of_lpis(machine: &Machine, vgic: &Vgic, place: u16, access: &Access) -> bool {
    let bus = Bus::new(machine, vgic);
    let bus = bus.filter(|bus| redistributor::is_of_lpis(bus.shared, access));
    let done = bus.map(|bus| redistributor::write_of_lpis(&bus, place, access));
    done.is_some()
}

impl FileOps for Device {
    fn is_stream(&self) -> bool {
        true
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        let wanted = read_request(&self.machine, request, argument)?;
        let vgic = self.machine.vgic().ok_or(Errno::ENXIO)?;
        match request {
            uapi::SET_DEVICE_ATTR => self.set(vgic, &wanted),
            uapi::GET_DEVICE_ATTR => self.get(vgic, &wanted),
            _ => self.has(&wanted),
        }
    }
}

impl Device {
    fn has(&self, wanted: &DeviceAttribute) -> Result<usize> {
        match (wanted.group, wanted.number) {
            (attribute::ADDRESS, number::FRAME)
            | (
                attribute::CONTROL,
                attribute::INIT | number::SAVE_TABLES | number::RESTORE_TABLES | number::RESET,
            ) => Ok(0),
            (number::REGISTERS, offset) => Its::has(offset).map(|()| 0).map_err(refusal),
            _ => Err(Errno::ENXIO),
        }
    }

    fn set(&self, vgic: &Vgic, wanted: &DeviceAttribute) -> Result<usize> {
        let address = wanted.address as usize;
        let Unit { injector, its, .. } = &*self.unit;
        match (wanted.group, wanted.number) {
            (attribute::ADDRESS, number::FRAME) => {
                let base = UserPtr::new(address).read()?;
                let setup = vgic.setup.lock();
                if self.unit.base.get().is_some() {
                    return Err(Errno::EEXIST);
                }
                setup.check(base, its::LEN)?;
                let taken = |unit: &Unit| {
                    unit.base
                        .get()
                        .is_some_and(|other| other.abs_diff(base) < its::LEN)
                };
                if vgic.its.all().any(taken) {
                    return Err(Errno::EEXIST);
                }
                self.unit.base.call_once(|| base);
            }
            (attribute::ADDRESS, _) => return Err(Errno::ENODEV),
            (attribute::CONTROL, attribute::INIT) => {}
            (
                attribute::CONTROL,
                what @ (number::SAVE_TABLES | number::RESTORE_TABLES | number::RESET),
            ) => {
                let bus = self.bus(vgic)?;
                let mut its = its.lock_killable()?;
                match what {
                    number::SAVE_TABLES => its.save(injector, &bus).map_err(error)?,
                    number::RESTORE_TABLES => its.restore(injector, &bus).map_err(error)?,
                    _ => its.reset(injector, &bus),
                }
            }
            (number::REGISTERS, offset) => {
                let value = UserPtr::new(address).read()?;
                let bus = self.register(vgic, offset)?;
                let set = its.lock_killable()?.set(injector, &bus, offset, value);
                set.map_err(refusal)?;
            }
            // The same check as in Linux.
            (attribute::CONTROL, _) => self.machine.check_rest()?,
            _ => return Err(Errno::ENXIO),
        }
        Ok(0)
    }

    fn get(&self, vgic: &Vgic, wanted: &DeviceAttribute) -> Result<usize> {
        let value = match (wanted.group, wanted.number) {
            (attribute::ADDRESS, number::FRAME) => {
                self.unit.base.get().copied().unwrap_or(u64::MAX)
            }
            (number::REGISTERS, offset) => {
                self.register(vgic, offset)?;
                let its = self.unit.its.lock_killable()?;
                let value = its.get(&self.unit.injector, offset);
                value.map_err(refusal)?
            }
            _ => return Err(Errno::ENXIO),
        };
        UserPtr::new(wanted.address as usize).write(&value)?;
        Ok(0)
    }

    /// The machine, if none of its virtual CPUs runs.
    fn bus<'a>(&'a self, vgic: &'a Vgic) -> Result<Bus<'a>> {
        self.machine.check_rest()?;
        Bus::new(&self.machine, vgic).ok_or(Errno::ENXIO)
    }

    /// The bus for an access to a register.
    fn register<'a>(&'a self, vgic: &'a Vgic, offset: u64) -> Result<Bus<'a>> {
        if let Err(Refused::Invalid) = Its::has(offset) {
            return Err(Errno::EINVAL);
        }
        let bus = self.bus(vgic)?;
        self.unit.base.get().ok_or(Errno::ENXIO)?;
        Ok(bus)
    }
}

impl<'a> Bus<'a> {
    fn new(machine: &'a Machine, vgic: &'a Vgic) -> Option<Self> {
        let (shared, vcpus) = vgic.all()?;
        Some(Bus {
            machine,
            shared,
            vcpus,
        })
    }
}

impl its::Machine for Bus<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.machine.read_guest(address, into).is_ok()
    }

    fn write(&self, address: u64, from: &[u8]) -> bool {
        self.machine.write_guest(address, from).is_ok()
    }

    fn has(&self, address: u64) -> bool {
        self.machine.has_memory(address)
    }

    fn place(&self, number: u16) -> Option<u16> {
        let found = self
            .vcpus
            .iter()
            .position(|vcpu| vcpu.id == u32::from(number));
        found.map(|place| place as u16)
    }

    fn private(&self, place: u16) -> Option<&Private> {
        Some(&self.vcpus.get(usize::from(place))?.private)
    }

    fn shared(&self) -> &Shared {
        self.shared
    }

    fn notify(&self, place: u16) {
        if let Some(vcpu) = self.vcpus.get(usize::from(place)) {
            vcpu.request_refresh();
        }
    }

    fn pause(&self) -> bool {
        sched::cond_resched();
        !current().must_die()
    }
}

fn error(unsaved: Unsaved) -> Errno {
    match unsaved {
        Unsaved::Absent => Errno::EFAULT,
        Unsaved::Invalid => Errno::EINVAL,
        Unsaved::NoMemory => Errno::ENOMEM,
    }
}

fn refusal(refused: Refused) -> Errno {
    match refused {
        Refused::Absent => Errno::ENXIO,
        Refused::Invalid => Errno::EINVAL,
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn many_units_go_one_after_the_other() {
        let first = Link::new();
        let mut last = &first;
        for _ in 0..MOST {
            let unit = Unit {
                base: Once::new(),
                injector: Injector::new(0),
                its: SleepMutex::new(Its::new()),
                next: Link::new(),
            };
            last = &last.0.call_once(|| Arc::new(unit)).next;
        }
        drop(first);
    }
}
