//! The data that the kernel shares with the vDSO.

/// Words that the kernel writes atomically, one at a time.
#[repr(C)]
pub struct Data {
    /// The counter value at the start of CLOCK_MONOTONIC.
    pub boot_ticks: u64,
    /// Nanoseconds per tick, in units of 2^-32.
    pub ns_by_tick: u64,
    /// The time of day minus CLOCK_MONOTONIC, in ns, modulo 2^64.
    pub realtime_offset: u64,
    /// The values of riscv_hwprobe that are common to all CPUs, by key.
    #[cfg(target_arch = "riscv64")]
    pub probes: [u64; PROBES],
}

/// Number of keys of riscv_hwprobe.
#[cfg(target_arch = "riscv64")]
pub const PROBES: usize = 15;
