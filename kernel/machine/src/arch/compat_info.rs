//! `siginfo_t` as 32-bit programs lay it out (`struct compat_siginfo`).

use linux_raw_sys::general::*;

/// Where the union of what the kinds of signals carry begins, in bytes: with words of 64 bits, and
/// of 32.
const DATA: usize = 16;
const COMPAT_DATA: usize = 12;

/// Where in the union the words of a signal's kind are with words of 64 bits, one after the other
/// as they are with those of 32: numbers and user numbers lie side by side in both, `long`s and
/// addresses are 8 bytes in one of them. The signal and its code come before the union.
fn words(info: &[u8; 128]) -> &'static [usize] {
    match (word(info, 0), word(info, 8) as i32) {
        (_, code) if code <= 0 || code == SI_KERNEL as i32 => &[0, 4, 8],
        (SIGILL | SIGFPE | SIGSEGV | SIGBUS | SIGTRAP, _) => &[0, 8],
        (SIGCHLD, _) => &[0, 4, 8, 16, 24],
        (SIGPOLL, _) => &[0, 8],
        (SIGSYS, _) => &[0, 8, 12],
        _ => &[0, 4, 8],
    }
}

fn word(info: &[u8; 128], at: usize) -> u32 {
    u32::from_ne_bytes(core::array::from_fn(|byte| info[at + byte]))
}

/// Converts a `siginfo_t` to one of a 32-bit program.
pub fn compat_info(info: &[u8; 128]) -> [u8; 128] {
    let mut compat = [0; 128];
    compat[..COMPAT_DATA].copy_from_slice(&info[..COMPAT_DATA]);
    for (index, at) in words(info).iter().enumerate() {
        let to = COMPAT_DATA + 4 * index;
        compat[to..to + 4].copy_from_slice(&word(info, DATA + at).to_ne_bytes());
    }
    compat
}

/// Converts a `siginfo_t` of a 32-bit program.
pub fn native_info(compat: &[u8; 128]) -> [u8; 128] {
    let mut info = [0; 128];
    info[..COMPAT_DATA].copy_from_slice(&compat[..COMPAT_DATA]);
    for (index, at) in words(compat).iter().enumerate() {
        let from = COMPAT_DATA + 4 * index;
        info[DATA + at..][..4].copy_from_slice(&compat[from..from + 4]);
    }
    info
}
