//! User and group IDs belong to a thread, not to a process.

use std::fs;
use std::mem;
use std::ptr;
use std::sync::mpsc;
use std::thread;

use libc::{SYS_setfsuid, SYS_setgroups, SYS_setresgid, SYS_setresuid};

use crate::{error, in_child, path, tell, tell_end};

/// A user and group ID that nobody else has.
const USER: u32 = 1234;
/// The argument that leaves an ID as it is.
const SAME: u32 = u32::MAX;

/// Runs this part.
pub fn run() {
    fs::write("private", "of root's\n").expect("room for a file");
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::chmod(path(c"private"), 0o600);
        for part in [
            users,
            all,
            files,
            groups,
            capabilities,
            signals,
            heirs,
            program,
        ] {
            tell_end("end", in_child(part));
        }
    }
}

/// Runs `first` in another thread, which waits while this one runs `second`, and then runs `third`.
fn beside<T>(
    first: impl FnOnce() + Send,
    second: impl FnOnce(i32) -> T,
    third: impl FnOnce() + Send,
) {
    let (ready, is_ready) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            first();
            // SAFETY: the call takes no argument.
            let tid = unsafe { libc::gettid() };
            ready.send(tid).expect("who waits for it");
            may_go.recv().expect("who lets it go");
            third();
        });
        second(is_ready.recv().expect("the other thread"));
        go.send(()).expect("who waits for it");
    });
}

/// A line of a thread's `status`.
fn line(tid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    line.unwrap_or_default().replace('\t', " ")
}

/// Prints whether the current thread may open root's file.
fn tell_open(who: &str) {
    match fs::read("private") {
        Ok(_) => println!("{who}: opened"),
        Err(_) => println!("{who}: {}", error()),
    }
}

fn users() {
    println!("setresuid");
    let change = || {
        // SAFETY: the call takes only numbers.
        tell("  thread", unsafe {
            libc::syscall(SYS_setresuid, USER, USER, USER)
        });
        tell_open("  thread");
    };
    let look = |tid| {
        // SAFETY: the call takes no argument.
        println!("  process {}", unsafe { libc::geteuid() });
        tell_open("  process");
        println!("  {}", line(tid, "Uid"));
        println!("  {}", line(std::process::id() as i32, "Uid"));
        println!("  {}", line(tid, "CapEff"));
    };
    // SAFETY: the calls take only numbers.
    let back = || {
        tell("  back", unsafe {
            libc::syscall(SYS_setresuid, SAME, 0, SAME)
        })
    };
    beside(change, look, back);
}

/// The library's call changes the IDs of all threads.
fn all() {
    println!("the library's setresuid");
    // SAFETY: the calls take only numbers.
    unsafe {
        beside(
            || println!("  thread {}", libc::geteuid()),
            |tid| {
                tell("  call", libc::setresuid(USER, USER, USER));
                println!("  {}", line(tid, "Uid"));
            },
            || println!("  thread {}", libc::geteuid()),
        );
    }
}

fn files() {
    println!("setfsuid");
    // SAFETY: the call takes only numbers.
    let change = |id: u32| unsafe { libc::syscall(SYS_setfsuid, id) };
    beside(
        || {
            tell("  was", change(USER));
            tell_open("  thread");
        },
        |_| {
            tell("  process was", change(SAME));
            tell_open("  process");
        },
        || tell("  is", change(SAME)),
    );
}

fn groups() {
    println!("groups");
    beside(
        // SAFETY: the list has the stated length.
        || unsafe {
            let list = [USER, USER + 1];
            tell(
                "  setgroups",
                libc::syscall(SYS_setgroups, list.len(), list.as_ptr()),
            );
            tell(
                "  setresgid",
                libc::syscall(SYS_setresgid, USER, USER, USER),
            );
        },
        |tid| {
            println!("  {}", line(tid, "Groups"));
            println!("  {}", line(tid, "Gid"));
            println!("  {}", line(std::process::id() as i32, "Gid"));
            // SAFETY: the call writes nothing.
            tell(
                "  process has groups",
                i32::from(unsafe { libc::getgroups(0, ptr::null_mut()) } == 2),
            );
        },
        || {},
    );
}

