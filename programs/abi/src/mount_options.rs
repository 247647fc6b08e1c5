//! Mount options: those of each file system, how /proc/self/mounts shows them, and their effects.

use std::ffi::{CStr, CString};
use std::{fs, mem, ptr};

use libc::{MS_REMOUNT, O_NOCTTY, O_RDWR, c_int, c_ulong};

use crate::{error, in_child, tell, tell_end};

/// Runs this part. The folder `at` exists.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and children end by
    // _exit.
    unsafe {
        libc::mkdir(AT.as_ptr(), 0o755);
        for (kind, options) in OPTIONS {
            for list in *options {
                listed(kind, list);
            }
        }
        shares();
        limits();
        flags();
        terminals();
        processes();
        unmounted();
    }
}

const AT: &CStr = c"at";

const OPTIONS: &[(&str, &[&str])] = &[
    (
        "tmpfs",
        &[
            "",
            "size=1m",
            "size=4097",
            "size=0",
            "size=1m,size=2m",
            "size=1t",
            "size=1p",
            "size=1e",
            "size=16e",
            "size=0x10k",
            "size=010k",
            "size=08",
            "size=k",
            "size=%",
            "size=",
            "size=-1",
            "size=+1",
            "size=99999999999999999999",
            "size=100%%",
            "nr_blocks=1t",
            "nr_blocks=15e",
            "nr_blocks=16%",
            "nr_inodes=1t",
            "nr_inodes=1p",
            "nr_inodes=16p",
            "size=x",
            "size",
            "size=1mm",
            "nr_blocks=16",
            "nr_inodes=99",
            "nr_inodes=1k",
            "mode=700",
            "mode=1777",
            "mode=7777",
            "mode=8",
            "uid=7,gid=8",
            "uid=-1",
            "huge=never",
            "huge=sometimes",
            "mpol=default",
            "mpol=nonsense",
            "inode64",
            "noswap=1",
            "noswap",
            "size=1m,noswap,mode=700",
            "nonsense",
            "nonsense=1",
            "ro",
            "sync,dirsync,lazytime",
            "sync,async",
            ",,size=1m,",
        ],
    ),
    ("ramfs", &["", "mode=700", "mode=8", "nonsense", "size=1"]),
    (
        "devpts",
        &[
            "",
            "uid=5,gid=6",
            "mode=620",
            "mode=9",
            "ptmxmode=666",
            "max=3",
            "max=-1",
            "newinstance",
            "nonsense",
        ],
    ),
    (
        "proc",
        &[
            "",
            "hidepid=0",
            "hidepid=1",
            "hidepid=2",
            "hidepid=3",
            "hidepid=4",
            "hidepid=invisible",
            "hidepid=nonsense",
            "hidepid",
            "gid=5",
            "gid=x",
            "subset=pid",
            "subset=all",
            "nonsense",
        ],
    ),
    ("sysfs", &["", "nonsense", "ro", "mode=700"]),
    ("nonsense", &[""]),
];

unsafe fn mount(kind: &str, flags: c_ulong, list: &str) -> c_int {
    let [kind, list] = [kind, list].map(|text| CString::new(text).expect("no zero"));
    let (kind, list) = (kind.as_ptr(), list.as_ptr().cast());
    unsafe { libc::mount(c"none".as_ptr(), AT.as_ptr(), kind, flags, list) }
}

unsafe fn unmount() -> c_int {
    unsafe { libc::umount(AT.as_ptr()) }
}

/// The options that are listed for the last mount.
fn last(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().last().unwrap_or_default();
    let first = if file.ends_with("mountinfo") { 5 } else { 2 };
    line.split(' ').skip(first).collect::<Vec<_>>().join(" ")
}

unsafe fn listed(kind: &str, list: &str) {
    unsafe {
        if mount(kind, 0, list) != 0 {
            return println!("{kind} {list:?}: {}", error());
        }
        println!("{kind} {list:?}: {}", last("/proc/self/mounts"));
        unmount();
    }
}

/// Sizes in per cent of memory.
unsafe fn shares() {
    unsafe {
        let blocks = |list: &str| {
            tell(list, mount("tmpfs", 0, list));
            let mut stat: libc::statfs = mem::zeroed();
            libc::statfs(AT.as_ptr(), &mut stat);
            unmount();
            stat.f_blocks
        };
        let whole = blocks("size=100%");
        println!("half: {}", blocks("size=50%") == whole.div_ceil(2));
        let more = (whole * 3).div_ceil(2);
        println!("more: {}", blocks("size=150%") == more);
        println!("hexadecimal: {}", blocks("size=0x64%") == whole);
        let thousands = (whole * 1024).div_ceil(100);
        println!("in thousands: {}", blocks("size=1k%") == thousands);
        println!("much: {}", blocks("size=1000000%") == whole * 10_000);
    }
}

