//! Signal frames of 32-bit programs, in Linux's layout (`arch/arm/include/asm/ucontext.h` and
//! `arch/arm/include/uapi/asm/sigcontext.h`).

use core::mem::offset_of;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::compat::return_offset;
use super::fp::{self, FpState};
use super::frame::{Frame, compat, pstate};
use super::signal::{Delivery, Popped};
use crate::arch::compat_info;
use crate::arch::task;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;

/// `struct sigcontext`, in `struct ucontext`, with the record of the floating-point registers that
/// follows.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Context {
    flags: u32,
    link: u32,
    stack: [u32; 3],
    trap: u32,
    error: u32,
    old_mask: u32,
    /// r0 to r12, the stack pointer, the link register, the program counter.
    registers: [u32; 16],
    cpsr: u32,
    fault_address: u32,
    mask: [u32; 2],
    unused: [u32; 30],
    vfp: Vfp,
    /// The terminating record, and the rest of `uc_regspace`.
    end: [u32; 56],
}

/// `struct vfp_sigframe`.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Vfp {
    magic: u32,
    size: u32,
    /// D0 to D31, low halves first.
    registers: [[u32; 2]; 32],
    fpscr: u32,
    padding: u32,
    /// FPEXC, FPINST and FPINST2.
    exception: [u32; 3],
    tail: u32,
}

/// `struct sigframe`: the context, followed by space in which older programs expect code.
const FRAME: usize = size_of::<Context>() + 8;
/// `siginfo_t`, before the context if the handler asked for it.
const INFO: usize = 128;
const _: () = assert!(size_of::<Vfp>() == 288 && offset_of!(Context, vfp) == 232);
const _: () = assert!(size_of::<Context>() == 744);

const VFP_MAGIC: u32 = 0x5646_5001;
/// Marks a frame without siginfo.
const PLAIN_FLAGS: u32 = 0x5ac3_c35a;
/// FPEXC.EN: the registers are in use.
const FPEXC_ENABLED: u32 = 1 << 30;
/// The bits of FPSCR that are in FPSR, and those in FPCR (Arm ARM, FPSCR).
const FPSCR_STATUS: u32 = 0xf800_009f;
const FPSCR_CONTROL: u32 = 0x07f7_9f00;
/// The write bit of the fault status register, and that of ESR.
const FSR_WRITE: u32 = 1 << 11;
const ESR_WRITE: usize = 1 << 6;

const SA_SIGINFO: usize = linux_raw_sys::general::SA_SIGINFO as usize;
const SA_RESTORER: usize = 0x0400_0000;

/// Sets up a 32-bit program to run a signal handler.
///
/// # Errors
/// EFAULT if the stack is not writable.
pub(super) fn push(frame: &mut Frame, delivery: &Delivery) -> Result<()> {
    let top = delivery.stack_top.unwrap_or(frame.sp());
    let with_info = delivery.flags & SA_SIGINFO != 0;
    let size = FRAME + if with_info { INFO } else { 0 };
    let base = top.wrapping_sub(size) & !7;
    let at = base + size - FRAME;
    // A frame below address 0 or above 4 GiB lies outside the program.
    if base > u32::MAX as usize - size {
        return Err(Errno::EFAULT);
    }
    if with_info {
        UserPtr::new(base).write(&compat_info(delivery.info))?;
    }
    UserPtr::new(at).write(&context(frame, delivery, with_info))?;
    let thumb = delivery.handler & 1 != 0;
    let link = if delivery.flags & SA_RESTORER != 0 {
        delivery.restorer
    } else {
        delivery.restorer + return_offset(with_info, thumb)
    };
    frame.x[0] = delivery.signo as usize;
    if with_info {
        frame.x[1] = base;
        frame.x[2] = at;
    }
    frame.set_sp(base);
    frame.x[compat::LR] = link;
    frame.pc = delivery.handler & !1;
    frame.pstate &= !(pstate::IT | pstate::THUMB | pstate::BIG_ENDIAN);
    if thumb {
        frame.pstate |= pstate::THUMB;
    }
    frame.clear_syscall();
    Ok(())
}