fn capabilities() {
    println!("capabilities");
    let header = [0x2008_0522u32, 0];
    let keeps = || unsafe { libc::prctl(libc::PR_GET_KEEPCAPS) };
    let confined = || unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
    beside(
        // SAFETY: header and sets have the sizes of this version.
        || unsafe {
            tell(
                "  capset",
                libc::syscall(libc::SYS_capset, &header, &[0u32; 6]),
            );
            tell("  keep", libc::prctl(libc::PR_SET_KEEPCAPS, 1));
            tell(
                "  no new",
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            );
        },
        |tid| {
            println!("  {}", line(tid, "CapPrm"));
            println!("  {}", line(tid, "NoNewPrivs"));
            println!("  process keeps {} confined {}", keeps(), confined());
            let mut sets = [1u32; 6];
            let of = [header[0], tid as u32];
            // SAFETY: header and sets have the sizes of this version.
            tell("  capget", unsafe {
                libc::syscall(libc::SYS_capget, &of, &mut sets)
            });
            println!("  it has {:x}", sets[0]);
            tell_open("  process");
        },
        || println!("  thread keeps {} confined {}", keeps(), confined()),
    );
}

/// Threads of a process may send signals to each other, whatever their IDs.
fn signals() {
    println!("signals");
    // SAFETY: the calls take only numbers.
    unsafe {
        let pid = libc::getpid();
        let other = libc::fork();
        if other == 0 {
            libc::pause();
        }
        beside(
            || {
                libc::syscall(SYS_setresuid, USER, USER, USER);
                tell("  to the process", libc::kill(pid, 0));
                tell(
                    "  to its thread",
                    libc::syscall(libc::SYS_tgkill, pid, pid, 0),
                );
                tell("  to root's process", libc::kill(other, 0));
            },
            |tid| {
                tell(
                    "  to the thread",
                    libc::syscall(libc::SYS_tgkill, pid, tid, 0),
                )
            },
            || {},
        );
        libc::kill(other, libc::SIGKILL);
        libc::waitpid(other, ptr::null_mut(), 0);
    }
}

/// A new thread or process has the IDs of its creator.
fn heirs() {
    println!("made by a thread");
    beside(
        // SAFETY: the calls take only numbers.
        || unsafe {
            libc::syscall(SYS_setresuid, USER, USER, USER);
            let heir = thread::spawn(|| tell("  thread", libc::geteuid()));
            heir.join().expect("a thread that ends");
            in_child(|| {
                tell("  process", libc::geteuid());
                let pid = std::process::id() as i32;
                println!("  {}", line(pid, "Uid"));
            });
            let mut stat: libc::stat = mem::zeroed();
            libc::stat(path(c"/proc/self"), &mut stat);
            println!("  /proc/self is {}'s", stat.st_uid);
            libc::stat(path(c"/proc/thread-self"), &mut stat);
            println!("  /proc/thread-self is {}'s", stat.st_uid);
        },
        // SAFETY: the call takes no argument.
        |_| tell("  root's thread", unsafe { libc::geteuid() }),
        || {},
    );
}

/// A program that a thread executes has that thread's IDs.
fn program() {
    println!("begun by a thread");
    let begin = || {
        // SAFETY: both arrays end with a null pointer.
        unsafe {
            libc::syscall(SYS_setresuid, USER, USER, USER);
            let arguments = [path(c"abi"), path(c"identity"), path(c"tell"), ptr::null()];
            libc::execv(path(c"/proc/self/exe"), arguments.as_ptr());
        }
    };
    beside(begin, |_| {}, || {});
}

/// The executed program: prints its effective user ID.
pub fn after_exec() {
    // SAFETY: the call takes no argument.
    println!("  acts as {}", unsafe { libc::geteuid() });
    println!("  {}", line(std::process::id() as i32, "Uid"));
}
