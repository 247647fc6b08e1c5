//! The settings of connections with other machines, taken from the socket's options.

use super::link::Link;
use super::outside::{Door, Remote};
use super::{
    CORK, DEFER_ACCEPT, LINGER2, MAXSEG, NODELAY, NOTSENT_LOWAT, SYN_COUNT, TCP, Tcp, USER_TIMEOUT,
    WINDOW_CLAMP,
};
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::net::channel::MAX_LIMIT;
use crate::net::inet::errors::{IP_RECVERR, IPV6_RECVERR};
use crate::net::inet::options::{IP, IPV6};
use crate::net::socket::Received;
use crate::net::stream::{self, ReadMode};
use crate::net::wait::Wait;
use crate::task::clock;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;
use linux_raw_sys::net::{
    MSG_PEEK, MSG_TRUNC, MSG_WAITALL, SO_KEEPALIVE, SO_OOBINLINE, TCP_CONGESTION,
};
use tcp::{Config, Keepalive};

/// TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT.
const KEEP_IDLE: u32 = 4;
const KEEP_INTERVAL: u32 = 5;
const KEEP_COUNT: u32 = 6;
/// TCP_QUICKACK
const QUICK_ACK: u32 = 12;
const MS: u64 = clock::SECOND / 1000;

impl Tcp {
    /// The maximum segment size on a path that allows `mss` (TCP_MAXSEG).
    pub(super) fn most_segment(&self, mss: u16) -> u16 {
        match self.options.value(TCP, MAXSEG) {
            0 => mss,
            asked => mss.min(asked as u16),
        }
    }

    /// The settings of a connection whose path allows segments of `mss` bytes.
    pub(super) fn config(&self, mss: u16) -> Config {
        let value = |name| self.options.value(TCP, name);
        let mss = self.most_segment(mss);
        let chosen = self.base.options.chosen_receive_buffer();
        let buffer = chosen.unwrap_or(self.base.options.receive_buffer());
        let v6 = self.base.domain == linux_raw_sys::net::AF_INET6;
        Config {
            mss,
            most_payload: mss.into(),
            syn_retries: value(SYN_COUNT) as u32,
            defer_accept: tcp::retransmissions_of(value(DEFER_ACCEPT).max(0) as u32),
            user_timeout: value(USER_TIMEOUT) as u64 * MS,
            fin_timeout: self.fin_timeout(),
            keepalive: self.keepalive(),
            algorithm: self.options.algorithm(),
            receive_buffer: buffer.min(MAX_LIMIT) as u64,
            most_receive_buffer: MAX_LIMIT as u64,
            fixed_receive_buffer: chosen.is_some(),
            window_clamp: self.window_clamp(),
            nodelay: value(NODELAY) != 0,
            report_errors: match v6 {
                true => self.options.is_on(IPV6, IPV6_RECVERR),
                false => self.options.is_on(IP, IP_RECVERR),
            },
            ..Config::default()
        }
    }

    fn window_clamp(&self) -> u64 {
        match self.options.value(TCP, WINDOW_CLAMP) {
            0 => u64::MAX,
            bytes => bytes as u64,
        }
    }

    fn fin_timeout(&self) -> u64 {
        match self.options.value(TCP, LINGER2) {
            ..0 => 0,
            0 => crate::net::inet::connections::FIN_TIMEOUT.load(Relaxed) as u64 * clock::SECOND,
            seconds => seconds as u64 * clock::SECOND,
        }
    }

    fn keepalive(&self) -> Option<Keepalive> {
        let value = |name| self.options.value(TCP, name) as u64;
        self.base.options.is_on(SO_KEEPALIVE).then(|| Keepalive {
            idle: value(KEEP_IDLE) * clock::SECOND,
            interval: value(KEEP_INTERVAL) * clock::SECOND,
            probes: value(KEEP_COUNT) as u32,
        })
    }

