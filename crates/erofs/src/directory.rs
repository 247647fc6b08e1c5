//! Directories: blocks of entries that are sorted by their names, each block for itself with its
//! entries before its names.

use core::cmp::Ordering;

use zerocopy::FromBytes;

use crate::format::Dirent;
use crate::fs::zeroes;
use crate::{Device, Error, Fs, Inode, Result};

/// Bytes of a name at most.
const LONGEST: usize = 255;
/// Bytes of an entry.
const ENTRY: usize = size_of::<Dirent>();

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The inode's number.
    pub inode: u64,
    /// The type of the file that is noted (DT_*), or 0.
    pub kind: u8,
    /// The name.
    pub name: &'a [u8],
    /// Where the entries after it begin.
    pub next: u64,
}

/// A block of a directory.
struct Block<'a> {
    /// All of it; what is behind the directory's end are zeroes.
    bytes: &'a [u8],
    /// How many of them are the directory's.
    used: usize,
}

impl<'a> Block<'a> {
    /// The entry at a byte, where there is room for one.
    fn entry(&self, at: usize) -> Option<Dirent> {
        let (entry, _) = Dirent::read_from_prefix(self.bytes.get(at..)?).ok()?;
        Some(entry)
    }

    /// How many bytes of entries there are, by where the first one's name is.
    fn entries(&self) -> Result<usize> {
        let end = self
            .entry(0)
            .map_or(0, |first| usize::from(first.name.get()));
        match end >= ENTRY && end < self.bytes.len() && end.is_multiple_of(ENTRY) {
            true => Ok(end),
            false => Err(Error::Corrupt("names of a directory")),
        }
    }

    /// The name of the entry at a byte, of which the entries end at `end`.
    fn name(&self, at: usize, entry: &Dirent, end: usize) -> Result<&'a [u8]> {
        let start = usize::from(entry.name.get());
        let next = self.entry(at + ENTRY).filter(|_| at + ENTRY < end);
        let found = match next {
            Some(next) => self.bytes.get(start..usize::from(next.name.get())),
            None => self.bytes.get(start..self.used).map(until_zero),
        };
        found
            .filter(|name| (1..=LONGEST).contains(&name.len()))
            .filter(|name| start + name.len() <= self.used && !name.contains(&b'/'))
            .ok_or(Error::Corrupt("name in a directory"))
    }

    /// The name of entry number `index` of `count`, for a search: one that is damaged is empty.
    fn sought_name(&self, index: usize, count: usize) -> &'a [u8] {
        let offset = |index: usize| {
            let entry = self.entry(index * ENTRY);
            entry.map_or(0, |entry| usize::from(entry.name.get()) % self.bytes.len())
        };
        let end = match index + 1 < count {
            true => offset(index + 1),
            false => self.bytes.len(),
        };
        let name = self.bytes.get(offset(index)..end);
        until_zero(name.unwrap_or_default())
    }

    /// How many entries a search believes that there are.
    fn count(&self) -> Result<usize> {
        let first = self
            .entry(0)
            .map_or(0, |first| usize::from(first.name.get()));
        match first % self.bytes.len() / ENTRY {
            0 => Err(Error::Corrupt("names of a directory")),
            count => Ok(count),
        }
    }

    /// The inode of a name.
    fn find(&self, name: &[u8]) -> Result<u64> {
        let count = self.count()?;
        let found = last_not_greater(count as u64, |index| {
            Ok(self.sought_name(index as usize, count).cmp(name))
        })?;
        let index = found.ok_or(Error::NotFound)? as usize;
        match self.entry(index * ENTRY) {
            Some(entry) if self.sought_name(index, count) == name => Ok(entry.inode.get()),
            _ => Err(Error::NotFound),
        }
    }
}

/// What is before the first zero byte.
fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// The last of `count` things that are sorted which is not greater than what is sought, as
/// `compare` says; the first that is equal, if one is met.
fn last_not_greater(
    count: u64,
    mut compare: impl FnMut(u64) -> Result<Ordering>,
) -> Result<Option<u64>> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(middle)? {
            Ordering::Equal => return Ok(Some(middle)),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Ok(low.checked_sub(1))
}

/// The type of a file that a directory notes (FT_*), as getdents64(2) has it (DT_*).
fn directory_type(kind: u8) -> u8 {
    const TYPES: [u8; 8] = [0, 8, 4, 2, 6, 1, 12, 10];
    TYPES.get(usize::from(kind)).copied().unwrap_or(0)
}

impl<D: Device> Fs<D> {
    /// The inode's number of a name in a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::Corrupt`], [`Error::Io`],
    /// [`Error::NoMemory`].
    pub fn lookup(&self, directory: &Inode, name: &[u8]) -> Result<u64> {
        if !directory.is_directory() {
            return Err(Error::NotDirectory);
        }
        let size = self.geometry.block_size();
        let mut bytes = zeroes(size)?;
        let blocks = directory.size().div_ceil(size as u64);
        let found = last_not_greater(blocks, |number| {
            let block = self.block(directory, number, &mut bytes)?;
            Ok(block.sought_name(0, block.count()?).cmp(name))
        })?;
        let block = found.ok_or(Error::NotFound)?;
        self.block(directory, block, &mut bytes)?.find(name)
    }

    /// Calls `visit` with the entries of a directory from place `from` on, until it returns false.
    /// Places are bytes of the directory, as Linux counts them.
    ///
    /// # Errors
    /// [`Error::NotDirectory`], [`Error::Corrupt`], [`Error::Io`], [`Error::NoMemory`].
    pub fn read_directory(
        &self,
        directory: &Inode,
        from: u64,
        mut visit: impl FnMut(Entry) -> bool,
    ) -> Result<()> {
        if !directory.is_directory() {
            return Err(Error::NotDirectory);
        }
        let size = self.geometry.block_size() as u64;
        let mut bytes = zeroes(size as usize)?;
        let mut offset = (from % size).next_multiple_of(ENTRY as u64) as usize;
        let mut start = from - from % size;
        while start < directory.size() && from < directory.size() {
            let block = self.block(directory, start / size, &mut bytes)?;
            let end = block.entries()?;
            while offset < end {
                let entry = block.entry(offset).ok_or(Error::Corrupt("directory"))?;
                let name = block.name(offset, &entry, end)?;
                offset += ENTRY;
                let next = match offset < end {
                    true => offset,
                    false => block.used,
                };
                let told = visit(Entry {
                    inode: entry.inode.get(),
                    kind: directory_type(entry.kind),
                    name,
                    next: start + next as u64,
                });
                if !told {
                    return Ok(());
                }
            }
            start += size;
            offset = 0;
        }
        Ok(())
    }

    /// Reads a block of a directory.
    fn block<'a>(&self, directory: &Inode, number: u64, bytes: &'a mut [u8]) -> Result<Block<'a>> {
        let start = number * bytes.len() as u64;
        let used = (directory.size() - start).min(bytes.len() as u64) as usize;
        let (content, rest) = bytes.split_at_mut(used);
        self.read(directory, start, content)?;
        rest.fill(0);
        Ok(Block { bytes, used })
    }
}
