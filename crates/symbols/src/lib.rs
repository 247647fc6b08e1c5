//! Packed names of functions by address, by which a kernel names the callers in its own backtraces.
//!
//! The table is a sequence of entries in address order, which ends at a zero byte or at the table's
//! end. An entry is a name, which shares its first bytes with the previous name, as neighbours
//! mostly do:
//!
//! | bytes | |
//! | --- | --- |
//! | 1 | the name's length, from 1 |
//! | 1 | how many of its bytes it shares with the previous name |
//! | … | the other bytes |
//! | 1 to 5 | the distance from the previous address, 7 bits per byte, the lowest first |
//!
//! A table is read from its start, which is slow, but a panicking kernel has time.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "pack"))]
extern crate alloc;
#[cfg(any(test, feature = "pack"))]
mod pack;
#[cfg(any(test, feature = "pack"))]
pub use pack::pack;

/// The maximum length of a name in bytes; longer ones are cut.
pub const NAME_MAX: usize = 200;

/// A name, and the offset of an address from the start of the named function.
pub struct Symbol {
    bytes: [u8; NAME_MAX],
    len: usize,
    /// The offset of the address in the function, in bytes.
    pub offset: usize,
    /// The distance to the start of the next function; 0 for the last one.
    pub size: usize,
}

impl Symbol {
    /// The function's name; empty if the table is damaged.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

/// The symbol that contains `address`, relative to the start that the table uses: the last one that
/// begins at or before it.
pub fn find(table: &[u8], address: usize) -> Option<Symbol> {
    let mut found = Symbol {
        bytes: [0; NAME_MAX],
        len: 0,
        offset: 0,
        size: 0,
    };
    let (mut rest, mut start) = (table, 0usize);
    while let Some(entry) = Entry::read(rest) {
        let next = start.checked_add(entry.distance)?;
        if next > address {
            found.size = next - start;
            break;
        }
        let tail = found
            .bytes
            .get_mut(entry.shared..entry.shared + entry.own.len())?;
        tail.copy_from_slice(entry.own);
        found.len = entry.shared + entry.own.len();
        (start, rest) = (next, entry.rest);
    }
    found.offset = address - start;
    (found.len > 0).then_some(found)
}

struct Entry<'a> {
    shared: usize,
    own: &'a [u8],
    distance: usize,
    rest: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(table: &'a [u8]) -> Option<Self> {
        let (&[len, shared], rest) = table.split_first_chunk()?;
        let own = usize::from(len)
            .checked_sub(shared.into())
            .filter(|_| len > 0)?;
        let (own, mut rest) = rest.split_at_checked(own)?;
        let mut distance = 0;
        for place in 0..5 {
            let (&byte, next) = rest.split_first()?;
            distance |= usize::from(byte & 0x7f) << (7 * place);
            rest = next;
            if byte < 0x80 {
                break;
            }
        }
        Some(Entry {
            shared: shared.into(),
            own,
            distance,
            rest,
        })
    }
}
