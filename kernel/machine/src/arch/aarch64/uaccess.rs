//! The kernel's touches of a program's memory.
//!
//! Plain copies use LDTR and STTR, which access with EL0's rights whatever PSTATE.PAN says (Arm ARM
//! C3.2.9): so the kernel's own memory cannot be reached through a program's pointer on any CPU,
//! and PAN never has to be lifted. Each such instruction has an entry in the table of fix-ups: a
//! fault that `mm` cannot resolve goes on there.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::USER_END;
use super::sysreg::{isb, read};
use crate::upcall;

/// A fault that could not be resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faulted;

/// An instruction that may fault, and where to go on then; both relative to the field's own
/// address.
#[repr(C)]
struct Fixup {
    instruction: i32,
    target: i32,
}

unsafe extern "C" {
    static __fixups_start: Fixup;
    static __fixups_end: Fixup;
}

/// Where to go on after an unresolved fault of the instruction at `pc`, if that may fault;
/// one more ([`UNRESOLVED`]) where none is to be resolved.
pub(super) fn fixup(pc: usize) -> Option<usize> {
    let start = &raw const __fixups_start;
    let count = (&raw const __fixups_end as usize - start as usize) / size_of::<Fixup>();
    // SAFETY: the linker script puts the entries, and nothing else, between the two symbols.
    let table = unsafe { core::slice::from_raw_parts(start, count) };
    let absolute =
        |field: &i32| (field as *const i32 as usize).wrapping_add_signed(*field as isize);
    table
        .iter()
        .find(|entry| absolute(&entry.instruction) == pc)
        .map(|entry| absolute(&entry.target))
}

/// Added to where to go on, which is even: the fault is not resolved.
pub(super) const UNRESOLVED: usize = 1;

/// An entry of the table of fix-ups, for the labels of an instruction and of where to go on.
macro_rules! fixup_entry {
    ($instruction:literal, $target:literal) => {
        concat!(
            ".pushsection .fixups, \"a\"\n",
            ".balign 4\n",
            ".long ",
            $instruction,
            " - .\n",
            ".long ",
            $target,
            " - .\n",
            ".popsection\n",
        )
    };
}

/// An address without the tag that programs may put in its top byte (TCR_EL1.TBI0).
pub const fn untagged(address: usize) -> usize {
    address & ((address as isize) << 8 >> 8) as usize
}

/// The part of a program's range that begins with a tag and that programs can have: the thread must
/// have asked for tags (Documentation/arch/arm64/tagged-address-abi.rst).
extern "C" fn tagged_part(address: usize, len: usize) -> usize {
    if upcall::tags_addresses() {
        len.min(USER_END.saturating_sub(untagged(address)))
    } else {
        0
    }
}

/// The part of a program's range that programs can have.
fn user_part(address: usize, len: usize) -> usize {
    match USER_END.checked_sub(address) {
        Some(room) => len.min(room),
        None => tagged_part(address, len),
    }
}

/// Whether a range that begins with a tag is taken, where one without would end at `end` at the
/// latest.
#[cold]
#[inline(never)]
pub fn takes_tagged(address: usize, len: usize, end: usize) -> bool {
    let plain = untagged(address);
    plain != address && upcall::tags_addresses() && len <= end && plain <= end - len
}

/// Copies `len` bytes of the program at `source` to `target`; returns how many before the first
/// that could not be read.
///
/// # Safety
/// `target` is writable for `len` bytes.
#[inline]
pub unsafe fn copy_in(target: *mut u8, source: usize, len: usize) -> usize {
    // SAFETY: the caller's range; LDTR reads only what the program itself could.
    unsafe { load_user(target, source, len) }
}

/// Copies `len` bytes from `source` to the program at `target`; returns how many before the first
/// that could not be written.
///
/// # Safety
/// `source` is readable for `len` bytes.
#[inline]
pub unsafe fn copy_out(target: usize, source: *const u8, len: usize) -> usize {
    // SAFETY: the caller's range; STTR writes only what the program itself could.
    unsafe { store_user(target, source, len) }
}

/// Writes zeroes to the program; returns how many bytes before the first that could not be written.
#[inline]
pub fn clear(target: usize, len: usize) -> usize {
    // SAFETY: STTR writes only what the program itself could.
    unsafe { clear_user(target, len) }
}

