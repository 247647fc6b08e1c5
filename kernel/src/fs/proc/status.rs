//! The files `stat`, `status`, `io` and `limits` of a process in procfs.

use super::super::seq_file::Text;
use super::super::tty;
use super::memory;
use super::subject::{Subject, trim};
use crate::arch::time::ticks_to_ns;
use crate::errno::Result;
use crate::mm::{PAGE_SIZE, ProgramRanges, Size};
use crate::put;
use crate::task::rusage::{Usage, user_hz};
use crate::task::sched::cond_resched;
use crate::task::speculation;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::*;

pub fn stat(subject: &Subject, text: &mut Text) -> Result<()> {
    let process = &subject.process;
    put!(text, "{} (", subject.tid());
    text.push(trim(&subject.name()));
    let (terminal, foreground) = tty::of_process(process.session());
    let parent = process.parent();
    put!(
        text,
        ") {} {parent} {} {}",
        subject.state().0,
        process.group(),
        process.session()
    );
    put!(
        text,
        " {terminal} {foreground} 0 {} {} 0 0",
        subject.usage().faults,
        process.children_usage().faults
    );
    let (user, system) = subject.times().in_user_hz();
    let (children_user, children_system) = process.children_times().in_user_hz();
    let nice = subject.thread.as_ref().map_or(0, |thread| thread.nice());
    let thread = subject.thread.as_ref();
    let shown = match thread.map_or(0, |thread| thread.sched.priority()) {
        0 => 20 + nice,
        priority => -1 - priority as i32,
    };
    put!(
        text,
        " {user} {system} {children_user} {children_system} {shown} {nice} {} 0",
        process.threads().len().max(1)
    );
    let size = subject
        .space()
        .map_or(Size::default(), |space| space.size());
    put!(
        text,
        " {} {} {} {}",
        user_hz(process.started()),
        size.vmas * PAGE_SIZE,
        size.resident,
        process.limits.soft(RLIMIT_RSS)
    );
    // Addresses are shown to callers that may inspect the process.
    let space = subject.space();
    let permitted = subject.may_look();
    let program = match (&space, permitted) {
        (Some(space), true) => space.program(),
        (Some(_), false) => ProgramRanges {
            code: 1..1,
            ..ProgramRanges::default()
        },
        (None, _) => ProgramRanges::default(),
    };
    put!(
        text,
        " {} {} {} 0 0",
        program.code.start,
        program.code.end,
        program.stack
    );
    let [pending, blocked, ignored, caught] = subject.signals();
    let waits = permitted && subject.state().0 != 'R';
    put!(
        text,
        " {pending} {blocked} {ignored} {caught} {} 0 0 {}",
        u8::from(waits),
        subject.exit_signal()
    );
    let (cpu, (policy, priority)) = subject
        .thread
        .as_ref()
        .map_or((0, (0, 0)), |thread| (thread.sched.cpu(), thread.policy()));
    let heap = space
        .filter(|_| permitted)
        .map_or(0, |space| space.heap_start());
    put!(
        text,
        " {cpu} {priority} {policy} 0 0 0 {} {} {heap}",
        program.data.start,
        program.data.end
    );
    let (arguments, environment) = (program.arguments, program.environment);
    put!(
        text,
        " {} {} {} {}",
        arguments.start,
        arguments.end,
        environment.start,
        environment.end
    );
    let status = process.exit_status().filter(|_| permitted);
    put!(text, " {}\n", status.unwrap_or(0));
    Ok(())
}

