//! Process accounting (acct(2)): each process that ends leaves a record in a file.
//!
//! A kernel thread writes the record, so that the process's signals and limits do not affect it;
//! the process waits for it before its parent is notified. The thread does nothing else, because a
//! program that writes to the file may keep it waiting.

use super::rusage::user_hz;
use super::thread::short_name;
use super::wait_queue::WaitQueue;
use super::work_queue::{Link, Work, WorkQueue};
use super::{Process, Thread, clock, current, spawn_kernel};
use crate::arch::time;
use crate::errno::Result;
use crate::fs::io::Source as Bytes;
use crate::fs::mount::{Mount, Super};
use crate::fs::{File, tty};
use crate::mm::heap::try_arc;
use crate::mm::{AddressSpace, PAGE_SIZE};
use crate::sync::{Mutex, Once};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use zerocopy::{Immutable, IntoBytes};

/// `struct acct_v3` (include/uapi/linux/acct.h).
#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
pub(super) struct Record {
    flags: u8,
    version: u8,
    terminal: u16,
    exit_code: u32,
    uid: u32,
    gid: u32,
    pid: u32,
    parent: u32,
    /// The start time, in s since 1970.
    began: u32,
    /// The elapsed time, in 1/100 s, as a float.
    elapsed: u32,
    user: u16,
    system: u16,
    memory: u16,
    transferred: u16,
    blocks: u16,
    minor_faults: u16,
    major_faults: u16,
    swaps: u16,
    name: [u8; 16],
}

const VERSION: u8 = 3;
/// AFORK: the process called no exec.
const FORKED: u8 = 1;
/// ASU: the process used a privilege.
const PRIVILEGED: u8 = 2;
/// ACORE
const DUMPED: u8 = 8;
/// AXSIG: the process was killed by a signal.
const KILLED: u8 = 16;

/// A number as a `comp_t`: a 13-bit mantissa and a base-8 exponent.
fn compressed(value: u64) -> u16 {
    const MOST: u64 = (1 << 13) - 1;
    let (mut value, mut power, mut rounds) = (value, 0, false);
    while value > MOST {
        rounds = value & 4 != 0;
        value >>= 3;
        power += 1;
    }
    if rounds {
        value += 1;
        if value > MOST {
            value >>= 3;
            power += 1;
        }
    }
    if power > 7 {
        return u16::MAX;
    }
    (power << 13 | value) as u16
}

/// A number as a 32-bit float; excess bits are cut off.
fn float(value: u64) -> u32 {
    match value.leading_zeros() {
        64 => 0,
        zeros => ((value << zeros >> 40) & 0x7f_ffff) as u32 | (190 - zeros) << 23,
    }
}

impl Record {
    /// The fields of the current process's record that are known before it ends.
    fn new(process: &Process) -> Self {
        let thread: &Thread = &current();
        let lasted = user_hz(clock::monotonic_ns().saturating_sub(process.started()));
        let now = clock::realtime_ns() / clock::SECOND;
        let (terminal, _) = tty::of_process(process.session());
        let (major, minor) = (terminal >> 8 & 0xfff, terminal & 0xff);
        let [uid, gid] = thread.with_credentials(|who| [who.uid, who.gid]);
        Record {
            version: VERSION,
            terminal: (major << 8 | minor) as u16,
            uid,
            gid,
            pid: process.pid() as u32,
            parent: process.parent() as u32,
            began: now.saturating_sub(lasted / 100).min(u32::MAX.into()) as u32,
            elapsed: float(lasted),
            name: short_name(&thread.name()),
            ..Record::default()
        }
    }

    /// The record of the current process, which has ended; `space` is the memory that it had last.
    #[cold]
    #[inline(never)]
    pub(super) fn of_ended(process: &Process, space: Option<&AddressSpace>) -> Self {
        let (status, usage) = (process.exit_status().unwrap_or(0), process.usage());
        let flags = [
            (!process.has_executed(), FORKED),
            (process.used_privilege(), PRIVILEGED),
            (status & 0x80 != 0, DUMPED),
            (status & 0x7f != 0, KILLED),
        ];
        let times = usage.times();
        let [user, system] =
            [times.user, times.system].map(|ticks| user_hz(time::ticks_to_ns(ticks)));
        let pages = space.map_or(0, |space| space.size().vmas);
        Record {
            flags: flags
                .iter()
                .filter(|(is, _)| *is)
                .fold(0, |all, (_, flag)| all | flag),
            exit_code: status,
            user: compressed(user),
            system: compressed(system),
            memory: compressed((pages * PAGE_SIZE / 1024) as u64),
            minor_faults: compressed(usage.faults),
            ..Record::new(process)
        }
    }
}

/// kernel.acct: the percentage of free space at which writing records resumes, that at which it
/// stops, and the seconds between checks.
pub static LIMITS: [AtomicI32; 3] = [AtomicI32::new(4), AtomicI32::new(2), AtomicI32::new(30)];

/// The file that records are written to.
struct Accounting {
    file: Arc<File>,
    /// The mount on which it was found. The open file itself is on a mount that is not visible.
    mount: Weak<Mount>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    active: bool,
    /// When to check the free space next, in ns of CLOCK_MONOTONIC.
    check: u64,
}

impl Accounting {
    /// Whether there is room for records.
    fn is_active(&self) -> bool {
        let mut state = *self.state.lock();
        let now = clock::monotonic_ns();
        if now < state.check {
            return state.active;
        }
        let stat = self.file.path().mount().map(|mount| mount.fs().stat());
        let Some(stat) = stat else {
            return state.active;
        };
        let [resume, suspend, pause] = LIMITS.each_ref().map(|limit| limit.load(Relaxed) as u64);
        let active = match state.active {
            true => stat.free > stat.blocks.wrapping_mul(suspend) / 100,
            false => stat.free >= stat.blocks.wrapping_mul(resume) / 100,
        };
        if active != state.active {
            let what = if active { "resumed" } else { "paused" };
            crate::log!("Process accounting {what}");
        }
        state = State {
            active,
            check: now.saturating_add(pause.wrapping_mul(clock::SECOND)),
        };
        *self.state.lock() = state;
        active
    }
}

