//! Gaining and losing privileges: edge cases of capability sets, securebits, IDs that are set to
//! their present values, set-ID bits of files that are written or change owner, and O_CREAT on
//! existing files in a sticky folder.

use std::ffi::CStr;
use std::{fs, mem, ptr};

use libc::{O_CREAT, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, S_IFIFO, S_IFREG, S_IFSOCK};

use crate::{in_child, tell, tell_end};

const USER: u32 = 1000;
const OTHER: u32 = 1001;
const SAME: u32 = u32::MAX;
/// Capabilities used here.
const NET_RAW: u32 = 13;
const SETPCAP: u32 = 8;
const SETUID: u32 = 7;
const CHOWN: u32 = 0;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value, and children end.
    unsafe {
        tell_end("sets", in_child(|| sets()));
        tell_end("no set", in_child(|| no_set()));
        secure_bits();
        same_ids();
        set_ids();
        sticky();
    }
}

/// `abi privileges exec`: prints its privileges.
pub fn after_exec() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| {
        let names = ["Uid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
        names.iter().any(|name| line.starts_with(name))
    });
    lines.for_each(|line| println!("    {}", line.replace('\t', " ")));
    // SAFETY: no pointer is passed.
    unsafe { bits("    bits") };
}

unsafe fn bits(what: &str) {
    unsafe { tell(what, libc::prctl(libc::PR_GET_SECUREBITS)) };
}

unsafe fn capget() -> [u32; 6] {
    let (header, mut sets) = ([0x2008_0522u32, 0], [0u32; 6]);
    unsafe { libc::syscall(libc::SYS_capget, &header, &mut sets) };
    sets
}

unsafe fn capset(sets: [u32; 6]) -> i64 {
    let header = [0x2008_0522u32, 0];
    unsafe { libc::syscall(libc::SYS_capset, &header, &sets) as i64 }
}

/// Keeps only these capabilities.
unsafe fn hold(numbers: &[u32]) {
    let set = numbers.iter().fold(0, |set, number| set | 1 << number);
    unsafe {
        let inheritable = capget()[2] & set;
        capset([set, set, inheritable, 0, 0, 0]);
    }
}

unsafe fn shown() {
    println!("    {:x?}", unsafe { capget() });
}

/// Edge cases of capability sets.
unsafe fn sets() {
    unsafe {
        let full = capget();
        let raw = 1 << NET_RAW;
        tell(" every bit", capset([u32::MAX; 6]));
        shown();
        tell(
            " none inheritable",
            capset([full[0], full[1], 0, full[3], full[4], 0]),
        );
        tell(
            " bounded",
            libc::prctl(libc::PR_CAPBSET_DROP, NET_RAW, 0, 0, 0),
        );
        tell(
            " again",
            libc::prctl(libc::PR_CAPBSET_DROP, NET_RAW, 0, 0, 0),
        );
        tell(" no such", libc::prctl(libc::PR_CAPBSET_DROP, 41, 0, 0, 0));
        tell(
            " no such",
            libc::prctl(libc::PR_CAPBSET_DROP, u64::MAX, 0, 0, 0),
        );
        tell(
            " inherit it",
            capset([full[0], full[1], raw, full[3], full[4], 0]),
        );
        let other = 1 << SETUID;
        tell(
            " inherit another",
            capset([full[0], full[1], other, full[3], full[4], 0]),
        );
        tell_end(
            " without SETPCAP",
            in_child(|| {
                let rest = full[1] & !(1 << SETPCAP);
                tell(
                    "  dropped",
                    capset([rest, rest, other, full[3], full[4], 0]),
                );
                tell(
                    "  inherit it",
                    capset([rest, rest, raw, full[3], full[4], 0]),
                );
                tell(
                    "  inherit its own",
                    capset([rest, rest, other | 1, full[3], full[4], 0]),
                );
                let lost = 1 << SETPCAP;
                tell(
                    "  inherit the lost",
                    capset([rest, rest, lost, full[3], full[4], 0]),
                );
                tell("  bounded", libc::prctl(libc::PR_CAPBSET_DROP, 0, 0, 0, 0));
                tell("  no such", libc::prctl(libc::PR_CAPBSET_DROP, 41, 0, 0, 0));
                shown();
            }),
        );
        tell_end(
            " SETPCAP alone",
            in_child(|| {
                let own = 1 << SETPCAP;
                tell("  dropped", capset([own, own, 0, 0, 0, 0]));
                tell("  inherit another", capset([own, own, 1, 0, 0, 0]));
                tell(
                    "  inherit what is bounded",
                    capset([own, own, raw, 0, 0, 0]),
                );
                tell("  permitted", capset([own, own | 1, 1, 0, 0, 0]));
                tell("  in force", capset([own | 1, own, 1, 0, 0, 0]));
                shown();
            }),
        );
        let ambient = |operation: u64, number: u64, rest: u64| {
            libc::prctl(libc::PR_CAP_AMBIENT, operation, number, rest, 0)
        };
        for operation in [0, 1, 2, 3, 4, 5, u64::MAX, 1 << 32 | 2] {
            for number in [0, 7, 41, u64::MAX, 1 << 32] {
                tell(
                    &format!(" ambient {operation:x} {number:x}"),
                    ambient(operation, number, 0),
                );
            }
            tell(
                &format!(" ambient {operation:x} more"),
                ambient(operation, 7, 1),
            );
        }
    }
}