/// The options that a remount keeps, and those that it refuses.
unsafe fn limits() {
    unsafe {
        tell("mount", mount("tmpfs", 0, "size=1m,nr_inodes=20,mode=711"));
        let _ = fs::write("at/file", [1; 200_000]);
        for list in [
            "",
            "nr_inodes=30",
            "size=2m",
            "size=100k",
            "nr_inodes=1",
            "size=2m,nr_inodes=1",
            "size=0",
            "size=1m",
            "mode=777,uid=5",
            "nonsense",
        ] {
            let result = mount("tmpfs", MS_REMOUNT, list);
            let result = if result == 0 { "ok" } else { error() };
            println!("{list:?}: {result}, {}", last("/proc/self/mounts"));
        }
        tell("unmount", unmount());
        tell("mount", mount("tmpfs", 0, ""));
        for list in ["size=0", "size=1m", "nr_inodes=0", "nr_inodes=5"] {
            tell(list, mount("tmpfs", MS_REMOUNT, list));
        }
        tell("unmount", unmount());
    }
}

/// Flags of the whole file system, and of the mount.
unsafe fn flags() {
    unsafe {
        for flags in [
            libc::MS_SYNCHRONOUS,
            libc::MS_DIRSYNC,
            libc::MS_MANDLOCK,
            1 << 25,
            libc::MS_RDONLY | libc::MS_NOSUID,
        ] {
            tell("mount", mount("tmpfs", flags, ""));
            println!("{}", last("/proc/self/mounts"));
            println!("{}", last("/proc/self/mountinfo"));
            let result = mount("tmpfs", MS_REMOUNT, "ro");
            let result = if result == 0 { "ok" } else { error() };
            println!("{result}: {}", last("/proc/self/mountinfo"));
            unmount();
        }
    }
}

/// The owner of a new terminal is set by the options.
unsafe fn terminals() {
    unsafe {
        for list in ["", "gid=5,mode=620", "uid=3,mode=604,ptmxmode=666,max=1"] {
            tell(list, mount("devpts", 0, list));
            let mut stat: libc::stat = mem::zeroed();
            libc::stat(c"at/ptmx".as_ptr(), &mut stat);
            println!("ptmx: {:o}", stat.st_mode);
            let master = libc::open(c"at/ptmx".as_ptr(), O_RDWR | O_NOCTTY);
            let mut number = 0;
            libc::ioctl(master, libc::TIOCGPTN, &mut number);
            let name = CString::new(format!("at/{number}")).expect("no zero");
            libc::stat(name.as_ptr(), &mut stat);
            println!("{:o} {} {}", stat.st_mode, stat.st_uid, stat.st_gid);
            libc::close(master);
            unmount();
        }
    }
}

/// The processes that an ordinary user sees.
unsafe fn processes() {
    unsafe {
        for list in [
            "",
            "hidepid=1",
            "hidepid=2",
            "hidepid=4",
            "hidepid=2,gid=2000",
            "subset=pid",
        ] {
            tell(list, mount("proc", 0, list));
            let status = in_child(|| {
                libc::setresgid(2000, 2000, 2000);
                libc::setresuid(1000, 1000, 1000);
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
                let count = fs::read_dir("at").map_or(0, |names| {
                    let names = names.filter_map(|name| name.ok()?.file_name().into_string().ok());
                    names.filter(|name| name.parse::<u32>().is_ok()).count()
                });
                println!("several: {}", count > 1);
                for name in [
                    c"at/1",
                    c"at/1/stat",
                    c"at/self/stat",
                    c"at/meminfo",
                    c"at/thread-self",
                ] {
                    let mut stat: libc::stat = mem::zeroed();
                    tell(
                        name.to_str().unwrap_or_default(),
                        libc::stat(name.as_ptr(), &mut stat),
                    );
                }
                let directory = libc::open(c"at/1".as_ptr(), libc::O_RDONLY);
                println!("open: {}", if directory < 0 { error() } else { "ok" });
            });
            tell_end("user", status);
            let result = mount("proc", MS_REMOUNT, "hidepid=0");
            let result = if result == 0 { "ok" } else { error() };
            println!("{result}: {}", last("/proc/self/mounts"));
            tell("unmount", unmount());
        }
    }
}

/// Watches end with the unmount of their file system.
unsafe fn unmounted() {
    unsafe {
        tell("mount", mount("tmpfs", 0, ""));
        let _ = fs::write("at/file", "");
        let instance = libc::inotify_init1(libc::IN_NONBLOCK);
        for name in [c"at", c"at/file"] {
            libc::inotify_add_watch(instance, name.as_ptr(), libc::IN_DELETE);
        }
        tell("unmount", unmount());
        let mut events = [[0u32; 4]; 16];
        let room = events.as_mut_ptr().cast();
        let count = libc::read(instance, room, size_of_val(&events));
        let mut found = events[..count.max(0) as usize / 16].to_vec();
        // The order of the inodes is not defined.
        found.sort_by_key(|event| event[0]);
        for [watch, mask, _, _] in found {
            println!("{watch}: {mask:x}");
        }
        tell("none left", libc::inotify_rm_watch(instance, 1));
        tell("again", libc::read(instance, ptr::null_mut(), 64) as i64);
    }
}
