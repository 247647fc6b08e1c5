//! Tracers and tracees that are threads: each pair has its own relation.

use std::ffi::CString;
use std::sync::mpsc::channel;
use std::{fs, mem, ptr, thread};

use super::{CONT, ptrace, wait};
use crate::{in_child, sleeper, tell, tell_end};

const SEIZE: u32 = libc::PTRACE_SEIZE as u32;
const INTERRUPT: u32 = libc::PTRACE_INTERRUPT as u32;
const DETACH: u32 = libc::PTRACE_DETACH as u32;
const EXITKILL: usize = libc::PTRACE_O_EXITKILL as usize;

/// Runs this part; with a number, continues a tracer of that child after its exec.
pub fn run() {
    // SAFETY: children end by _exit, and every pointer passed is to a live value.
    unsafe {
        if std::env::args().len() > 2 {
            return after_exec(crate::number(2) as i32);
        }
        ended_thread(0);
        ended_thread(EXITKILL);
        another();
        tell_end("exec", in_child(|| executes()));
        leader_first(false);
        leader_first(true);
        leader_replaced();
        all_at_once();
        settled();
        none_escapes();
    }
}

unsafe fn pipe() -> [i32; 2] {
    let mut ends = [0; 2];
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    ends
}

unsafe fn read(fd: i32) -> isize {
    unsafe { libc::read(fd, [0u8].as_mut_ptr().cast(), 1) }
}

unsafe fn write(fd: i32) -> isize {
    unsafe { libc::write(fd, [0u8].as_ptr().cast(), 1) }
}

/// The tracer of a process by its status file.
fn tracer(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let tracer = lines.find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.map_or(-1, |tracer| tracer.trim().parse().unwrap_or(-1))
}

/// Waits until a thread no longer exists.
fn await_end(pid: i32, tid: i32) {
    while fs::exists(format!("/proc/{pid}/task/{tid}")).unwrap_or(false) {
        thread::yield_now();
    }
}

/// The tracing thread exits, but not its process.
unsafe fn ended_thread(options: usize) {
    unsafe {
        let child = sleeper();
        let tracing = thread::spawn(move || {
            tell("seize", ptrace(SEIZE, child, 0, options));
            println!("told: {}", tracer(child) == libc::gettid());
            libc::gettid()
        });
        let tid = tracing.join().unwrap_or(-1);
        await_end(libc::getpid(), tid);
        println!("afterwards: {}", tracer(child));
        if options == 0 {
            tell("again", ptrace(SEIZE, child, 0, 0));
            libc::kill(child, libc::SIGKILL);
        }
        println!("{}", wait(child));
    }
}

/// A thread other than the tracer can wait for a tracee, but can make no requests.
unsafe fn another() {
    unsafe {
        let ((made, child), (done, is_done)) = (channel(), channel::<()>());
        let tracing = thread::spawn(move || {
            let child = super::traced(|| ());
            made.send(child).unwrap();
            is_done.recv().unwrap();
            tell("by its tracer", ptrace(CONT, child, 0, 0));
            println!("{}", wait(child));
        });
        let child = child.recv().unwrap();
        println!("{}", wait(child));
        let mut info: libc::siginfo_t = mem::zeroed();
        let to = (&raw mut info) as usize;
        for (what, request, to) in [
            ("go on", CONT, 0),
            ("detach", DETACH, 0),
            ("information", libc::PTRACE_GETSIGINFO as u32, to),
            ("interrupt", INTERRUPT, 0),
        ] {
            tell(what, ptrace(request, child, 0, to));
        }
        done.send(()).unwrap();
        tracing.join().unwrap();
    }
}

/// A tracer that is not the first thread becomes the first thread by exec.
unsafe fn executes() {
    unsafe {
        let child = sleeper();
        let tracing = thread::spawn(move || {
            tell("seize", ptrace(SEIZE, child, 0, 0));
            let program = CString::new("/proc/self/exe").unwrap_or_default();
            let words = ["abi", "tracers", &child.to_string()]
                .map(|word| CString::new(word).unwrap_or_default());
            let mut arguments = words.each_ref().map(|word| word.as_ptr()).to_vec();
            arguments.push(ptr::null());
            libc::execv(program.as_ptr(), arguments.as_ptr());
        });
        _ = tracing.join();
    }
}

unsafe fn after_exec(child: i32) {
    unsafe {
        println!("told: {}", tracer(child) == libc::getpid());
        tell("interrupt", ptrace(INTERRUPT, child, 0, 0));
        println!("{}", wait(child));
        tell("detach", ptrace(DETACH, child, 0, 0));
        libc::kill(child, libc::SIGKILL);
        println!("{}", wait(child));
    }
}

/// Starts a process whose first thread exits when it is let go, and which then runs `work` in
/// another.
unsafe fn leaderless(gate: i32, go: i32, work: impl FnOnce() + Send + 'static) -> i32 {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            thread::spawn(move || {
                read(go);
                work();
            });
            read(gate);
            libc::syscall(libc::SYS_exit, 3);
        }
        child
    }
}

