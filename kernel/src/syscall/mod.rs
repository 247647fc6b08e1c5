//! System calls: one handler each, which takes typed arguments and returns a number or an error.

mod acct;
mod adjtimex;
mod aio;
mod capability;
mod compat;
mod dir;
mod epoll;
mod exec;
mod fd;
mod file;
mod file_control;
mod file_handle;
mod flock;
mod futex;
mod identity;
mod inotify;
mod ipc;
mod ipc_layout;
mod itimer;
mod kcmp;
mod keyctl;
mod layout;
mod limits;
mod madvise;
mod memory;
mod mlock;
mod mmap;
mod mount;
mod mq;
mod mremap;
mod path;
mod pidfd;
mod pipe;
mod poll;
pub(crate) mod prctl;
mod priority;
mod process;
mod ptrace;
mod rseq;
mod sched;
mod seccomp;
mod sendmsg;
mod signal;
mod signalfd;
mod socket;
mod splice;
mod stat;
pub mod syslog;
mod system;
mod table;
mod time;
mod timerfd;
mod trace;
mod wait;
mod watch;
mod xattr;

pub use table::{HANDLERS, TABLE};
pub use watch::WATCHED;

use crate::errno::Result;

/// A value that is passed in a register.
pub trait Register {
    /// The value of the argument in `register`.
    fn from_register(register: usize) -> Self;
}

macro_rules! registers {
    ($($kind:ty),*) => {
        $(impl Register for $kind {
            #[inline(always)]
            fn from_register(register: usize) -> Self {
                register as $kind
            }
        })*
    };
}

registers!(usize, isize, u64, i64, u32, i32);

/// A function that handles a system call with arguments `A`.
pub trait Handler<A> {
    /// Calls the function with the six argument registers.
    fn handle(self, registers: [usize; 6]) -> Result<usize>;
}

macro_rules! handlers {
    ($($kind:ident $at:literal),*) => {
        impl<Function: Fn($($kind),*) -> Result<usize>, $($kind: Register),*> Handler<($($kind,)*)> for Function {
            #[inline(always)]
            fn handle(self, _registers: [usize; 6]) -> Result<usize> {
                self($($kind::from_register(_registers[$at])),*)
            }
        }
    };
}

handlers!();
handlers!(A 0);
handlers!(A 0, B 1);
handlers!(A 0, B 1, C 2);
handlers!(A 0, B 1, C 2, D 3);
handlers!(A 0, B 1, C 2, D 3, E 4);
handlers!(A 0, B 1, C 2, D 3, E 4, F 5);

/// Calls a handler; returns the result in the form that the program gets.
#[inline(always)]
fn invoke<A, H: Handler<A>>(handler: H, registers: [usize; 6]) -> isize {
    match handler.handle(registers) {
        Ok(value) => value as isize,
        Err(error) => error.result(),
    }
}
