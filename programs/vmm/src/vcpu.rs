//! A vCPU: its registers at reset, and its thread's loop.

use anyhow::{Context, Result, bail};
use kvm_bindings::{
    KVM_ARM_VCPU_POWER_OFF, KVM_ARM_VCPU_PSCI_0_2, KVM_ARM_VCPU_PTRAUTH_ADDRESS,
    KVM_ARM_VCPU_PTRAUTH_GENERIC, KVM_ARM_VCPU_SVE, KVM_CAP_ARM_PTRAUTH_ADDRESS,
    KVM_CAP_ARM_PTRAUTH_GENERIC, KVM_CAP_ARM_SVE, KVM_REG_ARM_CORE, KVM_REG_ARM64,
    KVM_REG_ARM64_SYSREG, KVM_REG_SIZE_U64, KVM_SYSTEM_EVENT_CRASH, KVM_SYSTEM_EVENT_RESET,
    KVM_SYSTEM_EVENT_SHUTDOWN, kvm_regs, kvm_vcpu_init, user_pt_regs,
};
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};

use crate::devices::Devices;

/// The register id of MPIDR_EL1 (op0 3, op1 0, CRn 0, CRm 0, op2 5).
const MPIDR: u64 = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM64_SYSREG as u64 | 3 << 14 | 5;
/// The affinity fields of MPIDR_EL1.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// The register id of a core register at this offset in `kvm_regs`, which ids count in 32-bit
/// words.
const fn core_register(offset: usize) -> u64 {
    let offset = std::mem::offset_of!(kvm_regs, regs) + offset;
    KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE as u64 | (offset as u64 / 4)
}

/// Optional features of a vCPU: the capability that reports each, and its feature number.
const OFFERED: [(u32, u32); 3] = [
    (KVM_CAP_ARM_SVE, KVM_ARM_VCPU_SVE),
    (KVM_CAP_ARM_PTRAUTH_ADDRESS, KVM_ARM_VCPU_PTRAUTH_ADDRESS),
    (KVM_CAP_ARM_PTRAUTH_GENERIC, KVM_ARM_VCPU_PTRAUTH_GENERIC),
];

/// Creates vCPU `index`, powered off unless it is the first.
pub fn create(vm: &VmFd, index: u32) -> Result<VcpuFd> {
    let context = || format!("creating vCPU {index}");
    let vcpu = vm.create_vcpu(index.into()).with_context(context)?;
    let mut target = kvm_vcpu_init::default();
    vm.get_preferred_target(&mut target).with_context(context)?;
    target.features[0] |= 1 << KVM_ARM_VCPU_PSCI_0_2;
    for (capability, feature) in OFFERED {
        if vm.check_extension_raw(capability.into()) > 0 {
            target.features[0] |= 1 << feature;
        }
    }
    if index != 0 {
        target.features[0] |= 1 << KVM_ARM_VCPU_POWER_OFF;
    }
    vcpu.vcpu_init(&target).with_context(context)?;
    if target.features[0] >> KVM_ARM_VCPU_SVE & 1 != 0 {
        let vectors = KVM_ARM_VCPU_SVE as i32;
        vcpu.vcpu_finalize(&vectors).with_context(context)?;
    }
    Ok(vcpu)
}

/// The affinity fields of its MPIDR_EL1.
pub fn affinity(vcpu: &VcpuFd) -> Result<u64> {
    let mut bytes = [0; 8];
    vcpu.get_one_reg(MPIDR, &mut bytes)
        .context("reading a vCPU's MPIDR_EL1")?;
    Ok(u64::from_le_bytes(bytes) & AFFINITY)
}

/// Sets the MPIDR_EL1 of vCPU `index` so that each sixteen differ only in Aff0, for the target list
/// of an SGI, and the sixteens have little in common in Aff3 to Aff1.
pub fn scatter(vcpu: &VcpuFd, index: u32) -> Result<()> {
    // Multiples of the golden ratio: the top 24 bits of the first 32 are all different.
    let sixteen = (u64::from(index / 16) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let mpidr = 1 << 31 | sixteen >> 16 << 32 | (sixteen & 0xffff) << 8 | u64::from(index % 16);
    vcpu.set_one_reg(MPIDR, &mpidr.to_le_bytes())
        .with_context(|| format!("setting MPIDR_EL1 of vCPU {index}"))?;
    Ok(())
}

/// Sets the entry point and the first argument.
pub fn set_entry(vcpu: &VcpuFd, entry: u64, argument: u64) -> Result<()> {
    let pc = core_register(std::mem::offset_of!(user_pt_regs, pc));
    let x0 = core_register(std::mem::offset_of!(user_pt_regs, regs));
    for (register, value) in [(pc, entry), (x0, argument)] {
        vcpu.set_one_reg(register, &value.to_le_bytes())
            .context("setting a vCPU's registers")?;
    }
    Ok(())
}

/// The reason why a guest ended.
pub enum End {
    /// It powered off.
    Off,
    /// It requested a reset.
    Reset,
}

/// Runs the vCPU until the guest ends.
pub fn run(vcpu: &mut VcpuFd, devices: &Devices) -> Result<End> {
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MmioRead(address, data)) => devices.read(address, data)?,
            Ok(VcpuExit::MmioWrite(address, data)) => devices.write(address, data)?,
            Ok(VcpuExit::Intr) => {}
            Ok(VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_SHUTDOWN, _)) => return Ok(End::Off),
            Ok(VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_RESET, _)) => return Ok(End::Reset),
            Ok(VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_CRASH, _)) => bail!("the guest crashed"),
            Ok(exit) => bail!("the guest did what is not known here: {exit:?}"),
            Err(error) if error.errno() == libc::EINTR => {}
            Err(error) => return Err(error).context("running a vCPU"),
        }
    }
}
