//! The layout in a program's memory of the arguments and results of system calls: with 64-bit
//! words, or with 32-bit words.

use alloc::vec::Vec;

use zerocopy::IntoBytes;

use super::time::Pair;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::fs::io::IoVec;
use crate::mm::user::UserPtr;
use crate::task::signal::{Action, Info, compat_info, native_info};

/// A layout of structures.
pub trait Layout {
    /// The size of a word: of an address, a size, a `long`.
    const WORD: usize;
    /// The size of a `struct timespec`.
    const TIME: usize;

    /// The smallest alternate signal stack, in bytes.
    const MIN_STACK: usize;

    /// The offset in a `siginfo_t` of the data that depends on the kind of signal, in bytes.
    const INFO_DATA: usize;

    /// A `siginfo_t`.
    fn info_bytes(info: &Info) -> [u8; size_of::<Info>()];

    /// Writes a `siginfo_t`.
    ///
    /// # Errors
    /// EFAULT.
    fn put_info(address: usize, info: &Info) -> Result<()> {
        UserPtr::new(address).write(&Self::info_bytes(info))
    }

    /// Reads a `siginfo_t`.
    ///
    /// # Errors
    /// EFAULT.
    fn info(address: usize) -> Result<Info>;

    /// Reads the first part of a `struct sigevent`: the value, the signal with the kind above it,
    /// the thread.
    ///
    /// # Errors
    /// EFAULT.
    fn event(address: usize) -> Result<[u64; 3]>;

    /// Reads a `struct sigaction`.
    ///
    /// # Errors
    /// EFAULT.
    fn action(address: usize) -> Result<Action>;

    /// Writes a `struct sigaction`.
    ///
    /// # Errors
    /// EFAULT.
    fn put_action(address: usize, action: &Action) -> Result<()>;

    /// Reads consecutive words.
    ///
    /// # Errors
    /// EFAULT.
    fn words<const N: usize>(address: usize) -> Result<[usize; N]>;

    /// A word as a `long`.
    fn long(word: usize) -> i64 {
        let unused = 64 - 8 * Self::WORD;
        (word as i64) << unused >> unused
    }

    /// Reads consecutive `long`s.
    ///
    /// # Errors
    /// EFAULT.
    fn longs<const N: usize>(address: usize) -> Result<[i64; N]> {
        Ok(Self::words(address)?.map(Self::long))
    }

    /// Writes consecutive words, each cut to the size of a word.
    ///
    /// # Errors
    /// EFAULT.
    fn put_words<const N: usize>(address: usize, words: &[usize; N]) -> Result<()>;

    /// Reads a `struct timespec` or, if its fields are words, a `struct timeval`.
    ///
    /// # Errors
    /// EFAULT.
    fn time(address: usize) -> Result<Pair>;

    /// Writes a `struct timespec` or, if its fields are words, a `struct timeval`.
    ///
    /// # Errors
    /// EFAULT.
    fn put_time(address: usize, time: Pair) -> Result<()>;

    /// Reads `count` `struct iovec`s. A negative length is more than `isize::MAX`.
    ///
    /// # Errors
    /// EFAULT, ENOMEM.
    fn pieces(address: usize, count: usize) -> Result<Vec<IoVec>> {
        let mut pieces = Vec::new();
        pieces.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        for at in 0..count {
            let [base, len] = Self::words(address.wrapping_add(at * 2 * Self::WORD))?;
            let len = Self::long(len) as usize;
            pieces.push(IoVec { base, len });
        }
        Ok(pieces)
    }

    /// Reads consecutive times.
    ///
    /// # Errors
    /// EFAULT.
    fn times(address: usize) -> Result<[Pair; 2]> {
        Ok([Self::time(address)?, Self::time(address + Self::TIME)?])
    }

    /// Writes consecutive times.
    ///
    /// # Errors
    /// EFAULT.
    fn put_times(address: usize, times: &[Pair; 2]) -> Result<()> {
        Self::put_time(address, times[0])?;
        Self::put_time(address + Self::TIME, times[1])
    }
}

/// The words of `struct sigaction` before the mask: handler, flags, and the restorer if the
/// architecture has one.
const ACTION_WORDS: usize = 2 + arch::signal::HAS_RESTORER as usize;
/// The offset of the mask, of 8 bytes, after 32-bit words.
const COMPAT_MASK: usize = ACTION_WORDS * Compat::WORD;

fn action_of(words: &[usize], mask: u64) -> Action {
    Action {
        handler: words[0],
        flags: words[1],
        restorer: words.get(2).copied().unwrap_or(0),
        mask,
    }
}

fn words_of(action: &Action) -> [usize; 3] {
    [action.handler, action.flags, action.restorer]
}

/// The value read from `address`, or `None` if that is null.
///
/// # Errors
/// The errors of `read`.
pub fn given<T>(address: usize, read: impl FnOnce(usize) -> Result<T>) -> Result<Option<T>> {
    match address {
        0 => Ok(None),
        _ => read(address).map(Some),
    }
}

/// 64-bit words.
pub struct Native;

impl Layout for Native {
    const WORD: usize = 8;
    const TIME: usize = 16;
    const MIN_STACK: usize = arch::signal::MIN_STACK;
    const INFO_DATA: usize = 16;

