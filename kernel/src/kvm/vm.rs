//! A virtual machine: its memory and its virtual CPUs.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::slots::Slots;
use super::uapi::{self, MemoryRegion, VcpuInit};
use super::vcpu::{Handle, MAX_VCPUS, Vcpu};
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
    vcpus: Mutex<Vec<Arc<Vcpu>>>,
    /// When it was made, in ticks: its counters begin at 0.
    counter_offset: u64,
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
            vcpus: Mutex::new(Vec::new()),
            counter_offset: time::now_ticks(),
        };
        Ok(Vm(try_arc(machine)?))
    }

    fn create_vcpu(&self, id: usize) -> Result<usize> {
        if id >= MAX_VCPUS {
            return Err(Errno::EINVAL);
        }
        let vcpu = try_arc(Vcpu::new(id as u32, self.0.counter_offset)?)?;
        let mut vcpus = self.0.vcpus.lock();
        if vcpus.iter().any(|known| known.id == vcpu.id) {
            return Err(Errno::EEXIST);
        }
        vcpus.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        vcpus.push(vcpu.clone());
        drop(vcpus);
        let made = try_arc(Handle::new(self.0.clone(), vcpu.clone()))
            .and_then(|handle| add_file("kvm-vcpu", handle));
        if made.is_err() {
            self.0
                .vcpus
                .lock()
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
            uapi::CREATE_DEVICE => Err(Errno::ENODEV),
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

    /// The virtual CPU with these affinity fields.
    pub fn by_affinity(&self, affinity: u64) -> Option<Arc<Vcpu>> {
        self.vcpus
            .lock()
            .iter()
            .find(|vcpu| vcpu.affinity == affinity)
            .cloned()
    }

    /// Stops all virtual CPUs.
    pub fn stop(&self) {
        self.vcpus.lock().iter().for_each(|vcpu| vcpu.stop());
    }

    /// Whether a virtual CPU that is on matches `affinity` in the fields that `mask` covers; none if none matches at all.
    pub fn any_on(&self, affinity: u64, mask: u64) -> Option<bool> {
        let vcpus = self.vcpus.lock();
        let mut matching = vcpus
            .iter()
            .filter(|vcpu| vcpu.affinity & mask == affinity & mask)
            .peekable();
        matching.peek()?;
        Some(matching.any(|vcpu| vcpu.is_on()))
    }
}
