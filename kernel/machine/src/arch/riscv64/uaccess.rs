//! Kernel accesses to program memory (privileged manual, section 12.1.1.2: SUM).
//!
//! Only the instructions between setting and clearing SUM can access program pages. Each one that
//! may fault has an entry in the fixup table: after a fault that is not resolved, execution
//! continues there.

use core::arch::{asm, naked_asm};

use super::{USER_END, status};

/// An invalid access to program memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// The address without a tag: there are no tags here.
pub const fn untagged(address: usize) -> usize {
    address
}

/// Whether a tagged range is accepted: there are no tags.
#[inline(always)]
pub fn takes_tagged(_address: usize, _len: usize, _end: usize) -> bool {
    false
}

/// An entry of the fixup table; both fields are relative to their own address.
#[repr(C)]
struct Fixup {
    instruction: i32,
    target: i32,
}

unsafe extern "C" {
    #[link_name = "__fixups_start"]
    static FIXUPS_START: Fixup;
    #[link_name = "__fixups_end"]
    static FIXUPS_END: Fixup;
}

/// Returns the address at which to continue after an unresolved fault of the instruction at `pc`,
/// if it has a fixup.
pub(super) fn fixup(pc: usize) -> Option<usize> {
    let start = &raw const FIXUPS_START;
    // SAFETY: the linker script defines the two symbols around the entries, which nobody writes.
    let table = unsafe {
        core::slice::from_raw_parts(start, (&raw const FIXUPS_END).offset_from_unsigned(start))
    };
    let absolute = |field: &i32| (&raw const *field as usize).wrapping_add_signed(*field as isize);
    table
        .iter()
        .find(|entry| absolute(&entry.instruction) == pc)
        .map(|entry| absolute(&entry.target))
}

/// Added to a continuation address, which is even: the fault is not resolved.
pub(super) const UNRESOLVED: usize = 1;

/// An instruction, at label 9, that may fault, and then continues at `$target`; with the suffix
/// `" + 1"` ([`UNRESOLVED`]), its faults are not resolved.
macro_rules! may_fault {
    ($instruction:literal, $target:literal) => {
        may_fault!($instruction, $target, "")
    };
    ($instruction:literal, $target:literal, $suffix:literal) => {
        concat!(
            "9: ",
            $instruction,
            "\n",
            ".pushsection .fixups, \"a\"\n",
            ".balign 4\n",
            ".word 9b - .\n",
            ".word ",
            $target,
            $suffix,
            " - .\n",
            ".popsection\n"
        )
    };
}

/// Number of bytes per iteration of the copy loops.
const TURN: usize = 64;

/// A function that copies from or to program memory, whose faults have fixups with this suffix.
macro_rules! copies {
    ($copy:ident, $suffix:literal) => {
        /// Copies a2 bytes from a1 to a0, one of which is in program memory; returns the number of
        /// bytes left.
        #[unsafe(naked)]
        unsafe extern "C" fn $copy(to: usize, from: usize, len: usize) -> usize {
            naked_asm!(
                "li t0, {sum}",
                "csrs sstatus, t0",
                "li t1, 8",
                "bltu a2, t1, 4f",
                // Copy words if both sides have the same alignment.
                "xor t1, a0, a1",
                "andi t1, t1, 7",
                "bnez t1, 4f",
                "1: andi t1, a0, 7",
                "beqz t1, 2f",
                "beqz a2, 6f",
                may_fault!("lb t1, (a1)", "6f", $suffix),
                may_fault!("sb t1, (a0)", "6f", $suffix),
                "addi a0, a0, 1",
                "addi a1, a1, 1",
                "addi a2, a2, -1",
                "j 1b",
                // Copy 64 bytes per iteration. After a fault the rest is copied bytewise, up to the
                // byte that faults.
                "2: li a3, {turn}",
                "bltu a2, a3, 3f",
                may_fault!("ld t1, 0(a1)", "4f", $suffix),
                may_fault!("ld t2, 8(a1)", "4f", $suffix),
                may_fault!("ld t3, 16(a1)", "4f", $suffix),
                may_fault!("ld t4, 24(a1)", "4f", $suffix),
                may_fault!("ld t5, 32(a1)", "4f", $suffix),
                may_fault!("ld t6, 40(a1)", "4f", $suffix),
                may_fault!("ld a4, 48(a1)", "4f", $suffix),
                may_fault!("ld a5, 56(a1)", "4f", $suffix),
                may_fault!("sd t1, 0(a0)", "4f", $suffix),
                may_fault!("sd t2, 8(a0)", "4f", $suffix),
                may_fault!("sd t3, 16(a0)", "4f", $suffix),
                may_fault!("sd t4, 24(a0)", "4f", $suffix),
                may_fault!("sd t5, 32(a0)", "4f", $suffix),
                may_fault!("sd t6, 40(a0)", "4f", $suffix),
                may_fault!("sd a4, 48(a0)", "4f", $suffix),
                may_fault!("sd a5, 56(a0)", "4f", $suffix),
                "addi a0, a0, {turn}",
                "addi a1, a1, {turn}",
                "addi a2, a2, -{turn}",
                "j 2b",
                "3: li a3, 8",
                "7: bltu a2, a3, 4f",
                may_fault!("ld t1, (a1)", "4f", $suffix),
                may_fault!("sd t1, (a0)", "4f", $suffix),
                "addi a0, a0, 8",
                "addi a1, a1, 8",
                "addi a2, a2, -8",
                "j 7b",
                "4: beqz a2, 6f",
                "5:",
                may_fault!("lb t1, (a1)", "6f", $suffix),
                may_fault!("sb t1, (a0)", "6f", $suffix),
                "addi a0, a0, 1",
                "addi a1, a1, 1",
                "addi a2, a2, -1",
                "bnez a2, 5b",
                "6: csrc sstatus, t0",
                "mv a0, a2",
                "ret",
                sum = const status::SUM,
                turn = const TURN,
            )
        }
    };
}

