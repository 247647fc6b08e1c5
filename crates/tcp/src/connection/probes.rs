//! Probes of a closed window (RFC 9293, 3.8.6.1), and keepalives (3.8.4).

use super::{Connection, Due, State};
use crate::config::Keepalive;
use crate::event::Error;
use crate::rtt::MOST_RTO;

/// The state of both kinds of probes.
pub(crate) struct Probes {
    /// A probe is to be sent.
    wanted: bool,
    /// Before it, a probe that announces urgent data.
    urgent: bool,
    pub persist_due: Due,
    /// The number of window probes since the window closed, answered or not: the interval doubles
    /// each time.
    backoff: u32,
    /// When probing of the window began.
    began: Option<u64>,
    /// The number of probes of either kind that the peer has not answered.
    pub out: u32,
    pub keep_due: Due,
    heard: u64,
}

impl Probes {
    pub fn new(now: u64) -> Self {
        Probes {
            wanted: false,
            urgent: false,
            persist_due: None,
            backoff: 0,
            began: None,
            out: 0,
            keep_due: None,
            heard: now,
        }
    }

    /// Whether a probe is to be sent; clears the request.
    pub fn take(&mut self) -> bool {
        core::mem::take(&mut self.wanted)
    }

    /// The same for a probe that announces urgent data.
    pub fn take_urgent(&mut self) -> bool {
        core::mem::take(&mut self.urgent)
    }

    /// Records that the peer is alive.
    pub fn heard(&mut self, now: u64) {
        self.heard = now;
    }

    /// When the peer was last heard.
    pub fn last_heard(&self) -> u64 {
        self.heard
    }

    /// Records that the peer has acknowledged something, which need not be new.
    pub fn answered(&mut self) {
        self.out = 0;
    }

    pub fn stop_persist(&mut self) {
        self.persist_due = None;
        self.backoff = 0;
        self.began = None;
        self.answered();
    }

    pub fn stop(&mut self) {
        self.stop_persist();
        self.wanted = false;
        self.urgent = false;
        self.keep_due = None;
    }
}

impl Connection {
    /// Starts the persist timer if data waits and nothing is in flight, since nothing else would
    /// wake this end.
    pub(super) fn check_persist(&mut self, now: u64) {
        let unsent = self.sender.nxt < self.queued + u64::from(self.fin);
        let waits = unsent && self.sender.board.is_empty();
        if !waits {
            self.probes.persist_due = None;
        } else if self.probes.persist_due.is_none() {
            self.probes.persist_due = Some(now + self.sender.rtt.rto(self.probes.backoff));
        }
    }

    /// Handles the persist timer: sends what the window allows, or a probe.
    ///
    /// A peer that answers may keep its window closed forever (RFC 1122, 4.2.2.17), unless the
    /// socket is closed or TCP_USER_TIMEOUT limits that.
    pub(super) fn persist(&mut self, now: u64) {
        let began = *self.probes.began.get_or_insert(now);
        let user = self.config.user_timeout;
        let mut most = self.config.retries;
        let mut is_over = user > 0 && now - began >= user;
        if self.orphan {
            let is_short = self.sender.rtt.rto(self.probes.backoff) < MOST_RTO;
            most = self.orphan_retries(is_short);
            is_over |= !is_short && self.probes.backoff >= most;
        }
        if is_over || self.probes.out >= most {
            self.end(Some(self.soft_error.unwrap_or(Error::TimedOut)));
            return;
        }
        self.probes.out += 1;
        self.probes.backoff += 1;
        if self.sender.window_room() > 0 {
            self.force = true;
        } else {
            self.probes.wanted = true;
            self.probes.urgent = self.is_urgent();
        }
    }

    /// The number of retries of a connection without a socket (ip-sysctl: `tcp_orphan_retries`).
    /// `is_short`: the timeouts have not reached their maximum.
    pub(super) fn orphan_retries(&self, is_short: bool) -> u32 {
        match self.config.orphan_retries {
            _ if !is_short && self.soft_error.is_some() => 0,
            0 if is_short => 8,
            retries => retries,
        }
    }

    /// Starts the timer of SO_KEEPALIVE.
    pub(super) fn arm_keepalive(&mut self, now: u64) {
        self.probes.keep_due = self
            .config
            .keepalive
            .map(|keepalive| now.saturating_add(keepalive.idle));
    }

    pub(super) fn keepalive(&mut self, now: u64) {
        let Some(keepalive) = self.config.keepalive else {
            return;
        };
        let Keepalive {
            idle,
            interval,
            probes,
        } = keepalive;
        if matches!(self.state, State::TimeWait) {
            return;
        }
        let since = now - self.probes.heard;
        // Waiting data has its own timers.
        if !self.sender.board.is_empty() || self.sender.nxt < self.queued {
            self.probes.keep_due = Some(now.saturating_add(idle.max(1)));
        } else if since < idle {
            self.probes.keep_due = Some(self.probes.heard.saturating_add(idle));
        } else {
            let user = self.config.user_timeout;
            let is_over = if user > 0 {
                since >= user && self.probes.out > 0
            } else {
                self.probes.out >= probes
            };
            if is_over {
                self.reset = Some(self.reset_header());
                self.end(Some(self.soft_error.unwrap_or(Error::TimedOut)));
                return;
            }
            self.probes.out += 1;
            self.probes.wanted = true;
            self.probes.keep_due = Some(now.saturating_add(interval.max(1)));
        }
    }
}
