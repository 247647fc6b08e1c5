//! The operations of a program on its socket.

use super::{Connection, State};
use crate::config::Keepalive;
use crate::congestion::Algorithm;
use crate::event::Error;
use crate::receiver::MOST_BUFFER;

/// How a write goes out (send(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// MSG_MORE: more follows soon.
    pub more: bool,
    /// MSG_OOB: the last byte is urgent.
    pub urgent: bool,
}

impl Connection {
    /// `length` bytes follow what was written before. The caller keeps them until
    /// [`released`](Self::released) passes them, and bounds how many there are.
    ///
    /// # Errors
    /// [`Error::BrokenPipe`]: this end has ended, or there is no connection any more.
    pub fn write(&mut self, length: u64, how: Write) -> Result<(), Error> {
        if self.fin || self.state == State::Closed || self.state == State::TimeWait {
            return Err(Error::BrokenPipe);
        }
        self.queued += length;
        self.more = how.more;
        if how.urgent && length > 0 {
            self.urgent = Some(self.queued);
        }
        Ok(())
    }

    /// The program has taken `length` more of the [`readable`](Self::readable) bytes.
    pub fn read(&mut self, now: u64, length: u64) {
        let now = self.tick(now);
        if self.receiver.consume(now, length) && self.is_synchronised() {
            self.receiver.delay.now = true;
        }
    }

    /// How many bytes of the peer's stream can be read now.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Whether the peer's stream ends after what can be read.
    pub fn has_ended(&self) -> bool {
        self.receiver.is_ended()
    }

    /// Memory is short: forgets at least `bytes` of what has arrived out of order, the last first,
    /// if there are so many (Linux's `tcp_prune_ofo_queue`); the peer sends it again (RFC 2018, 8).
    /// Returns the place in the peer's stream from which on nothing is to be kept any more.
    pub fn prune(&mut self, bytes: u64) -> Option<u64> {
        let from = self.receiver.prune(bytes)?;
        Some(self.receiver.place_of(from))
    }

    /// How many bytes of this end's stream the peer has acknowledged: the send queue's start.
    pub fn released(&self) -> u64 {
        let una = self.sender.una.min(self.queued).max(self.iss + 1);
        una - (self.iss + 1)
    }

    /// How many bytes were written and not acknowledged (SIOCOUTQ).
    pub fn unacknowledged(&self) -> u64 {
        self.queued - (self.iss + 1) - self.released()
    }

    /// How many bytes were written and not sent (SIOCOUTQNSD). With TCP_NOTSENT_LOWAT a socket is
    /// writable only where they are fewer: to be looked at once all was transmitted.
    pub fn unsent(&self) -> u64 {
        self.queued.saturating_sub(self.sender.nxt)
    }

    /// Which byte of the peer's stream is the urgent one, if it has not been read yet (SIOCATMARK).
    pub fn urgent_mark(&self) -> Option<u64> {
        let urgent = self
            .peer_urgent
            .filter(|urgent| *urgent >= self.receiver.read)?;
        Some(self.receiver.place_of(urgent))
    }

    /// Whether the urgent byte itself has come and can be read (MSG_OOB; TCP_URG_VALID in Linux).
    pub fn has_urgent(&self) -> bool {
        let byte = self.peer_urgent;
        byte.is_some_and(|byte| (self.receiver.read..self.receiver.nxt).contains(&byte))
    }

    /// Ends this direction (SHUT_WR): FIN follows what was written. An attempt to connect ends.
    ///
    /// # Errors
    /// [`Error::NotConnected`].
    pub fn shutdown(&mut self) -> Result<(), Error> {
        match self.state {
            State::Closed | State::TimeWait => Err(Error::NotConnected),
            State::SynSent => Ok(self.end(None)),
            State::SynReceived => {
                self.fin = true;
                Ok(())
            }
            _ => {
                self.fin = true;
                // From here on the state is the one of a FIN that was sent, as Linux has it.
                self.state = match self.state {
                    State::Established => State::FinWait1,
                    State::CloseWait => State::LastAck,
                    state => state,
                };
                Ok(())
            }
        }
    }

    /// The program reads no more (SHUT_RD).
    pub fn stop_reading(&mut self) {
        self.deaf = true;
    }

    /// The program closes its socket. What was written still goes out, unless the peer's data was
    /// not read, which RST tells the peer (RFC 2525, 2.17). With SO_LINGER and a time the caller
    /// then waits as long as the connection [`lingers`](Self::lingers).
    pub fn close(&mut self, now: u64) {
        let now = self.tick(now);
        self.orphan = true;
        self.deaf = true;
        let is_unread = self.receiver.readable() > 0 && self.is_synchronised();
        match self.state {
            // Late segments are still to be waited for.
            State::Closed | State::TimeWait => {}
            _ if is_unread => self.abort(),
            State::FinWait2 => self.wait_for_fin(now),
            // An error here says that this end has ended before.
            _ => self.shutdown().unwrap_or(()),
        }
    }

