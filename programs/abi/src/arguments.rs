//! The limits on the arguments of execve(2).

use std::ffi::CString;
use std::ptr;

use libc::c_char;

use crate::{error, in_child, tell_end};

/// The maximum length of an argument, with its zero byte (MAX_ARG_STRLEN).
const LONGEST: usize = 32 * 4096;

/// Runs this part.
pub fn run() {
    // SAFETY: every array passed ends with a null pointer, and children end.
    unsafe {
        limits();
    }
}

/// Executes busybox's `true` in a child with `arguments` and `environment`, under a stack limit.
unsafe fn try_exec(what: &str, stack: Option<u64>, arguments: &[CString], environment: &[CString]) {
    unsafe {
        tell_end(
            what,
            in_child(|| {
                if let Some(stack) = stack {
                    let limit = libc::rlimit {
                        rlim_cur: stack,
                        rlim_max: stack,
                    };
                    libc::setrlimit(libc::RLIMIT_STACK, &limit);
                }
                let list = |from: &[CString]| -> Vec<*const c_char> {
                    from.iter()
                        .map(|one| one.as_ptr())
                        .chain([ptr::null()])
                        .collect()
                };
                let (arguments, environment) = (list(arguments), list(environment));
                libc::execve(
                    c"/bin/true".as_ptr(),
                    arguments.as_ptr(),
                    environment.as_ptr(),
                );
                println!("  {}", error());
            }),
        );
    }
}

unsafe fn limits() {
    unsafe {
        let text = |len: usize| CString::new(vec![b'a'; len]).expect("no zero");
        let mut list = vec![CString::new("true").expect("no zero")];
        list.push(text(LONGEST - 1));
        try_exec("the longest", None, &list, &[]);
        list[1] = text(LONGEST);
        try_exec("longer", None, &list, &[]);
        try_exec("longer in the environment", None, &list[..1], &list[1..]);
        list[1] = text(LONGEST * 2);
        try_exec("much longer", None, &list, &[]);

        // A quarter of the stack limit of 8 MiB, pointers included.
        let stack = Some(8 << 20);
        let many = |count: usize, len: usize| -> Vec<CString> {
            [CString::new("true").expect("no zero")]
                .into_iter()
                .chain((0..count).map(|_| text(len)))
                .collect()
        };
        try_exec("15 of 128 KiB", stack, &many(15, LONGEST - 16), &[]);
        try_exec("17 of 128 KiB", stack, &many(17, LONGEST - 16), &[]);
        try_exec(
            "in both",
            stack,
            &many(8, LONGEST - 16),
            &many(9, LONGEST - 16),
        );
        try_exec("200,000 empty ones", stack, &many(200_000, 0), &[]);
        try_exec("250,000 empty ones", stack, &many(250_000, 0), &[]);
        // Whatever the limit, 128 KiB are allowed, and never more than 6 MiB.
        try_exec("a little", Some(64 << 10), &many(10, 10_000), &[]);
        try_exec("a little more", Some(64 << 10), &many(14, 10_000), &[]);
        try_exec("5 MiB", Some(1 << 30), &many(40, LONGEST - 16), &[]);
        try_exec("7 MiB", Some(1 << 30), &many(56, LONGEST - 16), &[]);
    }
}
