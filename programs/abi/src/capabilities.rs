//! File capabilities, which execve(2) grants (capabilities(7)).

use std::mem;
use std::ptr;

use libc::{c_char, c_int};

use crate::{error, in_child, tell, tell_end};

const USER: u32 = 1000;

/// Runs this part.
pub fn run() {
    // SAFETY: every array passed ends with a null pointer, every structure is complete, and
    // children end.
    unsafe { capabilities() }
}

/// Grants by files; `abi file-capabilities` prints the capabilities that it has.
unsafe fn capabilities() {
    unsafe {
        let copy = c"/tmp/capable";
        libc::chdir(c"/tmp".as_ptr());
        std::fs::copy("/proc/self/exe", "/tmp/capable").expect("a copy");
        let set = |words: &[u32]| {
            let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            libc::setxattr(
                copy.as_ptr(),
                c"security.capability".as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                0,
            )
        };
        let run = |what: &str, uid: u32, before: &dyn Fn()| {
            println!("{what}");
            tell_end(
                " ended",
                in_child(|| {
                    before();
                    if uid != 0 {
                        libc::setgroups(0, ptr::null());
                        libc::setgid(uid);
                        libc::setuid(uid);
                    }
                    let arguments = [copy.as_ptr(), c"file-capabilities".as_ptr(), ptr::null()];
                    libc::execve(copy.as_ptr(), arguments.as_ptr(), [ptr::null()].as_ptr());
                    println!("  exec: {}", error());
                }),
            );
        };
        const SECOND: u32 = 0x0200_0000;
        const THIRD: u32 = 0x0300_0000;
        const EFFECTIVE: u32 = 1;
        const NET_RAW: u32 = 1 << 13;
        const CHOWN: u32 = 1;
        let nothing: &dyn Fn() = &|| {};
        run("none", USER, nothing);
        tell("first version", set(&[0x0100_0000, 1, 0]));
        tell("too short", set(&[SECOND | EFFECTIVE, 1, 0, 0]));
        tell("too long", set(&[SECOND | EFFECTIVE, 1, 0, 0, 0, 0]));
        tell("unknown", set(&[0x0700_0000, 1, 0, 0, 0]));
        tell(
            "permitted",
            set(&[SECOND | EFFECTIVE, NET_RAW | CHOWN, 0, 0, 0]),
        );
        run("permitted, effective", USER, nothing);
        run("as root", 0, nothing);
        let confined: &dyn Fn() = &|| {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        };
        run("no new privileges", USER, confined);
        let bounded: &dyn Fn() = &|| {
            libc::prctl(libc::PR_CAPBSET_DROP, 13, 0, 0, 0);
        };
        run("bounded", USER, bounded);
        tell("permitted alone", set(&[SECOND, NET_RAW | CHOWN, 0, 0, 0]));
        run("not effective", USER, nothing);
        run("bounded, not effective", USER, bounded);
        tell("inheritable", set(&[SECOND | EFFECTIVE, 0, NET_RAW, 0, 0]));
        run("nothing inherited", USER, nothing);
        let inherited: &dyn Fn() = &|| inherit(NET_RAW | CHOWN);
        run("inherited", USER, inherited);
        tell(
            "of the upper half",
            set(&[SECOND | EFFECTIVE, 0, 0, 1 << 6, 0]),
        );
        run("the upper half", USER, nothing);
        tell(
            "third, root's",
            set(&[THIRD | EFFECTIVE, CHOWN, 0, 0, 0, 0]),
        );
        run("third", USER, nothing);
        let mut value = [0u8; 64];
        let got = libc::getxattr(
            copy.as_ptr(),
            c"security.capability".as_ptr(),
            value.as_mut_ptr().cast(),
            64,
        );
        tell("read again", got as i64);
        tell(
            "third, another's",
            set(&[THIRD | EFFECTIVE, CHOWN, 0, 0, 0, USER]),
        );
        run("of another namespace", USER, nothing);
        tell("no bits", set(&[SECOND, 0, 0, 0, 0]));
        run("empty", USER, nothing);
        run("empty, root", 0, nothing);
        tell("set-user", libc::chmod(copy.as_ptr(), 0o4755));
        tell("again", set(&[SECOND | EFFECTIVE, CHOWN, 0, 0, 0]));
        run("set-user and capabilities", USER, nothing);
        tell("plain", libc::chmod(copy.as_ptr(), 0o755));
        let ambient: &dyn Fn() = &|| {
            inherit(NET_RAW);
            libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0);
            libc::setuid(USER);
            hold(NET_RAW);
            libc::prctl(libc::PR_CAP_AMBIENT, 2, 13, 0, 0);
        };
        run("ambient go with a file's", USER, ambient);
        tell_end(
            "a user sets",
            in_child(|| {
                libc::setuid(USER);
                tell("them", set(&[SECOND | EFFECTIVE, CHOWN, 0, 0, 0]));
            }),
        );
        // They are removed when the file is written or changes its owner.
        let there = || {
            let found = libc::getxattr(
                copy.as_ptr(),
                c"security.capability".as_ptr(),
                ptr::null_mut(),
                0,
            );
            tell("there", found as i64);
        };
        there();
        tell("given away", libc::chown(copy.as_ptr(), 0, 0));
        there();
        tell("again", set(&[SECOND | EFFECTIVE, CHOWN, 0, 0, 0]));
        let file = libc::open(copy.as_ptr(), libc::O_WRONLY);
        libc::pwrite(file, [0x7fu8].as_ptr().cast(), 1, 0);
        there();
        tell("again", set(&[SECOND | EFFECTIVE, CHOWN, 0, 0, 0]));
        let mut status: libc::stat = mem::zeroed();
        libc::fstat(file, &mut status);
        libc::ftruncate(file, status.st_size);
        there();
        libc::close(file);
        mounted(copy.as_ptr(), &run);
        libc::unlink(copy.as_ptr());
    }
}

