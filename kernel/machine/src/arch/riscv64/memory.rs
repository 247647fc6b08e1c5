//! memcpy and memset, which the compiler calls, with eight words per iteration. The compiler's own
//! versions copy a word at a time, and copies are a large part of a system call. All accesses are
//! aligned, since firmware may have to emulate misaligned ones.

use core::arch::naked_asm;

/// Number of bytes per iteration of the loops.
const TURN: usize = 64;

/// Copies `len` bytes from `source` to `target`, which do not overlap; returns `target`.
///
/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn memcpy(target: *mut u8, source: *const u8, len: usize) -> *mut u8 {
    naked_asm!(
        "mv a3, a0",
        "li a4, 8",
        "bltu a2, a4, 6f",
        // Copy bytes until the target is aligned.
        "1: andi a5, a3, 7",
        "beqz a5, 2f",
        "lb a5, (a1)",
        "sb a5, (a3)",
        "addi a1, a1, 1",
        "addi a3, a3, 1",
        "addi a2, a2, -1",
        "j 1b",
        "2: andi t0, a1, 7",
        "bnez t0, 8f",
        // Both are aligned: copy blocks, then words, then bytes.
        "li a4, {turn}",
        "bltu a2, a4, 4f",
        "3: ld a5, 0(a1)",
        "ld a6, 8(a1)",
        "ld a7, 16(a1)",
        "ld t0, 24(a1)",
        "ld t1, 32(a1)",
        "ld t2, 40(a1)",
        "ld t3, 48(a1)",
        "ld t4, 56(a1)",
        "addi a1, a1, {turn}",
        "addi a2, a2, -{turn}",
        "sd a5, 0(a3)",
        "sd a6, 8(a3)",
        "sd a7, 16(a3)",
        "sd t0, 24(a3)",
        "sd t1, 32(a3)",
        "sd t2, 40(a3)",
        "sd t3, 48(a3)",
        "sd t4, 56(a3)",
        "addi a3, a3, {turn}",
        "bgeu a2, a4, 3b",
        "4: li a4, 8",
        "bltu a2, a4, 6f",
        "5: ld a5, (a1)",
        "addi a2, a2, -8",
        "addi a1, a1, 8",
        "sd a5, (a3)",
        "addi a3, a3, 8",
        "bgeu a2, a4, 5b",
        "6: beqz a2, 7f",
        "lb a5, (a1)",
        "addi a2, a2, -1",
        "addi a1, a1, 1",
        "sb a5, (a3)",
        "addi a3, a3, 1",
        "j 6b",
        "7: ret",
        // The source is misaligned: combine each target word from two aligned words, each of which
        // contains source bytes, so that no other memory is accessed.
        "8: bltu a2, a4, 6b",
        "sub a1, a1, t0",
        "slli t1, t0, 3",
        "neg t2, t1",
        "ld a5, (a1)",
        "9: ld a6, 8(a1)",
        "srl a5, a5, t1",
        "sll a7, a6, t2",
        "or a5, a5, a7",
        "sd a5, (a3)",
        "mv a5, a6",
        "addi a2, a2, -8",
        "addi a1, a1, 8",
        "addi a3, a3, 8",
        "bgeu a2, a4, 9b",
        "add a1, a1, t0",
        "j 6b",
        turn = const TURN,
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
        "mv a3, a0",
        "li a4, 8",
        "bltu a2, a4, 5f",
        "andi a1, a1, 0xff",
        "slli a5, a1, 8",
        "or a1, a1, a5",
        "slli a5, a1, 16",
        "or a1, a1, a5",
        "slli a5, a1, 32",
        "or a1, a1, a5",
        "1: andi a5, a3, 7",
        "beqz a5, 2f",
        "sb a1, (a3)",
        "addi a3, a3, 1",
        "addi a2, a2, -1",
        "j 1b",
        "2: li a5, {turn}",
        "bltu a2, a5, 4f",
        "3: sd a1, 0(a3)",
        "sd a1, 8(a3)",
        "sd a1, 16(a3)",
        "sd a1, 24(a3)",
        "addi a2, a2, -{turn}",
        "sd a1, 32(a3)",
        "sd a1, 40(a3)",
        "sd a1, 48(a3)",
        "sd a1, 56(a3)",
        "addi a3, a3, {turn}",
        "bgeu a2, a5, 3b",
        "4: bltu a2, a4, 5f",
        "sd a1, (a3)",
        "addi a3, a3, 8",
        "addi a2, a2, -8",
        "j 4b",
        "5: beqz a2, 6f",
        "sb a1, (a3)",
        "addi a3, a3, 1",
        "addi a2, a2, -1",
        "j 5b",
        "6: ret",
        turn = const TURN,
    )
}
