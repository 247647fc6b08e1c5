//! Puts a machine together and runs it.

use std::io::Write;
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::{Context, Result};
use kvm_bindings::{
    KVM_DEV_ARM_VGIC_CTRL_INIT, KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_DEV_ARM_VGIC_GRP_CTRL,
    KVM_VGIC_V3_ADDR_TYPE_DIST, KVM_VGIC_V3_ADDR_TYPE_REDIST, kvm_create_device, kvm_device_attr,
    kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3, kvm_userspace_memory_region,
};
use kvm_ioctls::{DeviceFd, Kvm, VmFd};

use crate::devices::Devices;
use crate::layout::{DISTRIBUTOR, RAM, REDISTRIBUTORS};
use crate::memory::Memory;
use crate::options::Options;
use crate::{loader, tree, vcpu};

/// The stack of a virtual CPU's thread, in bytes.
const STACK: usize = 64 << 10;

/// Runs a guest to its end: the status that it left.
pub fn run(options: &Options) -> Result<u8> {
    let kvm = Kvm::new().context("/dev/kvm")?;
    let mut memory = Memory::new(options.memory)?;
    let loaded = loader::load(&mut memory, &options.kernel, options.initrd.as_deref())?;
    let vm = Arc::new(kvm.create_vm().context("creating the VM")?);
    let region = kvm_userspace_memory_region {
        guest_phys_addr: RAM,
        memory_size: memory.len(),
        userspace_addr: memory.host_address(),
        ..Default::default()
    };
    // SAFETY: the memory stays mapped as long as the process lives, and is used for nothing but the guest.
    unsafe { vm.set_user_memory_region(region) }.context("giving the guest its memory")?;
    let vcpus: Vec<_> = (0..options.vcpus)
        .map(|index| vcpu::create(&vm, index))
        .collect::<Result<_>>()?;
    let _controller = interrupt_controller(&vm).context("making the interrupt controller")?;
    let affinities: Vec<_> = vcpus.iter().map(vcpu::affinity).collect::<Result<_>>()?;
    memory.load(loaded.tree, &tree::build(options, &loaded, &affinities)?)?;
    vcpu::set_entry(&vcpus[0], loaded.entry, loaded.tree)?;

    let devices = Arc::new(Devices::new(vm));
    let (ended, end) = mpsc::channel();
    for (index, mut vcpu) in vcpus.into_iter().enumerate() {
        let (devices, ended, pin) = (devices.clone(), ended.clone(), options.pin);
        let body = move || {
            let mut run = || {
                if pin {
                    pin_to(index)?;
                }
                vcpu::run(&mut vcpu, &devices)
            };
            let _ = ended.send(run());
        };
        thread::Builder::new()
            .stack_size(STACK)
            .spawn(body)
            .context("starting a vCPU's thread")?;
    }
    let fed = devices.clone();
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || fed.feed())
        .context("starting a thread")?;
    end.recv().context("all vCPUs are gone")??;
    std::io::stdout().flush()?;
    Ok(devices.status())
}

/// A GICv3. Lives as long as what is returned.
fn interrupt_controller(vm: &VmFd) -> Result<DeviceFd> {
    let mut device = kvm_create_device {
        type_: kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3,
        fd: 0,
        flags: 0,
    };
    let controller = vm.create_device(&mut device)?;
    let places = [
        (KVM_VGIC_V3_ADDR_TYPE_DIST, DISTRIBUTOR),
        (KVM_VGIC_V3_ADDR_TYPE_REDIST, REDISTRIBUTORS),
    ];
    for (kind, address) in places {
        controller.set_device_attr(&kvm_device_attr {
            group: KVM_DEV_ARM_VGIC_GRP_ADDR,
            attr: kind.into(),
            addr: &raw const address as u64,
            flags: 0,
        })?;
    }
    controller.set_device_attr(&kvm_device_attr {
        group: KVM_DEV_ARM_VGIC_GRP_CTRL,
        attr: KVM_DEV_ARM_VGIC_CTRL_INIT.into(),
        addr: 0,
        flags: 0,
    })?;
    Ok(controller)
}

/// Keeps the calling thread on one of the host's CPUs.
fn pin_to(index: usize) -> Result<()> {
    let cpus = thread::available_parallelism()?.get();
    // SAFETY: all zeroes is an empty set, and the set is valid for the call.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(index % cpus, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("keeping a vCPU on one CPU"),
    }
}
