//! Leap seconds: at the end of a day of UTC one is inserted, as the last second shown twice, or
//! deleted, as Linux's second_overflow does.

use super::*;

const DAY: i64 = 86_400;

/// The state of a leap second, as adjtimex(2) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leap {
    /// None is scheduled (TIME_OK).
    None,
    /// One is inserted when the clock reaches this second (TIME_INS).
    Inserts(i64),
    /// The one before this second is deleted (TIME_DEL).
    Deletes(i64),
    /// The leap second is in progress (TIME_OOP).
    Passes,
    /// The leap second is past, and its status bit is still set (TIME_WAIT).
    Past,
}

impl Leap {
    /// The value that adjtimex(2) returns.
    pub fn state(self) -> u32 {
        match self {
            Leap::None => 0,
            Leap::Inserts(_) => 1,
            Leap::Deletes(_) => 2,
            Leap::Passes => 3,
            Leap::Past => 4,
        }
    }

    /// Returns the state after the clock was set: a scheduled leap second is cancelled.
    pub(super) fn void(self) -> Leap {
        match self {
            Leap::Inserts(_) => Leap::Inserts(i64::MAX),
            Leap::Deletes(_) => Leap::Deletes(i64::MAX),
            other => other,
        }
    }
}

impl Ntp {
    /// Whether a leap second is requested, or in progress.
    pub(super) fn may_leap(&self) -> bool {
        self.leap != Leap::None || self.status & (STA_INS | STA_DEL) != 0
    }

    /// A second begins. One that a leap was due at may have been passed over, after a long time in
    /// which nobody moved the clock.
    pub(super) fn end_second_of_leap(&mut self) {
        let (begun, asked) = (self.second - 1, self.status & (STA_INS | STA_DEL));
        self.leap = match self.leap {
            Leap::None if asked & STA_INS != 0 => {
                Leap::Inserts(begun + DAY - begun.rem_euclid(DAY))
            }
            Leap::None if asked & STA_DEL != 0 => {
                Leap::Deletes(begun + DAY - (begun + 1).rem_euclid(DAY))
            }
            Leap::Inserts(_) if asked & STA_INS == 0 => Leap::None,
            Leap::Inserts(second) if second <= begun => {
                self.leap_by(-1);
                Leap::Passes
            }
            Leap::Deletes(_) if asked & STA_DEL == 0 => Leap::None,
            Leap::Deletes(second) if second <= begun => {
                self.leap_by(1);
                Leap::Past
            }
            Leap::Passes => Leap::Past,
            Leap::Past if asked == 0 => Leap::None,
            other => other,
        };
    }

    /// The clock shows so many seconds more, and CLOCK_TAI is unchanged.
    fn leap_by(&mut self, seconds: i64) {
        self.offset = self.offset.saturating_add(seconds * SECOND);
        self.second += seconds;
        self.tai -= seconds;
    }
}
