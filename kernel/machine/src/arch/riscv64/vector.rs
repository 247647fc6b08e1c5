//! Vectors (unprivileged manual, chapter 30): their registers, and the control that a thread has
//! over them (Linux, `Documentation/arch/riscv/vector.rst`).
//!
//! On Linux, system calls may discard vector registers; here they preserve everything at no cost.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::prctl::{
    PR_RISCV_V_VSTATE_CTRL_CUR_MASK, PR_RISCV_V_VSTATE_CTRL_DEFAULT,
    PR_RISCV_V_VSTATE_CTRL_INHERIT, PR_RISCV_V_VSTATE_CTRL_MASK, PR_RISCV_V_VSTATE_CTRL_NEXT_MASK,
    PR_RISCV_V_VSTATE_CTRL_OFF, PR_RISCV_V_VSTATE_CTRL_ON,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::status::{self, Unit, UnitState};
use crate::arch::task;
use crate::errno::{Errno, Result};

/// Size of a vector register in bytes on all harts (`vlenb`); 0 if programs have no vectors.
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Whether programs can use vectors.
pub(super) fn present() -> bool {
    length() != 0
}

/// Size of a vector register in bytes.
pub(super) fn length() -> usize {
    LENGTH.load(Relaxed)
}

/// Size of v0 to v31 in bytes.
pub(super) fn size() -> usize {
    32 * length()
}

/// Reads `vlenb` of this hart, and leaves vectors off for its program.
fn probe() -> usize {
    let length;
    status::set(Unit::Vector, UnitState::Clean);
    // SAFETY: reads a register of a unit that is on. CSR 0xc22 is vlenb (section 30.3).
    unsafe { asm!("csrr {}, 0xc22", out(reg) length, options(nomem, nostack, preserves_flags)) };
    status::set(Unit::Vector, UnitState::Off);
    length
}

/// Called if all harts are reported to have vectors: requires the length of this hart's.
pub(super) fn promise() {
    LENGTH.store(probe(), Relaxed);
}

/// Whether this hart has vectors of the required length.
pub(super) fn start_cpu() -> bool {
    !present() || probe() == length()
}

/// Whether `instruction` needs vectors to be on: a vector instruction, or an access to a vector CSR
/// (section 30.1.1).
pub(super) fn is_instruction(instruction: u32) -> bool {
    const LOAD_FP: u32 = 0x07;
    const STORE_FP: u32 = 0x27;
    const OP_V: u32 = 0x57;
    const SYSTEM: u32 = 0x73;
    match instruction & 0x7f {
        OP_V => true,
        // Widths of 8, 16, 32 and 64 bits; the others are floating-point accesses.
        LOAD_FP | STORE_FP => matches!(instruction >> 12 & 7, 0 | 5..=7),
        SYSTEM => matches!(instruction >> 20, 0x008..=0x00f | 0xc20..=0xc22),
        _ => false,
    }
}

/// The vector CSRs, in the order of `struct __riscv_v_ext_state`.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
pub(super) struct Control {
    pub vstart: usize,
    pub vl: usize,
    pub vtype: usize,
    pub vcsr: usize,
    /// Size of a register in bytes.
    pub length: usize,
}

/// The vector CSRs, and v0 to v31; empty for a thread that has never used them.
pub(super) struct Image(Option<Box<[u64]>>);

/// Size of a [`Control`] in words.
const CONTROL: usize = size_of::<Control>() / 8;

impl Image {
    /// The empty image.
    pub const NONE: Image = Image(None);

    /// Allocates a program's initial image.
    ///
    /// # Errors
    /// ENOMEM
    pub fn zero() -> Result<Self> {
        let (mut words, count) = (Vec::new(), CONTROL + size() / 8);
        words.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        words.resize(count, 0);
        let mut image = Image(Some(words.into_boxed_slice()));
        image.set_control(&Control::default());
        Ok(image)
    }

