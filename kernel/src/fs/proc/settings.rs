//! `/proc/sys`: settings, and values that only look like settings.

use super::super::seq_file::{Node, Text};
use super::super::{epoll, fdtable, file_table, inotify, lease, pipe, protected};
use crate::arch::{self, COMPAT_CALLS, EMULATIONS};
use crate::errno::{Errno, Result};
use crate::fs::aio;
use crate::fs::page_cache::{self, flusher};
use crate::fs::{erofs, ext4};
use crate::ipc::{Object, Registry, mqueue, sysv_msg, sysv_sem, sysv_shm};
use crate::mm::{aslr, commit, frame, map, vmas};
use crate::net::backlog;
use crate::net::inet::memory_limits::MemoryLimits;
use crate::net::inet::{connections, ping, ports, tcp, tcp_memory, udp_memory};
use crate::net::options::DEFAULT_BUFFER;
use crate::net::unix::datagram;
use crate::sync::Once;
use crate::syscall::syslog;
use crate::task::thread::TAGS_DISABLED;
use crate::task::{
    acct, core_name, coredump, hung_task, membarrier, pid_table, real_time, require, sched, uts,
    watchdog,
};
use crate::{log, put, random};
use Node::{Chosen, Directory, File, Line, Number, Numbers, Together};
use abi::sysctl::{Invalid, Sysctl, sysctl};
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// The actions of a system call filter.
const ACTIONS: &[u8] = b"kill_process kill_thread trap errno user_notif trace log allow\n";

/// A setting that can be changed on Linux but is fixed here: a write fails with EACCES.
macro_rules! fixed {
    ($value:expr) => {
        File(|text| put!(text, "{}\n", $value))
    };
}

/// An emulation in `/proc/sys/abi`, by its index in the architecture's list.
macro_rules! emulation {
    ($place:literal, $name:literal) => {
        (
            $name,
            Numbers(
                |text| put!(text, "{}\n", EMULATIONS[$place].mode()),
                |_, mode| {
                    EMULATIONS[$place].set_mode(mode as usize);
                    membarrier::sync_emulation_modes();
                    Ok(())
                },
                sysctl(concat!("abi/", $name)),
            ),
        )
    };
}

/// The members of `/proc/sys/abi`; the last one exists if programs have SVE.
const ABI: &[(&str, Node)] = &[
    emulation!(0, "cp15_barrier"),
    emulation!(1, "setend"),
    emulation!(2, "swp"),
    (
        "tagged_addr_disabled",
        Number(&TAGS_DISABLED, sysctl("abi/tagged_addr_disabled")),
    ),
    (
        "sve_default_vector_length",
        Numbers(
            |text| put!(text, "{}\n", arch::default_vector_length().unwrap_or(0)),
            |_, length| arch::set_default_vector_length(length as i32),
            sysctl("abi/sve_default_vector_length"),
        ),
    ),
];

/// The members of `/proc/sys`.
pub const SYS: &[(&str, Node)] = match COMPAT_CALLS {
    true => ALL,
    false => ALL.split_at(1).1,
};

