//! The figures of TCP_INFO. Times are in ns, amounts in bytes; the kernel converts them to Linux's
//! units.

use crate::connection::{Connection, State, Transmit};
use crate::sender::Recovery;

/// The congestion state (`tcpi_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congested {
    /// Nothing is known to be lost or reordered.
    Open,
    /// Something has arrived out of order.
    Disorder,
    /// Losses are being repaired.
    Recovery,
    /// A retransmission timeout has expired.
    Loss,
}

/// Counts of segments and bytes, received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `tcpi_segs_in`.
    pub segments_in: u64,
    /// `tcpi_data_segs_in`.
    pub data_segments_in: u64,
    /// `tcpi_segs_out`.
    pub segments_out: u64,
    /// `tcpi_data_segs_out`.
    pub data_segments_out: u64,
    /// `tcpi_bytes_sent`, including retransmissions.
    pub sent: u64,
}

impl Counts {
    pub(crate) fn came(&mut self, payload: usize) {
        self.segments_in += 1;
        self.data_segments_in += u64::from(payload > 0);
    }

    pub(crate) fn went(&mut self, transmit: &Transmit) {
        let bytes = transmit.payload.end - transmit.payload.start;
        let segments = bytes.div_ceil(u64::from(transmit.mss));
        self.segments_out += segments.max(1);
        self.data_segments_out += segments;
        self.sent += bytes;
    }
}

/// The figures of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// `tcpi_state`.
    pub state: State,
    /// `tcpi_ca_state`.
    pub congested: Congested,
    /// `tcpi_retransmits`: the number of timeouts since something was acknowledged.
    pub retransmits: u32,
    /// `tcpi_backoff`: how often the timeout was doubled since the last sample.
    pub backoff: u32,
    /// `tcpi_probes`.
    pub probes: u32,
    /// TCPI_OPT_TIMESTAMPS.
    pub timestamps: bool,
    /// TCPI_OPT_SACK.
    pub sack: bool,
    /// TCPI_OPT_WSCALE.
    pub scaling: bool,
    /// `tcpi_snd_wscale`.
    pub send_scale: u8,
    /// `tcpi_rcv_wscale`.
    pub receive_scale: u8,
    /// `tcpi_rto`.
    pub rto: u64,
    /// `tcpi_ato`.
    pub ato: u64,
    /// `tcpi_snd_mss`.
    pub send_mss: u32,
    /// `tcpi_rcv_mss`.
    pub receive_mss: u64,
    /// `tcpi_advmss`.
    pub told_mss: u16,
    /// `tcpi_rtt`; 0 before the first sample.
    pub rtt: u64,
    /// `tcpi_rttvar`.
    pub rtt_variation: u64,
    /// `tcpi_min_rtt`.
    pub least_rtt: u64,
    /// `tcpi_snd_cwnd`.
    pub congestion_window: u64,
    /// `tcpi_snd_ssthresh`; `u64::MAX` before the first loss.
    pub threshold: u64,
    /// `tcpi_unacked`.
    pub unacknowledged: u64,
    /// `tcpi_sacked`.
    pub sacked: u64,
    /// `tcpi_lost`.
    pub lost: u64,
    /// `tcpi_total_retrans`, in segments.
    pub retransmissions: u32,
    /// `tcpi_bytes_retrans`.
    pub retransmitted: u64,
    /// `tcpi_bytes_acked`.
    pub acknowledged: u64,
    /// `tcpi_delivered`, in bytes: what has arrived, including out of order.
    pub delivered: u64,
    /// `tcpi_bytes_received`.
    pub received: u64,
    /// `tcpi_total_rto`.
    pub timeouts: u32,
    /// `tcpi_rcv_ooopack`.
    pub came_early: u32,
    /// `tcpi_dsack_dups`.
    pub duplicates: u32,
    /// Whether reordering was seen on the path (`tcpi_reord_seen`).
    pub reordering: bool,
    /// `tcpi_notsent_bytes`.
    pub unsent: u64,
    /// `tcpi_snd_wnd`.
    pub send_window: u64,
    /// `tcpi_rcv_wnd`.
    pub receive_window: u64,
    /// `tcpi_rcv_rtt`.
    pub receive_rtt: u64,
    /// `tcpi_rcv_space`.
    pub receive_space: u64,
    /// The current size of the receive buffer (the payload part of SO_RCVBUF).
    pub receive_buffer: u64,
    /// The bytes that have arrived out of order.
    pub out_of_order: u64,
    /// Counts of segments and bytes.
    pub counts: Counts,
    /// When data was last sent (`tcpi_last_data_sent`).
    pub last_sent: u64,
    /// When data was last received (`tcpi_last_data_recv`).
    pub last_data: u64,
    /// When any segment was last received (`tcpi_last_ack_recv`).
    pub last_heard: u64,
}

impl Connection {
    /// The current figures.
    pub fn info(&self) -> Info {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let congested = match sender.recovery {
            Recovery::Open if sender.board.sacked() > 0 => Congested::Disorder,
            Recovery::Open => Congested::Open,
            Recovery::Fast(_) => Congested::Recovery,
            Recovery::Loss(_) => Congested::Loss,
        };
        Info {
            state: self.state,
            congested,
            retransmits: sender.retransmits,
            backoff: sender.backoff,
            probes: self.probes.out,
            timestamps: self.stamps,
            sack: sender.sack,
            scaling: self.scaled,
            send_scale: self.scale,
            receive_scale: receiver.scale(),
            rto: sender.rtt.rto(sender.backoff),
            ato: receiver.delay.timeout(),
            send_mss: sender.mss,
            receive_mss: receiver.delay.size,
            told_mss: self.config.mss,
            rtt: sender.rtt.smoothed().unwrap_or(0),
            rtt_variation: sender.rtt.variation(),
            least_rtt: sender.rtt.minimum().unwrap_or(0),
            congestion_window: sender.congestion.window(),
            threshold: sender.congestion.threshold(),
            unacknowledged: sender.nxt - sender.una,
            sacked: sender.board.sacked(),
            lost: sender.board.lost(),
            retransmissions: sender.totals.retransmissions,
            retransmitted: sender.totals.retransmitted,
            acknowledged: sender.totals.acked,
            delivered: sender.totals.delivered,
            received: receiver.received(),
            timeouts: sender.totals.timeouts,
            came_early: receiver.came_early,
            duplicates: sender.totals.duplicates,
            reordering: sender.has_reordering(),
            unsent: self.unsent(),
            send_window: sender.window,
            receive_window: receiver.window(),
            receive_rtt: receiver.tuning.rtt(),
            receive_space: receiver.tuning.space(),
            receive_buffer: receiver.buffer,
            out_of_order: receiver.out_of_order(),
            counts: self.counts,
            last_sent: sender.last_sent(),
            last_data: receiver.delay.last(),
            last_heard: self.probes.last_heard(),
        }
    }
}
