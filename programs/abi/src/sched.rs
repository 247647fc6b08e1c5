//! Scheduling as programs see it, and accounting of their resource usage.

use std::{fs, mem, ptr};

use libc::{SCHED_BATCH, SCHED_FIFO, SCHED_IDLE, SCHED_OTHER, SCHED_RR};

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        tell_end("policies", in_child(|| policies()));
        tell_end("attributes", in_child(|| attributes()));
        affinity();
        ended();
        usage();
        fields();
        nice();
    }
}

unsafe fn policies() {
    unsafe {
        for (name, policy) in [
            ("other", SCHED_OTHER),
            ("first in", SCHED_FIFO),
            ("in turn", SCHED_RR),
            ("batch", SCHED_BATCH),
            ("idle", SCHED_IDLE),
            ("deadline", 6),
            ("none", 4),
            ("odd", 99),
        ] {
            println!("{name}");
            tell("  highest", libc::sched_get_priority_max(policy));
            tell("  lowest", libc::sched_get_priority_min(policy));
            for priority in [0, 1, 99, 100, -1] {
                let set = libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &priority);
                tell(&format!("  {priority}"), set);
            }
            tell("  it is", libc::syscall(libc::SYS_sched_getscheduler, 0));
            let mut turn: libc::timespec = mem::zeroed();
            tell("  turn", libc::sched_rr_get_interval(0, &mut turn));
        }
        tell(
            "turn of nobody",
            libc::syscall(libc::SYS_sched_rr_get_interval, 77777, 0),
        );
        tell(
            "turn nowhere",
            libc::syscall(libc::SYS_sched_rr_get_interval, 0, 0),
        );
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<_> = stat.split(") ").last().unwrap_or("").split(' ').collect();
        println!(
            "priority {} nice {} rt {} policy {}",
            fields[15], fields[16], fields[37], fields[38]
        );
        libc::syscall(libc::SYS_sched_setscheduler, 0, SCHED_RR, &7);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<_> = stat.split(") ").last().unwrap_or("").split(' ').collect();
        println!(
            "priority {} nice {} rt {} policy {}",
            fields[15], fields[16], fields[37], fields[38]
        );
        libc::syscall(libc::SYS_sched_setscheduler, 0, SCHED_OTHER, &0);
        libc::setresuid(1000, 1000, 1000);
        tell(
            "by a user",
            libc::syscall(libc::SYS_sched_setscheduler, 0, SCHED_FIFO, &1),
        );
        tell(
            "of root's",
            libc::syscall(libc::SYS_sched_setscheduler, 1, SCHED_OTHER, &0),
        );
        tell(
            "idle",
            libc::syscall(libc::SYS_sched_setscheduler, 0, SCHED_IDLE, &0),
        );
        tell(
            "other again",
            libc::syscall(libc::SYS_sched_setscheduler, 0, SCHED_OTHER, &0),
        );
    }
}

/// `struct sched_attr`, second version.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    least: u32,
    most: u32,
}

unsafe fn attributes() {
    unsafe {
        let mut now = Attributes::default();
        let get = |now: &mut Attributes, size: usize, flags: u32| {
            libc::syscall(libc::SYS_sched_getattr, 0, now, size, flags)
        };
        tell("get", get(&mut now, 56, 0));
        println!(
            "{} {} {:?}",
            now.size,
            now.policy,
            (now.flags, now.nice, now.priority)
        );
        tell("small", get(&mut now, 47, 0));
        tell("the first version", get(&mut now, 48, 0));
        println!("{}", now.size);
        tell("large", get(&mut now, 5000, 0));
        tell("odd flags", get(&mut now, 56, 1));
        let set = |what: &str, attributes: Attributes| {
            tell(
                what,
                libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0),
            );
        };
        let plain = Attributes {
            size: 48,
            ..Attributes::default()
        };
        set("plain", plain);
        set("nice", Attributes { nice: 5, ..plain });
        tell("nice is", libc::getpriority(libc::PRIO_PROCESS, 0));
        set("no size", Attributes { size: 0, ..plain });
        set("a small size", Attributes { size: 40, ..plain });
        set(
            "odd flags",
            Attributes {
                flags: 1 << 20,
                ..plain
            },
        );
        set(
            "an odd policy",
            Attributes {
                policy: 50,
                ..plain
            },
        );
        set(
            "real time",
            Attributes {
                policy: 1,
                priority: 5,
                ..plain
            },
        );
        set(
            "kept policy",
            Attributes {
                flags: 8,
                priority: 6,
                ..plain
            },
        );
        tell("get", get(&mut now, 48, 0));
        println!("{} {:?}", now.policy, (now.flags, now.nice, now.priority));
        set(
            "kept parameters",
            Attributes {
                policy: 2,
                flags: 0x10,
                ..plain
            },
        );
        tell("get", get(&mut now, 48, 0));
        println!("{} {:?}", now.policy, (now.flags, now.nice, now.priority));
        set(
            "a deadline too late",
            Attributes {
                policy: 6,
                runtime: 10,
                deadline: 5,
                ..plain
            },
        );
        children(plain);
    }
}

