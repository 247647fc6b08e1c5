//! The discipline of the time of day, as adjtimex(2) sets it: a frequency, a tick, an offset that a
//! phase-locked loop removes (RFC 1589), and an offset of adjtime(3). Its arithmetic is that of a
//! Linux with 250 ticks per second (kernel/time/ntp.c), as far as a program can tell. Leap seconds
//! happen when adjtimex(2) requests them.
//!
//! CLOCK_MONOTONIC keeps its own rate here. The offset to CLOCK_REALTIME changes, and the caller
//! adjusts it from time to time: [`Ntp::next`] says when, and [`Ntp::advance`] by how much.
#![no_std]
#![forbid(unsafe_code)]

mod leap;
mod slew;

pub use leap::Leap;
pub use slew::{MOST_BACK, SHORTEST, unslewed};

const SECOND: i64 = 1_000_000_000;
/// Rates are in ns per second of CLOCK_MONOTONIC, with this many fractional bits.
const SCALE: u32 = 32;
/// Ticks per second of Linux's clock: the phase is corrected in as many parts.
const INTERVALS: i64 = 250;
/// A unit of the frequency that programs give, 2^-16 millionths, as a rate.
const FREQUENCY_UNIT: i64 = 1000 << (SCALE - 16);
/// The nominal tick, in us, and the rate that one us more is, at USER_HZ = 100.
const TICK: i64 = 10_000;
const TICK_UNIT: i64 = 100_000 << SCALE;
/// How much of the phase a second takes off, and of how many the frequency learns.
const SHIFT_PLL: u32 = 2;
const SHIFT_FLL: u32 = 2;
/// Seconds between offsets: fewer do not lock the frequency, more always do.
const LEAST_SECONDS: i64 = 256;
const MOST_SECONDS: i64 = 2048;
const MOST_CONSTANT: i64 = 10;
/// As a rate.
const MOST_FREQUENCY: i64 = 500_000 << SCALE;
/// In ns.
const MOST_PHASE: i64 = SECOND / 2;
/// In us: the limit of an error, and its growth in a second.
const MOST_ERROR: i64 = 16_000_000;
const DRIFT: i64 = 500;
/// In us: the part of adjtime(3)'s offset that is made up for in a second.
const MOST_SINGLE: i64 = 500;

/// STA_PLL: offsets are taken off.
pub const STA_PLL: u32 = 0x1;
/// STA_FLL: the frequency is learnt from long intervals.
pub const STA_FLL: u32 = 0x8;
/// STA_INS: a second is inserted at the end of the day.
pub const STA_INS: u32 = 0x10;
/// STA_DEL: the last second of the day is deleted.
pub const STA_DEL: u32 = 0x20;
/// STA_UNSYNC: the clock is not synchronised.
pub const STA_UNSYNC: u32 = 0x40;
/// STA_FREQHOLD: offsets do not change the frequency.
pub const STA_FREQHOLD: u32 = 0x80;
/// STA_CLOCKERR.
const STA_CLOCKERR: u32 = 0x1000;
/// STA_NANO: offsets are in ns, not us.
pub const STA_NANO: u32 = 0x2000;
/// STA_MODE: the frequency was learnt from a long interval.
pub const STA_MODE: u32 = 0x4000;
/// Bits that programs cannot set.
const STA_RONLY: u32 = 0xff00;

/// The values that adjtimex(2) is asked to set, in the units of `struct timex`; others are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// ADJ_STATUS.
    pub status: Option<u32>,
    /// ADJ_NANO: true; ADJ_MICRO: false.
    pub nano: Option<bool>,
    /// ADJ_FREQUENCY.
    pub frequency: Option<i64>,
    /// ADJ_MAXERROR.
    pub max_error: Option<i64>,
    /// ADJ_ESTERROR.
    pub estimated_error: Option<i64>,
    /// ADJ_TIMECONST.
    pub constant: Option<i64>,
    /// ADJ_OFFSET.
    pub offset: Option<i64>,
    /// ADJ_TICK, which is from 9000 to 11000.
    pub tick: Option<i64>,
    /// ADJ_TAI.
    pub tai: Option<i64>,
}

