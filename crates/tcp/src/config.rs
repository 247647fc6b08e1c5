//! The settings made by the administrator and by socket options. The defaults are those of Linux
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

/// The settings of a connection. Times are in ns, sizes in bytes of payload.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest payload of a segment without options on the path's first link: its MTU minus 40
    /// (IPv4) or 60 (IPv6).
    pub mss: u16,
    /// The maximum payload of one [`Transmit`](crate::Transmit): more than `mss` if the device or
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
    /// `net.ipv4.tcp_syn_linear_timeouts`: the number of additional retransmissions of SYN, which
    /// come first, one second apart.
    pub syn_linear_timeouts: u32,
    /// `net.ipv4.tcp_synack_retries`.
    pub synack_retries: u32,
    /// `net.ipv4.tcp_abort_on_overflow`: a connection for which the queue of accept(2) has no room
    /// is reset.
    pub abort_on_overflow: bool,
    /// TCP_DEFER_ACCEPT, in [timeouts of the SYN-ACK](retransmissions_of); 0 means off.
    pub defer_accept: u8,
    /// `net.ipv4.tcp_retries2`.
    pub retries: u32,
    /// Used instead of `retries` once the program has closed the socket
    /// (`net.ipv4.tcp_orphan_retries`); 0 means 8, or none once the timeout has reached its
    /// maximum.
    pub orphan_retries: u32,
    /// TCP_USER_TIMEOUT; 0 means none.
    pub user_timeout: u64,
    /// How long a closed socket waits for the peer's FIN (`net.ipv4.tcp_fin_timeout`, TCP_LINGER2).
    /// With 0, which stands for a negative TCP_LINGER2, the connection is reset instead.
    pub fin_timeout: u64,
    /// SO_KEEPALIVE.
    pub keepalive: Option<Keepalive>,
    /// The size of the receive buffer at the start, or as fixed by SO_RCVBUF.
    pub receive_buffer: u64,
    /// The size up to which it grows by itself; it does not grow if this is not larger. The window
    /// scale is chosen for it.
    pub most_receive_buffer: u64,
    /// SO_RCVBUF: the buffer does not grow by itself.
    pub fixed_receive_buffer: bool,
    /// TCP_WINDOW_CLAMP: the largest window that is advertised; `u64::MAX` means no limit.
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

/// The number of SYN-ACK timeouts that take this many seconds: the value that TCP_DEFER_ACCEPT
/// sets.
pub fn retransmissions_of(seconds: u32) -> u8 {
    let takes_longer = |count: &u8| u64::from(seconds) * SECOND <= time_of(*count);
    (0..u8::MAX).find(takes_longer).unwrap_or(u8::MAX)
}

/// The number of seconds that this many timeouts take: the value that is read for TCP_DEFER_ACCEPT.
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

    /// The window scale with which the whole buffer can be advertised (RFC 7323, 2.2).
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

    /// Rounded as Linux rounds the argument of setsockopt(2).
    #[test]
    fn deferrals() {
        for (seconds, count, read) in [(0, 0, 0), (1, 1, 1), (2, 2, 3), (3, 2, 3), (60, 6, 63)] {
            assert_eq!(retransmissions_of(seconds), count);
            assert_eq!(seconds_of(count), read);
        }
        assert_eq!(retransmissions_of(u32::MAX), 255);
    }
}
