//! Records of ended processes (acct(2)).

use std::ffi::CStr;
use std::fs;
use std::io;
use std::ptr;

use libc::{O_CREAT, O_WRONLY, c_char, c_int, c_ulong};

use crate::{in_child, tell, tell_ok};

const FILE: &str = "/tmp/accounts";
const LIMITS: &str = "/proc/sys/kernel/acct";
const USER: u32 = 1000;

/// Runs this part.
pub fn run() {
    // SAFETY: every string is NUL-terminated, and children end by _exit.
    unsafe {
        println!(
            "{}",
            fs::read_to_string(LIMITS).unwrap_or_default().trim_end()
        );
        refused();
        records();
        suspended();
        unmounted();
        left_lazily();
        remounted();
    }
}

unsafe fn acct(path: &str) -> c_int {
    let path = format!("{path}\0");
    unsafe { libc::syscall(libc::SYS_acct, path.as_ptr()) as c_int }
}

unsafe fn off() -> c_int {
    unsafe { libc::syscall(libc::SYS_acct, ptr::null::<c_char>()) as c_int }
}

unsafe fn refused() {
    unsafe {
        tell("none was on", off());
        for path in [
            "/tmp/none",
            "/tmp",
            "/dev/null",
            "",
            "/proc/self/comm",
            "/tmp/none/x",
        ] {
            tell(path, acct(path));
        }
        tell("nowhere", libc::syscall(libc::SYS_acct, 1usize));
        _ = fs::write(FILE, "");
        in_child(|| {
            libc::setuid(USER);
            tell("a user", acct(FILE));
            tell("a user, off", off());
        });
    }
}

struct Record<'a>(&'a [u8]);

impl Record<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes([self.0[at], self.0[at + 1]])
    }

    fn name(&self) -> String {
        let name = &self.0[48..64];
        let len = name.iter().position(|&byte| byte == 0).unwrap_or(16);
        String::from_utf8_lossy(&name[..len]).into_owned()
    }

    fn show(&self) {
        let own = std::process::id();
        println!(
            "flags {:#x} version {} terminal {} status {:#x} of {} {} by {} named {}",
            self.0[0],
            self.0[1],
            self.u16(2),
            self.u32(4),
            self.u32(8),
            self.u32(12),
            if self.u32(20) == own {
                "this one"
            } else {
                "another"
            },
            self.name(),
        );
        let now = unsafe { libc::time(ptr::null_mut()) } as u32;
        let (began, lasted) = (self.u32(24), f32::from_bits(self.u32(28)));
        println!(
            "  began {} lasted {} has memory {} faults {} {:?}",
            (now - 1000..=now).contains(&began),
            (0.0..100_000.0).contains(&lasted),
            self.u16(36) != 0,
            self.u16(42) != 0,
            [38, 40, 44, 46].map(|at| self.u16(at)),
        );
    }
}

/// The records of this process and its children in a file: other processes of the machine end too.
fn records_in(file: &str) -> Vec<u8> {
    let own = std::process::id();
    let bytes = fs::read(file).unwrap_or_default();
    let is_own = |record: &&[u8]| [16, 20].map(|at| Record(record).u32(at)).contains(&own);
    let records = bytes.chunks_exact(64).filter(is_own);
    records.flatten().copied().collect()
}

/// Prints the records since the last call, and empties the file.
fn show(what: &str) {
    let bytes = records_in(FILE);
    println!("{what}: {} bytes", bytes.len());
    for record in bytes.chunks_exact(64) {
        Record(record).show();
    }
    _ = fs::OpenOptions::new().write(true).truncate(true).open(FILE);
}

