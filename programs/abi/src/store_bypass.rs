//! PR_SET_SPECULATION_CTRL: whether loads may bypass stores speculatively.

use std::{fs, thread};

use libc::c_int;

use crate::{in_child, tell, tell_end};

const GET: c_int = 52;
const SET: c_int = 53;
const STORE_BYPASS: usize = 0;
const ENABLE: usize = 2;
const DISABLE: usize = 4;
const FORCE_DISABLE: usize = 8;
const DISABLE_NOEXEC: usize = 16;

/// Runs this part.
pub fn run() {
    arguments();
    for (name, control) in [
        ("enable", ENABLE),
        ("disable", DISABLE),
        ("force", FORCE_DISABLE),
        ("until an exec", DISABLE_NOEXEC),
    ] {
        println!("{name}");
        tell_end(name, in_child(|| inherited(control)));
    }
    tell_end("sequences", in_child(sequences));
    tell_end("confined", in_child(confined));
}

/// Prints the state of a newly executed program.
pub fn told() {
    show("executed");
}

fn prctl(option: c_int, arguments: [usize; 4]) -> i64 {
    let [a, b, c, d] = arguments;
    // SAFETY: no pointer is passed.
    unsafe { libc::prctl(option, a, b, c, d).into() }
}

fn set(control: usize) {
    tell("set", prctl(SET, [STORE_BYPASS, control, 0, 0]));
}

/// The value of PSTATE.SSBS (bit 12), if programs can read it.
#[cfg(target_arch = "aarch64")]
fn bit() -> Option<u64> {
    const SSBS: u64 = 1 << 28;
    // SAFETY: only a query.
    let has_bit = unsafe { libc::getauxval(libc::AT_HWCAP) } & SSBS != 0;
    has_bit.then(|| {
        let value: u64;
        // SAFETY: the CPU has the register.
        unsafe { std::arch::asm!("mrs {}, s3_3_c4_c2_6", out(reg) value) };
        value
    })
}

#[cfg(not(target_arch = "aarch64"))]
fn bit() -> Option<u64> {
    None
}

fn show(who: &str) {
    tell(who, prctl(GET, [STORE_BYPASS, 0, 0, 0]));
    println!("bit: {:x?}", bit());
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("Specul"));
    lines.for_each(|line| println!("{line}"));
}

fn arguments() {
    show("at first");
    for which in [1, 2, 3, 1 << 32, usize::MAX] {
        tell("another", prctl(GET, [which, 0, 0, 0]));
        tell("set another", prctl(SET, [which, DISABLE, 0, 0]));
    }
    tell("more arguments", prctl(GET, [STORE_BYPASS, 1, 0, 0]));
    tell("more arguments", prctl(GET, [STORE_BYPASS, 0, 0, 1]));
    tell("more arguments", prctl(SET, [STORE_BYPASS, ENABLE, 1, 0]));
    tell("more arguments", prctl(SET, [STORE_BYPASS, ENABLE, 0, 1]));
    for control in [0, 1, 3, 6, 32, 1 << 32 | ENABLE, usize::MAX] {
        tell("no control", prctl(SET, [STORE_BYPASS, control, 0, 0]));
    }
    show("still");
}

/// Threads and children inherit the state from their creator, and programs across execve.
fn inherited(control: usize) {
    let before = thread::spawn(thread::park);
    set(control);
    show("own");
    thread::spawn(|| show("a thread")).join().expect("it ends");
    tell_end("a child", in_child(|| show("a child")));
    let executed = std::process::Command::new("/proc/self/exe")
        .arg("store-bypass-told")
        .status();
    println!("{:?}", executed.map(|status| status.code()));
    before.thread().unpark();
    before.join().expect("it ends");
    set(ENABLE);
    show("enabled again");
}

fn sequences() {
    for control in [
        DISABLE_NOEXEC,
        DISABLE,
        DISABLE_NOEXEC,
        ENABLE,
        DISABLE,
        FORCE_DISABLE,
    ] {
        set(control);
        show("then");
    }
    for control in [DISABLE, ENABLE, DISABLE_NOEXEC, FORCE_DISABLE] {
        set(control);
        show("after force");
    }
}

/// An unprivileged user may do the same.
fn confined() {
    // SAFETY: no pointer is passed.
    unsafe {
        tell("setuid", libc::setuid(1000));
    }
    set(FORCE_DISABLE);
    show("a user");
    set(ENABLE);
}
