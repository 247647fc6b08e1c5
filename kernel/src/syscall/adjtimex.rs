//! adjtimex(2), by which a time daemon sets and reads the clock. The crate `ntp` has the
//! arithmetic, and `task/ntp.rs` moves the clock.

use linux_raw_sys::general::{
    CAP_SYS_TIME, CLOCK_BOOTTIME_ALARM, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_TAI,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use ntp::{Change, Ntp, STA_NANO};

use super::time::{Pair, timespec};
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::clock::SECOND;
use crate::task::{ntp as discipline, require};

/// `struct timex` (include/uapi/linux/timex.h).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Timex {
    /// The fields to set (ADJ_*).
    pub modes: u64,
    /// The rest of an offset, in us or ns.
    pub offset: i64,
    /// 65536ths of a millionth.
    pub frequency: i64,
    /// The largest error, in us.
    pub most_error: i64,
    /// The estimated error, in us.
    pub estimated_error: i64,
    /// STA_*.
    pub status: u64,
    /// The loop's time constant, or the TAI offset in s.
    pub constant: i64,
    /// In us.
    pub precision: i64,
    /// Tolerance of the frequency.
    pub tolerance: i64,
    /// The time of day, or a step.
    pub time: Pair,
    /// us between ticks.
    pub tick: i64,
    /// PPS fields; always zero.
    pub pulse: [u64; 8],
    /// The TAI offset, in s.
    pub tai: u64,
    /// Unused.
    pub rest: [u64; 5],
}

const _: () = assert!(size_of::<Timex>() == 208);

bitflags::bitflags! {
    /// ADJ_*: the fields to set.
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
        /// With `SINGLE`, only reads.
        const NANO = 0x2000;
        const TICK = 0x4000;
        /// adjtime(3): a single offset, which is corrected gradually.
        const SINGLE = 0x8000;
    }
}

/// The largest frequency (65536 per millionth), and the value to which larger ones are reduced.
const TOLERANCE: i64 = 500 << 16;
const MOST_FREQUENCY: i64 = i64::MAX / (1000 << 16);
/// The largest TAI offset, in s.
const MOST_TAI: i64 = 100_000;
/// The limits of a tick, in us, with USER_HZ ticks per second.
const TICKS: core::ops::RangeInclusive<i64> = 9_000..=11_000;

/// EPERM or EINVAL if `asked` is not allowed.
fn check(asked: &Timex, modes: &Modes) -> Result<()> {
    if modes.contains(Modes::SINGLE) {
        if !modes.contains(Modes::OFFSET) {
            return Err(Errno::EINVAL);
        }
        if !modes.contains(Modes::NANO) {
            require(CAP_SYS_TIME)?;
        }
    } else {
        if asked.modes as u32 != 0 {
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
    let is_known = (-MOST_FREQUENCY..=MOST_FREQUENCY).contains(&asked.frequency);
    if modes.contains(Modes::FREQUENCY) && !is_known {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// The ns by which the time of day is to be set forward.
fn step(asked: &Timex, modes: &Modes) -> Result<i64> {
    let [seconds, part] = asked.time;
    let unit = if modes.contains(Modes::NANO) { 1 } else { 1000 };
    if !(0..SECOND as i64 / unit).contains(&part) {
        return Err(Errno::EINVAL);
    }
    let seconds = seconds.checked_mul(SECOND as i64).ok_or(Errno::EINVAL)?;
    seconds.checked_add(part * unit).ok_or(Errno::EINVAL)
}

fn change(asked: &Timex, modes: &Modes) -> Change {
    let given = |mode: Modes, value: i64| modes.contains(mode).then_some(value);
    let nano = match (modes.contains(Modes::NANO), modes.contains(Modes::MICRO)) {
        (_, true) => Some(false),
        (true, false) => Some(true),
        (false, false) => None,
    };
    Change {
        status: modes.contains(Modes::STATUS).then_some(asked.status as u32),
        nano,
        frequency: given(Modes::FREQUENCY, asked.frequency),
        max_error: given(Modes::MOST_ERROR, asked.most_error),
        estimated_error: given(Modes::ESTIMATED_ERROR, asked.estimated_error),
        constant: given(Modes::CONSTANT, asked.constant),
        offset: given(Modes::OFFSET, asked.offset),
        tick: given(Modes::TICK, asked.tick),
        tai: given(Modes::TAI, asked.constant).filter(|tai| (0..=MOST_TAI).contains(tai)),
    }
}

fn to_timex(modes: u64, offset: i64, clock: &Ntp) -> Timex {
    let readout = clock.readout();
    let [seconds, ns] = timespec(clock.realtime().max(0) as u64);
    let unit = if readout.status & STA_NANO != 0 {
        1
    } else {
        1000
    };
    Timex {
        modes,
        offset,
        frequency: readout.frequency,
        most_error: readout.max_error,
        estimated_error: readout.estimated_error,
        status: readout.status.into(),
        constant: readout.constant,
        precision: 1,
        tolerance: TOLERANCE,
        time: [seconds, ns / unit],
        tick: readout.tick,
        pulse: [0; 8],
        tai: readout.tai as u64,
        rest: [0; 5],
    }
}

/// adjtimex(2)
pub fn adjtimex(buffer: usize) -> Result<usize> {
    adjust_in(&UserPtr::new(buffer).read()?, buffer)
}

fn adjust_in(asked: &Timex, buffer: usize) -> Result<usize> {
    let (timex, state) = adjust(asked)?;
    UserPtr::new(buffer).write(&timex)?;
    Ok(state)
}

/// Applies a `struct timex`; returns the contents to write back, and the clock's state.
///
/// # Errors
/// EINVAL, EPERM, ENOMEM.
pub fn adjust(asked: &Timex) -> Result<(Timex, usize)> {
    let modes = Modes::from_bits_truncate(asked.modes as u32);
    check(asked, &modes)?;
    let step = modes
        .contains(Modes::SET_OFFSET)
        .then(|| step(asked, &modes))
        .transpose()?;
    let single = modes.contains(Modes::SINGLE);
    let before = discipline::now();
    let after = if single && !modes.contains(Modes::NANO) {
        discipline::change(step, |ntp| ntp.set_single(asked.offset))?
    } else if single && step.is_some() {
        discipline::change(step, |_| ())?
    } else if single || modes.is_empty() {
        before
    } else {
        discipline::change(step, |ntp| ntp.change(&change(asked, &modes)))?
    };
    let readout = after.readout();
    let offset = if single {
        before.single()
    } else {
        readout.offset
    };
    let timex = to_timex(asked.modes, offset, &after);
    Ok((timex, readout.state() as usize))
}

/// clock_adjtime(2)
pub fn clock_adjtime(clock: u32, buffer: usize) -> Result<usize> {
    let asked = UserPtr::new(buffer).read()?;
    check_adjustable(clock)?;
    adjust_in(&asked, buffer)
}

/// EOPNOTSUPP or EINVAL unless the clock can be adjusted.
pub fn check_adjustable(clock: u32) -> Result<()> {
    match clock {
        CLOCK_REALTIME => Ok(()),
        CLOCK_MONOTONIC..=CLOCK_BOOTTIME_ALARM | CLOCK_TAI => Err(Errno::EOPNOTSUPP),
        // A clock of CPU time; a number that ends in 3 is a device's.
        _ if (clock as i32) < 0 && clock & 7 != 3 => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}
