//! Arguments of system calls, and memory for those that are pointers.

use std::cell::Cell;

use machine::arch::program;

use crate::image::MEMORY;

thread_local! {
    /// Where the program's next argument goes. A thread of the kernel is one of the host's.
    static NEXT: Cell<usize> = const { Cell::new(MEMORY.start) };
}

/// Room for `len` bytes in the program's memory, until so many others were asked for that it is
/// used again.
///
/// # Panics
/// If there is not so much at all.
pub fn reserve(len: usize) -> usize {
    let size = len.next_multiple_of(64);
    assert!(size <= MEMORY.len(), "more than a program has");
    NEXT.with(|next| {
        if next.get() + size > MEMORY.end {
            next.set(MEMORY.start);
        }
        next.replace(next.get() + size)
    })
}

/// Copies bytes to the program's memory; returns where they are.
///
/// # Panics
/// If the program gave that memory away.
pub fn put(bytes: &[u8]) -> usize {
    let at = reserve(bytes.len().max(1));
    program::write(at, bytes).expect("memory of the program");
    at
}

/// A value that can be an argument of a system call.
pub trait Argument {
    /// The value in the register.
    fn register(self) -> usize;
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl Argument for $kind {
            fn register(self) -> usize {
                self as usize
            }
        })*
    };
}

numbers!(usize, isize, u64, i64, u32, i32);

/// A string, with a zero at its end.
impl Argument for &str {
    fn register(self) -> usize {
        put(&[self.as_bytes(), &[0]].concat())
    }
}

/// Bytes.
impl Argument for &[u8] {
    fn register(self) -> usize {
        put(self)
    }
}