    fn info_bytes(info: &Info) -> [u8; size_of::<Info>()] {
        zerocopy::transmute!(*info)
    }

    fn info(address: usize) -> Result<Info> {
        UserPtr::new(address).read()
    }

    fn event(address: usize) -> Result<[u64; 3]> {
        UserPtr::new(address).read()
    }

    fn action(address: usize) -> Result<Action> {
        let words: [usize; ACTION_WORDS + 1] = UserPtr::new(address).read()?;
        Ok(action_of(
            &words[..ACTION_WORDS],
            words[ACTION_WORDS] as u64,
        ))
    }

    fn put_action(address: usize, action: &Action) -> Result<()> {
        let mut words = [0; ACTION_WORDS + 1];
        words[..ACTION_WORDS].copy_from_slice(&words_of(action)[..ACTION_WORDS]);
        words[ACTION_WORDS] = action.mask as usize;
        UserPtr::new(address).write(&words)
    }

    fn words<const N: usize>(address: usize) -> Result<[usize; N]> {
        UserPtr::new(address).read()
    }

    fn put_words<const N: usize>(address: usize, words: &[usize; N]) -> Result<()> {
        UserPtr::new(address).write(words)
    }

    fn time(address: usize) -> Result<Pair> {
        UserPtr::new(address).read()
    }

    fn pieces(address: usize, count: usize) -> Result<Vec<IoVec>> {
        UserPtr::new(address).read_vec(count)
    }

    fn put_time(address: usize, time: Pair) -> Result<()> {
        UserPtr::new(address).write(&time)
    }
}

/// 32-bit words, and 32-bit seconds.
pub struct Compat;

impl Layout for Compat {
    const WORD: usize = 4;
    const TIME: usize = 8;
    const MIN_STACK: usize = 2048;
    const INFO_DATA: usize = 12;

    fn info_bytes(info: &Info) -> [u8; size_of::<Info>()] {
        compat_info(&Native::info_bytes(info))
    }

    fn info(address: usize) -> Result<Info> {
        let bytes = native_info(&UserPtr::new(address).read()?);
        Ok(zerocopy::transmute!(bytes))
    }

    fn event(address: usize) -> Result<[u64; 3]> {
        let [value, signal, kind, tid] = UserPtr::<[u32; 4]>::new(address).read()?.map(u64::from);
        Ok([value, kind << 32 | signal, tid])
    }

    fn action(address: usize) -> Result<Action> {
        let words = Self::words::<ACTION_WORDS>(address)?;
        let mask = UserPtr::new(address + COMPAT_MASK).read()?;
        Ok(action_of(&words, mask))
    }

    fn put_action(address: usize, action: &Action) -> Result<()> {
        let words = words_of(action);
        Self::put_words(
            address,
            words.first_chunk::<ACTION_WORDS>().expect("as many"),
        )?;
        UserPtr::new(address + COMPAT_MASK).write(&action.mask)
    }

    fn words<const N: usize>(address: usize) -> Result<[usize; N]> {
        let words: [u32; N] = UserPtr::new(address).read()?;
        Ok(words.map(|word| word as usize))
    }

    fn put_words<const N: usize>(address: usize, words: &[usize; N]) -> Result<()> {
        crate::mm::user::UserSlice::new(address, N * 4)
            .copy_out(words.map(|word| word as u32).as_bytes())
    }

    fn time(address: usize) -> Result<Pair> {
        let words: [i32; 2] = UserPtr::new(address).read()?;
        Ok(words.map(i64::from))
    }

    fn put_time(address: usize, time: Pair) -> Result<()> {
        UserPtr::new(address).write(&time.map(|part| part as i32))
    }
}

/// 32-bit words with 64-bit times, for calls whose names end in 64.
pub struct Compat64;

impl Layout for Compat64 {
    const WORD: usize = 4;
    const TIME: usize = 16;
    const MIN_STACK: usize = Compat::MIN_STACK;
    const INFO_DATA: usize = Compat::INFO_DATA;

    fn info_bytes(info: &Info) -> [u8; size_of::<Info>()] {
        Compat::info_bytes(info)
    }

    fn info(address: usize) -> Result<Info> {
        Compat::info(address)
    }

    fn event(address: usize) -> Result<[u64; 3]> {
        Compat::event(address)
    }

    fn action(address: usize) -> Result<Action> {
        Compat::action(address)
    }

    fn put_action(address: usize, action: &Action) -> Result<()> {
        Compat::put_action(address, action)
    }

    fn words<const N: usize>(address: usize) -> Result<[usize; N]> {
        Compat::words(address)
    }

    fn put_words<const N: usize>(address: usize, words: &[usize; N]) -> Result<()> {
        Compat::put_words(address, words)
    }

    fn time(address: usize) -> Result<Pair> {
        let [seconds, rest] = Native::time(address)?;
        // The padding next to a 32-bit `long` may hold anything.
        Ok([seconds, i64::from(rest as i32)])
    }

    fn put_time(address: usize, time: Pair) -> Result<()> {
        Native::put_time(address, time)
    }
}
