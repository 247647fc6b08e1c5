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
    /// How often the tick found it in its program, and how often in the kernel.
    pub samples: [u64; 2],
    /// Times that a thread slept.
    pub sleeps: u64,
    /// Times that a thread was preempted.
    pub preemptions: u64,
    /// Ticks that a thread waited for a CPU, being ready to run.
    pub run_delay: u64,
    /// Page faults that were resolved: all without a disk.
    pub faults: u64,
    /// The most pages that a process had, in memory that it has left.
    pub peak: usize,
}

/// CPU time in ticks: the program's own, and the kernel's for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The program's own.
    pub user: u64,
    /// The kernel's.
    pub system: u64,
}

impl Times {
    /// Both together.
    pub fn plus(self, other: Times) -> Times {
        Times {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }

    /// The program's own and the kernel's, in clock ticks of `USER_HZ`.
    pub fn in_user_hz(self) -> (u64, u64) {
        (
            user_hz(time::ticks_to_ns(self.user)),
            user_hz(time::ticks_to_ns(self.system)),
        )
    }
}

/// Nanoseconds in clock ticks of `USER_HZ`.
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

    /// Both together.
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

    /// Its CPU time, divided as the samples are; without any, all is the program's.
    pub fn times(&self) -> Times {
        let [user, system] = self.samples.map(u128::from);
        // Most processes are gone before a tick.
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

/// The times that were reported last: neither ever falls, though samples change their ratio.
pub struct PrevCputime(Mutex<Times>);

impl PrevCputime {
    /// Nothing was reported.
    pub const fn new() -> Self {
        PrevCputime(Mutex::new(Times { user: 0, system: 0 }))
    }

    /// The times of `usage`, and no less than the times reported before.
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
