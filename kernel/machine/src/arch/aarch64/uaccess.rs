//! Kernel accesses to program memory.
//!
//! Plain copies use LDTR and STTR, which access memory with EL0's permissions regardless of
//! PSTATE.PAN (Arm ARM, "Load/store unprivileged"): so a program's pointer can never reach kernel
//! memory on any CPU, and PAN need not be cleared. Each such instruction has an entry in the fixup
//! table: after a fault that `mm` cannot resolve, execution continues there.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::USER_END;
use super::sysreg::{isb, read};
use crate::upcall;

/// A fault that could not be resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faulted;

/// An instruction that may fault, and the address at which to continue then; both relative to the
/// field's own address.
#[repr(C)]
struct Fixup {
    instruction: i32,
    target: i32,
}

unsafe extern "C" {
    static __fixups_start: Fixup;
    static __fixups_end: Fixup;
}

/// Returns the address at which to continue after an unresolved fault of the instruction at `pc`,
/// if it has a fixup; plus [`UNRESOLVED`] if its faults must not be resolved.
pub(super) fn fixup(pc: usize) -> Option<usize> {
    let start = &raw const __fixups_start;
    let count = (&raw const __fixups_end as usize - start as usize) / size_of::<Fixup>();
    // SAFETY: the linker script places the entries, and nothing else, between the two symbols.
    let table = unsafe { core::slice::from_raw_parts(start, count) };
    let absolute =
        |field: &i32| (field as *const i32 as usize).wrapping_add_signed(*field as isize);
    table
        .iter()
        .find(|entry| absolute(&entry.instruction) == pc)
        .map(|entry| absolute(&entry.target))
}

/// Added to a continuation address, which is even: the fault is not resolved.
pub(super) const UNRESOLVED: usize = 1;

/// An entry of the fixup table, for the labels of an instruction and of its continuation; with the
/// suffix `" + 1"` ([`UNRESOLVED`]), its faults are not resolved.
macro_rules! fixup_entry {
    ($instruction:literal, $target:literal) => {
        fixup_entry!($instruction, $target, "")
    };
    ($instruction:literal, $target:literal, $suffix:literal) => {
        concat!(
            ".pushsection .fixups, \"a\"\n",
            ".balign 4\n",
            ".long ",
            $instruction,
            " - .\n",
            ".long ",
            $target,
            $suffix,
            " - .\n",
            ".popsection\n",
        )
    };
}

/// The address without the tag in its top byte (TCR_EL1.TBI0).
pub const fn untagged(address: usize) -> usize {
    address & ((address as isize) << 8 >> 8) as usize
}

/// The length of the part of a tagged range that lies in program memory; 0 unless the thread has
/// enabled tagged addresses (Documentation/arch/arm64/tagged-address-abi.rst).
extern "C" fn tagged_part(address: usize, len: usize) -> usize {
    if upcall::tags_addresses() {
        len.min(USER_END.saturating_sub(untagged(address)))
    } else {
        0
    }
}

/// The length of the part of a range that lies in program memory.
fn user_part(address: usize, len: usize) -> usize {
    match USER_END.checked_sub(address) {
        Some(room) => len.min(room),
        None => tagged_part(address, len),
    }
}

/// Whether a tagged range is accepted, if an untagged one must end at or below `end`.
#[cold]
#[inline(never)]
pub fn takes_tagged(address: usize, len: usize, end: usize) -> bool {
    let plain = untagged(address);
    plain != address && upcall::tags_addresses() && len <= end && plain <= end - len
}

/// Copies `len` bytes of the program at `source` to `target`; returns the number of bytes before
/// the first that could not be read.
///
/// # Safety
/// `target` is writable for `len` bytes.
#[inline]
pub unsafe fn copy_in(target: *mut u8, source: usize, len: usize) -> usize {
    // SAFETY: the caller's range; LDTR reads only memory that the program itself could read.
    unsafe { load_user(target, source, len) }
}

/// Copies `len` bytes from `source` to the program at `target`; returns the number of bytes before
/// the first that could not be written.
///
/// # Safety
/// `source` is readable for `len` bytes.
#[inline]
pub unsafe fn copy_out(target: usize, source: *const u8, len: usize) -> usize {
    // SAFETY: the caller's range; STTR writes only memory that the program itself could write.
    unsafe { store_user(target, source, len) }
}

/// As [`copy_in`], without resolving faults.
///
/// # Safety
/// As for [`copy_in`].
#[inline]
pub unsafe fn copy_in_present(target: *mut u8, source: usize, len: usize) -> usize {
    // SAFETY: as in `copy_in`.
    unsafe { load_present(target, source, len) }
}

/// As [`copy_out`], without resolving faults.
///
/// # Safety
/// As for [`copy_out`].
#[inline]
pub unsafe fn copy_out_present(target: usize, source: *const u8, len: usize) -> usize {
    // SAFETY: as in `copy_out`.
    unsafe { store_present(target, source, len) }
}

/// Writes zeroes to the program; returns the number of bytes before the first that could not be
/// written.
#[inline]
pub fn clear(target: usize, len: usize) -> usize {
    // SAFETY: STTR writes only memory that the program itself could write.
    unsafe { clear_user(target, len) }
}

