//! HyStart++ (RFC 9406): slow start ends when the round trip time rises, before losses end it.

use super::Ack;
use crate::rtt::MS;
use crate::seq::Seq;

const LEAST_RISE: u64 = 4 * MS;
const MOST_RISE: u64 = 16 * MS;
/// The number of samples per round that suffices.
const SAMPLES: u32 = 8;
/// The divisor of the growth in Conservative Slow Start, and its duration in rounds.
const CONSERVATIVE_DIVISOR: u64 = 4;
const CONSERVATIVE_ROUNDS: u32 = 5;

#[derive(Default)]
pub(super) struct HyStart {
    phase: Phase,
    /// The round ends when this is acknowledged.
    round_end: Seq,
    last: Option<u64>,
    current: Option<u64>,
    samples: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Slow,
    /// Conservative Slow Start, begun at a certain round trip time, for some rounds.
    Conservative {
        baseline: u64,
        rounds: u32,
    },
    Over,
}

impl HyStart {
    /// Handles an acknowledgment in slow start; returns the divisor for the growth.
    pub fn on_ack(&mut self, ack: &Ack) -> u64 {
        if self.phase == Phase::Over {
            return 1;
        }
        if let Some(rtt) = ack.rtt {
            self.current = Some(self.current.map_or(rtt, |current| current.min(rtt)));
            self.samples += 1;
        }
        self.judge();
        if ack.una >= self.round_end {
            self.next_round(ack.nxt);
        }
        if matches!(self.phase, Phase::Conservative { .. }) {
            CONSERVATIVE_DIVISOR
        } else {
            1
        }
    }

    fn judge(&mut self) {
        let (Some(last), Some(current)) = (self.last, self.current) else {
            return;
        };
        if self.samples < SAMPLES {
            return;
        }
        match self.phase {
            Phase::Slow if current >= last + (last / 8).clamp(LEAST_RISE, MOST_RISE) => {
                self.phase = Phase::Conservative {
                    baseline: current,
                    rounds: 0,
                };
            }
            // The rise was not caused by a queue.
            Phase::Conservative { baseline, .. } if current < baseline => self.phase = Phase::Slow,
            _ => {}
        }
    }

    fn next_round(&mut self, end: Seq) {
        self.round_end = end;
        self.last = self.current.take();
        self.samples = 0;
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds >= CONSERVATIVE_ROUNDS {
                self.phase = Phase::Over;
            }
        }
    }

    /// Whether congestion avoidance begins.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// A loss has ended slow start: only the first slow start is ended early.
    pub fn leave(&mut self) {
        self.phase = Phase::Over;
    }
}
