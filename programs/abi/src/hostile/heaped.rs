//! Calls whose work grows with what a program has accumulated: names, strings, links, watches,
//! filters, tracees, connections. Other programs run meanwhile (`stile bench masked`).

use std::ffi::CString;
use std::fs;
use std::mem;
use std::os::unix::fs::symlink;
use std::ptr;
use std::sync::mpsc::channel;
use std::thread;

use libc::{AF_UNIX, POLLIN, SOCK_STREAM, c_char, c_int};

use super::become_user;
use crate::{in_child, tell, tell_end};

const FOLDER: &str = "/tmp/heaped";

/// Runs this part.
pub fn run() {
    in_child(|| {
        become_user();
        // SAFETY: no memory is passed. The process may trace its children again.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
        _ = fs::create_dir(FOLDER);
        // SAFETY: all pointers are to live values of these functions; children end by _exit.
        unsafe {
            names();
            watches();
            links();
            strings();
            polls();
            backlog();
            filters();
            tracees();
        }
        _ = fs::remove_dir_all(FOLDER);
    });
}

unsafe fn open_folder(path: &str) -> c_int {
    let path = CString::new(path).unwrap();
    unsafe { libc::open(path.as_ptr(), libc::O_RDONLY) }
}

/// One read of a large directory.
unsafe fn names() {
    const NAMES: usize = 20_000;
    let folder = format!("{FOLDER}/names");
    _ = fs::create_dir(&folder);
    let first = format!("{folder}/first");
    _ = fs::write(&first, "");
    for number in 1..NAMES {
        _ = fs::hard_link(&first, format!("{folder}/{number}"));
    }
    unsafe {
        let file = open_folder(&folder);
        let mut buffer = vec![0u8; 4 << 20];
        let at = buffer.as_mut_ptr();
        let len = libc::syscall(libc::SYS_getdents64, file, at, buffer.len());
        let mut rest = &buffer[..len as usize];
        let mut count = 0;
        while rest.len() > 18 {
            let len = u16::from_ne_bytes([rest[16], rest[17]]);
            rest = &rest[len.into()..];
            count += 1;
        }
        tell("names", count);
        libc::close(file);
    }
}

/// The output of /proc for many watches.
unsafe fn watches() {
    unsafe {
        let file = libc::inotify_init();
        let mut failed = 0;
        for number in 0..4000 {
            let folder = format!("{FOLDER}/{number}");
            _ = fs::create_dir(&folder);
            let path = CString::new(folder).unwrap();
            let watch = libc::inotify_add_watch(file, path.as_ptr(), libc::IN_OPEN);
            failed += i32::from(watch < 0);
        }
        tell("no watch", failed);
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{file}")).unwrap_or_default();
        let told = text.lines().filter(|line| line.starts_with("inotify"));
        tell("watches", told.count() as i64);
        libc::close(file);
    }
}

/// Symbolic links that each lead along the longest path to the next.
unsafe fn links() {
    const LINKS: usize = 30;
    let name = |number: usize| format!("{FOLDER}/link{number}");
    _ = symlink(".", name(LINKS));
    for number in 0..LINKS {
        let last = format!("link{}", number + 1);
        _ = symlink("./".repeat((4095 - last.len()) / 2) + &last, name(number));
    }
    unsafe {
        let path = CString::new(name(0)).unwrap();
        let mut status = mem::zeroed();
        tell("links", libc::stat(path.as_ptr(), &mut status));
    }
}

/// More argument strings than a program may get.
unsafe fn strings() {
    let mut arguments = vec![c"".as_ptr(); 300_000];
    arguments.push(ptr::null());
    let none: [*const c_char; 1] = [ptr::null()];
    unsafe {
        let done = libc::execve(c"/bin/sh".as_ptr(), arguments.as_ptr(), none.as_ptr());
        tell("strings", done);
    }
}