/// The settings. The first ones exist only if 32-bit programs can run.
const ALL: &[(&str, Node)] = &[
    (
        "abi",
        Chosen(|| match arch::default_vector_length() {
            Some(_) => ABI,
            None => ABI.split_last().map_or(ABI, |(_, rest)| rest),
        }),
    ),
    (
        "fs",
        Directory(&[
            ("aio-max-nr", File(|text| put!(text, "{}\n", aio::MAX))),
            (
                "aio-nr",
                File(|text| put!(text, "{}\n", aio::active_requests())),
            ),
            (
                "file-max",
                Numbers(
                    |text| put!(text, "{}\n", file_table::most_open()),
                    |_, most| Ok(file_table::set_most_open(most as usize)),
                    sysctl("fs/file-max"),
                ),
            ),
            (
                "file-nr",
                File(|text| {
                    put!(
                        text,
                        "{}\t0\t{}\n",
                        file_table::open_files(),
                        file_table::most_open()
                    )
                }),
            ),
            (
                "nr_open",
                Number(&fdtable::MOST_FILES, sysctl("fs/nr_open")),
            ),
            (
                "lease-break-time",
                Numbers(
                    |text| put!(text, "{}\n", lease::BREAK_TIME.load(Relaxed)),
                    |_, seconds| Ok(lease::BREAK_TIME.store(seconds as u64, Relaxed)),
                    sysctl("fs/lease-break-time"),
                ),
            ),
            (
                "epoll",
                Directory(&[(
                    "max_user_watches",
                    Number(&epoll::MAX_WATCHES, sysctl("fs/epoll/max_user_watches")),
                )]),
            ),
            (
                "inotify",
                Directory(&[
                    (
                        "max_queued_events",
                        Number(&inotify::MAX_EVENTS, sysctl("fs/inotify/max_queued_events")),
                    ),
                    (
                        "max_user_instances",
                        Number(
                            &inotify::MAX_INSTANCES,
                            sysctl("fs/inotify/max_user_instances"),
                        ),
                    ),
                    (
                        "max_user_watches",
                        Number(&inotify::MAX_WATCHES, sysctl("fs/inotify/max_user_watches")),
                    ),
                ]),
            ),
            ("mqueue", Directory(MESSAGE_QUEUES)),
            (
                "pipe-max-size",
                Numbers(
                    |text| put!(text, "{}\n", pipe::max_size()),
                    |_, size| pipe::set_max_size(size as usize),
                    sysctl("fs/pipe-max-size"),
                ),
            ),
            (
                "pipe-user-pages-hard",
                Number(&pipe::USER_PAGES_HARD, sysctl("fs/pipe-user-pages-hard")),
            ),
            (
                "pipe-user-pages-soft",
                Number(&pipe::USER_PAGES_SOFT, sysctl("fs/pipe-user-pages-soft")),
            ),
            (
                "protected_fifos",
                Number(&protected::PIPES, sysctl("fs/protected_fifos")),
            ),
            (
                "protected_hardlinks",
                Number(&protected::HARD_LINKS, sysctl("fs/protected_hardlinks")),
            ),
            (
                "protected_regular",
                Number(&protected::FILES, sysctl("fs/protected_regular")),
            ),
            (
                "protected_symlinks",
                Number(&protected::SYMBOLIC_LINKS, sysctl("fs/protected_symlinks")),
            ),
            (
                "suid_dumpable",
                Numbers(
                    |text| put!(text, "{}\n", coredump::SUID_DUMPABLE.load(Relaxed)),
                    |_, value| Ok(coredump::SUID_DUMPABLE.store(value as u32, Relaxed)),
                    sysctl("fs/suid_dumpable"),
                ),
            ),
        ]),
    ),
    (
        "kernel",
        Directory(&[
            (
                "acct",
                Numbers(
                    accounting,
                    |place, value| Ok(acct::LIMITS[place].store(value as i32, Relaxed)),
                    sysctl("kernel/acct"),
                ),
            ),
            ("cap_last_cap", File(|text| put!(text, "40\n"))),
            (
                "core_pattern",
                Line(
                    |text| core_name::with_pattern(|pattern| put_line(text, pattern)),
                    core_name::write_pattern,
                ),
            ),
            ("core_pipe_limit", fixed!(0)),
            (
                "core_uses_pid",
                Numbers(
                    |text| put!(text, "{}\n", core_name::USES_PID.load(Relaxed)),
                    |_, value| Ok(core_name::USES_PID.store(value as i32, Relaxed)),
                    sysctl("kernel/core_uses_pid"),
                ),
            ),
            (
                "dmesg_restrict",
                Numbers(
                    |text| put!(text, "{}\n", syslog::RESTRICTED.load(Relaxed)),
                    |_, value| {
                        require(CAP_SYS_ADMIN)?;
                        syslog::RESTRICTED.store(value as usize, Relaxed);
                        Ok(())
                    },
                    sysctl("kernel/dmesg_restrict"),
                ),
            ),
            (
                "domainname",
                Line(
                    |text| put_line(text, uts::without_zeroes(&uts::names()[1])),
                    |bytes, at| Ok(uts::write_name(1, bytes, at)),
                ),
            ),
            (
                "hostname",
                Line(
                    |text| put_line(text, uts::without_zeroes(&uts::names()[0])),
                    |bytes, at| Ok(uts::write_name(0, bytes, at)),
                ),
            ),
            (
                "hung_task_timeout_secs",
                Numbers(
                    |text| put!(text, "{}\n", hung_task::timeout()),
                    |_, seconds| Ok(hung_task::set_timeout(seconds as usize)),
                    sysctl("kernel/hung_task_timeout_secs"),
                ),
            ),
            (
                "hung_task_warnings",
                Numbers(
                    |text| put!(text, "{}\n", hung_task::WARNINGS.load(Relaxed)),
                    |_, count| Ok(hung_task::WARNINGS.store(count as isize, Relaxed)),
                    sysctl("kernel/hung_task_warnings"),
                ),
            ),
            (
                "msgmax",
                Number(&sysv_msg::LONGEST, sysctl("kernel/msgmax")),
            ),
            (
                "msgmnb",
                Number(&sysv_msg::CAPACITY, sysctl("kernel/msgmnb")),
            ),
            (
                "msgmni",
                Number(&sysv_msg::QUEUES.most, sysctl("kernel/msgmni")),
            ),
            (
                "msg_next_id",
                Numbers(
                    |text| next_id(text, &sysv_msg::QUEUES),
                    |_, number| Ok(sysv_msg::QUEUES.set_next(Some(number as usize))),
                    sysctl("kernel/msg_next_id"),
                ),
            ),
            ("ngroups_max", File(|text| put!(text, "65536\n"))),
            ("osrelease", File(|text| put!(text, "{}\n", uts::RELEASE))),
            ("ostype", File(|text| put!(text, "Linux\n"))),
            ("overflowgid", File(|text| put!(text, "65534\n"))),
            ("overflowuid", File(|text| put!(text, "65534\n"))),
            (
                "pid_max",
                Numbers(
                    |text| put!(text, "{}\n", pid_table::pid_max()),
                    |_, limit| pid_table::set_pid_max(limit as i32),
                    sysctl("kernel/pid_max"),
                ),
            ),
            ("panic", fixed!(0)),
            (
                "printk",
                Numbers(levels, set_level, sysctl("kernel/printk")),
            ),
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
            (
                "sched_rr_timeslice_ms",
                Numbers(
                    |text| put!(text, "{}\n", real_time::turn_ms()),
                    |_, ms| Ok(real_time::set_turn_ms(ms as i32)),
                    sysctl("kernel/sched_rr_timeslice_ms"),
                ),
            ),
            (
                "sem",
                Numbers(
                    semaphores,
                    |place, value| sysv_sem::set_limit(place, value as i32),
                    sysctl("kernel/sem"),
                ),
            ),
            (
                "sem_next_id",
                Numbers(
                    |text| next_id(text, &sysv_sem::SETS),
                    |_, number| Ok(sysv_sem::SETS.set_next(Some(number as usize))),
                    sysctl("kernel/sem_next_id"),
                ),
            ),
            (
                "shmall",
                Number(&sysv_shm::MOST_PAGES, sysctl("kernel/shmall")),
            ),
            (
                "shmmax",
                Number(&sysv_shm::LARGEST, sysctl("kernel/shmmax")),
            ),
            (
                "shmmni",
                Number(&sysv_shm::SEGMENTS.most, sysctl("kernel/shmmni")),
            ),
            (
                "shm_next_id",
                Numbers(
                    |text| next_id(text, &sysv_shm::SEGMENTS),
                    |_, number| Ok(sysv_shm::SEGMENTS.set_next(Some(number as usize))),
                    sysctl("kernel/shm_next_id"),
                ),
            ),
            ("tainted", File(|text| put!(text, "0\n"))),
            (
                "randomize_va_space",
                Number(&aslr::LEVEL, sysctl("kernel/randomize_va_space")),
            ),
            (
                "seccomp",
                Directory(&[("actions_avail", File(|text| text.push(ACTIONS)))]),
            ),
            (
                "softlockup_panic",
                Number(&watchdog::SOFT_ENDS, sysctl("kernel/softlockup_panic")),
            ),
            (
                "threads-max",
                Numbers(
                    |text| put!(text, "{}\n", sched::most_threads()),
                    |_, most| Ok(sched::set_most_threads(most as usize)),
                    sysctl("kernel/threads-max"),
                ),
            ),
            ("version", File(|text| put!(text, "{}\n", uts::VERSION))),
            (
                "watchdog",
                Number(&watchdog::ENABLED, sysctl("kernel/watchdog")),
            ),
            (
                "watchdog_thresh",
                Number(&watchdog::THRESHOLD, sysctl("kernel/watchdog_thresh")),
            ),
        ]),
    ),
    (
        "net",
        Directory(&[
            ("core", Directory(NET)),
            ("ipv4", Directory(IPV4)),
            ("ipv6", Directory(IPV6)),
            (
                "unix",
                Directory(&[(
                    "max_dgram_qlen",
                    Number(&datagram::QUEUE, sysctl("net/unix/max_dgram_qlen")),
                )]),
            ),
        ]),
    ),
    (
        "vm",
        Directory(&[
            (
                "admin_reserve_kbytes",
                Number(&commit::ADMIN_RESERVE, sysctl("vm/admin_reserve_kbytes")),
            ),
            (
                "dirty_background_ratio",
                Number(
                    &flusher::BACKGROUND_RATIO,
                    sysctl("vm/dirty_background_ratio"),
                ),
            ),
            (
                "dirty_expire_centisecs",
                Number(&flusher::EXPIRE, sysctl("vm/dirty_expire_centisecs")),
            ),
            (
                "dirty_ratio",
                Number(&flusher::RATIO, sysctl("vm/dirty_ratio")),
            ),
            (
                "dirty_writeback_centisecs",
                Number(&flusher::INTERVAL, sysctl("vm/dirty_writeback_centisecs")),
            ),
            (
                "drop_caches",
                Numbers(
                    |text| put!(text, "0\n"),
                    |_, what| {
                        // Dentries are freed with their last reference, so they have no cache to
                        // drop. 4 only silences a log line.
                        if what & 1 != 0 {
                            page_cache::drop_clean();
                        }
                        if what & 2 != 0 {
                            ext4::drop_caches();
                            erofs::drop_caches();
                        }
                        Ok(())
                    },
                    sysctl("vm/drop_caches"),
                ),
            ),
            (
                "max_map_count",
                Number(&vmas::MOST_AREAS, sysctl("vm/max_map_count")),
            ),
            (
                "min_free_kbytes",
                Numbers(
                    |text| put!(text, "{}\n", frame::min_free_kbytes()),
                    |_, kbytes| Ok(frame::set_min_free_kbytes(kbytes as usize)),
                    sysctl("vm/min_free_kbytes"),
                ),
            ),
            (
                "mmap_min_addr",
                Number(&map::LEAST, sysctl("vm/mmap_min_addr")),
            ),
            ("nr_hugepages", fixed!(0)),
            ("numa_stat", fixed!(0)),
            ("oom_kill_allocating_task", fixed!(0)),
            (
                "overcommit_kbytes",
                Numbers(
                    |text| put!(text, "{}\n", commit::kbytes()),
                    |_, kbytes| Ok(commit::set_kbytes(kbytes as usize)),
                    sysctl("vm/overcommit_kbytes"),
                ),
            ),
            (
                "overcommit_memory",
                Numbers(
                    |text| put!(text, "{}\n", commit::MODE.load(Relaxed)),
                    |_, mode| Ok(commit::MODE.store(mode as usize, Relaxed)),
                    sysctl("vm/overcommit_memory"),
                ),
            ),
            (
                "overcommit_ratio",
                Numbers(
                    |text| put!(text, "{}\n", commit::ratio()),
                    |_, ratio| Ok(commit::set_ratio(ratio as usize)),
                    sysctl("vm/overcommit_ratio"),
                ),
            ),
            ("page-cluster", fixed!(3)),
            ("panic_on_oom", fixed!(0)),
            ("swappiness", fixed!(60)),
            (
                "user_reserve_kbytes",
                Number(&commit::USER_RESERVE, sysctl("vm/user_reserve_kbytes")),
            ),
            ("vfs_cache_pressure", fixed!(100)),
        ]),
    ),
];

