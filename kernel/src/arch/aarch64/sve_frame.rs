//! SVE's records in signal frames: `struct sve_context`, and `struct extra_context` before one that is too long for the room
//! that every frame has (`arch/arm64/include/uapi/asm/sigcontext.h`, `arch/arm64/kernel/signal.c`).

use alloc::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::fp::{self, FpState};
use super::signal::{END, ESR_MAGIC, FP_MAGIC, Head, RESERVED};
use super::sve::{self, Image, image_size};
use super::thread;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};

const SVE_MAGIC: u32 = 0x5356_4501;
const EXTRA_MAGIC: u32 = 0x4558_5401;

/// `struct sve_context`, behind which the registers follow if the thread uses SVE.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct SveContext {
    head: Head,
    length: u16,
    flags: u16,
    reserved: [u16; 2],
}

/// `struct extra_context` with the end of the list that it stands last in.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct ExtraContext {
    head: Head,
    data: u64,
    size: u32,
    reserved: [u32; 3],
    end: [Head; 2],
}

/// Bytes of the end of a list: records are multiples of it.
const END_SIZE: usize = 16;
/// Bytes of `struct extra_context`.
const EXTRA_SIZE: usize = size_of::<ExtraContext>() - END_SIZE;
/// Bytes of the largest frame that is taken back (SIGFRAME_MAXSZ).
const LARGEST: usize = 64 << 10;

/// Bytes of the record of a thread that uses vectors of `length` bytes.
fn record_size(length: usize) -> usize {
    (size_of::<SveContext>() + image_size(length)).next_multiple_of(END_SIZE)
}

/// Where the records come, from the start of all.
pub(super) struct Plan {
    at: usize,
    record: usize,
    length: usize,
}

impl Plan {
    /// The plan for the current thread, whose other records end at `at`; none where programs have no SVE.
    pub fn new(at: usize) -> Option<Plan> {
        if !sve::present() {
            return None;
        }
        let state = &thread::current().arch;
        let length = state.sve_lengths().now();
        let record = if state.own_sve(|image| image.is_none()) {
            size_of::<SveContext>()
        } else {
            record_size(length)
        };
        Some(Plan { at, record, length })
    }

    /// The plan for the longest vectors.
    pub fn largest(at: usize) -> Option<Plan> {
        let length = sve::present().then(sve::longest)?;
        Some(Plan {
            at,
            record: record_size(length),
            length,
        })
    }

    /// Whether the record lies behind the room that every frame has.
    fn is_extra(&self) -> bool {
        self.at + self.record + END_SIZE + EXTRA_SIZE > RESERVED
    }

    /// Bytes of all records.
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
        // A copy, as the write may wait, and the switch then writes to the image.
        let mut bytes = Vec::new();
        thread::current().arch.own_sve(|image| {
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

/// Loads the current thread's registers: V0 to V31 and what controls them from `fp`, the rest of Z0 to Z31, P0 to P15 and FFR
/// from the records at `records`, if they are there.
///
/// # Errors
/// EFAULT, EINVAL: the records are none of ours. ENOMEM.
pub(super) fn load(records: usize, fp: &FpState) -> Result<()> {
    let state = &thread::current().arch;
    match read(records, state.sve_lengths().now())? {
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

/// The registers in the records; none if the thread did not use SVE.
fn read(records: usize, length: usize) -> Result<Option<Image>> {
    let Some(at) = find(records)? else {
        return Ok(None);
    };
    let context = UserPtr::<SveContext>::new(at).read()?;
    let room = context.head.size as usize - size_of::<SveContext>();
    if context.length as usize != length || context.flags != 0 {
        return Err(Errno::EINVAL);
    }
    if room == 0 {
        return Ok(None);
    }
    if room < image_size(length) {
        return Err(Errno::EINVAL);
    }
    let mut image = Image::zero(length)?;
    UserSlice::new(at + size_of::<SveContext>(), image_size(length)).copy_in(image.bytes_mut())?;
    Ok(Some(image))
}

/// The address of the `struct sve_context` among the records at `records`.
fn find(records: usize) -> Result<Option<usize>> {
    let (mut at, mut left) = (records, RESERVED);
    let (mut found, mut extra) = (None, false);
    loop {
        let head = UserPtr::<Head>::new(at).read()?;
        if head == END {
            return Ok(found);
        }
        let size = head.size as usize;
        if size > left || size % END_SIZE != 0 {
            return Err(Errno::EINVAL);
        }
        match head.magic {
            FP_MAGIC | ESR_MAGIC if size != 0 => {}
            SVE_MAGIC if found.is_none() && size >= size_of::<SveContext>() => found = Some(at),
            EXTRA_MAGIC if !extra && size == EXTRA_SIZE => {
                let context = UserPtr::<ExtraContext>::new(at).read()?;
                let data = at + size_of::<ExtraContext>();
                if context.data != data as u64
                    || context.end[0] != END
                    || context.size as usize > LARGEST
                {
                    return Err(Errno::EINVAL);
                }
                (at, left, extra) = (data, context.size as usize, true);
                continue;
            }
            _ => return Err(Errno::EINVAL),
        }
        (at, left) = (at + size, left - size);
        if left < END_SIZE {
            return Err(Errno::EINVAL);
        }
    }
}
