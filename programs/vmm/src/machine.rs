//! Creates a VM and runs it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::{Context, Result, bail};
use kvm_bindings::{
    KVM_DEV_ARM_VGIC_CTRL_INIT, KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_DEV_ARM_VGIC_GRP_CTRL,
    KVM_VGIC_V3_ADDR_TYPE_DIST, KVM_VGIC_V3_ADDR_TYPE_REDIST, kvm_create_device, kvm_device_attr,
    kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3, kvm_userspace_memory_region,
};
use kvm_ioctls::{DeviceFd, Kvm, VmFd};

use crate::devices::Devices;
use crate::layout::{DISTRIBUTOR, RAM, REDISTRIBUTORS};
use crate::memory;
use crate::options::Options;
use crate::phases::Phases;
use crate::stats::{self, Stats};
use crate::vcpu::End;
use crate::{loader, tree, vcpu};

/// The stack size of a thread.
const STACK: usize = 128 << 10;

/// Runs a guest until it ends; returns its exit status.
pub fn run(options: &Options) -> Result<u8> {
    let kvm = Kvm::new().context("/dev/kvm")?;
    let memory = memory::new(options.memory)?;
    let loaded = loader::load(&memory, &options.kernel, options.initrd.as_deref())?;
    let vm = Arc::new(kvm.create_vm().context("creating the VM")?);
    let region = kvm_userspace_memory_region {
        guest_phys_addr: RAM,
        memory_size: options.memory,
        userspace_addr: memory::host_address(&memory)?,
        ..Default::default()
    };
    // SAFETY: the memory stays mapped as long as the process lives, and only the guest uses it.
    unsafe { vm.set_user_memory_region(region) }.context("giving the guest its memory")?;
    let vcpus: Vec<_> = (0..options.vcpus)
        .map(|index| vcpu::create(&vm, index))
        .collect::<Result<_>>()?;
    if options.sparse {
        for (vcpu, index) in vcpus.iter().zip(0..) {
            vcpu::scatter(vcpu, index)?;
        }
    }
    let _controller = interrupt_controller(&vm).context("making the interrupt controller")?;
    let affinities: Vec<_> = vcpus.iter().map(vcpu::affinity).collect::<Result<_>>()?;
    let tree = tree::build(options, &loaded, &affinities)?;
    memory::load(&memory, loaded.tree, &tree)?;
    vcpu::set_entry(&vcpus[0], loaded.entry, loaded.tree)?;

    let counted = &vcpus[..if options.stats { vcpus.len() } else { 0 }];
    let counters: Arc<[_]> = counted.iter().map(Stats::of).collect::<Result<_>>()?;
    let phases = options.stats.then(|| Phases::new(counters.clone()));
    let (devices, arrivals) = Devices::new(&vm, &memory, options, phases)?;
    let devices = Arc::new(devices);
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
        start(body)?;
    }
    let (fed, passed) = (devices.clone(), devices.clone());
    start(move || fed.feed())?;
    if options.vsock.is_some() {
        start(move || passed.pass(&arrivals))?;
    }
    let end = end.recv().context("all vCPUs are gone")??;
    std::io::stdout().flush()?;
    stats::print(&counters, "")?;
    match end {
        End::Off => Ok(devices.status()),
        End::Reset if options.no_reboot => bail!("the guest reset"),
        End::Reset => Err(start_anew()).context("starting the machine anew"),
    }
}

/// Replaces this process by a new one with the same arguments, so that nothing remains of a VM that
/// resets.
fn start_anew() -> std::io::Error {
    Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .exec()
}

/// Starts a thread with a small stack.
fn start<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Result<()> {
    let builder = thread::Builder::new().stack_size(STACK);
    builder.spawn(body).map(drop).context("starting a thread")
}

/// Creates a GICv3, which exists as long as the returned file.
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

/// Pins the calling thread to one of the host's CPUs.
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