const NET: &[(&str, Node)] = &[
    ("netdev_max_backlog", fixed!(1000)),
    ("optmem_max", fixed!(131_072)),
    ("rmem_default", fixed!(DEFAULT_BUFFER)),
    ("rmem_max", fixed!(DEFAULT_BUFFER)),
    (
        "somaxconn",
        Number(&backlog::MOST, sysctl("net/core/somaxconn")),
    ),
    ("wmem_default", fixed!(DEFAULT_BUFFER)),
    ("wmem_max", fixed!(DEFAULT_BUFFER)),
];

const IPV4: &[(&str, Node)] = &[
    ("ip_default_ttl", fixed!(64)),
    ("ip_forward", fixed!(0)),
    (
        "ip_local_port_range",
        Together(local_ports, set_local_ports),
    ),
    // Programs choose ports by themselves only if this file says which ones to avoid: there are
    // none.
    ("ip_local_reserved_ports", fixed!("")),
    ("ip_nonlocal_bind", fixed!(0)),
    (
        "ip_unprivileged_port_start",
        Numbers(
            |text| put!(text, "{}\n", ports::unprivileged()),
            |_, first| ports::set_unprivileged(first as u32),
            sysctl("net/ipv4/ip_unprivileged_port_start"),
        ),
    ),
    ("ping_group_range", Together(ping_groups, set_ping_groups)),
    (
        "tcp_fin_timeout",
        Number(
            &connections::FIN_TIMEOUT,
            sysctl("net/ipv4/tcp_fin_timeout"),
        ),
    ),
    ("tcp_keepalive_intvl", fixed!(75)),
    ("tcp_keepalive_probes", fixed!(9)),
    ("tcp_keepalive_time", fixed!(7200)),
    (
        "tcp_max_orphans",
        Number(&tcp::MOST_ORPHANS, sysctl("net/ipv4/tcp_max_orphans")),
    ),
    (
        "tcp_max_tw_buckets",
        Number(
            &connections::MOST_WAITING,
            sysctl("net/ipv4/tcp_max_tw_buckets"),
        ),
    ),
    (
        "tcp_mem",
        Numbers(
            |text| put_limits(text, &tcp_memory::LIMITS),
            |place, pages| Ok(tcp_memory::LIMITS.set(place, pages as usize)),
            sysctl("net/ipv4/tcp_mem"),
        ),
    ),
    ("tcp_rmem", fixed!("4096\t131072\t6291456")),
    ("tcp_sack", fixed!(1)),
    ("tcp_syn_retries", fixed!(6)),
    ("tcp_syncookies", fixed!(1)),
    ("tcp_timestamps", fixed!(1)),
    (
        "tcp_tw_reuse",
        Number(&connections::REUSE, sysctl("net/ipv4/tcp_tw_reuse")),
    ),
    ("tcp_window_scaling", fixed!(1)),
    ("tcp_wmem", fixed!("4096\t16384\t4194304")),
    (
        "udp_mem",
        Numbers(
            |text| put_limits(text, &udp_memory::LIMITS),
            |place, pages| Ok(udp_memory::LIMITS.set(place, pages as usize)),
            sysctl("net/ipv4/udp_mem"),
        ),
    ),
    ("udp_rmem_min", fixed!(4096)),
];

