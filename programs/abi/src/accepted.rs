//! "Accepted means done": options and flags that take effect later, and those that a kernel may
//! lack and then refuses.

use std::ffi::{CStr, CString};
use std::{fs, mem, ptr};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_EXEC, PROT_READ, PROT_WRITE, c_int, c_long,
    c_ulong, c_void,
};

use crate::{error, in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        left_out();
        clone_flags();
        write_or_execute();
        personalities();
    }
}

const PAGE: usize = 4096;

/// Prints the same result for an optional feature whether it is done, or refused as without it.
fn tell_choice(what: &str, result: impl Into<c_long>, refused: &str) {
    match result.into() {
        -1 if error() == refused => println!("{what}: done or refused"),
        -1 => println!("{what}: {}", error()),
        _ => println!("{what}: done or refused"),
    }
}

unsafe fn prctl(option: c_int, a: c_ulong, b: c_ulong) -> c_int {
    unsafe { libc::prctl(option, a, b, 0 as c_ulong, 0 as c_ulong) }
}

unsafe fn map(rights: c_int) -> *mut c_void {
    unsafe {
        libc::mmap(
            ptr::null_mut(),
            PAGE,
            rights,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0,
        )
    }
}

unsafe fn left_out() {
    unsafe {
        let page = map(PROT_READ | PROT_WRITE);
        for advice in [12, 13, 25] {
            tell_choice("advice", libc::madvise(page, PAGE, advice), "EINVAL");
        }
        for option in [33, 55, 56, 59, 62, 67, 68] {
            tell_choice("option", prctl(option, 0, 0), "EINVAL");
        }
        tell_choice("tracer", prctl(libc::PR_SET_PTRACER, 0, 0), "EINVAL");
    }
}

/// Unknown flags of clone3, and flags of clone and unshare that belong to the other call.
unsafe fn clone_flags() {
    unsafe {
        for bit in [0, 7, 22, 34, 40, 63] {
            let mut arguments = [0u64; 11];
            arguments[0] = 1 << bit;
            arguments[4] = libc::SIGCHLD as u64;
            let child = libc::syscall(libc::SYS_clone3, &arguments, size_of_val(&arguments));
            if child == 0 {
                libc::_exit(0);
            }
            let result = if child < 0 { -1 } else { 0 };
            // A kernel without time namespaces refuses this flag in the same way.
            if bit == 7 {
                tell_choice("clone3", result, "EINVAL");
            } else {
                tell(&format!("clone3, bit {bit}"), result);
            }
            if child > 0 {
                libc::waitpid(child as c_int, ptr::null_mut(), 0);
            }
        }
        for flags in [0x1000, 0x2000, 0x4000, 0x8000, 0x10_0000, 1 << 31, 1] {
            tell("unshare", libc::unshare(flags));
        }
    }
}

/// PR_SET_MDWE, with and without PR_MDWE_NO_INHERIT.
unsafe fn write_or_execute() {
    let both = |what: &str| unsafe {
        let page = map(PROT_READ | PROT_WRITE | PROT_EXEC);
        println!(
            "{what}: {}",
            if page == MAP_FAILED {
                error()
            } else {
                "mapped"
            }
        );
    };
    let all = |bits: c_ulong| unsafe {
        tell("set", prctl(65, bits, 0));
        tell("is", prctl(66, 0, 0));
        both("itself");
        tell_end(
            "child",
            in_child(|| {
                tell("is", prctl(66, 0, 0));
                both("a child");
                tell("set", prctl(65, 1, 0));
            }),
        );
        for bits in [0, 1, 2, 3, 1 << 32] {
            tell("again", prctl(65, bits, 0));
        }
    };
    for bits in [0, 1, 2, 3, 4] {
        tell_end("write or execute", in_child(|| all(bits)));
    }
}

/// `abi places FILE`: writes the addresses of this program's parts to a file.
pub fn places(file: &str) {
    let local = 0u8;
    // SAFETY: a new mapping touches no memory in use.
    let (one, other, end) = unsafe { (map(PROT_READ), map(PROT_READ), libc::sbrk(0).addr()) };
    let code = places as *const () as usize;
    let stack = ptr::from_ref(&local).addr();
    let upwards = other.addr() > one.addr();
    let text = format!("{code:#x} {stack:#x} {:#x} {end:#x} {upwards}", one.addr());
    fs::write(file, text).expect("a place to write to");
}

/// personality(2): its effects on programs executed afterwards, and on calls.
unsafe fn personalities() {
    unsafe {
        let begun = |what: &str, bits: c_ulong| {
            let [first, second] = ["places-1", "places-2"].map(|file| {
                in_child(|| {
                    libc::personality(bits);
                    let name = CString::new(file).unwrap_or_default();
                    let arguments = [
                        c"abi".as_ptr(),
                        c"places".as_ptr(),
                        name.as_ptr(),
                        ptr::null(),
                    ];
                    libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr());
                });
                fs::read_to_string(file).unwrap_or_default()
            });
            let upwards = first.ends_with("true");
            println!("{what}: the same {}, upwards {upwards}", first == second);
        };
        begun("usual", 0);
        begun("not at random", 0x4_0000);
        begun("compatible", 0x20_0000);
        begun("both", 0x24_0000);
        tell_end(
            "unlimited stack",
            in_child(|| {
                let limit = libc::rlimit {
                    rlim_cur: libc::RLIM_INFINITY,
                    rlim_max: libc::RLIM_INFINITY,
                };
                libc::setrlimit(libc::RLIMIT_STACK, &limit);
                begun("of an unlimited stack", 0x4_0000);
            }),
        );
        tell_end(
            "names",
            in_child(|| {
                libc::personality(0x2_0000);
                let mut names: libc::utsname = mem::zeroed();
                libc::uname(&mut names);
                let release = CStr::from_ptr(names.release.as_ptr()).to_bytes();
                println!("an old Linux: {}", release.starts_with(b"2.6.72"));
            }),
        );
        tell_end(
            "readable",
            in_child(|| {
                libc::personality(0x40_0000);
                let page = map(PROT_READ | PROT_WRITE);
                println!("mapped: {}", rights_at(page));
                libc::mprotect(page, PAGE, PROT_READ);
                println!("protected: {}", rights_at(page));
                libc::mprotect(page, PAGE, PROT_WRITE);
                libc::mprotect(page, PAGE, libc::PROT_NONE);
                println!("none: {}", rights_at(page));
            }),
        );
    }
}

/// The access rights of a page by `/proc/self/maps`.
fn rights_at(page: *const c_void) -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let line = maps.lines().find(|line| {
        let bounds = line
            .split(' ')
            .next()
            .and_then(|bounds| bounds.split_once('-'));
        bounds.is_some_and(|(start, end)| {
            let number = |text| usize::from_str_radix(text, 16).unwrap_or_default();
            (number(start)..number(end)).contains(&page.addr())
        })
    });
    line.and_then(|line| line.split(' ').nth(1))
        .unwrap_or_default()
        .into()
}
