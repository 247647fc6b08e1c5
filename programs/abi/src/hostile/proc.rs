//! /proc shows of another user's process only what ptrace(2) would allow (PTRACE_MODE_READ).

use std::ffi::CString;
use std::fs;
use std::path::Path;

use super::USER;
use crate::{error, in_child, tell, tell_end, tell_ok};

/// Files in a process's directory that only a permitted tracer may read, and some that everybody
/// may.
const MEMBERS: [&str; 24] = [
    "auxv",
    "clear_refs",
    "cmdline",
    "comm",
    "coredump_filter",
    "environ",
    "fd",
    "fdinfo",
    "io",
    "limits",
    "map_files",
    "maps",
    "mem",
    "mountinfo",
    "oom_score_adj",
    "pagemap",
    "personality",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
    "task",
    "timers",
];
const LINKS: [&str; 4] = ["cwd", "exe", "fd/0", "root"];

/// Runs this part.
pub fn run() {
    // SAFETY: every string is NUL-terminated, and children end by _exit.
    unsafe {
        fs::create_dir_all("/tmp/private").unwrap();
        fs::write("/tmp/private/file", "a secret").unwrap();
        libc::chmod(c"/tmp/private".as_ptr(), 0o700);
        let roots = sleeper(|| _ = libc::chdir(c"/tmp/private".as_ptr()));
        tell_end(
            "root's",
            in_child(|| {
                become_user();
                look(roots);
                // A file of Stile's own: the process's system calls and their numbers.
                let counts = fs::read(format!("/proc/{roots}/crossings"));
                tell("its calls are counted for all to see", counts.is_ok());
            }),
        );
        let hidden = sleeper(|| {
            become_user();
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        });
        tell_end(
            "one's own, hidden",
            in_child(|| {
                become_user();
                look(hidden);
            }),
        );
        let own = sleeper(|| {
            become_user();
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        });
        tell_end(
            "one's own",
            in_child(|| {
                become_user();
                look(own);
                descriptors();
            }),
        );
        for child in [roots, hidden, own] {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        tell_end("mapped", in_child(|| mapped()));
        tell_end("jailed", in_child(|| jailed()));
        tell_end("killed last", in_child(|| killed_last()));
        numbers();
    }
}

/// A file of an ended process does not refer to a new process with the same ID.
unsafe fn numbers() {
    unsafe {
        let gone = sleeper(|| ());
        let path = format!("/proc/{gone}");
        let directory = open(&path, libc::O_RDONLY | libc::O_DIRECTORY);
        let setting = open(&format!("{path}/oom_score_adj"), libc::O_RDWR);
        let end = |child: i32| {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        };
        end(gone);
        let number = [gone];
        // `struct clone_args`: the signal, and the requested process ID.
        let arguments = [
            0,
            0,
            0,
            0,
            libc::SIGCHLD as u64,
            0,
            0,
            0,
            number.as_ptr() as u64,
            1,
        ];
        let next = libc::syscall(
            libc::SYS_clone3,
            arguments.as_ptr(),
            size_of_val(&arguments),
        );
        if next == 0 {
            loop {
                libc::pause();
            }
        }
        tell_ok("the same number", next == i64::from(gone));
        let mut byte = 0u8;
        tell(
            "read",
            libc::read(setting, (&raw mut byte).cast(), 1) as i64,
        );
        tell(
            "write",
            libc::write(setting, c"7".as_ptr().cast(), 1) as i64,
        );
        let member = libc::openat(directory, c"stat".as_ptr(), libc::O_RDONLY);
        tell("open", member);
        let none = std::ptr::null_mut::<libc::c_void>();
        let sent = libc::syscall(libc::SYS_pidfd_send_signal, directory, 0, none, 0);
        tell("pidfd_send_signal", sent);
        end(gone);
    }
}

unsafe fn become_user() {
    unsafe {
        libc::setgroups(0, std::ptr::null());
        libc::setgid(USER);
        libc::setuid(USER);
    }
}

/// Starts a child that sleeps after `prepare`.
unsafe fn sleeper(prepare: impl FnOnce()) -> i32 {
    unsafe {
        let mut ready = [0; 2];
        libc::pipe(ready.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            libc::close(0);
            libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            prepare();
            libc::write(ready[1], c"".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        libc::read(ready[0], (&raw mut ready).cast(), 1);
        libc::close(ready[0]);
        libc::close(ready[1]);
        child
    }
}

unsafe fn open(path: &str, flags: i32) -> i32 {
    let path = CString::new(path).unwrap();
    unsafe { libc::open(path.as_ptr(), flags) }
}

unsafe fn look(pid: i32) {
    unsafe {
        for name in MEMBERS {
            let path = format!("/proc/{pid}/{name}");
            let file = open(&path, libc::O_RDONLY);
            if file < 0 {
                println!("{name}: open: {}", error());
                continue;
            }
            let mut byte = 0u8;
            if libc::read(file, (&raw mut byte).cast(), 1) < 0 {
                println!("{name}: read: {}", error());
            } else {
                println!("{name}: read");
            }
            libc::close(file);
        }
        for name in LINKS {
            let path = format!("/proc/{pid}/{name}");
            tell_ok(&format!("readlink {name}"), fs::read_link(&path).is_ok());
            let file = open(&path, libc::O_PATH);
            tell_ok(&format!("follow {name}"), file >= 0);
            libc::close(file);
        }
        let secret = open(&format!("/proc/{pid}/cwd/file"), libc::O_RDONLY);
        tell_ok("a file below its directory", secret >= 0);
        let names = fs::read_dir(format!("/proc/{pid}/fd"));
        tell_ok("its descriptors", names.is_ok());
        let written = open(&format!("/proc/{pid}/oom_score_adj"), libc::O_WRONLY);
        tell_ok("its oom_score_adj", written >= 0);
    }
}

/// A process sees its own descriptors, whether dumpable or not.
unsafe fn descriptors() {
    unsafe {
        for hidden in [false, true] {
            libc::prctl(libc::PR_SET_DUMPABLE, !hidden as usize, 0, 0, 0);
            tell_ok("own descriptors", fs::read_dir("/proc/self/fd").is_ok());
            tell_ok("an own one", open("/proc/self/fd/1", libc::O_PATH) >= 0);
            tell_ok(
                "what is known of it",
                fs::read("/proc/self/fdinfo/1").is_ok(),
            );
            tell_ok("own memory", fs::read("/proc/self/maps").is_ok());
            let attributes = fs::metadata("/proc/self/maps").unwrap();
            let owner = std::os::unix::fs::MetadataExt::uid(&attributes);
            println!("maps belong to root: {}", owner != USER);
        }
    }
}

/// map_files: every process sees its own mapped files, but only privileged ones can open them
/// there.
unsafe fn mapped() {
    const PAGE: usize = 4096;
    let map = |flags: i32, file: i32| unsafe {
        let rights = libc::PROT_READ;
        let at = libc::mmap(std::ptr::null_mut(), PAGE, rights, flags, file, 0);
        format!("{:x}-{:x}", at.addr(), at.addr() + PAGE)
    };
    unsafe {
        fs::write("/tmp/mapped", [1; PAGE]).unwrap();
        libc::chmod(c"/tmp/mapped".as_ptr(), 0o600);
        let writable = open("/tmp/mapped", libc::O_RDWR);
        let readable = open("/tmp/mapped", libc::O_RDONLY);
        let names = [
            ("to write", map(libc::MAP_SHARED, writable)),
            ("to read", map(libc::MAP_PRIVATE, readable)),
            ("none", map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)),
        ];
        let look = || {
            let listed = fs::read_dir("/proc/self/map_files").map(|all| {
                all.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                    .collect::<Vec<_>>()
            });
            tell_ok("listed", listed.is_ok());
            for (what, name) in &names {
                let path = format!("/proc/self/map_files/{name}");
                let found = listed.as_ref().is_ok_and(|all| all.contains(name));
                println!(
                    "{what}: listed {found}, leads to {:?}",
                    fs::read_link(&path).ok()
                );
                if let Ok(link) = fs::symlink_metadata(&path) {
                    let mode = std::os::unix::fs::MetadataExt::mode(&link);
                    println!("mode {mode:o}, length {}", link.len());
                }
                tell("followed", open(&path, libc::O_PATH).min(0));
            }
            let (_, name) = &names[0];
            for wrong in [format!("0{name}"), format!("{name}0")] {
                let path = format!("/proc/self/map_files/{wrong}");
                tell_ok("another name", fs::read_link(path).is_ok());
            }
        };
        look();
        libc::close(writable);
        libc::close(readable);
        libc::unlink(c"/tmp/mapped".as_ptr());
        become_user();
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        look();
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        look();
        tell_ok("memory by type", fs::read("/proc/pagetypeinfo").is_ok());
        for name in ["coredump_filter", "map_files", "mountstats", "timers"] {
            let path = format!("/proc/thread-self/{name}");
            tell_ok(&format!("a thread's {name}"), Path::new(&path).exists());
        }
    }
}

/// The root of an outside process does not lead out of a chroot.
unsafe fn jailed() {
    unsafe {
        fs::create_dir_all("/tmp/jail/proc").unwrap();
        let proc = c"proc".as_ptr();
        let done = libc::mount(proc, c"/tmp/jail/proc".as_ptr(), proc, 0, std::ptr::null());
        tell("mount", done);
        libc::chroot(c"/tmp/jail".as_ptr());
        libc::chdir(c"/".as_ptr());
        become_user();
        for path in [
            "/proc/1/root",
            "/proc/1/root/etc",
            "/proc/1/cwd",
            "/proc/1/exe",
        ] {
            tell_ok(path, open(path, libc::O_PATH) >= 0);
        }
        tell_ok("own root", Path::new("/proc/self/root/proc").exists());
    }
}

/// Only privileged processes lower their oom_score_adj below the value that a privileged one has
/// set.
unsafe fn killed_last() {
    unsafe {
        let set = |value: &str| {
            let file = open("/proc/self/oom_score_adj", libc::O_WRONLY);
            tell(
                value,
                libc::write(file, value.as_ptr().cast(), value.len()) as i64,
            );
            libc::close(file);
        };
        set("300");
        set("200");
        become_user();
        // As after an exec: the process's files in /proc belong to the user.
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        for value in ["-1000", "199", "200", "1000", "500", "0", "1001"] {
            set(value);
        }
        let now = fs::read_to_string("/proc/self/oom_score_adj");
        println!("now {}", now.unwrap_or_default().trim());
    }
}
