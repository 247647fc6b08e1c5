//! The kernel's accesses to a program's memory (privileged manual, section 12.1.1.2: SUM).
//!
//! Only the instructions between setting SUM and clearing it can touch pages of programs. Each that
//! may fault has an entry in the exception table: where to go on when the fault is not resolved.

use core::arch::{asm, naked_asm};

use super::{USER_END, status};

/// An address that the program may not use so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// An address without a tag, which none has here.
pub const fn untagged(address: usize) -> usize {
    address
}

/// Whether a range that begins with a tag is taken: there are no tags.
#[inline(always)]
pub fn takes_tagged(_address: usize, _len: usize, _end: usize) -> bool {
    false
}

/// An entry of the exception table: both relative to their own address.
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

/// Where to go on after an unresolved fault of the instruction at `pc`, if that may fault.
pub(super) fn fixup(pc: usize) -> Option<usize> {
    let start = &raw const FIXUPS_START;
    // SAFETY: the linker script sets the two symbols around the entries, which nobody writes.
    let table = unsafe {
        core::slice::from_raw_parts(start, (&raw const FIXUPS_END).offset_from_unsigned(start))
    };
    let absolute = |field: &i32| (&raw const *field as usize).wrapping_add_signed(*field as isize);
    table
        .iter()
        .find(|entry| absolute(&entry.instruction) == pc)
        .map(|entry| absolute(&entry.target))
}

/// Added to where to go on, which is even: the fault is not resolved.
pub(super) const UNRESOLVED: usize = 1;

/// The instruction at label 9 may fault, and then goes to `$target`.
macro_rules! may_fault {
    ($instruction:literal, $target:literal) => {
        concat!(
            "9: ",
            $instruction,
            "\n",
            ".pushsection .fixups, \"a\"\n",
            ".balign 4\n",
            ".word 9b - .\n",
            ".word ",
            $target,
            " - .\n",
            ".popsection\n"
        )
    };
}

/// Bytes that one turn of the copying loops moves.
const TURN: usize = 64;

