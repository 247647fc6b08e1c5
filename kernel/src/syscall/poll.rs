//! Waiting for several files at once.

use super::layout::{Layout, given};
use super::path::file;
use super::time::timespec;
use crate::arch::time::{self, now_ticks, ticks_to_ns};
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::poll::{Events, PollTable, Poller};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::sched::cond_resched;
use crate::task::{current, personality, signal};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::offset_of;
use linux_raw_sys::general::sigset_t;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct pollfd`.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct PollFd {
    fd: i32,
    events: u16,
    returned: u16,
}

/// A file to wait for.
struct Watched {
    file: Option<Arc<File>>,
    wanted: Events,
    found: Events,
}

impl Watched {
    /// Polls the file; with `table`, registers for a notification when it changes.
    fn look(&mut self, mut table: Option<&mut PollTable>) -> bool {
        if let Some(file) = &self.file {
            if let Some(table) = &mut table {
                table.want(self.wanted);
            }
            self.found = file.poll(table).with_normal() & self.wanted;
        }
        !self.found.is_empty()
    }
}

/// The maximum slack that follows from the length of a wait, in ns (Linux's MAX_SLACK).
const LONGEST_SLACK: u64 = 100_000_000;

/// The time until which to wait, in ticks; `None` for ever.
#[derive(Clone, Copy)]
pub struct Deadline(pub Option<u64>);

impl Deadline {
    /// After seconds and nanoseconds; EINVAL if they are invalid.
    pub fn after([seconds, nanoseconds]: [i64; 2]) -> Result<Self> {
        if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
            return Err(Errno::EINVAL);
        }
        let ns = (seconds as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds as u64);
        Ok(Deadline(
            time::now_ticks().checked_add(time::ns_to_ticks(ns)),
        ))
    }

    /// After milliseconds; a negative number is for ever.
    pub fn after_milliseconds(milliseconds: i32) -> Self {
        let ns = u64::try_from(milliseconds)
            .ok()
            .map(|milliseconds| milliseconds * 1_000_000);
        Deadline(ns.map(|ns| time::now_ticks() + time::ns_to_ticks(ns)))
    }

    /// From a program's `struct timespec`, if there is one.
    pub fn read<L: Layout>(address: usize) -> Result<Self> {
        match given(address, L::time)? {
            None => Ok(Deadline(None)),
            Some(span) => Self::after(span),
        }
    }

    /// The remaining time, unless it is for ever.
    pub fn left(self) -> Option<[i64; 2]> {
        let left = |deadline: u64| ticks_to_ns(deadline.saturating_sub(now_ticks()));
        self.0.map(|deadline| timespec(left(deadline)))
    }

    /// The slack of the wait in ticks, as in Linux's `select_estimate_accuracy`: a thousandth of
    /// the remaining time, more for a positive nice value, and at least the thread's own slack.
    pub fn slack(self) -> u64 {
        let thread = current();
        let Some(deadline) = self.0.filter(|_| !thread.sched.is_real_time()) else {
            return 0;
        };
        let part = if thread.nice() > 0 { 200 } else { 1000 };
        let left = deadline.saturating_sub(now_ticks());
        (left / part)
            .min(time::ns_to_ticks(LONGEST_SLACK))
            .max(thread.slack_ticks())
    }

    /// Writes the remaining time to the program's timeout. It is no error if that cannot be
    /// written.
    pub fn write_left(self, address: usize, write: impl FnOnce([i64; 2]) -> Result<()>) {
        let keeps = personality::has(personality::STICKY_TIMEOUTS);
        if let (Some(left), true) = (self.left(), address != 0 && !keeps) {
            _ = write(left);
        }
    }
}

/// Waits until one of `watched` is ready; returns the number of ready ones.
fn wait(watched: &mut [Watched], deadline: Deadline) -> Result<usize> {
    let ready = look(watched, None);
    if ready > 0
        || deadline
            .0
            .is_some_and(|deadline| deadline <= time::now_ticks())
    {
        return Ok(ready);
    }
    let poller = Poller::new()?;
    let mut table = PollTable::new(poller.clone());
    let ready = look_and_wait(watched, deadline, &poller, &mut table);
    while table.end(AT_ONCE) {
        cond_resched();
    }
    ready
}

fn look_and_wait(
    watched: &mut [Watched],
    deadline: Deadline,
    poller: &Poller,
    table: &mut PollTable,
) -> Result<usize> {
    let mut ready = look(watched, Some(table));
    table.check()?;
    while ready == 0 && poller.wait(deadline.0, deadline.slack())? {
        ready = look(watched, None);
    }
    Ok(ready)
}

/// The number of files that are polled before others may run.
const AT_ONCE: usize = 256;

fn look(watched: &mut [Watched], mut table: Option<&mut PollTable>) -> usize {
    let mut ready = 0;
    for some in watched.chunks_mut(AT_ONCE) {
        let looks = some.iter_mut();
        ready += looks
            .map(|one| usize::from(one.look(table.as_deref_mut())))
            .sum::<usize>();
        if some.len() == AT_ONCE {
            cond_resched();
        }
    }
    ready
}

/// Waits for the files of `count` `struct pollfd`s; returns the number of ready ones.
pub fn poll_until(address: usize, count: usize, deadline: Deadline) -> Result<usize> {
    if count > current().open_files_limit() {
        return Err(Errno::EINVAL);
    }
    let fds = UserPtr::<PollFd>::new(address);
    let given = fds.read_vec(count)?;
    let mut watched = Vec::new();
    watched
        .try_reserve_exact(count)
        .map_err(|_| Errno::ENOMEM)?;
    for one in &given {
        if watched.len() % AT_ONCE == AT_ONCE - 1 {
            cond_resched();
        }
        let wanted = Events::from_bits_retain(one.events.into()) | Events::ALWAYS;
        watched.push(match (one.fd, file(one.fd)) {
            (0.., Ok(file)) => Watched {
                file: Some(file),
                wanted,
                found: Events::empty(),
            },
            (0.., Err(_)) => Watched {
                file: None,
                wanted,
                found: Events::INVALID,
            },
            _ => Watched {
                file: None,
                wanted,
                found: Events::empty(),
            },
        });
    }
    let ready = wait(&mut watched, deadline);
    // Written even if a signal ended the wait, and only this field, since another thread may change
    // the rest.
    for (at, one) in watched.iter().enumerate() {
        if at % AT_ONCE == AT_ONCE - 1 {
            cond_resched();
        }
        let returned = address + size_of::<PollFd>() * at + offset_of!(PollFd, returned);
        UserPtr::new(returned).write(&(one.found.bits() as u16))?;
    }
    ready
}

/// ppoll(2)
pub fn ppoll<L: Layout>(
    fds: usize,
    count: usize,
    timeout: usize,
    mask: usize,
    mask_size: usize,
) -> Result<usize> {
    let deadline = Deadline::read::<L>(timeout)?;
    let result = with_mask(mask, mask_size, || poll_until(fds, count, deadline));
    deadline.write_left(timeout, |left| L::put_time(timeout, left));
    result
}

/// Runs `wait` with the program's signal mask, if it gave one.
pub fn with_mask(
    address: usize,
    size: usize,
    wait: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    if address == 0 {
        return wait();
    }
    if size != size_of::<sigset_t>() {
        return Err(Errno::EINVAL);
    }
    let mask = UserPtr::<u64>::new(address).read()?;
    signal::with_mask(mask, wait)
}

/// The three sets of select, one after the other.
struct Sets {
    words: Vec<u64>,
    /// The number of words in each set.
    len: usize,
}

/// The events of each set that make a descriptor a member of the result.
const SET_EVENTS: [Events; 3] = [
    Events::IN
        .union(Events::IN_NORMAL)
        .union(Events::HANG_UP)
        .union(Events::ERROR),
    Events::ROOM.union(Events::OUT_NORMAL).union(Events::ERROR),
    Events::PRIORITY,
];

impl Sets {
    /// Reads the sets of descriptors below `count`, of `bytes` bytes each.
    fn read(addresses: [usize; 3], count: usize, bytes: usize) -> Result<Self> {
        let len = count.div_ceil(64);
        let mut words = Vec::new();
        words
            .try_reserve_exact(3 * len)
            .map_err(|_| Errno::ENOMEM)?;
        words.resize(3 * len, 0u64);
        let mut sets = Sets { words, len };
        for (set, address) in addresses.into_iter().enumerate() {
            if address != 0 {
                UserSlice::new(address, bytes).copy_in(&mut sets.bytes(set)[..bytes])?;
            }
            if !count.is_multiple_of(64) {
                sets.words[set * len + len - 1] &= (1 << (count % 64)) - 1;
            }
        }
        Ok(sets)
    }

    fn bytes(&mut self, set: usize) -> &mut [u8] {
        self.words[set * self.len..][..self.len].as_mut_bytes()
    }

    fn has(&self, set: usize, fd: usize) -> bool {
        self.words[set * self.len + fd / 64] & 1 << (fd % 64) != 0
    }

    fn remove(&mut self, set: usize, fd: usize) {
        self.words[set * self.len + fd / 64] &= !(1 << (fd % 64));
    }

    /// The descriptors that are members of any set.
    fn members(&self) -> impl Iterator<Item = usize> {
        (0..self.len).flat_map(|at| {
            let any = (0..3).fold(0, |any, set| any | self.words[set * self.len + at]);
            (0..64)
                .filter(move |bit| any & 1 << bit != 0)
                .map(move |bit| at * 64 + bit)
        })
    }

    fn write(&mut self, addresses: [usize; 3], bytes: usize) -> Result<()> {
        for (set, address) in addresses.into_iter().enumerate() {
            if address != 0 {
                UserSlice::new(address, bytes).copy_out(&self.bytes(set)[..bytes])?;
            }
        }
        Ok(())
    }
}

/// Waits for the descriptors below `count` in three sets; returns the number of memberships left in
/// them. Members beyond the descriptor table are left unchanged.
pub fn select<L: Layout>(count: usize, addresses: [usize; 3], deadline: Deadline) -> Result<usize> {
    let count = count.min(current().files().size());
    let bytes = count.div_ceil(8 * L::WORD) * L::WORD;
    let mut sets = Sets::read(addresses, count, bytes)?;
    let mut watched = Vec::new();
    let mut fds = Vec::new();
    for fd in sets.members() {
        if watched.len() % AT_ONCE == AT_ONCE - 1 {
            cond_resched();
        }
        let wanted = (0..3)
            .filter(|&set| sets.has(set, fd))
            .fold(Events::empty(), |all, set| all | SET_EVENTS[set]);
        watched.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        fds.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        watched.push(Watched {
            file: Some(file(fd as i32)?),
            wanted,
            found: Events::empty(),
        });
        fds.push(fd);
    }
    wait(&mut watched, deadline)?;
    let mut left = 0;
    for (&fd, watched) in fds.iter().zip(&watched) {
        for (set, &events) in SET_EVENTS.iter().enumerate() {
            if !watched.found.intersects(events) {
                sets.remove(set, fd);
            } else if sets.has(set, fd) {
                left += 1;
            }
        }
    }
    sets.write(addresses, bytes)?;
    Ok(left)
}

/// pselect6(2)
pub fn pselect6<L: Layout>(
    count: i32,
    read: usize,
    write: usize,
    except: usize,
    timeout: usize,
    mask: usize,
) -> Result<usize> {
    let [mask, size] = given(mask, L::words)?.unwrap_or_default();
    let deadline = Deadline::read::<L>(timeout)?;
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let result = with_mask(mask, size, || {
        select::<L>(count, [read, write, except], deadline)
    });
    deadline.write_left(timeout, |left| L::put_time(timeout, left));
    result
}
