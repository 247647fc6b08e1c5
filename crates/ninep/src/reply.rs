//! The fields of replies, behind their heads.

use crate::reader::Reader;
use crate::request::{BASIC, GENERATION};
use crate::{Error, Qid, QidType, Result, Stat, StatFs};

/// The bits of a mode that are the type of the file, and some types (Linux's `S_IFMT`).
const FORMAT: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

/// The answer to [`crate::Request::Version`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// The maximum size of a message, no more than was asked for.
    pub size: u32,
    /// The name of the version.
    pub name: &'a [u8],
}

/// The answer to [`crate::Request::Open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub qid: Qid,
    /// How many bytes are read and written at once at most; 0 if that is not told.
    pub unit: u32,
}

/// The answer to [`crate::Request::Create`].
pub type Created = Opened;

/// Nothing.
pub fn empty(fields: &[u8]) -> Result<()> {
    Reader::new(fields).end(())
}

/// A qid: of what was made, or of the root.
pub fn qid(fields: &[u8]) -> Result<Qid> {
    let mut reader = Reader::new(fields);
    let qid = reader.qid()?;
    reader.end(qid)
}

/// The answer to a request for messages of at most `most` bytes.
pub fn version(fields: &[u8], most: u32) -> Result<Version<'_>> {
    let mut reader = Reader::new(fields);
    let (size, name) = (reader.u32()?, reader.string()?);
    match size <= most {
        true => reader.end(Version { size, name }),
        false => Err(Error::Garbage),
    }
}

/// The answer to [`crate::Request::Walk`]: the qid of the file with the name; `None` if there was
/// no name to find.
///
/// # Errors
/// ENOENT: there is none with this name.
pub fn walked(fields: &[u8], has_name: bool) -> Result<Option<Qid>> {
    const ENOENT: u16 = 2;
    let mut reader = Reader::new(fields);
    match (reader.u16()?, has_name) {
        (1, true) => {
            let qid = reader.qid()?;
            reader.end(Some(qid))
        }
        (0, true) => Err(Error::Refused(ENOENT)),
        (0, false) => reader.end(None),
        _ => Err(Error::Garbage),
    }
}

impl Opened {
    /// Of the fields of a reply.
    pub fn parse(fields: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(fields);
        let (qid, unit) = (reader.qid()?, reader.u32()?);
        reader.end(Opened { qid, unit })
    }
}

/// The number of bytes that were read or written, of `asked` ones. The `rest` of the reply behind
/// the fields has at least as many, or none where nothing is read.
pub fn count(fields: &[u8], asked: u32, rest: Option<usize>) -> Result<usize> {
    let mut reader = Reader::new(fields);
    let count = reader.u32()?;
    let fits = rest.is_none_or(|rest| rest == count as usize);
    match count <= asked && fits {
        true => reader.end(count as usize),
        false => Err(Error::Garbage),
    }
}

/// A string, such as the target of a link: any bytes but zero.
pub fn string(fields: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader::new(fields);
    let string = reader.string()?;
    match string.is_empty() || string.contains(&0) {
        true => Err(Error::Garbage),
        false => reader.end(string),
    }
}

/// The size of an attribute's value, or of the list of their names.
pub fn xattr_size(fields: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(fields);
    let size = reader.u64()?;
    reader.end(size)
}

/// Attributes: of a file whose mode and qid say the same type.
pub fn stat(fields: &[u8]) -> Result<Stat> {
    let mut from = Reader::new(fields);
    let valid = from.u64()?;
    let mut stat = Stat {
        qid: from.qid()?,
        mode: from.u32()?,
        uid: from.u32()?,
        gid: from.u32()?,
        links: from.u64()?,
        rdev: from.u64()?,
        size: from.u64()?,
        blocks: {
            // The size of a block comes first.
            from.u64()?;
            from.u64()?
        },
        accessed: from.time()?,
        modified: from.time()?,
        changed: from.time()?,
        generation: None,
    };
    // When it was made comes before, the version of its data behind.
    from.bytes(2 * 8)?;
    let generation = from.u64()?;
    from.u64()?;
    if valid & GENERATION != 0 {
        stat.generation = Some(generation);
    }
    let told = match stat.mode & FORMAT {
        DIRECTORY => QidType::DIRECTORY,
        SYMLINK => QidType::SYMLINK,
        _ => QidType::empty(),
    };
    let fits = stat.size <= i64::MAX as u64 && told == stat.qid.kind;
    match valid & BASIC == BASIC && fits {
        true => from.end(stat),
        false => Err(Error::Garbage),
    }
}

/// Statistics of a file system.
pub fn statfs(fields: &[u8]) -> Result<StatFs> {
    let mut from = Reader::new(fields);
    let statistics = StatFs {
        kind: from.u32()?,
        block_size: from.u32()?,
        blocks: from.u64()?,
        free: from.u64()?,
        available: from.u64()?,
        files: from.u64()?,
        free_files: from.u64()?,
        id: from.u64()?,
    };
    // The longest name.
    from.u32()?;
    from.end(statistics)
}
