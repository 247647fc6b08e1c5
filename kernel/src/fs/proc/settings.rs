//! `/proc/sys`: what can be set, and what is told as if it could be.

use super::super::seq_file::{Node, Text};
use super::super::{epoll, fdtable, file, inotify, lease, pipe, protected};
use crate::errno::{Errno, Result};
use crate::fs::aio;
use crate::ipc::{self, Object, Registry, sysv_msg, sysv_sem, sysv_shm};
use crate::mm::{aslr, commit, map, vmas};
use crate::net::backlog;
use crate::net::inet::ping;
use crate::net::options::DEFAULT_BUFFER;
use crate::sync::Once;
use crate::syscall::syslog;
use crate::task::{pid_table, require, sched, uts};
use crate::{log, put, random};
use Node::{Directory, File, Number, Setting};
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// What a filter of system calls can do.
const ACTIONS: &[u8] = b"kill_process kill_thread trap errno user_notif trace log allow\n";

/// A setting that Linux lets be changed and that stays what it is here: who writes is told so
/// (EACCES).
macro_rules! fixed {
    ($value:expr) => {
        File(|text| put!(text, "{}\n", $value))
    };
}

/// The members of `/proc/sys`.
pub const SYS: &[(&str, Node)] = &[
    (
        "fs",
        Directory(&[
            ("aio-max-nr", File(|text| put!(text, "{}\n", aio::MAX))),
            ("aio-nr", File(|text| put!(text, "{}\n", aio::asked()))),
            (
                "file-max",
                Setting(
                    |text| put!(text, "{}\n", file::most_open()),
                    |bytes| {
                        let most = super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?;
                        file::set_most_open(most);
                        Ok(())
                    },
                ),
            ),
            (
                "file-nr",
                File(|text| put!(text, "{}\t0\t{}\n", file::open_files(), file::most_open())),
            ),
            ("nr_open", fixed!(fdtable::MAX_FILES)),
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
                "epoll",
                Directory(&[("max_user_watches", Number(&epoll::MAX_WATCHES))]),
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
            ("pipe-user-pages-hard", Number(&pipe::USER_PAGES_HARD)),
            ("pipe-user-pages-soft", Number(&pipe::USER_PAGES_SOFT)),
            ("protected_fifos", Number(&protected::PIPES)),
            ("protected_hardlinks", Number(&protected::HARD_LINKS)),
            ("protected_regular", Number(&protected::FILES)),
            ("protected_symlinks", Number(&protected::SYMBOLIC_LINKS)),
            ("suid_dumpable", fixed!(0)),
        ]),
    ),
    (
        "kernel",
        Directory(&[
            ("cap_last_cap", File(|text| put!(text, "40\n"))),
            ("core_pattern", fixed!("core")),
            ("core_pipe_limit", fixed!(0)),
            ("core_uses_pid", fixed!(0)),
            (
                "dmesg_restrict",
                Setting(
                    |text| put!(text, "{}\n", syslog::RESTRICTED.load(Relaxed)),
                    |bytes| {
                        let value = Some(number(bytes)?).filter(|&value| value <= 1);
                        require(CAP_SYS_ADMIN)?;
                        syslog::RESTRICTED.store(value.ok_or(Errno::EINVAL)?, Relaxed);
                        Ok(())
                    },
                ),
            ),
            (
                "domainname",
                Setting(
                    |text| put_line(text, uts::without_zeroes(&uts::names()[1])),
                    |bytes| uts::set_domain(bytes.trim_ascii()),
                ),
            ),
            (
                "hostname",
                Setting(
                    |text| put_line(text, uts::without_zeroes(&uts::names()[0])),
                    |bytes| uts::set_host_name(bytes.trim_ascii()),
                ),
            ),
            ("msgmax", File(|text| put!(text, "{}\n", sysv_msg::LONGEST))),
            (
                "msgmnb",
                File(|text| put!(text, "{}\n", sysv_msg::CAPACITY)),
            ),
            ("msgmni", Number(&sysv_msg::QUEUES.most)),
            (
                "msg_next_id",
                Setting(
                    |text| next_id(text, &sysv_msg::QUEUES),
                    |bytes| set_next_id(bytes, &sysv_msg::QUEUES),
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
                    |text| put!(text, "{}\n", pid_table::pid_max()),
                    |bytes| {
                        pid_table::set_pid_max(
                            super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?,
                        )
                    },
                ),
            ),
            ("panic", fixed!(0)),
            ("printk", Setting(levels, set_levels)),
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
                    |text| next_id(text, &sysv_sem::SETS),
                    |bytes| set_next_id(bytes, &sysv_sem::SETS),
                ),
            ),
            ("shmall", Number(&sysv_shm::MOST_PAGES)),
            ("shmmax", Number(&sysv_shm::LARGEST)),
            ("shmmni", Number(&sysv_shm::SEGMENTS.most)),
            (
                "shm_next_id",
                Setting(
                    |text| next_id(text, &sysv_shm::SEGMENTS),
                    |bytes| set_next_id(bytes, &sysv_shm::SEGMENTS),
                ),
            ),
            ("tainted", File(|text| put!(text, "0\n"))),
            ("randomize_va_space", Number(&aslr::LEVEL)),
            (
                "seccomp",
                Directory(&[("actions_avail", File(|text| text.push(ACTIONS)))]),
            ),
            (
                "threads-max",
                Setting(
                    |text| put!(text, "{}\n", sched::most_threads()),
                    |bytes| {
                        let most = super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?;
                        sched::set_most_threads(most)
                    },
                ),
            ),
            ("version", File(|text| put!(text, "{}\n", uts::VERSION))),
        ]),
    ),
    (
        "net",
        Directory(&[
            ("core", Directory(NET)),
            ("ipv4", Directory(IPV4)),
            ("ipv6", Directory(IPV6)),
            ("unix", Directory(&[("max_dgram_qlen", fixed!(10))])),
        ]),
    ),
    (
        "vm",
        Directory(&[
            ("admin_reserve_kbytes", Number(&commit::ADMIN_RESERVE)),
            ("dirty_background_ratio", fixed!(10)),
            ("dirty_ratio", fixed!(20)),
            (
                "drop_caches",
                Setting(|text| put!(text, "0\n"), drop_caches),
            ),
            ("max_map_count", Number(&vmas::MOST_AREAS)),
            ("mmap_min_addr", Number(&map::LEAST)),
            ("nr_hugepages", fixed!(0)),
            ("numa_stat", fixed!(0)),
            ("oom_kill_allocating_task", fixed!(0)),
            (
                "overcommit_kbytes",
                Setting(
                    |text| put!(text, "{}\n", commit::kbytes()),
                    |bytes| Ok(commit::set_kbytes(number(bytes)?)),
                ),
            ),
            (
                "overcommit_memory",
                Setting(
                    |text| put!(text, "{}\n", commit::MODE.load(Relaxed)),
                    |bytes| {
                        let mode = Some(number(bytes)?).filter(|&mode| mode <= commit::NEVER);
                        commit::MODE.store(mode.ok_or(Errno::EINVAL)?, Relaxed);
                        Ok(())
                    },
                ),
            ),
            (
                "overcommit_ratio",
                Setting(
                    |text| put!(text, "{}\n", commit::ratio()),
                    |bytes| Ok(commit::set_ratio(number(bytes)?)),
                ),
            ),
            ("page-cluster", fixed!(3)),
            ("panic_on_oom", fixed!(0)),
            ("swappiness", fixed!(60)),
            ("user_reserve_kbytes", Number(&commit::USER_RESERVE)),
            ("vfs_cache_pressure", fixed!(100)),
        ]),
    ),
];

