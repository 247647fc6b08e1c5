//! The files of procfs about the machine and the kernel.

use super::super::seq_file::{Node, Text};
use super::super::{file_lock, mount};
use super::zones;
use crate::arch::time::ticks_to_ns;
use crate::errno::{Errno, Result};
use crate::keyring;
use crate::mm::{PAGE_SIZE, commit, frame};
use crate::task::rusage::{Times, Usage, user_hz};
use crate::task::{clock, count_groups, current, loadavg, pid_table, queue, uts};
use crate::{arch, params, put};
use Node::{Directory, File, Link, Opened, Private, Records, Setting};
use core::fmt;

/// The members of the root besides the processes.
pub const ROOT: &[(&str, Node)] = &[
    ("buddyinfo", File(zones::blocks)),
    ("cmdline", File(cmdline)),
    ("cpuinfo", File(cpuinfo)),
    ("crossings", Setting(crossings, renew_crossings)),
    ("devices", File(devices)),
    ("diskstats", File(|_| {})),
    ("filesystems", File(filesystems)),
    ("interrupts", File(interrupts)),
    ("key-users", Records(keyring::list::users)),
    ("keys", Records(keyring::list::keys)),
    ("loadavg", File(loadavg)),
    #[cfg(debug_assertions)]
    ("lockdep", File(lockdep)),
    ("locks", Opened(file_lock::open_list)),
    ("meminfo", File(meminfo)),
    ("modules", File(|_| {})),
    ("mounts", Link(|text| text.push(b"self/mounts"))),
    ("net", Directory(crate::net::proc_net::FILES)),
    ("pagetypeinfo", Private(zones::types)),
    (
        "partitions",
        File(|text| put!(text, "major minor  #blocks  name\n\n")),
    ),
    ("schedstat", File(schedstat)),
    (
        "self",
        Link(|text| put!(text, "{}", current().process_id())),
    ),
    ("softirqs", File(softirqs)),
    ("stat", File(stat)),
    (
        "swaps",
        File(|text| put!(text, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")),
    ),
    ("sys", Node::Settings(super::settings::SYS)),
    ("sysvipc", Directory(super::sysvipc::FILES)),
    (
        "thread-self",
        Link(|text| put!(text, "{}/task/{}", current().process_id(), current().tid())),
    ),
    ("tty", Directory(&[("drivers", File(|_| ()))])),
    ("uptime", File(uptime)),
    ("version", File(version)),
    ("vmstat", File(vmstat)),
    ("zoneinfo", File(zones::zones)),
];

/// How often a second Linux's clock strikes here, and its count at boot, five minutes before 32
/// bits are used up.
const HZ: u64 = 250;
const JIFFIES_AT_BOOT: u64 = (1 << 32) - 300 * HZ;

/// The counts of the reader's counting group.
fn crossings(text: &mut Text) {
    // What does not fit is reported when the whole is done.
    _ = count_groups::write(current().process(), text);
}

/// The writer counts anew.
fn renew_crossings(bytes: &[u8]) -> Result<()> {
    match bytes.trim_ascii() {
        b"new" => count_groups::move_to_new_group(),
        _ => Err(Errno::EINVAL),
    }
}

fn cmdline(text: &mut Text) {
    put!(text, "{}\n", params::line());
}

fn cpuinfo(text: &mut Text) {
    for cpu in 0..arch::cpu::count() {
        _ = arch::cpu::describe(cpu, text);
    }
}

fn devices(text: &mut Text) {
    put!(
        text,
        "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n136 pts\n204 ttyAMA\n229 hvc\n\nBlock devices:\n"
    );
}

fn filesystems(text: &mut Text) {
    for kind in mount::KINDS {
        put!(text, "nodev\t{kind}\n");
    }
}

/// The head of the table: interrupts are not counted.
fn interrupts(text: &mut Text) {
    put!(text, "{:11}", "");
    for cpu in 0..arch::cpu::count() {
        put!(text, "CPU{cpu:<8}");
    }
    put!(text, "\n");
}

/// Linux's table of what interrupts leave to be done later. Here they leave nothing: none ever was.
fn softirqs(text: &mut Text) {
    const KINDS: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    let cpus = arch::cpu::count();
    put!(text, "{:20}", "");
    for cpu in 0..cpus {
        put!(text, "CPU{cpu:<8}");
    }
    put!(text, "\n");
    for kind in KINDS {
        put!(text, "{kind:>12}:");
        for _ in 0..cpus {
            put!(text, " {:>10}", 0);
        }
        put!(text, "\n");
    }
}

fn loadavg(text: &mut Text) {
    let (running, all) = (queue::runnable(), queue::threads());
    for load in loadavg::averages() {
        let hundredths = (load * 100) >> loadavg::SHIFT;
        put!(text, "{}.{:02} ", hundredths / 100, hundredths % 100);
    }
    put!(text, "{running}/{all} {}\n", pid_table::last());
}

/// The classes of locks that were taken, by the lines that make them, and each order that was seen:
/// the outer and the inner lock.
#[cfg(debug_assertions)]
fn lockdep(text: &mut Text) {
    use crate::sync::lockdep::{each_class, each_order};
    each_class(|class| put!(text, "{}:{}\n", class.file(), class.line()));
    each_order(|outer, inner| {
        let (from, to) = (outer.line(), inner.line());
        put!(text, "{}:{from} -> {}:{to}\n", outer.file(), inner.file());
    });
}

fn meminfo(text: &mut Text) {
    let free = frame::free_count();
    let (file, _) = frame::held_by_programs();
    for (name, frames) in [
        ("MemTotal:", frame::total()),
        ("MemFree:", free),
        ("MemAvailable:", free),
        ("Buffers:", 0),
        ("Cached:", file),
    ] {
        put_frames(text, "", name, frames);
    }
    put_held(text, "");
    for (name, frames) in [
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
        ("CommitLimit:", commit::limit()),
        ("Committed_AS:", commit::committed()),
    ] {
        put_frames(text, "", name, frames);
    }
}

/// The memory of the one node, as in sysfs.
pub fn node_meminfo(text: &mut Text) {
    let (total, free) = (frame::total(), frame::free_count());
    let used = total.saturating_sub(free);
    for (name, frames) in [("MemTotal:", total), ("MemFree:", free), ("MemUsed:", used)] {
        put_frames(text, NODE, name, frames);
    }
    put_held(text, NODE);
}

/// The beginning of a node's lines.
const NODE: &str = "Node 0 ";

fn put_frames(text: &mut Text, head: &str, name: &str, frames: usize) {
    put!(
        text,
        "{head}{name:<15} {:>8} kB\n",
        frames * (PAGE_SIZE / 1024)
    );
}

/// The uses of memory. Files are memory here, so they count as shared memory too; nothing is
/// swapped or written back.
fn put_held(text: &mut Text, head: &str) {
    let (file, anonymous) = frame::held_by_programs();
    let kernel = frame::total().saturating_sub(frame::free_count() + file + anonymous);
    for (name, frames) in [
        ("SwapCached:", 0),
        ("Active:", file + anonymous),
        ("Inactive:", 0),
        ("Active(anon):", file + anonymous),
        ("Inactive(anon):", 0),
        ("Active(file):", 0),
        ("Inactive(file):", 0),
        ("Unevictable:", 0),
        ("Mlocked:", 0),
        ("Dirty:", 0),
        ("Writeback:", 0),
        ("AnonPages:", anonymous),
        ("Shmem:", file),
        ("Slab:", kernel),
        ("SReclaimable:", 0),
        ("SUnreclaim:", kernel),
    ] {
        put_frames(text, head, name, frames);
    }
}

fn stat(text: &mut Text) {
    let cpus = arch::cpu::count() as u64;
    let (user, system) = busy().in_user_hz();
    let idle = user_hz(clock::monotonic_ns() * cpus).saturating_sub(user + system);
    let mut line = |name: fmt::Arguments, share| {
        let [user, system, idle] = [user, system, idle].map(|time| time / share);
        put!(text, "{name} {user} 0 {system} {idle} 0 0 0 0 0 0\n");
    };
    line(format_args!("cpu "), 1);
    for cpu in 0..cpus {
        line(format_args!("cpu{cpu}"), cpus);
    }
    let usage = usage();
    let booted = clock::realtime_offset().max(0) as u64 / clock::SECOND;
    put!(
        text,
        "intr 0\nctxt {}\nbtime {booted}\nprocesses {}\n",
        usage.sleeps + usage.preemptions,
        pid_table::made()
    );
    put!(
        text,
        "procs_running {}\nprocs_blocked 0\n",
        queue::runnable()
    );
}

/// CPU time of the processes there are.
fn busy() -> Times {
    let mut sum = Times::default();
    _ = pid_table::for_each(
        |_| true,
        |process| sum = sum.plus(process.times()).plus(process.children_times()),
    );
    sum
}

/// CPU time of processes, those that were waited for included.
fn usage() -> Usage {
    let mut sum = Usage::default();
    _ = pid_table::for_each(
        |_| true,
        |process| sum = sum.plus(process.usage()).plus(process.children_usage()),
    );
    sum
}

/// How processes were scheduled: of a CPU, its part of what all of them ran and waited. The counts
/// that Linux keeps where kernel.sched_schedstats is set are 0
/// (Documentation/scheduler/sched-stats.rst).
fn schedstat(text: &mut Text) {
    let sum = usage();
    let now = JIFFIES_AT_BOOT + clock::monotonic_ns() / (clock::SECOND / HZ);
    put!(text, "version 16\ntimestamp {now}\n");
    let cpus = arch::cpu::count() as u64;
    let [run, delay] = [sum.ticks, sum.run_delay].map(|ticks| ticks_to_ns(ticks) / cpus);
    let slices = (sum.sleeps + sum.preemptions) / cpus;
    for cpu in 0..cpus {
        put!(text, "cpu{cpu} 0 0 0 0 0 0 {run} {delay} {slices}\n");
    }
}

fn uptime(text: &mut Text) {
    let up = user_hz(clock::monotonic_ns());
    let (user, system) = busy().in_user_hz();
    let idle = (up * arch::cpu::count() as u64).saturating_sub(user + system);
    put!(
        text,
        "{}.{:02} {}.{:02}\n",
        up / 100,
        up % 100,
        idle / 100,
        idle % 100
    );
}

fn version(text: &mut Text) {
    put!(text, "{}", uts::BANNER);
}

/// Counts of the memory.
pub fn vmstat(text: &mut Text) {
    put!(text, "nr_free_pages {}\n", frame::free_count());
}
