//! Two threads that change one file at once, its owner and its mode; and a program that changes its
//! mode while others execute it.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fs, thread};

use libc::c_long;

use crate::in_child;

/// The program whose mode and owner change.
const FILE: &CStr = c"given";
/// A user without privileges.
const USER: u32 = 1000;
/// How often the file changes its owner, and is executed.
const ROUNDS: usize = 4000;
const EXECUTIONS: usize = 400;
/// The status of a program that has root's privileges.
const ROOT: i32 = 7;

/// Runs this part.
pub fn run() {
    owned();
    executed();
}

/// The file is never root's with the set-user-ID bit that another user gave it.
fn owned() {
    fs::write("given", "a program").expect("the folder is ours");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let user = c_long::from(USER);
            // SAFETY: the path lives. The call itself changes the user of this thread alone.
            unsafe {
                libc::syscall(libc::SYS_setresuid, user, user, user);
                while !done.load(Relaxed) {
                    libc::chmod(FILE.as_ptr(), 0o4755);
                }
            }
        });
        // SAFETY: every pointer passed is to a live value of the right type.
        let stolen = (0..ROUNDS).filter(|_| unsafe { taken_over() });
        println!("of root, and set-user-ID by another: {}", stolen.count());
        done.store(true, Relaxed);
    });
}

/// A program that either everybody may execute, or root alone with the set-user-ID bit, gives
/// nobody root's privileges.
fn executed() {
    fs::copy("/proc/self/exe", "program").expect("the folder is ours");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                // SAFETY: the path lives.
                unsafe {
                    libc::chmod(c"program".as_ptr(), 0o755);
                    libc::chmod(c"program".as_ptr(), 0o4700);
                }
            }
        });
        // SAFETY: the list ends with a null pointer.
        let execute = || unsafe {
            libc::setresuid(USER, USER, USER);
            let [program, given, told] = [c"program", c"given", c"told"].map(CStr::as_ptr);
            libc::execv(program, [program, given, told, ptr::null()].as_ptr());
        };
        let privileged = (0..EXECUTIONS).filter(|_| libc::WEXITSTATUS(in_child(execute)) == ROOT);
        println!("with root's privileges: {}", privileged.count());
        done.store(true, Relaxed);
    });
}

/// `abi given`, as the next program: ends with [`ROOT`] if it has root's privileges.
pub fn after_exec() {
    // SAFETY: no pointer is passed.
    if unsafe { libc::geteuid() } == 0 {
        std::process::exit(ROOT);
    }
}

/// Gives the file to the user and takes it back; whether it is a set-user-ID program then.
unsafe fn taken_over() -> bool {
    unsafe {
        libc::chown(FILE.as_ptr(), USER, USER);
        libc::sched_yield();
        libc::chown(FILE.as_ptr(), 0, 0);
        libc::sched_yield();
        let mut found: libc::stat = std::mem::zeroed();
        libc::stat(FILE.as_ptr(), &mut found);
        libc::chmod(FILE.as_ptr(), 0o755);
        found.st_mode & libc::S_ISUID != 0
    }
}
