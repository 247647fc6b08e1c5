//! Clocks and file times in 32-bit structures.

use linux_raw_sys::general::AT_FDCWD;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::syscall::adjtimex::{self, Timex};
use crate::syscall::layout::{Compat, Layout, given};
use crate::syscall::stat;

/// `struct old_timex32`: as `struct timex`, in words of 32 bits.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Timex32 {
    modes: u32,
    /// The fields from the offset to the estimated error.
    errors: [i32; 4],
    status: u32,
    /// The constant, the precision, the tolerance.
    loop_values: [i32; 3],
    time: [i32; 2],
    tick: i32,
    pulse: [u32; 8],
    tai: u32,
    rest: [u32; 11],
}

const _: () = assert!(size_of::<Timex32>() == 128);

impl Timex32 {
    fn to_wide(self) -> Timex {
        let [offset, frequency, most_error, estimated_error] = self.errors.map(i64::from);
        let [constant, precision, tolerance] = self.loop_values.map(i64::from);
        Timex {
            modes: self.modes.into(),
            offset,
            frequency,
            most_error,
            estimated_error,
            status: self.status.into(),
            constant,
            precision,
            tolerance,
            time: self.time.map(i64::from),
            tick: self.tick.into(),
            pulse: self.pulse.map(u64::from),
            tai: self.tai.into(),
            rest: [0; 5],
        }
    }

    fn of(wide: &Timex) -> Self {
        let narrow = |value: i64| value as i32;
        Self {
            modes: wide.modes as u32,
            errors: [
                wide.offset,
                wide.frequency,
                wide.most_error,
                wide.estimated_error,
            ]
            .map(narrow),
            status: wide.status as u32,
            loop_values: [wide.constant, wide.precision, wide.tolerance].map(narrow),
            time: wide.time.map(narrow),
            tick: narrow(wide.tick),
            pulse: wide.pulse.map(|value| value as u32),
            tai: wide.tai as u32,
            rest: [0; 11],
        }
    }
}

pub fn adjtimex(buffer: usize) -> Result<usize> {
    let asked = UserPtr::<Timex32>::new(buffer).read()?;
    let (timex, state) = adjtimex::adjust(&asked.to_wide())?;
    UserPtr::new(buffer).write(&Timex32::of(&timex))?;
    Ok(state)
}

pub fn clock_adjtime(clock: u32, buffer: usize) -> Result<usize> {
    UserPtr::<Timex32>::new(buffer).read()?;
    adjtimex::check_adjustable(clock)?;
    adjtimex(buffer)
}

pub fn utimes(path: usize, times: usize) -> Result<usize> {
    futimesat(AT_FDCWD, path, times)
}

pub fn futimesat(directory: i32, path: usize, times: usize) -> Result<usize> {
    let times = given(times, Compat::times)?;
    let in_range = |&[_, us]: &[i64; 2]| (0..1_000_000).contains(&us);
    if times.is_some_and(|times| !times.iter().all(in_range)) {
        return Err(Errno::EINVAL);
    }
    let times = times.map(|times| times.map(|[seconds, us]| [seconds, us * 1000]));
    stat::set_times(directory, path, times, 0)
}