/// On a mount with MS_NOSUID they are ignored.
unsafe fn mounted(copy: *const c_char, run: &dyn Fn(&str, u32, &dyn Fn())) {
    unsafe {
        let value: Vec<u8> = [0x0200_0001u32, 1, 0, 0, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let name = c"security.capability".as_ptr();
        libc::setxattr(copy, name, value.as_ptr().cast(), value.len(), 0);
        let bind = libc::MS_BIND;
        tell(
            "bind",
            libc::mount(copy, copy, ptr::null(), bind, ptr::null()),
        );
        let flags = bind | libc::MS_REMOUNT | libc::MS_NOSUID;
        tell(
            "nosuid",
            libc::mount(ptr::null(), copy, ptr::null(), flags, ptr::null()),
        );
        run("nosuid", USER, &|| {});
        tell("unmount", libc::umount(copy));
    }
}

/// `struct __user_cap_header_struct`, and two halves of three words each.
unsafe fn change(act: impl Fn(&mut [u32; 6])) {
    unsafe {
        let mut header = [0x2008_0522u32, 0];
        let mut sets = [0u32; 6];
        libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr());
        act(&mut sets);
        libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_mut_ptr());
    }
}

unsafe fn inherit(set: u32) {
    unsafe { change(|sets| sets[2] = set) }
}

unsafe fn hold(set: u32) {
    unsafe {
        change(|sets| {
            sets[0] = set;
            sets[1] = set;
        })
    }
}

/// The executed program: prints its own capabilities.
pub fn tell_capabilities() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| {
        ["CapInh", "CapPrm", "CapEff", "CapAmb", "Uid"]
            .iter()
            .any(|name| line.starts_with(name))
    }) {
        println!("  {line}");
    }
    // SAFETY: these calls touch no memory of the program.
    unsafe {
        let secure: c_int = libc::getauxval(libc::AT_SECURE) as c_int;
        let dumpable = libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0);
        println!("  secure {secure}, dumpable {dumpable}");
    }
}
