//! How the clock advances under its discipline.

use super::*;

/// A ns of `owed`, in which rates are multiplied by ns and nothing is rounded; and the rate that
/// CLOCK_MONOTONIC itself has.
const NANOSECOND: i128 = (SECOND as i128) << SCALE;
/// The most that a move of the offset sets the clock back, in ns: more than the slowest clock loses
/// in [`SHORTEST`]. A move that comes late is made up for in several.
pub const MOST_BACK: i64 = 250_000;
/// The least time from one move to the next, in ns.
pub const SHORTEST: u64 = 1_000_000;
/// A move is worth while once so many ns are due: about the cost of reading the clock.
const NOTICED: i128 = 64;
/// Seconds that are looked at one by one where their rates differ, after a time in which nobody
/// moved the clock, such as that of a machine that was stopped. Later ones are as the last.
const MOST_AT_ONCE: usize = 1000;

/// The time of CLOCK_MONOTONIC in which a clock advances by `ns`, whose rate is the nominal one
/// plus `rate`.
pub fn unslewed(ns: u64, rate: i64) -> u64 {
    let nominal = NANOSECOND as u128;
    let whole = nominal.saturating_add_signed(rate.into()).max(1);
    u64::try_from(u128::from(ns) * nominal / whole).unwrap_or(u64::MAX)
}

impl Ntp {
    /// Moves the clock on to `now` of CLOCK_MONOTONIC, in ns. Between two changes it makes no
    /// difference how often that is done, but to how much of it the offset already shows.
    pub fn advance(&mut self, now: u64) {
        for _ in 0..MOST_AT_ONCE {
            let until = self.until_second();
            if self.is_steady() || now.saturating_sub(self.at) < until {
                break;
            }
            self.run(until);
            self.end_second();
        }
        self.run(now.saturating_sub(self.at));
        let second = self.second.max(self.shown() + 1);
        self.age(second - self.second);
        self.second = second;
        self.apply_due();
    }

    /// In how many ns the clock wants to be moved; never, while it goes on as CLOCK_MONOTONIC.
    pub fn next(&self) -> Option<u64> {
        let is_settled = (0..NANOSECOND).contains(&self.owed);
        let rate = i128::from(self.rate()).abs();
        if is_settled && self.is_steady() && rate == 0 {
            return None;
        }
        let due = match rate {
            _ if !is_settled => 0,
            0 => u64::MAX,
            _ => u64::try_from(NOTICED * NANOSECOND / rate).unwrap_or(u64::MAX),
        };
        Some(due.min(self.until_second()).max(SHORTEST))
    }

    /// A rate that it does not exceed before it is changed again, less the nominal one, and to
    /// which it is equal while it is steady.
    pub fn fastest(&self) -> i64 {
        let phase = self.phase_rate.max(self.part_of_phase() * INTERVALS);
        let single = self.single_rate.max(single_rate(self.part_of_single()));
        self.base() + phase.max(0) + single.max(0)
    }

    /// The full seconds that it shows.
    pub(super) fn shown(&self) -> i64 {
        let ns = i128::from(self.at) + i128::from(self.offset) + self.owed.div_euclid(NANOSECOND);
        ns.div_euclid(SECOND.into()) as i64
    }

    fn base(&self) -> i64 {
        (self.tick - TICK) * TICK_UNIT + self.frequency
    }

    fn rate(&self) -> i64 {
        self.base() + self.phase_rate + self.single_rate
    }

    /// Whether the next second is as this one.
    fn is_steady(&self) -> bool {
        self.phase_rate == 0
            && self.single_rate == 0
            && self.part_of_phase() == 0
            && self.single == 0
            && !self.may_leap()
    }

    /// The amount that the next second takes off of the phase.
    fn part_of_phase(&self) -> i64 {
        shift_right(self.phase, SHIFT_PLL + self.constant)
    }

    fn part_of_single(&self) -> i64 {
        self.single.clamp(-MOST_SINGLE, MOST_SINGLE)
    }

    /// How much of CLOCK_MONOTONIC, in ns, passes until a second is full.
    fn until_second(&self) -> u64 {
        let shown = i128::from(self.at) + i128::from(self.offset);
        let ns = i128::from(self.second) * i128::from(SECOND) - shown;
        let left = ns * NANOSECOND - self.owed;
        let whole = NANOSECOND + i128::from(self.rate());
        let passes = left.max(0) as u128;
        u64::try_from(passes.div_ceil(whole as u128)).unwrap_or(u64::MAX)
    }

    fn run(&mut self, ns: u64) {
        self.at += ns;
        self.owed += i128::from(self.rate()) * i128::from(ns);
    }

    fn end_second(&mut self) {
        self.second += 1;
        self.age(1);
        let phase = self.part_of_phase();
        self.phase -= phase;
        self.phase_rate = phase * INTERVALS;
        let single = self.part_of_single();
        self.single -= single;
        self.single_rate = single_rate(single);
        self.end_second_of_leap();
    }

    /// So many seconds passed: the clock may be wrong by more.
    fn age(&mut self, seconds: i64) {
        let grown = seconds.saturating_mul(DRIFT).saturating_add(self.max_error);
        self.max_error = grown.min(MOST_ERROR);
        if grown > MOST_ERROR {
            self.status |= STA_UNSYNC;
        }
    }

    /// Adds the part that is due to the offset.
    fn apply_due(&mut self) {
        let whole = self.owed.div_euclid(NANOSECOND).max((-MOST_BACK).into());
        self.owed -= whole * NANOSECOND;
        self.offset = self.offset.saturating_add(whole as i64);
    }
}

fn single_rate(us: i64) -> i64 {
    (us * 1000) << SCALE
}
