//! The end of the kernel.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::arch::{self, cpu, text};
#[cfg(target_os = "none")]
use crate::kallsyms::Code;
use crate::upcall;

/// Ends the kernel.
#[inline(always)]
pub fn panic(info: &PanicInfo) -> ! {
    begin();
    match info.location() {
        Some(place) => log_head(format_args!(
            "{} at {}:{}",
            info.message(),
            place.file(),
            place.line()
        )),
        None => log_head(format_args!("{}", info.message())),
    }
    text::log_callers_here();
    arch::power::off()
}

/// An exception of the kernel's own code.
#[cfg(target_os = "none")]
pub(crate) struct Exception<'a> {
    /// Its program counter.
    pub pc: usize,
    /// Its stack pointer.
    pub sp: usize,
    /// The address that it failed to access, if it is about one.
    pub address: usize,
    /// All its registers.
    pub registers: &'a dyn fmt::Display,
}

/// Ends the kernel for an exception.
///
/// # Safety
/// The stack pointer is that of this CPU's thread, or of the code that failed.
#[cfg(target_os = "none")]
pub(crate) unsafe fn exception(what: fmt::Arguments, exception: &Exception) -> ! {
    let Exception {
        pc,
        sp,
        address,
        registers,
    } = *exception;
    begin();
    if text::has_overflowed(sp, address) {
        log_head(format_args!("kernel stack overflow: {what}"));
    } else {
        log_head(what);
    }
    crate::log!("registers:\n{registers}");
    crate::log!("  at {}", Code(pc));
    // SAFETY: as the caller says; the code that failed does not go on.
    unsafe { text::log_callers(sp) };
    arch::power::off()
}

/// The first CPU to panic goes on alone. Its second panic ends the machine at once.
fn begin() {
    const NOBODY: usize = usize::MAX;
    static FIRST: AtomicUsize = AtomicUsize::new(NOBODY);
    let own = cpu::this().index();
    match FIRST.compare_exchange(NOBODY, own, Relaxed, Relaxed) {
        Err(first) if first == own => {
            arch::power::last_words(b"and another panic on the way\n");
            arch::power::off()
        }
        Err(_) => loop {
            core::hint::spin_loop();
        },
        Ok(_) => {}
    }
}

/// Logs the thread that panics, and why.
fn log_head(what: fmt::Arguments) {
    let cpu = cpu::this().index();
    match upcall::describe_current() {
        Some((name, tid)) => {
            let name = core::str::from_utf8(&name)
                .unwrap_or("?")
                .trim_end_matches('\0');
            crate::log!("PANIC on CPU {cpu} in {name} ({tid}): {what}");
        }
        None => crate::log!("PANIC on CPU {cpu}: {what}"),
    }
    #[cfg(feature = "selftest")]
    crate::selftest::report_failure(what);
}
