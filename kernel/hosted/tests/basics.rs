//! A process on the host: its calls, memory, signals, children and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hosted::*;
use linux_raw_sys::general::*;

#[test]
fn a_process_asks_who_it_is() {
    let (pid, parent) = run(|| (sys!(getpid), sys!(getppid)));
    assert!(pid.unwrap() > 1);
    assert_eq!(parent, Ok(1));
}

#[test]
fn what_is_written_to_a_file_is_read() {
    run(|| {
        let file = sys!(
            openat,
            AT_FDCWD,
            "/tmp/file",
            O_RDWR | O_CREAT | O_EXCL,
            0o600
        )
        .unwrap();
        assert_eq!(sys!(write, file, "hello", 5), Ok(5));
        let to = reserve(16);
        assert_eq!(sys!(pread64, file, to, 16, 1), Ok(4));
        assert_eq!(peek(to, 4), b"ello");
        assert_eq!(sys!(read, file, 16, 1), Ok(0));
        assert_eq!(sys!(pread64, file, 16, 1, 0), Err(Errno::EFAULT));
        sys!(unlinkat, AT_FDCWD, "/tmp/file", 0).unwrap();
    });
}

#[test]
fn a_reader_sleeps_until_a_child_writes() {
    run(|| {
        let pair = reserve(8);
        sys!(pipe2, pair, 0).unwrap();
        let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
        let child = fork(move || {
            sys!(nanosleep, put(&[5u64, 0].map(u64::to_ne_bytes).concat()), 0).unwrap();
            sys!(write, to, "x", 1).unwrap();
            sys!(exit_group, 7).unwrap();
        })
        .unwrap();
        let buffer = reserve(1);
        assert_eq!(sys!(read, from, buffer, 1), Ok(1));
        assert_eq!(peek(buffer, 1), b"x");
        let status = reserve(4);
        assert_eq!(sys!(wait4, child, status, 0, 0), Ok(child));
        assert_eq!(peek(status, 2), [0, 7]);
    });
}

#[test]
fn a_handler_runs_and_the_call_goes_on() {
    run(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = count.clone();
        let address = handler(move || {
            assert!(sys!(getpid).is_ok());
            seen.fetch_add(1, Relaxed);
        });
        let act = |flags: usize| put(&[address, flags, 0, 0].map(usize::to_ne_bytes).concat());
        sys!(rt_sigaction, SIGALRM, act(0), 0, 8).unwrap();
        let second = put(&[0u64, 0, 1, 0].map(u64::to_ne_bytes).concat());
        sys!(setitimer, ITIMER_REAL, second, 0).unwrap();
        let long = put(&[9u64, 0].map(u64::to_ne_bytes).concat());
        assert_eq!(sys!(nanosleep, long, 0), Err(Errno::EINTR));
        assert_eq!(count.load(Relaxed), 1);
        // With SA_RESTART a read goes on, until the next signal ends the process that writes.
        sys!(rt_sigaction, SIGALRM, act(SA_RESTART as usize), 0, 8).unwrap();
        let pair = reserve(8);
        sys!(pipe2, pair, 0).unwrap();
        let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
        fork(move || _ = sys!(nanosleep, long, 0)).unwrap();
        sys!(close, to).unwrap();
        sys!(setitimer, ITIMER_REAL, second, 0).unwrap();
        assert_eq!(sys!(read, from, reserve(1), 1), Ok(0));
        assert_eq!(count.load(Relaxed), 2);
    });
}

#[test]
fn a_timer_of_cpu_time_rests_with_its_process() {
    run(|| {
        let looks = || {
            let list = sys!(openat, AT_FDCWD, "/proc/timer_list", O_RDONLY).unwrap();
            let text = reserve(65536);
            let len = sys!(read, list, text, 65536).unwrap();
            sys!(close, list).unwrap();
            String::from_utf8_lossy(&peek(text, len))
                .matches("SignalTimer")
                .count()
        };
        // Process 1 has one.
        let before = looks();
        let long = put(&[1u64, 0].map(u64::to_ne_bytes).concat());
        let child = fork(move || {
            // A tick and a half.
            let soon = put(&[0u64, 0, 0, 6000].map(u64::to_ne_bytes).concat());
            sys!(setitimer, ITIMER_PROF, soon, 0).unwrap();
            sys!(nanosleep, long, 0).unwrap();
            loop {
                sys!(getpid).unwrap();
            }
        });
        let part = put(&[0u64, 500_000_000].map(u64::to_ne_bytes).concat());
        sys!(nanosleep, part, 0).unwrap();
        assert_eq!(looks(), before);
        let status = reserve(4);
        sys!(wait4, child.unwrap(), status, 0, 0).unwrap();
        assert_eq!(peek(status, 2), [SIGPROF as u8, 0]);
    });
}

#[test]
fn pages_come_as_they_are_touched() {
    run(|| {
        let prot = PROT_READ | PROT_WRITE;
        let flags = MAP_PRIVATE | MAP_ANONYMOUS;
        let at = sys!(mmap, 0, 1 << 20, prot, flags, -1, 0).unwrap();
        poke(at + 4096, b"here").unwrap();
        assert_eq!(peek(at + 4096, 5), b"here\0");
        let child = fork(move || {
            assert_eq!(peek(at + 4096, 5), b"here\0");
            poke(at + 4096, b"gone").unwrap();
        });
        sys!(wait4, child.unwrap(), 0, 0, 0).unwrap();
        assert_eq!(peek(at + 4096, 5), b"here\0");
        sys!(mprotect, at, 8192, PROT_READ).unwrap();
        assert_eq!(poke(at + 4096, b"not"), Err(Errno::EFAULT));
        sys!(munmap, at, 1 << 20).unwrap();
        assert_eq!(poke(at + 8192, b"not"), Err(Errno::EFAULT));
    });
}

#[test]
fn another_program_is_executed() {
    run(|| {
        let child = fork(|| {
            let path = put(b"/tmp/none\0");
            let list = put(&[path, 0].map(usize::to_ne_bytes).concat());
            assert_eq!(sys!(execve, path, list, 0), Err(Errno::ENOENT));
            sys!(exit_group, 3).unwrap();
        });
        let status = reserve(4);
        sys!(wait4, child.unwrap(), status, 0, 0).unwrap();
        assert_eq!(peek(status, 2), [0, 3]);
    });
}

#[test]
#[should_panic(expected = "slept for ever")]
fn who_sleeps_for_ever_is_ended() {
    run(|| {
        let pair = reserve(8);
        sys!(pipe2, pair, 0).unwrap();
        _ = sys!(read, peek(pair, 1)[0] as usize, reserve(1), 1);
    });
}
