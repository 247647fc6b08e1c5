//! Backtraces of other CPUs. Each CPU is asked in turn, and answers where it polls for interrupts
//! or spins for a lock. No interrupt passes the kernel's mask, so the registers of a CPU that does
//! not answer cannot be shown, but its stack can.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::arch::cpu::{self, Cpu};
use crate::arch::{text, time};
use crate::upcall;

/// The index of the CPU that shall answer, and one; 0 for none.
static ASKED: AtomicUsize = AtomicUsize::new(0);
/// How long, in ns, and how many looks this waits for an answer: both, since the host may stop
/// either CPU.
const PATIENCE_NS: u64 = 1_000_000_000;
const PATIENCE: u32 = 1 << 20;

/// Logs the backtraces of all CPUs but this one. `kick` interrupts a CPU, which calls [`answer`].
/// The machine ends afterwards: what does not answer does not go on.
pub(crate) fn log_others(kick: impl Fn(&'static Cpu)) {
    for other in cpu::online().filter(|other| !core::ptr::eq(*other, cpu::this())) {
        ASKED.store(other.index() + 1, SeqCst);
        kick(other);
        let end = time::now_ticks() + time::ns_to_ticks(PATIENCE_NS);
        let mut looks = 0;
        while ASKED.load(Acquire) != 0 && (looks < PATIENCE || time::now_ticks() < end) {
            core::hint::spin_loop();
            looks += 1;
        }
        if ASKED.swap(0, AcqRel) != 0 {
            crate::log!(
                "CPU {} does not answer, so its registers are not to be had; its stack, from calls \
                 that may have returned:",
                other.index()
            );
            // SAFETY: the CPU is stuck, or the machine ends before it goes on.
            unsafe { text::log_stack_of(other) };
        }
    }
}

/// Logs this CPU's backtrace, if it is asked for.
#[cold]
pub fn answer() {
    let cpu = cpu::this();
    if ASKED.load(Acquire) != cpu.index() + 1 {
        return;
    }
    match upcall::describe_current() {
        Some((name, tid)) => {
            let name = core::str::from_utf8(&name).unwrap_or("?");
            crate::log!(
                "CPU {} in {} ({tid}):",
                cpu.index(),
                name.trim_end_matches('\0')
            );
        }
        None => crate::log!("CPU {}:", cpu.index()),
    }
    if let Some(registers) = upcall::program_registers() {
        let [pc, sp] = registers;
        crate::log!("  its program: pc {pc:#x}, sp {sp:#x}");
    }
    text::log_callers_here();
    ASKED.store(0, Release);
}
