//! Vectors (unprivileged manual, chapter 30): their registers, what is promised of them, and what a
//! thread may ask for (Linux, `Documentation/arch/riscv/vector.rst`).
//!
//! Linux promises that system calls lose them, so that it may drop them; here they keep everything,
//! and no call pays.

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

/// Bytes of a vector register on all harts (`vlenb`); 0 where programs have none.
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Whether programs have vectors.
pub(super) fn present() -> bool {
    length() != 0
}

/// Bytes of a vector register.
pub(super) fn length() -> usize {
    LENGTH.load(Relaxed)
}

/// Bytes of v0 to v31.
pub(super) fn size() -> usize {
    32 * length()
}

/// `vlenb` of this hart, whose program finds vectors off.
fn probe() -> usize {
    let length;
    status::set(Unit::Vector, UnitState::Clean);
    // SAFETY: reads a register, which is on. CSR 0xc22 is vlenb (section 30.3).
    unsafe { asm!("csrr {}, 0xc22", out(reg) length, options(nomem, nostack, preserves_flags)) };
    status::set(Unit::Vector, UnitState::Off);
    length
}

/// All harts are said to have vectors: they shall be as long as this one's.
pub(super) fn promise() {
    LENGTH.store(probe(), Relaxed);
}

/// Whether this hart has the vectors that were promised.
pub(super) fn start_cpu() -> bool {
    !present() || probe() == length()
}

/// Whether `instruction` needs vectors on: one of theirs, or an access to one of their registers
/// (section 30.1.1).
pub(super) fn is_instruction(instruction: u32) -> bool {
    const LOAD_FP: u32 = 0x07;
    const STORE_FP: u32 = 0x27;
    const OP_V: u32 = 0x57;
    const SYSTEM: u32 = 0x73;
    match instruction & 0x7f {
        OP_V => true,
        // Widths of 8, 16, 32 and 64 bits; the others are those of floating point.
        LOAD_FP | STORE_FP => matches!(instruction >> 12 & 7, 0 | 5..=7),
        SYSTEM => matches!(instruction >> 20, 0x008..=0x00f | 0xc20..=0xc22),
        _ => false,
    }
}

/// What controls the vectors, in the order of `struct __riscv_v_ext_state`.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
pub(super) struct Control {
    pub vstart: usize,
    pub vl: usize,
    pub vtype: usize,
    pub vcsr: usize,
    /// Bytes of a register.
    pub length: usize,
}

/// What controls them, and v0 to v31; none of a thread that never used them.
pub(super) struct Image(Option<Box<[u64]>>);

/// Words of a [`Control`].
const CONTROL: usize = size_of::<Control>() / 8;

impl Image {
    /// None.
    pub const NONE: Image = Image(None);

    /// As a program finds them first.
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

    /// Another one.
    ///
    /// # Errors
    /// ENOMEM
    pub fn copy(&self) -> Result<Self> {
        let mut copy = Image::zero()?;
        copy.words_mut().copy_from_slice(self.words());
        Ok(copy)
    }

    /// Whether there is none.
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

    /// What controls the vectors, then v0 to v31: as `struct __riscv_v_regset_state`.
    pub fn bytes(&self) -> &[u8] {
        self.words().as_bytes()
    }

    /// v0 to v31, to be changed.
    pub fn registers_mut(&mut self) -> &mut [u8] {
        self.words_mut()[CONTROL..].as_mut_bytes()
    }

    /// Changes what controls the vectors; how long they are stays.
    pub fn set_control(&mut self, control: &Control) {
        let control = Control {
            length: length(),
            ..*control
        };
        self.words_mut().as_mut_bytes()[..size_of::<Control>()].copy_from_slice(control.as_bytes());
    }

    /// Takes this hart's registers, which are on and stay as they are.
    ///
    /// # Panics
    /// Where there is no image, or the registers are off.
    pub fn save(&mut self) {
        assert!(!self.is_none());
        // SAFETY: the image has room for vectors of this hart's length, after what controls them.
        unsafe { store(self.words_mut().as_mut_ptr()) };
    }

    /// Gives this hart's registers, which are on, what the image has.
    ///
    /// # Panics
    /// Where there is no image, or the registers are off.
    pub fn load(&self) {
        assert!(!self.is_none());
        // SAFETY: the image holds vectors of this hart's length, after what controls them.
        unsafe { load(self.words().as_ptr()) };
    }
}

/// # Safety
/// The registers are on, and there is room for all of them, and before them for what controls them,
/// at `words`.
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
/// The registers are on, and all of them are at `words`, behind what controls them: what a program
/// made up there the hardware makes legal.
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

/// Whether a thread may use vectors, and the next program of it: what PR_RISCV_V_SET_CONTROL says.
#[derive(Clone, Copy)]
pub(super) struct Policy(u32);

/// Where the next program's part begins.
const NEXT_SHIFT: u32 = PR_RISCV_V_VSTATE_CTRL_NEXT_MASK.trailing_zeros();

impl Policy {
    /// The policy of a thread that never asked.
    pub const ON: Policy = Policy(PR_RISCV_V_VSTATE_CTRL_ON);

    fn current(self) -> u32 {
        self.0 & PR_RISCV_V_VSTATE_CTRL_CUR_MASK
    }

    fn next(self) -> u32 {
        (self.0 & PR_RISCV_V_VSTATE_CTRL_NEXT_MASK) >> NEXT_SHIFT
    }

    /// Whether the program may use them.
    pub fn allows(self) -> bool {
        self.current() == PR_RISCV_V_VSTATE_CTRL_ON
    }

    /// The control of the next program.
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

    /// What PR_RISCV_V_SET_CONTROL makes of `argument`.
    ///
    /// # Errors
    /// EINVAL: there is no such setting. EPERM: what is on stays on.
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
/// EINVAL: no vectors, or no such setting. EPERM: what is on stays on.
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
/// EINVAL: no vectors.
pub(super) fn get_control() -> Result<usize> {
    if !present() {
        return Err(Errno::EINVAL);
    }
    Ok(task::state().own_units(|units| units.policy.0 as usize))
}
