//! Effects of mount flags: the accesses that update a time, and the links that are followed.

use std::ffi::CStr;
use std::os::unix::fs::MetadataExt;
use std::{fs, mem, ptr};

use libc::{
    MS_BIND, MS_NOATIME, MS_NODIRATIME, MS_NOSUID, MS_REMOUNT, MS_STRICTATIME, O_CREAT, O_NOFOLLOW,
    O_PATH, O_RDONLY, O_RDWR, c_int, c_ulong,
};

use crate::{tell, tell_ok};

const MS_RELATIME: c_ulong = 1 << 21;
const MS_NOSYMFOLLOW: c_ulong = 256;
const AT: &CStr = c"place";
const FILE: &CStr = c"place/file";
const LINK: &CStr = c"place/link";
const FOLDER: &CStr = c"place/folder";
const FLAGS: &[(&str, c_ulong)] = &[
    ("none", 0),
    ("relatime", MS_RELATIME),
    ("strictatime", MS_STRICTATIME),
    ("noatime", MS_NOATIME),
    ("nodiratime", MS_NODIRATIME),
    ("strictatime, nodiratime", MS_STRICTATIME | MS_NODIRATIME),
    ("noatime, strictatime", MS_NOATIME | MS_STRICTATIME),
    ("noatime, relatime", MS_NOATIME | MS_RELATIME),
    ("nosymfollow", MS_NOSYMFOLLOW),
    ("noatime, nosuid", MS_NOATIME | MS_NOSUID),
];

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::mkdir(AT.as_ptr(), 0o755);
        for &(what, flags) in FLAGS {
            println!("{what}");
            tell("mount", mount(flags));
            told();
            times();
            links();
            for &(what, flags) in &[FLAGS[0], FLAGS[1], FLAGS[2], FLAGS[3], FLAGS[6]] {
                print!("remounted {what}: ");
                mount(MS_REMOUNT | MS_BIND | flags);
                told();
            }
            libc::umount(AT.as_ptr());
        }
        among_mounts();
        let fd = libc::open(c"/proc/self/clear_refs".as_ptr(), O_RDONLY);
        tell_ok("clear_refs", fd >= 0);
        tell(
            "read",
            libc::read(fd, [0_u8; 8].as_mut_ptr().cast(), 8) as i64,
        );
    }
}

/// Mounts on mounts, which are copied, moved and unmounted with the mounts below them.
unsafe fn among_mounts() {
    let list = |what: &str| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let places = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(4)?.split_once("place"));
        let mut places: Vec<_> = places.map(|(_, rest)| format!("place{rest}")).collect();
        places.sort();
        println!("{what}: {}", places.join(" "));
    };
    let act = |from: &CStr, at: &CStr, flags: c_ulong| unsafe {
        let kind = c"tmpfs".as_ptr();
        libc::mount(from.as_ptr(), at.as_ptr(), kind, flags, ptr::null())
    };
    let make = |path: &CStr| unsafe { libc::mkdir(path.as_ptr(), 0o755) };
    let end = |path: &CStr, flags| unsafe { libc::umount2(path.as_ptr(), flags) };
    let none = c"none";
    tell("mount", act(none, AT, 0));
    act(none, AT, libc::MS_PRIVATE);
    for path in [c"place/a", c"place/b", c"place/c", c"place/d"] {
        make(path);
    }
    tell("mount", act(none, c"place/a", 0));
    make(c"place/a/x");
    tell("mount", act(none, c"place/a/x", 0));
    make(c"place/a/x/y");
    tell("mount", act(none, c"place/a/x/y", 0));
    tell("mount", act(none, c"place/b", 0));
    list("mounted");
    tell(
        "bind all",
        act(c"place/a", c"place/c", libc::MS_BIND | libc::MS_REC),
    );
    list("copied");
    tell("move", act(c"place/a", c"place/d", libc::MS_MOVE));
    list("moved");
    tell("in use", end(c"place/d", 0));
    tell("the last", end(c"place/d/x/y", 0));
    tell("lazily", end(c"place/d", libc::MNT_DETACH));
    list("taken away");
    tell(
        "bind all",
        act(c"place/c", c"place/a", libc::MS_BIND | libc::MS_REC),
    );
    tell("upon another", act(none, c"place/b", 0));
    list("again");
    tell("lazily", end(c"place/b", libc::MNT_DETACH));
    list("one of two");
    tell("lazily", end(AT, libc::MNT_DETACH));
    list("none");
}