/// The parts of a policy that children inherit, and the flag that prevents that.
unsafe fn children(plain: Attributes) {
    unsafe {
        let tell_all = |what: &str| {
            let mut now = Attributes::default();
            libc::syscall(libc::SYS_sched_getattr, 0, &mut now, 48, 0);
            let Attributes { policy, flags, .. } = now;
            let whole = libc::syscall(libc::SYS_sched_getscheduler, 0);
            let (nice, priority) = (now.nice, now.priority);
            println!("{what}: {policy} {flags:#x} {nice} {priority}, {whole:#x}");
        };
        for (policy, nice, priority) in [(0, -5, 0), (3, -5, 0), (3, 5, 0), (5, 3, 0), (1, 0, 7)] {
            for flags in [0, 1] {
                let wanted = Attributes {
                    policy,
                    nice,
                    priority,
                    flags,
                    ..plain
                };
                tell("set", libc::syscall(libc::SYS_sched_setattr, 0, &wanted, 0));
                tell_all("its own");
                tell_end("a child", in_child(|| tell_all("the child's")));
            }
            for (what, flags) in [("keep the policy", 8), ("keep all", 16), ("again", 17)] {
                let kept = Attributes {
                    policy,
                    nice,
                    priority,
                    flags,
                    ..plain
                };
                tell(what, libc::syscall(libc::SYS_sched_setattr, 0, &kept, 0));
                tell_all("its own");
            }
        }
    }
}

unsafe fn affinity() {
    unsafe {
        let mut mask = [0u64; 16];
        tell(
            "affinity",
            libc::syscall(libc::SYS_sched_getaffinity, 0, 8, &mut mask),
        );
        let online = libc::sysconf(libc::_SC_NPROCESSORS_ONLN);
        println!("all CPUs: {}", i64::from(mask[0].count_ones()) == online);
        tell(
            "odd length",
            libc::syscall(libc::SYS_sched_getaffinity, 0, 7, &mut mask),
        );
        tell(
            "of nobody",
            libc::syscall(libc::SYS_sched_getaffinity, 77777, 8, &mut mask),
        );
        tell(
            "none of them",
            libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[0u64]),
        );
        tell(
            "one that is absent",
            libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[1u64 << 40]),
        );
        tell(
            "all",
            libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[u64::MAX]),
        );
        tell(
            "one byte",
            libc::syscall(libc::SYS_sched_setaffinity, 0, 1, &[1u64]),
        );
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list"));
        println!("{line:?}");
    }
}

/// Queries about an ended thread.
unsafe fn ended() {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                0,
                SCHED_FIFO | 0x4000_0000,
                &3,
            );
            libc::_exit(0);
        }
        let mut info: libc::siginfo_t = mem::zeroed();
        libc::waitid(
            libc::P_PID,
            child as _,
            &mut info,
            libc::WEXITED | libc::WNOWAIT,
        );
        let mut priority = 0u32;
        tell(
            "parameter",
            libc::syscall(libc::SYS_sched_getparam, child, &mut priority),
        );
        println!("{priority}");
        tell(
            "set",
            libc::syscall(libc::SYS_sched_setscheduler, child, SCHED_OTHER, &0),
        );
        scheduled(child);
        tell_end(
            "by a user",
            in_child(|| {
                libc::setresuid(1000, 1000, 1000);
                scheduled(child);
            }),
        );
        tell(
            "affinity",
            libc::syscall(libc::SYS_sched_getaffinity, child, 8, &mut [0u64]),
        );
        tell("nice", libc::setpriority(libc::PRIO_PROCESS, child as _, 3));
        tell("group", libc::getpgid(child) != child);
        tell("session", libc::getsid(child) != child);
        tell(
            "limits",
            libc::syscall(libc::SYS_prlimit64, child, 3, 0, &mut [0u64; 2]),
        );
        tell("signal", libc::kill(child, libc::SIGUSR1));
        for file in [
            "maps",
            "cmdline",
            "environ",
            "wchan",
            "limits",
            "comm",
            "statm",
            "auxv",
            "oom_score_adj",
            "fd",
            "exe",
            "cwd",
        ] {
            let place = format!("/proc/{child}/{file}");
            let read = match file {
                "fd" => fs::read_dir(place).map(|names| names.count()),
                "exe" | "cwd" => fs::read_link(place).map(|path| path.as_os_str().len()),
                _ => fs::read(place).map(|bytes| bytes.len().min(1)),
            };
            println!("{file}: {:?}", read.map_err(|error| error.raw_os_error()));
        }
        libc::waitpid(child, ptr::null_mut(), 0);
        tell("gone", libc::kill(child, 0));
    }
}

