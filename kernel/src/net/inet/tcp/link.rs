//! A TCP connection as one of its ends sees it, and its timers: one sends bytes that were held
//! back, another drops a peer that does not read.

use super::Tcp;
use super::outside::Remote;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::net::channel::Channel;
use crate::net::inet::connections::{End, Tuple};
use crate::net::sending::Stalled;
use crate::sync::Mutex;
use crate::task::clock;
use crate::task::timer::{Expire, Timer};
use crate::task::work_queue::{self, Work};
use alloc::sync::{Arc, Weak};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The minimum time for which bytes are held back, in nanoseconds.
const PAUSE: u64 = clock::SECOND / 250;

/// The connection, as one of its ends sees it.
pub(super) struct Link {
    pub(super) end: Arc<End>,
    pub(super) incoming: Arc<Channel>,
    pub(super) outgoing: Arc<Channel>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Whether this end no longer reads.
    pub(super) deaf: AtomicBool,
    /// Whether the program knows that the socket is connected.
    pub(super) reported: AtomicBool,
    /// Whether something was sent to an end that is closed.
    pub(super) broken: AtomicBool,
    /// The size of a segment (TCP_MAXSEG).
    pub(super) segment: i32,
    /// The other end, which the listener accepts once it has something to read (TCP_DEFER_ACCEPT).
    pub(super) deferred: Mutex<Option<Deferred>>,
    /// The timer that sends the bytes that are held back.
    held: Mutex<Option<Timer>>,
    /// The timer that ends the connection unless something is read (TCP_USER_TIMEOUT).
    stalled: Mutex<Option<Timer>>,
    /// The ticks after which `stalled` ends the connection; 0 for never.
    patience: AtomicU64,
    /// The other end, if it is on another machine.
    pub(super) remote: Option<Arc<Remote>>,
}

pub(super) struct Deferred {
    pub(super) server: Weak<Tcp>,
    pub(super) accepted: Arc<Tcp>,
    /// The timer of the wait for data.
    pub(super) _until: Timer,
}

/// A timed action on an end of a connection, or on a pending connection.
pub(super) struct Later<T> {
    target: Weak<T>,
    act: fn(&Arc<T>),
    work: work_queue::Link,
}

impl<T: Send + Sync + 'static> Later<T> {
    /// Calls `act` with the target at `deadline` (absolute, in ticks), unless the timer is dropped
    /// before.
    pub(super) fn call(deadline: u64, target: &Arc<T>, act: fn(&Arc<T>)) -> Result<Timer> {
        let later = try_arc(Later {
            target: Arc::downgrade(target),
            act,
            work: work_queue::Link::default(),
        })?;
        Timer::call(deadline, later)
    }
}

impl<T: Send + Sync + 'static> Expire for Later<T> {
    /// This may close a socket, which can sleep.
    fn expire(self: Arc<Self>) {
        work_queue::queue(self);
    }
}

impl<T: Send + Sync + 'static> Work for Later<T> {
    fn link(&self) -> &work_queue::Link {
        &self.work
    }

    fn run(self: Arc<Self>) {
        if let Some(target) = self.target.upgrade() {
            (self.act)(&target);
        }
    }
}

