//! Access to program memory: always through accessors that can fault, never by reference.
//!
//! A fault may sleep, for memory or for a fork of the same program, so no spin lock is held around
//! an access unless its name says that it does not sleep.

extern crate alloc;

use alloc::vec::Vec;
use core::ffi::CStr;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::PAGE_SIZE;
use super::frame::FrameRef;
use crate::arch::{access_end, uaccess};
use crate::errno::{Errno, Result};
use crate::sync::might_sleep;

/// Whether a range lies in the addresses available to programs, mapped or not: Linux's `access_ok`,
/// which is checked before any waiting or consuming.
#[inline(always)]
pub fn access_ok(address: usize, len: usize) -> bool {
    let end = access_end();
    len <= end && address <= end - len || uaccess::takes_tagged(address, len, end)
}

/// Copies to the program; returns the number of bytes before the first that could not be written.
#[inline]
pub fn copy_to(address: usize, source: &[u8]) -> usize {
    might_sleep();
    // SAFETY: `source` is readable for its length.
    unsafe { uaccess::copy_out(address, source.as_ptr(), source.len()) }
}

/// Copies from the program; returns the number of bytes before the first that could not be read.
#[inline]
pub fn copy_from(address: usize, target: &mut [u8]) -> usize {
    might_sleep();
    // SAFETY: `target` is exclusive, and writable for its length.
    unsafe { uaccess::copy_in(target.as_mut_ptr(), address, target.len()) }
}

/// Writes zeroes to the program; returns the number of bytes before the first that could not be
/// written.
#[inline]
pub fn clear(address: usize, len: usize) -> usize {
    might_sleep();
    uaccess::clear(address, len)
}

/// Faults in memory of the program that is about to be written, and leaves what it contains: writes
/// a word in each page if it is what was read. Returns the number of bytes before the first that
/// could not be written.
pub fn fault_in_writable(address: usize, len: usize) -> usize {
    let mut done = 0;
    while done < len {
        let at = address.wrapping_add(done);
        if rewrite_word(at & !3).is_err() {
            break;
        }
        done = len.min(done + PAGE_SIZE - at % PAGE_SIZE);
    }
    done
}

fn rewrite_word(address: usize) -> Result<()> {
    // Another thread may change the word.
    for _ in 0..1000 {
        let word = load_u32(address)?;
        if cmpxchg_u32(address, word, word)? == word {
            return Ok(());
        }
    }
    Err(Errno::EFAULT)
}

impl FrameRef {
    /// Copies `len` bytes at `offset` to the program at `address`; returns the number copied.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn copy_to_user(&self, offset: usize, address: usize, len: usize) -> usize {
        might_sleep();
        let source = self.range(offset, len);
        // SAFETY: the range lies in the frame that the handle keeps.
        unsafe { uaccess::copy_out(address, source, len) }
    }

    /// Copies `len` bytes of the program at `address` to `offset`; returns the number copied.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn copy_from_user(&self, offset: usize, address: usize, len: usize) -> usize {
        might_sleep();
        self.written();
        let target = self.range(offset, len);
        // SAFETY: the range lies in the frame that the handle keeps, and which holds bytes and no
        // Rust object.
        unsafe { uaccess::copy_in(target, address, len) }
    }

    /// As [`Self::copy_to_user`], without resolving faults: it does not sleep.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn copy_to_user_present(&self, offset: usize, address: usize, len: usize) -> usize {
        let source = self.range(offset, len);
        // SAFETY: as in `copy_to_user`.
        unsafe { uaccess::copy_out_present(address, source, len) }
    }

    /// As [`Self::copy_from_user`], without resolving faults: it does not sleep.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn copy_from_user_present(&self, offset: usize, address: usize, len: usize) -> usize {
        self.written();
        let target = self.range(offset, len);
        // SAFETY: as in `copy_from_user`.
        unsafe { uaccess::copy_in_present(target, address, len) }
    }
}

