//! `siginfo_t` as 32-bit programs lay it out (`struct compat_siginfo`).

use linux_raw_sys::general::*;

/// Where the union of what the kinds of signals carry begins, in bytes: with words of 64 bits, and
/// of 32.
const DATA: usize = 16;
const COMPAT_DATA: usize = 12;

/// Converts a `siginfo_t`.
pub fn compat_info(info: &[u8; 128]) -> [u8; 128] {
    let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|byte| info[at + byte]));
    let (signo, code) = (word(0), word(8) as i32);
    // Where the words of the union come from: numbers and user numbers lie side by side in both,
    // `long`s and addresses are 8 bytes in one of them.
    let from: &[usize] = match (signo, code as u32) {
        _ if code <= 0 || code == SI_KERNEL as i32 => &[0, 4, 8],
        (SIGILL | SIGFPE | SIGSEGV | SIGBUS | SIGTRAP, _) => &[0, 8],
        (SIGCHLD, _) => &[0, 4, 8, 16, 24],
        (SIGPOLL, _) => &[0, 8],
        (SIGSYS, _) => &[0, 8, 12],
        _ => &[0, 4, 8],
    };
    let mut compat = [0; 128];
    compat[..COMPAT_DATA].copy_from_slice(&info[..COMPAT_DATA]);
    for (index, at) in from.iter().enumerate() {
        let to = COMPAT_DATA + 4 * index;
        compat[to..to + 4].copy_from_slice(&word(DATA + at).to_ne_bytes());
    }
    compat
}
