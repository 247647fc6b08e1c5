//! Core files: when one is written, its owner, and the parts of the program that it contains.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::{in_child, path, tell};

/// A value that the core file must contain.
static mut MARK: [u64; 2] = [0; 2];

/// Runs this part.
pub fn run() {
    fs::create_dir("cores").expect("there is room for a folder");
    // SAFETY: children end by a signal or by _exit.
    unsafe {
        libc::chdir(path(c"cores"));
        ended("no limit, no file", 0, || {});
        ended("a limit", libc::RLIM_INFINITY, || {});
        examine();
        fs::remove_file("core").expect("it is there");
        ended("no dumps", libc::RLIM_INFINITY, || {
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
        });
        ended("a small limit", 4095, || {});
        ended("a page", 4096, || {});
        let size = fs::metadata("core").map_or(0, |data| data.len());
        println!("no larger than that: {}", size <= 4096);
        fs::remove_file("core").expect("it is there");
        std::os::unix::fs::symlink("elsewhere", "core").expect("a link");
        ended("a link is there", libc::RLIM_INFINITY, || {});
        println!("through it: {}", fs::exists("elsewhere").unwrap_or(true));
        fs::remove_file("core").expect("it is there");
        fs::create_dir("core").expect("a folder");
        ended("a folder is there", libc::RLIM_INFINITY, || {});
        fs::remove_dir("core").expect("it is there");
        ended("with threads", libc::RLIM_INFINITY, || {
            for _ in 0..3 {
                std::thread::spawn(|| {
                    loop {
                        std::thread::park();
                    }
                });
            }
        });
        examine();
        fs::remove_file("core").expect("it is there");
        told();
        fs::remove_file("core").expect("it is there");
        names();
        strangers();
    }
}

fn sysctl(name: &str, value: &str) {
    let written = fs::write(format!("/proc/sys/{name}"), value);
    let failed = written.err().and_then(|error| error.raw_os_error());
    println!("{name} {value:?}: {}", failed.unwrap_or(0));
}

/// File names by `core_pattern` and `core_uses_pid`.
fn names() {
    let _ = fs::create_dir("folder");
    let patterns = [
        "x.%e.%s.%u.%g.%d.%c",
        "%p",
        "%p.%%.%i",
        "%P",
        "folder/%e-%",
        "%E.%f",
        "%q%e%",
        "nowhere/%e",
        "core\nmore",
        "",
    ];
    sysctl("kernel/core_uses_pid", "1");
    for pattern in patterns {
        sysctl("kernel/core_pattern", pattern);
        let shown = fs::read_to_string("/proc/sys/kernel/core_pattern");
        println!("{:?}", shown.unwrap_or_default());
        if pattern.contains("%E") {
            // The program's path is not fixed.
            sysctl("kernel/core_pattern", "%f");
        }
        // SAFETY: the child ends here.
        let status = in_child(|| unsafe {
            limit(4096);
            libc::abort();
        });
        println!("core {}", libc::WCOREDUMP(status));
        list(".");
        list("folder");
    }
    sysctl("kernel/core_uses_pid", "0");
    sysctl("kernel/core_pattern", "core");
}

/// Prints the files of a folder, with `PID` for process IDs, and removes them.
fn list(folder: &str) {
    let files = fs::read_dir(folder).expect("a folder").flatten();
    for file in files.filter(|file| file.path().is_file()) {
        let name = file.file_name().into_string().expect("a text");
        let parts: Vec<_> = name.split('.').collect();
        let known = |part: &&str| match part.parse::<u32>() {
            Ok(number) if number > 6 && number != 4096 => "PID".to_owned(),
            _ => (*part).to_owned(),
        };
        let parts: Vec<_> = parts.iter().map(known).collect();
        println!("  {folder} {}", parts.join("."));
        fs::remove_file(file.path()).expect("it is there");
    }
}

