//! The beginning of a reply.

use crate::reader::Reader;
use crate::{Error, Result};

/// The length of a message's size, type and tag.
pub const HEAD: usize = 7;
/// The type of a reply that refuses the request (Rlerror).
const REFUSED: u8 = 7;
/// The largest error number.
const MOST_ERRNO: u32 = 4095;

/// Checks the beginning of the reply to a request of the type `kind` with this tag. `bytes` is the
/// head of the reply, as far as the device wrote it, and `written` the number of bytes that it
/// wrote in all. Returns the fields in `bytes`, and the number of the reply's bytes behind them.
pub fn head(bytes: &[u8], written: usize, kind: u8, tag: u16) -> Result<(&[u8], usize)> {
    let mut reader = Reader::new(bytes);
    let (size, found, own) = (reader.u32()? as usize, reader.u8()?, reader.u16()?);
    if !(HEAD..=written).contains(&size) || own != tag {
        return Err(Error::Garbage);
    }
    let here = size.min(bytes.len());
    let fields = &bytes[HEAD..here];
    match found {
        REFUSED => Err(refusal(fields)),
        // A reply's type is that of its request, plus one.
        _ if found == kind + 1 => Ok((fields, size - here)),
        _ => Err(Error::Garbage),
    }
}

fn refusal(fields: &[u8]) -> Error {
    match Reader::new(fields).u32() {
        Ok(number @ 1..=MOST_ERRNO) => Error::Refused(number as u16),
        _ => Error::Garbage,
    }
}