    /// Whether what was written before [`close`](Self::close), and FIN, are not acknowledged yet.
    /// [`Events::WRITABLE`](crate::Events::WRITABLE) or `CLOSED` says that this may have changed.
    pub fn lingers(&self) -> bool {
        matches!(
            self.state,
            State::FinWait1 | State::Closing | State::LastAck
        )
    }

    /// A closed socket waits for the peer's FIN, for as long as the path may need at least
    /// (Linux's `tcp_fin_time`); or not at all.
    pub(super) fn wait_for_fin(&mut self, now: u64) {
        let rto = self.sender.rtt.rto(self.sender.backoff);
        match self.config.fin_timeout {
            0 => self.abort(),
            timeout => self.wait_due = Some(now.saturating_add(timeout.max(rto * 7 / 2))),
        }
    }

    /// Ends the connection at once, by RST if the peer may wait for something (SO_LINGER with
    /// zero). One that has got FIN and sent its own needs none, but for what was not sent.
    pub fn abort(&mut self) {
        let knows = match self.state {
            State::SynSent | State::Closed | State::TimeWait => false,
            State::Closing | State::LastAck => self.sender.nxt <= self.queued,
            _ => true,
        };
        if knows {
            self.reset = Some(self.reset_header());
        }
        self.end(None);
    }

    /// TCP_CORK; without it what waits goes out as Nagle and TCP_NODELAY let it.
    pub fn set_cork(&mut self, on: bool) {
        self.force |= self.cork && !on && self.config.nodelay && self.unsent() > 0;
        self.cork = on;
    }

    /// TCP_NODELAY; what waits goes out, in spite of TCP_CORK too (tcp(7)).
    pub fn set_nodelay(&mut self, on: bool) {
        self.force |= on && self.unsent() > 0;
        self.config.nodelay = on;
    }

    /// TCP_QUICKACK.
    pub fn set_quick_ack(&mut self, on: bool) {
        let all_read = self.receiver.readable() == 0;
        self.receiver.delay.set_quick(on, all_read);
    }

    /// TCP_QUICKACK as it is read: acknowledgments do not wait for data to ride on.
    pub fn is_quick_ack(&self) -> bool {
        self.receiver.delay.is_quick()
    }

    /// SO_KEEPALIVE and its times. The time of one that was on already counts from when the peer
    /// was heard last.
    pub fn set_keepalive(&mut self, now: u64, keepalive: Option<Keepalive>) {
        let now = self.tick(now);
        let was_on = self.config.keepalive.is_some();
        self.config.keepalive = keepalive;
        if self.is_synchronised() {
            let from = if was_on {
                self.probes.last_heard()
            } else {
                now
            };
            self.arm_keepalive(from);
            self.probes.keep_due = self.probes.keep_due.map(|due| due.max(now));
        }
    }

    /// TCP_LINGER2, in ns; 0 where it is below zero.
    pub fn set_fin_timeout(&mut self, timeout: u64) {
        self.config.fin_timeout = timeout;
    }

    /// TCP_SYNCNT.
    pub fn set_syn_retries(&mut self, retries: u32) {
        self.config.syn_retries = retries;
    }

    /// TCP_CONGESTION.
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        self.config.algorithm = algorithm;
        self.sender.congestion.set_algorithm(algorithm);
    }

    /// TCP_USER_TIMEOUT, in ns; 0 is none.
    pub fn set_user_timeout(&mut self, timeout: u64) {
        self.config.user_timeout = timeout;
    }

    /// TCP_WINDOW_CLAMP: no larger window is told from now on; what was told stays.
    pub fn set_window_clamp(&mut self, bytes: u64) {
        self.config.window_clamp = bytes;
        self.receiver.clamp = bytes;
    }

    /// SO_RCVLOWAT: a buffer that may grow holds so much.
    pub fn set_low_water(&mut self, bytes: u64) {
        let receiver = &mut self.receiver;
        let wanted = bytes.min(receiver.tuning.most).min(MOST_BUFFER);
        receiver.buffer = receiver.buffer.max(wanted);
    }

    /// Whether a reader that waits for `low_water` bytes is to be woken: they are there, or the
    /// stream has ended, or the peer can send no more before something is read.
    pub fn is_readable(&self, low_water: u64) -> bool {
        let receiver = &self.receiver;
        let readable = receiver.readable();
        let is_full = receiver.window() <= receiver.delay.size;
        let is_over = receiver.is_ended() || self.state == State::Closed;
        is_over || readable > 0 && (readable >= low_water || is_full)
    }

    /// SO_RCVBUF: the buffer has this size from now on.
    pub fn set_receive_buffer(&mut self, bytes: u64) {
        self.config.receive_buffer = bytes;
        self.config.fixed_receive_buffer = true;
        self.receiver.buffer = bytes.min(MOST_BUFFER);
        self.receiver.tuning.most = 0;
    }
}
