//! Instructions that copy and set memory (FEAT_MOPS): three in a row, of which the first leaves in
//! the registers how far the copy came, in one of two ways that a CPU chooses from. A thread that
//! moves to a CPU of the other way in between gets an exception there, and begins anew with the
//! first.

use super::frame::{Frame, INSTRUCTION, REGISTERS, pstate};

/// ISS of a memory copy or set exception (Arm ARM D24.2.40): it was one that sets memory.
const SETS: usize = 1 << 24;
/// It was the last of the three.
const FROM_EPILOGUE: usize = 1 << 18;
/// The registers are of the way that this CPU does not have.
const WRONG_OPTION: usize = 1 << 17;
/// This CPU has option A.
const OPTION_A: usize = 1 << 16;

/// Puts the registers back to what the first instruction wants, and goes on there (Arm ARM, rules
/// CNTMJ and MWFQH).
pub(super) fn restart(frame: &mut Frame, syndrome: usize) {
    // 31, which only what is written to memory can be, is the zero register there: the word is the
    // stack pointer's here, and stays what it is.
    let number = |shift: u32| syndrome >> shift & 31;
    let (to, from, size) = (number(10), number(5), number(0));
    const { assert!(REGISTERS > 31) };
    let a = (syndrome & OPTION_A != 0) != (syndrome & WRONG_OPTION != 0);
    let backward = frame.pstate & pstate::N != 0;
    let registers = frame.registers_mut();
    let left = registers[size];
    let sets = syndrome & SETS != 0;
    // Option A counts up to zero, from the end of what goes forward.
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
    // A step is over before the first instruction is made again.
    frame.pstate &= !pstate::SS;
}