const NET: &[(&str, Node)] = &[
    ("netdev_max_backlog", fixed!(1000)),
    ("optmem_max", fixed!(131_072)),
    ("rmem_default", fixed!(DEFAULT_BUFFER)),
    ("rmem_max", fixed!(DEFAULT_BUFFER)),
    ("somaxconn", fixed!(backlog::MAX)),
    ("wmem_default", fixed!(DEFAULT_BUFFER)),
    ("wmem_max", fixed!(DEFAULT_BUFFER)),
];

const IPV4: &[(&str, Node)] = &[
    ("ip_default_ttl", fixed!(64)),
    ("ip_forward", fixed!(0)),
    ("ip_local_port_range", fixed!("32768\t60999")),
    // Programs look for a port by themselves only where this says which they must not take: none.
    ("ip_local_reserved_ports", fixed!("")),
    ("ip_nonlocal_bind", fixed!(0)),
    ("ip_unprivileged_port_start", fixed!(1024)),
    ("ping_group_range", Setting(ping_groups, set_ping_groups)),
    ("tcp_fin_timeout", fixed!(60)),
    ("tcp_keepalive_intvl", fixed!(75)),
    ("tcp_keepalive_probes", fixed!(9)),
    ("tcp_keepalive_time", fixed!(7200)),
    ("tcp_rmem", fixed!("4096\t131072\t6291456")),
    ("tcp_sack", fixed!(1)),
    ("tcp_syn_retries", fixed!(6)),
    ("tcp_syncookies", fixed!(1)),
    ("tcp_timestamps", fixed!(1)),
    ("tcp_tw_reuse", fixed!(2)),
    ("tcp_window_scaling", fixed!(1)),
    ("tcp_wmem", fixed!("4096\t16384\t4194304")),
];

