//! Several processes create, move, exchange, link and remove names at once, while root bind-mounts
//! folders over one another. Afterwards the tree must be consistent: everything that a folder lists
//! is found, link counts are right, and everything can be removed.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt, chown};
use std::path::Path;

use libc::{AT_FDCWD, RENAME_EXCHANGE, RENAME_NOREPLACE};

use super::USER;

/// The number of attempts of each process.
const ATTEMPTS: u32 = 3000;
/// The number of the user's processes.
const PROCESSES: u64 = 4;
/// The number of names in a folder.
const NAMES: u64 = 5;

/// Marsaglia's xorshift, which makes the same attempts in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// A path of one to three names.
    fn path(&mut self) -> String {
        let names = (0..=self.below(3)).map(|_| format!("n{}", self.below(NAMES)));
        names.collect::<Vec<_>>().join("/")
    }
}

fn rename(old: &str, new: &str, flags: u32) {
    let [old, new] = [old, new].map(|path| CString::new(path).expect("no zero"));
    // SAFETY: both paths are NUL-terminated.
    unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            AT_FDCWD,
            old.as_ptr(),
            AT_FDCWD,
            new.as_ptr(),
            flags,
        )
    };
}

/// Makes a random call; most of them fail.
fn attempt(dice: &mut Dice) {
    let (one, other) = (dice.path(), dice.path());
    match dice.below(10) {
        0 | 1 => _ = fs::create_dir(one),
        2 => _ = fs::remove_dir(one),
        3 => _ = fs::remove_file(one),
        4 => _ = fs::File::create_new(one),
        5 => _ = fs::hard_link(one, other),
        6 => rename(&one, &other, RENAME_EXCHANGE),
        7 => rename(&one, &other, RENAME_NOREPLACE),
        _ => rename(&one, &other, 0),
    }
}

/// Root bind-mounts one folder over another, or unmounts one.
fn bind(dice: &mut Dice) {
    let [one, other] = [dice.path(), dice.path()].map(|path| CString::new(path).expect("no zero"));
    let none = std::ptr::null();
    // SAFETY: both paths are NUL-terminated; type and options are not read.
    unsafe {
        if dice.below(2) == 0 {
            libc::mount(
                one.as_ptr(),
                other.as_ptr(),
                none,
                libc::MS_BIND,
                none.cast(),
            );
        } else {
            libc::umount2(other.as_ptr(), libc::MNT_DETACH);
        }
    }
}

/// The result of a walk through the tree.
#[derive(Default)]
struct Found {
    faults: Vec<&'static str>,
    /// For each inode, its link count and the number of names found.
    files: HashMap<u64, (u64, u64)>,
}

impl Found {
    fn check(&mut self, what: &'static str, holds: bool) {
        if !holds && !self.faults.contains(&what) {
            self.faults.push(what);
        }
    }

    fn look(&mut self, folder: &Path) {
        let mut folders = 0;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(attributes) = entry.path().symlink_metadata() else {
                self.check("a name that is listed is found", false);
                continue;
            };
            self.check(
                "a name leads to the inode listed",
                attributes.ino() == entry.ino(),
            );
            if attributes.is_dir() {
                folders += 1;
                let above = entry
                    .path()
                    .join("..")
                    .metadata()
                    .map(|above| above.ino())
                    .ok();
                let here = folder.metadata().map(|here| here.ino()).ok();
                self.check("a folder's .. is where it lies", above == here);
                self.look(&entry.path());
            } else {
                let links = attributes.nlink();
                self.files.entry(attributes.ino()).or_insert((links, 0)).1 += 1;
            }
        }
        let links = folder.metadata().map(|folder| folder.nlink()).ok();
        self.check(
            "a folder has a link of each folder in it",
            links == Some(folders + 2),
        );
    }
}

/// Starts a process: the first one bind-mounts, the others are the user's.
fn begin(number: u64) -> i32 {
    // SAFETY: the program has one thread, so the child may continue as the parent would.
    let child = unsafe { libc::fork() };
    if child != 0 {
        return child;
    }
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ number << 32);
    if number == 0 {
        (0..ATTEMPTS / 4).for_each(|_| bind(&mut dice));
    } else {
        // SAFETY: no pointer is passed.
        unsafe { _ = libc::setgid(USER) + libc::setuid(USER) };
        (0..ATTEMPTS).for_each(|_| attempt(&mut dice));
    }
    std::process::exit(0)
}

/// Runs this part.
pub fn run() {
    fs::create_dir("folder").expect("a fresh folder");
    chown("folder", Some(USER), Some(USER)).expect("root may");
    std::env::set_current_dir("folder").expect("a folder");
    let children: Vec<_> = (0..=PROCESSES).map(begin).collect();
    for child in children {
        let mut status = 0;
        // SAFETY: the status is live.
        unsafe { libc::waitpid(child, &mut status, 0) };
        crate::tell_end("a process", status);
    }
    end_mounts();
    let mut found = Found::default();
    found.look(Path::new("."));
    let counted = found.files.values().all(|(links, names)| links == names);
    found.check("a file has as many links as names", counted);
    println!("faults: {:?}", found.faults);
    std::env::set_current_dir("..").expect("a folder");
    println!("all removed: {}", fs::remove_dir_all("folder").is_ok());
}

/// Unmounts all mounts below this folder. A rename may have hidden an older one below a newer one,
/// or vice versa; a hidden one is found when nothing covers it any more.
fn end_mounts() {
    let here = std::env::current_dir().expect("a folder");
    let mut ended = true;
    while ended {
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let paths = table
            .lines()
            .rev()
            .filter_map(|line| line.split(' ').nth(1));
        let below =
            paths.filter(|path| Path::new(path) != here && Path::new(path).starts_with(&here));
        ended = false;
        for path in below {
            let path = CString::new(path).expect("no zero");
            // SAFETY: the path is NUL-terminated.
            ended |= unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } == 0;
        }
    }
}
