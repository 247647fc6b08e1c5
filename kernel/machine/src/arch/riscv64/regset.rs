//! Register sets of a stopped thread, as in ptrace(2) and core files, by the types of their ELF
//! notes (`include/uapi/linux/elf.h`, `arch/riscv/include/uapi/asm/ptrace.h`).

use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use super::fp;
use super::frame::Frame;
use super::thread::ThreadState;
use super::vector::{self, Control};
use crate::arch::task;
use crate::errno::{Errno, Result};

/// NT_PRSTATUS: `struct user_regs_struct`.
const GENERAL: u32 = 1;
/// NT_PRFPREG: `struct __riscv_d_ext_state`.
const FLOATING: u32 = 2;
/// NT_RISCV_VECTOR: `struct __riscv_v_regset_state`, of a thread that uses vectors.
const VECTOR: u32 = 0x901;

/// Whether the set `kind` is read-only: never.
pub fn is_read_only(_compat: bool, _kind: u32) -> bool {
    false
}

/// The other sets of the current thread for a core file: none.
///
/// # Errors
/// None.
pub fn own_others() -> Result<Vec<(u32, Vec<u8>)>> {
    Ok(Vec::new())
}

/// Size of f0 to f31 in bytes.
const FLOATS: usize = 256;
/// Size in bytes of the data before v0.
const VECTOR_HEAD: usize = size_of::<Control>();
/// The maximum vector register length of Linux's interface, in bytes (RISCV_MAX_VLENB).
const LONGEST: usize = 8192;

/// Slot size of the set `kind` in bytes: sets are read and written in whole slots.
pub fn slot(_compat: bool, kind: u32) -> usize {
    if kind == VECTOR { 4 } else { 8 }
}

/// The general registers of a frame, in the format of NT_PRSTATUS.
pub fn general(frame: &Frame) -> &[u8] {
    frame.x.as_bytes()
}

/// The floating-point registers of the current thread, in the format of NT_PRFPREG.
pub fn own_floating() -> [u8; size_of::<fp::Registers>()] {
    let mut registers = fp::Registers::ZERO;
    let state = task::state();
    state.own_units(|units| units.copy_float(&mut registers));
    zerocopy::transmute!(registers)
}

/// The maximum size in bytes of the set `kind`, which has `size` now.
pub fn room(kind: u32, size: usize) -> usize {
    match kind {
        VECTOR => VECTOR_HEAD + 32 * LONGEST,
        _ => size,
    }
}

/// Returns the set `kind` of a stopped thread.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn get(state: &ThreadState, _compat: bool, kind: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = match kind {
        VECTOR => VECTOR_HEAD + vector::size(),
        _ => FLOATS + 8,
    };
    bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
    match kind {
        GENERAL => state.with_stopped_frame(|frame| bytes.extend_from_slice(frame.x.as_bytes())),
        FLOATING => state.with_stopped_units(|units| {
            bytes.extend_from_slice(units.float().f.as_bytes());
            bytes.extend_from_slice([units.float().fcsr, 0].as_bytes());
        }),
        VECTOR => state.with_stopped_units(|units| {
            let image = units.vector();
            if image.is_none() {
                return Err(Errno::EINVAL);
            }
            bytes.extend_from_slice(image.bytes());
            Ok(())
        })?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(bytes)
}

/// Changes the set `kind` of a stopped thread from byte `from` on; the rest stays unchanged.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn set(state: &ThreadState, compat: bool, kind: u32, from: usize, bytes: &[u8]) -> Result<()> {
    let mut whole = get(state, compat, kind)?;
    let changed = whole.iter_mut().skip(from);
    changed.zip(bytes).for_each(|(old, new)| *old = *new);
    match kind {
        GENERAL => {
            let registers = FromBytes::read_from_bytes(&whole).map_err(|_| Errno::EINVAL)?;
            state.with_stopped_frame(|frame| frame.x = registers);
        }
        VECTOR => {
            let (head, registers) = whole.split_at(VECTOR_HEAD);
            let control = Control::read_from_bytes(head).map_err(|_| Errno::EINVAL)?;
            if control.length != vector::length() {
                return Err(Errno::EINVAL);
            }
            state.with_stopped_units(|units| {
                units.vector().set_control(&control);
                units.vector().registers_mut().copy_from_slice(registers);
            });
        }
        _ => {
            let f = FromBytes::read_from_bytes(&whole[..FLOATS]).map_err(|_| Errno::EINVAL)?;
            let fcsr = u32::read_from_bytes(&whole[FLOATS..FLOATS + 4]).unwrap_or(0);
            state.with_stopped_units(|units| units.set_float(&fp::Registers::new(f, fcsr)));
        }
    }
    Ok(())
}

/// Never called: see [`Frame::set_single_step`].
pub fn leave_debug() {}

/// AUDIT_ARCH_RISCV64 (include/uapi/linux/audit.h): the architecture's identifier for filters and
/// tracers.
pub(in crate::arch) const AUDIT: u32 = 0xc000_00f3;
/// All of them.
pub const AUDITS: &[u32] = &[AUDIT];