/// Invalid addresses of sets.
unsafe fn no_set() {
    unsafe {
        let none = ptr::null_mut::<u32>();
        for version in [0x1998_0330u32, 0x2007_1026, 0x2008_0522, 0] {
            for pid in [0u32, 1, u32::MAX] {
                let mut header = [version, pid];
                let got = libc::syscall(libc::SYS_capget, header.as_mut_ptr(), none);
                tell(&format!(" get {version:x} of {pid:x}"), got as i64);
                println!("  {:x?}", header);
                let set = libc::syscall(libc::SYS_capset, header.as_mut_ptr(), none);
                tell(&format!(" set {version:x} of {pid:x}"), set as i64);
            }
        }
        tell(
            " no header",
            libc::syscall(libc::SYS_capget, none, none) as i64,
        );
    }
}

/// Executes this program as `abi privileges exec`.
unsafe fn execute() {
    unsafe {
        let words = [c"abi", c"privileges", c"exec"].map(CStr::as_ptr);
        let words = [words[0], words[1], words[2], ptr::null()];
        libc::execv(c"/proc/self/exe".as_ptr(), words.as_ptr());
    }
}

unsafe fn secure_bits() {
    unsafe {
        let set = |bits: u64| libc::prctl(libc::PR_SET_SECUREBITS, bits);
        println!("securebits");
        for bit in 0..9 {
            tell_end(
                &format!(" {bit}"),
                in_child(|| {
                    tell("  set", set(1 << bit));
                    tell("  locked", set(3 << bit));
                    tell("  cleared", set(0));
                    bits("  now");
                    tell("  others", set(0x55 | 3 << bit));
                    bits("  now");
                    tell("  keep", libc::prctl(libc::PR_SET_KEEPCAPS, 1));
                    tell("  keep not", libc::prctl(libc::PR_SET_KEEPCAPS, 0));
                    bits("  now");
                }),
            );
        }
        tell(" beyond", set(1 << 32));
        for (what, secure) in [("none", 0), ("noroot", 1), ("fixed", 4), ("both", 5)] {
            println!(" {what}");
            tell_end(
                "  root executes",
                in_child(|| {
                    set(secure);
                    execute();
                }),
            );
            tell_end(
                "  a set-user root executes",
                in_child(|| {
                    set(secure);
                    libc::setresuid(USER, 0, 0);
                    println!("    {:x?}", capget());
                    execute();
                }),
            );
            tell_end(
                "  a user",
                in_child(|| {
                    set(secure);
                    libc::setresuid(USER, USER, USER);
                    println!("    {:x?}", capget());
                    execute();
                }),
            );
            tell_end(
                "  a user that keeps",
                in_child(|| {
                    set(secure);
                    libc::prctl(libc::PR_SET_KEEPCAPS, 1);
                    libc::setresuid(USER, USER, USER);
                    println!("    {:x?}", capget());
                    bits("    bits");
                    execute();
                }),
            );
            tell_end(
                "  for a while",
                in_child(|| {
                    set(secure);
                    libc::setresuid(SAME, USER, SAME);
                    println!("    {:x?}", capget());
                    libc::setresuid(SAME, 0, SAME);
                    println!("    {:x?}", capget());
                    libc::syscall(libc::SYS_setfsuid, USER);
                    println!("    {:x?}", capget());
                    libc::syscall(libc::SYS_setfsuid, 0);
                    println!("    {:x?}", capget());
                }),
            );
        }
        tell_end(
            " ambient",
            in_child(|| {
                let raise = |number: u32| libc::prctl(libc::PR_CAP_AMBIENT, 2, number, 0, 0);
                tell("  not inheritable", raise(NET_RAW));
                let full = capget();
                let raw = 1 << NET_RAW;
                capset([full[0], full[1], raw, full[3], full[4], 0]);
                tell("  raised", raise(NET_RAW));
                tell("  no more", set(64));
                tell("  raised", raise(NET_RAW));
                libc::prctl(libc::PR_SET_KEEPCAPS, 1);
                libc::setresuid(USER, USER, USER);
                execute();
            }),
        );
        tell_end(
            " without SETPCAP",
            in_child(|| {
                hold(&[CHOWN]);
                tell("  the same", set(0));
                tell("  another", set(1));
            }),
        );
    }
}

