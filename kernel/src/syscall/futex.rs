//! System calls on futexes.

use linux_raw_sys::general::*;

use super::path::check_flags;
use super::time::{deadline_on, read_time};
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::futex::{self, ANY, Wanted};
use crate::task::thread::Restart;
use crate::task::{clock, current, tree};

/// futex(2)
pub fn futex(
    address: usize,
    operation: u32,
    value: u32,
    timeout: usize,
    second: usize,
    third: u32,
) -> Result<usize> {
    let shared = operation & FUTEX_PRIVATE_FLAG == 0;
    let realtime = operation & FUTEX_CLOCK_REALTIME != 0;
    // For operations without a timeout the argument is a number.
    let (count, more) = (value as usize, timeout as u32 as usize);
    match operation & FUTEX_CMD_MASK as u32 {
        FUTEX_WAIT => {
            let deadline = read_time(timeout)?.map(clock::deadline_in);
            wait(
                Wanted {
                    address,
                    value,
                    bits: ANY,
                    shared,
                },
                deadline,
            )
        }
        FUTEX_WAIT_BITSET => {
            if third == 0 {
                return Err(Errno::EINVAL);
            }
            let deadline = read_time(timeout)?.map(|ns| deadline_on(realtime, ns));
            let result = futex::wait(
                &[Wanted {
                    address,
                    value,
                    bits: third,
                    shared,
                }],
                deadline,
            );
            result.map(|_| 0)
        }
        FUTEX_WAKE => futex::wake(address, count, ANY, shared),
        FUTEX_WAKE_BITSET if third == 0 => Err(Errno::EINVAL),
        FUTEX_WAKE_BITSET => futex::wake(address, count, third, shared),
        FUTEX_REQUEUE => {
            check_counts(value, timeout)?;
            let (woken, moved) =
                futex::requeue((address, shared), (second, shared), count, more, None)?;
            Ok(woken + moved)
        }
        FUTEX_CMP_REQUEUE => {
            check_counts(value, timeout)?;
            let (woken, moved) = futex::requeue(
                (address, shared),
                (second, shared),
                count,
                more,
                Some(third),
            )?;
            Ok(woken + moved)
        }
        FUTEX_WAKE_OP => futex::wake_op((address, shared), (second, shared), count, more, third),
        _ => Err(Errno::ENOSYS),
    }
}

fn check_counts(wakes: u32, moves: usize) -> Result<()> {
    if (wakes as i32) < 0 || (moves as i32) < 0 {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}

/// A wait for a span of time, which goes on after a signal with what is left of it.
fn wait(word: Wanted, deadline: Option<u64>) -> Result<usize> {
    let result = futex::wait(&[word], deadline).map(|_| 0);
    match (result, deadline) {
        (Err(Errno::ERESTARTSYS), Some(deadline)) => {
            let Wanted {
                address,
                value,
                bits,
                shared,
            } = word;
            let restart = Restart::Futex {
                address,
                value,
                bits,
                shared,
                deadline,
            };
            current().own.with(|own| own.restart = restart);
            Err(Errno::ERESTART_RESTARTBLOCK)
        }
        (result, _) => result,
    }
}

/// Goes on with a wait that a signal interrupted.
pub fn go_on(word: Wanted, deadline: u64) -> Result<usize> {
    wait(word, Some(deadline))
}

/// futex_waitv(2)
pub fn futex_waitv(
    waiters: usize,
    count: u32,
    flags: u32,
    timeout: usize,
    clock: u32,
) -> Result<usize> {
    check_flags(flags, 0)?;
    if count == 0 || count > FUTEX_WAITV_MAX {
        return Err(Errno::EINVAL);
    }
    let realtime = match clock {
        CLOCK_REALTIME => true,
        CLOCK_MONOTONIC => false,
        _ if timeout == 0 => false,
        _ => return Err(Errno::EINVAL),
    };
    let deadline = read_time(timeout)?.map(|ns| deadline_on(realtime, ns));
    // Value, address, flags and a reserved word.
    let given = UserPtr::<[u64; 3]>::new(waiters).read_vec(count as usize)?;
    let mut words = alloc::vec::Vec::new();
    words
        .try_reserve_exact(given.len())
        .map_err(|_| Errno::ENOMEM)?;
    for [value, address, rest] in given {
        let (flags, reserved) = (rest as u32, rest >> 32);
        let size = flags & 3;
        if reserved != 0 || size != FUTEX_32 || flags & !(FUTEX_32 | FUTEX_PRIVATE_FLAG) != 0 {
            return Err(Errno::EINVAL);
        }
        let shared = flags & FUTEX_PRIVATE_FLAG == 0;
        words.push(Wanted {
            address: address as usize,
            value: value as u32,
            bits: ANY,
            shared,
        });
    }
    futex::wait(&words, deadline)
}

/// FUTEX2_SIZE_U32
const FUTEX_32: u32 = 2;

/// set_robust_list(2)
pub fn set_robust_list(head: usize, size: usize) -> Result<usize> {
    if size != ROBUST_HEAD {
        return Err(Errno::EINVAL);
    }
    current().own.with(|own| own.robust_list = head);
    Ok(0)
}

/// Bytes of a `struct robust_list_head`.
const ROBUST_HEAD: usize = 24;

/// get_robust_list(2), of the calling thread.
pub fn get_robust_list(tid: i32, head: usize, size: usize) -> Result<usize> {
    if tid != 0 && tid != current().tid() {
        tree::thread(tid).ok_or(Errno::ESRCH)?;
        return Err(Errno::EPERM);
    }
    let own = current().own.with(|own| own.robust_list);
    UserPtr::new(size).write(&ROBUST_HEAD)?;
    UserPtr::new(head).write(&own)?;
    Ok(0)
}
