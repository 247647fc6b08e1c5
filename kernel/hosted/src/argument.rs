//! Arguments of system calls, and memory for those that are pointers.

use std::cell::Cell;

use machine::arch::program;

use crate::image::MEMORY;

thread_local! {
    /// The address of the program's next argument. Each thread of the kernel is a host thread.
    static NEXT: Cell<usize> = const { Cell::new(MEMORY.start) };
}

/// Reserves `len` bytes of the program's memory. They are valid until later calls have used up the
/// rest and they are reused.
///
/// # Panics
/// If the memory is smaller than that.
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
/// If the program has unmapped that memory.
pub fn put(bytes: &[u8]) -> usize {
    let at = reserve(bytes.len().max(1));
    program::write(at, bytes).expect("memory of the program");
    at
}

/// A value that can be an argument of a system call.
pub trait Argument {
    /// The value as it is passed in the register.
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

/// A string, terminated by a zero.
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
