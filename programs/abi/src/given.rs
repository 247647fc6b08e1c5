//! Two threads that change one file at once, its owner and its mode.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fs, thread};

use libc::c_long;

/// The program whose mode and owner change.
const FILE: &CStr = c"given";
/// A user without privileges.
const USER: u32 = 1000;
/// How often the file changes its owner.
const ROUNDS: usize = 4000;

/// Runs this part: the file is never root's with the set-user-ID bit that another user gave it.
pub fn run() {
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
