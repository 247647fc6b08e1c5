//! PSCI calls by HVC: Arm DEN 0022.

use core::arch::asm;

use crate::platform::Platform;

const CPU_ON: u64 = 0xc400_0003;
const SYSTEM_OFF: u64 = 0x8400_0008;

/// Makes a hypercall.
#[inline(always)]
pub fn call(function: u64, arguments: [u64; 3]) -> i64 {
    let result;
    // SAFETY: the calling convention (Arm DEN 0028) lets only x0 to x17 change.
    unsafe {
        asm!("hvc #0", inout("x0") function => result, inout("x1") arguments[0] => _, inout("x2") arguments[1] => _,
            inout("x3") arguments[2] => _, clobber_abi("C"));
    }
    result
}

/// Starts the CPU `affinity` at `entry` with `context` in x0.
pub fn start_cpu(affinity: u64, entry: extern "C" fn(), context: u64) {
    let result = call(CPU_ON, [affinity, entry as usize as u64, context]);
    assert_eq!(result, 0, "CPU_ON of {affinity:#x}");
}

/// Reports a status to the VMM and powers off.
pub fn power_off(platform: &Platform, status: u32) -> ! {
    if let Some(register) = platform.status {
        // SAFETY: the VMM's status register takes any value.
        unsafe { (register as *mut u32).write_volatile(status) };
    }
    system_off()
}

/// Powers off.
pub fn system_off() -> ! {
    call(SYSTEM_OFF, [0; 3]);
    loop {
        crate::time::relax();
    }
}
