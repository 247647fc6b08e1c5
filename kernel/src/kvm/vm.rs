//! A virtual machine: its memory and its virtual CPUs.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use abi::kvm_capability as cap;
use spin::Once;

use super::calls::Filter;
use super::coalesced::{self, Ring};
use super::counters::Counters;
use super::directory::{self, Directory, Publication};
use super::features::Features;
use super::firmware::Services;
use super::ioevents::{self, Assignments};
use super::irqfd::{self, Irqfds};
use super::memory::Memory;
use super::routing::Routes;
use super::stats::Statistics;
use super::uapi::{self, DeviceAttribute, EnableCap, InterruptLevel, VcpuInit};
use super::vcpu::{MAX_VCPUS, Vcpu};
use super::vcpu_file::Handle;
use super::vgic::{self, Vgic};
use super::{add_file, capabilities};
use crate::arch::virt;
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::mm::{AddressSpace, PAGE_SIZE, active};
use crate::sync::{Mutex, SleepMutex};
use crate::task::{current, sched};

/// The number of bits in a guest's physical address, unless the VMM sets it.
const DEFAULT_BITS: u32 = 40;
/// The smallest number of bits that a VMM can ask for.
const LEAST_BITS: u32 = 32;

/// The file of a VM.
pub struct Vm(Arc<Machine>);

/// The state that the VMM and virtual CPUs share.
pub struct Machine {
    /// The VMM's memory. Its mappings of virtual CPUs' pages hold this machine, so this must be
    /// weak.
    space: Weak<AddressSpace>,
    /// The size of the guest's physical address space.
    limit: u64,
    /// Held while slots and their logs are changed, and while the changes are applied.
    pub changing: SleepMutex<()>,
    /// The argument with which KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2 was enabled.
    manual_log: AtomicU64,
    /// Held while all virtual CPUs are stopped, and while one is added.
    halting: SleepMutex<()>,
    /// The features of all virtual CPUs, once the first was initialized.
    features: Once<Features>,
    /// The firmware services that guests have.
    pub services: Services,
    /// The PSCI version that the VMM wants; 0 for the newest.
    pub psci: AtomicU64,
    /// The filter of the guest's calls.
    pub calls: Filter,
    /// Whether the VMM handles a guest's request to suspend the machine.
    pub suspends: AtomicBool,
    /// Whether accesses that the hardware does not decode are passed to the VMM.
    pub undescribed_to_vmm: AtomicBool,
    /// The guest's memory.
    pub memory: Arc<Memory>,
    vcpus: Mutex<Vcpus>,
    /// The virtual CPUs by affinity, as guests address them.
    pub directory: Publication,
    vgic: Once<Vgic>,
    /// The routes of the VMM's GSIs.
    pub routes: Routes,
    /// Eventfds that raise interrupts.
    pub irqfds: Irqfds,
    /// Writes that signal eventfds, or are collected.
    pub events: Assignments,
    /// The collected writes.
    pub ring: Ring,
    /// The offsets of the machine's counters behind the host's.
    pub counters: Counters,
}

/// The virtual CPUs of a machine, in order of creation.
#[derive(Default)]
struct Vcpus {
    list: Vec<Arc<Vcpu>>,
    /// Whether one has run: from then on the directory exists.
    ran: bool,
}

impl Vm {
    /// Creates a machine. `kind` is the number of address bits, 0 for 40.
    pub fn new(kind: usize) -> Result<Self> {
        let bits = match kind {
            0 => DEFAULT_BITS,
            _ => u32::try_from(kind).map_err(|_| Errno::EINVAL)?,
        };
        if !(LEAST_BITS..=virt::most_address_bits()).contains(&bits) {
            return Err(Errno::EINVAL);
        }
        let space = current().space().ok_or(Errno::EINVAL)?;
        let machine = Machine {
            space: Arc::downgrade(&space),
            limit: 1 << bits,
            changing: SleepMutex::new(()),
            manual_log: AtomicU64::new(0),
            halting: SleepMutex::new(()),
            features: Once::new(),
            services: Services::all(),
            psci: AtomicU64::new(0),
            calls: Filter::new(),
            suspends: AtomicBool::new(false),
            undescribed_to_vmm: AtomicBool::new(false),
            memory: try_arc(Memory::new(bits)?)?,
            vcpus: Mutex::default(),
            directory: directory::publication(),
            vgic: Once::new(),
            routes: Routes::default(),
            irqfds: Irqfds::default(),
            events: Assignments::new(),
            ring: Ring::new()?,
            counters: Counters::new(),
        };
        let machine = try_arc(machine)?;
        let notifier: Weak<Memory> = Arc::downgrade(&machine.memory);
        space.add_notifier(notifier)?;
        Ok(Vm(machine))
    }