/// A record to be written.
struct Entry {
    link: Link,
    record: Record,
    /// The accounting file, from when the record is queued until it is written. It is taken out
    /// before waiters are woken, since one may unmount the file system.
    accounting: Mutex<Option<Arc<Accounting>>>,
    done: AtomicBool,
    writes: WaitQueue,
}

impl Work for Entry {
    fn link(&self) -> &Link {
        &self.link
    }

    fn run(self: Arc<Self>) {
        let accounting = self.accounting.lock().take();
        if let Some(accounting) = accounting.filter(|accounting| accounting.is_active()) {
            let mut bytes = Bytes::kernel(self.record.as_bytes());
            // A record for which there is no room is lost.
            _ = accounting.file.append(&mut bytes, false);
        }
        self.done.store(true, Release);
        self.writes.wake_all();
    }
}

impl Entry {
    /// An entry that is not queued yet. Without memory the record is lost.
    fn new(record: Record) -> Option<Arc<Self>> {
        let entry = Entry {
            link: Link::default(),
            record,
            accounting: Mutex::new(None),
            done: AtomicBool::new(false),
            writes: WaitQueue::new(),
        };
        try_arc(entry).ok()
    }

    /// Queues the record for a file.
    fn queue(self: &Arc<Self>, accounting: Arc<Accounting>) {
        *self.accounting.lock() = Some(accounting);
        RECORDS.queue(self.clone());
    }

    /// Waits until the record is written.
    fn wait(&self) {
        self.writes.wait(|| self.done.load(Acquire));
    }
}

/// The file that records go to. Records are queued under this lock, so that after the last record
/// of a file is written, none is left that would keep the file open.
static CURRENT: Mutex<Option<Arc<Accounting>>> = Mutex::new(None);
static ON: AtomicBool = AtomicBool::new(false);
static RECORDS: WorkQueue = WorkQueue::new();

/// Creates the thread that writes records, if it does not exist yet.
fn start() -> Result<()> {
    static THREAD: Once<()> = Once::new();
    let write = || spawn_kernel("acct", |_| RECORDS.run(), 0).map(drop);
    THREAD.try_call_once(write).map(drop)
}

/// Whether processes leave records.
#[inline(always)]
pub(super) fn is_on() -> bool {
    ON.load(Relaxed)
}

impl Record {
    /// Queues the record for the present accounting file, and waits until it is written.
    #[cold]
    #[inline(never)]
    pub(super) fn write(self) {
        let Some(entry) = Entry::new(self) else {
            return;
        };
        let place = CURRENT.lock();
        let Some(accounting) = place.clone() else {
            return;
        };
        entry.queue(accounting);
        drop(place);
        entry.wait();
    }
}

/// Directs records to a file, found on a mount, or turns accounting off. The old file gets a record
/// of the current process, as on Linux.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn turn(file: Option<(Arc<File>, &Arc<Mount>)>) -> Result<()> {
    if file.is_some() {
        start()?;
    }
    let state = Mutex::new(State {
        active: false,
        check: 0,
    });
    let new = file.map(|(file, mount)| {
        let mount = Arc::downgrade(mount);
        try_arc(Accounting { file, mount, state })
    });
    replace(new.transpose()?, |_| true);
    Ok(())
}

/// Replaces the accounting file by `new`, if `wanted` holds for the current one.
fn replace(new: Option<Arc<Accounting>>, wanted: impl Fn(&Accounting) -> bool) {
    let last = Entry::new(Record::new(current().process()));
    let mut place = CURRENT.lock();
    if place.as_deref().is_some_and(|old| !wanted(old)) {
        return;
    }
    ON.store(new.is_some(), Relaxed);
    let old = core::mem::replace(&mut *place, new);
    let queued = last.zip(old.clone()).map(|(last, old)| {
        last.queue(old);
        last
    });
    drop(place);
    drop(old);
    if let Some(last) = queued {
        last.wait();
    }
}

/// Turns accounting off if `wanted` holds for its file.
#[cold]
fn leave(wanted: impl Fn(&Accounting) -> bool) {
    let goes = CURRENT.lock().as_deref().is_some_and(&wanted);
    if goes {
        replace(None, wanted);
    }
}

/// `mount` is unmounted: turns accounting off if its file was found there.
#[inline]
pub fn leave_mount(mount: &Mount) {
    if is_on() {
        leave(|old| core::ptr::eq(old.mount.as_ptr(), mount));
    }
}

/// A file system becomes read-only: turns accounting off if its file is there.
pub fn leave_file_system(fs: &Super) {
    let is_there = |old: &Accounting| {
        let on = old.file.path().mount();
        on.is_some_and(|on| core::ptr::eq(on.fs(), fs))
    };
    if is_on() {
        leave(is_there);
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn numbers_are_compressed_as_linux_does() {
        assert_eq!([0, 8191, 8192, 8195, 8196].map(compressed), [0, 8191, 0x2400, 0x2400, 0x2401]);
        assert_eq!([65535, 1 << 34, u64::MAX].map(compressed), [0x4400, 0xffff, 0xffff]);
        assert_eq!([0, 1, 3, 1 << 24 | 1].map(float), [0, 0x3f80_0000, 0x4040_0000, 0x4b80_0000]);
    }
}
