//! Handling of exceptions: page faults for `mm`, instructions to emulate, signals, and a panic for
//! everything unexpected.

use core::fmt;

use linux_raw_sys::general::{
    BUS_ADRALN, BUS_OBJERR, FPE_FLTDIV, FPE_FLTINV, FPE_FLTOVF, FPE_FLTRES, FPE_FLTUND, FPE_FLTUNK,
    ILL_ILLOPC, ILL_ILLOPN, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP, TRAP_BRKPT,
    TRAP_HWBKPT, TRAP_TRACE,
};

use super::cpu;
use super::frame::Frame;
use super::irq::Interrupted;
use super::sysreg::read;
use super::{USER_END, compat, emulate, irq as interrupts, mops, uaccess};
use crate::arch::task;
use crate::mm::fault::{Access, Signal};
use crate::panic::{self, Exception};
use crate::upcall;
use crossings::Kind;

/// Exception classes (Arm ARM, ESR_ELx.EC).
pub mod class {
    /// The position of the class in ESR_EL1.
    pub const SHIFT: u32 = 26;
    /// Number of classes.
    pub const COUNT: usize = 64;
    /// Unknown reason: an undefined instruction.
    pub const UNKNOWN: usize = 0x00;
    /// Trapped WFI or WFE.
    pub const WFX: usize = 0x01;
    /// SVC in AArch32.
    pub const SVC32: usize = 0x11;
    /// An SVE instruction while SVE is disabled.
    pub const SVE: usize = 0x19;
    /// SVC in AArch64.
    pub const SVC64: usize = 0x15;
    /// Trapped MSR, MRS or system instruction.
    pub const SYSTEM: usize = 0x18;
    /// A pointer authentication failure (FEAT_FPAC).
    pub const POINTER_AUTHENTICATION: usize = 0x1c;
    /// Instruction abort from a lower exception level.
    pub const INSTRUCTION_ABORT_LOWER: usize = 0x20;
    /// Misaligned program counter.
    pub const PC_ALIGNMENT: usize = 0x22;
    /// Data abort from a lower exception level.
    pub const DATA_ABORT_LOWER: usize = 0x24;
    /// Data abort in the kernel.
    pub const DATA_ABORT: usize = 0x25;
    /// Misaligned stack pointer.
    pub const SP_ALIGNMENT: usize = 0x26;
    /// A memory copy or set instruction that cannot continue the previous one of its sequence
    /// (FEAT_MOPS).
    pub const MEMORY_OPERATION: usize = 0x27;
    /// Floating-point exception in AArch32.
    pub const FLOAT32: usize = 0x28;
    /// Floating-point exception in AArch64.
    pub const FLOAT64: usize = 0x2c;
    /// Breakpoint from a lower exception level.
    pub const BREAKPOINT_LOWER: usize = 0x30;
    /// Single step from a lower exception level.
    pub const STEP_LOWER: usize = 0x32;
    /// Watchpoint from a lower exception level.
    pub const WATCHPOINT_LOWER: usize = 0x34;
    /// BKPT in AArch32.
    pub const BKPT32: usize = 0x38;
    /// BRK in AArch64.
    pub const BRK64: usize = 0x3c;
}

/// The registers of interrupted kernel code; its handler's stack is below.
#[repr(C, align(16))]
pub struct KernelFrame {
    /// x0 to x30.
    pub x: [usize; 31],
    /// The stack pointer.
    pub sp: usize,
    /// ELR_EL1.
    pub pc: usize,
    /// SPSR_EL1.
    pub pstate: usize,
}

/// WnR (ISS of a data abort).
const WRITE: usize = 1 << 6;
/// CM: a cache-maintenance instruction, which sets WnR but only needs read permission.
const MAINTENANCE: usize = 1 << 8;

/// The fault status code in ESR ISS, and its value for a tag check fault.
const STATUS: usize = 0x3f;
const TAG_CHECK: usize = 0b010001;
/// The bits of an address that hold the tag.
const TAG: usize = 0xf << 56;

/// The faulting address without the tag in its top byte (TCR_EL1.TBI0).
fn untagged(address: usize) -> usize {
    ((address as isize) << 8 >> 8) as usize
}

/// Whether changing a translation can resolve an abort (ESR ISS bits 5 to 0): translation, Access
/// flag and permission faults, TLB conflicts, and translation faults above the first level.
fn is_curable(syndrome: usize) -> bool {
    matches!(syndrome & 0x3f, 0b000100..=0b001111 | 0b101011 | 0b110000)
}

