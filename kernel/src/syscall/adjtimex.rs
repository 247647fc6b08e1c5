//! adjtimex(2): what a program that keeps the time of day right tells and asks. All of it is kept,
//! a step of the time is done, and CLOCK_TAI's; the clock's rate stays what it is.

use linux_raw_sys::general::{
    CAP_SYS_TIME, CLOCK_BOOTTIME_ALARM, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_TAI,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::time::{Pair, timespec};
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use crate::task::clock::{self, SECOND};
use crate::task::require;

/// `struct timex` (include/uapi/linux/timex.h).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Timex {
    modes: u64,
    offset: i64,
    frequency: i64,
    most_error: i64,
    estimated_error: i64,
    status: u64,
    constant: i64,
    precision: i64,
    tolerance: i64,
    time: Pair,
    tick: i64,
    pulse: [u64; 8],
    tai: u64,
    rest: [u64; 5],
}

const _: () = assert!(size_of::<Timex>() == 208);

bitflags::bitflags! {
    /// ADJ_*: which fields are to be taken.
    struct Modes: u32 {
        const OFFSET = 0x1;
        const FREQUENCY = 0x2;
        const MOST_ERROR = 0x4;
        const ESTIMATED_ERROR = 0x8;
        const STATUS = 0x10;
        const CONSTANT = 0x20;
        const TAI = 0x80;
        const SET_OFFSET = 0x100;
        const MICRO = 0x1000;
        /// With `SINGLE`, ask and change nothing.
        const NANO = 0x2000;
        const TICK = 0x4000;
        /// adjtime(3): one offset, to be made up for in time.
        const SINGLE = 0x8000;
    }
}

/// STA_*: the clock keeps phase with something; nobody keeps it right; its parts of seconds are
/// nanoseconds.
const PHASE_LOCKED: u32 = 0x1;
const UNSYNCHRONISED: u32 = 0x40;
const NANO: u32 = 0x2000;
/// Bits that are the kernel's, and those that say the clock is wrong.
const READ_ONLY: u32 = 0xff00;
const WRONG: u32 = UNSYNCHRONISED | 0x1000;
/// TIME_ERROR
const ERROR: usize = 5;
/// The largest errors (in us), frequency (65536 for a millionth), offset (in ns), time constant and
/// TAI offset (in s).
const MOST_ERROR: i64 = 16_000_000;
const MOST_FREQUENCY: i64 = 32_768_000;
const MOST_OFFSET: i64 = SECOND as i64 / 2;
const MOST_CONSTANT: i64 = 10;
const MOST_TAI: i64 = 100_000;
/// What a tick may be, in us, where there are USER_HZ a second.
const TICKS: core::ops::RangeInclusive<i64> = 9_000..=11_000;

struct State {
    offset: i64,
    single: i64,
    frequency: i64,
    most_error: i64,
    estimated_error: i64,
    status: u32,
    constant: i64,
    tick: i64,
}

static STATE: Mutex<State> = Mutex::new(State {
    offset: 0,
    single: 0,
    frequency: 0,
    most_error: MOST_ERROR,
    estimated_error: MOST_ERROR,
    status: UNSYNCHRONISED,
    constant: 2,
    tick: 10_000,
});

/// EPERM or EINVAL where `asked` may not be done.
fn check(asked: &Timex, modes: &Modes) -> Result<()> {
    if modes.contains(Modes::SINGLE) {
        if !modes.contains(Modes::OFFSET) {
            return Err(Errno::EINVAL);
        }
        if !modes.contains(Modes::NANO) {
            require(CAP_SYS_TIME)?;
        }
    } else {
        if !modes.is_empty() {
            require(CAP_SYS_TIME)?;
        }
        if modes.contains(Modes::TICK) && !TICKS.contains(&asked.tick) {
            return Err(Errno::EINVAL);
        }
    }
    if modes.contains(Modes::SET_OFFSET) {
        require(CAP_SYS_TIME)?;
        step(asked, modes)?;
    }
    Ok(())
}