pub fn status(subject: &Subject, text: &mut Text) -> Result<()> {
    let process = &subject.process;
    put!(text, "Name:\t");
    text.push(trim(&subject.name()));
    let umask = subject.fs().map_or(0o022, |fs| fs.umask());
    let (letter, word) = subject.state();
    put!(
        text,
        "\nUmask:\t{umask:04o}\nState:\t{letter} ({word})\nTgid:\t{}\nNgid:\t0\n",
        process.pid()
    );
    put!(
        text,
        "Pid:\t{}\nPPid:\t{}\nTracerPid:\t{}\n",
        subject.tid(),
        process.parent(),
        subject
            .thread
            .as_ref()
            .and_then(|thread| thread.tracer())
            .map_or(0, |tracer| tracer.tid())
    );
    let who = subject.credentials();
    put!(
        text,
        "Uid:\t{}\t{}\t{}\t{}\n",
        who.uid,
        who.euid,
        who.suid,
        who.fsuid
    );
    put!(
        text,
        "Gid:\t{}\t{}\t{}\t{}\n",
        who.gid,
        who.egid,
        who.sgid,
        who.fsgid
    );
    put!(
        text,
        "FDSize:\t{}\nGroups:\t",
        subject.files().map_or(0, |files| files.size())
    );
    for group in who.groups.iter() {
        put!(text, "{group} ");
        cond_resched();
    }
    put!(text, "\n");
    if let Some(space) = subject.space() {
        memory::status(&space, text);
    }
    let [pending, blocked, ignored, caught] = subject.signals();
    let shared = process.signals.pending.lock().set();
    put!(
        text,
        "Threads:\t{}\nSigQ:\t{}/{}\n",
        process.threads().len().max(1),
        who.user.pending_signals.load(Relaxed),
        process.limits.soft(RLIMIT_SIGPENDING)
    );
    put!(
        text,
        "SigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
    );
    put!(text, "SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n");
    let (confined, mode, filters) = subject.thread.as_ref().map_or((false, 0, 0), |thread| {
        let confined = thread.has_no_new_privileges();
        (confined, thread.seccomp.mode(), thread.seccomp.count())
    });
    put!(
        text,
        "CapInh:\t{:016x}\nCapPrm:\t{:016x}\n",
        who.inheritable,
        who.permitted
    );
    put!(
        text,
        "CapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\n",
        who.effective,
        who.bounding,
        who.ambient
    );
    put!(
        text,
        "NoNewPrivs:\t{}\nSeccomp:\t{}\nSeccomp_filters:\t{}\n",
        u8::from(confined),
        mode,
        filters
    );
    let thread = subject.thread.as_ref();
    put!(
        text,
        "Speculation_Store_Bypass:\t{}\nSpeculationIndirectBranch:\t{}\n",
        thread.map_or("unknown", |thread| speculation::store_bypass(thread)),
        speculation::indirect_branches()
    );
    if let Some(thread) = &subject.thread {
        let allowed = thread.sched.allowed();
        put!(text, "Cpus_allowed:\t{allowed:x}\nCpus_allowed_list:\t");
        memory::list_bits(allowed, text);
        let (sleeps, preemptions) = thread.sched.switches();
        put!(
            text,
            "\nvoluntary_ctxt_switches:\t{sleeps}\nnonvoluntary_ctxt_switches:\t{preemptions}\n"
        );
    }
    Ok(())
}

pub fn io(subject: &Subject, text: &mut Text) -> Result<()> {
    let sums = match &subject.thread {
        Some(thread) if subject.alone => thread.transfers.sums(),
        _ => subject.process.transfers(),
    };
    let ([read, written], [reads, writes]) = (sums.bytes, sums.calls);
    put!(
        text,
        "rchar: {read}\nwchar: {written}\nsyscr: {reads}\nsyscw: {writes}\n"
    );
    put!(
        text,
        "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
    );
    Ok(())
}

/// The limits in the order of their numbers, with name and unit.
const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

/// Nanoseconds spent on a CPU, nanoseconds spent ready without one, and how often the thread was
/// scheduled: for a thread, or for a process's first thread
/// (Documentation/scheduler/sched-stats.rst).
pub fn schedstat(subject: &Subject, text: &mut Text) -> Result<()> {
    let thread = subject.thread.as_ref();
    let usage = thread.map_or_else(|| subject.process.usage(), |thread| Usage::of(thread));
    let is_on = thread.is_some_and(|thread| thread.arch.is_running());
    let slices = usage.sleeps + usage.preemptions + u64::from(is_on);
    let [run, delay] = [usage.ticks, usage.run_delay].map(ticks_to_ns);
    put!(text, "{run} {delay} {slices}\n");
    Ok(())
}

pub fn limits(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(
        text,
        "{:<25} {:<20} {:<20} {:<10}\n",
        "Limit",
        "Soft Limit",
        "Hard Limit",
        "Units"
    );
    for (kind, (name, unit)) in LIMITS.iter().enumerate() {
        let limit = subject.process.limits.get(kind as u32)?;
        put!(text, "{name:<25} ");
        for value in [limit.soft, limit.hard] {
            match value {
                usize::MAX => put!(text, "{:<20} ", "unlimited"),
                value => put!(text, "{value:<20} "),
            }
        }
        put!(text, "{unit:<10}\n");
    }
    Ok(())
}

/// timers: the timers that timer_create(2) made, newest first.
pub fn timers(subject: &Subject, text: &mut Text) -> Result<()> {
    let process = &subject.process;
    for id in process.timers.posix_ids()? {
        let timer = process.timers.posix(id).ok();
        let Some(request) = timer.and_then(|timer| timer.request()) else {
            continue;
        };
        let how = match request.kind & !SIGEV_THREAD_ID {
            SIGEV_NONE => "none",
            SIGEV_THREAD => "thread",
            _ => "signal",
        };
        let whom = if request.kind & SIGEV_THREAD_ID != 0 {
            ("tid", request.tid)
        } else {
            ("pid", process.pid())
        };
        put!(
            text,
            "ID: {id}\nsignal: {}/{:016x}\nnotify: {how}/{}.{}\nClockID: {}\n",
            request.signal,
            request.value,
            whom.0,
            whom.1,
            request.clock
        );
        cond_resched();
    }
    Ok(())
}
