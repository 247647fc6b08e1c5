//! The counter that user programs can read, in nanoseconds, which are instructions under QEMU's
//! `-icount shift=0`.

/// On arm64 another register has the frequency.
#[cfg(target_arch = "aarch64")]
pub fn now() -> u64 {
    let (ticks, hertz): (u64, u64);
    // SAFETY: reads registers; the barrier orders the read.
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", "mrs {}, cntfrq_el0",
            out(reg) ticks, out(reg) hertz, options(nostack, preserves_flags));
    }
    (u128::from(ticks) * 1_000_000_000 / u128::from(hertz)) as u64
}

/// The counter of QEMU's RISC-V machine `virt` runs at 10 MHz.
#[cfg(target_arch = "riscv64")]
pub fn now() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("rdtime {}", out(reg) ticks, options(nostack)) };
    ticks * 100
}

/// On the host the rows are only tried out.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
pub fn now() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}
