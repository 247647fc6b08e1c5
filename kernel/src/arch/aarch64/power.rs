//! The end of the machine.

use core::arch::asm;

use super::psci;
use super::uaccess::fixup_entry;

/// Turns the machine off.
pub fn off() -> ! {
    psci::system_off();
    end_emulation(0);
    crate::log!("this machine cannot be turned off");
    halt()
}

/// Resets the machine.
pub fn reset() -> ! {
    psci::system_reset();
    halt()
}

/// Writes to the firmware's console where it has one, which an arm64 machine has not.
pub fn last_words(_text: &[u8]) {}

/// Ends an emulated machine with a status for its user; turns another one off.
pub fn exit(status: u32) -> ! {
    end_emulation(status);
    off()
}

/// Asks the debugger or emulator, if there is one, to end the machine (Arm semihosting, SYS_EXIT_EXTENDED).
fn end_emulation(status: u32) {
    const SYS_EXIT_EXTENDED: usize = 0x20;
    const APPLICATION_EXIT: usize = 0x2_0026;
    let block = [APPLICATION_EXIT, status as usize];
    // SAFETY: the debugger reads the block. Without one the instruction is undefined, and has its fix-up.
    unsafe {
        asm!(
            "10: hlt #0xf000",
            "11:",
            fixup_entry!("10b", "11b"),
            inlateout("x0") SYS_EXIT_EXTENDED => _,
            in("x1") &raw const block,
            options(nostack),
        )
    };
}

fn halt() -> ! {
    loop {
        // SAFETY: waiting changes nothing.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}