copies!(copy, "");
copies!(copy_present, " + 1");

/// Writes a1 zero bytes from a0 on; returns the number of bytes left.
#[unsafe(naked)]
unsafe extern "C" fn fill_zero(to: usize, len: usize) -> usize {
    naked_asm!(
        "li t0, {sum}",
        "csrs sstatus, t0",
        "1: andi t1, a0, 7",
        "beqz t1, 2f",
        "beqz a1, 6f",
        may_fault!("sb zero, (a0)", "6f"),
        "addi a0, a0, 1",
        "addi a1, a1, -1",
        "j 1b",
        "2: li a3, {turn}",
        "3: bltu a1, a3, 4f",
        may_fault!("sd zero, 0(a0)", "4f"),
        may_fault!("sd zero, 8(a0)", "4f"),
        may_fault!("sd zero, 16(a0)", "4f"),
        may_fault!("sd zero, 24(a0)", "4f"),
        may_fault!("sd zero, 32(a0)", "4f"),
        may_fault!("sd zero, 40(a0)", "4f"),
        may_fault!("sd zero, 48(a0)", "4f"),
        may_fault!("sd zero, 56(a0)", "4f"),
        "addi a0, a0, {turn}",
        "addi a1, a1, -{turn}",
        "j 3b",
        "4: beqz a1, 6f",
        may_fault!("sb zero, (a0)", "6f"),
        "addi a0, a0, 1",
        "addi a1, a1, -1",
        "j 4b",
        "6: csrc sstatus, t0",
        "mv a0, a1",
        "ret",
        sum = const status::SUM,
        turn = const TURN,
    )
}

/// The length of the part of `len` bytes from `address` that lies in the program's half.
fn clamp(address: usize, len: usize) -> usize {
    len.min(USER_END.saturating_sub(address))
}

/// Copies from program memory at `from`; returns the number of bytes before the first that could
/// not be read.
///
/// # Safety
/// `to` is valid for writes of `len` bytes, and nothing else accesses them meanwhile.
pub unsafe fn copy_in(to: *mut u8, from: usize, len: usize) -> usize {
    let len = clamp(from, len);
    // SAFETY: the program's side may fault and is checked to be in its half; the caller guarantees
    // the other.
    len - unsafe { copy(to as usize, from, len) }
}

/// Copies to program memory at `to`; returns the number of bytes before the first that could not be
/// written.
///
/// # Safety
/// `from` is valid for reads of `len` bytes.
pub unsafe fn copy_out(to: usize, from: *const u8, len: usize) -> usize {
    let len = clamp(to, len);
    // SAFETY: the program's side may fault and is checked to be in its half; the caller guarantees
    // the other.
    len - unsafe { copy(to, from as usize, len) }
}

/// As [`copy_in`], without resolving faults.
///
/// # Safety
/// As for [`copy_in`].
pub unsafe fn copy_in_present(to: *mut u8, from: usize, len: usize) -> usize {
    let len = clamp(from, len);
    // SAFETY: as in `copy_in`.
    len - unsafe { copy_present(to as usize, from, len) }
}

/// As [`copy_out`], without resolving faults.
///
/// # Safety
/// As for [`copy_out`].
pub unsafe fn copy_out_present(to: usize, from: *const u8, len: usize) -> usize {
    let len = clamp(to, len);
    // SAFETY: as in `copy_out`.
    len - unsafe { copy_present(to, from as usize, len) }
}