/// Threads that each poll one file many times.
unsafe fn polls() {
    const THREADS: usize = 64;
    const TIMES: usize = 1000;
    unsafe {
        let file = libc::eventfd(0, 0);
        let wait = move || {
            let one = libc::pollfd {
                fd: file,
                events: POLLIN,
                revents: 0,
            };
            libc::poll([one; TIMES].as_mut_ptr(), TIMES as u64, -1)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| thread::spawn(wait)).collect();
        // Some wait by now; the others find it ready.
        thread::sleep(std::time::Duration::from_millis(300));
        let one = 1u64;
        libc::write(file, (&raw const one).cast(), 8);
        let ready: c_int = threads.into_iter().map(|one| one.join().unwrap_or(0)).sum();
        tell("ready", ready);
        libc::close(file);
    }
}

/// A listener that is closed while many connections wait.
unsafe fn backlog() {
    unsafe {
        let socket = || libc::socket(AF_UNIX, SOCK_STREAM, 0);
        let mut name: libc::sockaddr_un = mem::zeroed();
        name.sun_family = AF_UNIX as u16;
        name.sun_path[1] = b'h' as c_char;
        let len = mem::size_of_val(&name) as u32;
        let listener = socket();
        tell("bind", libc::bind(listener, (&raw const name).cast(), len));
        tell("listen", libc::listen(listener, 4096));
        let mut failed = 0;
        for _ in 0..2000 {
            let client = socket();
            failed -= libc::connect(client, (&raw const name).cast(), len);
            libc::close(client);
        }
        tell("not connected", failed);
        tell("close", libc::close(listener));
    }
}

/// A thread with very many filters synchronises other threads to them.
unsafe fn filters() {
    const SET_FILTER: usize = 1;
    const FOR_ALL: usize = 1;
    let status = in_child(|| {
        let allow = libc::sock_filter {
            code: 6,
            jt: 0,
            jf: 0,
            k: 0x7fff_0000,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: (&raw const allow).cast_mut(),
        };
        let program = &raw const program as usize;
        // SAFETY: the program outlives the threads.
        let add = move |flags: usize| unsafe {
            libc::syscall(libc::SYS_seccomp, SET_FILTER, flags, program)
        };
        // SAFETY: no pointer is passed.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        tell("the first", add(0));
        for _ in 0..200 {
            thread::spawn(|| {
                loop {
                    thread::park();
                }
            });
        }
        let (told, added) = channel();
        let own = thread::spawn(move || {
            _ = told.send(add(0));
            loop {
                thread::park();
            }
        });
        _ = added.recv();
        let failed = (0..2000).filter(|_| add(0) != 0);
        tell("not added", failed.count() as i64);
        println!("one has others: {}", add(FOR_ALL) > 0);
        drop(own);
    });
    tell_end("filters", status);
}

/// The end of a tracer that ends a process with many threads.
unsafe fn tracees() {
    const THREADS: usize = 300;
    const EXIT_KILL: usize = 1 << 20;
    unsafe {
        let traced = libc::fork();
        if traced == 0 {
            for _ in 1..THREADS {
                thread::spawn(|| libc::pause());
            }
            libc::pause();
            libc::_exit(0);
        }
        let tasks = || fs::read_dir(format!("/proc/{traced}/task")).map_or(0, |all| all.count());
        while tasks() < THREADS {
            thread::yield_now();
        }
        let tracer = in_child(|| {
            let mut failed = 0;
            for task in fs::read_dir(format!("/proc/{traced}/task")).unwrap() {
                let name = task.unwrap().file_name();
                let tid: c_int = name.to_str().unwrap().parse().unwrap();
                failed -= libc::ptrace(0x4206, tid, 0, EXIT_KILL);
            }
            tell("not traced", failed);
        });
        tell_end("tracer", tracer);
        let mut status = 0;
        libc::waitpid(traced, &mut status, 0);
        tell_end("traced", status);
    }
}
