//! Signal frames in Linux's layout (`arch/arm64/include/uapi/asm/sigcontext.h`, `struct
//! rt_sigframe` in `arch/arm64/kernel/signal.c`).

use core::mem::{MaybeUninit, offset_of};

use linux_raw_sys::general::{SEGV_ACCERR, SEGV_MAPERR};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::branch::is_taken;
use super::compat_signal;
use super::fp::{self, FpState};
use super::frame::{Frame, REGISTERS, pstate};
use super::records::{self, END, ESR_MAGIC, FP_MAGIC, Head, RESERVED};
use super::sve;
use super::sve_frame::{self, Plan};
use crate::arch::branch::Key;
pub use crate::arch::delivery::Delivery;
use crate::arch::task;
use crate::errno::{Errno, Result};
use crate::mm::active::with_active;
use crate::mm::user::{UserPtr, UserSlice};

/// The part of a `ucontext_t` with the previous alternate stack and signal mask.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable)]
struct Before {
    stack: [usize; 3],
    mask: u64,
}

/// The part of a `ucontext_t` before its `struct sigcontext`, as far as it is written.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Context {
    flags: u64,
    link: u64,
    before: Before,
}

/// `struct fpsimd_context`.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
struct FpContext {
    head: Head,
    state: FpState,
}

/// The records of every frame: the FP registers, `struct esr_context`, and the end of the list.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Written {
    fp: FpContext,
    esr: Head,
    syndrome: u64,
    end: Head,
}

/// The records of a frame that was not caused by a fault, without SVE.
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
struct Plain {
    fp: FpContext,
    end: Head,
}

/// `struct rt_sigframe` up to the end of the records that every frame has; the rest is space for
/// others.
#[repr(C)]
struct SignalFrame {
    info: [u8; 128],
    context: Context,
    unused: [u64; 16],
    fault_address: u64,
    registers: [usize; REGISTERS],
    padding: u64,
    records: Written,
}

impl Written {
    /// Stores the records with the current thread's registers at `place`, which is uninitialized.
    fn fill(place: &mut MaybeUninit<Self>, esr: Head, syndrome: u64) -> &Self {
        let to = place.as_mut_ptr();
        // SAFETY: every field of `place` is written, the state by `save_to`.
        unsafe {
            (*to).fp.head = FP_HEAD;
            fp::save_to(&raw mut (*to).fp.state);
            ((*to).esr, (*to).syndrome, (*to).end) = (esr, syndrome, END);
            place.assume_init_ref()
        }
    }
}

const FP_HEAD: Head = Head {
    magic: FP_MAGIC,
    size: size_of::<FpContext>() as u32,
};
const ESR_HEAD: Head = Head {
    magic: ESR_MAGIC,
    size: ESR_SIZE as u32,
};
/// Size of `struct esr_context` in bytes.
const ESR_SIZE: usize = 16;
/// Offsets in the frame.
const RECORDS: usize = offset_of!(SignalFrame, records);
const CONTEXT: usize = offset_of!(SignalFrame, context);
const BEFORE: usize = offset_of!(Context, before);
const FAULT_ADDRESS: usize = offset_of!(SignalFrame, fault_address);
const REGISTERS_AT: usize = offset_of!(SignalFrame, registers);
const _: () = assert!(RECORDS == 592);
/// Bytes above a `struct rt_sigframe`: the frame record and alignment.
const ABOVE: usize = 16 + 16;

/// The maximum number of stack bytes that a signal uses.
pub fn frame_size() -> usize {
    let largest = Plan::largest(size_of::<FpContext>() + ESR_SIZE);
    RECORDS + largest.map_or(RESERVED, |plan| plan.size()) + ABOVE
}

/// The smallest alternate stack (MINSIGSTKSZ of the architecture's `signal.h`).
pub const MIN_STACK: usize = 5120;

/// Whether `struct sigaction` contains the return address of handlers (SA_RESTORER).
pub const HAS_RESTORER: bool = true;

const SA_SIGINFO: usize = linux_raw_sys::general::SA_SIGINFO as usize;

