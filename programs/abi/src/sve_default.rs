//! The initial vector length of SVE programs (abi.sve_default_vector_length).

use std::fs;
use std::ptr;

use crate::{in_child, tell, tell_end};

const FILE: &str = "/proc/sys/abi/sve_default_vector_length";
const SET: i32 = 50;
const GET: i32 = 51;
const INHERITED: usize = 1 << 17;
const ON_EXEC: usize = 1 << 18;

/// Runs this part.
pub fn run() {
    let now = || fs::read_to_string(FILE).map_err(|error| error.raw_os_error());
    println!("at first: {:?}", now());
    println!(
        "SME: {:?}",
        fs::metadata("/proc/sys/abi/sme_default_vector_length").is_ok()
    );
    for text in [
        "32", "48\n", "-1", "0", "15", "17", "8192", "8208", "-2", "x", "", "16 32", "64",
    ] {
        let done = fs::write(FILE, text).map_err(|error| error.raw_os_error());
        println!("{text:?}: {done:?} {:?}", now());
    }
    for length in ["16", "256", "32"] {
        _ = fs::write(FILE, length);
        // SAFETY: children end by _exit or exec.
        unsafe {
            println!("{length}");
            tell("this one", libc::prctl(GET, 0, 0, 0, 0));
            tell_end(
                "forked",
                in_child(|| tell("child", libc::prctl(GET, 0, 0, 0, 0))),
            );
            tell_end("executed", in_child(|| execute()));
            tell_end(
                "inherited",
                in_child(|| {
                    libc::prctl(SET, 128 | INHERITED, 0, 0, 0);
                    execute();
                }),
            );
            tell_end(
                "deferred",
                in_child(|| {
                    libc::prctl(SET, 64 | ON_EXEC, 0, 0, 0);
                    execute();
                }),
            );
        }
    }
    _ = fs::write(FILE, "64");
}

unsafe fn execute() {
    let program = c"/proc/self/exe";
    let arguments = [
        program.as_ptr(),
        c"sve-default".as_ptr(),
        c"exec".as_ptr(),
        ptr::null(),
    ];
    // SAFETY: the array of arguments ends with a null pointer.
    unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
}

/// Continues after an exec of this program.
pub fn after_exec() {
    // SAFETY: nothing can be wrong here.
    unsafe { tell("after exec", libc::prctl(GET, 0, 0, 0, 0)) };
}
