//! The end of the machine.

use spin::Once;

use super::mmio::Registers;
use super::{halt, sbi};

/// The test device (`sifive,test0`), which ends QEMU with a status.
static TEST_DEVICE: Once<Registers> = Once::new();
/// What it is told (QEMU, include/hw/misc/sifive_test.h).
const PASS: u32 = 0x5555;
const FAIL: u32 = 0x3333;

/// Uses the test device from now on.
pub(super) fn set_test_device(registers: Registers) {
    TEST_DEVICE.call_once(|| registers);
}

/// Switches the machine off.
pub fn off() -> ! {
    sbi::system_reset(false, false);
    halt()
}

/// Resets the machine.
pub fn reset() -> ! {
    sbi::system_reset(true, false);
    halt()
}

/// Writes to the firmware's console.
pub fn last_words(text: &[u8]) {
    text.iter().for_each(|byte| sbi::console_byte(*byte));
}

/// Ends an emulator with the status `code`, or else switches the machine off.
pub fn exit(code: u32) -> ! {
    if let Some(device) = TEST_DEVICE.get() {
        device.write(0, if code == 0 { PASS } else { code << 16 | FAIL });
        halt()
    }
    sbi::system_reset(false, code != 0);
    halt()
}
