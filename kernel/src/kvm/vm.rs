//! A virtual machine: its memory and its virtual CPUs.

use alloc::sync::Arc;
use alloc::vec::Vec;

use spin::Once;

use super::directory::{self, Directory, Publication};
use super::slots::Slots;
use super::uapi::{self, InterruptLevel, MemoryRegion, VcpuInit};
use super::vcpu::{Handle, MAX_VCPUS, Vcpu};
use super::vgic::{self, Vgic};
use super::{add_file, check};
use crate::arch::time;
use crate::arch::virt::Stage2;
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps};
use crate::mm::fault::Access;
use crate::mm::heap::try_arc;
use crate::mm::space::AddressSpace;
use crate::mm::user::UserPtr;
use crate::sync::{Mutex, SleepMutex};
use crate::task::current;

/// The most bits of a guest's physical address, and how many there are unless the monitor says.
pub const ADDRESS_BITS: u32 = 48;
const DEFAULT_BITS: u32 = 40;
/// The fewest bits that a monitor can ask for, and that the hardware is told of.
const LEAST_BITS: u32 = 32;

/// What monitor and virtual CPUs share; the file of the VM.
pub struct Vm(Arc<Machine>);

/// The machine itself.
pub struct Machine {
    space: Arc<AddressSpace>,
    /// Bytes of the guest's physical address space.
    limit: u64,
    slots: SleepMutex<Slots>,
    /// The guest's translation.
    pub memory: Stage2,
    vcpus: Mutex<Vcpus>,
    /// The virtual CPUs, as guests name them.
    pub directory: Publication,
    vgic: Once<Vgic>,
    /// When it was made, in ticks: its counters begin at 0.
    counter_offset: u64,
}

/// The virtual CPUs of a machine, in the order in which they were made.
#[derive(Default)]
struct Vcpus {
    list: Vec<Arc<Vcpu>>,
    /// Whether one ran: from then on the directory has all.
    ran: bool,
}

/// How a guest's access to memory went.
pub enum Found {
    /// It can be tried again.
    Memory,
    /// No memory is there, or none that may be written.
    Nothing,
}

impl Vm {
    /// A machine whose type is the number of bits of its addresses, 0 for 40.
    pub fn new(kind: usize) -> Result<Self> {
        let bits = match kind {
            0 => DEFAULT_BITS,
            _ => u32::try_from(kind).map_err(|_| Errno::EINVAL)?,
        };
        if !(LEAST_BITS..=ADDRESS_BITS).contains(&bits) {
            return Err(Errno::EINVAL);
        }
        let machine = Machine {
            space: current().space().ok_or(Errno::EINVAL)?,
            limit: 1 << bits,
            slots: SleepMutex::new(Slots::default()),
            memory: Stage2::new(bits.max(DEFAULT_BITS))?,
            vcpus: Mutex::default(),
            directory: directory::publication(),
            vgic: Once::new(),
            counter_offset: time::now_ticks(),
        };
        Ok(Vm(try_arc(machine)?))
    }

    fn create_vcpu(&self, id: usize) -> Result<usize> {
        if id >= MAX_VCPUS {
            return Err(Errno::EINVAL);
        }
        let vcpu = try_arc(Vcpu::new(id as u32, self.0.counter_offset)?)?;
        self.0.add(vcpu.clone())?;
        let made = try_arc(Handle::new(self.0.clone(), vcpu.clone()))
            .and_then(|handle| add_file("kvm-vcpu", handle));
        if made.is_err() {
            self.0
                .vcpus
                .lock()
                .list
                .retain(|known| !Arc::ptr_eq(known, &vcpu));
        }
        made
    }
}

