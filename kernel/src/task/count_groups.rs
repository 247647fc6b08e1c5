//! Groups of processes whose crossings are counted together. A child joins its parent's group.

extern crate alloc;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use crossings::{Kind, Name, Section, Snapshot, Table};
use zerocopy::FromZeros;

use super::{Process, Thread, current, sched};
use crate::arch::cpu::{self, Cpu};
use crate::arch::{MAX_CPUS, SyscallTable, dropping_table};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, Once};
use crate::syscall;

/// The maximum number of groups.
const MOST: usize = 1024;

/// Each group's tables, one for each CPU. They are kept for the next group with the same number.
static TABLES: [Once<&'static [Table]>; MOST] = [const { Once::new() }; MOST];
/// Free numbers, and the lowest number that was never used.
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 1));

/// Group 0: the kernel itself, and processes that have no group yet.
static KERNEL: [Table; MAX_CPUS] = [const { Table::new() }; MAX_CPUS];

/// A counting group.
pub struct Group {
    number: u32,
    /// The tables' values when the group began.
    before: Box<Snapshot>,
}

impl Group {
    /// The group of the kernel.
    pub(super) fn kernel() -> Arc<Group> {
        TABLES[0].call_once(|| &KERNEL);
        Arc::new(Group {
            number: 0,
            before: Box::default(),
        })
    }

    /// A group without members.
    ///
    /// # Errors
    /// ENOMEM, EAGAIN (too many).
    pub fn new() -> Result<Arc<Group>> {
        let number = take_number()?;
        let slot = &TABLES[number as usize];
        if slot.get().is_none() {
            let tables = Table::new_vec_zeroed(cpu::possible()).map_err(|_| Errno::ENOMEM)?;
            #[expect(
                clippy::disallowed_methods,
                reason = "a table of counters stays for ever"
            )]
            slot.call_once(|| Vec::leak(tables));
        }
        let mut group = Group {
            number,
            before: empty()?,
        };
        group.before = group.sum()?;
        try_arc(group)
    }

    fn sum(&self) -> Result<Box<Snapshot>> {
        let mut sum = empty()?;
        let tables = TABLES[self.number as usize]
            .get()
            .copied()
            .unwrap_or_default();
        tables.iter().for_each(|table| sum.add(table));
        Ok(sum)
    }
}

/// The number of crossings of a kind on a CPU since boot, in all groups.
pub fn on_cpu(cpu: usize, kind: Kind) -> u64 {
    // No higher number was ever allocated.
    let given = FREE.lock().1 as usize;
    let all = TABLES[..given].iter().filter_map(Once::get);
    all.filter_map(|tables| tables.get(cpu))
        .map(|table| table.get(kind))
        .sum()
}

/// An empty snapshot, which is never built on the stack.
fn empty() -> Result<Box<Snapshot>> {
    Snapshot::new_box_zeroed().map_err(|_| Errno::ENOMEM)
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut free = FREE.lock();
        // Without memory the number is lost.
        if self.number != 0 && free.0.try_reserve(1).is_ok() {
            free.0.push(self.number);
        }
    }
}

fn take_number() -> Result<u32> {
    let mut free = FREE.lock();
    if let Some(number) = free.0.pop() {
        return Ok(number);
    }
    let number = free.1;
    if number as usize == MOST {
        return Err(Errno::EAGAIN);
    }
    free.1 += 1;
    Ok(number)
}

/// Moves the current process into a new group.
///
/// # Errors
/// ENOMEM, EAGAIN.
pub fn move_to_new_group() -> Result<()> {
    let thread = current();
    let process = thread.process();
    process.set_counting(Group::new()?);
    process
        .threads()
        .iter()
        .for_each(|thread| thread.sched.set_mode(Mode::of_thread(thread)));
    apply_current();
    Ok(())
}

/// Sets whether the current process and its later children are traced.
pub fn set_traced(on: bool) {
    let thread = current();
    let process = thread.process();
    process.set_traced(on);
    process
        .threads()
        .iter()
        .for_each(|thread| thread.sched.set_mode(Mode::of_thread(thread)));
    apply_current();
}

/// Makes this CPU count and dispatch as the current thread requires.
pub(super) fn apply_current() {
    apply(cpu::this(), current().sched.mode());
}

/// Writes the counts of the group of `process`, one line `section name value` each.
///
/// # Errors
/// ENOMEM.
pub fn write(process: &Process, out: &mut dyn Write) -> Result<()> {
    let group = process.counting();
    let mut counts = group.sum()?;
    counts.subtract(&group.before);
    for (section, name, value) in counts.iter().filter(|(.., value)| *value != 0) {
        write_line(out, section, name, value).map_err(|_| Errno::ENOMEM)?;
    }
    Ok(())
}

fn write_line(out: &mut dyn Write, section: Section, name: Name, value: u64) -> fmt::Result {
    let section = section.name();
    match name {
        Name::Syscall(number) => match abi::by_number(number) {
            Some(call) => writeln!(out, "{section} {} {value}", call.name),
            None => writeln!(out, "{section} {number} {value}"),
        },
        Name::Kind(kind) => writeln!(out, "{section} {} {value}", kind.name()),
    }
}

/// A thread's counting group and system-call table, as one word that context switches compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode(pub u32);

/// The thread's system calls are watched.
const WATCHED: u32 = 1;
/// System calls discard the contents of its vector registers.
const DROPS: u32 = 2;
/// The shift of the counting group's number, which is in the upper bits.
const GROUP_SHIFT: u32 = 2;

impl Mode {
    /// The mode of a new thread of a process.
    pub fn of(process: &Process) -> Mode {
        let watched = if process.is_traced() { WATCHED } else { 0 };
        Mode(process.counting().number << GROUP_SHIFT | watched)
    }

    /// The mode of a thread.
    pub fn of_thread(thread: &Thread) -> Mode {
        let watched = if thread.is_watched() { WATCHED } else { 0 };
        let drops = if thread.arch.uses_sve() { DROPS } else { 0 };
        Mode(Self::of(thread.process()).0 | watched | drops)
    }

    fn table(self, cpu: &Cpu) -> &'static Table {
        let tables = TABLES[(self.0 >> GROUP_SHIFT) as usize]
            .get()
            .copied()
            .unwrap_or(&KERNEL);
        tables.get(cpu.index()).unwrap_or(&KERNEL[cpu.index()])
    }

    fn calls(self) -> &'static SyscallTable {
        if self.0 & WATCHED != 0 {
            &syscall::WATCHED
        } else if self.0 & DROPS != 0 {
            dropping_table()
        } else {
            &syscall::TABLE
        }
    }
}

/// Makes this CPU count and dispatch as `mode` says.
#[cold]
pub(super) fn apply(cpu: &'static Cpu, mode: Mode) {
    cpu.set_crossings(mode.table(cpu));
    cpu.set_syscalls(mode.calls());
    sched::set_cpu_mode(cpu, mode);
}
