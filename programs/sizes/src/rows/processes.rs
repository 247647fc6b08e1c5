//! Processes among many.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{Crowd, call, fork, name, read_whole, settle, wait};

/// The maximum number of processes: 1 GiB suffices for them on each kernel.
const MOST: usize = 1_000;

pub const ROWS: &[Row] = &[
    among(
        "fork_exit_wait",
        MOST,
        forks,
        "fork, exit and wait among N other children",
    ),
    among(
        "reap_any",
        MOST,
        reap_any,
        "wait4 of any of N ended children, by child",
    ),
    among(
        "reap_each",
        MOST,
        reap_each,
        "wait4 of each of N ended children, the last first",
    ),
    among(
        "wait_nohang",
        MOST,
        nohang,
        "wait4 with WNOHANG of one of N children that live",
    ),
    among(
        "kill_pid",
        MOST,
        kill_pid,
        "kill of one of N, which ignores the signal",
    ),
    among(
        "kill_group",
        MOST,
        kill_group,
        "kill of a group of N, which ignore it, by process",
    ),
    among(
        "setpriority_group",
        MOST,
        priority,
        "setpriority of a group of N, by process",
    ),
    among(
        "proc_readdir",
        MOST,
        readdir,
        "getdents64 of /proc with N processes, by process",
    ),
    among(
        "proc_pid_stat",
        MOST,
        stat,
        "/proc/PID/stat of one of N, open to close",
    ),
    among(
        "proc_pid_status",
        MOST,
        status,
        "/proc/PID/status of one of N, open to close",
    ),
    among(
        "proc_stat",
        MOST,
        system_stat,
        "/proc/stat with N processes, open to close",
    ),
    among(
        "proc_meminfo",
        MOST,
        meminfo,
        "/proc/meminfo with N processes, open to close",
    ),
    among(
        "ptrace",
        MOST,
        ptrace,
        "one of N tracees continued, interrupted and awaited",
    ),
    among("ptrace_any", MOST, ptrace_any, "the same, awaited as any"),
    among(
        "seccomp",
        1_000,
        seccomp,
        "getppid under N filters that allow",
    ),
];

fn forks(meter: &mut Meter) -> Done {
    let _crowd = Crowd::new(meter.size())?;
    meter.repeat(4, |_| wait(fork(|| ())? as isize))
}

/// Creates `number` children that have ended.
fn ended(number: usize) -> io::Result<Vec<usize>> {
    let pids = (0..number).map(|_| fork(|| ())).collect();
    settle();
    pids
}

/// Reaps ended children; `which` maps each to the argument of the wait.
fn reap(meter: &mut Meter, which: fn(usize) -> isize) -> Done {
    let size = meter.size();
    let pids = std::cell::RefCell::new(Vec::new());
    meter.batches(
        size,
        || {
            *pids.borrow_mut() = ended(size)?;
            Ok(())
        },
        || {
            pids.take()
                .into_iter()
                .rev()
                .try_for_each(|pid| wait(which(pid)))
        },
    )
}

fn reap_any(meter: &mut Meter) -> Done {
    reap(meter, |_| -1)
}

fn reap_each(meter: &mut Meter) -> Done {
    reap(meter, |pid| pid as isize)
}

fn nohang(meter: &mut Meter) -> Done {
    let crowd = Crowd::new(meter.size())?;
    let one = crowd.pids[meter.size() / 2];
    meter.repeat(EACH, |_| {
        call!(SYS_wait4, one, 0, libc::WNOHANG, 0).map(drop)
    })
}

fn kill_pid(meter: &mut Meter) -> Done {
    let crowd = Crowd::new(meter.size())?;
    let one = crowd.pids[meter.size() / 2];
    meter.repeat(EACH, |_| call!(SYS_kill, one, libc::SIGURG).map(drop))
}

fn kill_group(meter: &mut Meter) -> Done {
    let crowd = Crowd::new(meter.size())?;
    let group = -(crowd.group() as isize);
    meter.batches(
        meter.size() * EACH,
        || Ok(()),
        || (0..EACH).try_for_each(|_| call!(SYS_kill, group, libc::SIGURG).map(drop)),
    )
}

fn priority(meter: &mut Meter) -> Done {
    let crowd = Crowd::new(meter.size())?;
    let (kind, group) = (libc::PRIO_PGRP, crowd.group());
    meter.batches(
        meter.size() * EACH,
        || Ok(()),
        || (0..EACH).try_for_each(|nice| call!(SYS_setpriority, kind, group, nice).map(drop)),
    )
}

fn readdir(meter: &mut Meter) -> Done {
    let _crowd = Crowd::new(meter.size())?;
    let folder = std::fs::File::open("/proc")?;
    let mut buffer = vec![0u8; 32 << 10];
    meter.batches(
        meter.size(),
        || call!(SYS_lseek, folder.as_raw_fd(), 0, libc::SEEK_SET).map(drop),
        || loop {
            let read = call!(
                SYS_getdents64,
                folder.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len()
            );
            match read {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        },
    )
}

/// Reads a file of `/proc`, from open to close.
fn told(meter: &mut Meter, path: &CStr) -> Done {
    let mut buffer = vec![0; 16 << 10];
    meter.repeat(EACH, |_| read_whole(path, &mut buffer).map(drop))
}

/// Reads the file of one of many processes.
fn told_of_one(meter: &mut Meter, file: &str) -> Done {
    let crowd = Crowd::new(meter.size())?;
    let path: CString = name(format!("/proc/{}/{file}", crowd.pids[meter.size() / 2]));
    told(meter, &path)
}

fn stat(meter: &mut Meter) -> Done {
    told_of_one(meter, "stat")
}

fn status(meter: &mut Meter) -> Done {
    told_of_one(meter, "status")
}

fn system_stat(meter: &mut Meter) -> Done {
    let _crowd = Crowd::new(meter.size())?;
    told(meter, c"/proc/stat")
}

fn meminfo(meter: &mut Meter) -> Done {
    let _crowd = Crowd::new(meter.size())?;
    told(meter, c"/proc/meminfo")
}

/// Creates tracees that have stopped.
fn tracees(number: usize) -> io::Result<Crowd> {
    let crowd = Crowd::new(number)?;
    for pid in &crowd.pids {
        call!(SYS_ptrace, libc::PTRACE_SEIZE, *pid, 0, 0)?;
        call!(SYS_ptrace, libc::PTRACE_INTERRUPT, *pid, 0, 0)?;
        wait(*pid as isize)?;
    }
    Ok(crowd)
}

/// Continues and stops one tracee; `awaited` maps it to the argument of the wait.
fn stops(meter: &mut Meter, awaited: fn(usize) -> isize) -> Done {
    let crowd = tracees(meter.size())?;
    let one = crowd.pids[meter.size() / 2];
    meter.repeat(EACH, |_| {
        call!(SYS_ptrace, libc::PTRACE_CONT, one, 0, 0)?;
        call!(SYS_ptrace, libc::PTRACE_INTERRUPT, one, 0, 0)?;
        wait(awaited(one))
    })
}

fn ptrace(meter: &mut Meter) -> Done {
    stops(meter, |pid| pid as isize)
}

fn ptrace_any(meter: &mut Meter) -> Done {
    stops(meter, |_| -1)
}

fn seccomp(meter: &mut Meter) -> Done {
    let mut allow = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: ptr::from_mut(&mut allow),
    };
    call!(SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)?;
    for _ in 0..meter.size() {
        call!(
            SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program
        )?;
    }
    meter.repeat(EACH, |_| call!(SYS_getppid).map(drop))
}