unsafe fn await_zombie(pid: i32) {
    let is_zombie = |status: String| status.lines().any(|line| line.starts_with("State:\tZ"));
    while !fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).is_ok_and(is_zombie) {
        thread::yield_now();
    }
}

/// A traced first thread exits before the others; its tracer may or may not be the parent.
unsafe fn leader_first(parent: bool) {
    unsafe {
        let (gate, go) = (pipe(), pipe());
        let child = leaderless(gate[0], go[0], || libc::_exit(7));
        let work = || {
            tell("seize", ptrace(SEIZE, child, 0, 0));
            write(gate[1]);
            await_zombie(child);
            let status = libc::waitpid(child, ptr::null_mut(), libc::WNOHANG | libc::__WALL);
            tell("not yet", status);
            write(go[1]);
            println!("to its tracer: {}", wait(child));
            println!("again: {}", wait(child));
        };
        if parent {
            work();
        } else {
            tell_end("tracer", in_child(work));
            println!("to its parent: {}", wait(child));
        }
        for fd in [gate, go].as_flattened() {
            libc::close(*fd);
        }
    }
}

/// A traced first thread exits, and another thread, which is not traced, executes a program.
unsafe fn leader_replaced() {
    unsafe {
        let (gate, go) = (pipe(), pipe());
        let child = leaderless(gate[0], go[0], || {
            let program = c"/proc/thread-self/exe".as_ptr();
            let arguments = [c"abi".as_ptr(), c"nothing".as_ptr(), ptr::null()];
            libc::execv(program, arguments.as_ptr());
            libc::_exit(9);
        });
        let work = || {
            tell("seize", ptrace(SEIZE, child, 0, 0));
            write(gate[1]);
            await_zombie(child);
            write(go[1]);
            println!("to its tracer: {}", wait(child));
        };
        tell_end("tracer", in_child(work));
        libc::waitpid(child, ptr::null_mut(), 0);
        for fd in [gate, go].as_flattened() {
            libc::close(*fd);
        }
    }
}

/// All threads of a process exit at once: its tracer, which is not its parent, is notified each
/// time.
unsafe fn all_at_once() {
    unsafe {
        let (gate, go) = (pipe(), pipe());
        let mut told = 0;
        for _ in 0..100 {
            let child = libc::fork();
            if child == 0 {
                thread::spawn(move || read(go[0]));
                read(gate[0]);
                libc::_exit(7);
            }
            let end = in_child(|| {
                ptrace(SEIZE, child, 0, 0);
                write(gate[1]);
                let mut status = 0;
                libc::waitpid(child, &mut status, libc::__WALL);
                libc::_exit(i32::from(status == 7 << 8));
            });
            told += i32::from(end == 1 << 8);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
        tell("told", told);
        for fd in [gate, go].as_flattened() {
            libc::close(*fd);
        }
    }
}

/// A traced thread exits before its process, whose status the tracer gets.
unsafe fn settled() {
    unsafe {
        let (gate, go, tids) = (pipe(), pipe(), pipe());
        let child = libc::fork();
        if child == 0 {
            thread::spawn(move || {
                let tid = libc::gettid();
                libc::write(tids[1], (&raw const tid).cast(), 4);
                read(gate[0]);
                libc::syscall(libc::SYS_exit, 3);
            });
            read(go[0]);
            libc::syscall(libc::SYS_exit, 5);
        }
        let mut tid = 0;
        libc::read(tids[0], (&raw mut tid).cast(), 4);
        tell("seize", ptrace(SEIZE, tid, 0, 0));
        write(gate[1]);
        let mut info: libc::siginfo_t = mem::zeroed();
        let options = libc::WEXITED | libc::WNOWAIT | libc::__WALL;
        libc::waitid(libc::P_PID, tid as u32, &mut info, options);
        tell("the thread's", info.si_status());
        write(go[1]);
        await_zombie(child);
        println!("{}", wait(tid));
        println!("{}", wait(child));
        for fd in [gate, go, tids].as_flattened() {
            libc::close(*fd);
        }
    }
}

/// A tracer exits while its tracee forks: all of them are killed.
unsafe fn none_escapes() {
    const OPTIONS: usize = EXITKILL | libc::PTRACE_O_TRACEFORK as usize;
    unsafe {
        let held = pipe();
        for _ in 0..100 {
            in_child(|| {
                let gate = pipe();
                let child = libc::fork();
                if child == 0 {
                    read(gate[0]);
                    (0..8).any(|_| libc::fork() == 0);
                    loop {
                        libc::pause();
                    }
                }
                ptrace(SEIZE, child, 0, OPTIONS);
                write(gate[1]);
                libc::waitpid(child, ptr::null_mut(), libc::__WALL);
                ptrace(CONT, child, 0, 0);
                libc::_exit(0);
            });
        }
        libc::close(held[1]);
        // A surviving process would hold it open.
        println!("all ended: {}", read(held[0]) == 0);
        libc::close(held[0]);
    }
}
