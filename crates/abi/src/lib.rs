//! The one table of system calls.
//!
//! From it come the kernel's dispatch table, the lines of a trace, and `docs/abi.md`. arm64 and RISC-V use the same numbers
//! (include/uapi/asm-generic/unistd.h).
#![no_std]
#![forbid(unsafe_code)]

mod document;
mod errno;
mod table;

pub use document::document;
pub use errno::errno_name;
pub use table::CALLS;

/// What an argument is, so that a trace shows it as a person would write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A signed number.
    Int,
    /// An unsigned number: a size, a count.
    Uint,
    /// Bits, or whatever reads best in hexadecimal.
    Hex,
    /// Permissions.
    Octal,
    /// An address.
    Pointer,
    /// A string that ends with a zero byte.
    Path,
    /// Bytes that the call reads, whose number the next argument is.
    Bytes,
    /// A descriptor, or AT_FDCWD.
    Fd,
    /// A signal.
    Signal,
}

/// How much of a call there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All that programs can see.
    Whole,
    /// Not all: what is missing.
    Partial(&'static str),
    /// Nothing: ENOSYS.
    Absent,
}

/// A system call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: u16,
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static [Kind],
    /// How much of it there is.
    pub status: Status,
}

/// The call with this number.
pub fn by_number(number: usize) -> Option<&'static Call> {
    let at = CALLS
        .binary_search_by_key(&number, |call| call.number as usize)
        .ok()?;
    Some(&CALLS[at])
}

/// The number of the call with this name.
///
/// # Panics
/// If there is none; at compile time where the kernel's table is made.
pub const fn number(name: &str) -> usize {
    let mut at = 0;
    while at < CALLS.len() {
        if same(CALLS[at].name.as_bytes(), name.as_bytes()) {
            return CALLS[at].number as usize;
        }
        at += 1;
    }
    panic!("no such system call")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_names_differ() {
        assert!(CALLS.is_sorted_by_key(|call| call.number));
        for (at, call) in CALLS.iter().enumerate() {
            assert!(
                CALLS[..at]
                    .iter()
                    .all(|other| other.number != call.number && other.name != call.name),
                "{}",
                call.name
            );
            assert!(call.arguments.len() <= 6, "{}", call.name);
            assert!((call.number as usize) < 512, "{}", call.name);
        }
    }

    #[test]
    fn look_ups_agree() {
        for call in CALLS {
            assert_eq!(number(call.name), call.number as usize);
            assert_eq!(by_number(call.number as usize).unwrap().name, call.name);
        }
        assert!(by_number(259 + 1000).is_none());
        assert_eq!(number("getppid"), 173);
        assert_eq!(number("fchmodat2"), 452);
    }

    #[test]
    fn bytes_are_followed_by_their_number() {
        for call in CALLS {
            for (at, kind) in call.arguments.iter().enumerate() {
                let next = call.arguments.get(at + 1);
                assert!(
                    *kind != Kind::Bytes || next == Some(&Kind::Uint),
                    "{}",
                    call.name
                );
            }
        }
    }

    #[test]
    #[should_panic]
    fn unknown_names_are_refused() {
        number("getpidd");
    }
}