/// The address of a `T` in program memory.
pub struct UserPtr<T> {
    address: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for UserPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for UserPtr<T> {}

impl<T> UserPtr<T> {
    /// Creates a pointer from a system call's argument.
    pub const fn new(address: usize) -> Self {
        UserPtr {
            address,
            kind: PhantomData,
        }
    }

    /// Whether it is null, which often means "none".
    pub const fn is_null(self) -> bool {
        self.address == 0
    }

    /// The address of the `count`th element from here.
    pub const fn add(self, count: usize) -> Self {
        Self::new(
            self.address
                .wrapping_add(count.wrapping_mul(size_of::<T>())),
        )
    }
}

impl<T: FromBytes> UserPtr<T> {
    /// Reads the value.
    ///
    /// # Errors
    /// EFAULT.
    #[inline]
    pub fn read(self) -> Result<T> {
        let mut value = MaybeUninit::uninit();
        self.read_to(&mut value)?;
        // SAFETY: `read_to` has written it.
        Ok(unsafe { value.assume_init() })
    }

    /// Reads the value to `place`, for types that are too large to be moved.
    ///
    /// # Errors
    /// EFAULT.
    #[inline]
    pub fn read_to(self, place: &mut MaybeUninit<T>) -> Result<&mut T> {
        might_sleep();
        let size = size_of::<T>();
        // SAFETY: `place` has room for it.
        match unsafe { uaccess::copy_in(place.as_mut_ptr().cast(), self.address, size) } {
            // SAFETY: every byte was written, and any bytes are a `T`.
            copied if copied == size => Ok(unsafe { place.assume_init_mut() }),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Reads the value unless the address is null.
    ///
    /// # Errors
    /// EFAULT.
    pub fn read_opt(self) -> Result<Option<T>> {
        if self.is_null() {
            Ok(None)
        } else {
            self.read().map(Some)
        }
    }

    /// Reads `count` elements.
    ///
    /// # Errors
    /// EFAULT, ENOMEM.
    pub fn read_vec(self, count: usize) -> Result<Vec<T>>
    where
        T: IntoBytes,
    {
        let mut values = Vec::new();
        values.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        values.extend((0..count).map(|_| T::new_zeroed()));
        UserSlice::new(self.address, count * size_of::<T>())
            .copy_in(values.as_mut_slice().as_mut_bytes())?;
        Ok(values)
    }
}

impl<T: IntoBytes + Immutable> UserPtr<T> {
    /// Writes the value.
    ///
    /// # Errors
    /// EFAULT.
    pub fn write(self, value: &T) -> Result<()> {
        UserSlice::new(self.address, size_of::<T>()).copy_out(value.as_bytes())
    }

    /// Writes the value unless the address is null.
    ///
    /// # Errors
    /// EFAULT.
    pub fn write_opt(self, value: &T) -> Result<()> {
        if self.is_null() {
            Ok(())
        } else {
            self.write(value)
        }
    }
}

/// A range of bytes in program memory.
#[derive(Clone, Copy, Debug)]
pub struct UserSlice {
    address: usize,
    len: usize,
}

impl UserSlice {
    /// Creates a slice from a system call's arguments.
    pub const fn new(address: usize, len: usize) -> Self {
        UserSlice { address, len }
    }

    /// Number of bytes.
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The slice without its first `count` bytes.
    pub fn skip(self, count: usize) -> Self {
        let count = count.min(self.len);
        UserSlice {
            address: self.address.wrapping_add(count),
            len: self.len - count,
        }
    }

    /// Reads as many bytes as both slices have.
    ///
    /// # Errors
    /// EFAULT unless all could be read.
    pub fn copy_in(self, target: &mut [u8]) -> Result<()> {
        let len = target.len().min(self.len);
        whole(len, self.copy_in_part(target))
    }

    /// Writes as many bytes as both slices have.
    ///
    /// # Errors
    /// EFAULT unless all could be written.
    pub fn copy_out(self, source: &[u8]) -> Result<()> {
        let len = source.len().min(self.len);
        whole(len, self.copy_out_part(source))
    }

    /// Writes zeroes.
    ///
    /// # Errors
    /// EFAULT unless all could be written.
    #[allow(
        dead_code,
        reason = "not every architecture's signal frame has a part without content"
    )]
    pub fn clear(self) -> Result<()> {
        whole(self.len, clear(self.address, self.len))
    }