    fn create_vcpu(&self, id: usize) -> Result<usize> {
        if id >= MAX_VCPUS {
            return Err(Errno::EINVAL);
        }
        let _halting = self.0.halting.lock();
        let vcpu = try_arc(Vcpu::new(id as u32)?)?;
        let before = self.0.add(vcpu.clone())?;
        self.0.counters.begin();
        let made = try_arc(Handle::new(self.0.clone(), vcpu.clone()))
            .and_then(|handle| add_file("kvm-vcpu", handle));
        if made.is_err() {
            self.0.remove(&vcpu, before);
        }
        made
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // After this, the space's own changes take no reference to the memory, so the memory is
        // freed here, where other threads can run meanwhile.
        if let Some(space) = self.space.upgrade() {
            let notifier: Weak<Memory> = Arc::downgrade(&self.memory);
            space.remove_notifier(&(notifier as _));
        }
        self.events.end();
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // The irqfds hold references to the machine.
        self.0.irqfds.end_all();
        // Usually the VMM is exiting: free its guest's memory here, where other threads can run
        // meanwhile. If a virtual CPU remains, it maps again what it uses.
        let all = 0..self.0.limit;
        self.0.memory.translation.unmap(all, sched::cond_resched);
    }
}

impl FileOps for Vm {
    fn is_stream(&self) -> bool {
        true
    }