/// The values that adjtimex(2) reports, in the units of `struct timex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readout {
    /// The remaining offset.
    pub offset: i64,
    pub frequency: i64,
    pub max_error: i64,
    pub estimated_error: i64,
    pub status: u32,
    pub constant: i64,
    pub tick: i64,
    /// CLOCK_TAI less CLOCK_REALTIME, in s.
    pub tai: i64,
    pub leap: Leap,
}

/// TIME_ERROR
const ERROR: u32 = 5;

impl Readout {
    /// Whether the clock is known to be wrong.
    pub fn is_wrong(&self) -> bool {
        self.status & (STA_UNSYNC | STA_CLOCKERR) != 0
    }

    /// The return value of adjtimex(2): TIME_ERROR if the clock is wrong.
    pub fn state(&self) -> u32 {
        match self.is_wrong() {
            true => ERROR,
            false => self.leap.state(),
        }
    }
}

/// The discipline, and the clock up to the last advance.
#[derive(Clone, Copy, Debug)]
pub struct Ntp {
    /// CLOCK_MONOTONIC, in ns, at which the rest stands.
    at: u64,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, in ns.
    offset: i64,
    /// The amount that this offset lacks: less than a ns, but for moves put off (`MOST_BACK`).
    owed: i128,
    /// The next second of CLOCK_REALTIME.
    second: i64,

    tick: i64,
    /// A rate.
    frequency: i64,
    /// A part of an interval's.
    phase: i64,
    /// In us.
    single: i64,
    /// The amounts that this second takes off of them, as rates.
    phase_rate: i64,
    single_rate: i64,

    constant: u32,
    status: u32,
    /// In us.
    max_error: i64,
    estimated_error: i64,
    /// The second in which an offset was given last.
    reference: i64,
    leap: Leap,
    /// CLOCK_TAI less CLOCK_REALTIME, in s.
    tai: i64,
}

/// `value` over 2^`shift`, rounded toward 0.
fn shift_right(value: i64, shift: u32) -> i64 {
    value / (1 << shift)
}

impl Ntp {
    /// A clock that shows 0 at 0 and runs at its nominal rate, unsynchronised.
    pub const fn new() -> Self {
        Ntp {
            at: 0,
            offset: 0,
            owed: 0,
            second: 1,
            tick: TICK,
            frequency: 0,
            phase: 0,
            single: 0,
            phase_rate: 0,
            single_rate: 0,
            constant: 2,
            status: STA_UNSYNC,
            max_error: MOST_ERROR,
            estimated_error: MOST_ERROR,
            reference: 0,
            leap: Leap::None,
            tai: 0,
        }
    }

    /// CLOCK_REALTIME less CLOCK_MONOTONIC, in ns.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// CLOCK_TAI less CLOCK_REALTIME, in s.
    pub fn tai(&self) -> i64 {
        self.tai
    }

    /// CLOCK_REALTIME at the last advance, in ns.
    pub fn realtime(&self) -> i64 {
        (self.at as i64).saturating_add(self.offset)
    }

    /// The clock is set: it is `offset` ns ahead of CLOCK_MONOTONIC, which shows `now`. An offset
    /// that was still to be made up for is void, and the rate stays.
    pub fn set(&mut self, now: u64, offset: i64) {
        *self = Ntp {
            at: now,
            offset,
            owed: 0,
            phase: 0,
            single: 0,
            phase_rate: 0,
            single_rate: 0,
            status: self.status | STA_UNSYNC,
            max_error: MOST_ERROR,
            estimated_error: MOST_ERROR,
            leap: self.leap.void(),
            ..*self
        };
        self.second = self.shown() + 1;
    }

