//! The names of the machine and its kernel.

extern crate alloc;

use crate::errno::{Errno, Result};
use crate::sync::Mutex;

macro_rules! release {
    () => {
        "6.12.0-stile"
    };
}

macro_rules! version {
    () => {
        concat!("#1 SMP Stile ", env!("CARGO_PKG_VERSION"))
    };
}

/// The size of a name, with its zero.
pub const FIELD: usize = 65;
/// The name of the kernel.
pub const SYSTEM: &str = "Linux";
/// Its release: programs find the interface of this version of Linux.
pub const RELEASE: &str = release!();
/// The release under UNAME26: 60 plus the second number becomes the third.
pub const RELEASE_26: &str = "2.6.72-stile";
/// Its version, which identifies the build.
pub const VERSION: &str = version!();
/// All of these with the compiler, as in `/proc/version`. The image contains it as one string, as
/// Linux's does, so that tools find it there.
pub const BANNER: &str = concat!(
    "Linux version ",
    release!(),
    " (stile) (",
    env!("STILE_COMPILER"),
    ") ",
    version!(),
    "\n"
);

/// Names of the machine and of its domain.
static NAMES: Mutex<[[u8; FIELD]; 2]> = Mutex::new([field("stile"), field("(none)")]);

/// A name padded with zeroes.
pub const fn field(text: &str) -> [u8; FIELD] {
    let (mut field, text, mut at) = ([0; FIELD], text.as_bytes(), 0);
    while at < text.len() {
        field[at] = text[at];
        at += 1;
    }
    field
}

/// The names of the machine and of its domain.
pub fn names() -> [[u8; FIELD]; 2] {
    *NAMES.lock()
}

/// A name without its padding.
pub fn without_zeroes(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or(&[])
}

/// A name padded with zeroes.
///
/// # Errors
/// EINVAL: it is too long.
fn padded(name: &[u8]) -> Result<[u8; FIELD]> {
    let mut field = [0; FIELD];
    let len = name.len();
    if len >= FIELD {
        return Err(Errno::EINVAL);
    }
    field[..len].copy_from_slice(name);
    Ok(field)
}

/// Writes into a name (of [`names`]).
pub fn write_name(which: usize, text: &[u8], at: u64) {
    write_line(&mut NAMES.lock()[which], text, at);
}

/// Writes into a zero-terminated field, at an offset that is not beyond its end, up to the end of a
/// line; text that does not fit is left out (Linux's `proc_dostring`).
pub fn write_line(field: &mut [u8], text: &[u8], at: u64) {
    let len = without_zeroes(field).len();
    let place = usize::try_from(at).ok().filter(|&at| at <= len);
    let (Some(place), false) = (place, text.is_empty()) else {
        return;
    };
    let line = without_zeroes(text).split(|&byte| byte == b'\n');
    let line = line.into_iter().next().unwrap_or(&[]);
    let line = &line[..line.len().min(field.len() - 1 - place)];
    field[place..].fill(0);
    field[place..][..line.len()].copy_from_slice(line);
}

/// Sets the machine's name.
///
/// # Errors
/// EINVAL: it is too long.
pub fn set_host_name(name: &[u8]) -> Result<()> {
    NAMES.lock()[0] = padded(name)?;
    Ok(())
}

/// Sets the domain's name.
///
/// # Errors
/// EINVAL: it is too long.
pub fn set_domain(name: &[u8]) -> Result<()> {
    NAMES.lock()[1] = padded(name)?;
    Ok(())
}