fn context(frame: &Frame, delivery: &Delivery, with_info: bool) -> Context {
    let (fault_address, syndrome) = task::state().fault();
    let mut registers = [0; 16];
    for (register, value) in registers.iter_mut().zip(&frame.x[..15]) {
        *register = *value as u32;
    }
    registers[15] = frame.pc as u32;
    let mut state = FpState::new();
    fp::save(&mut state);
    let halves = state.v[..16].as_flattened().iter();
    let mut vfp = Vfp {
        magic: VFP_MAGIC,
        size: size_of::<Vfp>() as u32,
        registers: [[0; 2]; 32],
        fpscr: state.fpsr & FPSCR_STATUS | state.fpcr & FPSCR_CONTROL,
        padding: 0,
        exception: [FPEXC_ENABLED, 0, 0],
        tail: 0,
    };
    for (register, value) in vfp.registers.iter_mut().zip(halves) {
        *register = [*value as u32, (*value >> 32) as u32];
    }
    Context {
        flags: if with_info { 0 } else { PLAIN_FLAGS },
        link: 0,
        stack: delivery.altstack.map(|word| word as u32),
        trap: 0,
        error: if syndrome & ESR_WRITE != 0 {
            FSR_WRITE
        } else {
            0
        },
        old_mask: delivery.mask as u32,
        registers,
        cpsr: frame.pstate as u32,
        fault_address: fault_address as u32,
        mask: [delivery.mask as u32, (delivery.mask >> 32) as u32],
        unused: [0; 30],
        vfp,
        end: [0; 56],
    }
}

/// The address of the context in a frame.
fn context_at(frame: &Frame, with_info: bool) -> usize {
    frame.sp() + if with_info { INFO } else { 0 }
}

/// The mask and the alternate stack that [`push`] saved.
///
/// # Errors
/// EFAULT if there is no frame.
pub(super) fn read_saved(frame: &Frame, with_info: bool) -> Result<Popped> {
    if !frame.sp().is_multiple_of(8) {
        return Err(Errno::EFAULT);
    }
    let at = context_at(frame, with_info);
    let mask: [u32; 2] = UserPtr::new(at + offset_of!(Context, mask)).read()?;
    let stack: [u32; 3] = UserPtr::new(at + offset_of!(Context, stack)).read()?;
    let mask = u64::from(mask[0]) | u64::from(mask[1]) << 32;
    Ok((mask, with_info.then(|| stack.map(|word| word as usize))))
}

/// Undoes [`push`]: restores the program's registers from its stack. It remains a 32-bit program at
/// EL0 with nothing masked.
///
/// # Errors
/// EFAULT if there is no frame, or if it contains an illegal state.
pub(super) fn pop(frame: &mut Frame, with_info: bool) -> Result<()> {
    let at = context_at(frame, with_info);
    let mut context = Context::new_zeroed();
    crate::mm::user::UserSlice::new(at, size_of::<Context>()).copy_in(context.as_mut_bytes())?;
    let pstate = pstate::of_compat(context.cpsr as usize).ok_or(Errno::EFAULT)?;
    if context.vfp.magic != VFP_MAGIC || context.vfp.size as usize != size_of::<Vfp>() {
        return Err(Errno::EFAULT);
    }
    let mut state = FpState::new();
    state.fpsr = context.vfp.fpscr & FPSCR_STATUS;
    state.fpcr = context.vfp.fpscr & FPSCR_CONTROL;
    let halves = state.v[..16].as_flattened_mut().iter_mut();
    for (value, [low, high]) in halves.zip(&context.vfp.registers) {
        *value = u64::from(*low) | u64::from(*high) << 32;
    }
    fp::load(&state);
    for (register, value) in frame.x.iter_mut().zip(&context.registers[..15]) {
        *register = *value as usize;
    }
    frame.pc = context.registers[15] as usize;
    frame.pstate = pstate;
    frame.clear_syscall();
    Ok(())
}
