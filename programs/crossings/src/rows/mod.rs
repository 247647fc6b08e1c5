//! The rows: the timed operations.

mod calls;
mod files;
mod memory;
mod processes;
mod signals;
mod threads;

use crate::meter::{Meter, Outcome};

/// The argument with which the program exits at once; the row `vfork_exec` executes it.
pub const EXIT: &str = "exit";

/// The result of a row's function.
type Measured = Result<(), Outcome>;

/// A row: one kind of crossing.
pub struct Row {
    /// A short name.
    pub name: &'static str,
    /// The work between the two reads of the counter.
    pub window: &'static str,
    /// Measures the row.
    pub run: fn(&mut Meter) -> Measured,
}

const fn row(name: &'static str, run: fn(&mut Meter) -> Measured, window: &'static str) -> Row {
    Row { name, window, run }
}

/// All rows, in order.
pub const ROWS: &[Row] = &[
    row(
        "null_call",
        calls::null,
        "getppid, the loop's 4 instructions included",
    ),
    row(
        "id_read",
        calls::id_read,
        "MRS of ID_AA64ISAR0_EL1 by EL0, the loop's 3 instructions included",
    ),
    row(
        "anon_write",
        memory::write,
        "first write to a page of anonymous memory, zeroing inside, tables there",
    ),
    row(
        "anon_read",
        memory::read,
        "first read of a page of anonymous memory (zero page), tables there",
    ),
    row(
        "zero_to_private",
        memory::zero_to_private,
        "first write to a page that was only read, zeroing inside",
    ),
    row(
        "table_growth",
        memory::table_growth,
        "first write in 2 MiB without a last-level table: page and table zeroed inside",
    ),
    row(
        "large_region",
        memory::large,
        "first write to each of the 512 pages of an aligned 2 MiB with MADV_HUGEPAGE",
    ),
    row(
        "munmap_page",
        memory::unmap,
        "munmap of 1000 written pages in one call, by page",
    ),
    row(
        "mprotect_page",
        memory::protect,
        "mprotect of 1000 written pages to read-only in one call, by page",
    ),
    row(
        "mmap_munmap",
        memory::map_unmap,
        "mmap and munmap of one anonymous page, untouched",
    ),
    row(
        "mmap_touch_munmap",
        memory::map_touch_unmap,
        "mmap of one anonymous page, first write, munmap",
    ),
    row(
        "file_read",
        files::shared_read,
        "first read of a page of a shared tmpfs mapping, 1008 pages in order, by page",
    ),
    row(
        "file_written_read",
        files::written_read,
        "the same, of a file that was written 16 pages a call, which may be contiguous",
    ),
    row(
        "file_write",
        files::shared_write,
        "first write to a page of a shared tmpfs mapping, page in the file, tables there",
    ),
    row(
        "file_write_after_read",
        files::write_after_read,
        "first write to a page of a shared tmpfs mapping that was read",
    ),
    row(
        "file_private_write",
        files::private_write,
        "first write to a page of a private tmpfs mapping: copy, tables there",
    ),
    row(
        "file_private_write_after_read",
        files::private_write_after_read,
        "first write to a page of a private tmpfs mapping that was read: copy",
    ),
    row(
        "fork_exit_wait",
        processes::fork,
        "fork of this small static program, exit of the child, wait",
    ),
    row(
        "vfork_exit_wait",
        processes::vfork,
        "vfork, exit of the child, wait",
    ),
    row(
        "vfork_exec_wait",
        processes::vfork_exec,
        "vfork, execve of this small static program, its exit, wait",
    ),
    row(
        "pipe_round_trip",
        processes::pipe,
        "one byte to another process and back over two pipes, same CPU",
    ),
    row(
        "futex_round_trip",
        threads::futex,
        "wake another thread and wait for its wake, same CPU",
    ),
    row(
        "thread_create_join",
        threads::create,
        "clone of a thread on a stack already there, its exit, futex wait for it",
    ),
    row("signal_install", signals::install, "rt_sigaction"),
    row(
        "signal_catch",
        signals::catch,
        "tgkill of this thread, empty handler, return to where it was",
    ),
];
