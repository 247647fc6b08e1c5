//! The files of procfs that tell of the machine and the kernel.

use super::super::generated::{Node, Text};
use super::super::{inotify, lease, mount, pipe};
use crate::errno::{Errno, Result};
use crate::ipc::{self, Object, Registry, message, semaphore, shared};
use crate::mm::{PAGE_SIZE, frame};
use crate::sync::Once;
use crate::task::usage::{Times, user_hz};
use crate::task::{clock, counting, current, load, queue, tree, uts};
use crate::{arch, params, put, random};
use Node::{Directory, File, Link, Number, Setting};
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

/// The members of the root besides the processes.
pub const ROOT: &[(&str, Node)] = &[
    ("cmdline", File(cmdline)),
    ("cpuinfo", File(cpuinfo)),
    ("crossings", Setting(crossings, renew_crossings)),
    ("devices", File(devices)),
    ("filesystems", File(filesystems)),
    ("loadavg", File(loadavg)),
    ("meminfo", File(meminfo)),
    ("mounts", Link(|text| text.push(b"self/mounts"))),
    ("net", Directory(crate::net::report::FILES)),
    (
        "self",
        Link(|text| put!(text, "{}", current().process_id())),
    ),
    ("stat", File(stat)),
    (
        "swaps",
        File(|text| put!(text, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")),
    ),
    ("sys", Directory(SYS)),
    ("sysvipc", Directory(super::sysvipc::FILES)),
    (
        "thread-self",
        Link(|text| put!(text, "{}/task/{}", current().process_id(), current().tid())),
    ),
    ("tty", Directory(&[("drivers", File(|_| ()))])),
    ("uptime", File(uptime)),
    ("version", File(version)),
    ("vmstat", File(vmstat)),
];

const SYS: &[(&str, Node)] = &[
    (
        "fs",
        Directory(&[
            ("file-max", File(|text| put!(text, "{}\n", i64::MAX))),
            (
                "nr_open",
                File(|text| put!(text, "{}\n", super::super::fdtable::MAX_FILES)),
            ),
            (
                "lease-break-time",
                Setting(
                    |text| put!(text, "{}\n", lease::BREAK_TIME.load(Relaxed)),
                    |bytes| {
                        let seconds = super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?;
                        lease::BREAK_TIME.store(seconds, Relaxed);
                        Ok(())
                    },
                ),
            ),
            (
                "inotify",
                Directory(&[
                    ("max_queued_events", Number(&inotify::MAX_EVENTS)),
                    ("max_user_instances", Number(&inotify::MAX_INSTANCES)),
                    ("max_user_watches", Number(&inotify::MAX_WATCHES)),
                ]),
            ),
            ("mqueue", Directory(MESSAGE_QUEUES)),
            (
                "pipe-max-size",
                Setting(
                    |text| put!(text, "{}\n", pipe::max_size()),
                    |bytes| {
                        pipe::set_max_size(super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?)
                    },
                ),
            ),
        ]),
    ),
    (
        "kernel",
        Directory(&[
            ("cap_last_cap", File(|text| put!(text, "40\n"))),
            ("core_pattern", Setting(|text| put!(text, "core\n"), keep)),
            ("core_uses_pid", Setting(|text| put!(text, "0\n"), keep)),
            (
                "domainname",
                Setting(
                    |text| put_line(text, &uts::domain()),
                    |bytes| uts::set_domain(bytes.trim_ascii()),
                ),
            ),
            (
                "hostname",
                Setting(
                    |text| put_line(text, &uts::host_name()),
                    |bytes| uts::set_host_name(bytes.trim_ascii()),
                ),
            ),
            ("msgmax", File(|text| put!(text, "{}\n", message::LONGEST))),
            ("msgmnb", File(|text| put!(text, "{}\n", message::CAPACITY))),
            ("msgmni", Number(&message::QUEUES.most)),
            (
                "msg_next_id",
                Setting(
                    |text| next_id(text, &message::QUEUES),
                    |bytes| set_next_id(bytes, &message::QUEUES),
                ),
            ),
            ("ngroups_max", File(|text| put!(text, "65536\n"))),
            ("osrelease", File(|text| put!(text, "{}\n", uts::RELEASE))),
            ("ostype", File(|text| put!(text, "Linux\n"))),
            ("overflowgid", File(|text| put!(text, "65534\n"))),
            ("overflowuid", File(|text| put!(text, "65534\n"))),
            (
                "pid_max",
                Setting(
                    |text| put!(text, "{}\n", tree::pid_max()),
                    |bytes| {
                        tree::set_pid_max(super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?)
                    },
                ),
            ),
            ("printk", Setting(|text| put!(text, "7\t4\t1\t7\n"), keep)),
            (
                "random",
                Directory(&[
                    ("boot_id", File(boot_id)),
                    (
                        "entropy_avail",
                        File(|text| put!(text, "{}\n", random::POOL)),
                    ),
                    ("poolsize", File(|text| put!(text, "{}\n", random::POOL))),
                    ("uuid", File(|text| put_uuid(text, random_uuid()))),
                ]),
            ),
            ("sem", File(semaphores)),
            (
                "sem_next_id",
                Setting(
                    |text| next_id(text, &semaphore::SETS),
                    |bytes| set_next_id(bytes, &semaphore::SETS),
                ),
            ),
            ("shmall", File(|text| put!(text, "{}\n", shared::ALL))),
            ("shmmax", Number(&shared::LARGEST)),
            ("shmmni", Number(&shared::SEGMENTS.most)),
            (
                "shm_next_id",
                Setting(
                    |text| next_id(text, &shared::SEGMENTS),
                    |bytes| set_next_id(bytes, &shared::SEGMENTS),
                ),
            ),
            ("tainted", File(|text| put!(text, "0\n"))),
            ("randomize_va_space", File(|text| put!(text, "2\n"))),
            (
                "threads-max",
                File(|text| put!(text, "{}\n", tree::PID_MAX)),
            ),
            ("version", File(|text| put!(text, "{}\n", uts::VERSION))),
        ]),
    ),
    (
        "vm",
        Directory(&[
            ("max_map_count", File(|text| put!(text, "65530\n"))),
            ("mmap_min_addr", File(|text| put!(text, "65536\n"))),
            ("overcommit_memory", Setting(|text| put!(text, "0\n"), keep)),
        ]),
    ),
];

const MESSAGE_QUEUES: &[(&str, Node)] = &[
    ("msg_default", File(message_count)),
    ("msg_max", File(message_count)),
    ("msgsize_default", File(message_size)),
    ("msgsize_max", File(message_size)),
    ("queues_max", Number(&ipc::queue::MOST)),
];

fn message_count(text: &mut Text) {
    put!(text, "{}\n", ipc::queue::SOFT.messages);
}

fn message_size(text: &mut Text) {
    put!(text, "{}\n", ipc::queue::SOFT.bytes);
}

/// Semaphores of a set, of all sets, operations of a call, sets: at most.
fn semaphores(text: &mut Text) {
    let (largest, most) = (semaphore::LARGEST, semaphore::SETS.most.load(Relaxed));
    let all = largest * most;
    let operations = semaphore::MOST_OPERATIONS;
    put!(text, "{largest}\t{all}\t{operations}\t{most}\n");
}

/// The number that the next object of a kind shall have; -1: any.
fn next_id<T: Object>(text: &mut Text, registry: &Registry<T>) {
    match registry.next() {
        Some(number) => put!(text, "{number}\n"),
        None => put!(text, "-1\n"),
    }
}

fn set_next_id<T: Object>(bytes: &[u8], registry: &Registry<T>) -> Result<()> {
    let number: i32 = super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?;
    registry.set_next(Some(usize::try_from(number).map_err(|_| Errno::EINVAL)?));
    Ok(())
}

/// A setting that may be written and stays what it is.
fn keep(_bytes: &[u8]) -> Result<()> {
    Ok(())
}

fn put_line(text: &mut Text, bytes: &[u8]) {
    text.push(bytes);
    text.push(b"\n");
}

/// What the reader's counting group did.
fn crossings(text: &mut Text) {
    // What does not fit is told when the whole is done.
    _ = counting::write(current().process(), text);
}

/// The writer counts anew.
fn renew_crossings(bytes: &[u8]) -> Result<()> {
    match bytes.trim_ascii() {
        b"new" => counting::renew(),
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

fn loadavg(text: &mut Text) {
    let (running, all) = (queue::runnable(), queue::threads());
    for load in load::averages() {
        let hundredths = load * 100 >> load::SHIFT;
        put!(text, "{}.{:02} ", hundredths / 100, hundredths % 100);
    }
    put!(text, "{running}/{all} {}\n", tree::last());
}

/// Files are memory here, so they count as shared memory too; nothing is swapped or written back.
fn meminfo(text: &mut Text) {
    let (total, free) = (frame::total(), frame::free_count());
    let (file, anonymous) = frame::held_by_programs();
    let kernel = total.saturating_sub(free + file + anonymous);
    for (name, frames) in [
        ("MemTotal:", total),
        ("MemFree:", free),
        ("MemAvailable:", free),
        ("Buffers:", 0),
        ("Cached:", file),
        ("SwapCached:", 0),
        ("Active:", file + anonymous),
        ("Inactive:", 0),
        ("Active(anon):", file + anonymous),
        ("Inactive(anon):", 0),
        ("Active(file):", 0),
        ("Inactive(file):", 0),
        ("Unevictable:", 0),
        ("Mlocked:", 0),
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
        ("Dirty:", 0),
        ("Writeback:", 0),
        ("AnonPages:", anonymous),
        ("Shmem:", file),
        ("Slab:", kernel),
        ("SReclaimable:", 0),
        ("SUnreclaim:", kernel),
        ("CommitLimit:", total),
        ("Committed_AS:", file + anonymous),
    ] {
        put!(text, "{name:<15} {:>8} kB\n", frames * (PAGE_SIZE / 1024));
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
    let booted = clock::realtime_offset().max(0) as u64 / clock::SECOND;
    put!(
        text,
        "intr 0\nctxt 0\nbtime {booted}\nprocesses {}\n",
        tree::last()
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
    _ = tree::for_each(
        |_| true,
        |process| sum = sum.plus(process.times()).plus(process.children_times()),
    );
    sum
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

fn vmstat(text: &mut Text) {
    put!(text, "nr_free_pages {}\n", frame::free_count());
}

/// Sixteen random bytes as a version-4 UUID (RFC 9562).
fn put_uuid(text: &mut Text, bytes: u128) {
    let bytes = bytes & !(0xf << 76 | 3 << 62) | 4 << 76 | 2 << 62;
    let part = |shift: u32, bits: u32| bytes >> shift & ((1 << bits) - 1);
    put!(
        text,
        "{:08x}-{:04x}-{:04x}",
        part(96, 32),
        part(80, 16),
        part(64, 16)
    );
    put!(text, "-{:04x}-{:012x}\n", part(48, 16), part(0, 48));
}

fn random_uuid() -> u128 {
    let mut bytes = [0; 16];
    random::fill(&mut bytes);
    u128::from_ne_bytes(bytes)
}

fn boot_id(text: &mut Text) {
    static ID: Once<u128> = Once::new();
    put_uuid(text, *ID.call_once(random_uuid));
}
