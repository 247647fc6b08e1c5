//! Emulation of instructions of 32-bit programs that Armv8 has removed or made optional: SWP and
//! SWPB, CP15 barriers, SETEND (`Documentation/arch/arm64/legacy_instructions.rst`).

use core::arch::asm;

use linux_raw_sys::general::{SEGV_ACCERR, SIGSEGV};

use super::cpu;
use super::emulate::{Hook, register};
use super::features::features;
use super::frame::{Frame, pstate};
use super::sysreg::{isb, read, write};
use super::uaccess::{self, Faulted};
use crate::arch::emulation::Emulation;
use crate::arch::task;
use crate::mm::fault::{Access, Signal};
use crate::upcall;
use crossings::Kind;

/// SCTLR_EL1.CP15BEN and SED.
const CP15BEN: usize = 1 << 5;
const SED: usize = 1 << 8;

/// Sorted by their names in `/proc/sys/abi`: cp15_barrier, setend, swp.
pub static EMULATIONS: &[Emulation] = &ALL;
static ALL: [Emulation; 3] = [
    Emulation::new(false, register, |on| set_control(CP15BEN, on)),
    Emulation::new(false, register, |on| {
        set_control(SED, !on || !features().mixed_endian_el0());
    }),
    // No Armv8 CPU has SWP.
    Emulation::new(true, register, |_| {}),
];

/// Sets or clears a bit of this CPU's SCTLR_EL1.
fn set_control(bit: usize, on: bool) {
    let before = read!("sctlr_el1");
    let after = if on { before | bit } else { before & !bit };
    if after != before {
        // SAFETY: the bits only control which instructions programs may execute.
        unsafe { write!("sctlr_el1", after) };
        isb();
    }
}

/// The PSTATE bits of a 32-bit program's instruction set state, and their values for Arm and Thumb.
const STATE: usize = pstate::AARCH32 | pstate::THUMB;
const ARM: usize = pstate::AARCH32;
const THUMB: usize = STATE;

const fn hook(
    emulation: usize,
    [mask, value]: [u32; 2],
    state: usize,
    run: fn(&mut Frame, u32) -> bool,
) -> Hook {
    Hook {
        emulation: Some(emulation),
        mask,
        value,
        pstate_mask: STATE,
        pstate_value: state,
        run,
    }
}

/// The hooks; the first argument is the index of their emulation in [`ALL`] (Arm ARM, "Alphabetical
/// list of T32 and A32 base instruction set instructions").
pub(super) const HOOKS: [Hook; 5] = [
    // MCR p15, 0, Rt, c7, c10, 4 and 5: DSB and DMB.
    hook(0, [0x0fff_0fdf, 0x0e07_0f9a], ARM, barrier),
    // MCR p15, 0, Rt, c7, c5, 4: ISB.
    hook(0, [0x0fff_0fff, 0x0e07_0f95], ARM, barrier),
    hook(1, [0xffff_fdff, 0xf101_0000], ARM, |frame, word| {
        set_endianness(frame, word >> 9 & 1 != 0, 4)
    }),
    hook(1, [0xffff_fff7, 0x0000_b650], THUMB, |frame, word| {
        set_endianness(frame, word >> 3 & 1 != 0, 2)
    }),
    hook(2, [0x0fb0_0ff0, 0x0100_0090], ARM, swap),
];

/// Reads the instruction at `pc`, in the instruction set that `state` (PSTATE) selects. The first
/// half of a 32-bit Thumb instruction is in the upper bits.
pub(super) fn instruction(pc: usize, state: usize) -> Result<u32, Faulted> {
    let half = |at: usize| {
        let word = uaccess::load_instruction(at & !3)?;
        Ok(word >> (8 * (at & 2)) & 0xffff)
    };
    if state & pstate::THUMB == 0 {
        return if pc.is_multiple_of(4) {
            uaccess::load_u32(pc)
        } else {
            Err(Faulted)
        };
    }
    let first = half(pc & !1)?;
    // Thumb instructions that begin with 0b11101 or above have 32 bits.
    if first >> 11 < 0b11101 {
        return Ok(first);
    }
    Ok(first << 16 | half((pc & !1) + 2)?)
}