/// The first and the last group whose members may have ping sockets.
fn ping_groups(text: &mut Text) {
    let [first, last] = ping::groups();
    put!(text, "{first}\t{last}\n");
}

fn set_ping_groups(bytes: &[u8]) -> Result<()> {
    let mut range = ping::groups();
    let words = bytes.split(u8::is_ascii_whitespace);
    let given = words.filter(|word| !word.is_empty());
    for (group, word) in range.iter_mut().zip(given) {
        *group = super::parse(word).ok_or(Errno::EINVAL)?;
    }
    ping::set_groups(range)
}

const IPV6: &[(&str, Node)] = &[
    ("bindv6only", fixed!(0)),
    (
        "conf",
        Directory(&[
            ("all", Directory(CONF)),
            ("default", Directory(CONF)),
            ("lo", Directory(CONF)),
        ]),
    ),
];

const CONF: &[(&str, Node)] = &[("disable_ipv6", fixed!(0))];

const MESSAGE_QUEUES: &[(&str, Node)] = &[
    ("msg_default", File(message_count)),
    ("msg_max", File(message_count)),
    ("msgsize_default", File(message_size)),
    ("msgsize_max", File(message_size)),
    ("queues_max", Number(&ipc::mqueue::MOST)),
];

fn message_count(text: &mut Text) {
    put!(text, "{}\n", ipc::mqueue::SOFT.messages);
}

fn message_size(text: &mut Text) {
    put!(text, "{}\n", ipc::mqueue::SOFT.bytes);
}

/// Semaphores of a set, of all sets, operations of a call, sets: at most.
fn semaphores(text: &mut Text) {
    let (largest, most) = (sysv_sem::LARGEST, sysv_sem::SETS.most.load(Relaxed));
    let all = largest * most;
    let operations = sysv_sem::MOST_OPERATIONS;
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

/// The levels of the log.
fn levels(text: &mut Text) {
    let [console, message, least, usual] = log::LEVELS.each_ref().map(|level| level.load(Relaxed));
    put!(text, "{console}\t{message}\t{least}\t{usual}\n");
}

/// Sets the first levels, as many as there are numbers.
fn set_levels(bytes: &[u8]) -> Result<()> {
    require(CAP_SYS_ADMIN)?;
    let words = bytes.split(u8::is_ascii_whitespace);
    let words = words.filter(|word| !word.is_empty());
    for (word, level) in words.zip(&log::LEVELS) {
        level.store(number(word)?, Relaxed);
    }
    Ok(())
}

/// 1 to 4, as on Linux; files are nowhere but in memory, so that there is nothing to drop.
fn drop_caches(bytes: &[u8]) -> Result<()> {
    let what: usize = super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)?;
    if (1..=4).contains(&what) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn number(bytes: &[u8]) -> Result<usize> {
    super::parse(bytes.trim_ascii()).ok_or(Errno::EINVAL)
}

fn put_line(text: &mut Text, bytes: &[u8]) {
    text.push(bytes);
    text.push(b"\n");
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
