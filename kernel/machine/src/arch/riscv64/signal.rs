//! Signal frames in Linux's layout (arch/riscv/include/uapi/asm/{ucontext,sigcontext,ptrace}.h).

use core::mem::MaybeUninit;

use linux_raw_sys::general::{SI_KERNEL, SS_AUTODISARM};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::frame::{Frame, reg};
use super::vector_frame::{self, Head};
use super::{fp, vector};
pub use crate::arch::delivery::Delivery;
use crate::arch::task;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};

/// The beginning of a `struct ucontext`.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable)]
struct Context {
    flags: usize,
    link: usize,
    stack: [usize; 3],
    mask: u64,
}

/// The end of `union __riscv_fp_state`: a reserved word, and the header of the first extension
/// record.
type Tail = [u32; 3];

/// Byte offsets of the parts of a `struct rt_sigframe`, and its size. The gaps between them are not
/// written.
mod offset {
    /// The `siginfo_t`.
    pub const INFO: usize = 0;
    /// The `struct ucontext`.
    pub const CONTEXT: usize = INFO + 128;
    /// `pc`, followed by x1 to x31, after space for 1,024 signals in the mask, aligned to 16.
    pub const REGISTERS: usize = CONTEXT + 176;
    /// `__riscv_d_ext_state`.
    pub const FP: usize = REGISTERS + 32 * size_of::<usize>();
    /// `union __riscv_fp_state` has 528 bytes.
    pub const END: usize = FP + 528;
    /// The end of `union __riscv_fp_state`.
    pub const TAIL: usize = END - size_of::<super::Tail>();
    /// The first extension record.
    pub const RECORD: usize = END - size_of::<super::Head>();
}

/// Alignment of the stack pointer in bytes (RISC-V ELF psABI, section 2.1).
const STACK_ALIGN: usize = 16;

/// The maximum number of stack bytes that a signal uses, as Linux reports it: without its own
/// alignment.
pub fn frame_size() -> usize {
    let vectors = if vector::present() {
        vector_frame::size()
    } else {
        0
    };
    (offset::END + vectors).next_multiple_of(STACK_ALIGN)
}

/// The smallest alternate stack (MINSIGSTKSZ of the architecture's `signal.h`).
pub const MIN_STACK: usize = 2048;

/// Whether `struct sigaction` contains the return address of handlers (SA_RESTORER).
pub const HAS_RESTORER: bool = false;

/// Whether a stack pointer lies on the alternate stack; never on one with SS_AUTODISARM
/// (`on_sig_stack` of Linux's include/linux/sched/signal.h).
fn is_on_altstack(delivery: &Delivery, sp: usize) -> bool {
    let [start, flags, size] = delivery.altstack;
    flags as u32 & SS_AUTODISARM == 0 && sp > start && sp - start <= size
}

/// Sets up the program to run a signal handler, with a frame for rt_sigreturn.
///
/// # Errors
/// EFAULT if the stack is not writable.
pub fn push(frame: &mut Frame, delivery: &Delivery) -> Result<()> {
    let top = delivery.stack_top.unwrap_or(frame.sp());
    let units = task::state();
    let with_vectors = units.own_units(|units| units.uses_vector());
    let size = offset::END
        + if with_vectors {
            vector_frame::size()
        } else {
            0
        };
    if is_on_altstack(delivery, frame.sp())
        && !is_on_altstack(delivery, frame.sp().wrapping_sub(size))
    {
        return Err(Errno::EFAULT);
    }
    let at = top.wrapping_sub(size) & !(STACK_ALIGN - 1);
    let context = Context {
        flags: 0,
        link: 0,
        stack: delivery.altstack,
        mask: delivery.mask,
    };
    UserPtr::new(at.wrapping_add(offset::INFO)).write(delivery.info)?;
    UserPtr::new(at.wrapping_add(offset::CONTEXT)).write(&context)?;
    UserPtr::new(at.wrapping_add(offset::REGISTERS)).write(&frame.x)?;
    let mut registers = fp::Registers::ZERO;
    units.own_units(|units| units.copy_float(&mut registers));
    UserPtr::new(at.wrapping_add(offset::FP)).write(&registers)?;
    UserPtr::<Tail>::new(at.wrapping_add(offset::TAIL)).write(&[0; 3])?;
    if with_vectors {
        vector_frame::push(at.wrapping_add(offset::RECORD))?;
    }
    frame.set_pc(delivery.handler);
    frame.set_sp(at);
    frame.x[reg::RA] = delivery.restorer;
    frame.x[reg::A0] = delivery.signo as usize;
    frame.x[reg::A1] = at.wrapping_add(offset::INFO);
    frame.x[reg::A2] = at.wrapping_add(offset::CONTEXT);
    frame.clear_syscall();
    Ok(())
}

/// Reads the signal mask and the alternate stack that [`push`] saved.
///
/// # Errors
/// EFAULT if there is no frame.
pub fn read_saved(frame: &Frame, _with_info: bool) -> Result<(u64, Option<[usize; 3]>)> {
    let context: Context = UserPtr::new(frame.sp().wrapping_add(offset::CONTEXT)).read()?;
    Ok((context.mask, Some(context.stack)))
}

/// The code and the address of SIGSEGV for a program without a valid frame.
pub fn bad_frame(_frame: &Frame) -> (u32, usize) {
    (SI_KERNEL, 0)
}

/// Undoes [`push`]: restores the program's registers from its stack.
///
/// # Errors
/// EFAULT if there is no frame. EINVAL if it contains unknown extensions. ENOMEM.
pub fn pop(frame: &mut Frame, _with_info: bool) -> Result<()> {
    let at = frame.sp();
    UserSlice::new(at.wrapping_add(offset::REGISTERS), size_of_val(&frame.x))
        .copy_in(frame.x.as_mut_bytes())?;
    frame.clear_syscall();
    let mut registers = MaybeUninit::uninit();
    let registers = UserPtr::new(at.wrapping_add(offset::FP)).read_to(&mut registers)?;
    let units = task::state();
    units.own_units(|units| units.restore_float(registers));
    // As on Linux, the registers are restored even if a bad record follows them.
    match UserPtr::<Tail>::new(at.wrapping_add(offset::TAIL)).read()? {
        [0, 0, 0] => Ok(()),
        [0, head @ ..] => vector_frame::pop(at.wrapping_add(offset::RECORD), head),
        _ => Err(Errno::EINVAL),
    }
}