/// Sets up the program to run a signal handler, with a frame for rt_sigreturn.
///
/// # Errors
/// EFAULT if the stack is not writable.
pub fn push(frame: &mut Frame, delivery: &Delivery) -> Result<()> {
    if frame.is_compat() {
        return compat_signal::push(frame, delivery);
    }
    let top = delivery.stack_top.unwrap_or(frame.sp);
    let (fault_address, syndrome) = task::state().fault();
    // The syndrome belongs to a fault; without one the list has one record less.
    let (esr, esr_size) = if syndrome == 0 {
        (END, 0)
    } else {
        (ESR_HEAD, ESR_SIZE)
    };
    let vectors = Plan::new(size_of::<FpContext>() + esr_size);
    let records = vectors.as_ref().map_or(RESERVED, Plan::size);
    let record = top.wrapping_sub(16) & !15;
    let base = record.wrapping_sub(RECORDS + records) & !15;
    UserSlice::new(base, delivery.info.len()).copy_out(delivery.info)?;
    UserPtr::<Context>::new(base + CONTEXT).write(&Context {
        flags: 0,
        link: 0,
        before: Before {
            stack: delivery.altstack,
            mask: delivery.mask,
        },
    })?;
    UserPtr::new(base + FAULT_ADDRESS).write(&(fault_address as u64))?;
    UserPtr::new(base + REGISTERS_AT).write(frame.registers())?;
    let mut records = MaybeUninit::uninit();
    UserPtr::new(base + RECORDS).write(Written::fill(&mut records, esr, syndrome as u64))?;
    if let Some(vectors) = vectors {
        vectors.write(base + RECORDS)?;
    }
    UserPtr::<[u64; 2]>::new(record).write(&[frame.x[29] as u64, frame.x[30] as u64])?;
    frame.x[0] = delivery.signo as usize;
    if delivery.flags & SA_SIGINFO != 0 {
        frame.x[1] = base;
        frame.x[2] = base + CONTEXT;
    }
    frame.x[29] = record;
    frame.x[30] = delivery.restorer;
    frame.sp = base;
    frame.pc = delivery.handler;
    if is_taken::<{ Key::HandlerState as u32 }>() {
        begin_state(frame);
    }
    frame.clear_syscall();
    Ok(())
}

/// Starts a handler as an indirect call does, and with tag checks enabled; CPUs without these
/// features ignore the bits.
#[cold]
#[inline(never)]
fn begin_state(frame: &mut Frame) {
    frame.pstate = frame.pstate & !(pstate::BTYPE | pstate::TCO) | pstate::BTYPE_CALL;
}

/// The signal mask and, if the frame contains it, the alternate stack to restore.
pub type Popped = (u64, Option<[usize; 3]>);

/// Reads the mask and the alternate stack that [`push`] saved. `with_info` matters only for 32-bit
/// programs, which have a different frame without siginfo.
///
/// # Errors
/// EFAULT if there is no frame.
pub fn read_saved(frame: &Frame, with_info: bool) -> Result<Popped> {
    if frame.is_compat() {
        return compat_signal::read_saved(frame, with_info);
    }
    if !frame.sp.is_multiple_of(16) {
        return Err(Errno::EFAULT);
    }
    let before: Before = UserPtr::new(frame.sp.wrapping_add(CONTEXT + BEFORE)).read()?;
    Ok((before.mask, Some(before.stack)))
}

/// Undoes [`push`]: restores the program's registers from its stack.
///
/// # Errors
/// EFAULT, EINVAL if there is no frame, or an invalid one.
pub fn pop(frame: &mut Frame, with_info: bool) -> Result<()> {
    if frame.is_compat() {
        return compat_signal::pop(frame, with_info);
    }
    let base = frame.sp;
    let registers = frame.registers_mut();
    let copied = UserSlice::new(base.wrapping_add(REGISTERS_AT), size_of_val(registers))
        .copy_in(registers.as_mut_bytes());
    frame.clear_syscall();
    let valid = pstate::of_program(frame.pstate);
    frame.pstate = valid.unwrap_or(frame.pstate & pstate::NZCV);
    copied?;
    valid.ok_or(Errno::EINVAL)?;
    let mut plain = MaybeUninit::uninit();
    match UserPtr::<Plain>::new(base.wrapping_add(RECORDS)).read_to(&mut plain) {
        Ok(plain) if plain.fp.head == FP_HEAD && plain.end == END && !sve::present() => {
            fp::load(&plain.fp.state);
            Ok(())
        }
        _ => pop_records(base),
    }
}

/// Restores the registers from the records of the frame at `base`, whatever they are.
#[cold]
#[inline(never)]
fn pop_records(base: usize) -> Result<()> {
    let records = records::find(base.wrapping_add(RECORDS), base)?;
    if records.fp.size != size_of::<FpContext>() {
        return Err(Errno::EINVAL);
    }
    let mut context = MaybeUninit::uninit();
    let context = UserPtr::<FpContext>::new(records.fp.at).read_to(&mut context)?;
    if sve::present() {
        sve_frame::load(records.sve, &context.state)
    } else {
        fp::load(&context.state);
        Ok(())
    }
}

/// The code and the address of SIGSEGV for a program without a valid frame
/// (`arm64_notify_segfault`).
pub fn bad_frame(frame: &Frame) -> (u32, usize) {
    let at = frame.sp();
    let mapped = with_active(|space| space.has_vma_after(at)) == Some(true);
    (if mapped { SEGV_ACCERR } else { SEGV_MAPERR }, at)
}