    /// Applies an option of level TCP to a connection with another machine.
    pub(super) fn tell_option(&self, remote: &Arc<Remote>, name: u32) -> Result<()> {
        let value = self.options.value(TCP, name);
        match name {
            CORK => remote.outgoing().set_corked(value != 0)?,
            NOTSENT_LOWAT => remote.outgoing().set_low_water(value as u32),
            _ => {}
        }
        let (clamp, algorithm) = (self.window_clamp(), self.options.algorithm());
        let (now, keepalive, fin) = (
            crate::net::ether::now(),
            self.keepalive(),
            self.fin_timeout(),
        );
        remote.change(|connection| match name {
            NODELAY => connection.set_nodelay(value != 0),
            USER_TIMEOUT => connection.set_user_timeout(value as u64 * MS),
            KEEP_IDLE | KEEP_INTERVAL | KEEP_COUNT => connection.set_keepalive(now, keepalive),
            LINGER2 => connection.set_fin_timeout(fin),
            QUICK_ACK => connection.set_quick_ack(value != 0),
            SYN_COUNT => connection.set_syn_retries(value as u32),
            WINDOW_CLAMP => connection.set_window_clamp(clamp),
            TCP_CONGESTION => connection.set_algorithm(algorithm),
            _ => {}
        })
    }

    /// Applies options of level SOL_SOCKET to a connection with another machine.
    pub(super) fn base_options_changed(&self, remote: &Arc<Remote>) {
        let options = &self.base.options;
        remote.incoming().set_inline(options.is_on(SO_OOBINLINE));
        remote
            .incoming()
            .set_wants_times(options.stamping.wants_arrival());
        if let Some(most) = options.chosen_send_buffer() {
            remote.outgoing().set_limit(most);
        }
        let (now, keepalive) = (crate::net::ether::now(), self.keepalive());
        let chosen = options.chosen_receive_buffer();
        let low_water = options.low_water() as u64;
        // If the caller was killed, nothing is set.
        _ = remote.change(|connection| {
            connection.set_keepalive(now, keepalive);
            if let Some(bytes) = chosen {
                connection.set_receive_buffer(bytes.min(MAX_LIMIT) as u64);
            }
            connection.set_low_water(low_water);
        });
    }

    /// Applies the options that are not among the settings to a new connection with another
    /// machine.
    pub(super) fn tell_options(&self, remote: &Arc<Remote>) -> Result<()> {
        self.base_options_changed(remote);
        for name in [CORK, NOTSENT_LOWAT] {
            if self.options.value(TCP, name) != 0 {
                self.tell_option(remote, name)?;
            }
        }
        Ok(())
    }

    /// The connection with another machine, even if it is still being established.
    pub(super) fn remote(&self) -> Option<Arc<Remote>> {
        // In this order, since it moves from the first place to the second.
        let opening = self.opening.lock().clone();
        opening.or_else(|| self.link()?.remote.clone())
    }

    /// The face of a listening socket to other machines; `make` creates it.
    pub(super) fn door(&self, make: impl FnOnce() -> Result<Arc<Door>>) -> Result<Arc<Door>> {
        if let Some(door) = self.door.get() {
            return Ok(door.clone());
        }
        let fresh = make()?;
        Ok(self.door.call_once(|| fresh).clone())
    }

    /// Like `receive`, for a connection with another machine: its window is updated after each part
    /// that was read.
    pub(super) fn receive_outside(
        &self,
        link: &Link,
        remote: &Arc<Remote>,
        to: &mut Sink,
        flags: u32,
        mode: ReadMode,
        wait: &Wait,
    ) -> Result<Received> {
        let deaf = || link.deaf.load(Acquire);
        let incoming = &link.incoming;
        if flags & MSG_TRUNC != 0 {
            let received = stream::discard(incoming, to.left(), flags, mode, deaf, wait)?;
            self.base.options.went_past(flags, received.count);
            remote.stir()?;
            return Ok(received);
        }
        let waits = flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0;
        let wanted = to.left();
        let mut all = Received::default();
        loop {
            let part = stream::receive(incoming, to, flags & !MSG_WAITALL, mode, deaf, wait);
            let received = match part {
                Ok(received) => received,
                Err(_) if all.count > 0 => break,
                Err(error) => return Err(error),
            };
            let count = received.count;
            let marked = received.found.marked;
            self.base.options.went_past(flags, count);
            let before = all.count;
            if before == 0 {
                all = received;
            } else {
                all.count += count;
                all.found.count += count;
            }
            if flags & MSG_PEEK == 0 {
                match remote.stir() {
                    Err(Errno::EINTR) if all.count > 0 => break,
                    done => done?,
                }
            }
            if !waits || count == 0 || marked || all.count >= wanted {
                break;
            }
            to.allow(wanted - all.count);
        }
        Ok(all)
    }
}
