//! Programs: a function that the host supplies, which makes system calls by calling
//! [`call`].

use spin::Once;

use super::baton::NoUnwind;
use super::frame::{CALL, reg};
use super::irq::{self, Interrupted};
use super::{cpu, time};
use crate::arch::task;
use crate::errno::{Errno, Result};
use crate::mm::user::UserSlice;
use crate::upcall;

/// The system calls (include/uapi/asm-generic/unistd.h) that the return from a program's or a
/// handler's function makes.
const EXIT_GROUP: usize = 94;
const RT_SIGRETURN: usize = 139;

/// The simulated cost of a system call, in ticks.
const COST: u64 = 1_000;

static PROGRAM: Once<fn(usize)> = Once::new();

/// Sets the function of all programs, once.
pub(super) fn set(program: fn(usize)) {
    PROGRAM.call_once(|| program);
}

/// Runs the current thread's program with its current registers.
pub(super) fn run() -> ! {
    leave_kernel();
    loop {
        go(pc());
        call(EXIT_GROUP, [0; 6]);
    }
}

fn go(pc: usize) {
    PROGRAM.get().expect("set before the first program")(pc);
}

/// The current thread's program counter.
pub fn pc() -> usize {
    task::state().with_frame(|frame| frame.pc())
}

/// Sets the current thread's program counter, at which a child of its next clone(2) begins.
pub fn set_pc(pc: usize) {
    task::state().with_frame(|frame| frame.set_pc(pc));
}

/// Makes the system call `number` as the current thread's program. Signal handlers run before it
/// returns. It does not return if the thread ends, or executes another program.
pub fn call(number: usize, arguments: [usize; 6]) -> isize {
    let site = pc();
    task::state().with_frame(|frame| frame.prepare(number, arguments));
    enter_kernel();
    while pc() != site {
        if pc() == site.wrapping_sub(CALL) {
            task::state().with_frame(|frame| frame.set_pc(site));
            enter_kernel();
            continue;
        }
        let returns = task::state().with_frame(|frame| frame.x[reg::RA] != 0);
        go(pc());
        let last = if returns { RT_SIGRETURN } else { EXIT_GROUP };
        task::state().with_frame(|frame| frame.prepare(last, [0; 6]));
        enter_kernel();
    }
    task::state().with_frame(|frame| frame.result())
}

/// Makes the system call in the registers.
fn enter_kernel() {
    let _no_unwind = NoUnwind;
    time::pass(COST);
    let state = task::state();
    let call = state.with_frame(|frame| {
        frame.enter_syscall();
        frame.call()
    });
    let cpu = cpu::this();
    cpu.crossings().syscall(call.place);
    let entry = cpu.syscalls.get()[call.place];
    // SAFETY: this is the entry into the kernel.
    let result = unsafe { entry.call(call.arguments) };
    state.with_frame(|frame| frame.set_result(result));
    leave_kernel();
}

/// Performs pending work before the program continues.
fn leave_kernel() {
    loop {
        irq::service(Interrupted::Program);
        let state = task::state();
        if state.work.load(core::sync::atomic::Ordering::Relaxed) == 0 {
            break;
        }
        upcall::exit_work();
    }
    task::state().with_frame(|frame| frame.clear_syscall());
}

/// Reads the current program's memory, as the program itself would.
///
/// # Errors
/// EFAULT, instead of a signal.
pub fn read(address: usize, bytes: &mut [u8]) -> Result<()> {
    let len = bytes.len();
    UserSlice::new(address, len).copy_in(bytes)
}

/// Writes the current program's memory, as the program itself would.
///
/// # Errors
/// EFAULT, instead of a signal.
pub fn write(address: usize, bytes: &[u8]) -> Result<()> {
    UserSlice::new(address, bytes.len()).copy_out(bytes)
}

/// The error in a system call's result.
pub fn errno(result: isize) -> Option<Errno> {
    (-4095..0)
        .contains(&result)
        .then(|| Errno(result.unsigned_abs() as _))
}