/// The limits on the memory of a protocol.
fn put_limits(text: &mut Text, limits: &MemoryLimits) {
    let [first, middle, last] = limits.get();
    put!(text, "{first}\t{middle}\t{last}\n");
}

/// The first and the last port that are chosen for sockets without one.
fn local_ports(text: &mut Text) {
    let (first, last) = ports::ephemeral();
    put!(text, "{first}\t{last}\n");
}

fn set_local_ports(bytes: &[u8]) -> Result<usize> {
    let (first, last) = ports::ephemeral();
    let path = "net/ipv4/ip_local_port_range";
    let (used, [first, last]) = range(sysctl(path), bytes, [first.into(), last.into()])?;
    ports::set_ephemeral(first as u16, last as u16)?;
    Ok(used)
}

/// `range` with its ends replaced as `bytes` say, and the number of bytes parsed.
fn range(rule: &Sysctl, bytes: &[u8], mut range: [u32; 2]) -> Result<(usize, [u32; 2])> {
    let set = |place: usize, value| Ok::<_, Invalid>(range[place] = value as u32);
    let used = rule.write(bytes, set).map_err(|_| Errno::EINVAL)?;
    Ok((used, range))
}

/// The first and the last group whose members may create ping sockets.
fn ping_groups(text: &mut Text) {
    let [first, last] = ping::groups();
    put!(text, "{first}\t{last}\n");
}

