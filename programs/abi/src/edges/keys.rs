//! Keys: quota that dead keys return, expiry, and the depth of nested keyrings.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use libc::{c_char, c_long};

use super::{USER, become_user};
use crate::{tell, tell_ok};

const PROCESS: i32 = -2;
const UNLINK: i32 = 9;
const READ: i32 = 11;
const SET_TIMEOUT: i32 = 15;
const LINK: i32 = 8;

unsafe fn add(kind: &CStr, name: &CStr, payload: &[u8], ring: i32) -> c_long {
    let (kind, name): (*const c_char, *const c_char) = (kind.as_ptr(), name.as_ptr());
    let (start, len) = match payload.len() {
        0 => (std::ptr::null(), 0),
        len => (payload.as_ptr(), len),
    };
    unsafe { libc::syscall(libc::SYS_add_key, kind, name, start, len, ring) }
}

unsafe fn control(what: i32, key: c_long, value: c_long) -> c_long {
    unsafe { libc::syscall(libc::SYS_keyctl, what, key, value, 0, 0) }
}

/// Runs this part.
pub unsafe fn run() {
    unsafe {
        become_user(USER);
        given_back();
        ended();
        nested();
    }
}

/// 40 keys of 1,000 bytes, one after the other, within a user's quota of 20,000.
unsafe fn given_back() {
    let start = Instant::now();
    let mut added = 0;
    while added < 40 && start.elapsed() < Duration::from_secs(30) {
        unsafe {
            let key = add(c"user", c"short", &[0; 1000], PROCESS);
            if key >= 0 {
                added += 1;
                control(UNLINK, key, PROCESS.into());
            } else {
                // Linux returns a dead key's quota a little later.
                libc::usleep(10_000);
            }
        }
    }
    println!("keys: {added}");
}

/// A key expires after its timeout.
unsafe fn ended() {
    unsafe {
        let key = add(c"user", c"ending", b"text", PROCESS);
        tell("timeout", control(SET_TIMEOUT, key, 1));
        libc::usleep(1_500_000);
        tell("read", control(READ, key, 0));
    }
}

/// The maximum depth of keyrings linked into each other.
unsafe fn nested() {
    unsafe {
        let names = [
            c"r0", c"r1", c"r2", c"r3", c"r4", c"r5", c"r6", c"r7", c"r8",
        ];
        let rings = names.map(|name| add(c"keyring", name, b"", PROCESS));
        for (depth, pair) in rings.windows(2).enumerate() {
            // From the bottom up: the new keyring links the chain so far.
            tell_ok(
                &format!("above {}", depth + 1),
                control(LINK, pair[0], pair[1]) == 0,
            );
        }
    }
}