/// Writes zeroes to program memory; returns the number of bytes before the first that could not be
/// written.
pub fn clear(to: usize, len: usize) -> usize {
    let len = clamp(to, len);
    // SAFETY: the program's memory may fault and is checked to be in its half.
    len - unsafe { fill_zero(to, len) }
}

fn check(address: usize) -> Result<(), Fault> {
    if address.is_multiple_of(size_of::<u32>()) && address < USER_END {
        Ok(())
    } else {
        Err(Fault)
    }
}

/// Executes the given instructions on a word of the program at `{at}`, with SUM set. `{failed}` is
/// nonzero if one of them faulted.
macro_rules! on_word {
    ($address:expr, [$($line:expr),*], $($operands:tt)*) => {{
        check($address)?;
        let failed: usize;
        // SAFETY: the program's word may fault and is checked to be in its half; a fault continues
        // at label 8.
        unsafe {
            asm!(
                "li {failed}, 1",
                "csrs sstatus, {sum}",
                $($line,)*
                "li {failed}, 0",
                "8: csrc sstatus, {sum}",
                at = in(reg) $address,
                sum = in(reg) status::SUM,
                failed = out(reg) failed,
                $($operands)*
                options(nostack),
            )
        };
        if failed != 0 {
            return Err(Fault);
        }
    }};
}

/// Reads a word of the program in a single access.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn load_u32(address: usize) -> Result<u32, Fault> {
    let value: u32;
    on_word!(address, [may_fault!("lw {value}, ({at})", "8f"), "fence r, rw"], value = out(reg) value,);
    Ok(value)
}

/// Reads a word of the program in a single access, if its page is present.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn load_present_u32(address: usize) -> Result<u32, Fault> {
    let value: u32;
    on_word!(address, [may_fault!("lw {value}, ({at})", "8f + 1"), "fence r, rw"], value = out(reg) value,);
    Ok(value)
}

/// Writes a word of the program in a single access.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn store_u32(address: usize, value: u32) -> Result<(), Fault> {
    on_word!(address, ["fence rw, w", may_fault!("sw {value}, ({at})", "8f")], value = in(reg) value,);
    Ok(())
}

/// Atomically writes `$new` if a word of the program is `$old`; returns the previous value. After a
/// fault continues at `$target`, label 8.
macro_rules! cmpxchg {
    ($address:expr, $old:expr, $new:expr, $target:literal) => {{
        let value: u32;
        on_word!(
            $address,
            [
                "5:",
                may_fault!("lr.w.aqrl {value}, ({at})", $target),
                "bne {value}, {old}, 6f",
                may_fault!("sc.w.rl {done}, {new}, ({at})", $target),
                "bnez {done}, 5b",
                "6:"
            ],
            value = out(reg) value,
            old = in(reg) $old as i32 as isize,
            new = in(reg) $new,
            done = out(reg) _,
        );
        Ok(value)
    }};
}

/// Atomically writes `new` if a word of the program is `old`; returns the previous value.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn cmpxchg_u32(address: usize, old: u32, new: u32) -> Result<u32, Fault> {
    cmpxchg!(address, old, new, "8f")
}

/// As [`cmpxchg_u32`], if the page is present and writable.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn cmpxchg_present_u32(address: usize, old: u32, new: u32) -> Result<u32, Fault> {
    cmpxchg!(address, old, new, "8f + 1")
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn the_frame_of_a_fault_may_lie_on_unseen_pages() {
        use super::{PAGE_SIZE, cpu, fence};
        let stack = crate::mm::vmalloc::KernelStack::new().unwrap();
        let recovered = || cpu::this().crossings().get(crossings::Kind::FaultNewMapping);
        let (lower, upper) = (stack.range().end - 2 * PAGE_SIZE, stack.range().end - PAGE_SIZE);
        let before = recovered();
        let kept = fence::with_unseen(lower, || fence::with_unseen(upper, || fault_on(upper + 64, 0)));
        assert_eq!((kept, recovered()), (77 << 8 | 55, before + 2));
    }
}

/// Faults on the program's address `from`, with the stack pointer at `stack`; returns the values of
/// two registers afterwards.
#[cfg(feature = "selftest")]
#[unsafe(naked)]
extern "C" fn fault_on(stack: usize, from: usize) -> usize {
    naked_asm!(
        "addi sp, sp, -16",
        "sd s0, (sp)",
        "mv s0, sp",
        "mv sp, a0",
        "li t0, 77",
        "li t1, 55",
        may_fault!("lb a1, (a1)", "6f"),
        "6: mv sp, s0",
        "ld s0, (sp)",
        "addi sp, sp, 16",
        "slli a0, t0, 8",
        "or a0, a0, t1",
        "ret",
    )
}