/// An address is not compared with the end of programs' memory: beyond it LDTR and STTR fault, on
/// the kernel's too. Only one with a tag might not: `tagged_part` says how much of it is taken.
#[unsafe(naked)]
unsafe extern "C" fn load_user(target: *mut u8, source: usize, len: usize) -> usize {
    naked_asm!(
        "lsr x9, x1, #56",
        "cbnz x9, 40f",
        "8: mov x3, x0",
        "add x9, x1, x2",
        "subs x2, x2, #32",
        "b.lo 20f",
        "10: ldtr x4, [x1]",
        "11: ldtr x5, [x1, #8]",
        "12: ldtr x6, [x1, #16]",
        "13: ldtr x7, [x1, #24]",
        "add x1, x1, #32",
        "stp x4, x5, [x0], #16",
        "stp x6, x7, [x0], #16",
        "subs x2, x2, #32",
        "b.hs 10b",
        // 0 to 31 bytes are left: their number is the low five bits of x2.
        "20: tbz x2, #4, 22f",
        "14: ldtr x4, [x1]",
        "15: ldtr x5, [x1, #8]",
        "add x1, x1, #16",
        "stp x4, x5, [x0], #16",
        "22: tbz x2, #3, 23f",
        "16: ldtr x4, [x1]",
        "add x1, x1, #8",
        "str x4, [x0], #8",
        "23: tbz x2, #2, 24f",
        "17: ldtr w4, [x1]",
        "add x1, x1, #4",
        "str w4, [x0], #4",
        "24: tst x2, #3",
        "b.ne 30f",
        "26: sub x0, x0, x3",
        "ret",
        // The last few bytes, and those before a fault: x9 is their end.
        "30: cmp x1, x9",
        "b.hs 26b",
        "18: ldtrb w4, [x1]",
        "add x1, x1, #1",
        "strb w4, [x0], #1",
        "b 30b",
        "40: stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "mov x0, x1",
        "mov x1, x2",
        "bl {tagged}",
        "mov x2, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "b 8b",
        fixup_entry!("10b", "30b"),
        fixup_entry!("11b", "30b"),
        fixup_entry!("12b", "30b"),
        fixup_entry!("13b", "30b"),
        fixup_entry!("14b", "30b"),
        fixup_entry!("15b", "30b"),
        fixup_entry!("16b", "30b"),
        fixup_entry!("17b", "30b"),
        fixup_entry!("18b", "26b"),
        tagged = sym tagged_part,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn store_user(target: usize, source: *const u8, len: usize) -> usize {
    naked_asm!(
        "lsr x9, x0, #56",
        "cbnz x9, 40f",
        "8: mov x3, x0",
        "add x9, x0, x2",
        "subs x2, x2, #32",
        "b.lo 20f",
        "10: ldp x4, x5, [x1]",
        "ldp x6, x7, [x1, #16]",
        "11: sttr x4, [x0]",
        "12: sttr x5, [x0, #8]",
        "13: sttr x6, [x0, #16]",
        "14: sttr x7, [x0, #24]",
        "add x1, x1, #32",
        "add x0, x0, #32",
        "subs x2, x2, #32",
        "b.hs 10b",
        "20: tbz x2, #4, 22f",
        "ldp x4, x5, [x1]",
        "15: sttr x4, [x0]",
        "16: sttr x5, [x0, #8]",
        "add x1, x1, #16",
        "add x0, x0, #16",
        "22: tbz x2, #3, 23f",
        "ldr x4, [x1]",
        "17: sttr x4, [x0]",
        "add x1, x1, #8",
        "add x0, x0, #8",
        "23: tbz x2, #2, 24f",
        "ldr w4, [x1]",
        "18: sttr w4, [x0]",
        "add x1, x1, #4",
        "add x0, x0, #4",
        "24: tst x2, #3",
        "b.ne 30f",
        "26: sub x0, x0, x3",
        "ret",
        // The last few bytes, and those before a fault: x9 is their end. What a fault interrupted
        // is written again.
        "30: cmp x0, x9",
        "b.hs 26b",
        "ldrb w4, [x1]",
        "19: sttrb w4, [x0]",
        "add x1, x1, #1",
        "add x0, x0, #1",
        "b 30b",
        "40: stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "mov x1, x2",
        "bl {tagged}",
        "mov x2, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "b 8b",
        fixup_entry!("11b", "30b"),
        fixup_entry!("12b", "30b"),
        fixup_entry!("13b", "30b"),
        fixup_entry!("14b", "30b"),
        fixup_entry!("15b", "30b"),
        fixup_entry!("16b", "30b"),
        fixup_entry!("17b", "30b"),
        fixup_entry!("18b", "30b"),
        fixup_entry!("19b", "26b"),
        tagged = sym tagged_part,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn clear_user(target: usize, len: usize) -> usize {
    naked_asm!(
        "lsr x9, x0, #56",
        "cbnz x9, 40f",
        "8: mov x3, x0",
        "add x9, x0, x1",
        "subs x1, x1, #16",
        "b.lo 30f",
        "10: sttr xzr, [x0]",
        "11: sttr xzr, [x0, #8]",
        "add x0, x0, #16",
        "subs x1, x1, #16",
        "b.hs 10b",
        "30: cmp x0, x9",
        "b.hs 26f",
        "12: sttrb wzr, [x0]",
        "add x0, x0, #1",
        "b 30b",
        "26: sub x0, x0, x3",
        "ret",
        "40: stp x0, x30, [sp, #-16]!",
        "bl {tagged}",
        "mov x1, x0",
        "ldp x0, x30, [sp], #16",
        "b 8b",
        fixup_entry!("10b", "30b"),
        fixup_entry!("11b", "30b"),
        fixup_entry!("12b", "26b"),
        tagged = sym tagged_part,
    )
}

/// Whether an access to the word at `address` by LDTR or STTR reaches none but the program's: they
/// fault themselves beyond its memory, but for what a tag hides.
#[inline(always)]
fn check_word(address: usize) -> Result<(), Faulted> {
    const TAG_OR_ODD: usize = 0xff << 56 | 3;
    if address & TAG_OR_ODD == 0 || is_tagged_word(address) {
        Ok(())
    } else {
        Err(Faulted)
    }
}

#[cold]
#[inline(never)]
fn is_tagged_word(address: usize) -> bool {
    address.is_multiple_of(4) && tagged_part(address, size_of::<u32>()) == size_of::<u32>()
}

/// Whether `address` is that of a word that programs can have, for an access by the kernel's right.
fn check_own_word(address: usize) -> Result<(), Faulted> {
    if address.is_multiple_of(4) && (address < USER_END || is_tagged_word(address)) {
        Ok(())
    } else {
        Err(Faulted)
    }
}

/// Reads the word at an address as one access; after a fault it goes on at `$target`, label 11.
macro_rules! load {
    ($address:expr, $target:literal) => {{
        let (value, failed): (u32, u32);
        // SAFETY: LDTR reads only what the program itself could.
        unsafe {
            asm!(
                "mov {failed:w}, #1",
                "10: ldtr {value:w}, [{address}]",
                "mov {failed:w}, wzr",
                "11:",
                fixup_entry!("10b", $target),
                failed = out(reg) failed,
                value = out(reg) value,
                address = in(reg) $address,
                options(nostack, preserves_flags),
            )
        };
        if failed == 0 { Ok(value) } else { Err(Faulted) }
    }};
}

/// Reads a word as one access.
#[inline]
pub fn load_u32(address: usize) -> Result<u32, Faulted> {
    check_word(address)?;
    load!(address, "11b")
}

/// Reads an instruction, whose address has no tag, or the word of a Thumb one.
#[inline]
pub(super) fn load_instruction(address: usize) -> Result<u32, Faulted> {
    if !address.is_multiple_of(4) || address >= USER_END {
        return Err(Faulted);
    }
    load!(address, "11b")
}

/// Reads a word as one access, if its page is present.
pub fn load_present_u32(address: usize) -> Result<u32, Faulted> {
    check_word(address)?;
    load!(address, "11b + 1")
}

/// Writes a word as one access.
#[inline]
pub fn store_u32(address: usize, value: u32) -> Result<(), Faulted> {
    check_word(address)?;
    let failed: u32;
    // SAFETY: STTR writes only what the program itself could.
    unsafe {
        asm!(
            "mov {failed:w}, #1",
            "10: sttr {value:w}, [{address}]",
            "mov {failed:w}, wzr",
            "11:",
            fixup_entry!("10b", "11b"),
            failed = out(reg) failed,
            value = in(reg) value,
            address = in(reg) address,
            options(nostack, preserves_flags),
        )
    };
    if failed == 0 { Ok(()) } else { Err(Faulted) }
}

/// Whether all CPUs have PSTATE.PAN; settled before programs run.
static PAN: AtomicBool = AtomicBool::new(false);

pub(super) fn init(features: &idreg::System) {
    PAN.store(features.pan(), Relaxed);
}

/// Lets the kernel's ordinary accesses reach a program's memory during `f`: there are no
/// unprivileged exclusive ones.
#[inline(always)]
fn with_access<R>(f: impl FnOnce() -> R) -> R {
    let pan = PAN.load(Relaxed);
    if pan {
        // MSR PAN, #0 by its encoding: an assembler for ARMv8.0 does not know the name.
        // SAFETY: the accesses that follow are to addresses checked to be a program's.
        unsafe { asm!(".inst 0xd500409f", options(nostack, preserves_flags)) };
    }
    let result = f();
    if pan {
        // SAFETY: protects again: MSR PAN, #1.
        unsafe { asm!(".inst 0xd500419f", options(nostack, preserves_flags)) };
    }
    result
}

/// Writes `$new` if the word at an address is `$old`, as one access that orders all others; what it
/// was. After a fault it goes on at `$target`, label 13.
macro_rules! cmpxchg {
    ($address:expr, $old:expr, $new:expr, $target:literal) => {{
        check_own_word($address)?;
        let (value, failed) = with_access(|| {
            let (value, failed): (u32, u32);
            // SAFETY: `check_own_word` found a program's address, whose faults have fix-ups.
            unsafe {
                asm!(
                    "mov {failed:w}, #1",
                    "10: ldaxr {value:w}, [{address}]",
                    "cmp {value:w}, {old:w}",
                    "b.ne 12f",
                    "11: stlxr {status:w}, {new:w}, [{address}]",
                    "cbnz {status:w}, 10b",
                    "12: mov {failed:w}, wzr",
                    "dmb ish",
                    "13:",
                    fixup_entry!("10b", $target),
                    fixup_entry!("11b", $target),
                    failed = out(reg) failed,
                    value = out(reg) value,
                    status = out(reg) _,
                    old = in(reg) $old,
                    new = in(reg) $new,
                    address = in(reg) $address,
                    options(nostack),
                )
            };
            (value, failed)
        });
        if failed == 0 { Ok(value) } else { Err(Faulted) }
    }};
}

/// Writes `new` if the word is `old`, as one access that orders all others; returns what it was.
#[inline]
pub fn cmpxchg_u32(address: usize, old: u32, new: u32) -> Result<u32, Faulted> {
    cmpxchg!(address, old, new, "13b")
}

/// The same, if its page is present and can be written.
pub fn cmpxchg_present_u32(address: usize, old: u32, new: u32) -> Result<u32, Faulted> {
    cmpxchg!(address, old, new, "13b + 1")
}

/// Makes what was written to a program's memory executable: its data caches first, then the
/// instruction caches of all CPUs (Arm ARM B2.7.4.2).
pub fn sync_instructions(start: usize, len: usize) -> Result<(), Faulted> {
    if user_part(start, len) < len {
        return Err(Faulted);
    }
    let sizes = read!("ctr_el0");
    let (data, code) = (4 << (sizes >> 16 & 0xf), 4 << (sizes & 0xf));
    let end = start + len;
    for (line, clean) in [(data, true), (code, false)] {
        let mut at = start & !(line - 1);
        while at < end {
            let failed: usize;
            // SAFETY: cache maintenance changes no memory, and its faults have a fix-up.
            unsafe {
                asm!(
                    "mov {failed}, #1",
                    "cbz {clean}, 10f",
                    "9: dc cvau, {at}",
                    "b 11f",
                    "10: ic ivau, {at}",
                    "11: mov {failed}, xzr",
                    "12:",
                    fixup_entry!("9b", "12b"),
                    fixup_entry!("10b", "12b"),
                    failed = out(reg) failed,
                    clean = in(reg) usize::from(clean),
                    at = in(reg) at,
                    options(nostack, preserves_flags),
                )
            };
            if failed != 0 {
                return Err(Faulted);
            }
            at += line;
        }
        // SAFETY: a barrier.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    }
    isb();
    Ok(())
}

/// Reads a word of device memory at a kernel address that may not answer.
pub(super) fn probe(address: usize) -> Option<u32> {
    let (value, failed): (u32, u32);
    // SAFETY: the address is mapped as device memory by the caller; an abort has its fix-up.
    unsafe {
        asm!(
            "mov {failed:w}, #1",
            "10: ldr {value:w}, [{address}]",
            "mov {failed:w}, wzr",
            "11:",
            fixup_entry!("10b", "11b"),
            failed = out(reg) failed,
            value = out(reg) value,
            address = in(reg) address,
            options(nostack, preserves_flags),
        )
    };
    (failed == 0).then_some(value)
}
