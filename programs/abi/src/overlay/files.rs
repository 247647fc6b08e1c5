//! The effects of a change on a lower file, and on files that are open.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use libc::{MAP_SHARED, PROT_READ, c_int};

use super::{
    USUAL, attribute, attributes, done, fresh, mount, number, set_attribute, show, text, unmount,
};
use crate::{error, tell};

/// Runs this part.
pub fn run() {
    changes();
    open_files();
    big();
    own_attributes();
    watched();
    locked();
    full();
}

fn lower(path: &str) {
    fs::write(path, path).expect("made");
    let name = text(path);
    let times = [time(1_000_000), time(2_000_000)];
    // SAFETY: the pointers are to a NUL-terminated string, and to two times.
    unsafe {
        libc::chmod(name.as_ptr(), 0o4754);
        libc::utimensat(libc::AT_FDCWD, name.as_ptr(), times.as_ptr(), 0);
    }
    set_attribute(path, "user.note", "one");
    set_attribute(path, "trusted.note", "two");
    set_attribute(path, "security.note", "three");
}

fn time(seconds: i64) -> libc::timespec {
    libc::timespec {
        tv_sec: seconds as _,
        tv_nsec: 5,
    }
}

fn about(path: &str) {
    let about = fs::symlink_metadata(path).expect("it is there");
    let notes = ["user.note", "trusted.note", "security.note"].map(|name| attribute(path, name));
    println!(
        "{path}: {:o} {}:{} {} {} {} {notes:?}",
        about.mode(),
        about.uid(),
        about.gid(),
        about.len(),
        if about.mtime() == 2_000_000 {
            "old"
        } else {
            "new"
        },
        if about.atime() == 1_000_000 {
            "old"
        } else {
            "new"
        },
    );
}

/// Each kind of change copies a file up, with all its attributes.
fn changes() {
    println!("== changes");
    fresh();
    fs::create_dir("l/d").expect("made");
    lower("l/d/dir");
    let all = [
        "read", "write", "rdwr", "trunc", "append", "creat", "chmod", "chown", "times", "truncate",
        "set", "remove", "link", "nothing", "path",
    ];
    for name in all {
        lower(&format!("l/{name}"));
    }
    if !mount(USUAL) {
        return;
    }
    let open = |name: &str, flags: c_int| {
        let path = text(&format!("m/{name}"));
        // SAFETY: the pointer is to a NUL-terminated string.
        let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
        println!("{name}: {}", if file < 0 { error() } else { "open" });
        // SAFETY: this function owns the descriptor.
        unsafe { libc::close(file) };
    };
    open("read", libc::O_RDONLY);
    open("write", libc::O_WRONLY);
    open("rdwr", libc::O_RDWR);
    open("trunc", libc::O_RDONLY | libc::O_TRUNC);
    open("append", libc::O_WRONLY | libc::O_APPEND);
    open("creat", libc::O_RDONLY | libc::O_CREAT);
    open("path", libc::O_PATH);
    open("nothing", libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL);
    // SAFETY: the pointers are to NUL-terminated strings, and to two times.
    unsafe {
        tell("chmod", libc::chmod(c"m/chmod".as_ptr(), 0o600));
        tell("chown", libc::chown(c"m/chown".as_ptr(), 5, 6));
        let times = [time(1), time(2)];
        let path = c"m/times".as_ptr();
        tell(
            "times",
            libc::utimensat(libc::AT_FDCWD, path, times.as_ptr(), 0),
        );
        tell("truncate", libc::truncate(c"m/truncate".as_ptr(), 3));
        tell("too long", libc::truncate(c"m/truncate".as_ptr(), -1));
        tell(
            "remove",
            libc::removexattr(c"m/remove".as_ptr(), c"user.note".as_ptr()),
        );
        tell(
            "absent",
            libc::removexattr(c"m/nothing".as_ptr(), c"user.absent".as_ptr()),
        );
    }
    tell("set", set_attribute("m/set", "user.note", "changed"));
    done("link", fs::hard_link("m/link", "m/linked"));
    tell("folder", set_attribute("m/d", "user.note", "on a folder"));
    for name in all {
        about(&format!("m/{name}"));
    }
    show("u");
    about("u/write");
    println!("{:?}", attributes("u/write"));
    println!("{:?}", attributes("m/write"));
    unmount("m", 0);
}

