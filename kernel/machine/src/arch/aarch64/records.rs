//! The extension records of a signal frame, as rt_sigreturn(2) takes them back: a list in the room
//! that every frame has, and behind it, where that was too small
//! (`arch/arm64/include/uapi/asm/sigcontext.h`; the rules are those of `parse_user_sigframe` in
//! `arch/arm64/kernel/signal.c`).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::sve;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;

/// Head of a record.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Head {
    pub magic: u32,
    pub size: u32,
}

/// `struct extra_context` with the end of the list that it stands last in.
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
/// The end of the records.
pub const END: Head = Head { magic: 0, size: 0 };
/// Bytes of the end of a list: records are multiples of it.
pub const END_SIZE: usize = 16;
/// Bytes of `struct extra_context`.
pub const EXTRA_SIZE: usize = size_of::<ExtraContext>() - END_SIZE;
/// Bytes of `sigcontext.__reserved`.
pub const RESERVED: usize = 4096;
/// Bytes of the largest frame that is taken back (SIGFRAME_MAXSZ).
const LARGEST: usize = 64 << 10;

/// A record: where it stands, and its bytes, the head included.
#[derive(Clone, Copy)]
pub struct Record {
    pub at: usize,
    pub size: usize,
}

/// The records of a frame that say what registers hold.
pub struct Records {
    pub fp: Record,
    pub sve: Option<Record>,
}

/// Where in the list one looks, and where it ends.
struct Cursor {
    at: usize,
    left: usize,
}

/// Finds the records from `start` on of the frame at `frame`.
///
/// # Errors
/// EFAULT: they cannot be read. EINVAL: one is damaged, doubled or unknown, or there is none of FP
/// registers.
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

/// The list that an extra record, which ends its own, leads to: right behind that.
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
