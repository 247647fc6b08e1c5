//! Where the kernel is: the return addresses on its stack.
//!
//! Functions keep no frame records, which would cost each call on every hot path. Instead every word of the stack that
//! points behind a call instruction is printed: all callers, and now and then one of a call that has returned. The host's
//! command adds the names.

use core::arch::asm;

use super::{KERNEL_STACK_SIZE, memory_map};

/// Addresses that are printed at most.
const DEPTH: usize = 48;

/// Prints `pc` and the return addresses on the current stack from `sp` on.
pub fn print(sp: usize, pc: usize) {
    crate::log!("backtrace: {pc:#x}");
    let here = &raw const sp as usize;
    let end = (here | (KERNEL_STACK_SIZE - 1)) + 1;
    let start = sp.next_multiple_of(8);
    if !(here & !(KERNEL_STACK_SIZE - 1)..end).contains(&start) {
        return;
    }
    // SAFETY: words of the current stack, from one in use to its end.
    let words = unsafe { core::slice::from_raw_parts(start as *const usize, (end - start) / 8) };
    words
        .iter()
        .filter(|&&word| follows_call(word))
        .take(DEPTH)
        .for_each(|word| crate::log!("backtrace: {word:#x}"));
}

/// Prints where the caller is.
#[inline(never)]
pub fn print_here() {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    print(sp, print_here as *const () as usize);
}

/// Whether the instruction before `address` is a call of the kernel's (BL, BLR: Arm ARM C6.2).
fn follows_call(address: usize) -> bool {
    if address % 4 != 0 || !memory_map::is_code(address.wrapping_sub(4)) {
        return false;
    }
    // SAFETY: inside the kernel's code, which is mapped for ever.
    let word = unsafe { ((address - 4) as *const u32).read() };
    word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000
}
