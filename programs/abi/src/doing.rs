//! A thread's activity in the kernel as /proc shows it, and its timer slack.

use std::fs;
use std::ptr;
use std::thread;
use std::time::Duration;

use libc::{c_int, c_long, pid_t};

use crate::{in_child, tell, tell_end};

const USER: u32 = 1000;

/// Runs this part.
pub fn run() {
    // SAFETY: every structure passed is complete, and children end by _exit.
    unsafe {
        calls();
        rights();
        stacks();
        timers();
        slack();
        slackened();
    }
}

/// A thread that is stopped and in no system call; Linux on RISC-V reports whatever the register of
/// the number holds.
pub fn run_stopped() {
    // SAFETY: the child ends by a signal.
    unsafe {
        let child = begin(|| {
            loop {
                std::hint::spin_loop();
            }
        });
        await_state(child, "R");
        libc::kill(child, libc::SIGSTOP);
        await_state(child, "T");
        let text = told(&format!("{child}/syscall"));
        println!("{} {}", text.starts_with("-1 0x"), text.split(' ').count());
        end(child);
    }
}

/// Starts a child that runs `work`.
unsafe fn begin(work: impl FnOnce()) -> pid_t {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            work();
            libc::_exit(0);
        }
        child
    }
}

/// Waits until a process or a thread is in a state.
pub fn await_state(pid: pid_t, state: &str) {
    while !is_in_state(pid, state) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process or a thread is in a state. One that sleeps has also left its CPU: it says that
/// it sleeps a little earlier, before it waits in a queue.
pub fn is_in_state(pid: pid_t, state: &str) -> bool {
    let wanted = format!(") {state} ");
    let runs = || state == "S" && told(&format!("{pid}/syscall")) == "running";
    told(&format!("{pid}/stat")).contains(&wanted) && !runs()
}

unsafe fn end(child: pid_t) {
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

fn told(what: &str) -> String {
    match fs::read_to_string(format!("/proc/{what}")) {
        Ok(text) => text.trim_end_matches('\n').to_owned(),
        Err(error) => format!("error {:?}", error.raw_os_error()),
    }
}

/// Reads a file of /proc once the thread is in call `number`, or after a minute.
pub fn told_in_call(what: &str, number: c_long) -> String {
    let begins = format!("{number} ");
    for _ in 0..60_000 {
        if told(what).starts_with(&begins) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    told(what)
}

/// Prints whether a thread is in call `number` with these first arguments, and has a stack and a
/// program counter.
fn tell_call(name: &str, what: &str, number: c_long, arguments: &[usize]) {
    let text = told_in_call(what, number);
    let fields: Vec<_> = text.split(' ').collect();
    let (Some(call), 9) = (fields.first(), fields.len()) else {
        println!("{name}: {} fields: {text}", fields.len());
        return;
    };
    let of = |field: &str| usize::from_str_radix(field.trim_start_matches("0x"), 16);
    let numbers: Vec<_> = fields[1..]
        .iter()
        .map(|field| of(field).unwrap_or(0))
        .collect();
    let same: Vec<_> = arguments
        .iter()
        .zip(&numbers)
        .map(|(wanted, told)| wanted == told)
        .collect();
    println!(
        "{name}: {} {same:?} {} {}",
        call.parse() == Ok(number),
        numbers[6] != 0,
        numbers[7] != 0
    );
}

unsafe fn pipe() -> [c_int; 2] {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        ends
    }
}

/// Reads from a pipe to which nobody writes, with a known first argument.
unsafe fn read_for_ever(from: c_int, to: *mut u8) {
    unsafe { libc::syscall(libc::SYS_read, from, to, 77usize) };
}

unsafe fn calls() {
    unsafe {
        let ends = pipe();
        let mut byte = 0u8;
        let to = &raw mut byte;
        let expected = [ends[0] as usize, to as usize, 77];
        let child = begin(|| read_for_ever(ends[0], to));
        await_state(child, "S");
        tell_call(
            "in read",
            &format!("{child}/syscall"),
            libc::SYS_read,
            &expected,
        );
        let by_thread = format!("{child}/task/{child}/syscall");
        tell_call("its thread", &by_thread, libc::SYS_read, &expected);
        end(child);

        // A child whose system calls are watched by seccomp.
        let child = begin(|| {
            watch();
            read_for_ever(ends[0], to);
        });
        await_state(child, "S");
        tell_call(
            "watched",
            &format!("{child}/syscall"),
            libc::SYS_read,
            &expected,
        );
        end(child);

        // A call whose second argument is known, the size of the set.
        let child = begin(|| {
            libc::syscall(libc::SYS_rt_sigsuspend, &0u64, 8usize);
        });
        await_state(child, "S");
        let size = [8];
        let text = told(&format!("{child}/syscall"));
        let second = text.split(' ').nth(2).unwrap_or_default().to_owned();
        println!("rt_sigsuspend: {}", second == format!("{:#x}", size[0]));
        end(child);

        let child = begin(|| {
            loop {
                std::hint::spin_loop();
            }
        });
        await_state(child, "R");
        println!("runs: {}", told(&format!("{child}/syscall")));
        end(child);

        let child = begin(|| ());
        await_state(child, "Z");
        println!("ended: {}", told(&format!("{child}/syscall")));
        end(child);

        let mut text = [0u8; 256];
        let own = libc::open(c"/proc/self/syscall".as_ptr(), libc::O_RDONLY);
        let count = libc::syscall(libc::SYS_read, own, text.as_mut_ptr(), text.len());
        let text = String::from_utf8_lossy(&text[..count as usize]);
        println!(
            "its own: {}",
            text.starts_with(&format!("{} {own:#x} ", libc::SYS_read))
        );
        libc::close(own);
        for end in ends {
            libc::close(end);
        }
    }
}

/// Installs a filter that allows all system calls.
unsafe fn watch() {
    unsafe {
        let mut allow = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &mut allow,
        };
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
    }
}

/// Each read of the open file checks the permission again.
unsafe fn rights() {
    unsafe {
        let child = begin(|| {
            libc::pause();
        });
        await_state(child, "S");
        for name in ["syscall", "personality", "stack", "wchan", "timerslack_ns"] {
            let path = format!("/proc/{child}/{name}\0");
            let open = || libc::open(path.as_ptr().cast(), libc::O_RDONLY);
            let mut status: libc::stat = std::mem::zeroed();
            libc::stat(path.as_ptr().cast(), &mut status);
            println!("{name}: {:o}", status.st_mode);
            let before = open();
            let work = || {
                let read = |file| libc::read(file, [0u8; 64].as_mut_ptr().cast(), 64).min(1) as i64;
                libc::setgid(USER);
                libc::setuid(USER);
                tell(" open", open().min(0));
                tell(" what root opened", read(before));
            };
            tell_end(" a user", in_child(work));
            if name == "stack" {
                let work = || {
                    libc::setgid(USER);
                    libc::setuid(USER);
                    libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
                    println!(" own: {}", told("self/stack"));
                };
                tell_end(" its own", in_child(work));
            }
            libc::close(before);
        }
        end(child);
    }
}

unsafe fn stacks() {
    unsafe {
        let child = begin(|| {
            libc::pause();
        });
        await_state(child, "S");
        let text = told(&format!("{child}/stack"));
        let is_call = |line: &str| {
            let name = line.strip_prefix("[<0>] ").unwrap_or_default();
            let place = name
                .rsplit_once('+')
                .and_then(|(_, place)| place.split_once('/'));
            place.is_some_and(|(at, size)| at.starts_with("0x") && size.starts_with("0x"))
        };
        println!(
            "callers: {} {}",
            text.lines().count() > 1,
            text.lines().all(is_call)
        );
        let sleeper = told(&format!("{child}/wchan"));
        println!("sleeps in a function: {}", sleeper.len() > 1);
        println!("runs in none: {}", told("self/wchan"));
        end(child);
    }
}

/// The list of all timers, which only root may read.
unsafe fn timers() {
    unsafe {
        let child = begin(|| {
            libc::sleep(1000);
        });
        await_state(child, "S");
        let mut status: libc::stat = std::mem::zeroed();
        libc::stat(c"/proc/timer_list".as_ptr(), &mut status);
        println!("timers: {:o}", status.st_mode);
        let text = told("timer_list");
        println!("{}", text.lines().next().unwrap_or_default());
        println!("CPUs: {}", text.lines().any(|line| line == "cpu: 0"));
        let is_timer = |line: &&str| line.starts_with(" #") && line.contains(", S:01");
        println!("timers: {}", text.lines().filter(is_timer).count() > 0);
        let later = |line: &str| {
            let (_, left) = line.split_once("[in ").unwrap_or_default();
            let ns: u64 = left
                .split(' ')
                .next()
                .unwrap_or_default()
                .parse()
                .unwrap_or(0);
            line.starts_with(" # expires at ") && (900..=1000).contains(&(ns / 1_000_000_000))
        };
        println!("that of the child: {}", text.lines().any(later));
        let work = || {
            libc::setuid(USER);
            println!("a user: {}", told("timer_list"));
        };
        tell_end("a user", in_child(work));
        end(child);
    }
}

/// The timer slack of each blocking call, as `/proc/timer_list` shows it.
unsafe fn slackened() {
    unsafe {
        const LONG: libc::timespec = libc::timespec {
            tv_sec: 1000,
            tv_nsec: 0,
        };
        const OWN: u64 = 123_456_789;
        let until = || {
            let mut now = LONG;
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
            now.tv_sec += LONG.tv_sec;
            now
        };
        let word = 0u32;
        let futex = |operation: c_int, time: *const libc::timespec| {
            libc::syscall(libc::SYS_futex, &word, operation, 0, time, 0, -1);
        };
        let null = ptr::null_mut::<libc::sigset_t>();
        let set = libc::semget(libc::IPC_PRIVATE, 1, 0o600);
        let epoll = libc::epoll_create1(0);
        let select = || libc::syscall(libc::SYS_pselect6, 0, 0, 0, 0, &LONG, 0);
        let held = libc::getpid() as u32;
        let lock = |time: *const libc::timespec| {
            libc::syscall(libc::SYS_futex, &held, libc::FUTEX_LOCK_PI, 0, time);
        };
        let day = || {
            let mut now = LONG;
            libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
            now.tv_sec += LONG.tv_sec;
            now
        };
        let calls: [(&str, &dyn Fn()); 12] = [
            ("nanosleep", &|| _ = libc::nanosleep(&LONG, ptr::null_mut())),
            ("clock_nanosleep", &|| {
                let when = until();
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 1, &when, ptr::null_mut());
            }),
            ("futex", &|| futex(libc::FUTEX_WAIT, &LONG)),
            ("futex of bits", &|| {
                futex(libc::FUTEX_WAIT_BITSET, &until())
            }),
            ("futex, a lock", &|| lock(&day())),
            ("ppoll", &|| {
                _ = libc::ppoll(ptr::null_mut(), 0, &LONG, null)
            }),
            ("pselect6", &|| _ = select()),
            ("epoll_pwait", &|| {
                let mut event: libc::epoll_event = std::mem::zeroed();
                libc::epoll_pwait(epoll, &mut event, 1, 1_000_000, null);
            }),
            ("rt_sigtimedwait", &|| {
                let mut signals: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut signals, libc::SIGUSR1);
                libc::sigtimedwait(&signals, ptr::null_mut(), &LONG);
            }),
            ("semtimedop", &|| {
                let mut down = libc::sembuf {
                    sem_num: 0,
                    sem_op: -1,
                    sem_flg: 0,
                };
                libc::syscall(libc::SYS_semtimedop, set, &mut down, 1, &LONG);
            }),
            ("io_getevents", &|| {
                let mut context = 0usize;
                libc::syscall(libc::SYS_io_setup, 1, &mut context);
                let mut event = [0u64; 4];
                libc::syscall(libc::SYS_io_getevents, context, 1, 1, &mut event, &LONG);
            }),
            ("mq_timedreceive", &|| {
                let mut attributes = [0i64; 8];
                (attributes[1], attributes[2]) = (1, 8);
                let flags = libc::O_CREAT | libc::O_RDWR;
                let name = c"slack".as_ptr();
                let queue = libc::syscall(libc::SYS_mq_open, name, flags, 0o600, &attributes);
                libc::syscall(libc::SYS_mq_unlink, name);
                let when = day();
                let mut text = [0u8; 8];
                libc::syscall(libc::SYS_mq_timedreceive, queue, &mut text, 8, 0, &when);
            }),
        ];
        for (name, call) in calls {
            let widths = [0, 1].map(|priority: i32| {
                let child = begin(|| {
                    libc::prctl(libc::PR_SET_TIMERSLACK, OWN as usize);
                    if priority > 0 {
                        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &priority);
                    }
                    call();
                });
                let found = await_late();
                end(child);
                // A tick of the counter may be longer than a microsecond.
                let near = |wanted: u64| found.is_some_and(|found| found.abs_diff(wanted) < 2000);
                match () {
                    () if near(OWN) => "its own",
                    () if near(0) => "none",
                    () => "another",
                }
            });
            println!("{name}: {}, {} in real time", widths[0], widths[1]);
        }
        let child = begin(|| {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
            libc::poll(ptr::null_mut(), 0, 1_000_000);
        });
        let found = await_late().unwrap_or_default();
        println!("poll's: {}", found.abs_diff(100_000_000) < 2000);
        end(child);
        libc::semctl(set, 0, libc::IPC_RMID);
    }
}

