//! The operations of a program on its socket.

use super::{Connection, State};
use crate::config::Keepalive;
use crate::congestion::Algorithm;
use crate::event::Error;
use crate::receiver::MOST_BUFFER;

/// The flags of a write (send(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// MSG_MORE: more follows soon.
    pub more: bool,
    /// MSG_OOB: the last byte is urgent.
    pub urgent: bool,
}

impl Connection {
    /// Adds `length` bytes after those written before. The caller keeps them until
    /// [`released`](Self::released) passes them, and limits their number.
    ///
    /// # Errors
    /// [`Error::BrokenPipe`]: this end has been shut down, or there is no connection any more.
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

    /// Records that the program has read `length` more of the [`readable`](Self::readable) bytes.
    pub fn read(&mut self, now: u64, length: u64) {
        let now = self.tick(now);
        if self.receiver.consume(now, length) && self.is_synchronised() {
            self.receiver.delay.now = true;
        }
    }

    /// The number of bytes of the peer's stream that can be read now.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Whether the peer's stream ends after the readable bytes.
    pub fn has_ended(&self) -> bool {
        self.receiver.is_ended()
    }

    /// Drops at least `bytes` of the data that has arrived out of order, the last first, if there
    /// is so much, because memory is short (Linux's `tcp_prune_ofo_queue`); the peer sends it again
    /// (RFC 2018, 8). Returns the offset in the peer's stream from which on nothing is kept any
    /// more.
    pub fn prune(&mut self, bytes: u64) -> Option<u64> {
        let from = self.receiver.prune(bytes)?;
        Some(self.receiver.place_of(from))
    }

    /// The number of bytes of this end's stream that the peer has acknowledged: the start of the
    /// send queue.
    pub fn released(&self) -> u64 {
        let una = self.sender.una.min(self.queued).max(self.iss + 1);
        una - (self.iss + 1)
    }

    /// The number of bytes that were written but not acknowledged (SIOCOUTQ).
    pub fn unacknowledged(&self) -> u64 {
        self.queued - (self.iss + 1) - self.released()
    }

    /// The number of bytes that were written but not sent (SIOCOUTQNSD). With TCP_NOTSENT_LOWAT a
    /// socket is writable only if there are fewer: check this after everything was transmitted.
    pub fn unsent(&self) -> u64 {
        self.queued.saturating_sub(self.sender.nxt)
    }

    /// The offset of the urgent byte in the peer's stream, if it has not been read yet
    /// (SIOCATMARK).
    pub fn urgent_mark(&self) -> Option<u64> {
        let urgent = self
            .peer_urgent
            .filter(|urgent| *urgent >= self.receiver.read)?;
        Some(self.receiver.place_of(urgent))
    }

    /// Whether the urgent byte itself has arrived and can be read (MSG_OOB; TCP_URG_VALID in
    /// Linux).
    pub fn has_urgent(&self) -> bool {
        let byte = self.peer_urgent;
        byte.is_some_and(|byte| (self.receiver.read..self.receiver.nxt).contains(&byte))
    }

