//! Signals: sending, masks, actions and delivery.

mod action;
mod altstack;
mod deliver;
mod info;
mod mask;
mod pending;
mod send;
mod stop;

pub use crate::arch::{compat_info, native_info};
pub use action::{Action, Actions, Default, SIG_DFL, SIG_IGN, default_of};
pub use altstack::Altstack;
pub use deliver::{begin_again, deliver, take, take_back, with_mask};
pub use info::Info;
pub use mask::{
    STOPS, Set, UNBLOCKABLE, await_signals, is_ignored_or_blocked, set_blocked, set_blocked_of,
};
pub use pending::{Pending, Slot};
pub use send::{
    Turn, force, force_info, force_sigsegv, is_discarded, may_send, notify, raise,
    report_tag_fault, send, send_cpu_timer, send_group, send_group_where, send_info,
    send_posix_cpu_timer, send_process, send_thread, send_timer, send_to_parent,
};
pub use stop::{Report, Stop};

use core::sync::atomic::AtomicU64;

use crate::arch::cell::ThreadLocal;
use crate::sync::Mutex;

/// The highest signal.
pub const LAST: u32 = 64;

/// The signal state of a thread.
pub struct ThreadSignals {
    /// Signals for this thread only.
    pub(super) pending: Mutex<Pending>,
    /// Blocked signals. Only the thread itself changes them.
    pub(super) blocked: AtomicU64,
    /// Signals that are blocked except during a call that waits for them: they stay pending even if
    /// they have no effect.
    pub(super) awaited: AtomicU64,
    /// The part that only the thread itself accesses.
    pub own: ThreadLocal<Own>,
}

/// See [`ThreadSignals::own`].
#[derive(Clone, Copy)]
pub struct Own {
    /// The mask to restore after a call that changed it for its duration was interrupted.
    pub saved_mask: Option<u64>,
    /// The alternate stack.
    pub altstack: Altstack,
}

impl ThreadSignals {
    /// The state of a new thread.
    #[inline(always)]
    pub fn new(blocked: u64, altstack: Altstack) -> Self {
        ThreadSignals {
            pending: Mutex::new(Pending::new()),
            blocked: AtomicU64::new(blocked),
            awaited: AtomicU64::new(0),
            own: ThreadLocal::new(Own {
                saved_mask: None,
                altstack,
            }),
        }
    }
}