/// Waits until a child sleeps with the late timer; returns the width of its range.
fn await_late() -> Option<u64> {
    (0..10_000).find_map(|_| {
        let found = width_of_late();
        if found.is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        found
    })
}

/// The width in ns of the range of the timer that expires in almost 1000 s.
fn width_of_late() -> Option<u64> {
    let text = told("timer_list");
    let number = |text: &str| text.parse::<u64>().ok();
    text.lines().find_map(|line| {
        let (range, left) = line
            .strip_prefix(" # expires at ")?
            .split_once(" nsecs [in ")?;
        let (soft, hard) = range.split_once('-')?;
        let left = number(left.split(' ').next()?)? / 1_000_000_000;
        let is_late = (900..=1000).contains(&left);
        is_late.then(|| Some(number(hard)? - number(soft)?))?
    })
}

/// /proc/PID/timerslack_ns, of this thread and of others.
unsafe fn slack() {
    unsafe {
        let show = |what: &str| println!("{what}: {}", told("self/timerslack_ns"));
        let set = |text: &str| match fs::write("/proc/self/timerslack_ns", text) {
            Ok(()) => println!("{text:?}: {}", told("self/timerslack_ns")),
            Err(error) => {
                println!("{text:?}: {:?}", error.raw_os_error());
            }
        };
        show("at first");
        for text in [
            "1000\n",
            "7",
            "+8\n",
            "0\n",
            "",
            "-1",
            "0x10",
            "1 ",
            "1\n\n",
            "x",
            "18446744073709551615",
            "18446744073709551616",
        ] {
            set(text);
        }
        libc::prctl(libc::PR_SET_TIMERSLACK, 123usize);
        show("by prctl");
        let child = begin(|| {
            libc::prctl(libc::PR_SET_TIMERSLACK, 5usize);
            println!("child: {}", told("self/timerslack_ns"));
            libc::prctl(libc::PR_SET_TIMERSLACK, 0usize);
            println!("its first: {}", told("self/timerslack_ns"));
            let priority = 1i32;
            libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &priority);
            println!("real-time: {}", told("self/timerslack_ns"));
            libc::prctl(libc::PR_SET_TIMERSLACK, 9usize);
            println!("set: {}", told("self/timerslack_ns"));
            _ = fs::write("/proc/self/timerslack_ns", "9");
            println!("written: {}", told("self/timerslack_ns"));
            println!("got: {}", libc::prctl(libc::PR_GET_TIMERSLACK));
            let priority = 0i32;
            libc::syscall(
                libc::SYS_sched_setscheduler,
                0,
                libc::SCHED_OTHER,
                &priority,
            );
            println!("no more: {}", told("self/timerslack_ns"));
            libc::pause();
        });
        await_state(child, "S");
        let place = format!("{child}/timerslack_ns");
        println!("another's: {}", told(&place));
        _ = fs::write(format!("/proc/{place}"), "55");
        println!("set: {}", told(&place));
        let work = || {
            libc::setuid(USER);
            println!("a user: {}", told(&place));
            let written = fs::write(format!("/proc/{place}"), "1");
            println!(
                "a user: {:?}",
                written.map_err(|error| error.raw_os_error())
            );
            println!("a user's own: {}", told("self/timerslack_ns"));
        };
        tell_end("a user", in_child(work));
        let of_thread = fs::metadata(format!("/proc/{child}/task/{child}/timerslack_ns"));
        println!("of a thread: {}", of_thread.is_ok());
        end(child);
    }
}
