//! The extension records of a signal frame for rt_sigreturn(2): a list in the space that every
//! frame has, which continues behind it if that was too small
//! (`arch/arm64/include/uapi/asm/sigcontext.h`; the rules are those of `parse_user_sigframe` in
//! `arch/arm64/kernel/signal.c`).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::sve;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;

/// Header of a record.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Head {
    pub magic: u32,
    pub size: u32,
}

/// `struct extra_context`, followed by the terminating record of its list.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ExtraContext {
    pub head: Head,
    pub data: u64,
    pub size: u32,
    pub reserved: [u32; 3],
    pub end: [Head; 2],
}

pub const FP_MAGIC: u32 = 0x4650_8001;
pub const ESR_MAGIC: u32 = 0x4553_5201;
pub const SVE_MAGIC: u32 = 0x5356_4501;
pub const EXTRA_MAGIC: u32 = 0x4558_5401;
/// The terminating record.
pub const END: Head = Head { magic: 0, size: 0 };
/// Size of a terminating record in bytes; record sizes are multiples of it.
pub const END_SIZE: usize = 16;
/// Size of `struct extra_context` in bytes.
pub const EXTRA_SIZE: usize = size_of::<ExtraContext>() - END_SIZE;
/// Size of `sigcontext.__reserved` in bytes.
pub const RESERVED: usize = 4096;
/// Size of the largest frame that is accepted (SIGFRAME_MAXSZ), in bytes.
const LARGEST: usize = 64 << 10;

/// A record's address and its size, including the header.
#[derive(Clone, Copy)]
pub struct Record {
    pub at: usize,
    pub size: usize,
}

/// The records of a frame that contain register values.
pub struct Records {
    pub fp: Record,
    pub sve: Option<Record>,
}

/// The current address in a list, and the bytes that remain.
struct Cursor {
    at: usize,
    left: usize,
}

/// Finds the records of the frame at `frame`, in the list that begins at `start`.
///
/// # Errors
/// EFAULT if they cannot be read. EINVAL if a record is malformed, repeated or unknown, or there is
/// none for the FP registers.
pub fn find(start: usize, frame: usize) -> Result<Records> {
    let (mut fp, mut sve, mut extra) = (None, None, false);
    let mut list = Cursor {
        at: start,
        left: RESERVED,
    };
    loop {
        if list.left < size_of::<Head>() || !list.at.is_multiple_of(END_SIZE) {
            return Err(Errno::EINVAL);
        }
        let head = UserPtr::<Head>::new(list.at).read()?;
        let size = head.size as usize;
        let record = Record { at: list.at, size };
        if head == END {
            let fp = fp.ok_or(Errno::EINVAL)?;
            return Ok(Records { fp, sve });
        }
        if size > list.left || size < size_of::<Head>() {
            return Err(Errno::EINVAL);
        }
        match head.magic {
            FP_MAGIC if fp.is_none() => fp = Some(record),
            ESR_MAGIC => {}
            SVE_MAGIC if sve.is_none() && sve::present() => sve = Some(record),
            EXTRA_MAGIC if !extra => {
                extra = true;
                list = follow(record, list.left, frame)?;
                continue;
            }
            _ => return Err(Errno::EINVAL),
        }
        list.at += size;
        list.left -= size;
    }
}

/// Returns the list to which an extra record, the last one of its own list, refers: immediately
/// behind that.
fn follow(extra: Record, left: usize, frame: usize) -> Result<Cursor> {
    if extra.size < EXTRA_SIZE || left - extra.size < END_SIZE {
        return Err(Errno::EINVAL);
    }
    let context = UserPtr::<ExtraContext>::new(extra.at).read()?;
    let end = extra.at + extra.size;
    let data = end + END_SIZE;
    let size = context.size as usize;
    let most = (frame + LARGEST).saturating_sub(data);
    if UserPtr::<Head>::new(end).read()? != END
        || context.data != data as u64
        || !data.is_multiple_of(END_SIZE)
        || !size.is_multiple_of(END_SIZE)
        || size > most
    {
        return Err(Errno::EINVAL);
    }
    Ok(Cursor {
        at: data,
        left: size,
    })
}
