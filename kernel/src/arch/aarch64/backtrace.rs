//! Where the kernel is: return addresses along the chain of frame records (AAPCS64, section 6.4.6).

use core::arch::asm;

use super::memory_map;

/// Frames that are printed at most.
const DEPTH: usize = 32;

/// Prints the callers of the code at `pc` whose frame record is at `record`.
pub fn print(record: usize, pc: usize) {
    crate::log!("backtrace: {pc:#x}");
    let mut record = record;
    for _ in 0..DEPTH {
        let Some([next, address]) = read(record) else {
            return;
        };
        if !memory_map::is_code(address) {
            return;
        }
        crate::log!("backtrace: {address:#x}");
        if next <= record {
            return;
        }
        record = next;
    }
}

/// Prints the callers of the caller.
#[inline(never)]
pub fn print_here() {
    let record: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, x29", out(reg) record, options(nomem, nostack, preserves_flags)) };
    print(record, print_here as *const () as usize);
}

/// A frame record: the caller's record, and the return address. Records lie on the stack that is in use, or on the one
/// whose overflow is being reported, one above the other.
fn read(record: usize) -> Option<[usize; 2]> {
    let here = &raw const record as usize;
    let near = record.abs_diff(here) < super::KERNEL_STACK_SIZE;
    if record % 16 != 0
        || !near
        || record < here
        || record + 16 > (here | (super::KERNEL_STACK_SIZE - 1))
    {
        return None;
    }
    // SAFETY: inside the part of the current stack that is in use.
    Some(unsafe { (record as *const [usize; 2]).read() })
}
