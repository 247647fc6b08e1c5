//! Kernel panics.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::arch::{self, cpu, text};
#[cfg(target_os = "none")]
use crate::kallsyms::Code;
use crate::{backtrace, upcall};

/// Logs a panic, and turns the machine off.
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

/// Ends the machine because a CPU is stuck: logs `what`, and the backtraces of all CPUs. `kick`
/// interrupts a CPU, which calls [`backtrace::answer`].
pub fn lockup(what: fmt::Arguments, kick: impl Fn(&'static cpu::Cpu)) -> ! {
    begin();
    log_head(what);
    text::log_callers_here();
    backtrace::log_others(kick);
    arch::power::off()
}

/// An exception in the kernel's own code.
#[cfg(target_os = "none")]
pub(crate) struct Exception<'a> {
    /// Its program counter.
    pub pc: usize,
    /// Its stack pointer.
    pub sp: usize,
    /// The address of the failed access, if it was one.
    pub address: usize,
    /// All its registers.
    pub registers: &'a dyn fmt::Display,
}

/// Panics because of an exception.
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
    // SAFETY: guaranteed by the caller; the code that failed does not continue.
    unsafe { text::log_callers(sp) };
    arch::power::off()
}

/// Lets only the first CPU to panic continue. A second panic on it turns the machine off at once.
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

/// Logs the thread that panics, and the reason.
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
