//! The SVE records of signal frames: `struct sve_context`, preceded by `struct extra_context` if it
//! is too long for the space that every frame has (`arch/arm64/include/uapi/asm/sigcontext.h`,
//! `arch/arm64/kernel/signal.c`).

use alloc::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::fp::{self, FpState};
use super::records::{
    END, END_SIZE, EXTRA_MAGIC, EXTRA_SIZE, ExtraContext, Head, RESERVED, Record, SVE_MAGIC,
};
use super::sve::{self, Image, image_size};
use crate::arch::task;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};

/// `struct sve_context`, followed by the registers if the thread uses SVE.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct SveContext {
    head: Head,
    length: u16,
    flags: u16,
    reserved: [u16; 2],
}

/// Size in bytes of the record of a thread that uses vectors of `length` bytes.
fn record_size(length: usize) -> usize {
    (size_of::<SveContext>() + image_size(length)).next_multiple_of(END_SIZE)
}

/// The layout of the records, as offsets from the first record.
pub(super) struct Plan {
    at: usize,
    record: usize,
    length: usize,
}

impl Plan {
    /// The layout for the current thread, whose other records end at `at`; none if programs cannot
    /// use SVE.
    pub fn new(at: usize) -> Option<Plan> {
        if !sve::present() {
            return None;
        }
        let state = task::state();
        let length = state.sve_lengths().now();
        let record = if state.own_sve(|image| image.is_none()) {
            size_of::<SveContext>()
        } else {
            record_size(length)
        };
        Some(Plan { at, record, length })
    }

    /// The layout for the longest vectors.
    pub fn largest(at: usize) -> Option<Plan> {
        let length = sve::present().then(sve::longest)?;
        Some(Plan {
            at,
            record: record_size(length),
            length,
        })
    }

    /// Whether the record lies behind the space that every frame has.
    fn is_extra(&self) -> bool {
        self.at + self.record + END_SIZE + EXTRA_SIZE > RESERVED
    }

    /// Size of all records in bytes.
    pub fn size(&self) -> usize {
        let extra = if self.is_extra() {
            size_of::<ExtraContext>()
        } else {
            0
        };
        RESERVED.max(self.at + extra + self.record + END_SIZE)
    }

    /// Writes the current thread's registers to the records at `records`.
    pub fn write(&self, records: usize) -> Result<()> {
        let mut at = records + self.at;
        if self.is_extra() {
            let data = at + size_of::<ExtraContext>();
            UserPtr::new(at).write(&ExtraContext {
                head: head(EXTRA_MAGIC, EXTRA_SIZE),
                data: data as u64,
                size: (self.record + END_SIZE) as u32,
                reserved: [0; 3],
                end: [END; 2],
            })?;
            at = data;
        }
        UserPtr::new(at).write(&SveContext {
            head: head(SVE_MAGIC, self.record),
            length: self.length as u16,
            flags: 0,
            reserved: [0; 2],
        })?;
        // A copy, because the write may sleep, and a context switch then writes to the image.
        let mut bytes = Vec::new();
        task::state().own_sve(|image| {
            if !image.is_none() {
                image.save();
                let size = image.bytes().len();
                bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
                bytes.extend_from_slice(image.bytes());
            }
            Ok(())
        })?;
        UserSlice::new(at + size_of::<SveContext>(), bytes.len()).copy_out(&bytes)?;
        UserPtr::new(at + self.record).write(&[END; 2])
    }
}

fn head(magic: u32, size: usize) -> Head {
    Head {
        magic,
        size: size as u32,
    }
}

/// Loads the current thread's registers: V0 to V31, FPSR and FPCR from `fp`, the rest of Z0 to Z31,
/// P0 to P15 and FFR from its `record`, if there is one.
///
/// # Errors
/// EFAULT, EINVAL if the record is invalid. ENOMEM.
pub(super) fn load(record: Option<Record>, fp: &FpState) -> Result<()> {
    let state = task::state();
    let image = record.map(|record| read(record, state.sve_lengths().now()));
    match image.transpose()?.flatten() {
        Some(mut image) => {
            image.set_low(&fp.v);
            fp::load_control(fp);
            state.load_sve(image);
        }
        None => {
            state.end_sve();
            fp::load(fp);
        }
    }
    Ok(())
}

/// Reads the registers in the record; none if the thread did not use SVE.
fn read(record: Record, length: usize) -> Result<Option<Image>> {
    const STREAMING: u16 = 1;
    let room = record.size.checked_sub(size_of::<SveContext>());
    let room = room.ok_or(Errno::EINVAL)?;
    let context = UserPtr::<SveContext>::new(record.at).read()?;
    if context.length as usize != length || context.flags & STREAMING != 0 {
        return Err(Errno::EINVAL);
    }
    if room == 0 {
        return Ok(None);
    }
    if room < image_size(length) {
        return Err(Errno::EINVAL);
    }
    let mut image = Image::zero(length)?;
    let registers = record.at + size_of::<SveContext>();
    UserSlice::new(registers, image_size(length)).copy_in(image.bytes_mut())?;
    Ok(Some(image))
}
