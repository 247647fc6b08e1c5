//! memcpy, memmove and memset, which the compiler calls, using register pairs. The compiler's own
//! versions copy a word at a time, and copies are a large part of a system call.

use core::arch::naked_asm;

/// Copies `len` bytes from `source` to `target`, which do not overlap; returns `target`.
///
/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn memcpy(target: *mut u8, source: *const u8, len: usize) -> *mut u8 {
    naked_asm!(
        "add x4, x1, x2",
        "add x5, x0, x2",
        "cmp x2, #16",
        "b.lo 3f",
        "mov x3, x0",
        "subs x2, x2, #64",
        "b.lo 2f",
        "1: ldp x6, x7, [x1]",
        "ldp x8, x9, [x1, #16]",
        "ldp x10, x11, [x1, #32]",
        "ldp x12, x13, [x1, #48]",
        "add x1, x1, #64",
        "stp x6, x7, [x3]",
        "stp x8, x9, [x3, #16]",
        "stp x10, x11, [x3, #32]",
        "stp x12, x13, [x3, #48]",
        "add x3, x3, #64",
        "subs x2, x2, #64",
        "b.hs 1b",
        // 0 to 63 bytes remain: x2 is their number minus 64. The last 16 are copied from the end.
        "2: tbz x2, #5, 22f",
        "ldp x6, x7, [x1]",
        "ldp x8, x9, [x1, #16]",
        "stp x6, x7, [x3]",
        "stp x8, x9, [x3, #16]",
        "add x1, x1, #32",
        "add x3, x3, #32",
        "22: tbz x2, #4, 23f",
        "ldp x6, x7, [x1]",
        "stp x6, x7, [x3]",
        "23: ldp x6, x7, [x4, #-16]",
        "stp x6, x7, [x5, #-16]",
        "ret",
        // Up to 15 bytes: two copies that may overlap.
        "3: tbz x2, #3, 4f",
        "ldr x6, [x1]",
        "ldr x7, [x4, #-8]",
        "str x6, [x0]",
        "str x7, [x5, #-8]",
        "ret",
        "4: tbz x2, #2, 5f",
        "ldr w6, [x1]",
        "ldr w7, [x4, #-4]",
        "str w6, [x0]",
        "str w7, [x5, #-4]",
        "ret",
        "5: cbz x2, 6f",
        // One to three bytes: first, middle, last.
        "lsr x8, x2, #1",
        "ldrb w6, [x1]",
        "ldrb w7, [x4, #-1]",
        "ldrb w9, [x1, x8]",
        "strb w6, [x0]",
        "strb w9, [x0, x8]",
        "strb w7, [x5, #-1]",
        "6: ret",
    )
}

/// Copies `len` bytes from `source` to `target`, which may overlap; returns `target`.
///
/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn memmove(target: *mut u8, source: *const u8, len: usize) -> *mut u8 {
    naked_asm!(
        // Does `target` begin inside the source bytes?
        "sub x3, x0, x1",
        "cmp x3, x2",
        "b.hs 4f",
        // If so, copy backwards.
        "add x4, x1, x2",
        "add x5, x0, x2",
        "subs x2, x2, #16",
        "b.lo 2f",
        "1: ldp x6, x7, [x4, #-16]!",
        "stp x6, x7, [x5, #-16]!",
        "subs x2, x2, #16",
        "b.hs 1b",
        "2: adds x2, x2, #16",
        "b.eq 5f",
        "3: ldrb w6, [x4, #-1]!",
        "strb w6, [x5, #-1]!",
        "subs x2, x2, #1",
        "b.ne 3b",
        "5: ret",
        // Copy forwards. `target` below `source` may overlap it, for which `memcpy`'s overlapping
        // last copies would be wrong.
        "4: mov x5, x0",
        "subs x2, x2, #16",
        "b.lo 7f",
        "6: ldp x6, x7, [x1], #16",
        "stp x6, x7, [x5], #16",
        "subs x2, x2, #16",
        "b.hs 6b",
        "7: adds x2, x2, #16",
        "b.eq 9f",
        "8: ldrb w6, [x1], #1",
        "strb w6, [x5], #1",
        "subs x2, x2, #1",
        "b.ne 8b",
        "9: ret",
    )
}

/// Fills `len` bytes at `target` with `byte`; returns `target`.
///
/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn memset(target: *mut u8, byte: i32, len: usize) -> *mut u8 {
    naked_asm!(
        "and w1, w1, #0xff",
        "mov x3, #0x0101010101010101",
        "mul x1, x1, x3",
        "add x5, x0, x2",
        "cmp x2, #16",
        "b.lo 3f",
        "mov x3, x0",
        "subs x2, x2, #64",
        "b.lo 2f",
        "1: stp x1, x1, [x3]",
        "stp x1, x1, [x3, #16]",
        "stp x1, x1, [x3, #32]",
        "stp x1, x1, [x3, #48]",
        "add x3, x3, #64",
        "subs x2, x2, #64",
        "b.hs 1b",
        "2: tbz x2, #5, 22f",
        "stp x1, x1, [x3]",
        "stp x1, x1, [x3, #16]",
        "add x3, x3, #32",
        "22: tbz x2, #4, 23f",
        "stp x1, x1, [x3]",
        "23: stp x1, x1, [x5, #-16]",
        "ret",
        "3: tbz x2, #3, 4f",
        "str x1, [x0]",
        "str x1, [x5, #-8]",
        "ret",
        "4: tbz x2, #2, 5f",
        "str w1, [x0]",
        "str w1, [x5, #-4]",
        "ret",
        "5: cbz x2, 6f",
        "lsr x8, x2, #1",
        "strb w1, [x0]",
        "strb w1, [x0, x8]",
        "strb w1, [x5, #-1]",
        "6: ret",
    )
}