    /// Applies a request of adjtimex(2).
    pub fn change(&mut self, asked: &Change) {
        if let Some(status) = asked.status {
            self.set_status(status);
        }
        match asked.nano {
            Some(true) => self.status |= STA_NANO,
            Some(false) => self.status &= !STA_NANO,
            None => {}
        }
        if let Some(frequency) = asked.frequency {
            let rate = frequency.saturating_mul(FREQUENCY_UNIT);
            self.frequency = rate.clamp(-MOST_FREQUENCY, MOST_FREQUENCY);
        }
        if let Some(error) = asked.max_error {
            self.max_error = error.clamp(0, MOST_ERROR);
        }
        if let Some(error) = asked.estimated_error {
            self.estimated_error = error.clamp(0, MOST_ERROR);
        }
        if let Some(constant) = asked.constant {
            let coarser = if self.is_nano() { 0 } else { 4 };
            let constant = constant.clamp(0, MOST_CONSTANT) + coarser;
            self.constant = constant.min(MOST_CONSTANT) as u32;
        }
        if let Some(offset) = asked.offset {
            self.set_phase(offset);
        }
        if let Some(tick) = asked.tick {
            self.tick = tick;
        }
        if let Some(tai) = asked.tai {
            self.tai = tai;
        }
    }

    /// Replaces the offset that adjtime(3) asked to make up for, in us.
    pub fn set_single(&mut self, us: i64) {
        self.single = us;
    }

    /// The remaining part of that offset, in us.
    pub fn single(&self) -> i64 {
        self.single
    }

    /// The settings, and their present effect.
    pub fn readout(&self) -> Readout {
        let left = shift_right(self.phase * INTERVALS, SCALE);
        Readout {
            offset: if self.is_nano() { left } else { left / 1000 },
            frequency: self.frequency / FREQUENCY_UNIT,
            max_error: self.max_error,
            estimated_error: self.estimated_error,
            status: self.status,
            constant: self.constant.into(),
            tick: self.tick,
            tai: self.tai,
            leap: self.leap,
        }
    }

    fn is_nano(&self) -> bool {
        self.status & STA_NANO != 0
    }

    fn set_status(&mut self, asked: u32) {
        match (self.status & STA_PLL, asked & STA_PLL) {
            // The loop ends, and its status with it.
            (STA_PLL, 0) => (self.status, self.leap) = (0, Leap::None),
            (0, STA_PLL) => self.reference = self.second - 1,
            _ => {}
        }
        self.status = self.status & STA_RONLY | asked & !STA_RONLY;
    }

    /// The clock is wrong by `offset`: it is to be taken off, and the frequency to learn from it.
    fn set_phase(&mut self, offset: i64) {
        if self.status & STA_PLL == 0 {
            return;
        }
        let unit = if self.is_nano() { 1 } else { 1000 };
        let ns = offset.saturating_mul(unit).clamp(-MOST_PHASE, MOST_PHASE);
        let now = self.second - 1;
        let seconds = match self.status & STA_FREQHOLD {
            0 => now - self.reference,
            _ => 0,
        };
        self.reference = now;
        let learnt = self.locked_to_frequency(ns, seconds) + self.locked_to_phase(ns, seconds);
        let most = i128::from(MOST_FREQUENCY);
        self.frequency = (i128::from(self.frequency) + learnt).clamp(-most, most) as i64;
        self.phase = (ns << SCALE) / INTERVALS;
    }

    /// The change of the frequency by a phase-locked loop. An interval so long that it would
    /// overshoot counts as a shorter one; the clock may have been set back since the last.
    fn locked_to_phase(&self, ns: i64, seconds: i64) -> i128 {
        let seconds = seconds.min(1 << (SHIFT_PLL + 1 + self.constant));
        let gain = SCALE - 2 * (SHIFT_PLL + 2 + self.constant);
        (i128::from(ns) * i128::from(seconds)) << gain
    }

    /// The change by a frequency-locked loop.
    fn locked_to_frequency(&mut self, ns: i64, seconds: i64) -> i128 {
        self.status &= !STA_MODE;
        let wanted = self.status & STA_FLL != 0 || seconds > MOST_SECONDS;
        if seconds < LEAST_SECONDS || !wanted {
            return 0;
        }
        self.status |= STA_MODE;
        (i128::from(ns) << (SCALE - SHIFT_FLL)) / i128::from(seconds)
    }
}

impl Default for Ntp {
    fn default() -> Self {
        Self::new()
    }
}