/// By how many ns the time of day is to be set forward.
fn step(asked: &Timex, modes: &Modes) -> Result<i64> {
    let [seconds, part] = asked.time;
    let unit = if modes.contains(Modes::NANO) { 1 } else { 1000 };
    if !(0..SECOND as i64 / unit).contains(&part) {
        return Err(Errno::EINVAL);
    }
    let seconds = seconds.checked_mul(SECOND as i64).ok_or(Errno::EINVAL)?;
    seconds.checked_add(part * unit).ok_or(Errno::EINVAL)
}

impl State {
    fn change(&mut self, asked: &Timex, modes: &Modes) {
        if modes.contains(Modes::STATUS) {
            self.status = self.status & READ_ONLY | asked.status as u32 & !READ_ONLY;
        }
        if modes.contains(Modes::NANO) {
            self.status |= NANO;
        }
        if modes.contains(Modes::MICRO) {
            self.status &= !NANO;
        }
        if modes.contains(Modes::FREQUENCY) {
            self.frequency = asked.frequency.clamp(-MOST_FREQUENCY, MOST_FREQUENCY);
        }
        if modes.contains(Modes::MOST_ERROR) {
            self.most_error = asked.most_error.clamp(0, MOST_ERROR);
        }
        if modes.contains(Modes::ESTIMATED_ERROR) {
            self.estimated_error = asked.estimated_error.clamp(0, MOST_ERROR);
        }
        if modes.contains(Modes::CONSTANT) {
            let coarser = if self.status & NANO == 0 { 4 } else { 0 };
            let constant = asked.constant.clamp(0, MOST_CONSTANT) + coarser;
            self.constant = constant.min(MOST_CONSTANT);
        }
        if modes.contains(Modes::TAI) && (0..=MOST_TAI).contains(&asked.constant) {
            clock::set_tai_offset(asked.constant as u32);
        }
        if modes.contains(Modes::OFFSET) && self.status & PHASE_LOCKED != 0 {
            let unit = if self.status & NANO != 0 { 1 } else { 1000 };
            let offset = asked.offset.saturating_mul(unit);
            self.offset = offset.clamp(-MOST_OFFSET, MOST_OFFSET);
        }
        if modes.contains(Modes::TICK) {
            self.tick = asked.tick;
        }
    }

    fn notify(&self, modes: u64, offset: i64) -> Timex {
        let [seconds, ns] = timespec(clock::realtime_ns());
        let unit = if self.status & NANO != 0 { 1 } else { 1000 };
        Timex {
            modes,
            offset,
            frequency: self.frequency,
            most_error: self.most_error,
            estimated_error: self.estimated_error,
            status: self.status.into(),
            constant: self.constant,
            precision: 1,
            tolerance: MOST_FREQUENCY,
            time: [seconds, ns / unit],
            tick: self.tick,
            pulse: [0; 8],
            tai: clock::tai_offset().into(),
            rest: [0; 5],
        }
    }
}

/// adjtimex(2)
pub fn adjtimex(buffer: usize) -> Result<usize> {
    let asked = UserPtr::<Timex>::new(buffer).read()?;
    let modes = Modes::from_bits_truncate(asked.modes as u32);
    check(&asked, &modes)?;
    if modes.contains(Modes::SET_OFFSET) {
        let now = clock::realtime_ns().checked_add_signed(step(&asked, &modes)?);
        clock::set_realtime(now.ok_or(Errno::EINVAL)?);
    }
    let mut state = STATE.lock();
    let offset = if modes.contains(Modes::SINGLE) {
        let before = state.single;
        if !modes.contains(Modes::NANO) {
            state.single = asked.offset;
        }
        before
    } else {
        state.change(&asked, &modes);
        let unit = if state.status & NANO != 0 { 1 } else { 1000 };
        state.offset / unit
    };
    let answer = state.notify(asked.modes, offset);
    let wrong = state.status & WRONG != 0;
    drop(state);
    UserPtr::new(buffer).write(&answer)?;
    Ok(if wrong { ERROR } else { 0 })
}

/// clock_adjtime(2)
pub fn clock_adjtime(clock: u32, buffer: usize) -> Result<usize> {
    match clock {
        CLOCK_REALTIME => adjtimex(buffer),
        CLOCK_MONOTONIC..=CLOCK_BOOTTIME_ALARM | CLOCK_TAI => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}