    /// Copies the image.
    ///
    /// # Errors
    /// ENOMEM
    pub fn copy(&self) -> Result<Self> {
        let mut copy = Image::zero()?;
        copy.words_mut().copy_from_slice(self.words());
        Ok(copy)
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    fn words(&self) -> &[u64] {
        self.0.as_deref().unwrap_or_default()
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self.0.as_deref_mut().unwrap_or_default()
    }

    /// The vector CSRs, followed by v0 to v31: the format of `struct __riscv_v_regset_state`.
    pub fn bytes(&self) -> &[u8] {
        self.words().as_bytes()
    }

    /// v0 to v31, to be changed.
    pub fn registers_mut(&mut self) -> &mut [u8] {
        self.words_mut()[CONTROL..].as_mut_bytes()
    }

    /// Sets the vector CSRs, except for the register length.
    pub fn set_control(&mut self, control: &Control) {
        let control = Control {
            length: length(),
            ..*control
        };
        self.words_mut().as_mut_bytes()[..size_of::<Control>()].copy_from_slice(control.as_bytes());
    }

    /// Saves this hart's registers, which must be on, and leaves them unchanged.
    ///
    /// # Panics
    /// If the image is empty, or the registers are off.
    pub fn save(&mut self) {
        assert!(!self.is_none());
        // SAFETY: the image has room for the CSRs and for vectors of this hart's length.
        unsafe { store(self.words_mut().as_mut_ptr()) };
    }

    /// Loads the image into this hart's registers, which must be on.
    ///
    /// # Panics
    /// If the image is empty, or the registers are off.
    pub fn load(&self) {
        assert!(!self.is_none());
        // SAFETY: the image contains the CSRs and vectors of this hart's length.
        unsafe { load(self.words().as_ptr()) };
    }
}

/// # Safety
/// The registers are on, and `words` has room for the CSRs, followed by the registers.
#[unsafe(naked)]
unsafe extern "C" fn store(words: *mut u64) {
    naked_asm!(
        ".option push",
        ".option arch, +v",
        "csrr t0, vstart",
        "csrr t1, vl",
        "csrr t2, vtype",
        "csrr t3, vcsr",
        "csrr t4, vlenb",
        "sd t0, {vstart}(a0)",
        "sd t1, {vl}(a0)",
        "sd t2, {vtype}(a0)",
        "sd t3, {vcsr}(a0)",
        "slli t4, t4, 3",
        "addi a1, a0, {control}",
        "csrw vstart, zero",
        "vs8r.v v0, (a1)",
        "add a1, a1, t4",
        "vs8r.v v8, (a1)",
        "add a1, a1, t4",
        "vs8r.v v16, (a1)",
        "add a1, a1, t4",
        "vs8r.v v24, (a1)",
        "csrw vstart, t0",
        "ret",
        ".option pop",
        vstart = const offset_of!(Control, vstart),
        vl = const offset_of!(Control, vl),
        vtype = const offset_of!(Control, vtype),
        vcsr = const offset_of!(Control, vcsr),
        control = const size_of::<Control>(),
    )
}

/// # Safety
/// The registers are on, and `words` contains the CSRs, followed by the registers; the hardware
/// makes illegal CSR values, which a program may have made up, legal.
#[unsafe(naked)]
unsafe extern "C" fn load(words: *const u64) {
    naked_asm!(
        ".option push",
        ".option arch, +v",
        "ld t0, {vstart}(a0)",
        "ld t1, {vl}(a0)",
        "ld t2, {vtype}(a0)",
        "ld t3, {vcsr}(a0)",
        "csrr t4, vlenb",
        "slli t4, t4, 3",
        "addi a1, a0, {control}",
        "csrw vstart, zero",
        "vl8re8.v v0, (a1)",
        "add a1, a1, t4",
        "vl8re8.v v8, (a1)",
        "add a1, a1, t4",
        "vl8re8.v v16, (a1)",
        "add a1, a1, t4",
        "vl8re8.v v24, (a1)",
        "vsetvl zero, t1, t2",
        "csrw vcsr, t3",
        "csrw vstart, t0",
        "ret",
        ".option pop",
        vstart = const offset_of!(Control, vstart),
        vl = const offset_of!(Control, vl),
        vtype = const offset_of!(Control, vtype),
        vcsr = const offset_of!(Control, vcsr),
        control = const size_of::<Control>(),
    )
}

/// Whether a thread, and its next program, may use vectors: the value of PR_RISCV_V_SET_CONTROL.
#[derive(Clone, Copy)]
pub(super) struct Policy(u32);

/// The position of the next program's part.
const NEXT_SHIFT: u32 = PR_RISCV_V_VSTATE_CTRL_NEXT_MASK.trailing_zeros();

impl Policy {
    /// The policy of a thread that has not set one.
    pub const ON: Policy = Policy(PR_RISCV_V_VSTATE_CTRL_ON);