/// The functions that copy from and to program memory, whose faults have fixups with this suffix.
///
/// Addresses are not compared with the end of program memory: beyond it LDTR and STTR fault, also
/// on kernel memory. Only tagged addresses need a check: `tagged_part` returns the permitted
/// length.
macro_rules! copies {
    ($load:ident, $store:ident, $suffix:literal) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $load(target: *mut u8, source: usize, len: usize) -> usize {
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
                // 0 to 31 bytes remain: their number is in the low five bits of x2.
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
                fixup_entry!("10b", "30b", $suffix),
                fixup_entry!("11b", "30b", $suffix),
                fixup_entry!("12b", "30b", $suffix),
                fixup_entry!("13b", "30b", $suffix),
                fixup_entry!("14b", "30b", $suffix),
                fixup_entry!("15b", "30b", $suffix),
                fixup_entry!("16b", "30b", $suffix),
                fixup_entry!("17b", "30b", $suffix),
                fixup_entry!("18b", "26b", $suffix),
                tagged = sym tagged_part,
            )
        }

        #[unsafe(naked)]
        unsafe extern "C" fn $store(target: usize, source: *const u8, len: usize) -> usize {
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
                // The last few bytes, and those before a fault: x9 is their end. Bytes that were
                // already written before the fault are written again.
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
                fixup_entry!("11b", "30b", $suffix),
                fixup_entry!("12b", "30b", $suffix),
                fixup_entry!("13b", "30b", $suffix),
                fixup_entry!("14b", "30b", $suffix),
                fixup_entry!("15b", "30b", $suffix),
                fixup_entry!("16b", "30b", $suffix),
                fixup_entry!("17b", "30b", $suffix),
                fixup_entry!("18b", "30b", $suffix),
                fixup_entry!("19b", "26b", $suffix),
                tagged = sym tagged_part,
            )
        }
    };
}

copies!(load_user, store_user, "");
copies!(load_present, store_present, " + 1");

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

/// Checks that an access to the word at `address` by LDTR or STTR stays in program memory: they
/// fault by themselves beyond it, except for tagged addresses.
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

/// Checks that `address` is that of a word of program memory, for a privileged access.
fn check_own_word(address: usize) -> Result<(), Faulted> {
    if address.is_multiple_of(4) && (address < USER_END || is_tagged_word(address)) {
        Ok(())
    } else {
        Err(Faulted)
    }
}

/// Reads the word at an address in a single access; after a fault continues at `$target`, label 11.
macro_rules! load {
    ($address:expr, $target:literal) => {{
        let (value, failed): (u32, u32);
        // SAFETY: LDTR reads only memory that the program itself could read.
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

/// Reads a word in a single access.
#[inline]
pub fn load_u32(address: usize) -> Result<u32, Faulted> {
    check_word(address)?;
    load!(address, "11b")
}

/// Reads an instruction, whose address has no tag, or the word that contains a Thumb instruction.
#[inline]
pub(super) fn load_instruction(address: usize) -> Result<u32, Faulted> {
    if !address.is_multiple_of(4) || address >= USER_END {
        return Err(Faulted);
    }
    load!(address, "11b")
}

/// Reads a word in a single access, if its page is present.
pub fn load_present_u32(address: usize) -> Result<u32, Faulted> {
    check_word(address)?;
    load!(address, "11b + 1")
}

/// Writes a word in a single access.
#[inline]
pub fn store_u32(address: usize, value: u32) -> Result<(), Faulted> {
    check_word(address)?;
    let failed: u32;
    // SAFETY: STTR writes only memory that the program itself could write.
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

/// Whether all CPUs have PSTATE.PAN; set before programs run.
static PAN: AtomicBool = AtomicBool::new(false);

pub(super) fn init(features: &idreg::System) {
    PAN.store(features.pan(), Relaxed);
}

/// Clears PAN during `f`, so that ordinary accesses reach program memory: there are no unprivileged
/// exclusive accesses.
#[inline(always)]
fn with_access<R>(f: impl FnOnce() -> R) -> R {
    let pan = PAN.load(Relaxed);
    if pan {
        // MSR PAN, #0 by its encoding: an assembler for ARMv8.0 does not know the name. SAFETY: the
        // accesses that follow are to addresses that were checked to be in program memory.
        unsafe { asm!(".inst 0xd500409f", options(nostack, preserves_flags)) };
    }
    let result = f();
    if pan {
        // SAFETY: restores the protection: MSR PAN, #1.
        unsafe { asm!(".inst 0xd500419f", options(nostack, preserves_flags)) };
    }
    result
}

/// Atomically writes `$new` if the word at an address is `$old`, fully ordered; returns the
/// previous value. After a fault continues at `$target`, label 13.
macro_rules! cmpxchg {
    ($address:expr, $old:expr, $new:expr, $target:literal) => {{
        check_own_word($address)?;
        let (value, failed) = with_access(|| {
            let (value, failed): (u32, u32);
            // SAFETY: `check_own_word` verified that the address is in program memory; faults have
            // fixups.
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

/// Atomically writes `new` if the word is `old`, fully ordered; returns the previous value.
#[inline]
pub fn cmpxchg_u32(address: usize, old: u32, new: u32) -> Result<u32, Faulted> {
    cmpxchg!(address, old, new, "13b")
}

/// As [`cmpxchg_u32`], if the page is present and writable.
pub fn cmpxchg_present_u32(address: usize, old: u32, new: u32) -> Result<u32, Faulted> {
    cmpxchg!(address, old, new, "13b + 1")
}

/// Makes data written to program memory visible to instruction fetches: cleans the data caches,
/// then invalidates the instruction caches of all CPUs (Arm ARM, "Synchronization and coherency
/// issues between data and instruction accesses").
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
            // SAFETY: cache maintenance does not change memory, and its faults have a fixup.
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

/// Reads a word of device memory at a kernel address at which there may be no device.
pub(super) fn probe(address: usize) -> Option<u32> {
    let (value, failed): (u32, u32);
    // SAFETY: the caller has mapped the address as device memory; an abort has a fixup.
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