/// A process whose user is not the one that executed the program, by `suid_dumpable`.
fn strangers() {
    let _ = fs::set_permissions(".", fs::Permissions::from_mode(0o777));
    for dumpable in ["0", "1", "2"] {
        sysctl("fs/suid_dumpable", dumpable);
        for (pattern, root) in [
            ("core", "/"),
            ("/tmp/suid-core", "/"),
            ("/tmp/suid-core", "."),
        ] {
            let _ = fs::create_dir_all("tmp");
            sysctl("kernel/core_pattern", pattern);
            // SAFETY: the child ends here.
            let status = in_child(|| unsafe {
                limit(4096);
                let root = std::ffi::CString::new(root).expect("no zero");
                tell("chroot", libc::chroot(root.as_ptr()));
                libc::setresuid(1000, 1000, 1000);
                println!("dumpable {}", libc::prctl(libc::PR_GET_DUMPABLE));
                libc::abort();
            });
            let owner = fs::metadata(pattern).map(|data| data.uid()).ok();
            println!("core {} of {owner:?}", libc::WCOREDUMP(status));
            let inside = fs::metadata("tmp/suid-core").map(|data| data.uid()).ok();
            println!("in its root: {inside:?}");
            let _ = fs::remove_file(pattern);
            let _ = fs::remove_file("tmp/suid-core");
        }
    }
    sysctl("fs/suid_dumpable", "0");
    sysctl("kernel/core_pattern", "core");
}

fn limit(soft: u64) {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is complete.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &limit) };
}

/// A child that aborts under the soft limit `soft`, after `before`.
fn ended(what: &str, soft: u64, before: impl FnOnce()) {
    let status = in_child(|| {
        limit(soft);
        before();
        // SAFETY: nothing else reads the value, and the child ends here.
        unsafe {
            MARK = [0x5711e_5711e, u64::from(libc::getpid().unsigned_abs())];
            libc::abort();
        }
    });
    println!(
        "{what}: signal {}, core {}, file {}",
        libc::WTERMSIG(status),
        libc::WCOREDUMP(status),
        fs::symlink_metadata("core").is_ok_and(|data| data.is_file())
    );
}

/// The parts of the file that a debugger reads: the kinds of notes, the note with registers, and
/// the memory.
fn examine() {
    let mut file = fs::File::open("core").expect("a core file");
    let data = file.metadata().expect("of an open file");
    println!("mode {:o} of {}", data.permissions().mode(), data.uid());
    let mut at = |place: u64, len: usize| {
        let mut bytes = vec![0; len];
        file.seek(SeekFrom::Start(place)).expect("a place");
        file.read_exact(&mut bytes)
            .map(|()| bytes)
            .unwrap_or_default()
    };
    let word = |bytes: &[u8], place: usize, len: usize| {
        let mut value = [0; 8];
        value[..len].copy_from_slice(&bytes[place..place + len]);
        u64::from_le_bytes(value)
    };
    let head = at(0, 64);
    println!("{} type {}", head[..4].escape_ascii(), word(&head, 16, 2));
    let mark = &raw const MARK as u64;
    for segment in 0..word(&head, 56, 2) {
        let segment = at(word(&head, 32, 8) + segment * 56, 56);
        let [offset, start, len] = [8, 16, 32].map(|place| word(&segment, place, 8));
        match word(&segment, 0, 4) {
            4 => {
                let notes = at(offset, len as usize);
                let (mut next, mut threads, mut floats) = (0, Vec::new(), 0);
                while next < notes.len() {
                    let (size, kind) = (word(&notes, next + 4, 4), word(&notes, next + 8, 4));
                    let content = &notes[next + 20..];
                    match kind {
                        // The first is of the thread that died.
                        1 => {
                            if threads.is_empty() {
                                println!("status: signal {}", word(content, 12, 2));
                            }
                            threads.push(word(content, 32, 4));
                        }
                        2 => floats += 1,
                        3 => println!("program: {}", content[40..43].escape_ascii()),
                        6 => println!("auxiliary vector: {}", size > 100),
                        0x5349_4749 => println!("signal information: {}", word(content, 0, 4)),
                        _ => {}
                    }
                    next += 20 + size.next_multiple_of(4) as usize;
                }
                let all = threads.len();
                threads.sort_unstable();
                threads.dedup();
                println!(
                    "{all} threads, {} of them differ, {floats} with floats",
                    threads.len()
                );
            }
            _ if (start..start + len).contains(&mark) => {
                let value = at(offset + mark - start, 16);
                println!("the mark {:x}", word(&value, 0, 8));
            }
            _ => {}
        }
    }
}

/// The wait status for the parent.
unsafe fn told() {
    // SAFETY: the child ends by a signal; the structure is complete.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            limit(libc::RLIM_INFINITY);
            libc::kill(libc::getpid(), libc::SIGQUIT);
        }
        let mut info: libc::siginfo_t = std::mem::zeroed();
        tell(
            "waitid",
            libc::waitid(libc::P_PID, child as u32, &mut info, libc::WEXITED),
        );
        println!("dumped: {}", info.si_code == libc::CLD_DUMPED);
        println!("by {}", info.si_status());
    }
}
