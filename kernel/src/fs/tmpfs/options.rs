//! Mount options of tmpfs (`size=10m,mode=755`).

use super::super::mount::options::{number, parse, permissions};
use crate::errno::{Errno, Result};
use crate::mm::{PAGE_SIZE, frame};

/// The options that were given. A limit of 0 means no limit.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// The maximum number of pages of its files.
    pub pages: Option<u64>,
    /// The maximum number of inodes.
    pub inodes: Option<u64>,
    /// The root's permissions.
    pub permissions: Option<u32>,
    /// The root's owner.
    pub uid: Option<u32>,
    /// The root's group.
    pub gid: Option<u32>,
    /// Its pages are never swapped out; no pages ever are.
    pub noswap: bool,
}

/// The number of bytes that an inode counts as (BOGO_INODE_SIZE).
const INODE: u64 = 1024;

impl Options {
    /// Options without limits, for the kernel's own file systems.
    pub const fn unlimited(permissions: u32) -> Self {
        Options {
            pages: Some(0),
            inodes: Some(0),
            permissions: Some(permissions),
            uid: None,
            gid: None,
            noswap: false,
        }
    }

    /// Parses a list of options; returns `flags` (MS_*) with the changes that the list makes to
    /// them.
    ///
    /// # Errors
    /// EINVAL.
    pub fn parse(list: &[u8], flags: u32) -> Result<(Self, u32)> {
        let mut options = Options::default();
        let flags = parse(list, flags, |name, value| {
            match name {
                "size" => options.pages = Some(size(value)?.div_ceil(PAGE_SIZE as u64)),
                "nr_blocks" => options.pages = Some(scaled(value, i64::MAX as u64)?),
                "nr_inodes" => options.inodes = Some(scaled(value, u64::MAX / INODE)?),
                "mode" => options.permissions = Some(permissions(value)? & 0o7777),
                "uid" => options.uid = Some(number(value)?),
                "gid" => options.gid = Some(number(value)?),
                "noswap" if value.is_none() => options.noswap = true,
                // This is how it is anyway: files have no huge pages, inode numbers have 64 bits,
                // and there is one memory node.
                "huge" if value == Some("never") => {}
                "inode64" if value.is_none() => {}
                "mpol" if value == Some("default") => {}
                _ => return Err(Errno::EINVAL),
            }
            Ok(())
        })?;
        Ok((options, flags))
    }

    /// The default limit of pages, and of inodes: half of the pages of memory.
    pub fn default_limit() -> u64 {
        frame::total() as u64 / 2
    }
}

/// Parses a number in C's notation; returns it and the text after it. As Linux's simple_strtoull,
/// it reads no digits as 0, and loses bits beyond 64.
fn leading_number(text: &str) -> (u64, &str) {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let is_hexadecimal =
        |digits: &&str| digits.starts_with(|first: char| first.is_ascii_hexdigit());
    let (digits, radix) = match hexadecimal.filter(is_hexadecimal) {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|digit: char| !digit.is_digit(radix));
    let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
    let add = |number: u64, digit: char| {
        let digit = digit.to_digit(radix).unwrap_or_default();
        number.wrapping_mul(radix.into()).wrapping_add(digit.into())
    };
    (digits.chars().fold(0, add), rest)
}

/// Parses a number that may end in a letter for a power of 1024; returns it and the text after it
/// (Linux's memparse).
fn leading_size(value: Option<&str>) -> Result<(u64, &str)> {
    let text = value.filter(|text| !text.is_empty());
    let (number, rest) = leading_number(text.ok_or(Errno::EINVAL)?);
    let letter = rest
        .bytes()
        .next()
        .map(|letter| letter.to_ascii_lowercase());
    let power = letter.and_then(|letter| b"kmgtpe".iter().position(|&scale| scale == letter));
    Ok(match power {
        Some(power) => (number << (10 * (power + 1)), &rest[1..]),
        None => (number, rest),
    })
}

fn scaled(value: Option<&str>, most: u64) -> Result<u64> {
    match leading_size(value)? {
        (number, "") if number <= most => Ok(number),
        _ => Err(Errno::EINVAL),
    }
}

/// Parses a number of bytes, or a percentage of memory that ends in `%`.
fn size(value: Option<&str>) -> Result<u64> {
    match leading_size(value)? {
        (bytes, "") => Ok(bytes),
        (percent, "%") => {
            let memory = (frame::total() * PAGE_SIZE) as u64;
            Ok(percent.wrapping_mul(memory) / 100)
        }
        _ => Err(Errno::EINVAL),
    }
}
