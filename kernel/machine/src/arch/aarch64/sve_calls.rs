//! System calls of threads that use SVE: a call keeps V0 to V31 alone, as Linux's interface has it
//! (Documentation/arch/arm64/sve.rst, section 4). Such a thread has a table of its own, so that no
//! other pays.

use core::arch::{asm, naked_asm};

use super::thread::ThreadState;
use crate::arch::syscall::ENTRIES;
use crate::arch::{Entry, SyscallTable};
use crate::upcall::SYSCALLS;

/// Zeroes Z0 to Z31 but for V0 to V31, whose writing does that, P0 to P15 and FFR.
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

/// What the entry path calls for a thread that uses SVE.
pub fn dropping_table() -> &'static SyscallTable {
    // SAFETY: it goes on to the entry that the call has in the kernel's table.
    static DROPPING: SyscallTable = [unsafe { Entry::of_stub(dropping) }; ENTRIES];
    &DROPPING
}

/// x9 holds the place of the call in its table.
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
    /// The current thread, whose calls are watched, makes one: of vectors it keeps what calls keep.
    pub fn drop_vectors(&self) {
        if self.uses_sve() {
            // SAFETY: no compiled code uses these registers, and the kernel may.
            unsafe { asm!(drop_rest!(), options(nomem, nostack, preserves_flags)) };
        }
    }
}
