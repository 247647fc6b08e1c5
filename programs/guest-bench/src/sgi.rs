//! SGIs: ICC_SGI1R_EL1 (Arm IHI 0069, 12.2.19).

use core::arch::asm;

/// The SGI that CPUs enable.
pub const LOUD: u32 = 1;
/// The SGI that CPUs disable: it becomes pending and wakes no CPU.
pub const QUIET: u32 = 7;

/// The bit that selects all CPUs but the sender.
pub const BROADCAST: u64 = 1 << 40;

/// The register's value for some CPUs of the cluster of `affinity`: bit n of `list` is the CPU with
/// Aff0 = n in the group of sixteen of `affinity`.
pub fn targets(affinity: u64, list: u16) -> u64 {
    let (aff0, aff1, aff2, aff3) = (
        affinity & 0xff,
        affinity >> 8 & 0xff,
        affinity >> 16 & 0xff,
        affinity >> 32 & 0xff,
    );
    aff3 << 48 | (aff0 >> 4) << 44 | aff2 << 32 | aff1 << 16 | u64::from(list)
}

/// The register's value for one CPU.
pub fn target(affinity: u64) -> u64 {
    targets(affinity, 1 << (affinity & 0xf))
}

/// Sends `number` to `targets`.
#[inline(always)]
pub fn send(targets: u64, number: u32) {
    let value = targets | u64::from(number) << 24;
    // SAFETY: all interrupts are handled; the receiver sees earlier writes.
    unsafe { asm!("dsb ishst", "msr s3_0_c12_c11_5, {}", "isb", in(reg) value) };
}
