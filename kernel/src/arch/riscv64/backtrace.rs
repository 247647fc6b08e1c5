//! The calls that led to here, by frame pointers: `s0` points above a saved `ra` and the caller's `s0` (RISC-V ELF psABI,
//! section 2.1.1).

use core::arch::asm;

use super::{KERNEL_STACK_SIZE, kernel_map};

/// Frames that are printed at most.
const DEPTH: usize = 32;

/// Prints the callers of the code at `pc` whose frame pointer is `fp`.
pub fn print(fp: usize, pc: usize) {
    crate::log!("backtrace: {pc:#x}");
    let mut fp = fp;
    for _ in 0..DEPTH {
        let Some([next, address]) = read(fp) else {
            return;
        };
        if !kernel_map::is_code(address) {
            return;
        }
        crate::log!("backtrace: {address:#x}");
        if next <= fp {
            return;
        }
        fp = next;
    }
}

/// Prints the callers of the caller.
#[inline(never)]
pub fn print_here() {
    let fp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) fp, options(nomem, nostack, preserves_flags)) };
    print(fp, print_here as *const () as usize);
}

/// What lies below `fp`: the caller's frame pointer, and the return address. Frames lie on the stack that is in use, or on
/// the one whose overflow is being reported, one above the other.
fn read(fp: usize) -> Option<[usize; 2]> {
    let here = &raw const fp as usize;
    let end = here | (KERNEL_STACK_SIZE - 1);
    if !fp.is_multiple_of(STACK_ALIGN) || fp < here || fp > end {
        return None;
    }
    // SAFETY: inside the part of the current stack that is in use.
    Some(unsafe { ((fp - size_of::<[usize; 2]>()) as *const [usize; 2]).read() })
}

/// Bytes that frames are aligned to (section 2.1).
const STACK_ALIGN: usize = 16;