/// IDs that are set to their present values, while the filesystem ID differs.
unsafe fn same_ids() {
    unsafe {
        println!("the same IDs");
        let three =
            |number: i64| move |a: u32, b: u32, c: u32| libc::syscall(number as _, a, b, c) as i64;
        let for_files = |number: i64| libc::syscall(number as _, SAME) as i64;
        for (name, set, file) in [
            ("users", libc::SYS_setresuid, libc::SYS_setfsuid),
            ("groups", libc::SYS_setresgid, libc::SYS_setfsgid),
        ] {
            let set = three(set);
            for [a, b, c] in [
                [SAME, SAME, SAME],
                [0, SAME, SAME],
                [SAME, 0, SAME],
                [SAME, SAME, 0],
                [0, 0, 0],
                [0, SAME, 0],
            ] {
                tell_end(
                    name,
                    in_child(|| {
                        libc::syscall(file, USER);
                        let name = format!(" {} {} {}", a as i32, b as i32, c as i32);
                        tell(&name, set(a, b, c));
                        tell("  for files", for_files(file));
                    }),
                );
            }
        }
    }
}

/// Creates a file with this mode, owner and group.
unsafe fn made(name: &CStr, mode: u32, uid: u32, gid: u32) {
    unsafe {
        libc::unlink(name.as_ptr());
        libc::mknod(name.as_ptr(), mode & libc::S_IFMT | 0o600, 0);
        libc::chown(name.as_ptr(), uid, gid);
        libc::chmod(name.as_ptr(), mode & 0o7777);
    }
}

unsafe fn mode(name: &CStr) -> u32 {
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        libc::lstat(name.as_ptr(), &mut stat);
        stat.st_mode & 0o7777
    }
}