/// Whether the condition of an Arm instruction holds (Arm ARM, `ConditionHolds`); None for an
/// unconditional instruction.
fn condition(frame: &Frame, word: u32) -> Option<bool> {
    let flag = |bit: u32| frame.pstate >> bit & 1 != 0;
    let (n, z, c, v) = (flag(31), flag(30), flag(29), flag(28));
    let kind = word >> 28;
    let holds = match kind >> 1 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ if kind == 0xf => return None,
        _ => return Some(true),
    };
    Some(holds != (kind & 1 != 0))
}

fn skip(frame: &mut Frame) -> bool {
    frame.skip_instruction();
    cpu::this().crossings().add(Kind::EmulatedOther);
    true
}

/// A CP15 barrier.
fn barrier(frame: &mut Frame, word: u32) -> bool {
    match condition(frame, word) {
        None => return false,
        // The exception return serves as an ISB. SAFETY: a barrier.
        Some(true) => unsafe { asm!("dsb sy", options(nostack, preserves_flags)) },
        Some(false) => {}
    }
    skip(frame)
}

/// SETEND, of `len` bytes. Not emulated if some CPU does not support mixed endianness.
fn set_endianness(frame: &mut Frame, big: bool, len: usize) -> bool {
    if !features().mixed_endian_el0() {
        return false;
    }
    frame.pstate &= !(pstate::BIG_ENDIAN | pstate::SS);
    if big {
        frame.pstate |= pstate::BIG_ENDIAN;
    }
    frame.pc += len;
    cpu::this().crossings().add(Kind::EmulatedOther);
    true
}

/// SWP and SWPB: load Rt from the address in Rn, and store Rt2 there.
fn swap(frame: &mut Frame, word: u32) -> bool {
    match condition(frame, word) {
        None => return false,
        Some(false) => return skip(frame),
        Some(true) => {}
    }
    let register = |shift: u32| (word >> shift & 0xf) as usize;
    let value = |number: usize| match number {
        // As an operand, the PC reads as the address two instructions further.
        15 => frame.pc as u32 + 8,
        number => frame.x[number] as u32,
    };
    let (address, new) = (value(register(16)) as usize, value(register(0)));
    let byte = word & 1 << 22 != 0;
    match exchange(address, new, byte) {
        Ok(None) => {}
        Ok(Some(old)) => {
            if let Some(target) = frame.x.get_mut(register(12)).filter(|_| register(12) < 15) {
                *target = old as usize;
            }
            return skip(frame);
        }
        Err(Faulted) => fault(address),
    }
    // The instruction is retried, or a signal is pending.
    true
}

/// Exchanges a word, or a byte of one; `None` if another write interfered.
fn exchange(address: usize, new: u32, byte: bool) -> Result<Option<u32>, Faulted> {
    if !byte {
        let old = uaccess::load_u32(address)?;
        let found = uaccess::cmpxchg_u32(address, old, new)?;
        return Ok((found == old).then_some(old));
    }
    let (place, shift) = (address & !3, 8 * (address as u32 & 3));
    let old = uaccess::load_u32(place)?;
    let wanted = old & !(0xff << shift) | (new & 0xff) << shift;
    let found = uaccess::cmpxchg_u32(place, old, wanted)?;
    Ok((found == old).then_some(old >> shift & 0xff))
}

/// Raises SIGSEGV for an address that cannot be exchanged, including a misaligned one.
fn fault(address: usize) {
    let signal = upcall::page_fault(address, Access::Write).err();
    let signal = signal.unwrap_or(Signal {
        signo: SIGSEGV,
        code: SEGV_ACCERR,
    });
    task::state().set_fault(address, 0);
    upcall::force_signal(signal.signo, signal.code, address);
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn conditions_hold_as_the_cpu_has_them() {
        // For each condition, a bit for each value of N, Z, C and V with which it holds.
        const HOLDS: [u16; 15] = [
            0xf0f0, 0x0f0f, 0xcccc, 0x3333, 0xff00, 0x00ff, 0xaaaa, 0x5555, 0x0c0c, 0xf3f3, 0xaa55,
            0x55aa, 0x0a05, 0xf5fa, 0xffff,
        ];
        let mut frame = Frame::compat(0, 0);
        for flags in 0..16 {
            frame.pstate = flags << 28 | pstate::COMPAT_USER;
            for (kind, holds) in (0..).zip(HOLDS) {
                let expected = holds >> flags & 1 != 0;
                assert_eq!(condition(&frame, kind << 28), Some(expected), "{kind} {flags:b}");
            }
            assert_eq!(condition(&frame, 0xf << 28), None);
        }
    }
}