fn content(file: &File) -> String {
    let mut room = [0; 64];
    let len = file.read_at(&mut room, 0).unwrap_or(0);
    String::from_utf8_lossy(&room[..len]).into_owned()
}

/// A file that was opened before its copy-up.
fn open_files() {
    println!("== open files");
    fresh();
    fs::write("l/file", "lower").expect("made");
    fs::write("l/gone", "lower").expect("made");
    fs::create_dir("l/d").expect("made");
    fs::write("l/d/in", "").expect("made");
    if !mount(USUAL) {
        return;
    }
    let (file, gone) = (
        File::open("m/file").expect("open"),
        File::open("m/gone").expect("open"),
    );
    // SAFETY: the file has one page, which stays mapped.
    let mapped = unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            PROT_READ,
            MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        CStr::from_ptr(page.cast())
    };
    println!("{} {}", content(&file), mapped.to_string_lossy());
    let maps = fs::read_to_string("/proc/self/maps").expect("read");
    println!("{}", maps.lines().any(|line| line.ends_with("/m/file")));
    done("write", fs::write("m/file", "upper"));
    println!("{} {}", content(&file), mapped.to_string_lossy());
    println!("{:?}", fs::read_to_string("l/file"));
    println!("{:?}", file.metadata().map(|about| about.len()));
    done("remove", fs::remove_file("m/gone"));
    println!(
        "{} {:?}",
        content(&gone),
        gone.metadata().map(|about| about.nlink())
    );
    let mut both = OpenOptions::new()
        .read(true)
        .append(true)
        .open("m/file")
        .expect("open");
    done("append", both.write_all(b" and more"));
    println!("{}", content(&file));
    done("seek", both.seek(SeekFrom::End(-4)));
    let mut end = String::new();
    done("read", both.read_to_string(&mut end));
    println!("{end}");
    done("sync", both.sync_all());
    // A folder that is open while it is copied up.
    let folder = fs::read_dir("m/d").expect("open");
    done("make", fs::write("m/d/new", ""));
    println!("{}", folder.count() >= 1);
    println!("{}", fs::read_dir("m/d").expect("open").count());
    unmount("m", libc::MNT_DETACH);
}

/// A large file with holes.
fn big() {
    println!("== big");
    fresh();
    let file = File::create("l/big").expect("made");
    let mut page = [0u8; 4096];
    for at in (0..2048).filter(|at| at % 3 != 1) {
        page.fill(at as u8);
        file.write_all_at(&page, at * 4096).expect("written");
    }
    file.set_len((2048 << 12) + 77).expect("set");
    let before = fs::read("l/big").expect("read");
    if !mount(USUAL) {
        return;
    }
    done("append", OpenOptions::new().append(true).open("m/big"));
    println!("{}", fs::read("m/big").expect("read") == before);
    let blocks = ["l/big", "u/big"].map(|path| fs::metadata(path).expect("there").blocks());
    println!("{}", blocks[0] == blocks[1]);
    unmount("m", 0);
}

/// Attributes of overlayfs itself.
fn own_attributes() {
    println!("== own attributes");
    fresh();
    fs::write("l/file", "").expect("made");
    fs::write("l/other", "").expect("made");
    tell(
        "below",
        set_attribute("l/file", "trusted.overlay.secret", "1"),
    );
    tell(
        "below",
        set_attribute("l/file", "trusted.overlay.overlay.escaped", "2"),
    );
    for (options, family) in [("", "trusted"), (",userxattr", "user")] {
        _ = fs::remove_dir_all("u");
        fs::create_dir("u").expect("made");
        if !mount(&format!("{USUAL}{options}")) {
            continue;
        }
        println!("{:?}", attributes("m/file"));
        for name in ["secret", "escaped", "overlay.escaped", "opaque"] {
            let name = format!("{family}.overlay.{name}");
            println!("{name}: {}", attribute("m/file", &name));
            tell("set", set_attribute("m/other", &name, "own"));
            println!("{name}: {}", attribute("m/other", &name));
        }
        let long = format!("{family}.overlay.{}", "n".repeat(240));
        tell("long", set_attribute("m/other", &long, "own"));
        println!("{:?}", attributes("m/other"));
        println!("{:?}", attributes("u/other"));
        unmount("m", 0);
    }
}