unsafe fn mount(flags: c_ulong) -> c_int {
    let (none, kind) = (c"none".as_ptr(), c"tmpfs".as_ptr());
    unsafe { libc::mount(none, AT.as_ptr(), kind, flags, ptr::null()) }
}

/// The options that are listed for the mount.
unsafe fn told() {
    unsafe {
        let mut stat: libc::statfs = mem::zeroed();
        libc::statfs(AT.as_ptr(), &mut stat);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let line = mounts.lines().last().unwrap_or_default();
        let options = line.split(' ').nth(5).unwrap_or_default();
        println!("{:#x} {options}", stat.f_flags as u64);
    }
}

/// When a file was last read: long ago, in the future, or now.
fn accessed(path: &CStr) -> &'static str {
    let time = fs::symlink_metadata(path.to_str().unwrap()).map(|meta| meta.atime());
    match time.unwrap_or(0) - now() {
        1000.. => "later",
        -1000..1000 => "now",
        _ => "long ago",
    }
}

fn now() -> i64 {
    // SAFETY: the call writes nowhere.
    unsafe { libc::time(ptr::null_mut()) }
}

/// The accesses that update an access time long ago, or one in the future.
unsafe fn times() {
    unsafe {
        libc::close(libc::open(FILE.as_ptr(), O_RDWR | O_CREAT, 0o644));
        fs::write(FILE.to_str().unwrap(), [1; 5000]).unwrap();
        libc::symlink(c"file".as_ptr(), LINK.as_ptr());
        libc::mkdir(FOLDER.as_ptr(), 0o755);
        for (what, seconds) in [("long ago", 1000), ("later", now() + 5000)] {
            let set = |path: &CStr| {
                // Modified long ago; only ctime shows a recent change.
                let times = [seconds, 1000].map(|tv_sec| libc::timespec { tv_sec, tv_nsec: 0 });
                let flags = libc::AT_SYMLINK_NOFOLLOW;
                libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), flags);
            };
            let read = |flags| {
                set(FILE);
                let fd = libc::open(FILE.as_ptr(), O_RDONLY | flags);
                libc::read(fd, [0_u8; 8].as_mut_ptr().cast(), 8);
                libc::close(fd);
                accessed(FILE)
            };
            println!(
                "{what}: read {}, with O_NOATIME {}",
                read(0),
                read(libc::O_NOATIME)
            );
            set(FILE);
            let fd = libc::open(FILE.as_ptr(), O_RDONLY);
            let flags = libc::MAP_PRIVATE;
            let place = libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, flags, fd, 0);
            libc::munmap(place, 4096);
            libc::close(fd);
            set(LINK);
            libc::readlink(LINK.as_ptr(), [0_u8; 8].as_mut_ptr().cast(), 8);
            let link = accessed(LINK);
            set(FOLDER);
            let count = fs::read_dir(FOLDER.to_str().unwrap()).map(Iterator::count);
            let folder = accessed(FOLDER);
            println!(
                "mapped {}, link {link}, folder {folder}, {count:?}",
                accessed(FILE)
            );
        }
    }
}

/// The paths through a symbolic link that work.
unsafe fn links() {
    unsafe {
        let open = |what: &str, path: &CStr, flags| {
            let fd = libc::open(path.as_ptr(), flags);
            tell_ok(what, fd >= 0);
            libc::close(fd);
        };
        open("the link", LINK, O_RDONLY);
        open("itself", LINK, O_PATH | O_NOFOLLOW);
        open("not followed", LINK, O_RDONLY | O_NOFOLLOW);
        libc::symlink(c"folder".as_ptr(), c"place/way".as_ptr());
        open("on the way", c"place/way/none", O_RDONLY);
        let mut stat = mem::zeroed();
        tell("stat", libc::stat(LINK.as_ptr(), &mut stat));
        tell("lstat", libc::lstat(LINK.as_ptr(), &mut stat));
        let target = libc::readlink(LINK.as_ptr(), [0_u8; 8].as_mut_ptr().cast(), 8);
        tell("readlink", target as i64);
        // A link on another mount that leads here is followed.
        libc::unlink(c"outside".as_ptr());
        libc::symlink(c"place/file".as_ptr(), c"outside".as_ptr());
        open("from outside", c"outside", O_RDONLY);
        tell("unlink", libc::unlink(LINK.as_ptr()));
        tell("unlink", libc::unlink(c"place/way".as_ptr()));
    }
}
