//! The files of procfs about the machine and the kernel.

use super::super::page_cache::Stats;
use super::super::seq_file::{Node, Text};
use super::super::{device, file_lock, mount};
use super::{memory, zones};
use crate::arch::cpu::Cpu;
use crate::arch::time::ticks_to_ns;
use crate::block::volume;
use crate::errno::{Errno, Result};
use crate::keyring;
use crate::mm::frame::{self, Held};
use crate::mm::{PAGE_SIZE, commit};
use crate::task::cpu_times::CpuTimes;
use crate::task::rusage::user_hz;
use crate::task::{clock, count_groups, current, loadavg, pid_table, queue, uts};
use crate::{arch, params, put};
use Node::{Directory, File, Link, Opened, Private, Records, Setting};
use core::fmt;
use crossings::Kind;

/// The members of the root other than processes.
pub const ROOT: &[(&str, Node)] = &[
    #[cfg(debug_assertions)]
    ("allocinfo", File(allocinfo)),
    ("buddyinfo", File(zones::blocks)),
    ("cmdline", File(cmdline)),
    ("cpuinfo", File(cpuinfo)),
    ("crossings", Setting(crossings, renew_crossings)),
    ("devices", File(devices)),
    ("diskstats", File(|_| {})),
    (
        "execdomains",
        File(|text| text.push(b"0-0\tLinux           \t[kernel]\n")),
    ),
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
    ("net", Link(|text| text.push(b"self/net"))),
    ("pagetypeinfo", Private(zones::types)),
    ("partitions", File(partitions)),
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
    ("timer_list", Private(super::timer_list::write)),
    (
        "tty",
        Directory(&[
            ("drivers", File(|_| ())),
            ("ldiscs", File(|text| text.push(b"n_tty       0\n"))),
        ]),
    ),
    ("uptime", File(uptime)),
    ("version", File(version)),
    ("vmstat", File(vmstat)),
    ("zoneinfo", File(zones::zones)),
];

/// The counts of the reader's counting group.
fn crossings(text: &mut Text) {
    // Counts without room are reported when the whole text is written.
    _ = count_groups::write(current().process(), text);
}

/// Resets the counts of the writer's counting group.
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
    for cpu in arch::cpu::online() {
        _ = arch::cpu::describe(cpu.index(), text);
    }
}

fn devices(text: &mut Text) {
    put!(
        text,
        "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n136 pts\n204 ttyAMA\n229 hvc\n\nBlock devices:\n"
    );
    if !volume::all().is_empty() {
        put!(text, "{} virtblk\n259 blkext\n", volume::MAJOR);
    }
}

/// Disks and partitions, in units of 1024 bytes.
fn partitions(text: &mut Text) {
    let all = volume::all();
    if all.is_empty() {
        return;
    }
    put!(text, "major minor  #blocks  name\n\n");
    for volume in all.iter().filter(|volume| volume.sectors() > 0) {
        let (major, minor) = device::split(volume.number());
        let (blocks, name) = (volume.sectors() / 2, volume.name());
        put!(text, "{major:4}  {minor:7} {blocks:10} {name}\n");
    }
}

fn filesystems(text: &mut Text) {
    for kind in mount::KINDS {
        put!(text, "nodev\t{kind}\n");
    }
    for kind in mount::ON_DISK {
        put!(text, "\t{kind}\n");
    }
}

/// Interrupts of each kind on each CPU: the interrupts of devices are counted together.
fn interrupts(text: &mut Text) {
    let cpus = || arch::cpu::online().map(Cpu::index);
    put!(text, "{:11}", "");
    for cpu in cpus() {
        put!(text, "CPU{cpu:<8}");
    }
    put!(text, "\n");
    for (label, kind, name) in INTERRUPTS {
        put!(text, "{label:>4}:");
        for cpu in cpus() {
            put!(text, " {:>10}", count_groups::on_cpu(cpu, kind));
        }
        put!(text, "  {name}\n");
    }
}

/// The kinds of interrupts, each with a label and a name in Linux's style.
const INTERRUPTS: [(&str, Kind, &str); 3] = [
    ("LOC", Kind::InterruptTimer, "Local timer interrupts"),
    ("IPI", Kind::InterruptIpi, "Inter-processor interrupts"),
    ("DEV", Kind::InterruptDevice, "Device interrupts"),
];

