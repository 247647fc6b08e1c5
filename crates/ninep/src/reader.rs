//! Reading the fields of a message.

use crate::{Error, Qid, QidType, Result, Time};

/// The fields that are left.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Error::Garbage)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Error::Garbage)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn string(&mut self) -> Result<&'a [u8]> {
        let len = self.u16()?;
        self.bytes(len.into())
    }

    pub fn qid(&mut self) -> Result<Qid> {
        Ok(Qid {
            kind: QidType::from_bits_truncate(self.u8()?),
            version: self.u32()?,
            path: self.u64()?,
        })
    }

    /// A time; what is no nanosecond of a second counts as the last.
    pub fn time(&mut self) -> Result<Time> {
        let (seconds, nanoseconds) = (self.u64()? as i64, self.u64()?);
        let nanoseconds = nanoseconds.min(999_999_999) as u32;
        Ok(Time {
            seconds,
            nanoseconds,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends the message: nothing may be left.
    pub fn end<T>(&self, value: T) -> Result<T> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(Error::Garbage),
        }
    }
}
