//! System calls on futexes.

use linux_raw_sys::general::*;

use super::layout::Layout;
use super::path::check_flags;
use super::time::{deadline_on, read_time};
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::clock::{self, Deadline};
use crate::task::futex::{self, ANY, Wanted};
use crate::task::ptrace_access::{self, By};
use crate::task::thread::Restart;
use crate::task::{current, pid_table};

const _: () = assert!(
    abi::options::FUTEX.is_handled_by(&[
        FUTEX_WAIT as u64,
        FUTEX_WAKE as u64,
        FUTEX_REQUEUE as u64,
        FUTEX_CMP_REQUEUE as u64,
        FUTEX_WAKE_OP as u64,
        FUTEX_LOCK_PI as u64,
        FUTEX_UNLOCK_PI as u64,
        FUTEX_TRYLOCK_PI as u64,
        FUTEX_WAIT_BITSET as u64,
        FUTEX_WAKE_BITSET as u64,
        FUTEX_WAIT_REQUEUE_PI as u64,
        FUTEX_CMP_REQUEUE_PI as u64,
        FUTEX_LOCK_PI2 as u64,
    ]),
    "abi and futex disagree"
);

/// futex(2)
pub fn futex<L: Layout>(
    address: usize,
    operation: u32,
    value: u32,
    timeout: usize,
    second: usize,
    third: u32,
) -> Result<usize> {
    let shared = operation & FUTEX_PRIVATE_FLAG == 0;
    let realtime = operation & FUTEX_CLOCK_REALTIME != 0;
    // For operations without a timeout, this argument is a number.
    let (count, more) = (value as usize, timeout as u32 as usize);
    // The old calls wake one waiter before they check the count.
    let at_least_one = |count: usize| (count as i32).max(1) as usize;
    let command = operation & FUTEX_CMD_MASK as u32;
    let timed = [FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2];
    if realtime && !timed.contains(&command) {
        return Err(Errno::ENOSYS);
    }
    match command {
        FUTEX_WAIT => {
            let deadline = read_time::<L>(timeout)?.map(clock::deadline_in);
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
            let deadline = read_time::<L>(timeout)?.map(|ns| deadline_on(realtime, ns));
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
        FUTEX_WAKE => futex::wake(address, at_least_one(count), ANY, shared),
        FUTEX_WAKE_BITSET if third == 0 => Err(Errno::EINVAL),
        FUTEX_WAKE_BITSET => futex::wake(address, at_least_one(count), third, shared),
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
        FUTEX_WAKE_OP => futex::wake_op(
            (address, shared),
            (second, shared),
            at_least_one(count),
            at_least_one(more),
            third,
        ),
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => {
            let realtime = realtime || command == FUTEX_LOCK_PI;
            let deadline = read_time::<L>(timeout)?.map(|ns| deadline_on(realtime, ns));
            futex::lock(address, shared, deadline, true).map(|()| 0)
        }
        FUTEX_TRYLOCK_PI => futex::lock(address, shared, None, false).map(|()| 0),
        FUTEX_UNLOCK_PI => futex::unlock(address, shared).map(|()| 0),
        FUTEX_WAIT_REQUEUE_PI => {
            let deadline = read_time::<L>(timeout)?.map(|ns| deadline_on(realtime, ns));
            futex::wait_then_lock((address, value), second, shared, deadline).map(|()| 0)
        }
        FUTEX_CMP_REQUEUE_PI => {
            check_counts(value, timeout)?;
            if value != 1 {
                return Err(Errno::EINVAL);
            }
            futex::requeue_to_lock((address, third), second, shared, more)
        }
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

/// A wait with a relative timeout, which continues for the remaining time after a signal.
fn wait(word: Wanted, deadline: Option<u64>) -> Result<usize> {
    let result = futex::wait(&[word], deadline.map(Deadline::Ticks)).map(|_| 0);
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

/// Restarts a wait that a signal interrupted.
pub fn restart_wait(word: Wanted, deadline: u64) -> Result<usize> {
    wait(word, Some(deadline))
}

/// futex_waitv(2)
pub fn futex_waitv<L: Layout>(
    waiters: usize,
    count: u32,
    flags: u32,
    timeout: usize,
    clock: u32,
) -> Result<usize> {
    check_flags(flags, 0)?;
    if count == 0 || count > FUTEX_WAITV_MAX || waiters == 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = read_deadline::<L>(timeout, clock)?;
    let given = UserPtr::<[u64; 3]>::new(waiters).read_vec(count as usize)?;
    let mut words = alloc::vec::Vec::new();
    words
        .try_reserve_exact(given.len())
        .map_err(|_| Errno::ENOMEM)?;
    for word in given {
        words.push(read_word(word)?);
    }
    futex::wait(&words, deadline)
}

/// futex_wake(2)
pub fn futex_wake(address: usize, mask: usize, most: i32, flags: u32) -> Result<usize> {
    let shared = check_word(flags)?;
    let bits = check_mask(mask)?;
    futex::wake(address, most.max(0) as usize, bits, shared)
}

/// futex_wait(2)
pub fn futex_wait<L: Layout>(
    address: usize,
    value: usize,
    mask: usize,
    flags: u32,
    timeout: usize,
    clock: u32,
) -> Result<usize> {
    let shared = check_word(flags)?;
    let [value, bits] = [value, mask].map(u32::try_from);
    let (Ok(value), Ok(bits)) = (value, bits) else {
        return Err(Errno::EINVAL);
    };
    let deadline = read_deadline::<L>(timeout, clock)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let word = Wanted {
        address,
        value,
        bits,
        shared,
    };
    futex::wait(&[word], deadline)
}

/// futex_requeue(2)
pub fn futex_requeue(waiters: usize, flags: u32, wakes: i32, moves: i32) -> Result<usize> {
    check_flags(flags, 0)?;
    if waiters == 0 {
        return Err(Errno::EINVAL);
    }
    let words = UserPtr::<[[u64; 3]; 2]>::new(waiters).read()?;
    let [from, to] = [read_word(words[0])?, read_word(words[1])?];
    if wakes < 0 || moves < 0 || from.shared != to.shared {
        return Err(Errno::EINVAL);
    }
    let (woken, moved) = futex::requeue(
        (from.address, from.shared),
        (to.address, to.shared),
        wakes as usize,
        moves as usize,
        Some(from.value),
    )?;
    Ok(woken + moved)
}

/// Whether other processes share a word, by its flags (FUTEX2_*); only 32-bit words are supported.
fn check_word(flags: u32) -> Result<bool> {
    if flags & !FUTEX_PRIVATE_FLAG == FUTEX_32 {
        Ok(flags & FUTEX_PRIVATE_FLAG == 0)
    } else {
        Err(Errno::EINVAL)
    }
}

fn check_mask(mask: usize) -> Result<u32> {
    match u32::try_from(mask) {
        Ok(bits) if bits != 0 => Ok(bits),
        _ => Err(Errno::EINVAL),
    }
}

/// A `struct futex_waitv`: value, address, flags and a reserved word.
fn read_word([value, address, rest]: [u64; 3]) -> Result<Wanted> {
    let (flags, reserved) = (rest as u32, rest >> 32);
    if reserved != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Wanted {
        address: address as usize,
        value: u32::try_from(value).map_err(|_| Errno::EINVAL)?,
        bits: ANY,
        shared: check_word(flags)?,
    })
}

fn read_deadline<L: Layout>(timeout: usize, clock: u32) -> Result<Option<Deadline>> {
    let realtime = match clock {
        CLOCK_REALTIME => true,
        CLOCK_MONOTONIC => false,
        _ if timeout == 0 => false,
        _ => return Err(Errno::EINVAL),
    };
    Ok(read_time::<L>(timeout)?.map(|ns| deadline_on(realtime, ns)))
}

/// FUTEX2_SIZE_U32
const FUTEX_32: u32 = 2;

const _: () = assert!(
    abi::options::FUTEX_FLAGS.mask() == !FUTEX_CMD_MASK as u32 as u64
        && abi::options::FUTEX2.is_handled_by(&[FUTEX_32 as u64, FUTEX_PRIVATE_FLAG as u64]),
    "abi and futex disagree"
);

/// set_robust_list(2)
pub fn set_robust_list<L: Layout>(head: usize, size: usize) -> Result<usize> {
    if size != ROBUST_WORDS * L::WORD {
        return Err(Errno::EINVAL);
    }
    current().set_robust_list(head);
    Ok(0)
}

/// Words of a `struct robust_list_head`.
const ROBUST_WORDS: usize = 3;

/// get_robust_list(2)
pub fn get_robust_list<L: Layout>(tid: i32, head: usize, size: usize) -> Result<usize> {
    let list = if tid == 0 {
        current().robust_list()
    } else {
        let thread = pid_table::thread(tid).ok_or(Errno::ESRCH)?;
        ptrace_access::look(&thread, By::Real, |thread| Ok(thread.robust_list()))?
    };
    L::put_words(size, &[ROBUST_WORDS * L::WORD])?;
    L::put_words(head, &[list])?;
    Ok(0)
}
