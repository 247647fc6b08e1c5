//! The initial stack of a program: its arguments, its environment, and the auxiliary vector.

extern crate alloc;

use alloc::vec::Vec;
use core::ffi::CStr;
use core::iter;
use core::ops::Range;

use zerocopy::IntoBytes;

use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use crate::mm::user;
use crate::task::sched::cond_resched_killable;

/// The longest string, with its zero (Linux's MAX_ARG_STRLEN).
const LONGEST: usize = 128 << 10;
/// Bytes of a word.
const WORD: usize = size_of::<usize>();

/// Strings in a row, each with its zero.
#[derive(Clone, Default)]
pub struct Strings {
    /// Full pieces of whole strings, each with its zero. There are several, since all strings
    /// together can be larger than a heap allocation.
    full: Vec<Vec<u8>>,
    /// The last piece, which is not full.
    piece: Vec<u8>,
    /// The total size in bytes.
    len: usize,
    count: usize,
}

/// The size at which a new piece begins.
const PIECE: usize = 64 << 10;

impl Strings {
    /// No strings.
    pub const fn new() -> Self {
        Strings {
            full: Vec::new(),
            piece: Vec::new(),
            len: 0,
            count: 0,
        }
    }

    /// Reads an array of addresses, `size` bytes each, of strings that ends with a null pointer.
    ///
    /// # Errors
    /// EFAULT, E2BIG (more than `limit` bytes in all), ENOMEM.
    pub fn read(
        array: usize,
        limit: usize,
        size: usize,
        address: impl Fn(usize) -> Result<usize>,
    ) -> Result<Self> {
        let (mut strings, mut string) = (Strings::new(), Vec::new());
        if array == 0 {
            return Ok(strings);
        }
        loop {
            let at = address(array.wrapping_add(strings.count * size))?;
            if at == 0 {
                return Ok(strings);
            }
            let read = user::read_cstr_into(at, LONGEST, &mut string);
            read.map_err(|error| match error {
                Errno::ENAMETOOLONG => Errno::E2BIG,
                other => other,
            })?;
            strings.push(&string)?;
            if strings.size() > limit {
                return Err(Errno::E2BIG);
            }
            cond_resched_killable()?;
        }
    }

    /// Adds a string.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn push(&mut self, string: &[u8]) -> Result<()> {
        let len = string.len() + 1;
        if !self.piece.is_empty() && self.piece.len() + len > PIECE {
            self.full.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            self.full.push(core::mem::take(&mut self.piece));
        }
        self.piece.try_reserve(len).map_err(|_| Errno::ENOMEM)?;
        self.piece.extend_from_slice(string);
        self.piece.push(0);
        self.len += len;
        self.count += 1;
        Ok(())
    }

    /// Appends the strings of `other` except the first `skip`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn append(&mut self, other: &Strings, skip: usize) -> Result<()> {
        other.iter().skip(skip).try_for_each(|string| {
            cond_resched_killable()?;
            self.push(string)
        })
    }

    /// The size of the strings.
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// The number of strings.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The size on the stack, with a pointer for each.
    pub fn size(&self) -> usize {
        self.len + self.count * WORD
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = &'a [u8]> {
        let strings = |piece: &'a Vec<u8>| {
            let mut left = &piece[..];
            iter::from_fn(move || {
                let string = CStr::from_bytes_until_nul(left).ok()?.to_bytes();
                left = &left[string.len() + 1..];
                Some(string)
            })
        };
        self.full.iter().chain([&self.piece]).flat_map(strings)
    }
}

/// The addresses of a new stack's parts.
pub struct Layout {
    /// The stack pointer.
    pub sp: usize,
    /// The arguments.
    pub arguments: Range<usize>,
    /// The environment.
    pub environment: Range<usize>,
    /// The auxiliary vector.
    pub auxiliary: Range<usize>,
}

