//! What a program finds on its stack when it begins: its arguments, its environment, and the auxiliary vector.

extern crate alloc;

use alloc::vec::Vec;
use core::ops::Range;

use zerocopy::IntoBytes;

use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use crate::mm::user;

/// The longest string, with its zero (Linux's MAX_ARG_STRLEN).
const LONGEST: usize = 128 << 10;
/// Bytes of a word.
const WORD: usize = size_of::<usize>();

/// Strings one after the other, each with its zero.
#[derive(Clone, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    count: usize,
}

impl Strings {
    /// None.
    pub const fn new() -> Self {
        Strings {
            bytes: Vec::new(),
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
        let mut strings = Strings::new();
        if array == 0 {
            return Ok(strings);
        }
        loop {
            let at = address(array.wrapping_add(strings.count * size))?;
            if at == 0 {
                return Ok(strings);
            }
            let string = user::read_cstr(at, LONGEST).map_err(|error| match error {
                Errno::ENAMETOOLONG => Errno::E2BIG,
                other => other,
            })?;
            strings.push(&string)?;
            if strings.size() > limit {
                return Err(Errno::E2BIG);
            }
        }
    }

    /// Adds a string.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn push(&mut self, string: &[u8]) -> Result<()> {
        self.bytes
            .try_reserve(string.len() + 1)
            .map_err(|_| Errno::ENOMEM)?;
        self.bytes.extend_from_slice(string);
        self.bytes.push(0);
        self.count += 1;
        Ok(())
    }

    /// Adds what another has, without its first `skip` strings.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn append(&mut self, other: &Strings, skip: usize) -> Result<()> {
        other
            .iter()
            .skip(skip)
            .try_for_each(|string| self.push(string))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Bytes on the stack, with a pointer each.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.count * WORD
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|&byte| byte == 0).take(self.count)
    }
}

/// Where the parts of a new stack lie.
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

/// What stands beside the strings.
pub struct Extra<'a> {
    /// The path of the program.
    pub path: &'a [u8],
    /// AT_PLATFORM.
    pub platform: &'a str,
    /// AT_RANDOM's bytes.
    pub random: [u8; 16],
    /// Whether words have 64 bits, or 32.
    pub wide: bool,
}

/// Fills the stack of `space` from `top` down. `auxiliary` gets the addresses of the path, the platform's name and the random
/// bytes, and gives the auxiliary vector without its end.
///
/// # Errors
/// E2BIG: it does not fit; ENOMEM.
pub fn build(
    space: &AddressSpace,
    top: usize,
    arguments: &Strings,
    environment: &Strings,
    extra: &Extra,
    auxiliary: impl FnOnce(usize, usize, usize) -> Result<Vec<[usize; 2]>>,
) -> Result<Layout> {
    let word = if extra.wide { WORD } else { WORD / 2 };
    let mut at = top - word;
    let mut put = |bytes: &[u8], zero: usize| {
        at -= bytes.len() + zero;
        write(space, at, bytes)?;
        Ok(at)
    };
    let path = put(extra.path, 1)?;
    let environment_at = put(&environment.bytes, 0)?;
    let arguments_at = put(&arguments.bytes, 0)?;
    let platform = put(extra.platform.as_bytes(), 1)?;
    let random = put(&extra.random, 0)?;
    let vector = auxiliary(path, platform, random)?;
    let words = 1 + arguments.count + 1 + environment.count + 1 + 2 * (vector.len() + 1);
    let sp = (at - words * word) & !15;
    let mut table = Vec::new();
    table.try_reserve_exact(words).map_err(|_| Errno::ENOMEM)?;
    table.push(arguments.count);
    for (strings, start) in [(arguments, arguments_at), (environment, environment_at)] {
        let mut address = start;
        for string in strings.iter() {
            table.push(address);
            address += string.len() + 1;
        }
        table.push(0);
    }
    let auxiliary_at = sp + table.len() * word;
    table.extend(vector.iter().flatten());
    table.extend([0, 0]);
    let end = sp + table.len() * word;
    if extra.wide {
        write(space, sp, table.as_bytes())?;
    } else {
        let mut narrow: Vec<u32> = Vec::new();
        narrow.try_reserve_exact(words).map_err(|_| Errno::ENOMEM)?;
        narrow.extend(table.iter().map(|word| *word as u32));
        write(space, sp, narrow.as_bytes())?;
    }
    Ok(Layout {
        sp,
        arguments: arguments_at..arguments_at + arguments.bytes.len(),
        environment: environment_at..environment_at + environment.bytes.len(),
        auxiliary: auxiliary_at..end,
    })
}

fn write(space: &AddressSpace, at: usize, bytes: &[u8]) -> Result<()> {
    if space.write(at, bytes) == bytes.len() {
        Ok(())
    } else {
        Err(Errno::E2BIG)
    }
}
