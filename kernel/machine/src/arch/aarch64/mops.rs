//! Memory copy and set instructions (FEAT_MOPS): sequences of three, the first of which leaves the
//! progress in the registers, in one of two implementation-defined formats. A thread that migrates
//! to a CPU with the other format in between takes an exception there, and restarts the sequence.

use super::frame::{Frame, INSTRUCTION, REGISTERS, pstate};

/// ISS of a memory copy or set exception (Arm ARM, ESR_EL1): it is a set instruction.
const SETS: usize = 1 << 24;
/// The exception came from the last instruction of the three.
const FROM_EPILOGUE: usize = 1 << 18;
/// The registers have the format of the option that this CPU does not implement.
const WRONG_OPTION: usize = 1 << 17;
/// This CPU implements option A.
const OPTION_A: usize = 1 << 16;

/// Restores the registers for the first instruction of the sequence, and continues there (Arm ARM,
/// rules CNTMJ and MWFQH).
pub(super) fn restart(frame: &mut Frame, syndrome: usize) {
    // Register 31 can only be the data operand of a set instruction, where it is XZR. Its word here
    // is the stack pointer, which is not changed.
    let number = |shift: u32| syndrome >> shift & 31;
    let (to, from, size) = (number(10), number(5), number(0));
    const { assert!(REGISTERS > 31) };
    let a = (syndrome & OPTION_A != 0) != (syndrome & WRONG_OPTION != 0);
    let backward = frame.pstate & pstate::N != 0;
    let registers = frame.registers_mut();
    let left = registers[size];
    let sets = syndrome & SETS != 0;
    // Option A counts up to zero; for sets and forward copies, the registers point to the end.
    if a && (sets || (left as isize) < 0) {
        registers[to] = registers[to].wrapping_add(left);
        if !sets {
            registers[from] = registers[from].wrapping_add(left);
        }
        registers[size] = left.wrapping_neg();
    } else if !a && !sets && backward {
        registers[to] = registers[to].wrapping_sub(left);
        registers[from] = registers[from].wrapping_sub(left);
    }
    let parts = if syndrome & FROM_EPILOGUE != 0 { 2 } else { 1 };
    frame.pc = frame.pc.wrapping_sub(parts * INSTRUCTION);
    // A single step completes before the first instruction is executed again.
    frame.pstate &= !pstate::SS;
}