impl Link {
    /// The connection as `end` sees it, which reads `incoming` and writes `outgoing`.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn new(
        end: &Arc<End>,
        incoming: &Arc<Channel>,
        outgoing: &Arc<Channel>,
        segment: i32,
        remote: Option<Arc<Remote>>,
    ) -> Result<Arc<Self>> {
        let Tuple { local, peer } = end.tuple();
        try_arc(Link {
            end: end.clone(),
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            local,
            peer,
            deaf: AtomicBool::new(false),
            reported: AtomicBool::new(true),
            broken: AtomicBool::new(false),
            segment,
            deferred: Mutex::new(None),
            held: Mutex::new(None),
            stalled: Mutex::new(None),
            patience: AtomicU64::new(0),
            remote,
        })
    }

    pub(super) fn reads_no_more(&self) -> bool {
        self.incoming.is_ended() || self.deaf.load(Acquire)
    }

    /// The other end has something to read, or has waited for long: makes its listener accept it,
    /// if that was deferred. Returns whether there is a connection.
    pub(super) fn arrive(&self) -> bool {
        let deferred = self.deferred.lock().take();
        let Some(Deferred {
            server,
            accepted,
            _until,
        }) = deferred
        else {
            return true;
        };
        let server = server.upgrade();
        let backlog = server.as_ref().and_then(|server| server.listener.get());
        let taken =
            backlog.is_some_and(|backlog| backlog.push(accepted.clone(), true, || ()).is_ok());
        if !taken {
            accepted.disconnect(true);
        }
        taken
    }

    /// Received bytes make the other end send the bytes that it holds back, unless it is corked.
    pub(super) fn stir(&self) -> Result<()> {
        if let Some(remote) = &self.remote {
            return remote.stir();
        }
        let waits = &self.incoming.sending;
        if waits.unsent() > 0 && !waits.is_corked() {
            self.incoming.push()?;
        }
        Ok(())
    }

    /// Arms a timer that sends held-back bytes; without memory for the timer, sends them at once.
    #[cold]
    pub(super) fn send_later(self: &Arc<Self>) {
        if self.held.lock().is_some() {
            return;
        }
        let Some(until) = self.outgoing.unsent_until() else {
            return;
        };
        // Another thread may hold the lock of the bytes for a while.
        let until = until.max(clock::deadline_in(PAUSE));
        match Later::call(until, self, Link::send_held) {
            Ok(timer) => {
                let old = self.held.lock().replace(timer);
                drop(old);
            }
            Err(_) => _ = self.outgoing.push(),
        }
    }

    /// Sends held-back bytes that have waited for long enough.
    pub(super) fn send_held(self: &Arc<Self>) {
        let done = self.held.lock().take();
        drop(done);
        let until = self.outgoing.unsent_until();
        let is_due = until.is_some_and(|until| until <= time::now_ticks());
        if !(is_due && self.outgoing.try_push()) {
            return self.send_later();
        }
        if let Some(remote) = &self.remote {
            remote.stir_later();
        }
    }

    /// Ends the connection if the other end reads nothing for `patience` ticks, although a writer
    /// lacks room.
    #[cold]
    fn watch(self: &Arc<Self>, patience: u64) {
        if self.stalled.lock().is_some() {
            return;
        }
        let Some(until) = self.outgoing.stalled_until(patience) else {
            return;
        };
        // Without memory for the timer the connection waits, as it does without the option.
        if let Ok(timer) = Later::call(until, self, Link::time_out) {
            let old = self.stalled.lock().replace(timer);
            drop(old);
        }
    }

    /// Sets how many ticks the other end is waited for; 0 for ever.
    pub(super) fn set_patience(self: &Arc<Self>, patience: u64) {
        // A connection with another machine does this itself.
        if self.remote.is_some() {
            return;
        }
        self.patience.store(patience, SeqCst);
        let old = self.stalled.lock().take();
        drop(old);
        if patience > 0 {
            // Writers check for the watcher once they hold the lock under which `watch` then
            // checks.
            let link: Weak<Link> = Arc::downgrade(self);
            self.outgoing.sending.watch_by(link);
            self.watch(patience);
        }
    }

    fn time_out(self: &Arc<Self>) {
        let done = self.stalled.lock().take();
        drop(done);
        let patience = self.patience.load(SeqCst);
        if patience == 0 {
            return;
        }
        // A woken writer checks for the error.
        let end = || self.incoming.end_by(Errno::ETIMEDOUT);
        if self.outgoing.give_up(patience, end) {
            self.outgoing.writable().notify();
            self.incoming.notify();
        } else {
            self.watch(patience);
        }
    }

    pub(super) fn writes_no_more(&self) -> bool {
        let reset = self.incoming.is_reset() || self.broken.load(Acquire);
        self.outgoing.is_finished() || reset
    }
}

impl Stalled for Link {
    fn stalled(self: Arc<Self>) {
        let patience = self.patience.load(SeqCst);
        if patience > 0 {
            self.watch(patience);
        }
    }
}
