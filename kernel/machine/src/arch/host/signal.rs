//! Signal frames: a `siginfo_t`, the beginning of a `struct ucontext`, and the registers.

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

/// The maximum number of stack bytes that a signal uses.
pub fn frame_size() -> usize {
    size_of::<OnStack>().next_multiple_of(STACK_ALIGN)
}

/// The smallest alternate stack.
pub const MIN_STACK: usize = 2048;

/// Whether `struct sigaction` contains the return address of handlers (SA_RESTORER).
pub const HAS_RESTORER: bool = false;

/// Sets up the program to run a signal handler, with a frame for rt_sigreturn.
///
/// # Errors
/// EFAULT if the stack is not writable.
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
    // Never 0: `program` only tests whether there is a return address.
    frame.x[reg::RA] = delivery.restorer | 1;
    frame.x[reg::A0] = delivery.signo as usize;
    frame.clear_syscall();
    Ok(())
}

/// Reads the signal mask and the alternate stack that [`push`] saved.
///
/// # Errors
/// EFAULT if there is no frame.
pub fn read_saved(frame: &Frame, _with_info: bool) -> Result<(u64, Option<[usize; 3]>)> {
    let kept: OnStack = UserPtr::new(frame.sp()).read()?;
    Ok((kept.mask, Some(kept.stack)))
}

/// The code and the address of SIGSEGV for a program without a valid frame.
pub fn bad_frame(_frame: &Frame) -> (u32, usize) {
    (SI_KERNEL, 0)
}

/// Undoes [`push`]: restores the program's registers from its stack.
///
/// # Errors
/// EFAULT if there is no frame.
pub fn pop(frame: &mut Frame, _with_info: bool) -> Result<()> {
    let kept: OnStack = UserPtr::new(frame.sp()).read()?;
    frame.x = kept.registers;
    frame.clear_syscall();
    Ok(())
}