/// Copies a2 bytes from a1 to a0, one of them the program's; returns how many are left.
#[unsafe(naked)]
unsafe extern "C" fn copy(to: usize, from: usize, len: usize) -> usize {
    naked_asm!(
        "li t0, {sum}",
        "csrs sstatus, t0",
        "li t1, 8",
        "bltu a2, t1, 4f",
        // Words, if both sides are aligned alike.
        "xor t1, a0, a1",
        "andi t1, t1, 7",
        "bnez t1, 4f",
        "1: andi t1, a0, 7",
        "beqz t1, 2f",
        "beqz a2, 6f",
        may_fault!("lb t1, (a1)", "6f"),
        may_fault!("sb t1, (a0)", "6f"),
        "addi a0, a0, 1",
        "addi a1, a1, 1",
        "addi a2, a2, -1",
        "j 1b",
        // 64 bytes a turn. After a fault the rest goes by bytes, up to the one that faults.
        "2: li a3, {turn}",
        "bltu a2, a3, 3f",
        may_fault!("ld t1, 0(a1)", "4f"),
        may_fault!("ld t2, 8(a1)", "4f"),
        may_fault!("ld t3, 16(a1)", "4f"),
        may_fault!("ld t4, 24(a1)", "4f"),
        may_fault!("ld t5, 32(a1)", "4f"),
        may_fault!("ld t6, 40(a1)", "4f"),
        may_fault!("ld a4, 48(a1)", "4f"),
        may_fault!("ld a5, 56(a1)", "4f"),
        may_fault!("sd t1, 0(a0)", "4f"),
        may_fault!("sd t2, 8(a0)", "4f"),
        may_fault!("sd t3, 16(a0)", "4f"),
        may_fault!("sd t4, 24(a0)", "4f"),
        may_fault!("sd t5, 32(a0)", "4f"),
        may_fault!("sd t6, 40(a0)", "4f"),
        may_fault!("sd a4, 48(a0)", "4f"),
        may_fault!("sd a5, 56(a0)", "4f"),
        "addi a0, a0, {turn}",
        "addi a1, a1, {turn}",
        "addi a2, a2, -{turn}",
        "j 2b",
        "3: li a3, 8",
        "7: bltu a2, a3, 4f",
        may_fault!("ld t1, (a1)", "4f"),
        may_fault!("sd t1, (a0)", "4f"),
        "addi a0, a0, 8",
        "addi a1, a1, 8",
        "addi a2, a2, -8",
        "j 7b",
        "4: beqz a2, 6f",
        "5:",
        may_fault!("lb t1, (a1)", "6f"),
        may_fault!("sb t1, (a0)", "6f"),
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

/// Writes a1 zero bytes from a0 on; returns how many are left.
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

/// How much of `len` bytes from `address` lies in the program's half.
fn clamp(address: usize, len: usize) -> usize {
    len.min(USER_END.saturating_sub(address))
}

/// Copies from the program's memory at `from`; returns how many bytes before the first that could
/// not be read.
///
/// # Safety
/// `to` is valid for writes of `len` bytes, and nothing else looks at them meanwhile.
pub unsafe fn copy_in(to: *mut u8, from: usize, len: usize) -> usize {
    let len = clamp(from, len);
    // SAFETY: the program's side can fault and is checked to be its own; the other is the caller's
    // promise.
    len - unsafe { copy(to as usize, from, len) }
}

/// Copies to the program's memory at `to`; returns how many bytes before the first that could not
/// be written.
///
/// # Safety
/// `from` is valid for reads of `len` bytes.
pub unsafe fn copy_out(to: usize, from: *const u8, len: usize) -> usize {
    let len = clamp(to, len);
    // SAFETY: the program's side can fault and is checked to be its own; the other is the caller's
    // promise.
    len - unsafe { copy(to, from as usize, len) }
}

/// Writes zeroes to the program's memory; returns how many bytes before the first that could not be
/// written.
pub fn clear(to: usize, len: usize) -> usize {
    let len = clamp(to, len);
    // SAFETY: the program's memory can fault and is checked to be its own.
    len - unsafe { fill_zero(to, len) }
}

fn check(address: usize) -> Result<(), Fault> {
    if address.is_multiple_of(size_of::<u32>()) && address < USER_END {
        Ok(())
    } else {
        Err(Fault)
    }
}

/// Runs the instructions given on a word of the program at `{at}`, with SUM set. `{failed}` says
/// whether one that may fault did.
macro_rules! on_word {
    ($address:expr, [$($line:expr),*], $($operands:tt)*) => {{
        check($address)?;
        let failed: usize;
        // SAFETY: the program's word can fault and is checked to be its own; a fault leads to label
        // 8.
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

/// Reads a word of the program as one access.
///
/// # Errors
/// A fault; also if `address` is no multiple of 4.
pub fn load_u32(address: usize) -> Result<u32, Fault> {
    let value: u32;
    on_word!(address, [may_fault!("lw {value}, ({at})", "8f"), "fence r, rw"], value = out(reg) value,);
    Ok(value)
}

/// Reads a word of the program as one access, if its page is present.
///
/// # Errors
/// A fault; also if `address` is no multiple of 4.
pub fn load_present_u32(address: usize) -> Result<u32, Fault> {
    let value: u32;
    on_word!(address, [may_fault!("lw {value}, ({at})", "8f + 1"), "fence r, rw"], value = out(reg) value,);
    Ok(value)
}

/// Writes a word of the program as one access.
///
/// # Errors
/// A fault; also if `address` is no multiple of 4.
pub fn store_u32(address: usize, value: u32) -> Result<(), Fault> {
    on_word!(address, ["fence rw, w", may_fault!("sw {value}, ({at})", "8f")], value = in(reg) value,);
    Ok(())
}

/// Writes `$new` if a word of the program is `$old`, as one access; what it was. After a fault it
/// goes on at `$target`, label 8.
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

/// Writes `new` if a word of the program is `old`, as one access; returns what it was.
///
/// # Errors
/// A fault; also if `address` is no multiple of 4.
pub fn cmpxchg_u32(address: usize, old: u32, new: u32) -> Result<u32, Fault> {
    cmpxchg!(address, old, new, "8f")
}

/// The same, if its page is present and can be written.
///
/// # Errors
/// A fault; also if `address` is no multiple of 4.
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

/// Faults on the program's address `from`, with the stack that goes on below `stack`; says what two
/// registers hold afterwards.
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
