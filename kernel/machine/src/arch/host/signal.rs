//! Signal frames as programs see them: a `siginfo_t`, the head of a `struct ucontext`, and the
//! registers.

use linux_raw_sys::general::SI_KERNEL;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::frame::{Frame, reg};
pub use crate::arch::delivery::Delivery;
use crate::errno::Result;
use crate::mm::user::UserPtr;

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable)]
struct OnStack {
    info: [u8; 128],
    stack: [usize; 3],
    mask: u64,
    registers: [usize; reg::COUNT],
    reserved: usize,
}

const STACK_ALIGN: usize = 16;

/// Bytes that a signal takes of its stack at most.
pub fn frame_size() -> usize {
    size_of::<OnStack>().next_multiple_of(STACK_ALIGN)
}

/// The smallest alternate stack.
pub const MIN_STACK: usize = 2048;

/// Whether `struct sigaction` says where a handler returns to (SA_RESTORER).
pub const HAS_RESTORER: bool = false;

/// Makes the program run a signal's handler, after which rt_sigreturn finds what it did before.
///
/// # Errors
/// EFAULT: the stack is of no use.
pub fn push(frame: &mut Frame, delivery: &Delivery) -> Result<()> {
    let top = delivery.stack_top.unwrap_or(frame.sp());
    let at = top.wrapping_sub(size_of::<OnStack>()) & !(STACK_ALIGN - 1);
    UserPtr::new(at).write(&OnStack {
        info: *delivery.info,
        stack: delivery.altstack,
        mask: delivery.mask,
        registers: frame.x,
        reserved: 0,
    })?;
    frame.set_pc(delivery.handler);
    frame.set_sp(at);
    // Whatever it is: `program` looks whether there is one.
    frame.x[reg::RA] = delivery.restorer | 1;
    frame.x[reg::A0] = delivery.signo as usize;
    frame.clear_syscall();
    Ok(())
}

/// What [`push`] kept of the signal mask and the alternate stack.
///
/// # Errors
/// EFAULT: there is no frame.
pub fn read_saved(frame: &Frame, _with_info: bool) -> Result<(u64, Option<[usize; 3]>)> {
    let kept: OnStack = UserPtr::new(frame.sp()).read()?;
    Ok((kept.mask, Some(kept.stack)))
}

/// For a program that has no frame to return to: the code of SIGSEGV, and the address.
pub fn bad_frame(_frame: &Frame) -> (u32, usize) {
    (SI_KERNEL, 0)
}

/// Undoes [`push`]: takes the program's registers from its stack.
///
/// # Errors
/// EFAULT: there is no frame.
pub fn pop(frame: &mut Frame, _with_info: bool) -> Result<()> {
    let kept: OnStack = UserPtr::new(frame.sp()).read()?;
    frame.x = kept.registers;
    frame.clear_syscall();
    Ok(())
}
