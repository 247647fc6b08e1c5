//! System calls of threads that use SVE: a call preserves only V0 to V31, as in Linux's interface
//! (Documentation/arch/arm64/sve.rst, section 4). Such a thread uses its own table, so that others
//! do not pay.

use core::arch::{asm, naked_asm};

use super::thread::ThreadState;
use crate::arch::syscall::ENTRIES;
use crate::arch::{Entry, SyscallTable};
use crate::upcall::SYSCALLS;

/// Zeroes Z0 to Z31 except for V0 to V31, by writing the latter, and P0 to P15 and FFR.
macro_rules! drop_rest {
    () => {
        concat!(
            ".arch_extension fp\n",
            ".arch_extension simd\n",
            ".arch_extension sve\n",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n",
            "mov v\\n\\().16b, v\\n\\().16b\n",
            ".endr\n",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n",
            "pfalse p\\n\\().b\n",
            ".endr\n",
            "wrffr p0.b\n",
            ".arch_extension nosve\n",
            ".arch_extension nofp\n",
        )
    };
}

/// The system call table of threads that use SVE.
pub fn dropping_table() -> &'static SyscallTable {
    // SAFETY: it continues to the call's entry in the kernel's table.
    static DROPPING: SyscallTable = [unsafe { Entry::of_stub(dropping) }; ENTRIES];
    &DROPPING
}

/// x9 holds the table index of the call.
#[unsafe(naked)]
unsafe extern "C" fn dropping(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    naked_asm!(
        drop_rest!(),
        "adrp x10, {table}",
        "add x10, x10, :lo12:{table}",
        "ldr x10, [x10, x9, lsl #3]",
        "br x10",
        table = sym SYSCALLS,
    )
}

impl ThreadState {
    /// Discards the registers that calls do not preserve, when the current thread, whose calls are
    /// traced, makes one.
    pub fn drop_vectors(&self) {
        if self.uses_sve() {
            // SAFETY: no compiled code uses these registers, and SVE is enabled for the kernel.
            unsafe { asm!(drop_rest!(), options(nomem, nostack, preserves_flags)) };
        }
    }
}
