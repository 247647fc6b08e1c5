//! What ICMP and routing report about the path.

use super::{Connection, LEAST_MSS, STAMP_BYTES, State};
use crate::event::{Error, Events, Unreachable};
use crate::seq;

/// The minimum MSS that is accepted for a path (`net.ipv4.route.min_pmtu`, minus the headers).
/// Smaller values are an attempt to make this end send almost only headers.
const LEAST_PATH_MSS: u16 = 512;

impl Connection {
    /// Whether a segment with the sequence number `seq` may be in flight: someone that names
    /// another has not seen one.
    pub fn is_in_flight(&self, seq: u32) -> bool {
        let seq = seq::extend(self.sender.una, seq);
        self.state != State::Closed && (self.sender.una..self.sender.nxt).contains(&seq)
    }

    /// Handles an ICMP error about the segment that begins with the sequence number `seq`. Only
    /// segments in flight count (RFC 5927), and only an attempt to connect is ended by it (RFC
    /// 1122, 4.2.3.9, as Linux reads it): otherwise it becomes the error for the program if a
    /// timeout ends the connection. [`Unreachable::TooBig`] resegments the data in flight.
    pub fn on_icmp(&mut self, now: u64, seq: u32, what: Unreachable) {
        let now = self.tick(now);
        if !self.is_in_flight(seq) {
            return;
        }
        let seq = seq::extend(self.sender.una, seq);
        let error = match what {
            Unreachable::TooBig(mss) => {
                // It never increases the segment size.
                let most = u32::from(mss.max(LEAST_PATH_MSS)) - self.option_bytes();
                if most < self.sender.full_mss() {
                    self.sender.set_path_mss(most);
                }
                return;
            }
            Unreachable::Network => Error::NetworkUnreachable,
            Unreachable::Host => Error::HostUnreachable,
            Unreachable::Protocol => Error::ProtocolUnreachable,
            Unreachable::Port => Error::ConnectionRefused,
        };
        if matches!(what, Unreachable::Network | Unreachable::Host) {
            self.sender.revert_backoff(now, seq);
        }
        match self.state {
            State::SynSent | State::SynReceived => self.end(Some(error)),
            _ if self.config.report_errors => {
                self.error = Some(error);
                self.events |= Events::ERROR;
            }
            _ => self.soft_error = Some(error),
        }
    }

    /// Sets the MSS of the path, which may grow or shrink: the route has changed, or an ICMP report
    /// is too old to count.
    pub fn set_path_mss(&mut self, mss: u16) {
        let most = u32::from(mss.max(LEAST_MSS)) - self.option_bytes();
        if self.is_synchronised() {
            self.sender.set_path_mss(most);
        }
    }

    fn option_bytes(&self) -> u32 {
        if self.stamps { STAMP_BYTES } else { 0 }
    }

    /// IP_RECVERR: the program gets ICMP errors at once.
    pub fn set_report_errors(&mut self, on: bool) {
        self.config.report_errors = on;
    }
}
