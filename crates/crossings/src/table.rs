//! The counters of one CPU.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use zerocopy::FromZeros;

use crate::Kind;

/// The number of counters for system calls. All of Linux's generic numbers
/// (`include/uapi/asm-generic/unistd.h`) lie in the lower half; the upper half is for 32-bit
/// programs. It is a power of two, so that a mask bounds the number.
pub const SYSCALLS: usize = 1024;

/// Byte offset of the counter of system call 0 in a [`Table`]; the others follow, 8 bytes each.
pub const SYSCALLS_OFFSET: usize = offset_of!(Table, syscalls);

/// Byte offset of the counter of the first [`Kind`] in a [`Table`]; the others follow, 8 bytes
/// each.
pub const KINDS_OFFSET: usize = offset_of!(Table, kinds);

/// Byte offset of the counter of `kind` in a [`Table`], for assembly.
pub const fn kind_offset(kind: Kind) -> usize {
    KINDS_OFFSET + kind as usize * size_of::<AtomicU64>()
}

/// The counters of one CPU for one counting group.
///
/// All zeroes is a valid empty table. A table is aligned to 128 bytes, the longest cache line of
/// the CPUs that Stile runs on, so that tables of two CPUs share no line. One CPU writes, any CPU
/// reads: a single counter is never torn, but two counters may be read at different moments.
#[repr(C, align(128))]
#[derive(FromZeros)]
pub struct Table {
    syscalls: [AtomicU64; SYSCALLS],
    kinds: [AtomicU64; Kind::COUNT],
}

impl Table {
    /// An empty table.
    pub const fn new() -> Self {
        Table {
            syscalls: [const { AtomicU64::new(0) }; SYSCALLS],
            kinds: [const { AtomicU64::new(0) }; Kind::COUNT],
        }
    }

    /// Counts one crossing. Only the CPU that owns the table may call this.
    #[inline(always)]
    pub fn add(&self, kind: Kind) {
        self.add_n(kind, 1);
    }

    /// Counts `n` crossings at once. Only the CPU that owns the table may call this.
    #[inline(always)]
    pub fn add_n(&self, kind: Kind, n: u64) {
        bump(&self.kinds[kind as usize], n);
    }

    /// Counts one system call by the low 10 bits of its number. Only the CPU that owns the table
    /// may call this.
    #[inline(always)]
    pub fn syscall(&self, number: usize) {
        bump(&self.syscalls[number % SYSCALLS], 1);
    }

    /// The count of one kind so far.
    pub fn get(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize].load(Relaxed)
    }

    /// The count of one system call so far, by the low 10 bits of its number.
    pub fn get_syscall(&self, number: usize) -> u64 {
        self.syscalls[number % SYSCALLS].load(Relaxed)
    }
}

impl Default for Table {
    fn default() -> Self {
        Table::new()
    }
}

/// Not `fetch_add`: there is one writer, and an exclusive or atomic access would cost more than the
/// crossing that it counts.
#[inline(always)]
fn bump(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}