    /// Ends this direction (SHUT_WR): FIN follows the written bytes. An attempt to connect is
    /// aborted.
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
                // From here on the state is the one after FIN was sent, as in Linux.
                self.state = match self.state {
                    State::Established => State::FinWait1,
                    State::CloseWait => State::LastAck,
                    state => state,
                };
                Ok(())
            }
        }
    }

    /// The program does not read any more (SHUT_RD).
    pub fn stop_reading(&mut self) {
        self.deaf = true;
    }

    /// The program closes its socket. Written bytes are still sent, unless some of the peer's data
    /// was not read, which a RST reports to the peer (RFC 2525, 2.17). With SO_LINGER and a time,
    /// the caller then waits as long as the connection [`lingers`](Self::lingers).
    pub fn close(&mut self, now: u64) {
        let now = self.tick(now);
        self.orphan = true;
        self.deaf = true;
        let is_unread = self.receiver.readable() > 0 && self.is_synchronised();
        match self.state {
            // TIME_WAIT continues.
            State::Closed | State::TimeWait => {}
            _ if is_unread => self.abort(),
            State::FinWait2 => self.wait_for_fin(now),
            // An error here means that this end was shut down before.
            _ => self.shutdown().unwrap_or(()),
        }
    }

    /// Whether bytes written before [`close`](Self::close), or FIN, are unacknowledged.
    /// [`Events::WRITABLE`](crate::Events::WRITABLE) or `CLOSED` reports that this may have
    /// changed.
    pub fn lingers(&self) -> bool {
        matches!(
            self.state,
            State::FinWait1 | State::Closing | State::LastAck
        )
    }

    /// Waits with a closed socket for the peer's FIN, for at least as long as the path may need
    /// (Linux's `tcp_fin_time`), or not at all.
    pub(super) fn wait_for_fin(&mut self, now: u64) {
        let rto = self.sender.rtt.rto(self.sender.backoff);
        match self.config.fin_timeout {
            0 => self.abort(),
            timeout => self.wait_due = Some(now.saturating_add(timeout.max(rto * 7 / 2))),
        }
    }

    /// Ends the connection at once, with a RST if the peer may wait for something (SO_LINGER with
    /// zero). A connection that has received FIN and sent its own needs none, unless there is
    /// unsent data.
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

    /// TCP_CORK; when it is cleared, waiting data is sent as Nagle and TCP_NODELAY allow.
    pub fn set_cork(&mut self, on: bool) {
        self.force |= self.cork && !on && self.config.nodelay && self.unsent() > 0;
        self.cork = on;
    }

    /// TCP_NODELAY; waiting data is sent, even with TCP_CORK (tcp(7)).
    pub fn set_nodelay(&mut self, on: bool) {
        self.force |= on && self.unsent() > 0;
        self.config.nodelay = on;
    }

    /// TCP_QUICKACK.
    pub fn set_quick_ack(&mut self, on: bool) {
        let all_read = self.receiver.readable() == 0;
        self.receiver.delay.set_quick(on, all_read);
    }

    /// The value of TCP_QUICKACK: whether acknowledgments do not wait for data to carry them.
    pub fn is_quick_ack(&self) -> bool {
        self.receiver.delay.is_quick()
    }

    /// SO_KEEPALIVE and its times. If it was on before, the time still counts from when the peer
    /// was last heard.
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

    /// TCP_LINGER2, in ns; 0 if it is negative.
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

    /// TCP_USER_TIMEOUT, in ns; 0 means none.
    pub fn set_user_timeout(&mut self, timeout: u64) {
        self.config.user_timeout = timeout;
    }

    /// TCP_WINDOW_CLAMP: no larger window is advertised from now on; one that was advertised stays.
    pub fn set_window_clamp(&mut self, bytes: u64) {
        self.config.window_clamp = bytes;
        self.receiver.clamp = bytes;
    }

    /// SO_RCVLOWAT: if the buffer may grow, it is made large enough for this.
    pub fn set_low_water(&mut self, bytes: u64) {
        let receiver = &mut self.receiver;
        let wanted = bytes.min(receiver.tuning.most).min(MOST_BUFFER);
        receiver.buffer = receiver.buffer.max(wanted);
    }

    /// Whether a reader that waits for `low_water` bytes must be woken: they are there, or the
    /// stream has ended, or the peer cannot send more before something is read.
    pub fn is_readable(&self, low_water: u64) -> bool {
        let receiver = &self.receiver;
        let readable = receiver.readable();
        let is_full = receiver.window() <= receiver.delay.size;
        let is_over = receiver.is_ended() || self.state == State::Closed;
        is_over || readable > 0 && (readable >= low_water || is_full)
    }

    /// SO_RCVBUF: sets the size of the buffer.
    pub fn set_receive_buffer(&mut self, bytes: u64) {
        self.config.receive_buffer = bytes;
        self.config.fixed_receive_buffer = true;
        self.receiver.buffer = bytes.min(MOST_BUFFER);
        self.receiver.tuning.most = 0;
    }
}
