//! The connection's timers.

use super::{Connection, State};
use crate::event::Error;
use crate::rtt::{LEAST_VARIATION, MOST_RTO, MS};

impl Connection {
    /// When [`on_timer`](Self::on_timer) is to be called next, in ns.
    pub fn next_timer(&self) -> Option<u64> {
        [
            self.syn_due,
            self.sender.timer.map(|(due, _)| due),
            self.receiver.delay.due(),
            self.probes.persist_due,
            self.probes.keep_due,
            self.wait_due,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Handles the timers that have expired by `now`.
    pub fn on_timer(&mut self, now: u64) {
        let now = self.tick(now);
        let is_due = |due: Option<u64>| due.is_some_and(|due| due <= now);
        if is_due(self.syn_due) {
            self.syn_due = None;
            self.syn_timeout(now);
        }
        let rto = self.sender.rtt.rto(self.sender.backoff);
        self.receiver.delay.on_timer(now, rto);
        if is_due(self.sender.timer.map(|(due, _)| due)) && self.sender.on_timer(now) {
            self.check_stall(now);
        }
        if is_due(self.probes.persist_due) {
            self.probes.persist_due = None;
            self.persist(now);
        }
        if is_due(self.probes.keep_due) {
            self.probes.keep_due = None;
            self.keepalive(now);
        }
        if is_due(self.wait_due) {
            self.end(None);
        }
    }

    /// Gives the connection up if the peer has been silent for too long: for as long as `retries`
    /// timeouts would take, starting with the shortest (ip-sysctl: `tcp_retries2`), or for
    /// TCP_USER_TIMEOUT.
    fn check_stall(&mut self, now: u64) {
        let Some(since) = self.sender.stalled_since else {
            return;
        };
        let user = self.config.user_timeout;
        let most = if user > 0 {
            user
        } else if self.orphan {
            let is_short = self.sender.rtt.rto(self.sender.backoff) < MOST_RTO;
            patience(self.orphan_retries(is_short))
        } else {
            patience(self.config.retries)
        };
        let is_over = if self.sender.window == 0 && !self.orphan {
            self.is_silent(now, since)
        } else {
            now - since >= most
        };
        if is_over {
            self.end(Some(self.soft_error.unwrap_or(Error::TimedOut)));
        } else if user > 0
            && let Some((due, _)) = &mut self.sender.timer
        {
            *due = (*due).min(since.saturating_add(user)).max(now + MS);
        }
    }

    /// Whether a peer that has shrunk its window while data was in flight is gone. Retransmissions
    /// then act as probes, and the peer counts as alive as long as it answers.
    fn is_silent(&self, now: u64, since: u64) -> bool {
        let user = self.config.user_timeout;
        let bound = if user > 0 { user } else { u64::MAX };
        let most = bound.min(2 * MOST_RTO);
        let (stalled, silent) = (now - since, now - self.probes.last_heard());
        stalled > bound || stalled > most && silent > most
    }

    /// Whether nobody needs this connection any more.
    pub fn is_over(&self) -> bool {
        self.state == State::Closed && self.reset.is_none()
    }
}

/// The sum of the first timeout and `retries` further ones, without jitter.
fn patience(retries: u32) -> u64 {
    let wait = |retry: u32| (LEAST_VARIATION << retry.min(20)).min(MOST_RTO);
    (0..=retries.min(255)).map(wait).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time for fifteen retries according to Linux's documentation: 924.6 seconds.
    #[test]
    fn as_documented() {
        assert_eq!(patience(15), 924_600_000_000);
    }
}
