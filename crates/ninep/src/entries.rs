//! The entries of a directory.

use crate::names::is_name;
use crate::reader::Reader;
use crate::{Error, Qid, Result};

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The file.
    pub qid: Qid,
    /// Where reading goes on after this entry.
    pub next: u64,
    /// The type of the file, as in Linux's `d_type`.
    pub kind: u8,
    /// Its name; also `.` and `..`.
    pub name: &'a [u8],
}

/// The entries in the data of a reply, which ends after a whole one.
pub struct Entries<'a>(Reader<'a>);

impl<'a> Entries<'a> {
    /// Those in these bytes.
    pub fn new(data: &'a [u8]) -> Self {
        Entries(Reader::new(data))
    }

    fn entry(&mut self) -> Result<Entry<'a>> {
        let from = &mut self.0;
        let entry = Entry {
            qid: from.qid()?,
            next: from.u64()?,
            kind: from.u8()?,
            name: from.string()?,
        };
        // A position is an offset of a file for programs.
        match is_name(entry.name) && entry.next <= i64::MAX as u64 {
            true => Ok(entry),
            false => Err(Error::Garbage),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>>;

    /// The next one; nothing after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.0 = Reader::new(&[]);
        }
        Some(entry)
    }
}