fn named(name: &str) {
    let name = format!("{name}\0");
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

unsafe fn records() {
    unsafe {
        tell("on", acct(FILE));
        in_child(|| named("exits"));
        show("ended");
        in_child(|| {
            named("fails");
            libc::_exit(3);
        });
        in_child(|| {
            named("killed");
            libc::kill(libc::getpid(), libc::SIGKILL);
        });
        in_child(|| {
            named("a-user");
            libc::setgid(7);
            libc::setuid(USER);
        });
        in_child(|| {
            let none = [ptr::null()];
            let arguments = [c"wait".as_ptr(), c"none".as_ptr(), ptr::null()];
            libc::execve(
                c"/proc/self/exe".as_ptr(),
                arguments.as_ptr(),
                none.as_ptr(),
            );
        });
        in_child(|| {
            named("limited");
            let limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
        });
        in_child(|| {
            named("threads");
            // The record has the name of the thread that ends last, which may be either.
            let thread = std::thread::spawn(|| named("threads"));
            _ = thread.join();
        });
        show("more");
        tell("off", off());
        show("off");
        in_child(|| named("unseen"));
        show("without");
        // Accounting to one file, then to another.
        _ = fs::write("/tmp/others", "");
        tell("on", acct(FILE));
        tell("to another", acct("/tmp/others"));
        show("the first");
        tell("off", off());
        println!("the other: {}", records_in("/tmp/others").len());
    }
}

/// No record is written while the file system has too little free space.
unsafe fn suspended() {
    unsafe {
        let set = |text: &str| {
            let done = fs::write(LIMITS, text);
            let now = fs::read_to_string(LIMITS).unwrap_or_default();
            println!(
                "{text:?}: {:?} {:?}",
                done.map_err(|error: io::Error| error.raw_os_error()),
                now.trim_end()
            );
        };
        set("100 100 0");
        tell("on", acct(FILE));
        in_child(|| named("unseen"));
        show("too little room");
        set("0 0 0");
        in_child(|| named("seen"));
        show("room");
        set("4 2 30");
        set("x");
        set("5");
        set("4");
        tell("off", off());
        show("off");
    }
}

/// A file system with the file of records can be unmounted.
unsafe fn unmounted() {
    unsafe {
        _ = fs::create_dir("/tmp/there");
        let there = c"/tmp/there";
        let mounted = libc::mount(
            c"none".as_ptr(),
            there.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            ptr::null(),
        );
        tell("mount", mounted);
        _ = fs::write("/tmp/there/file", "");
        tell("on", acct("/tmp/there/file"));
        in_child(|| ());
        let len = || records_in("/tmp/there/file").len();
        println!("{}", len());
        let held = libc::open(there.as_ptr(), libc::O_RDONLY);
        tell("in use", libc::umount2(there.as_ptr(), 0));
        in_child(|| ());
        println!("goes on: {}", len());
        libc::close(held);
        tell("expires", libc::umount2(there.as_ptr(), libc::MNT_EXPIRE));
        in_child(|| ());
        println!("goes on: {}", len());
        let remount = |flags| {
            let (none, kind) = (c"none".as_ptr(), c"tmpfs".as_ptr());
            libc::mount(none, there.as_ptr(), kind, flags, ptr::null())
        };
        tell("read only", remount(libc::MS_REMOUNT | libc::MS_RDONLY));
        in_child(|| ());
        println!("no more: {}", len());
        tell("to be written", remount(libc::MS_REMOUNT));
        in_child(|| ());
        println!("no more: {}", len());
        tell("on again", acct("/tmp/there/file"));
        tell("unmount", libc::umount2(there.as_ptr(), 0));
        in_child(|| ());
        tell("off", off());
        let memory = libc::memfd_create(c"records".as_ptr(), 0);
        tell("a memfd", acct(&format!("/proc/self/fd/{memory}")));
        _ = fs::remove_dir("/tmp/there");
        _ = fs::remove_file(FILE);
        _ = fs::remove_file("/tmp/others");
    }
}

const PLACE: &CStr = c"/tmp/place";
const OTHER: &CStr = c"/tmp/other";
const RECORDS: &str = "/tmp/place/file";

/// Mounts a file system of one megabyte in two places.
unsafe fn mount_twice() {
    unsafe {
        let (source, kind, size) = (c"none".as_ptr(), c"tmpfs".as_ptr(), c"size=1m".as_ptr());
        for place in [PLACE, OTHER] {
            libc::mkdir(place.as_ptr(), 0o755);
        }
        libc::mount(source, PLACE.as_ptr(), kind, 0, size.cast());
        let bind = libc::MS_BIND;
        libc::mount(
            PLACE.as_ptr(),
            OTHER.as_ptr(),
            ptr::null(),
            bind,
            ptr::null(),
        );
        _ = fs::write(RECORDS, "");
    }
}

unsafe fn unmount_both() {
    unsafe {
        for place in [PLACE, OTHER] {
            libc::umount2(place.as_ptr(), libc::MNT_DETACH);
            libc::rmdir(place.as_ptr());
        }
    }
}

fn len_there() -> usize {
    records_in("/tmp/other/file").len()
}

/// Accounting continues until nobody uses the mount at which its file was found.
unsafe fn left_lazily() {
    unsafe {
        mount_twice();
        for ends_with_it in [false, true] {
            tell("on", acct(RECORDS));
            let held = libc::open(PLACE.as_ptr(), libc::O_PATH);
            tell("lazily", libc::umount2(PLACE.as_ptr(), libc::MNT_DETACH));
            println!("goes on: {}", len_there());
            in_child(|| ());
            println!("goes on: {}", len_there());
            if ends_with_it {
                libc::close(held);
                println!("ended: {}", len_there());
                in_child(|| ());
                println!("no more: {}", len_there());
            } else {
                tell("off", off());
                println!("off: {}", len_there());
                libc::close(held);
                let (none, bind) = (ptr::null(), libc::MS_BIND);
                libc::mount(OTHER.as_ptr(), PLACE.as_ptr(), none, bind, ptr::null());
            }
        }
        tell("off", off());
        unmount_both();
    }
}

/// A remount that fails changes nothing, except that accounting stops if the file system was to
/// become read-only.
unsafe fn remounted() {
    unsafe {
        mount_twice();
        let told = || {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            let mut of_both = mounts.lines().filter(|line| line.contains(" /tmp/"));
            let [first, second] = [(); 2].map(|()| of_both.next().unwrap_or_default().to_owned());
            println!("  {first}\n  {second}");
            let before = len_there();
            in_child(|| ());
            println!("  of {before} bytes, {} more", len_there() - before);
        };
        let remount = |what: &str, flags, options: &CStr| {
            let flags = libc::MS_REMOUNT | flags;
            let data = options.as_ptr().cast();
            let done = libc::mount(ptr::null(), OTHER.as_ptr(), ptr::null(), flags, data);
            tell(what, done);
            told();
        };
        const RDONLY: c_ulong = libc::MS_RDONLY;
        tell("on", acct(RECORDS));
        remount("no option", RDONLY, c"nonsense=1");
        remount("no number", 0, c"size=0x");
        let writer = libc::open(c"/tmp/place/other".as_ptr(), O_WRONLY | O_CREAT, 0o600);
        remount("while one writes", RDONLY, c"size=2m");
        tell("on", acct(RECORDS));
        remount("the same in words", 0, c"ro,size=2m");
        tell("on", acct(RECORDS));
        remount("to be written", RDONLY, c"rw,size=3m");
        tell(
            "to be written",
            libc::write(writer, c"x".as_ptr().cast(), 1) as i64,
        );
        remount("as it was", 0, c"");
        // A writer by a mount that has no path any more.
        tell("lazily", libc::umount2(PLACE.as_ptr(), libc::MNT_DETACH));
        remount("while one still writes", RDONLY, c"size=4m");
        libc::close(writer);
        remount("too small", RDONLY, c"nr_inodes=1");
        let written = libc::open(c"/tmp/other/other".as_ptr(), O_WRONLY);
        tell_ok("written", written >= 0);
        libc::close(written);
        tell("on", acct("/tmp/other/file"));
        remount("by none", RDONLY, c"size=4m");
        tell("on", acct("/tmp/other/file"));
        unmount_both();
    }
}
