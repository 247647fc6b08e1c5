//! The settings of the administrator and of the socket's options. The defaults are those of Linux
//! 6.12.

use crate::congestion::Algorithm;
use crate::rtt::{INITIAL_RTO, MOST_RTO, SECOND};

/// SO_KEEPALIVE and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// TCP_KEEPIDLE, in ns.
    pub idle: u64,
    /// TCP_KEEPINTVL, in ns.
    pub interval: u64,
    /// TCP_KEEPCNT.
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive {
            idle: 7200 * SECOND,
            interval: 75 * SECOND,
            probes: 9,
        }
    }
}

/// The settings of a connection. Times are ns, sizes bytes of payload.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest payload of a segment without options that the path's first link takes: its MTU
    /// less 40 (IPv4) or 60 (IPv6).
    pub mss: u16,
    /// The most payload of one [`Transmit`](crate::Transmit): more than `mss` where the device or
    /// the kernel cuts it into segments.
    pub most_payload: u32,
    /// `net.ipv4.tcp_timestamps`.
    pub timestamps: bool,
    /// `net.ipv4.tcp_sack`.
    pub sack: bool,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: bool,
    /// TCP_CONGESTION.
    pub algorithm: Algorithm,
    /// `net.ipv4.tcp_syn_retries`, TCP_SYNCNT.
    pub syn_retries: u32,
    /// `net.ipv4.tcp_syn_linear_timeouts`: so many retransmissions of SYN more, the first ones, a
    /// second apart.
    pub syn_linear_timeouts: u32,
    /// `net.ipv4.tcp_synack_retries`.
    pub synack_retries: u32,
    /// `net.ipv4.tcp_abort_on_overflow`: a connection that finds no room in the queue of accept(2)
    /// is reset.
    pub abort_on_overflow: bool,
    /// TCP_DEFER_ACCEPT, in [timeouts of the SYN with ACK](retransmissions_of); 0 is off.
    pub defer_accept: u8,
    /// `net.ipv4.tcp_retries2`.
    pub retries: u32,
    /// What takes the place of `retries` once the program has closed the socket
    /// (`net.ipv4.tcp_orphan_retries`); 0 is 8, or none once the timeouts are the longest.
    pub orphan_retries: u32,
    /// TCP_USER_TIMEOUT; 0 is none.
    pub user_timeout: u64,
    /// For how long a closed socket waits for the peer's FIN (`net.ipv4.tcp_fin_timeout`,
    /// TCP_LINGER2); 0, which TCP_LINGER2 below zero means, ends it by RST instead.
    pub fin_timeout: u64,
    /// SO_KEEPALIVE.
    pub keepalive: Option<Keepalive>,
    /// The receive buffer at the beginning, or fixed by SO_RCVBUF.
    pub receive_buffer: u64,
    /// Up to where it grows by itself; no growth where it is not larger. Windows can tell of it.
    pub most_receive_buffer: u64,
    /// SO_RCVBUF: the buffer does not grow by itself.
    pub fixed_receive_buffer: bool,
    /// TCP_WINDOW_CLAMP: the largest window that is told; `u64::MAX` is none.
    pub window_clamp: u64,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// IP_RECVERR, IPV6_RECVERR.
    pub report_errors: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            mss: 1460,
            most_payload: 1460,
            timestamps: true,
            sack: true,
            window_scaling: true,
            algorithm: Algorithm::Cubic,
            syn_retries: 6,
            syn_linear_timeouts: 4,
            synack_retries: 5,
            abort_on_overflow: false,
            defer_accept: 0,
            retries: 15,
            orphan_retries: 0,
            user_timeout: 0,
            fin_timeout: 60 * SECOND,
            keepalive: None,
            receive_buffer: 65536,
            most_receive_buffer: 6 << 20,
            fixed_receive_buffer: false,
            window_clamp: u64::MAX,
            slow_start_after_idle: true,
            nodelay: false,
            report_errors: false,
        }
    }
}

/// How many timeouts of a SYN with ACK so many seconds take: what TCP_DEFER_ACCEPT sets.
pub fn retransmissions_of(seconds: u32) -> u8 {
    let takes_longer = |count: &u8| u64::from(seconds) * SECOND <= time_of(*count);
    (0..u8::MAX).find(takes_longer).unwrap_or(u8::MAX)
}

/// The seconds that so many timeouts take: what TCP_DEFER_ACCEPT is read as.
pub fn seconds_of(retransmissions: u8) -> u32 {
    (time_of(retransmissions) / SECOND) as u32
}

fn time_of(retransmissions: u8) -> u64 {
    let wait = |count: u8| (INITIAL_RTO << count.min(20)).min(MOST_RTO);
    (0..retransmissions).map(wait).sum()
}

impl Config {
    /// The window of a SYN, which is never scaled (RFC 7323, 2.2).
    pub(crate) fn syn_window(&self) -> u16 {
        let window = self.receive_buffer.min(self.window_clamp);
        window.min(u64::from(u16::MAX)) as u16
    }

    /// The shift that lets the whole buffer be told of (RFC 7323, 2.2).
    pub fn scale(&self) -> u8 {
        let most = self.receive_buffer.max(self.most_receive_buffer);
        let fits = |shift: &u8| most >> shift <= u64::from(u16::MAX);
        (0..crate::options::MOST_SCALE)
            .find(fits)
            .unwrap_or(crate::options::MOST_SCALE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux rounds what setsockopt(2) is given.
    #[test]
    fn deferrals() {
        for (seconds, count, read) in [(0, 0, 0), (1, 1, 1), (2, 2, 3), (3, 2, 3), (60, 6, 63)] {
            assert_eq!(retransmissions_of(seconds), count);
            assert_eq!(seconds_of(count), read);
        }
        assert_eq!(retransmissions_of(u32::MAX), 255);
    }
}
