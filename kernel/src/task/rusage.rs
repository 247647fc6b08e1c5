//! Resource usage of threads and processes, and how CPU time divides into user and system time.

use super::{Thread, clock};
use crate::arch::time;
use crate::sync::Mutex;

/// Clock ticks a second, as times(2) and /proc count (USER_HZ).
pub const USER_HZ: u64 = 100;

/// The usage of a thread, a process or its children.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Ticks of CPU time.
    pub ticks: u64,
    /// The number of samples that found it in its program, and in the kernel.
    pub samples: [u64; 2],
    /// The number of times that a thread slept.
    pub sleeps: u64,
    /// The number of times that a thread was preempted.
    pub preemptions: u64,
    /// Ticks for which a runnable thread waited for a CPU.
    pub run_delay: u64,
    /// Resolved page faults, all of them minor.
    pub faults: u64,
    /// The most pages of the process in memory that it has left.
    pub peak: usize,
}

/// CPU time in ticks: in programs, and in the kernel on their behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The time in programs.
    pub user: u64,
    /// The time in the kernel.
    pub system: u64,
}

impl Times {
    /// The sum of both.
    pub fn plus(self, other: Times) -> Times {
        Times {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }

    /// User and system time, in clock ticks of `USER_HZ`.
    pub fn in_user_hz(self) -> (u64, u64) {
        (
            user_hz(time::ticks_to_ns(self.user)),
            user_hz(time::ticks_to_ns(self.system)),
        )
    }
}

/// Converts nanoseconds to clock ticks of `USER_HZ`.
pub fn user_hz(ns: u64) -> u64 {
    ns / (clock::SECOND / USER_HZ)
}

impl Usage {
    /// A thread's usage until now.
    pub fn of(thread: &Thread) -> Usage {
        let (sleeps, preemptions) = thread.sched.switches();
        Usage {
            ticks: thread.cpu_time(),
            samples: thread.sched.samples(),
            sleeps,
            preemptions,
            run_delay: thread.sched.run_delay(),
            faults: thread.faults(),
            peak: 0,
        }
    }

    /// The sum of both.
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            ticks: self.ticks + other.ticks,
            samples: [0, 1].map(|kind| self.samples[kind] + other.samples[kind]),
            sleeps: self.sleeps + other.sleeps,
            preemptions: self.preemptions + other.preemptions,
            run_delay: self.run_delay + other.run_delay,
            faults: self.faults + other.faults,
            peak: self.peak.max(other.peak),
        }
    }

    /// Its CPU time, divided in the ratio of the samples; without samples it is all user time.
    pub fn times(&self) -> Times {
        let [user, system] = self.samples.map(u128::from);
        // Most processes end before their first tick.
        let system = match system {
            0 => 0,
            _ => (u128::from(self.ticks) * system / (user + system)) as u64,
        };
        Times {
            user: self.ticks - system,
            system,
        }
    }
}

/// The times that were reported last: neither ever decreases, though samples change their ratio.
pub struct PrevCputime(Mutex<Times>);

impl PrevCputime {
    /// No reported times.
    pub const fn new() -> Self {
        PrevCputime(Mutex::new(Times { user: 0, system: 0 }))
    }

    /// The times of `usage`, but at least the times reported before.
    pub fn adjust(&self, usage: &Usage) -> Times {
        let mut prev = self.0.lock();
        if usage.ticks > prev.user + prev.system {
            let most = usage.ticks - prev.user;
            let system = usage.times().system.clamp(prev.system, most);
            *prev = Times {
                user: usage.ticks - system,
                system,
            };
        }
        *prev
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn times_divide_as_samples_and_never_fall() {
        let used = |ticks, samples| Usage { ticks, samples, ..Usage::default() };
        let times = |user, system| Times { user, system };
        assert_eq!(used(100, [0, 0]).times(), times(100, 0));
        assert_eq!(used(100, [0, 2]).times(), times(0, 100));
        assert_eq!(used(u64::MAX, [1, 3]).times().user, u64::MAX.div_ceil(4));
        let prev = PrevCputime::new();
        assert_eq!(prev.adjust(&used(100, [1, 0])), times(100, 0));
        assert_eq!(prev.adjust(&used(120, [1, 1])), times(100, 20));
        assert_eq!(prev.adjust(&used(110, [1, 1])), times(100, 20));
        assert_eq!(prev.adjust(&used(400, [1, 1])), times(200, 200));
        assert_eq!(prev.adjust(&used(410, [9, 1])), times(210, 200));
    }
}