/// The data beside the strings.
pub struct Extra<'a> {
    /// The path of the program.
    pub path: &'a [u8],
    /// AT_PLATFORM.
    pub platform: &'a str,
    /// AT_RANDOM's bytes.
    pub random: [u8; 16],
    /// Whether words have 64 or 32 bits.
    pub is_64bit: bool,
}

/// Fills the stack of `space` from `top` downward. `auxiliary` gets the addresses of the path, of
/// the platform's name and of the random bytes, and returns the auxiliary vector without its end.
///
/// # Errors
/// E2BIG: the strings do not fit; ENOMEM.
pub fn build(
    space: &AddressSpace,
    top: usize,
    arguments: &Strings,
    environment: &Strings,
    extra: &Extra,
    auxiliary: impl FnOnce(usize, usize, usize) -> Result<Vec<[usize; 2]>>,
) -> Result<Layout> {
    let word = if extra.is_64bit { WORD } else { WORD / 2 };
    let mut at = top - word;
    let mut put = |bytes: &[u8], zero: usize| {
        at -= bytes.len() + zero;
        write(space, at, bytes)?;
        Ok(at)
    };
    let path = put(extra.path, 1)?;
    let mut put_all = |strings: &Strings| {
        let last = put(&strings.piece, 0)?;
        let mut full = strings.full.iter().rev();
        full.try_fold(last, |_, piece| put(piece, 0))
    };
    let environment_at = put_all(environment)?;
    let arguments_at = put_all(arguments)?;
    let platform = put(extra.platform.as_bytes(), 1)?;
    let random = put(&extra.random, 0)?;
    let vector = auxiliary(path, platform, random)?;
    let words = 1 + arguments.count + 1 + environment.count + 1 + 2 * (vector.len() + 1);
    let sp = (at - words * word) & !15;
    let mut table = Table::new(space, sp, word);
    table.push(arguments.count)?;
    for (strings, start) in [(arguments, arguments_at), (environment, environment_at)] {
        let mut address = start;
        for string in strings.iter() {
            table.push(address)?;
            address += string.len() + 1;
        }
        table.push(0)?;
    }
    let auxiliary_at = table.end();
    for [kind, value] in vector {
        table.push(kind)?;
        table.push(value)?;
    }
    table.push(0)?;
    table.push(0)?;
    table.write()?;
    let end = table.end();
    Ok(Layout {
        sp,
        arguments: arguments_at..arguments_at + arguments.len,
        environment: environment_at..environment_at + environment.len,
        auxiliary: auxiliary_at..end,
    })
}

fn write(space: &AddressSpace, at: usize, bytes: &[u8]) -> Result<()> {
    cond_resched_killable()?;
    if space.write(at, bytes)? == bytes.len() {
        Ok(())
    } else {
        Err(Errno::E2BIG)
    }
}

/// The words at the stack pointer, written part by part, since they can be larger than a heap
/// allocation.
struct Table<'a> {
    space: &'a AddressSpace,
    /// The address of the next part.
    at: usize,
    /// Bytes of a word.
    word: usize,
    part: [usize; 128],
    len: usize,
}

impl<'a> Table<'a> {
    fn new(space: &'a AddressSpace, at: usize, word: usize) -> Self {
        let part = [0; 128];
        Table {
            space,
            at,
            word,
            part,
            len: 0,
        }
    }

    #[inline(always)]
    fn push(&mut self, value: usize) -> Result<()> {
        if self.len >= self.part.len() {
            self.write()?;
        }
        self.part[self.len] = value;
        self.len += 1;
        Ok(())
    }

    #[inline(never)]
    fn write(&mut self) -> Result<()> {
        let part = &self.part[..self.len];
        if self.word == WORD {
            write(self.space, self.at, part.as_bytes())?;
        } else {
            let mut compat = [0u32; 128];
            let words = compat.iter_mut().zip(part);
            words.for_each(|(compat, word)| *compat = *word as u32);
            write(self.space, self.at, compat[..self.len].as_bytes())?;
        }
        self.at = self.end();
        self.len = 0;
        Ok(())
    }

    fn end(&self) -> usize {
        self.at + self.len * self.word
    }
}
