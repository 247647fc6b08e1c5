//! What a guest's trap asks for: that which can be answered at once is, without leaving the guest's context.

use super::abort::Access;
use super::context::Context;
use super::psci;
use super::stats::Exit as Kind;
use super::sysreg;
use crate::arch::virt::Registers;

/// Exception classes of ESR_EL2 (Arm ARM D24.2.40).
mod class {
    pub const WAIT: u64 = 0x01;
    pub const HYPERCALL: u64 = 0x16;
    pub const SECURE_CALL: u64 = 0x17;
    pub const REGISTER: u64 = 0x18;
    pub const INSTRUCTION_ABORT: u64 = 0x20;
    pub const DATA_ABORT: u64 = 0x24;
}

/// Of a trapped wait: WFE, not WFI.
const WAITS_FOR_EVENT: u64 = 1;
/// Bytes of an instruction.
pub const INSTRUCTION: u64 = 4;

/// What is left to do.
pub enum Exit {
    /// Nothing: the guest goes on.
    Again,
    /// The guest waits for an interrupt.
    Waits,
    /// The guest waits for what another CPU does.
    Yields,
    /// The guest wants debug registers, which it is given.
    Debug,
    /// The guest did what it must not: it gets an exception.
    Undefined,
    /// An access that the translation did not allow.
    Memory(Access),
    /// The machine powers off or resets.
    Event(u32),
}

/// Answers a trap, or says what is to be done.
#[inline]
pub fn answer(context: &mut Context, registers: &mut Registers) -> Exit {
    let syndrome = registers.syndrome;
    let exits = &context.vcpu.exits;
    match syndrome >> 26 & 0x3f {
        class::HYPERCALL => {
            exits.count(Kind::Hypercall);
            psci::call(context, registers)
        }
        class::REGISTER if sysreg::is_debug(syndrome) => {
            exits.count(Kind::Register);
            Exit::Debug
        }
        class::REGISTER if sysreg::access(context, registers) => {
            registers.pc += INSTRUCTION;
            Exit::Again
        }
        class::DATA_ABORT | class::INSTRUCTION_ABORT => {
            let access = Access::of(registers);
            if context.access(&access, registers) {
                exits.count(Kind::Controller);
                Exit::Again
            } else {
                Exit::Memory(access)
            }
        }
        class::WAIT => {
            registers.pc += INSTRUCTION;
            if syndrome & WAITS_FOR_EVENT == 0 {
                exits.count(Kind::WaitForInterrupt);
                Exit::Waits
            } else {
                exits.count(Kind::WaitForEvent);
                Exit::Yields
            }
        }
        class::SECURE_CALL => {
            exits.count(Kind::Hypercall);
            registers.pc += INSTRUCTION;
            psci::call(context, registers)
        }
        _ => {
            exits.count(Kind::Other);
            Exit::Undefined
        }
    }
}
