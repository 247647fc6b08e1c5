//! The end of a connection.

use super::link::Link;
use super::outside::Remote;
use super::{LINGER2, TCP, Tcp};
use crate::errno::{Errno, Result};
use crate::net::channel::Channel;
use crate::net::inet::connections;
use crate::net::inet::ports::Kept;
use crate::net::mib::{self, Event};
use crate::net::wait::Wait;
use crate::task::current;
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use core::net::IpAddr;
use core::sync::atomic::Ordering::*;

impl Tcp {
    /// Ends the connection; with `reset`, the other end gets an error.
    pub(super) fn disconnect(&self, reset: bool) {
        self.give_up_opening(reset);
        let link = self.link.lock().take();
        if let Some(link) = link {
            if let Some(remote) = &link.remote {
                return self.close_remote(&link, remote, reset);
            }
            let closes = [
                |channel: &Channel| Ok(channel.die()),
                |channel: &Channel| Ok(channel.finish()),
            ];
            // These calls cannot fail.
            _ = self.end_link(&link, reset, closes);
        }
    }

    /// Resets the connection, for a system call that does not close the socket.
    ///
    /// # Errors
    /// EINTR: the caller was killed. The connection ends with the socket.
    pub(super) fn drop_connection(&self) -> Result<()> {
        let Some(link) = self.link.lock().take() else {
            return Ok(());
        };
        if let Some(remote) = &link.remote {
            self.close_remote(&link, remote, true);
            return Ok(());
        }
        let ended = self.end_link(&link, true, [Channel::kill_reader, Channel::shut_writer]);
        ended.inspect_err(|_| _ = self.link.lock().get_or_insert_with(|| link.clone()))
    }

    /// Ends a connection with another machine.
    fn close_remote(&self, link: &Link, remote: &Arc<Remote>, reset: bool) {
        link.outgoing.finish();
        remote.close(reset, || self.keep_port(link.local.ip()));
        link.incoming.die();
    }

    /// Cancels an attempt to connect to another machine; returns whether there was one.
    pub(super) fn give_up_opening(&self, reset: bool) -> bool {
        let opening = self.opening.lock().take();
        if let Some(remote) = &opening {
            remote.close(reset, || None);
        }
        opening.is_some()
    }

    /// Ends a connection: `die` ends the reader of one channel, `finish` the writer of the other.
    fn end_link(
        &self,
        link: &Link,
        reset: bool,
        [die, finish]: [fn(&Channel) -> Result<()>; 2],
    ) -> Result<()> {
        link.arrive();
        if link.outgoing.is_abandoned() {
            die(&link.incoming)?;
            link.end.reset();
            return Ok(());
        }
        let resets = reset || !link.incoming.is_empty();
        if resets {
            link.outgoing.fail(Errno::ECONNRESET);
            mib::add(Event::Reset, false, 1);
        }
        let stays = !link.incoming.is_finished();
        let comes = link.incoming.sending.unsent() > 0 && !link.incoming.sending.is_corked();
        let linger = self.options.value(TCP, LINGER2);
        die(&link.incoming)?;
        finish(&link.outgoing)?;
        if !resets && (stays && linger < 0 || comes) {
            // No thread is left to wait for the other end to close, or for its unsent bytes.
            link.outgoing.fail(Errno::EPIPE);
            link.end.reset();
        } else if resets {
            link.end.reset();
        } else {
            link.end.finish();
            let seconds = match linger {
                0 => connections::FIN_TIMEOUT.load(Relaxed) as u64,
                seconds => seconds.max(0) as u64,
            };
            link.end.leave(seconds, || self.keep_port(link.local.ip()));
        }
        Ok(())
    }

    /// Keeps its port for the end of its connection, which waits.
    fn keep_port(&self, ip: IpAddr) -> Option<Kept> {
        match self.kept.get() {
            Some(kept) => kept.waiting().ok(),
            None => self.place.keep(ip),
        }
    }

    /// On the last close of its file, waits until the other end has room for what was sent, for at
    /// most the time of SO_LINGER. A signal ends the wait.
    pub(super) fn linger(&self) {
        let (Some(time), Some(link)) = (self.base.options.linger(), self.link()) else {
            return;
        };
        // Neither a thread that ends nor a kernel thread waits: they have no files.
        let may_wait = current().try_files().is_some();
        // Unread bytes are answered with a reset.
        if !may_wait || !link.incoming.is_empty() {
            return;
        }
        let sent = || {
            let gone = link.outgoing.is_dead() || link.incoming.is_reset();
            let is_remote = link.remote.is_some();
            gone || if is_remote {
                link.outgoing.is_empty()
            } else {
                link.outgoing.has_room()
            }
        };
        _ = Wait::new(false, time).until(link.outgoing.writable(), sent);
    }

    pub(super) fn stop_listening(&self) {
        if let Some(backlog) = self.listener.get() {
            for one in backlog.close() {
                if let Some(door) = self.door.get()
                    && one.link().is_some_and(|link| link.remote.is_some())
                {
                    door.taken();
                }
                one.disconnect(true);
                drop(one);
                cond_resched();
            }
            if let Some(door) = self.door.get() {
                door.close();
            }
        }
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.stop_listening();
        self.disconnect(self.base.options.resets());
    }
}
