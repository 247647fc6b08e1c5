//! System V IPC and asynchronous I/O with 32-bit arguments.

use crate::errno::{Errno, Result};
use crate::syscall::layout::{Compat, Layout};
use crate::syscall::{aio, ipc};

/// The bit of commands with the newer structures (IPC_64), which libc always sets.
const NEWER: u32 = 0x100;

/// The commands of semctl(2), msgctl(2) and shmctl(2) with structures: IPC_SET, IPC_STAT, IPC_INFO
/// and specific ones.
const OF_SEMAPHORES: &[u32] = &[1, 2, 18, 20];
const OF_MESSAGES: &[u32] = &[1, 2, 11, 13];
const OF_SEGMENTS: &[u32] = &[1, 2, 3, 13, 15];

/// The command without `NEWER`; EINVAL without that bit for commands that require it.
fn command(command: u32, with_structures: &[u32]) -> Result<u32> {
    match command & NEWER {
        0 if with_structures.contains(&command) => Err(Errno::EINVAL),
        _ => Ok(command & !NEWER),
    }
}

pub fn semctl(number: i32, at: i32, wanted: u32, argument: usize) -> Result<usize> {
    ipc::semctl::<Compat>(number, at, command(wanted, OF_SEMAPHORES)?, argument)
}

pub fn msgctl(number: i32, wanted: u32, to: usize) -> Result<usize> {
    ipc::msgctl::<Compat>(number, command(wanted, OF_MESSAGES)?, to)
}

pub fn shmctl(number: i32, wanted: u32, to: usize) -> Result<usize> {
    ipc::shmctl::<Compat>(number, command(wanted, OF_SEGMENTS)?, to)
}

pub fn msgrcv(number: i32, to: usize, len: i32, kind: i32, flags: u32) -> Result<usize> {
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    ipc::msgrcv::<Compat>(number, to, len, kind.into(), flags)
}

pub fn io_submit(context: usize, count: i32, requests: usize) -> Result<usize> {
    aio::io_submit::<Compat>(context, count as isize, requests)
}

pub fn io_getevents<L: Layout>(
    context: usize,
    least: i32,
    most: i32,
    events: usize,
    timeout: usize,
) -> Result<usize> {
    aio::io_getevents::<L>(context, least as isize, most as isize, events, timeout)
}

pub fn io_pgetevents<L: Layout>(
    context: usize,
    least: i32,
    most: i32,
    events: usize,
    timeout: usize,
    mask: usize,
) -> Result<usize> {
    aio::io_pgetevents::<L>(
        context,
        least as isize,
        most as isize,
        events,
        timeout,
        mask,
    )
}
