//! The data of a signal: Linux's `siginfo_t`.

use linux_raw_sys::general::{
    POLL_IN, SI_KERNEL, SI_MESGQ, SI_SIGIO, SI_TKILL, SI_USER, SIGBUS, SIGFPE, SIGILL, SIGSEGV,
    SIGSYS, SIGTRAP, TRAP_HWBKPT,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arch::{Call, InfoKind, info_kind, uaccess};
use crate::task::current;

/// `siginfo_t` (include/uapi/asm-generic/siginfo.h).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Info {
    /// Signal number.
    pub signo: i32,
    /// Error number.
    pub errno: i32,
    /// The origin of the signal.
    pub code: i32,
    pad: i32,
    /// The union of the data of different signals.
    pub data: [u64; 14],
}

impl Info {
    /// An empty value, to be overwritten.
    pub const NONE: Info = Info {
        signo: 0,
        errno: 0,
        code: 0,
        pad: 0,
        data: [0; 14],
    };

    fn new(signo: u32, code: i32) -> Self {
        Info {
            signo: signo as i32,
            code,
            ..Info::NONE
        }
    }

    /// From the kernel.
    pub fn kernel(signo: u32) -> Self {
        Self::new(signo, SI_KERNEL as i32)
    }

    /// The information of a signal of which only the number is known: as on Linux, it has no
    /// sender.
    pub fn number_only(signo: u32) -> Self {
        Self::new(signo, SI_USER as i32)
    }

    /// A stop for a tracer, reported as `code`.
    pub fn trap(code: u32) -> Self {
        Self::from_current(SIGTRAP, code as i32)
    }

    /// From the current process by kill(2).
    pub fn user(signo: u32) -> Self {
        Self::from_current(signo, SI_USER as i32)
    }

    /// From the current process by tkill(2).
    pub fn thread(signo: u32) -> Self {
        Self::from_current(signo, SI_TKILL)
    }

    /// From a message queue (mq_notify(2)): a message arrived. The value is that of the request.
    pub fn queue(signo: u32, value: u64) -> Self {
        let mut info = Self::from_current(signo, SI_MESGQ);
        info.data[1] = value;
        info
    }

    /// An open file, descriptor `fd`, is ready as `code` and `band` say; only `band` if the signal
    /// has other codes of its own.
    pub fn ready(signo: u32, code: i32, band: u32, fd: i32) -> Self {
        let code = match info_kind(signo, POLL_IN as i32) {
            InfoKind::Poll => code,
            _ => SI_SIGIO,
        };
        let mut info = Self::new(signo, code);
        info.data[..2].copy_from_slice(&[band.into(), pair(fd, 0)]);
        info
    }

    #[inline]
    fn from_current(signo: u32, code: i32) -> Self {
        let mut info = Self::new(signo, code);
        let uid = current().with_credentials(|who| who.uid);
        info.data[0] = pair(current().process_id(), uid as i32);
        info
    }

    /// Removes the tag from the address of a fault, unless the handler asked for it
    /// (SA_EXPOSE_TAGBITS; Linux's `hide_si_addr_tag_bits`).
    #[inline]
    pub fn hide_tag(&mut self) {
        let faults = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV];
        let watched = (SIGTRAP, TRAP_HWBKPT as i32);
        let is_fault = self.code > 0 && self.code < SI_KERNEL as i32;
        if is_fault && faults.contains(&self.number()) && (self.number(), self.code) != watched {
            self.data[0] = uaccess::untagged(self.data[0] as usize) as u64;
        }
    }

    /// A fault at `address`.
    pub fn fault(signo: u32, code: u32, address: usize) -> Self {
        let mut info = Self::new(signo, code as i32);
        info.data[0] = address as u64;
        info
    }

    /// A filter refused a system call, with `errno`.
    pub fn call(call: &Call, errno: u32) -> Self {
        const SYS_SECCOMP: i32 = 1;
        let mut info = Self::new(SIGSYS, SYS_SECCOMP);
        info.errno = errno as i32;
        let architecture = call.architecture as i32;
        info.data[..2].copy_from_slice(&[call.pc as u64, pair(call.number, architecture)]);
        info
    }

    /// A child changed its state. Times are in clock ticks (USER_HZ).
    pub fn child(
        signo: u32,
        code: u32,
        pid: i32,
        uid: u32,
        status: i32,
        times: (u64, u64),
    ) -> Self {
        let mut info = Self::new(signo, code as i32);
        info.data[..4].copy_from_slice(&[
            pair(pid, uid as i32),
            status as u32 as u64,
            times.0,
            times.1,
        ]);
        info
    }

    /// A timer expired: its id, and the value that it was created with.
    pub fn timer(signo: u32, code: i32, id: i32, value: u64) -> Self {
        let mut info = Self::new(signo, code);
        info.data[..2].copy_from_slice(&[pair(id, 0), value]);
        info
    }

    /// Sets the overrun count of the timer.
    pub fn set_overrun(&mut self, overrun: i32) {
        self.data[0] = pair(self.data[0] as i32, overrun);
    }

    /// The overrun count of the timer.
    pub fn overrun(&self) -> i32 {
        (self.data[0] >> 32) as i32
    }

    /// The timer's id.
    pub fn timer_id(&self) -> i32 {
        self.data[0] as i32
    }

    /// The signal's number.
    pub fn number(&self) -> u32 {
        self.signo as u32
    }
}

/// Two words as they are in memory on a little-endian machine.
fn pair(low: i32, high: i32) -> u64 {
    low as u32 as u64 | (high as u32 as u64) << 32
}
