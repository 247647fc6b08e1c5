//! `siginfo_t` in the layout of 32-bit programs (`struct compat_siginfo`).

use linux_raw_sys::general::*;

/// Offset in bytes of the union of signal-specific fields: in the 64-bit layout, and in the 32-bit
/// layout.
const DATA: usize = 16;
const COMPAT_DATA: usize = 12;

/// The fields of a `siginfo_t` (Linux's `enum siginfo_layout`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InfoKind {
    /// A process and its user.
    Kill,
    /// A timer, its overrun count, and a value.
    Timer,
    /// The events of a file, and its descriptor.
    Poll,
    /// An address.
    Fault,
    /// A child, its status, and its CPU times.
    Child,
    /// A process, its user and a value.
    Queued,
    /// A system call.
    Call,
}

/// The fields of the `siginfo_t` of a signal with this code (Linux's `siginfo_layout`). Signals
/// have a number of codes of their own; codes in the range of SIGPOLL's are otherwise those of file
/// events.
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

/// The offsets in the union of the words of a signal in the 64-bit layout, in the order in which
/// they are contiguous in the 32-bit layout: process and user IDs are adjacent in both, while
/// `long`s and addresses have 8 bytes in the former. The signal and its code precede the union.
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

/// Converts a `siginfo_t` to that of a 32-bit program.
pub fn compat_info(info: &[u8; 128]) -> [u8; 128] {
    let mut compat = [0; 128];
    compat[..COMPAT_DATA].copy_from_slice(&info[..COMPAT_DATA]);
    for (index, at) in words(info).iter().enumerate() {
        let to = COMPAT_DATA + 4 * index;
        compat[to..to + 4].copy_from_slice(&word(info, DATA + at).to_ne_bytes());
    }
    compat
}

/// Converts the `siginfo_t` of a 32-bit program.
pub fn native_info(compat: &[u8; 128]) -> [u8; 128] {
    let mut info = [0; 128];
    info[..COMPAT_DATA].copy_from_slice(&compat[..COMPAT_DATA]);
    for (index, at) in words(compat).iter().enumerate() {
        let from = COMPAT_DATA + 4 * index;
        info[DATA + at..][..4].copy_from_slice(&compat[from..from + 4]);
    }
    info
}