/// Linux's table of deferred interrupt work. Nothing is deferred here, so all counts are zero.
fn softirqs(text: &mut Text) {
    const KINDS: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    let cpus = || 0..arch::cpu::possible();
    put!(text, "{:20}", "");
    for cpu in cpus() {
        put!(text, "CPU{cpu:<8}");
    }
    put!(text, "\n");
    for kind in KINDS {
        put!(text, "{kind:>12}:");
        for _ in cpus() {
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

/// The classes of locks, named by the lines that create them, and each order of two classes that
/// was seen: the outer and the inner lock.
#[cfg(debug_assertions)]
fn lockdep(text: &mut Text) {
    use crate::sync::lockdep::{each_class, each_order};
    each_class(|class| put!(text, "{}:{}\n", class.file(), class.line()));
    each_order(|outer, inner| {
        let (from, to) = (outer.line(), inner.line());
        put!(text, "{}:{from} -> {}:{to}\n", outer.file(), inner.file());
    });
}

/// What is allocated, by the function that allocated it.
#[cfg(debug_assertions)]
fn allocinfo(text: &mut Text) {
    use crate::mm::alloc_info::{FRAMES, HEAP};
    text.push(b"allocinfo - version: 1.0\n#     <size>  <calls> <tag info>\n");
    for (count, tag) in [
        (&HEAP, "mm/heap.rs func:alloc"),
        (&FRAMES, "mm/frame/pool.rs func:take_one"),
    ] {
        let (bytes, calls) = count.get();
        put!(text, "{bytes:>12} {calls:>8} {tag}\n");
    }
}

fn meminfo(text: &mut Text) {
    let free = frame::free_count();
    let (held, cache) = (frame::held(), Stats::now());
    let available = free + cache.cached.saturating_sub(cache.dirty);
    for (name, frames) in [
        ("MemTotal:", frame::total()),
        ("MemFree:", free),
        ("MemAvailable:", available),
        ("Buffers:", 0),
        ("Cached:", held.file),
    ] {
        put_frames(text, "", name, frames);
    }
    put_held(text, "", held);
    for (name, frames) in [
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
        ("CommitLimit:", commit::limit()),
        ("Committed_AS:", commit::committed()),
    ] {
        put_frames(text, "", name, frames);
    }
}

/// The memory of the only node, as in sysfs.
pub fn node_meminfo(text: &mut Text) {
    let (total, free) = (frame::total(), frame::free_count());
    let used = total.saturating_sub(free);
    for (name, frames) in [("MemTotal:", total), ("MemFree:", free), ("MemUsed:", used)] {
        put_frames(text, NODE, name, frames);
    }
    put_held(text, NODE, frame::held());
}

/// The prefix of a node's lines.
const NODE: &str = "Node 0 ";

fn put_frames(text: &mut Text, head: &str, name: &str, frames: usize) {
    memory::put_kib(text, head, name, frames * (PAGE_SIZE / 1024));
}

/// The uses of memory. Pages of files that are not in the page cache are the files' only storage,
/// and count as shared. Nothing is swapped.
fn put_held(text: &mut Text, head: &str, held: Held) {
    let Held {
        file,
        anonymous,
        slab,
    } = held;
    let locked = memory::locked_pages().unwrap_or_else(|_| {
        text.fail();
        0
    });
    let cache = Stats::now();
    let shared = file.saturating_sub(cache.cached);
    let active = (shared + anonymous).saturating_sub(locked);
    for (name, frames) in [
        ("SwapCached:", 0),
        ("Active:", active + cache.cached),
        ("Inactive:", 0),
        ("Active(anon):", active),
        ("Inactive(anon):", 0),
        ("Active(file):", cache.cached),
        ("Inactive(file):", 0),
        ("Unevictable:", locked),
        ("Mlocked:", locked),
        ("Dirty:", cache.dirty),
        ("Writeback:", cache.writeback),
        ("AnonPages:", anonymous),
        ("Shmem:", shared),
        ("Slab:", slab),
        ("SReclaimable:", 0),
        ("SUnreclaim:", slab),
    ] {
        put_frames(text, head, name, frames);
    }
}

fn stat(text: &mut Text) {
    let mut line = |name: fmt::Arguments, times: CpuTimes| {
        let (user, system) = times.busy.in_user_hz();
        let [guest, idle] = [times.guest, times.idle].map(|ticks| user_hz(ticks_to_ns(ticks)));
        put!(text, "{name} {user} 0 {system} {idle} 0 0 0 0 {guest} 0\n");
    };
    line(format_args!("cpu "), CpuTimes::of_all());
    for cpu in arch::cpu::online() {
        line(format_args!("cpu{}", cpu.index()), CpuTimes::of(cpu));
    }
    let interrupts: u64 = arch::cpu::online()
        .map(Cpu::index)
        .flat_map(|cpu| INTERRUPTS.map(|(_, kind, _)| count_groups::on_cpu(cpu, kind)))
        .sum();
    let booted = clock::realtime_offset().max(0) as u64 / clock::SECOND;
    put!(
        text,
        "intr {interrupts}\nctxt {}\nbtime {booted}\nprocesses {}\n",
        queue::switches(),
        pid_table::made()
    );
    put!(
        text,
        "procs_running {}\nprocs_blocked 0\n",
        queue::runnable()
    );
}

fn uptime(text: &mut Text) {
    let up = user_hz(clock::monotonic_ns());
    let idle = user_hz(ticks_to_ns(CpuTimes::of_all().idle));
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

/// Counts about memory.
pub fn vmstat(text: &mut Text) {
    let cache = Stats::now();
    put!(
        text,
        "nr_free_pages {}\nnr_dirty {}\nnr_writeback {}\n",
        frame::free_count(),
        cache.dirty,
        cache.writeback,
    );
}
