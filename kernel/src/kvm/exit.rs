//! The traps of a guest. Those that can be handled at once are handled without leaving the guest's
//! context.

use super::abort::Access;
use super::context::{Context, Done};
use super::psci;
use super::stats::ExitKind;
use super::sysreg;
use super::uapi;
use crate::arch::virt::Registers;

/// Exception classes (Arm ARM, ESR_EL2.EC).
mod class {
    pub const WAIT: u64 = 0x01;
    pub const FP: u64 = 0x07;
    pub const HYPERCALL: u64 = 0x16;
    pub const SECURE_CALL: u64 = 0x17;
    pub const REGISTER: u64 = 0x18;
    pub const SVE: u64 = 0x19;
    pub const INSTRUCTION_ABORT: u64 = 0x20;
    pub const DATA_ABORT: u64 = 0x24;
    pub const COPY: u64 = 0x27;
    pub const BREAKPOINT: u64 = 0x30;
    pub const STEP: u64 = 0x32;
    pub const WATCHPOINT: u64 = 0x34;
    pub const BREAK_INSTRUCTION: u64 = 0x3c;
}

/// The immediate of an SMC instruction; it is 0 in calls (Arm DEN 0028, 2.9).
const IMMEDIATE: u64 = 0xffff;
/// In the syndrome of a trapped wait: a WFE, not a WFI.
const WAITS_FOR_EVENT: u64 = 1;

/// The work that remains after an exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// None: the guest continues.
    Again,
    /// The guest waits for an interrupt.
    Waits,
    /// The guest waits for something that another CPU does.
    Yields,
    /// The guest asks for the address of its stolen time.
    StolenTime,
    /// The guest uses its FP and SIMD or SVE registers, which are to be loaded.
    Fp,
    /// The guest uses debug registers, which are to be loaded.
    Debug,
    /// Cache maintenance, or a write that may turn the caches on or off.
    Caches,
    /// A debug exception for the VMM.
    Debugged,
    /// An access to the state of interrupts that another CPU holds; all other virtual CPUs must be
    /// stopped for it.
    Halts,
    /// The guest did something undefined, and gets an exception.
    Undefined,
    /// The hardware reported an SError.
    Error,
    /// An access that the translation did not allow.
    Memory,
    /// A call that the VMM answers, with flags that describe it.
    Calls { flags: u64 },
    /// The VMM suspends the machine.
    Suspends,
    /// The machine powers off.
    Off,
    /// The machine resets.
    Reset,
    /// The machine resets in the way that PSCI's SYSTEM_RESET2 asks for.
    Reset2,
}

/// Handles a trap, and returns the work that remains. The cheapest exits are tested first, inline.
#[inline(always)]
pub fn handle_exit(context: &mut Context, registers: &mut Registers) -> Exit {
    let syndrome = registers.syndrome;
    match class_of(syndrome) {
        class::REGISTER if sysreg::emulate_sgi(context, registers, syndrome) => Exit::Again,
        class::DATA_ABORT => abort(context, registers),
        class::HYPERCALL => {
            context.count(ExitKind::Hypercall);
            psci::call(context, registers)
        }
        _ => handle_slow_exit(context, registers),
    }
}

/// The exception class of a syndrome.
#[inline(always)]
fn class_of(syndrome: u64) -> u64 {
    syndrome >> 26 & 0x3f
}

#[inline(always)]
fn abort(context: &mut Context, registers: &mut Registers) -> Exit {
    let Some(access) = Access::take(registers) else {
        context.count(ExitKind::Memory);
        return Exit::Again;
    };
    let done = context.access(&access, registers);
    if matches!(done, Done::Elsewhere) && !context.write(&access, registers) {
        return Exit::Memory;
    }
    context.count(ExitKind::Controller);
    match done {
        Done::Halts => Exit::Halts,
        _ => Exit::Again,
    }
}

#[inline(never)]
fn handle_slow_exit(context: &mut Context, registers: &mut Registers) -> Exit {
    let syndrome = registers.syndrome;
    if registers.does_nothing() {
        context.count(ExitKind::Other);
        registers.skip();
        return Exit::Again;
    }
    match class_of(syndrome) {
        class::REGISTER if sysreg::is_debug(syndrome) => {
            context.count(ExitKind::Register);
            Exit::Debug
        }
        class::REGISTER if sysreg::access(context, registers) => {
            registers.skip();
            Exit::Again
        }
        class::REGISTER if sysreg::is_of_caches(syndrome) => Exit::Caches,
        class::INSTRUCTION_ABORT => match registers.take_fault() {
            true => Exit::Memory,
            false => {
                context.count(ExitKind::Memory);
                Exit::Again
            }
        },
        class::WAIT => {
            registers.skip();
            if syndrome & WAITS_FOR_EVENT == 0 {
                context.count(ExitKind::WaitForInterrupt);
                Exit::Waits
            } else {
                context.count(ExitKind::WaitForEvent);
                Exit::Yields
            }
        }
        class::COPY => {
            context.count(ExitKind::Other);
            registers.restart_copy();
            Exit::Again
        }
        class::FP => {
            context.count(ExitKind::Other);
            Exit::Fp
        }
        class::SVE => {
            context.count(ExitKind::Other);
            let features = context.machine.features();
            match features.is_some_and(|features| features.has(uapi::FEATURE_SVE)) {
                true => Exit::Fp,
                false => Exit::Undefined,
            }
        }
        class::SECURE_CALL => {
            context.count(ExitKind::Hypercall);
            registers.skip();
            if syndrome & IMMEDIATE != 0 {
                registers.x[0] = psci::NOT_SUPPORTED as u64;
                return Exit::Again;
            }
            match psci::call(context, registers) {
                Exit::Calls { .. } => Exit::Calls {
                    flags: uapi::HYPERCALL_BY_SMC,
                },
                other => other,
            }
        }
        class::BREAKPOINT | class::STEP | class::WATCHPOINT | class::BREAK_INSTRUCTION => {
            context.count(ExitKind::Other);
            registers.take_address();
            Exit::Debugged
        }
        _ => {
            context.count(ExitKind::Other);
            Exit::Undefined
        }
    }
}
