//! execve(2) and execveat(2).

extern crate alloc;

use alloc::vec::Vec;

use linux_raw_sys::general::*;

use super::layout::Layout;
use super::path::{base, check_flags};
use crate::errno::{Errno, Result};
use crate::fs;
use crate::mm::heap::try_format;
use crate::mm::{PAGE_SIZE, page_up, user};
use crate::task::exec::{Request, exec};
use crate::task::initial_stack::Strings;
use crate::task::{current, ptrace, rlimit};

/// The minimum limit for arguments and environment together, in bytes (Linux's ARG_MAX).
const LEAST_ROOM: usize = 128 << 10;
/// The maximum limit, in bytes.
const MOST_ROOM: usize = 6 << 20;

/// The word above the strings on the stack.
const WORD: usize = size_of::<usize>();

/// execve(2)
pub fn execve<L: Layout>(path: usize, arguments: usize, environment: usize) -> Result<usize> {
    execveat::<L>(AT_FDCWD, path, arguments, environment, 0)
}

/// execveat(2)
pub fn execveat<L: Layout>(
    directory: i32,
    path: usize,
    arguments: usize,
    environment: usize,
    flags: u32,
) -> Result<usize> {
    let path = user::read_cstr(path, PATH_MAX as usize)?;
    if path.is_empty() && flags & AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    check_flags(flags, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)?;
    current().check_over_limit()?;
    let request = request::<L>(directory, path, arguments, environment, flags)?;
    let before = current().tid();
    let frame = exec(request)?;
    current().arch.with_frame(|own| *own = frame);
    ptrace::executed(before);
    Ok(0)
}

fn read<L: Layout>(array: usize, limit: usize) -> Result<Strings> {
    Strings::read(array, limit, L::WORD, |at| {
        L::words(at).map(|[word]: [usize; 1]| word)
    })
}

fn request<L: Layout>(
    directory: i32,
    path: Vec<u8>,
    arguments: usize,
    environment: usize,
    flags: u32,
) -> Result<Request> {
    let (file, shown) = if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        (
            fs::reopen_program(&*super::path::file(directory)?)?,
            try_format(format_args!("/dev/fd/{directory}"))?.into_bytes(),
        )
    } else {
        let from = base(directory, &path)?;
        let file = fs::open_program(
            &current().fs(),
            from.as_ref(),
            &path,
            flags & AT_SYMLINK_NOFOLLOW == 0,
        )?;
        let relative = from.is_some() && directory != AT_FDCWD;
        let shown = if relative {
            let mut shown = try_format(format_args!("/dev/fd/{directory}/"))?.into_bytes();
            shown.try_reserve(path.len()).map_err(|_| Errno::ENOMEM)?;
            shown.extend_from_slice(&path);
            shown
        } else {
            path
        };
        (file, shown)
    };
    let room = (rlimit(RLIMIT_STACK) / 4).clamp(LEAST_ROOM, MOST_ROOM);
    let mut arguments = read::<L>(arguments, room)?;
    let environment = read::<L>(environment, room.saturating_sub(arguments.size()))?;
    if arguments.count() == 0 {
        // Programs rely on having a name.
        arguments.push(b"")?;
    }
    // Linux writes the strings to the new stack at once, which grows for that up to its limit.
    let strings = shown.len() + 1 + arguments.bytes() + environment.bytes();
    let stack = rlimit(RLIMIT_STACK).max(PAGE_SIZE);
    if arguments.size() + environment.size() > room || page_up(strings + WORD) > stack {
        return Err(Errno::E2BIG);
    }
    Ok(Request {
        file,
        path: shown,
        arguments,
        environment,
    })
}