#[inline]
fn resolve(syndrome: usize, address: usize, access: Access) -> Result<(), Signal> {
    let (signo, code) = match is_curable(syndrome) {
        true if address < USER_END => return upcall::page_fault(address, access),
        true => (SIGSEGV, linux_raw_sys::general::SEGV_MAPERR),
        false if syndrome & 0x3f == 0b100001 => (SIGBUS, BUS_ADRALN),
        false => (SIGBUS, BUS_OBJERR),
    };
    Err(Signal { signo, code })
}

fn access(syndrome: usize) -> Access {
    if syndrome & (WRITE | MAINTENANCE) == WRITE {
        Access::Write
    } else {
        Access::Read
    }
}

#[cold]
#[inline(never)]
fn force_signal(signal: Signal, address: usize, syndrome: usize) {
    task::state().set_fault(address, syndrome);
    // Not in `resolve`, to keep the test off the path of faults that it resolves.
    let signal = match is_of_tag(syndrome) {
        true => Signal {
            signo: SIGSEGV,
            code: linux_raw_sys::general::SEGV_MTESERR,
        },
        false => signal,
    };
    upcall::force_signal(signal.signo, signal.code, with_tag(address, syndrome));
}

/// Whether it is a tag check fault (ESR ISS of a data abort).
fn is_of_tag(syndrome: usize) -> bool {
    syndrome >> class::SHIFT == class::DATA_ABORT_LOWER && syndrome & STATUS == TAG_CHECK
}

/// The faulting address with its top byte, if FAR_EL1 still holds it. For a tag check fault, bits
/// 63 to 60 of FAR_EL1 are UNKNOWN.
fn with_tag(address: usize, syndrome: usize) -> usize {
    const IS_ADDRESS: [usize; 2] = [class::DATA_ABORT_LOWER, class::INSTRUCTION_ABORT_LOWER];
    let far = read!("far_el1");
    if untagged(far) != address || !IS_ADDRESS.contains(&(syndrome >> class::SHIFT)) {
        address
    } else if is_of_tag(syndrome) {
        address & !TAG | far & TAG
    } else {
        far
    }
}

/// Handles a data abort of a program.
pub(super) extern "C" fn data_abort(syndrome: usize, address: usize) {
    let address = untagged(address);
    if let Err(signal) = resolve(syndrome, address, access(syndrome)) {
        force_signal(signal, address, syndrome);
    }
}

/// Handles an instruction abort of a program.
pub(super) extern "C" fn instruction_abort(syndrome: usize, address: usize) {
    let address = untagged(address);
    if let Err(signal) = resolve(syndrome, address, Access::Execute) {
        force_signal(signal, address, syndrome);
    }
}

/// Handles any other synchronous exception of a program. No class is ignored.
pub(super) extern "C" fn handle_other_exception(
    syndrome: usize,
    address: usize,
    frame: &mut Frame,
) {
    match syndrome >> class::SHIFT {
        class::UNKNOWN if emulate::undefined(frame) => {}
        class::SYSTEM if emulate::system(frame, syndrome) => {}
        _ => handle_unemulated(syndrome, address, frame),
    }
}

