//! Handling of traps (privileged manual, section 12.1.8, table "Supervisor cause register values").

use core::fmt;

use crossings::Kind;
use linux_raw_sys::general::{
    BUS_ADRALN, ILL_ILLOPC, SEGV_ACCERR, SEGV_MAPERR, SI_KERNEL, SIGBUS, SIGILL, SIGSEGV, SIGTRAP,
    TRAP_BRKPT,
};

use super::entry::KernelFrame;
use super::frame::REGISTER_NAMES;
use super::irq::Interrupted;
use super::{USER_END, cpu, irq, uaccess, units, vector};
use crate::errno::Result;
use crate::mm::fault::Access;
use crate::mm::user::UserPtr;
use crate::panic::{self, Exception};
use crate::upcall;

/// The interrupt bit of `scause`.
const INTERRUPT: usize = 1 << (usize::BITS - 1);

/// Exception codes.
mod code {
    pub const INSTRUCTION_MISALIGNED: usize = 0;
    pub const INSTRUCTION_ACCESS: usize = 1;
    pub const ILLEGAL: usize = 2;
    pub const BREAKPOINT: usize = 3;
    pub const LOAD_MISALIGNED: usize = 4;
    pub const LOAD_ACCESS: usize = 5;
    pub const STORE_MISALIGNED: usize = 6;
    pub const STORE_ACCESS: usize = 7;
    pub const INSTRUCTION_PAGE: usize = 12;
    pub const LOAD_PAGE: usize = 13;
    pub const STORE_PAGE: usize = 15;
}

/// The kind of access of a page fault; none if `cause` is another exception.
fn access(cause: usize) -> Option<Access> {
    match cause {
        code::INSTRUCTION_PAGE => Some(Access::Execute),
        code::LOAD_PAGE => Some(Access::Read),
        code::STORE_PAGE => Some(Access::Write),
        _ => None,
    }
}

/// Handles an interrupt while a program ran, or immediately after the return to one; `cause` is
/// `scause`.
pub(super) extern "C" fn interrupt(cause: usize, at_return: bool) {
    irq::handle(cause & !INTERRUPT, Interrupted::at(at_return));
}

/// Handles an exception from a program other than a system call, with `scause`, `stval` and `sepc`.
/// The frame contains only the registers that a call may clobber.
pub(super) extern "C" fn from_user(cause: usize, value: usize, pc: usize) {
    if let Some(access) = access(cause) {
        if value >= USER_END {
            upcall::force_signal(SIGSEGV, SEGV_MAPERR, value);
        } else if let Err(signal) = upcall::page_fault(value, access) {
            upcall::force_signal(signal.signo, signal.code, value);
        }
        return;
    }
    handle_other_trap(cause, value, pc);
}

/// Handles the traps that are not page faults.
#[cold]
#[inline(never)]
fn handle_other_trap(cause: usize, value: usize, pc: usize) {
    let crossings = cpu::this().crossings();
    let (signo, reason, address) = match cause {
        code::ILLEGAL => match first_use(value, pc) {
            Ok(Some(kind)) => return crossings.add(kind),
            Ok(None) => {
                crossings.add(Kind::Undefined);
                (SIGILL, ILL_ILLOPC, pc)
            }
            // As on Linux, if there is no memory for vectors.
            Err(_) => (SIGBUS, SI_KERNEL, 0),
        },
        code::BREAKPOINT => {
            crossings.add(Kind::Debug);
            (SIGTRAP, TRAP_BRKPT, pc)
        }
        code::INSTRUCTION_MISALIGNED | code::LOAD_MISALIGNED | code::STORE_MISALIGNED => {
            (SIGBUS, BUS_ADRALN, value)
        }
        code::INSTRUCTION_ACCESS | code::LOAD_ACCESS | code::STORE_ACCESS => {
            (SIGSEGV, SEGV_ACCERR, value)
        }
        _ => (SIGILL, ILL_ILLOPC, pc),
    };
    upcall::force_signal(signo, reason, address);
}

/// Whether an illegal instruction at `pc`, which the hardware may have stored in `value`, is the
/// thread's first use of a unit that is off: then the unit is on now.
///
/// # Errors
/// ENOMEM
fn first_use(value: usize, pc: usize) -> Result<Option<Kind>> {
    let thread = cpu::this().thread();
    if vector::present() {
        let instruction = match value as u32 {
            0 => UserPtr::<u32>::new(pc).read().unwrap_or(0),
            other => other,
        };
        if vector::is_instruction(instruction) && units::begin_vector(thread)? {
            return Ok(Some(Kind::VectorTrap));
        }
    }
    let first = thread.own_units(units::State::begin_float);
    Ok(first.then_some(Kind::FpTrap))
}

/// Handles a trap from the kernel: a fault on program memory for which `uaccess` has a fixup;
/// everything else panics.
pub(super) extern "C" fn from_kernel(frame: &mut KernelFrame, cause: usize, value: usize) {
    let fixup = uaccess::fixup(frame.x[0]);
    let (Some(access), Some(fixup), true) = (access(cause), fixup, value < USER_END) else {
        let what = format_args!("trap of cause {cause:#x}, stval {value:#x}");
        let (pc, sp) = (frame.x[0], frame.x[2]);
        let exception = Exception {
            pc,
            sp,
            address: value,
            registers: frame,
        };
        // SAFETY: the stack pointer is the one that the trap entry stored.
        unsafe { panic::exception(what, &exception) }
    };
    if fixup & uaccess::UNRESOLVED != 0 {
        frame.x[0] = fixup & !uaccess::UNRESOLVED;
        return;
    }
    cpu::this().crossings().add(Kind::FaultUaccess);
    if upcall::page_fault(value, access).is_err() {
        frame.x[0] = fixup;
    }
}

/// Performs pending work before the return to the program.
pub(super) extern "C" fn exit_work() {
    upcall::exit_work();
}

impl fmt::Display for KernelFrame {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, (name, value)) in REGISTER_NAMES.iter().zip(self.x).enumerate() {
            write!(
                f,
                "{name:>4} {value:016x}{}",
                if index % 4 == 3 { '\n' } else { ' ' }
            )?;
        }
        write!(f, "status {:016x}", self.status)
    }
}
