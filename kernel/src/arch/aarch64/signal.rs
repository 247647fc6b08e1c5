//! Signal frames, as Linux lays them out on a program's stack (`arch/arm64/include/uapi/asm/sigcontext.h`,
//! `struct rt_sigframe` in `arch/arm64/kernel/signal.c`).

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::fp::{self, FpState};
use super::frame::{Frame, pstate};
use super::thread;
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

/// `ucontext_t` from its start to the first extension record.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Context {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    mask: u64,
    unused: [u64; 15],
    padding: u64,
    fault_address: u64,
    regs: [u64; 31],
    sp: u64,
    pc: u64,
    pstate: u64,
    padding2: u64,
}

/// Head of an extension record.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Head {
    magic: u32,
    size: u32,
}

/// `struct fpsimd_context`.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
struct FpContext {
    head: Head,
    fpsr: u32,
    fpcr: u32,
    v: [[u64; 2]; 32],
}

/// `struct esr_context`, and the record that ends the list.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Tail {
    head: Head,
    syndrome: u64,
    end: [Head; 2],
}

/// What the kernel writes of a `struct rt_sigframe`, whose rest is room for records.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
struct SignalFrame {
    info: [u8; 128],
    context: Context,
    fp: FpContext,
    tail: Tail,
}

const FP_MAGIC: u32 = 0x4650_8001;
const ESR_MAGIC: u32 = 0x4553_5201;
/// Bytes of `sigcontext.__reserved`.
const RESERVED: usize = 4096;
/// Where it begins in the frame.
const RECORDS: usize = core::mem::offset_of!(SignalFrame, fp);
/// Bytes of a `struct rt_sigframe`: AT_MINSIGSTKSZ, with the frame record above it.
const FRAME: usize = RECORDS + RESERVED;
const _: () = assert!(RECORDS == 592 && FRAME == 4688);

/// Bytes that a signal takes of its stack at most.
pub const fn frame_size() -> usize {
    FRAME + 16
}

/// The smallest alternate stack (MINSIGSTKSZ of the architecture's `signal.h`).
pub const MIN_STACK: usize = 5120;

/// Whether `struct sigaction` tells where a handler returns to (SA_RESTORER).
pub const HAS_RESTORER: bool = true;

const SA_SIGINFO: usize = linux_raw_sys::general::SA_SIGINFO as usize;

/// Makes the program run a signal's handler, after which rt_sigreturn finds what it did before.
///
/// # Errors
/// EFAULT: the stack is of no use.
pub fn push(frame: &mut Frame, delivery: &Delivery) -> Result<()> {
    let top = if delivery.stack_top == 0 {
        frame.sp
    } else {
        delivery.stack_top
    };
    let record = top.wrapping_sub(16) & !15;
    let base = record.wrapping_sub(FRAME) & !15;
    let mut state = FpState::new();
    fp::save(&mut state);
    let (fault_address, syndrome) = thread::current().arch.fault();
    let [stack, stack_flags, stack_size] = delivery.altstack.map(|word| word as u64);
    let mut image = SignalFrame::new_zeroed();
    image.info = *delivery.info;
    image.context = Context {
        flags: 0,
        link: 0,
        stack: [stack, stack_flags, stack_size],
        mask: delivery.mask,
        unused: [0; 15],
        padding: 0,
        fault_address: fault_address as u64,
        regs: frame.x.map(|register| register as u64),
        sp: frame.sp as u64,
        pc: frame.pc as u64,
        pstate: frame.pstate as u64,
        padding2: 0,
    };
    image.fp = FpContext {
        head: Head {
            magic: FP_MAGIC,
            size: size_of::<FpContext>() as u32,
        },
        fpsr: state.fpsr,
        fpcr: state.fpcr,
        v: state.v.map(|v| [v as u64, (v >> 64) as u64]),
    };
    // The syndrome belongs to a fault; without one the list ends a record earlier.
    if syndrome != 0 {
        image.tail.head = Head {
            magic: ESR_MAGIC,
            size: 16,
        };
        image.tail.syndrome = syndrome as u64;
    }
    UserPtr::<[u64; 2]>::new(record).write(&[frame.x[29] as u64, frame.x[30] as u64])?;
    UserPtr::<SignalFrame>::new(base).write(&image)?;
    frame.x[0] = delivery.signo as usize;
    if delivery.flags & SA_SIGINFO != 0 {
        frame.x[1] = base;
        frame.x[2] = base + core::mem::offset_of!(SignalFrame, context);
    }
    frame.x[29] = record;
    frame.x[30] = delivery.restorer;
    frame.sp = base;
    frame.pc = delivery.handler;
    frame.pstate &= !pstate::BTYPE;
    frame.forget_syscall();
    Ok(())
}

/// Undoes [`push`]: takes the program's registers from its stack. Returns the signal mask and the alternate stack.
///
/// # Errors
/// EFAULT: there is no frame.
pub fn pop(frame: &mut Frame) -> Result<(u64, [usize; 3])> {
    if frame.sp % 16 != 0 {
        return Err(Errno::EFAULT);
    }
    let base = frame.sp;
    let context: Context =
        UserPtr::new(base + core::mem::offset_of!(SignalFrame, context)).read()?;
    let fp = find_fp(base)?;
    frame.x = context.regs.map(|register| register as usize);
    frame.sp = context.sp as usize;
    frame.pc = context.pc as usize;
    // Only what programs may set: an AArch64 program it stays.
    frame.pstate = context.pstate as usize & pstate::USER;
    frame.forget_syscall();
    fp::load(&FpState {
        v: fp
            .v
            .map(|[low, high]| u128::from(low) | u128::from(high) << 64),
        fpsr: fp.fpsr,
        fpcr: fp.fpcr,
    });
    Ok((context.mask, context.stack.map(|word| word as usize)))
}

/// The FP/SIMD record among the frame's records.
fn find_fp(base: usize) -> Result<FpContext> {
    let mut offset = 0;
    while offset + size_of::<Head>() <= RESERVED {
        let head: Head = UserPtr::new(base + RECORDS + offset).read()?;
        let size = head.size as usize;
        match head.magic {
            FP_MAGIC if size == size_of::<FpContext>() && offset + size <= RESERVED => {
                return UserPtr::new(base + RECORDS + offset).read();
            }
            0 => break,
            _ if size < size_of::<Head>() || size % 16 != 0 => break,
            _ => offset += size,
        }
    }
    Err(Errno::EFAULT)
}