    /// Reads as many bytes as both slices have; returns the number read before a fault.
    pub fn copy_in_part(self, target: &mut [u8]) -> usize {
        let len = target.len().min(self.len);
        copy_from(self.address, &mut target[..len])
    }

    /// Writes as many bytes as both slices have; returns the number written before a fault.
    pub fn copy_out_part(self, source: &[u8]) -> usize {
        copy_to(self.address, &source[..source.len().min(self.len)])
    }
}

fn whole(wanted: usize, done: usize) -> Result<()> {
    if done == wanted {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Reads a NUL-terminated string of at most `max` bytes including the NUL; returns it without the
/// NUL.
///
/// # Errors
/// EFAULT, ENAMETOOLONG, ENOMEM.
pub fn read_cstr(address: usize, max: usize) -> Result<Vec<u8>> {
    let mut string = Vec::new();
    read_cstr_into(address, max, &mut string)?;
    Ok(string)
}

/// As [`read_cstr`], into a buffer, whose content is replaced.
///
/// # Errors
/// Those of [`read_cstr`].
pub fn read_cstr_into(address: usize, max: usize, string: &mut Vec<u8>) -> Result<()> {
    string.clear();
    while string.len() < max {
        let at = address.wrapping_add(string.len());
        let old = string.len();
        // At most as much as was read so far, so that little is read unnecessarily.
        let part = (PAGE_SIZE - at % PAGE_SIZE)
            .min(max - old)
            .min(CHUNK.max(old));
        string.try_reserve(part).map_err(|_| Errno::ENOMEM)?;
        string.resize(old + part, 0);
        let done = copy_from(at, &mut string[old..]);
        if let Ok(end) = CStr::from_bytes_until_nul(&string[old..old + done]) {
            let len = old + end.count_bytes();
            string.truncate(len);
            return Ok(());
        }
        whole(part, done)?;
    }
    Err(Errno::ENAMETOOLONG)
}

/// Number of bytes of a string that are read first.
const CHUNK: usize = 64;

/// Reads a word in a single access. `address` is a multiple of 4.
///
/// # Errors
/// EFAULT.
pub fn load_u32(address: usize) -> Result<u32> {
    might_sleep();
    uaccess::load_u32(address).map_err(|_| Errno::EFAULT)
}

/// Reads a word in a single access, if its page is present: neither sleeps nor takes a lock.
/// `address` is a multiple of 4.
pub fn load_present_u32(address: usize) -> Option<u32> {
    uaccess::load_present_u32(address).ok()
}

/// Writes a word in a single access. `address` is a multiple of 4.
///
/// # Errors
/// EFAULT.
pub fn store_u32(address: usize, value: u32) -> Result<()> {
    might_sleep();
    uaccess::store_u32(address, value).map_err(|_| Errno::EFAULT)
}

/// Writes `new` if the word is `old`, atomically; returns the previous value. `address` is a
/// multiple of 4.
///
/// # Errors
/// EFAULT.
pub fn cmpxchg_u32(address: usize, old: u32, new: u32) -> Result<u32> {
    might_sleep();
    uaccess::cmpxchg_u32(address, old, new).map_err(|_| Errno::EFAULT)
}

/// As [`cmpxchg_u32`], if the page is present and writable: neither sleeps nor takes a lock.
/// `address` is a multiple of 4.
pub fn cmpxchg_present_u32(address: usize, old: u32, new: u32) -> Option<u32> {
    uaccess::cmpxchg_present_u32(address, old, new).ok()
}
