//! Calls of the supervisor binary interface, which the firmware below answers (RISC-V SBI
//! specification 2.0).

use core::arch::asm;

/// An error code of the firmware (section 3, table 1): negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error(pub isize);

impl Error {
    /// SBI_ERR_FAILED.
    pub const FAILED: Error = Error(-1);
}

/// What a call returns.
pub type Result<T> = core::result::Result<T, Error>;

/// Extension identifiers.
mod extension {
    /// Base (section 4).
    pub const BASE: usize = 0x10;
    /// Timer (section 6).
    pub const TIME: usize = 0x5449_4d45;
    /// Inter-processor interrupts (section 7).
    pub const IPI: usize = 0x73_5049;
    /// Remote fences (section 8).
    pub const RFENCE: usize = 0x5246_4e43;
    /// Hart state management (section 9).
    pub const HSM: usize = 0x48_534d;
    /// System reset (section 10).
    pub const SRST: usize = 0x5352_5354;
    /// Debug console (section 12).
    pub const DBCN: usize = 0x4442_434e;
}

#[inline]
fn call(extension: usize, function: usize, args: [usize; 5]) -> Result<usize> {
    let (error, value): (isize, usize);
    // SAFETY: an environment call from S-mode enters the firmware, which keeps all registers but a0
    // and a1 (section 3) and, by what its callers ask here, touches no memory of the kernel.
    unsafe {
        asm!(
            "ecall",
            inlateout("a0") args[0] => error,
            inlateout("a1") args[1] => value,
            in("a2") args[2], in("a3") args[3], in("a4") args[4],
            in("a6") function, in("a7") extension,
        )
    };
    if error == 0 {
        Ok(value)
    } else {
        Err(Error(error))
    }
}

/// A set of harts: those whose bit is set in `mask`, counted from hart `base` (section 3.1).
#[derive(Clone, Copy, Debug)]
pub struct Harts {
    /// One bit for each hart.
    pub mask: usize,
    /// The hart of bit 0.
    pub base: usize,
}

/// mvendorid, marchid and mimpid of this hart.
pub fn machine_ids() -> [u64; 3] {
    [4, 5, 6].map(|function| call(extension::BASE, function, [0; 5]).unwrap_or(0) as u64)
}

/// Asks for a timer interrupt of this hart when `time` reaches `ticks`; clears a pending one.
pub fn set_timer(ticks: u64) {
    let _ = call(extension::TIME, 0, [ticks as usize, 0, 0, 0, 0]);
}

/// Raises the software interrupt of `harts`.
pub fn send_ipi(harts: Harts) -> Result<()> {
    call(extension::IPI, 0, [harts.mask, harts.base, 0, 0, 0]).map(drop)
}

/// `fence.i` on `harts`.
pub fn remote_fence_i(harts: Harts) -> Result<()> {
    call(extension::RFENCE, 0, [harts.mask, harts.base, 0, 0, 0]).map(drop)
}

/// `sfence.vma` on `harts` for `len` bytes from `start` in all address spaces; a length of
/// usize::MAX means everything.
pub fn remote_sfence(harts: Harts, start: usize, len: usize) -> Result<()> {
    call(
        extension::RFENCE,
        1,
        [harts.mask, harts.base, start, len, 0],
    )
    .map(drop)
}

/// `sfence.vma` on `harts` for `len` bytes from `start` in address space `asid`; a length of
/// usize::MAX means all of it.
pub fn remote_sfence_asid(harts: Harts, start: usize, len: usize, asid: usize) -> Result<()> {
    call(
        extension::RFENCE,
        2,
        [harts.mask, harts.base, start, len, asid],
    )
    .map(drop)
}

/// Starts a stopped hart at the physical address `entry`, with its number in a0 and `argument` in
/// a1, translation off.
pub fn start_hart(hart: usize, entry: usize, argument: usize) -> Result<()> {
    call(extension::HSM, 0, [hart, entry, argument, 0, 0]).map(drop)
}

/// Shuts the machine down, or resets it. Returns only if the firmware cannot.
pub fn system_reset(cold_reboot: bool) {
    let _ = call(extension::SRST, 0, [cold_reboot as usize, 0, 0, 0, 0]);
}

/// Writes one byte to the firmware's console.
pub fn console_byte(byte: u8) {
    let _ = call(extension::DBCN, 2, [byte as usize, 0, 0, 0, 0]);
}
