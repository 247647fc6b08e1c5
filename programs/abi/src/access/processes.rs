//! The directories of processes of all kinds.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::ptr;

use super::{OTHER, USER, become_user, trial};
use crate::{error, in_child, tell_end};

/// This program, root's and set-user-ID.
const PRIVILEGED: &CStr = c"/tmp/privileged";

/// A process that waits to be looked at.
pub struct Subject {
    what: &'static str,
    pid: i32,
}

impl Drop for Subject {
    fn drop(&mut self) {
        // SAFETY: neither touches memory.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, ptr::null_mut(), 0);
        }
    }
}

impl Subject {
    /// A child that does `prepare` and waits, or becomes a program that waits, or ends.
    pub fn new(what: &'static str, prepare: impl FnOnce()) -> Self {
        let mut ends = [0; 2];
        // SAFETY: the pipe has room; the child does not return.
        let pid = unsafe {
            libc::pipe(ends.as_mut_ptr());
            let pid = libc::fork();
            if pid == 0 {
                libc::close(ends[0]);
                libc::close(0);
                libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
                libc::dup2(ends[1], 3);
                libc::syscall(libc::SYS_close_range, 4, u32::MAX, 0);
                prepare();
                rest();
            }
            libc::close(ends[1]);
            pid
        };
        let mut byte = 0u8;
        // SAFETY: a byte; it comes, or the child has ended.
        unsafe {
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::close(ends[0]);
            // What has ended stays to be waited for.
            let mut ended: libc::siginfo_t = std::mem::zeroed();
            if byte != b'x' {
                let flags = libc::WEXITED | libc::WNOWAIT;
                libc::waitid(libc::P_PID, pid as _, &mut ended, flags);
            }
        }
        Subject { what, pid }
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What it is.
    pub fn what(&self) -> &'static str {
        self.what
    }
}

/// Says that this process is ready, and waits.
pub fn rest() -> ! {
    // SAFETY: a byte to a descriptor that is there.
    unsafe {
        libc::write(3, c"x".as_ptr().cast(), 1);
        loop {
            libc::pause();
        }
    }
}

fn set_dumpable(dumpable: usize) {
    // SAFETY: no pointer is passed.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, dumpable, 0, 0, 0) };
}

fn own() {
    become_user(USER);
    set_dumpable(1);
}

/// A user's process that may do what an ordinary one may not.
fn capable() {
    // SAFETY: a header and two sets.
    unsafe {
        libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0);
        own();
        let header = [0x2008_0522u32, 0];
        let raw = 1u32 << 13;
        let sets = [0, raw, 0, 0, 0, 0];
        libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr());
    }
}

fn other_group() {
    // SAFETY: none of these touches memory.
    unsafe {
        libc::setgroups(0, ptr::null());
        libc::setresgid(OTHER, OTHER, OTHER);
        libc::setresuid(USER, USER, USER);
    }
    set_dumpable(1);
}

fn privileged() {
    become_user(USER);
    let words = [PRIVILEGED, c"access", c"rest"].map(CStr::as_ptr);
    let words = [words[0], words[1], words[2], ptr::null()];
    // SAFETY: the array ends with null.
    unsafe { libc::execv(PRIVILEGED.as_ptr(), words.as_ptr()) };
    println!("exec: {}", error());
}

/// A process of every kind.
pub fn subjects() -> Vec<Subject> {
    let to = PRIVILEGED.to_str().expect("a name in ASCII");
    fs::copy("/proc/self/exe", to).expect("room for a copy");
    fs::set_permissions(to, fs::Permissions::from_mode(0o4755)).expect("a file of root's");
    // SAFETY: this takes a number.
    let end = || unsafe { libc::_exit(0) };
    vec![
        Subject::new("root's", || ()),
        Subject::new("root's that ended", || end()),
        Subject::new("another's", || {
            become_user(OTHER);
            set_dumpable(1);
        }),
        Subject::new("own", own),
        Subject::new("own that ended", || {
            own();
            end()
        }),
        Subject::new("own, hidden", || become_user(USER)),
        Subject::new("own, set-user-ID", privileged),
        Subject::new("own, capable", capable),
        Subject::new("own of another group", other_group),
    ]
}

/// The names in the directory of a process, and in that of a thread.
pub fn names() -> BTreeSet<String> {
    let subject = Subject::new("own", own);
    let pid = subject.pid;
    let mut names = BTreeSet::new();
    let mut ahead = vec![String::new(), format!("/task/{pid}")];
    while let Some(name) = ahead.pop() {
        let path = format!("/proc/{pid}{name}");
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        names.insert(format!("PID{}", name.replace(&pid.to_string(), "TID")));
        // What is in the network's is in /proc/net; places and numbers differ.
        let differ = ["net", "map_files", "task", "fd", "fdinfo"];
        let last = name.rsplit('/').next().unwrap_or_default();
        if found.is_dir() && !differ.contains(&last) {
            let inside = fs::read_dir(&path).into_iter().flatten().flatten();
            let inside = inside.filter_map(|entry| entry.file_name().into_string().ok());
            ahead.extend(inside.map(|inside| format!("{name}/{inside}")));
        } else if last.starts_with("fd") {
            ahead.push(format!("{name}/0"));
        }
    }
    names
}

/// Tries every member of the directories of processes of all kinds.
pub fn run(members: &[&str]) {
    let subjects = subjects();
    let look = || {
        for member in members {
            println!("PID{member}:");
            for subject in &subjects {
                let pid = subject.pid;
                let member = member.replace("TID", &pid.to_string());
                let outcome = trial::outcome(&format!("/proc/{pid}{member}"));
                println!("  {}: {outcome}", subject.what);
            }
            if !member.contains("TID") {
                let outcome = trial::outcome(&format!("/proc/self{member}"));
                println!("  itself: {outcome}");
            }
        }
        for subject in &subjects {
            for member in members {
                let pid = subject.pid;
                trial::tell_addresses(&format!("/proc/{pid}{member}"));
            }
        }
    };
    for (who, dumpable) in [("a user", 1), ("a hidden user", 0)] {
        let user = || {
            become_user(USER);
            set_dumpable(dumpable);
            look();
        };
        tell_end(who, in_child(user));
    }
    written(&subjects);
}

/// What is said to a user that writes to the settings of a process.
fn written(subjects: &[Subject]) {
    const VALUES: [(&str, &str); 6] = [
        ("clear_refs", "1"),
        ("comm", "abi"),
        ("coredump_filter", "33"),
        ("oom_score_adj", "0"),
        ("timerslack_ns", "50000"),
        ("mem", "x"),
    ];
    let write = || {
        own();
        for (member, value) in VALUES {
            println!("to {member}:");
            for subject in subjects {
                let path = format!("/proc/{}/{member}", subject.pid);
                let path = CString::new(path).expect("no zero");
                // SAFETY: the path ends with zero, and the value is as long as is said.
                let done = unsafe {
                    let file = libc::open(path.as_ptr(), libc::O_WRONLY);
                    if file < 0 {
                        println!("  {}: open {}", subject.what, error());
                        continue;
                    }
                    libc::write(file, value.as_ptr().cast(), value.len())
                };
                crate::tell(&format!("  {}", subject.what), done as i64);
            }
        }
    };
    tell_end("written", in_child(write));
}
