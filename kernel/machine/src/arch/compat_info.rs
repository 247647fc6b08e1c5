//! `siginfo_t` as 32-bit programs lay it out (`struct compat_siginfo`).

use linux_raw_sys::general::*;

/// Where the union of what the kinds of signals carry begins, in bytes: with words of 64 bits, and
/// of 32.
const DATA: usize = 16;
const COMPAT_DATA: usize = 12;

/// What a `siginfo_t` carries (Linux's `enum siginfo_layout`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InfoKind {
    /// A process and its user.
    Kill,
    /// A timer, how often it ran out beside, and a value.
    Timer,
    /// What a file is ready for, and the file.
    Poll,
    /// An address.
    Fault,
    /// A child, how it ended and the times that it took.
    Child,
    /// A process, its user and a value.
    Queued,
    /// A system call.
    Call,
}

/// What the `siginfo_t` of a signal with this code carries (Linux's `siginfo_layout`): signals have
/// so many codes of their own, and any other can report what a file is ready for.
pub fn info_kind(signal: u32, code: i32) -> InfoKind {
    const KERNEL: i32 = SI_KERNEL as i32;
    const READY: i32 = NSIGPOLL as i32;
    let (own, kind) = match signal {
        SIGILL => (NSIGILL, InfoKind::Fault),
        SIGFPE => (NSIGFPE, InfoKind::Fault),
        SIGSEGV => (NSIGSEGV, InfoKind::Fault),
        SIGBUS => (NSIGBUS, InfoKind::Fault),
        SIGTRAP => (NSIGTRAP, InfoKind::Fault),
        SIGCHLD => (NSIGCHLD, InfoKind::Child),
        SIGSYS => (NSIGSYS, InfoKind::Call),
        _ => (0, InfoKind::Kill),
    };
    match code {
        1..KERNEL if code <= own as i32 => kind,
        1..=READY | SI_SIGIO => InfoKind::Poll,
        SI_TIMER => InfoKind::Timer,
        code if code < 0 => InfoKind::Queued,
        _ => InfoKind::Kill,
    }
}

/// Where in the union the words of a signal's kind are with words of 64 bits, one after the other
/// as they are with those of 32: numbers and user numbers lie side by side in both, `long`s and
/// addresses are 8 bytes in one of them. The signal and its code come before the union.
fn words(info: &[u8; 128]) -> &'static [usize] {
    match info_kind(word(info, 0), word(info, 8) as i32) {
        InfoKind::Kill => &[0, 4],
        InfoKind::Timer | InfoKind::Queued => &[0, 4, 8],
        InfoKind::Poll | InfoKind::Fault => &[0, 8],
        InfoKind::Child => &[0, 4, 8, 16, 24],
        InfoKind::Call => &[0, 8, 12],
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