/// Writes, truncations and changes of owner of a program, with various capabilities.
unsafe fn set_ids() {
    let name = c"program";
    let file = name.as_ptr();
    type Act<'a> = (&'a str, &'a dyn Fn() -> i64);
    unsafe {
        let write = || {
            let fd = libc::open(file, O_WRONLY);
            libc::write(fd, c"x".as_ptr().cast(), 1) as i64
        };
        let opened = || libc::open(file, O_WRONLY | O_TRUNC).min(0) as i64;
        let acts: [Act; 10] = [
            ("write", &write),
            ("truncate", &|| libc::truncate(file, 0) as i64),
            ("open to truncate", &opened),
            ("chown to nobody", &|| libc::chown(file, SAME, SAME) as i64),
            ("chown to its owner", &|| {
                libc::chown(file, USER, SAME) as i64
            }),
            ("chown to a group", &|| libc::chown(file, SAME, USER) as i64),
            ("chown to another group", &|| {
                libc::chown(file, SAME, OTHER) as i64
            }),
            ("chown to another", &|| {
                libc::chown(file, OTHER, SAME) as i64
            }),
            ("chmod", &|| libc::chmod(file, 0o6666) as i64),
            ("utimes", &|| {
                libc::utimensat(-100, file, ptr::null(), 0) as i64
            }),
        ];
        let user = |uid: u32, gid: u32, groups: &[u32]| {
            libc::setgroups(groups.len(), groups.as_ptr());
            libc::setresgid(gid, gid, gid);
            libc::setresuid(uid, uid, uid);
        };
        let chowner = || {
            libc::prctl(libc::PR_SET_KEEPCAPS, 1);
            user(OTHER, OTHER, &[]);
            hold(&[CHOWN]);
        };
        let who: [(&str, &dyn Fn()); 6] = [
            ("root", &|| ()),
            ("root with no capability", &|| hold(&[])),
            ("its owner", &|| user(USER, USER, &[])),
            ("its owner in another group", &|| user(USER, OTHER, &[])),
            ("another", &|| user(OTHER, OTHER, &[])),
            ("another with CAP_CHOWN", &chowner),
        ];
        for kind in [S_IFREG, S_IFIFO] {
            for permissions in [0o6777, 0o2766, 0o4666, 0o2776, 0o0666] {
                println!(
                    "{}{permissions:o}",
                    if kind == S_IFREG { "file " } else { "pipe " }
                );
                for (person, become_them) in who {
                    for (act, done) in acts {
                        if kind == S_IFIFO && !act.starts_with('c') {
                            continue;
                        }
                        made(name, kind | permissions, USER, USER);
                        in_child(|| {
                            become_them();
                            tell(&format!("  {person}: {act}"), done());
                            println!("    {:o}", mode(name));
                        });
                    }
                }
            }
        }
        libc::unlink(file);
        // Folders keep their set-ID bits.
        libc::mkdir(file, 0o755);
        libc::chown(file, USER, USER);
        libc::chmod(file, 0o6755);
        in_child(|| {
            user(USER, OTHER, &[USER]);
            tell("folder given to a group", libc::chown(file, SAME, OTHER));
            println!("  {:o}", mode(name));
            tell("its mode", libc::chmod(file, 0o6755));
            println!("  {:o}", mode(name));
        });
        in_child(|| {
            user(USER, USER, &[]);
            tell("its mode, without the group", libc::chmod(file, 0o6755));
            println!("  {:o}", mode(name));
        });
        libc::rmdir(file);
    }
}

/// O_CREAT on existing files in sticky folders.
unsafe fn sticky() {
    unsafe {
        println!("sticky folders");
        let folder = c"shared".as_ptr();
        libc::mkdir(folder, 0o777);
        let open = |name: &CStr, flags| libc::open(name.as_ptr(), flags, 0o600).min(0);
        let names = [
            c"shared/file",
            c"shared/pipe",
            c"shared/socket",
            c"shared/link",
            c"shared/folder",
        ];
        for permissions in [0o1777, 0o1775, 0o0777, 0o1755] {
            for owner in [0, USER] {
                for whose in [0, USER, OTHER] {
                    libc::chown(folder, owner, USER);
                    libc::chmod(folder, permissions);
                    made(names[0], S_IFREG | 0o666, whose, whose);
                    made(names[1], S_IFIFO | 0o666, whose, whose);
                    made(names[2], S_IFSOCK | 0o666, whose, whose);
                    libc::unlink(names[3].as_ptr());
                    libc::symlink(c"file".as_ptr(), names[3].as_ptr());
                    libc::lchown(names[3].as_ptr(), whose, whose);
                    libc::rmdir(names[4].as_ptr());
                    libc::mkdir(names[4].as_ptr(), 0o777);
                    libc::chown(names[4].as_ptr(), whose, whose);
                    println!(" {permissions:o} of {owner}, {whose}'s");
                    for (person, uid) in [("root", 0), ("a user", USER)] {
                        in_child(|| {
                            libc::setresgid(uid, uid, uid);
                            libc::setresuid(uid, uid, uid);
                            println!("  {person}");
                            for name in names {
                                let shown = name.to_str().expect("ASCII");
                                let flags = O_RDWR | libc::O_NONBLOCK;
                                tell(&format!("   {shown}"), open(name, flags | O_CREAT));
                                tell("    not followed", open(name, flags | O_CREAT | O_NOFOLLOW));
                                tell("    as it is", open(name, O_RDONLY | libc::O_NONBLOCK));
                            }
                        });
                    }
                }
            }
        }
    }
}
