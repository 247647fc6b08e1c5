//! The table of system calls.
//!
//! The kernel's dispatch table, the lines of a trace and `docs/abi.md` are derived from it. arm64
//! and RISC-V use the same numbers (include/uapi/asm-generic/unistd.h); 32-bit Arm programs have
//! their own, in [`compat`].
#![no_std]
#![forbid(unsafe_code)]

pub mod compat;
mod document;
mod errno;
pub mod kvm_capability;
pub mod kvm_number;
pub mod options;
pub mod sysctl;
mod table;

pub use document::document;
pub use errno::errno_name;
pub use table::CALLS;

/// The kind of an argument, by which a trace formats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A signed number.
    Int,
    /// An unsigned number: a size, a count.
    Uint,
    /// Bits, or any other value that reads best in hexadecimal.
    Hex,
    /// Permissions.
    Octal,
    /// An address.
    Pointer,
    /// A string that ends with a zero byte.
    Path,
    /// Bytes that the call reads; the next argument is their number.
    Bytes,
    /// A descriptor, or AT_FDCWD.
    Fd,
    /// A signal.
    Signal,
}

/// How much of a call or a choice is supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All that programs can see.
    Whole,
    /// Not all; the text names the missing parts.
    Partial(&'static str),
    /// Nothing: a call returns ENOSYS.
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
    /// How much of it is supported.
    pub status: Status,
}

/// The call with this number; from [`compat::FIRST`] on, those of 32-bit Arm programs.
pub fn by_number(number: usize) -> Option<&'static Call> {
    let (calls, number) = match number.checked_sub(compat::FIRST) {
        None => (CALLS, number),
        Some(number) => (compat::CALLS, number),
    };
    let at = calls
        .binary_search_by_key(&number, |call| call.number as usize)
        .ok()?;
    Some(&calls[at])
}

/// The number of the call with this name.
///
/// # Panics
/// If there is none; at compile time where the kernel's table is made.
pub const fn number(name: &str) -> usize {
    number_in(CALLS, name)
}

/// The number of the call with this name among `calls`.
///
/// # Panics
/// If there is none.
pub const fn number_in(calls: &[Call], name: &str) -> usize {
    let mut at = 0;
    while at < calls.len() {
        if same(calls[at].name.as_bytes(), name.as_bytes()) {
            return calls[at].number as usize;
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
        for calls in [CALLS, compat::CALLS] {
            assert!(calls.is_sorted_by_key(|call| call.number));
            for (at, call) in calls.iter().enumerate() {
                assert!(
                    calls[..at]
                        .iter()
                        .all(|other| other.number != call.number && other.name != call.name),
                    "{}",
                    call.name
                );
                assert!(call.arguments.len() <= 6, "{}", call.name);
                assert!((call.number as usize) < 512, "{}", call.name);
            }
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
        let compat = |name| compat::FIRST + number_in(compat::CALLS, name);
        for name in ["mmap2", "futex_time64", "set_tls"] {
            assert_eq!(by_number(compat(name)).unwrap().name, name);
        }
        assert_eq!(compat("mmap2"), 512 + 192);
        assert_eq!(compat("set_tls") - 512 - compat::PRIVATE, 5);
    }

    #[test]
    fn bytes_are_followed_by_their_number() {
        for call in CALLS.iter().chain(compat::CALLS) {
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
