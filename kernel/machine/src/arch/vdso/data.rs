//! What the kernel publishes to the vDSO.

/// Words that the kernel writes whole, one at a time.
#[repr(C)]
pub struct Data {
    /// The counter when CLOCK_MONOTONIC began.
    pub boot_ticks: u64,
    /// Nanoseconds in a tick, in units of 2^-32.
    pub ns_by_tick: u64,
    /// The time of day less CLOCK_MONOTONIC, in ns, modulo 2^64.
    pub realtime_offset: u64,
    /// What riscv_hwprobe answers for all CPUs, by key.
    #[cfg(target_arch = "riscv64")]
    pub probes: [u64; PROBES],
}

/// Keys of riscv_hwprobe.
#[cfg(target_arch = "riscv64")]
pub const PROBES: usize = 15;
