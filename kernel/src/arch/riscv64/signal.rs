//! Signal frames as programs see them (Linux, arch/riscv/include/uapi/asm/{ucontext,sigcontext,ptrace}.h).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::frame::{Frame, reg};
use super::{fp, thread};
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;

/// A signal on its way to a handler.
pub struct Delivery<'a> {
    /// The signal.
    pub signo: u32,
    /// The `siginfo_t`.
    pub info: &'a [u8; 128],
    /// The handler.
    pub handler: usize,
    /// SA_* flags.
    pub flags: usize,
    /// Where the handler returns to: code that calls rt_sigreturn.
    pub restorer: usize,
    /// The mask to come back to.
    pub mask: u64,
    /// `ss_sp`, `ss_flags`, `ss_size` of the alternate stack.
    pub altstack: [usize; 3],
    /// Top of the stack to use; 0 to go on below the present stack pointer.
    pub stack_top: usize,
}

/// `__riscv_d_ext_state`, with the room that larger states take and an empty list of extensions.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct FpContext {
    f: [u64; 32],
    fcsr: u32,
    unused: [u32; 65],
    extensions: [u32; 2],
}

/// Bytes of `union __riscv_fp_state`.
const FP_CONTEXT: usize = 528;
/// Bytes of the mask's room in a `ucontext_t`.
const MASK_ROOM: usize = 1024 / 8;

/// `struct ucontext`.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Context {
    flags: usize,
    link: usize,
    stack: [usize; 3],
    mask: u64,
    unused: [u8; MASK_ROOM - 8],
    align: u64,
    /// `pc`, then x1 to x31.
    registers: [usize; 32],
    fp: FpContext,
}

/// `struct rt_sigframe`.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct SignalFrame {
    info: [u8; 128],
    context: Context,
}

const _: () = assert!(size_of::<FpContext>() == FP_CONTEXT);
const _: () =
    assert!(core::mem::offset_of!(Context, registers) == 176 && size_of::<Context>() == 960);

/// Bytes that the stack pointer is aligned to (RISC-V ELF psABI, section 2.1).
const STACK_ALIGN: usize = 16;

/// Bytes that a signal takes of its stack at most.
pub const fn frame_size() -> usize {
    size_of::<SignalFrame>() + STACK_ALIGN
}

/// The smallest alternate stack (MINSIGSTKSZ of the architecture's `signal.h`).
pub const MIN_STACK: usize = 2048;

/// Whether `struct sigaction` tells where a handler returns to (SA_RESTORER).
pub const HAS_RESTORER: bool = false;

/// Makes the program run a signal's handler, after which rt_sigreturn finds what it did before.
///
/// # Errors
/// EFAULT: the stack is of no use.
pub fn push(frame: &mut Frame, delivery: &Delivery) -> Result<()> {
    let state = &thread::current().arch;
    let registers = state.own_fp(fp::State::current);
    let signal = SignalFrame {
        info: *delivery.info,
        context: Context {
            flags: 0,
            link: 0,
            stack: delivery.altstack,
            mask: delivery.mask,
            unused: [0; MASK_ROOM - 8],
            align: 0,
            registers: frame.x,
            fp: FpContext {
                f: registers.f,
                fcsr: registers.fcsr,
                unused: [0; 65],
                extensions: [0; 2],
            },
        },
    };
    let top = if delivery.stack_top != 0 {
        delivery.stack_top
    } else {
        frame.sp()
    };
    let at = top.wrapping_sub(size_of::<SignalFrame>()) & !(STACK_ALIGN - 1);
    UserPtr::<SignalFrame>::new(at).write(&signal)?;
    frame.set_pc(delivery.handler);
    frame.set_sp(at);
    frame.x[reg::RA] = delivery.restorer;
    frame.x[reg::A0] = delivery.signo as usize;
    frame.x[reg::A1] = at + core::mem::offset_of!(SignalFrame, info);
    frame.x[reg::A2] = at + core::mem::offset_of!(SignalFrame, context);
    frame.forget_syscall();
    Ok(())
}

/// Undoes [`push`]: takes the program's registers from its stack. Returns the signal mask and the alternate stack.
///
/// # Errors
/// EFAULT: there is no frame, or one with extensions that are not known.
pub fn pop(frame: &mut Frame) -> Result<(u64, [usize; 3])> {
    let signal = UserPtr::<SignalFrame>::new(frame.sp()).read()?;
    let context = signal.context;
    if context.fp.extensions != [0; 2] {
        return Err(Errno::EFAULT);
    }
    frame.x = context.registers;
    frame.forget_syscall();
    let registers = fp::Registers {
        f: context.fp.f,
        fcsr: context.fp.fcsr,
    };
    thread::current().arch.own_fp(|fp| fp.restore(&registers));
    Ok((context.mask, context.stack))
}
