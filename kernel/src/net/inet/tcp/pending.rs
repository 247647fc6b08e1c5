//! A pending connection: the listener's queue is full, so it does not answer. The connection is
//! established as soon as there is room, and given up after the time of as many retries of the SYN
//! as TCP_SYNCNT allows.

use super::connect::Connecting;
use super::link::Later;
use super::{SYN_COUNT, TCP, Tcp, USER_TIMEOUT};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::net::backlog::Backlog;
use crate::net::inet::connections::{End, Tuple};
use crate::sync::{Mutex, SleepMutex};
use crate::task::clock;
use crate::task::timer::Timer;
use crate::task::work_queue::{self, Work};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering::*;

/// The error of a socket whose pending connection was dissolved: ECONNRESET, which is not reported
/// for the next connection.
pub(super) const DISSOLVED: u32 = 1 << 16 | Errno::ECONNRESET.0 as u32;

/// A pending connection.
pub(super) struct Pending {
    socket: Weak<Tcp>,
    /// The four-tuple that it will have.
    pub(super) tuple: Tuple,
    /// Its end, until it is connected or has failed. The holder of the lock tries to connect it.
    end: SleepMutex<Option<Arc<End>>>,
    /// The queue that it waits for, and its number there.
    queue: Mutex<Option<(Arc<Backlog<Tcp>>, u64)>>,
    /// The start time, in ticks.
    since: u64,
    /// The timer that gives it up.
    timer: Mutex<Option<Timer>>,
}

/// The next try, made when the queue may have room.
struct Retry {
    pending: Weak<Pending>,
    queue: Arc<Backlog<Tcp>>,
    work: work_queue::Link,
}

impl Work for Retry {
    fn link(&self) -> &work_queue::Link {
        &self.work
    }

    fn run(self: Arc<Self>) {
        if let Some(pending) = self.pending.upgrade() {
            pending.retry();
        }
        // The room that this one did not need goes to the next.
        self.queue.admit();
    }
}

/// The seconds to wait for an answer if the SYN may be retransmitted `count` times: five times
/// after one second (`net.ipv4.tcp_syn_linear_timeouts`), then each time after twice as long, up to
/// two minutes. The times of one and two retries are Linux's, unless the program sets a `limit`.
fn seconds(count: u32, limit: bool) -> u64 {
    match count {
        1 if !limit => 3,
        2 if !limit => 7,
        count => 3 + (2 << count.min(6)) + 120 * u64::from(count.saturating_sub(6)),
    }
}

impl Pending {
    /// The connection of `socket` with `end` waits for room in `full`.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn begin(socket: &Arc<Tcp>, end: Arc<End>, full: Arc<Backlog<Tcp>>) -> Result<()> {
        let pending = try_arc(Pending {
            socket: Arc::downgrade(socket),
            tuple: end.tuple(),
            end: SleepMutex::new(Some(end)),
            queue: Mutex::new(None),
            since: time::now_ticks(),
            timer: Mutex::new(None),
        })?;
        pending.arm(socket)?;
        socket.place.bind_any_to(pending.tuple.local.ip());
        *socket.pending.lock() = Some(pending.clone());
        match pending.wait_for(full) {
            Ok(true) => {}
            Ok(false) => pending.retry(),
            Err(error) => {
                let gone = socket.pending.lock().take();
                drop(gone);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sets when it is given up, according to the options of its socket.
    pub(super) fn arm(self: &Arc<Self>, socket: &Tcp) -> Result<()> {
        let count = socket.options.value(TCP, SYN_COUNT) as u32;
        // As on Linux, the option takes effect when the SYN is first retransmitted.
        let limit = Some(socket.options.value(TCP, USER_TIMEOUT) as u64)
            .filter(|&limit| limit != 0)
            .map(|limit| limit.max(1000) * (clock::SECOND / 1000));
        let tries = seconds(count, limit.is_some()) * clock::SECOND;
        let patience = limit.map_or(tries, |limit| limit.min(tries));
        let until = self.since.saturating_add(time::ns_to_ticks(patience));
        let timer = Later::call(until, self, Pending::expire)?;
        let old = self.timer.lock().replace(timer);
        drop(old);
        Ok(())
    }

    /// Waits for room in `queue`; false if there may be room now.
    fn wait_for(self: &Arc<Self>, queue: Arc<Backlog<Tcp>>) -> Result<bool> {
        let retry = try_arc(Retry {
            pending: Arc::downgrade(self),
            queue: queue.clone(),
            work: work_queue::Link::default(),
        })?;
        let mut place = self.queue.lock();
        let Some(number) = queue.call_later(retry)? else {
            return Ok(false);
        };
        // Its previous number is that of the present work.
        let old = place.replace((queue, number));
        drop(place);
        drop(old);
        Ok(true)
    }

    /// Tries again, since there may be room.
    fn retry(self: &Arc<Self>) {
        let mut end = self.end.lock();
        let Some(socket) = self.socket.upgrade() else {
            return;
        };
        let joined = loop {
            let Some(own) = &*end else { return };
            match socket.join(own, false) {
                Ok(None) => break Ok(()),
                Ok(Some(full)) => match self.wait_for(full) {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(error) => break Err(error),
                },
                Err(error) => break Err(error),
            }
        };
        self.end_attempt(&socket, &mut end, joined);
    }

    fn expire(self: &Arc<Self>) {
        let mut end = self.end.lock();
        if let Some(socket) = self.socket.upgrade()
            && end.is_some()
        {
            self.end_attempt(&socket, &mut end, Err(Errno::ETIMEDOUT));
        }
    }

    /// Ends the attempt, after it succeeded or failed.
    fn end_attempt(&self, socket: &Tcp, end: &mut Option<Arc<End>>, joined: Result<()>) {
        // A waiter may start the same connection again.
        *end = None;
        self.leave();
        socket.joined(self.tuple.local.ip(), joined);
        if let Err(error) = joined {
            socket.error.store(error.0.into(), Release);
        }
        socket.end_pending();
    }

    /// Cancels the attempt. False if it has already succeeded or failed.
    fn cancel(&self) -> bool {
        let end = self.end.lock().take();
        self.leave();
        end.is_some()
    }

    fn leave(&self) {
        let place = self.queue.lock().take();
        if let Some((queue, number)) = place {
            queue.forget(number);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Tcp {
    /// Whether a connection is pending.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.lock().is_some() || self.opening.lock().is_some()
    }

    /// Cancels the pending connection; false if there is none.
    pub(super) fn cancel_pending(&self) -> bool {
        if self.give_up_opening(true) {
            self.place.disconnect(true);
            self.error.store(DISSOLVED, Release);
            self.base.writable.lack();
            drop(Connecting::pending(self));
            return true;
        }
        let pending = self.pending.lock().clone();
        let cancelled = pending.is_some_and(|pending| pending.cancel());
        if cancelled {
            self.place.disconnect(true);
            self.error.store(DISSOLVED, Release);
            self.end_pending();
        }
        cancelled
    }

    fn end_pending(&self) {
        let gone = self.pending.lock().take();
        drop(gone);
        self.base.writable.lack();
        drop(Connecting::pending(self));
    }
}
