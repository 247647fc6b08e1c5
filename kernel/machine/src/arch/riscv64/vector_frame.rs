//! The vector record of a signal frame (`arch/riscv/include/uapi/asm/sigcontext.h`,
//! `arch/riscv/kernel/signal.c`).

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::vector::{self, Control, Image};
use crate::arch::task;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};

/// `struct __riscv_ctx_hdr`: a record's magic number, and its size in bytes including this header.
pub(super) type Head = [u32; 2];

/// The terminating record.
const END: Head = [0; 2];
/// RISCV_V_MAGIC
const MAGIC: u32 = 0x5346_5457;

/// `struct __sc_riscv_v_state`: the vector CSRs, and the address of v0 to v31.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable)]
struct Saved {
    control: Control,
    data: usize,
}

/// Size of the record in bytes. Also the additional size of a frame with the record, because the
/// header of the terminating record takes the place of the record's.
pub(super) fn size() -> usize {
    size_of::<Head>() + size_of::<Saved>() + vector::size()
}

/// Writes the record of the current thread, which uses vectors, with its header at `at`, and the
/// terminating record behind it.
///
/// # Errors
/// EFAULT, ENOMEM.
pub(super) fn push(at: usize) -> Result<()> {
    // A copy, because the write may sleep, and a context switch then writes to the original.
    let state = task::state();
    let image = state.own_units(|units| units.copy_vector())?;
    let saved = at.wrapping_add(size_of::<Head>());
    let data = saved.wrapping_add(size_of::<Saved>());
    let (control, registers) = image.bytes().split_at(size_of::<Control>());
    UserSlice::new(saved, control.len()).copy_out(control)?;
    UserPtr::new(saved.wrapping_add(control.len())).write(&data)?;
    UserSlice::new(data, registers.len()).copy_out(registers)?;
    UserPtr::new(at).write(&[MAGIC, size() as u32])?;
    UserPtr::new(at.wrapping_add(size())).write(&END)
}

/// Restores the current thread's vectors from the record at `at` with header `head`.
///
/// # Errors
/// EFAULT. EINVAL if the records differ from those that `push` writes, or the thread does not use
/// vectors. ENOMEM.
pub(super) fn pop(at: usize, head: Head) -> Result<()> {
    let state = task::state();
    let in_use = state.own_units(|units| units.uses_vector());
    let end: Head = UserPtr::new(at.wrapping_add(size())).read()?;
    if head != [MAGIC, size() as u32] || !in_use || end != END {
        return Err(Errno::EINVAL);
    }
    let saved: Saved = UserPtr::new(at.wrapping_add(size_of::<Head>())).read()?;
    let mut image = Image::zero()?;
    image.set_control(&saved.control);
    UserSlice::new(saved.data, vector::size()).copy_in(image.registers_mut())?;
    state.own_units(|units| units.restore_vector(image));
    Ok(())
}
