//! Events during others: the end of a tracer, a new program, the rename of a folder.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fs, ptr, thread};

use libc::{O_PATH, O_RDONLY, PTRACE_CONT, SIGUSR1, c_int, c_long, pid_t};

use crate::{in_child, tell_end};

const WALL: c_int = 0x4000_0000;
const PTRACE_SEIZE: u32 = 0x4206;
const PTRACE_INTERRUPT: u32 = 0x4207;
const RESOLVE_BENEATH: u64 = 8;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and children end by _exit.
    unsafe {
        tell_end("a tracer's end", in_child(|| traced_by_gone()));
        tell_end("a program begins", in_child(|| begun()));
        moved();
    }
}

/// Children with PTRACE_TRACEME whose parent ends: no stop waits for that parent.
unsafe fn traced_by_gone() {
    extern "C" fn nothing(_: c_int) {}
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::signal(SIGUSR1, nothing as *const () as usize);
        let mut ended = 0;
        for _ in 0..100 {
            let parent = libc::fork();
            if parent == 0 {
                if libc::fork() == 0 {
                    libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                    libc::kill(libc::getpid(), SIGUSR1);
                    libc::_exit(7);
                }
                libc::_exit(0);
            }
            loop {
                let mut status = 0;
                let found = libc::waitpid(-1, &mut status, WALL);
                if found < 0 {
                    break;
                }
                if libc::WIFSTOPPED(status) {
                    libc::ptrace(PTRACE_CONT, found, 0, 0);
                } else if found != parent {
                    ended += c_int::from(libc::WEXITSTATUS(status) == 7);
                }
            }
        }
        println!("ended {ended}");
    }
}

/// A thread executes a program while another of its process is stopped for a tracer: execve waits
/// until the tracer has seen the end of the other.
unsafe fn begun() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let mut go = [0; 2];
        libc::pipe(go.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            thread::spawn(move || {
                let own = libc::syscall(libc::SYS_gettid) as pid_t;
                libc::write(ends[1], (&raw const own).cast(), 4);
                loop {
                    libc::pause();
                }
            });
            let mut byte = 0_u8;
            libc::read(go[0], (&raw mut byte).cast(), 1);
            let arguments = [c"abi".as_ptr(), c"exec".as_ptr(), ptr::null()];
            libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr());
            libc::_exit(1);
        }
        let mut tid: pid_t = 0;
        libc::read(ends[0], (&raw mut tid).cast(), 4);
        let none = 0 as c_long;
        println!("seize {}", libc::ptrace(PTRACE_SEIZE as _, tid, none, none));
        println!(
            "interrupt {}",
            libc::ptrace(PTRACE_INTERRUPT as _, tid, none, none)
        );
        let mut status = 0;
        println!("stopped {}", libc::waitpid(tid, &mut status, WALL) == tid);
        println!("as one {}", libc::WIFSTOPPED(status));
        libc::write(go[1], c"x".as_ptr().cast(), 1);
        println!("ended {}", libc::waitpid(tid, &mut status, WALL) == tid);
        tell_end("the thread", status);
        println!(
            "the program {}",
            libc::waitpid(child, &mut status, 0) == child
        );
        tell_end("the program", status);
    }
}

/// A path that must stay below a folder (RESOLVE_BENEATH), while a part of it is moved out.
unsafe fn moved() {
    fs::create_dir_all("top/beneath/a/b").unwrap();
    fs::create_dir_all("top/out").unwrap();
    fs::write("top/secret", "outside").unwrap();
    fs::write("top/beneath/secret", "inside!").unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                fs::rename("top/beneath/a/b", "top/out/b").unwrap();
                fs::rename("top/out/b", "top/beneath/a/b").unwrap();
            }
        });
        // SAFETY: every pointer passed is to a live value of the right type.
        let escaped = (0..3000).filter(|_| unsafe { escapes(c"a/b/../../secret") });
        println!("outside {}", escaped.count());
        done.store(true, Relaxed);
    });
}

/// Whether a path from below leads to the file outside.
unsafe fn escapes(path: &CStr) -> bool {
    unsafe {
        let root = libc::open(c"top/beneath".as_ptr(), O_PATH);
        let how = [O_RDONLY as u64, 0, RESOLVE_BENEATH];
        let size = size_of_val(&how);
        let fd = libc::syscall(libc::SYS_openat2, root, path.as_ptr(), &how, size) as c_int;
        let mut bytes = [0_u8; 7];
        libc::read(fd, bytes.as_mut_ptr().cast(), 7);
        libc::close(fd);
        libc::close(root);
        bytes == *b"outside"
    }
}
