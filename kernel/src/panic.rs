//! The end of the kernel.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::arch;

/// What QEMU exits with after a panic.
pub const STATUS: u32 = 101;

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    static PANICKING: AtomicBool = AtomicBool::new(false);
    if PANICKING.swap(true, Relaxed) {
        arch::power::exit(STATUS);
    }
    match info.location() {
        Some(place) => crate::log!(
            "PANIC at {}:{}: {}",
            place.file(),
            place.line(),
            info.message()
        ),
        None => crate::log!("PANIC: {}", info.message()),
    }
    #[cfg(feature = "selftest")]
    crate::selftest::report_failure(format_args!("{}", info.message()));
    arch::backtrace::print_here();
    arch::power::exit(STATUS)
}