impl FileOps for Vm {
    fn is_stream(&self) -> bool {
        true
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        if !self.0.is_mine() {
            return Err(Errno::EIO);
        }
        match request {
            uapi::CHECK_EXTENSION => Ok(check::extension(argument)),
            uapi::CREATE_VCPU => self.create_vcpu(argument),
            uapi::SET_USER_MEMORY_REGION => self.0.set_region(&UserPtr::new(argument).read()?),
            uapi::ARM_PREFERRED_TARGET => {
                let target = VcpuInit {
                    target: uapi::TARGET_GENERIC_V8,
                    features: [0; 7],
                };
                UserPtr::new(argument).write(&target)?;
                Ok(0)
            }
            uapi::CREATE_DEVICE => vgic::create(&self.0, argument),
            uapi::IRQ_LINE => self.0.set_line(&UserPtr::new(argument).read()?),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl Machine {
    /// Whether the calling process has the memory that the guest has.
    pub fn is_mine(&self) -> bool {
        current()
            .space()
            .is_some_and(|space| Arc::ptr_eq(&space, &self.space))
    }

    /// The end of the guest's physical addresses.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn add(&self, vcpu: Arc<Vcpu>) -> Result<()> {
        let mut vcpus = self.vcpus.lock();
        if self.vgic().is_some_and(Vgic::is_complete) {
            return Err(Errno::EBUSY);
        }
        if vcpus.list.iter().any(|known| known.id == vcpu.id) {
            return Err(Errno::EEXIST);
        }
        vcpus.list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        vcpus.list.push(vcpu);
        if vcpus.ran {
            self.directory.publish(Directory::new(&vcpus.list)?);
        }
        Ok(())
    }

    /// A virtual CPU is about to run: the directory is there from now on. Returns the controller, with the place of the
    /// virtual CPU, if there is one.
    pub fn begin(&self, vcpu: &Arc<Vcpu>) -> Result<Option<(&Vgic, u16)>> {
        let mut vcpus = self.vcpus.lock();
        if let Some(vgic) = self.vgic() {
            vgic.prepare(vcpus.list.len())?;
        }
        if !vcpus.ran {
            self.directory.publish(Directory::new(&vcpus.list)?);
            vcpus.ran = true;
        }
        let place = vcpus.list.iter().position(|known| Arc::ptr_eq(known, vcpu));
        Ok(self.vgic().zip(place.map(|place| place as u16)))
    }

    /// The interrupt controller, if there is one.
    #[inline]
    pub fn vgic(&self) -> Option<&Vgic> {
        self.vgic.get()
    }

    /// Gives the machine an interrupt controller.
    pub fn add_vgic(&self, vgic: Vgic) -> Result<()> {
        let vcpus = self.vcpus.lock();
        if self.vgic().is_some() {
            return Err(Errno::EEXIST);
        }
        if vcpus.ran {
            return Err(Errno::EBUSY);
        }
        self.vgic.call_once(|| vgic);
        Ok(())
    }

    /// Runs `complete` with the place of the virtual CPU with affinity 0; none is added meanwhile.
    pub fn complete_vgic(
        &self,
        complete: impl FnOnce(Option<u16>) -> Result<usize>,
    ) -> Result<usize> {
        let vcpus = self.vcpus.lock();
        let first = vcpus.list.iter().position(|vcpu| vcpu.affinity == 0);
        complete(first.map(|place| place as u16))
    }

    /// An interrupt line of the guest's changes (KVM_IRQ_LINE).
    fn set_line(&self, wanted: &InterruptLevel) -> Result<usize> {
        let vgic = self.vgic().ok_or(Errno::ENXIO)?;
        let shared = vgic.shared().ok_or(Errno::ENXIO)?;
        let (kind, number) = (wanted.interrupt >> 24 & 0xf, wanted.interrupt & 0xffff);
        let vcpu = (wanted.interrupt >> 16 & 0xff) + (wanted.interrupt >> 28 & 0xf) * 256;
        let vcpus = self.vcpus.lock();
        let (bank, whose) = match kind {
            uapi::LINE_PRIVATE => {
                if !(16..32).contains(&number) {
                    return Err(Errno::EINVAL);
                }
                let vcpu = vcpus.list.get(vcpu as usize).ok_or(Errno::EINVAL)?;
                (&vcpu.private.bank, Some(vcpu))
            }
            uapi::LINE_SHARED => {
                if number < 32 {
                    return Err(Errno::EINVAL);
                }
                let bank = shared.bank(number / 32).ok_or(Errno::EINVAL)?;
                let target = shared.target(number).map(usize::from);
                (bank, target.and_then(|place| vcpus.list.get(place)))
            }
            // A CPU's own lines are for machines without a controller.
            uapi::LINE_CPU => return Err(Errno::ENXIO),
            _ => return Err(Errno::EINVAL),
        };
        let rose = bank.set_line(number % 32, wanted.level != 0);
        if rose && let Some(vcpu) = whose {
            vcpu.ask_to_look();
        }
        Ok(0)
    }

    fn set_region(&self, region: &MemoryRegion) -> Result<usize> {
        let mut slots = self.slots.lock();
        if let Some(changed) = slots.set(region, self.limit)? {
            self.memory.unmap(changed);
        }
        Ok(0)
    }

    /// Makes a guest's access to memory possible.
    pub fn fault(&self, address: u64, write: bool) -> Result<Found> {
        let slots = self.slots.lock();
        let Some((slot, monitors)) = slots.find(address) else {
            return Ok(Found::Nothing);
        };
        if write && !slot.writable {
            return Ok(Found::Nothing);
        }
        // What may be written is mapped so at once; memory of the monitor's that it may only read, if only read here.
        let mut writable = slot.writable;
        let frame = match self.space.frame(
            monitors,
            if writable {
                Access::Write
            } else {
                Access::Read
            },
        ) {
            Err(Errno::EFAULT) if writable && !write => {
                writable = false;
                self.space.frame(monitors, Access::Read)?
            }
            other => other?,
        };
        let page = address & !(crate::arch::PAGE_SIZE as u64 - 1);
        self.memory.map(page, frame, writable)?;
        Ok(Found::Memory)
    }

    /// Stops all virtual CPUs.
    pub fn stop(&self) {
        self.vcpus.lock().list.iter().for_each(|vcpu| vcpu.stop());
    }
}