    fn current(self) -> u32 {
        self.0 & PR_RISCV_V_VSTATE_CTRL_CUR_MASK
    }

    fn next(self) -> u32 {
        (self.0 & PR_RISCV_V_VSTATE_CTRL_NEXT_MASK) >> NEXT_SHIFT
    }

    /// Whether the program may use vectors.
    pub fn allows(self) -> bool {
        self.current() == PR_RISCV_V_VSTATE_CTRL_ON
    }

    /// The policy of the next program.
    pub fn after_exec(self) -> Self {
        let current = match self.next() {
            PR_RISCV_V_VSTATE_CTRL_DEFAULT => PR_RISCV_V_VSTATE_CTRL_ON,
            next => next,
        };
        if self.0 & PR_RISCV_V_VSTATE_CTRL_INHERIT == 0 {
            Policy(current)
        } else {
            Policy(self.0 & !PR_RISCV_V_VSTATE_CTRL_CUR_MASK | current)
        }
    }

    /// Applies the argument of PR_RISCV_V_SET_CONTROL.
    ///
    /// # Errors
    /// EINVAL if the setting is invalid. EPERM if it would turn vectors off.
    fn with_control(self, argument: usize) -> Result<Self> {
        let wanted = u32::try_from(argument)
            .ok()
            .filter(|wanted| wanted & !PR_RISCV_V_VSTATE_CTRL_MASK == 0)
            .map(Policy)
            .ok_or(Errno::EINVAL)?;
        let current = match wanted.current() {
            PR_RISCV_V_VSTATE_CTRL_DEFAULT => self.current(),
            PR_RISCV_V_VSTATE_CTRL_OFF if self.current() != PR_RISCV_V_VSTATE_CTRL_OFF => {
                return Err(Errno::EPERM);
            }
            current @ (PR_RISCV_V_VSTATE_CTRL_OFF | PR_RISCV_V_VSTATE_CTRL_ON) => current,
            _ => return Err(Errno::EINVAL),
        };
        if wanted.next() > PR_RISCV_V_VSTATE_CTRL_ON {
            return Err(Errno::EINVAL);
        }
        Ok(Policy(
            wanted.0 & !PR_RISCV_V_VSTATE_CTRL_CUR_MASK | current,
        ))
    }
}

/// PR_RISCV_V_SET_CONTROL
///
/// # Errors
/// EINVAL if there are no vectors, or the setting is invalid. EPERM if it would turn vectors off.
pub(super) fn set_control(argument: usize) -> Result<usize> {
    if !present() {
        return Err(Errno::EINVAL);
    }
    task::state().own_units(|units| {
        units.policy = units.policy.with_control(argument)?;
        Ok(0)
    })
}

/// PR_RISCV_V_GET_CONTROL
///
/// # Errors
/// EINVAL if there are no vectors.
pub(super) fn get_control() -> Result<usize> {
    if !present() {
        return Err(Errno::EINVAL);
    }
    Ok(task::state().own_units(|units| units.policy.0 as usize))
}