    fn held(&self) -> usize {
        let vcpus = self.0.with_vcpus(<[_]>::len) * (size_of::<Vcpu>() + PAGE_SIZE);
        let wired = self.0.irqfds.held() + self.0.events.held();
        self.0.memory.held() + self.0.calls.held() + vcpus + wired
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        if !self.0.is_mine() {
            return Err(Errno::EIO);
        }
        match request {
            // Whether messages must name their device.
            uapi::CHECK_EXTENSION if argument == cap::MSI_DEVID => {
                Ok(self.0.vgic().is_some_and(Vgic::has_its).into())
            }
            uapi::CHECK_EXTENSION => Ok(capabilities::extension(argument)),
            uapi::CREATE_VCPU => self.create_vcpu(argument),
            uapi::SET_USER_MEMORY_REGION => self.0.set_region(&UserPtr::new(argument).read()?),
            uapi::SET_USER_MEMORY_REGION2 => {
                let request: uapi::MemoryRegion2 = UserPtr::new(argument).read()?;
                self.0.set_region(&request.region)
            }
            uapi::GET_DIRTY_LOG => self.0.notify_log(&UserPtr::new(argument).read()?),
            uapi::CLEAR_DIRTY_LOG => self.0.clear_log(&UserPtr::new(argument).read()?),
            uapi::ARM_SET_COUNTER_OFFSET => self.0.fix_counters(&UserPtr::new(argument).read()?),
            uapi::ENABLE_CAP => self.0.enable(&UserPtr::new(argument).read()?),
            uapi::ARM_PREFERRED_TARGET => {
                let target = VcpuInit {
                    target: uapi::TARGET_GENERIC_V8,
                    features: [0; 7],
                };
                UserPtr::new(argument).write(&target)?;
                Ok(0)
            }
            uapi::CREATE_DEVICE => vgic::create(&self.0, argument),
            uapi::HAS_DEVICE_ATTR | uapi::SET_DEVICE_ATTR => {
                let wanted: DeviceAttribute = UserPtr::new(argument).read()?;
                match (wanted.group, wanted.number) {
                    (uapi::CALLS, uapi::CALLS_FILTER) if request == uapi::HAS_DEVICE_ATTR => Ok(0),
                    (uapi::CALLS, uapi::CALLS_FILTER) => self.0.filter_calls(&wanted),
                    _ => Err(Errno::ENXIO),
                }
            }
            // On arm64, KVM_IRQ_LINE_STATUS does not return a status.
            uapi::IRQ_LINE | uapi::IRQ_LINE_STATUS => {
                self.0.set_line(&UserPtr::new(argument).read()?)
            }
            uapi::IRQFD => irqfd::change(&self.0, &UserPtr::new(argument).read()?),
            uapi::IOEVENTFD => ioevents::change(&self.0, &UserPtr::new(argument).read()?),
            uapi::REGISTER_COALESCED_MMIO | uapi::UNREGISTER_COALESCED_MMIO => {
                let add = request == uapi::REGISTER_COALESCED_MMIO;
                coalesced::change(&self.0, &UserPtr::new(argument).read()?, add)
            }
            uapi::SET_GSI_ROUTING => self.0.set_routes(argument),
            uapi::GET_STATS_FD => {
                let statistics = try_arc(Statistics::Machine(self.0.clone()))?;
                add_file("kvm-vm-stats", statistics)
            }
            uapi::SIGNAL_MSI => self.0.signal(&UserPtr::new(argument).read()?),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl Machine {
    /// Whether the calling process owns the memory that the guest uses.
    #[inline]
    pub fn is_mine(&self) -> bool {
        active::is(&self.space)
    }

    /// The address space of the VMM.
    ///
    /// # Errors
    /// EFAULT: its process is gone.
    pub fn space(&self) -> Result<Arc<AddressSpace>> {
        self.space.upgrade().ok_or(Errno::EFAULT)
    }

    /// The end of the guest's physical addresses.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Adds a virtual CPU; `halting` is held. Returns the directory that was published before, if
    /// any.
    fn add(&self, vcpu: Arc<Vcpu>) -> Result<Option<Arc<Directory>>> {
        let mut vcpus = self.vcpus.lock();
        if self.vgic().is_some_and(Vgic::is_complete) {
            return Err(Errno::EBUSY);
        }
        if vcpus.list.iter().any(|known| known.id == vcpu.id) {
            return Err(Errno::EEXIST);
        }
        vcpus.list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        vcpus.list.push(vcpu);
        if !vcpus.ran {
            return Ok(None);
        }
        match Directory::new(&vcpus.list) {
            Ok(directory) => Ok(self.directory.publish(directory)),
            Err(error) => {
                vcpus.list.pop();
                Err(error)
            }
        }
    }

    /// Removes the virtual CPU that was added last.
    fn remove(&self, vcpu: &Arc<Vcpu>, before: Option<Arc<Directory>>) {
        let mut vcpus = self.vcpus.lock();
        vcpus.list.retain(|known| !Arc::ptr_eq(known, vcpu));
        let before = match before {
            // If a vCPU has run meanwhile, publish a directory without it.
            None if vcpus.ran => Directory::new(&vcpus.list).ok(),
            before => before,
        };
        let gone = before.and_then(|before| self.directory.publish(before));
        drop(vcpus);
        drop(gone);
    }

    /// Sets MPIDR_EL1 of a virtual CPU that does not run. Running virtual CPUs find it by its new
    /// affinity when this returns.
    ///
    /// # Errors
    /// ENOMEM: the old value is kept.
    pub fn set_mpidr(&self, vcpu: &Vcpu, mpidr: u64) -> Result<()> {
        if vcpu.mpidr() == mpidr {
            return Ok(());
        }
        let replaced = self.halted(|| {
            let vcpus = self.vcpus.lock();
            let before = vcpu.replace_mpidr(mpidr);
            if !vcpus.ran {
                return Ok(None);
            }
            Directory::new(&vcpus.list)
                .map(|directory| self.directory.publish(directory))
                .inspect_err(|_| _ = vcpu.replace_mpidr(before))
        });
        replaced.map(drop)
    }

    /// Called when a virtual CPU is about to run: the directory exists from now on. Returns the
    /// controller and the virtual CPU's index, if there is a controller.
    pub fn begin(&self, vcpu: &Arc<Vcpu>) -> Result<Option<(&Vgic, u16)>> {
        let mut vcpus = self.vcpus.lock();
        if let Some(vgic) = self.vgic() {
            vgic.prepare(vcpus.list.len())?;
        }
        if !vcpus.ran {
            self.directory.publish(Directory::new(&vcpus.list)?);
            vcpus.ran = true;
            if let Some(features) = self.features().filter(|_| self.vgic().is_none()) {
                features.lose_controller();
            }
        }
        let place = vcpus.list.iter().position(|known| Arc::ptr_eq(known, vcpu));
        Ok(self.vgic().zip(place.map(|place| place as u16)))
    }

    /// The interrupt controller, if there is one.
    #[inline]
    pub fn vgic(&self) -> Option<&Vgic> {
        self.vgic.get()
    }

    /// Adds an interrupt controller to the machine.
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

    /// Calls `work` with all virtual CPUs by index, in order of creation; none is added meanwhile.
    pub fn with_vcpus<R>(&self, work: impl FnOnce(&[Arc<Vcpu>]) -> R) -> R {
        work(&self.vcpus.lock().list)
    }

    /// EBUSY if a virtual CPU runs.
    pub fn check_rest(&self) -> Result<()> {
        let running = |vcpu: &Arc<Vcpu>| vcpu.at_rest().is_none();
        if self.with_vcpus(|vcpus| vcpus.iter().any(running)) {
            return Err(Errno::EBUSY);
        }
        Ok(())
    }

    /// Changes an interrupt line of the guest (KVM_IRQ_LINE).
    fn set_line(&self, wanted: &InterruptLevel) -> Result<usize> {
        let vgic = self.vgic().ok_or(Errno::ENXIO)?;
        let shared = vgic.shared().ok_or(Errno::ENXIO)?;
        let (kind, number) = (wanted.interrupt >> 24 & 0xf, wanted.interrupt & 0xffff);
        let vcpu = (wanted.interrupt >> 16 & 0xff) + (wanted.interrupt >> 28 & 0xf) * 256;
        match kind {
            uapi::LINE_PRIVATE if (16..32).contains(&number) => {
                let vcpus = self.vcpus.lock();
                let known = vcpus.list.iter().find(|known| known.id == vcpu);
                let vcpu = known.ok_or(Errno::EINVAL)?;
                if vcpu.private.bank.set_line(number, wanted.level != 0) {
                    vcpu.request_refresh();
                }
                Ok(0)
            }
            uapi::LINE_SHARED if shared.bank(number / 32).is_some() => {
                self.set_shared_line(number, wanted.level != 0);
                Ok(0)
            }
            // A CPU's own lines are for machines without a controller.
            uapi::LINE_CPU => Err(Errno::ENXIO),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Sets the line of the shared interrupt `number`, if it exists.
    pub fn set_shared_line(&self, number: u32, high: bool) {
        let Some(shared) = self.vgic().and_then(Vgic::shared) else {
            return;
        };
        let bank = shared.bank(number / 32);
        let rose = bank.is_some_and(|bank| bank.set_line(number % 32, high));
        if rose && let Some(place) = shared.due(number) {
            let vcpus = self.vcpus.lock();
            if let Some(vcpu) = vcpus.list.get(usize::from(place)) {
                vcpu.request_refresh();
            }
        }
    }

    /// Enables a capability that is off by default (KVM_ENABLE_CAP).
    fn enable(&self, wanted: &EnableCap) -> Result<usize> {
        let known = uapi::MANUAL_LOG | uapi::MANUAL_LOG_ALL_WRITTEN;
        match (wanted.capability as usize, wanted.arguments[0]) {
            _ if wanted.flags != 0 => return Err(Errno::EINVAL),
            (cap::MANUAL_DIRTY_LOG_PROTECT2, 0) => self.manual_log.store(0, Relaxed),
            (cap::MANUAL_DIRTY_LOG_PROTECT2, how)
                if how & uapi::MANUAL_LOG != 0 && how & !known == 0 =>
            {
                self.manual_log.store(how, Relaxed);
            }
            (cap::ARM_SYSTEM_SUSPEND, _) => self.suspends.store(true, Relaxed),
            (cap::ARM_NISV_TO_USER, _) => self.undescribed_to_vmm.store(true, Relaxed),
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    /// Records a virtual CPU's features, by their bits of KVM_ARM_VCPU_INIT. They must be the same
    /// for all.
    ///
    /// # Errors
    /// EINVAL: another virtual CPU has other features.
    pub fn record_features(&self, wanted: u32) -> Result<()> {
        let settled = self.features.call_once(|| Features::new(wanted));
        if settled.said != wanted {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// The features of all virtual CPUs, once the first was initialized.
    #[inline]
    pub fn features(&self) -> Option<&Features> {
        self.features.get()
    }

    /// Whether a virtual CPU has run.
    pub fn has_run(&self) -> bool {
        self.vcpus.lock().ran
    }

    /// Whether the VMM clears the dirty log itself (KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2).
    pub fn has_manual_dirty_clear(&self) -> bool {
        self.manual_log.load(Relaxed) & uapi::MANUAL_LOG != 0
    }

    /// Whether all pages count as written when a log starts.
    pub fn logs_all_written(&self) -> bool {
        self.manual_log.load(Relaxed) & uapi::MANUAL_LOG_ALL_WRITTEN != 0
    }

    /// Calls `work` while no virtual CPU runs its guest. The caller's own must not be in its guest.
    pub fn halted<R>(&self, work: impl FnOnce() -> R) -> R {
        let _halting = self.halting.lock();
        self.vcpus.lock().list.iter().for_each(|vcpu| vcpu.hold());
        // The lock is not held here: virtual CPUs may need it to leave their guests.
        for at in 0.. {
            let Some(vcpu) = self.vcpus.lock().list.get(at).cloned() else {
                break;
            };
            while vcpu.is_running() {
                core::hint::spin_loop();
            }
        }
        let result = work();
        self.vcpus.lock().list.iter().for_each(|vcpu| vcpu.unhold());
        result
    }

    /// Turns all virtual CPUs off.
    pub fn stop(&self) {
        self.vcpus.lock().list.iter().for_each(|vcpu| vcpu.stop());
    }
}