/// Handles the exceptions that are neither emulated undefined instructions nor emulated system
/// register accesses.
#[cold]
#[inline(never)]
fn handle_unemulated(syndrome: usize, address: usize, frame: &mut Frame) {
    let pc = frame.pc();
    let (kind, signo, code, address) = match syndrome >> class::SHIFT {
        class::WFX if !frame.is_compat() => {
            frame.skip_instruction();
            return count(Kind::EmulatedOther);
        }
        class::MEMORY_OPERATION => {
            mops::restart(frame, syndrome);
            return count(Kind::EmulatedOther);
        }
        class::SVE => match task::state().begin_sve() {
            Ok(true) => return count(Kind::VectorTrap),
            Ok(false) => (Kind::Undefined, SIGILL, ILL_ILLOPC, pc),
            Err(_) => (Kind::VectorTrap, SIGKILL, 0, pc),
        },
        class::POINTER_AUTHENTICATION => (Kind::Undefined, SIGILL, ILL_ILLOPN, pc),
        class::PC_ALIGNMENT => (Kind::Undefined, SIGBUS, BUS_ADRALN, untagged(address)),
        class::SP_ALIGNMENT => (Kind::Undefined, SIGBUS, BUS_ADRALN, frame.sp()),
        class::FLOAT32 | class::FLOAT64 => (Kind::Undefined, SIGFPE, float_code(syndrome), pc),
        class::BRK64 | class::BKPT32 => (Kind::Debug, SIGTRAP, TRAP_BRKPT, pc),
        class::BREAKPOINT_LOWER => (Kind::Debug, SIGTRAP, TRAP_HWBKPT, pc),
        class::WATCHPOINT_LOWER => (Kind::Debug, SIGTRAP, TRAP_HWBKPT, untagged(address)),
        class::STEP_LOWER => (Kind::Debug, SIGTRAP, TRAP_TRACE, pc),
        class::UNKNOWN if compat::is_breakpoint(frame) => (Kind::Debug, SIGTRAP, TRAP_BRKPT, pc),
        // An undefined instruction, an illegal state, an access to a disabled extension (SME,
        // coprocessors), a missing landing pad, and future classes.
        _ => (Kind::Undefined, SIGILL, ILL_ILLOPC, pc),
    };
    count(kind);
    force_signal(Signal { signo, code }, address, syndrome);
}

/// The `si_code` of a trapped floating-point exception (ESR ISS: TFV, and the flags as in FPSR).
fn float_code(syndrome: usize) -> u32 {
    const VALID: usize = 1 << 23;
    let flags = [
        (0, FPE_FLTINV),
        (1, FPE_FLTDIV),
        (2, FPE_FLTOVF),
        (3, FPE_FLTUND),
        (4, FPE_FLTRES),
    ];
    let set = flags
        .iter()
        .find(|(bit, _)| syndrome & VALID != 0 && syndrome >> bit & 1 == 1);
    set.map_or(FPE_FLTUNK, |(_, code)| *code)
}

fn count(kind: Kind) {
    cpu::this().crossings().add(kind);
}

/// Handles an interrupt while a program ran, or immediately after the return to one.
pub(super) extern "C" fn irq(at_return: bool) {
    interrupts::service(Interrupted::at(at_return));
}

/// Handles an exception from the kernel: an access to program memory, or a bug.
pub(super) extern "C" fn kernel_sync(syndrome: usize, address: usize, frame: &mut KernelFrame) {
    if matches!(syndrome >> class::SHIFT, class::DATA_ABORT | class::UNKNOWN)
        && let Some(target) = uaccess::fixup(frame.pc)
    {
        let address = untagged(address);
        let resolvable = target & uaccess::UNRESOLVED == 0 && address < USER_END;
        let resolved = syndrome >> class::SHIFT == class::DATA_ABORT && resolvable && {
            count(Kind::FaultUaccess);
            resolve(syndrome, address, access(syndrome)).is_ok()
        };
        if !resolved {
            frame.pc = target & !uaccess::UNRESOLVED;
        }
        return;
    }
    fatal(syndrome, address, frame)
}

/// Panics because of an exception from the kernel.
pub(super) extern "C" fn fatal(syndrome: usize, address: usize, frame: &KernelFrame) -> ! {
    let class = syndrome >> class::SHIFT;
    let what =
        format_args!("exception of class {class:#x}, syndrome {syndrome:#x}, address {address:#x}");
    let (pc, sp) = (frame.pc, frame.sp);
    let exception = Exception {
        pc,
        sp,
        address,
        registers: frame,
    };
    // SAFETY: the stack pointer is the one that the entry stored.
    unsafe { panic::exception(what, &exception) }
}

impl fmt::Display for KernelFrame {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (number, value) in self.x.iter().enumerate() {
            write!(
                f,
                "{:>6}{number:<2} {value:016x}{}",
                "x",
                if number % 4 == 3 { "\n" } else { "" }
            )?;
        }
        write!(
            f,
            "{:>8} {:016x}\n{:>8} {:016x}{:>8} {:016x}",
            "sp", self.sp, "pc", self.pc, "pstate", self.pstate
        )
    }
}

/// Panics because of an SError or an unexpected interrupt while a program ran.
pub(super) extern "C" fn unexpected(syndrome: usize, frame: &Frame) {
    panic!(
        "an unexpected interrupt or system error: syndrome {syndrome:#x}, program at {:#x}",
        frame.pc()
    );
}

/// Performs pending work before the return to the program.
pub(super) extern "C" fn exit_work() {
    upcall::exit_work();
}