/// Sets the policy of an ended thread.
unsafe fn scheduled(child: libc::pid_t) {
    unsafe {
        let is = || {
            let mut priority = 0u32;
            let policy = libc::syscall(libc::SYS_sched_getscheduler, child);
            libc::syscall(libc::SYS_sched_getparam, child, &mut priority);
            println!("  {policy:#x} {priority}");
        };
        for (policy, priority) in [
            (99, 0),
            (SCHED_FIFO, 0),
            (SCHED_FIFO, 100),
            (SCHED_FIFO, 5),
            (SCHED_FIFO, 4),
            (SCHED_OTHER, 1),
            (SCHED_IDLE, 0),
            (SCHED_OTHER | 0x4000_0000, 0),
            (6, 0),
            (-1, 0),
        ] {
            let set = libc::syscall(libc::SYS_sched_setscheduler, child, policy, &priority);
            tell(&format!("policy {policy:#x} {priority}"), set);
            is();
        }
        for priority in [0, 1, 99] {
            let set = libc::syscall(libc::SYS_sched_setparam, child, &priority);
            tell(&format!("priority {priority}"), set);
            is();
        }
        let mut attributes = Attributes::default();
        let none = 0u32;
        let get = libc::syscall(libc::SYS_sched_getattr, child, &mut attributes, 48u32, none);
        tell("attributes", get);
        (attributes.nice, attributes.policy, attributes.priority) = (5, 3, 0);
        attributes.size = 48;
        let set = libc::syscall(libc::SYS_sched_setattr, child, &attributes, none);
        tell("set", set);
        is();
        let mut turn: libc::timespec = mem::zeroed();
        tell("turn", libc::sched_rr_get_interval(child, &mut turn));
    }
}

/// Arguments that getrusage(2) refuses.
unsafe fn usage() {
    unsafe {
        tell("of nobody", libc::getrusage(5, &mut mem::zeroed()));
        tell("nowhere", libc::syscall(libc::SYS_getrusage, 0, 1));
    }
}

/// The fields of /proc/PID/stat, and whether the counters among them increase.
unsafe fn fields() {
    unsafe {
        let fields = || {
            let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
            let rest = stat.split(") ").last().unwrap_or("").trim().to_owned();
            rest.split(' ').map(str::to_owned).collect::<Vec<_>>()
        };
        let now = fields();
        println!("fields {}", now.len());
        let number = |fields: &[String], at: usize| fields[at - 3].parse::<i64>().unwrap_or(-99);
        println!("parent {}", number(&now, 4) == libc::getppid() as i64);
        println!("group {}", number(&now, 5) == libc::getpgrp() as i64);
        println!("session {}", number(&now, 6) == libc::getsid(0) as i64);
        println!(
            "priority {} nice {} threads {}",
            number(&now, 18),
            number(&now, 19),
            number(&now, 20)
        );
        println!(
            "started {} size {} resident {}",
            number(&now, 22) > 0,
            number(&now, 23) > 1 << 16,
            number(&now, 24) > 16
        );
        println!("limit {}", &now[25 - 3]);
        println!("signals {:?}", &now[31 - 3..=34 - 3]);
        println!(
            "exit signal {} rt {} policy {}",
            number(&now, 38),
            number(&now, 40),
            number(&now, 41)
        );
        println!(
            "arguments {} environment {}",
            number(&now, 49) > number(&now, 48),
            number(&now, 51) >= number(&now, 50)
        );
        println!("exit code {}", number(&now, 52));
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: Vec<i64> = statm
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(-1))
            .collect();
        println!(
            "statm {} {} {} {} {} {}",
            pages[0] > 16,
            pages[1] > 16,
            pages[2] >= 0 && pages[2] <= pages[1],
            pages[3] > 0,
            pages[4],
            pages[5] > 0
        );
        let mut times: libc::tms = mem::zeroed();
        println!("times {}", libc::times(&mut times) > 0);
    }
}

unsafe fn nice() {
    unsafe {
        tell_end(
            "nice",
            in_child(|| {
                tell("to 30", libc::setpriority(libc::PRIO_PROCESS, 0, 30));
                tell("it is", libc::getpriority(libc::PRIO_PROCESS, 0));
                tell("of a group", libc::getpriority(libc::PRIO_PGRP, 0) <= 0);
                tell("of a user", libc::getpriority(libc::PRIO_USER, 0) <= 0);
                tell("of nothing", libc::getpriority(7, 0));
                libc::setresuid(1000, 1000, 1000);
                tell("lower", libc::setpriority(libc::PRIO_PROCESS, 0, 18));
                tell("the same", libc::setpriority(libc::PRIO_PROCESS, 0, 19));
                tell("of root's", libc::setpriority(libc::PRIO_PROCESS, 1, 19));
                tell(
                    "of a user without any",
                    libc::getpriority(libc::PRIO_USER, 55555),
                );
                tell("I/O", libc::syscall(31, 1, 0));
                tell("I/O by turns", libc::syscall(30, 1, 0, 2 << 13 | 3));
                tell("I/O", libc::syscall(31, 1, 0));
                tell("I/O first", libc::syscall(30, 1, 0, 1 << 13));
            }),
        );
    }
}
