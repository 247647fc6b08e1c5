//! Many objects of one kind: names in a folder, most of them removed, semaphore sets, and orphans
//! of one process.

use std::ffi::CString;
use std::fs;

use crate::{in_child, tell, tell_end};

const MANY: u32 = 10_000;
/// Linux allows no more on a machine with so little memory.
const ORPHANS: u32 = 3_000;

/// A folder with many names, of which all but the first and the last are removed; each listing
/// starts at the beginning.
fn names() {
    let name = |at: u32| format!("many/{at:05}");
    _ = fs::create_dir("many");
    for at in 0..MANY {
        _ = fs::File::create(name(at));
    }
    let listed = || fs::read_dir("many").map_or(0, Iterator::count);
    println!("all: {}", listed());
    // Half of the files are removed from the middle: too few for the directory to free memory.
    for at in MANY / 4..MANY * 3 / 4 {
        _ = fs::remove_file(name(at));
    }
    println!("half: {}", listed());
    let short =
        || fs::read_dir("many").map_or(0, |names| names.take(MANY as usize / 4 + 1).count());
    println!("again: {}", (0..100).map(|_| short()).sum::<usize>());
    for at in (0..MANY / 4).chain(MANY * 3 / 4..MANY - 1) {
        _ = fs::remove_file(name(at));
    }
    println!("one: {}", listed());
    _ = fs::write(name(0), "");
    println!("two: {}", listed());
    _ = fs::remove_dir_all("many");
}

/// The last of a chain of processes exits with many children that are zombies.
unsafe fn orphans(line: u32) {
    // SAFETY: the vfork child only exits, and none of the others accesses memory.
    unsafe {
        if line > 0 {
            let status = in_child(|| orphans(line - 1));
            libc::_exit(libc::WEXITSTATUS(status));
        }
        let mut made = 0;
        for _ in 0..ORPHANS {
            match libc::syscall(
                libc::SYS_clone,
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                0,
                0,
                0,
                0,
            ) {
                0 => libc::_exit(0),
                -1 => {}
                _ => made += 1,
            }
        }
        libc::_exit((made == ORPHANS).into());
    }
}

/// Changes by a process to semaphores of many sets are undone when it ends.
unsafe fn sets() {
    const SETS: usize = 16_000;
    // SAFETY: only an operation and numbers are passed.
    unsafe {
        let set = || libc::semget(libc::IPC_PRIVATE, 1, 0o600);
        let sets: Vec<i32> = (0..SETS).map(|_| set()).take_while(|&id| id >= 0).collect();
        println!("sets: {}", sets.len());
        let up = || {
            let mut one = libc::sembuf {
                sem_num: 0,
                sem_op: 1,
                sem_flg: libc::SEM_UNDO as i16,
            };
            sets.iter().for_each(|&id| _ = libc::semop(id, &mut one, 1));
            println!("first: {}", libc::semctl(sets[0], 0, libc::GETVAL));
        };
        tell_end("a process with all", in_child(up));
        let value = |id: &&i32| libc::semctl(**id, 0, libc::GETVAL) == 0;
        println!("undone: {}", sets.iter().filter(value).count());
        sets.iter()
            .for_each(|&id| _ = libc::semctl(id, 0, libc::IPC_RMID));
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: the paths and options are NUL-terminated; the process has one thread.
    unsafe {
        let (place, kind) = (CString::default(), c"tmpfs".as_ptr());
        tell(
            "own files",
            libc::mount(kind, c"/tmp".as_ptr(), kind, 0, place.as_ptr().cast()),
        );
        tell_end(
            "names",
            in_child(|| {
                libc::chdir(c"/tmp".as_ptr());
                names();
            }),
        );
        tell("its files go", libc::umount2(c"/tmp".as_ptr(), 0));
        sets();
        tell_end(
            "orphans",
            in_child(|| {
                orphans(50);
            }),
        );
    }
}