fn set_ping_groups(bytes: &[u8]) -> Result<usize> {
    let rule = sysctl("net/ipv4/ping_group_range");
    let (used, range) = range(rule, bytes, ping::groups())?;
    ping::set_groups(range);
    Ok(used)
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
    (
        "msg_default",
        Number(&mqueue::USUAL_MESSAGES, sysctl("fs/mqueue/msg_default")),
    ),
    (
        "msg_max",
        Number(&mqueue::MOST_MESSAGES, sysctl("fs/mqueue/msg_max")),
    ),
    (
        "msgsize_default",
        Number(&mqueue::USUAL_MESSAGE, sysctl("fs/mqueue/msgsize_default")),
    ),
    (
        "msgsize_max",
        Number(&mqueue::LARGEST_MESSAGE, sysctl("fs/mqueue/msgsize_max")),
    ),
    (
        "queues_max",
        Number(&mqueue::MOST, sysctl("fs/mqueue/queues_max")),
    ),
];

/// The limits: semaphores in a set, semaphores in all sets, operations in a call, and sets.
fn semaphores(text: &mut Text) {
    let [largest, all, operations, most] = sysv_sem::limits();
    put!(text, "{largest}\t{all}\t{operations}\t{most}\n");
}

fn accounting(text: &mut Text) {
    let [resume, suspend, pause] = acct::LIMITS.each_ref().map(|limit| limit.load(Relaxed));
    put!(text, "{resume}\t{suspend}\t{pause}\n");
}

/// The number that the next object of a kind gets; -1 means any.
fn next_id<T: Object>(text: &mut Text, registry: &Registry<T>) {
    match registry.next() {
        Some(number) => put!(text, "{number}\n"),
        None => put!(text, "-1\n"),
    }
}

/// The levels of the log.
fn levels(text: &mut Text) {
    let [console, message, least, usual] = log::LEVELS.each_ref().map(|level| level.load(Relaxed));
    put!(text, "{console}\t{message}\t{least}\t{usual}\n");
}

fn set_level(place: usize, value: i128) -> Result<()> {
    require(CAP_SYS_ADMIN)?;
    log::LEVELS[place].store(value as usize, Relaxed);
    Ok(())
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