/// Watches of a file that is copied up.
fn watched() {
    println!("== watched");
    fresh();
    fs::write("l/file", "lower").expect("made");
    if !mount(USUAL) {
        return;
    }
    // SAFETY: the pointers are to NUL-terminated strings, and to the buffer.
    unsafe {
        let watch = libc::inotify_init1(libc::IN_NONBLOCK);
        let mask = libc::IN_MODIFY | libc::IN_ATTRIB | libc::IN_CLOSE_WRITE | libc::IN_DELETE_SELF;
        tell(
            "watch",
            libc::inotify_add_watch(watch, c"m/file".as_ptr(), mask),
        );
        done("write", fs::write("m/file", "upper"));
        tell("chmod", libc::chmod(c"m/file".as_ptr(), 0o600));
        let mut room = [0u32; 256];
        let len = libc::read(watch, room.as_mut_ptr().cast(), 1024);
        for at in (0..len.max(0) as usize / 4).step_by(4) {
            println!("event {:x}", room[at + 1]);
        }
        libc::close(watch);
    }
    unmount("m", 0);
}

/// Locks belong to the overlay, not to the layers.
fn locked() {
    println!("== locked");
    fresh();
    fs::write("l/file", "lower").expect("made");
    fs::write("l/below", "kept").expect("made");
    if !mount(USUAL) {
        return;
    }
    let before = number("m/file");
    let files = ["m/file", "m/file", "l/file"].map(|path| File::open(path).expect("open"));
    for file in &files {
        // SAFETY: no pointer is passed.
        tell("lock", unsafe {
            libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB)
        });
    }
    done("write", fs::write("m/file", "upper"));
    let last = File::open("m/file").expect("open");
    // SAFETY: no pointer is passed.
    tell("lock", unsafe {
        libc::flock(last.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB)
    });
    println!("{}", number("m/file") == before);
    drop((files, last));
    // SAFETY: no pointer is passed.
    unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        let file = File::open("m/file").expect("open");
        tell(
            "lease",
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK),
        );
        let flags = libc::O_WRONLY | libc::O_NONBLOCK;
        tell("open", libc::open(c"m/file".as_ptr(), flags));
        let below = File::open("m/below").expect("open");
        tell(
            "lease",
            libc::fcntl(below.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK),
        );
        let flags = flags | libc::O_TRUNC;
        tell("truncating", libc::open(c"m/below".as_ptr(), flags));
        println!("{:?}", fs::read_to_string("m/below"));
    }
    unmount("m", 0);
}

/// A copy-up without space in the upper layer.
fn full() {
    println!("== full");
    fresh();
    // SAFETY: every pointer is to a NUL-terminated string.
    unsafe {
        let options = c"size=256k,nr_inodes=40".as_ptr().cast();
        let mounted = libc::mount(c"".as_ptr(), c"l2".as_ptr(), c"tmpfs".as_ptr(), 0, options);
        tell("tmpfs", mounted);
    }
    fs::create_dir("l2/u").expect("made");
    fs::create_dir("l2/w").expect("made");
    fs::write("l/big", vec![7; 1 << 20]).expect("made");
    fs::write("l/small", "small").expect("made");
    for at in 0..60 {
        fs::write(format!("l/n{at}"), "").expect("made");
    }
    if !mount("lowerdir=l,upperdir=l2/u,workdir=l2/w") {
        return;
    }
    done("write", OpenOptions::new().append(true).open("m/big"));
    println!("{}", fs::read("m/big").expect("read").len());
    show("l2");
    done("write", fs::write("m/small", "changed"));
    let removed = (0..60).take_while(|at| fs::remove_file(format!("m/n{at}")).is_ok());
    println!("{}", removed.count() < 60);
    done("remove", fs::remove_file("m/n59"));
    println!("{}", fs::symlink_metadata("m/n59").is_ok());
    println!("{}", fs::read_dir("l2/w/work").expect("open").count());
    unmount("m", 0);
    unmount("l2", 0);
}
