//! Pointer authentication: the keys that sign, permission to change them, and the effect of a wrong
//! signature.

use std::arch::asm;
use std::fs;
use std::mem;
use std::ptr;

use libc::{c_int, c_void, siginfo_t};

use crate::ptrace::{ptrace, wait};
use crate::{in_child, tell, tell_end};

const RESET_KEYS: c_int = 54;
const SET_ENABLED: c_int = 60;
const GET_ENABLED: c_int = 61;
const NAMES: [&str; 4] = ["IA", "IB", "DA", "DB"];
/// Register sets: masks, address keys, generic key, enabled keys.
const MASK: usize = 0x406;
const ADDRESS_KEYS: usize = 0x407;
const GENERIC_KEYS: usize = 0x408;
const ENABLED: usize = 0x40a;

/// The number of signed addresses: few of them have the same signature by another key.
const COUNT: usize = 64;
type Signed = [[u64; COUNT]; 5];

macro_rules! sign {
    ($instruction:literal, $value:expr) => {{
        let mut value: u64 = $value;
        // SAFETY: only computes.
        unsafe {
            asm!(".arch_extension pauth", concat!($instruction, " {0}, {1}"), inout(reg) value, in(reg) 42u64)
        };
        value
    }};
}

fn generic(value: u64) -> u64 {
    let signature: u64;
    // SAFETY: only computes.
    unsafe {
        asm!(".arch_extension pauth", "pacga {0}, {1}, {2}", out(reg) signature, in(reg) value, in(reg) 42u64)
    };
    signature
}

/// The signatures of the same addresses by each key.
fn signed() -> Signed {
    let mut all = [[0; COUNT]; 5];
    for at in 0..COUNT {
        let address = 0x1234_5678_9000 + at as u64 * 8;
        all[0][at] = sign!("pacia", address);
        all[1][at] = sign!("pacib", address);
        all[2][at] = sign!("pacda", address);
        all[3][at] = sign!("pacdb", address);
        all[4][at] = generic(address);
    }
    all
}

/// The keys whose signatures have changed.
fn changed(before: &Signed) -> Vec<&'static str> {
    let (now, names) = (signed(), [NAMES[0], NAMES[1], NAMES[2], NAMES[3], "GA"]);
    let pairs = names.into_iter().zip(before.iter().zip(&now));
    pairs
        .filter(|(_, (a, b))| a != b)
        .map(|(name, _)| name)
        .collect()
}

fn prctl(what: &str, option: c_int, arguments: [usize; 4]) {
    let [a, b, c, d] = arguments;
    // SAFETY: no signature by these keys is in use.
    tell(what, unsafe { libc::prctl(option, a, b, c, d) });
}

/// Runs this part.
pub fn run() {
    // SAFETY: reads the auxiliary vector.
    let hwcap = unsafe { libc::getauxval(libc::AT_HWCAP) };
    println!("paca {} pacg {}", hwcap >> 30 & 1, hwcap >> 31 & 1);
    keys();
    options();
    beside();
    wrong();
    // SAFETY: children end by _exit or are waited for.
    unsafe { traced() };
    core();
}

/// Prints which keys differ from those of the parent, by signatures in a file.
pub fn after_exec() {
    let bytes = fs::read("signed").expect("the parent wrote it");
    // SAFETY: any bytes are valid numbers.
    let before: Signed = unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) };
    println!("after exec: {:?}", changed(&before));
    prctl("enabled after exec", GET_ENABLED, [0; 4]);
}

fn keys() {
    let before = signed();
    let plain = (0..COUNT as u64).map(|at| 0x1234_5678_9000 + at * 8);
    let differ = before[0].iter().zip(plain).filter(|(a, b)| **a != *b);
    println!("signed: {}", differ.count() > COUNT / 2);
    println!("right: {:#x}", sign!("autia", sign!("pacia", 0x5000)));
    println!("stripped: {:#x}", {
        let mut value = sign!("pacda", 0x5000);
        // SAFETY: only computes.
        unsafe { asm!(".arch_extension pauth", "xpacd {0}", inout(reg) value) };
        value
    });
    println!("again: {:?}", changed(&before));
    tell_end(
        "child",
        in_child(|| println!("forked: {:?}", changed(&before))),
    );
    let thread = std::thread::spawn(move || println!("thread: {:?}", changed(&before)));
    thread.join().expect("it ends");
    // SAFETY: numbers are valid bytes.
    let bytes: [u8; size_of::<Signed>()] = unsafe { mem::transmute(before) };
    fs::write("signed", bytes).expect("there is room");
    let status = in_child(|| {
        prctl("off", SET_ENABLED, [3, 1, 0, 0]);
        let own = std::env::current_exe().expect("it has a path");
        let _ = std::process::Command::new(own).arg("pauth-exec").status();
    });
    tell_end("exec", status);
}

fn options() {
    let before = signed();
    prctl("a key that is none", RESET_KEYS, [1 << 5, 0, 0, 0]);
    prctl("an argument too many", RESET_KEYS, [1, 1, 0, 0]);
    println!("unchanged: {:?}", changed(&before));
    // Changes keys in a child, since return addresses of this program may be signed.
    for which in [1, 2, 4, 8, 16, 6, 0] {
        tell_end(
            "child",
            in_child(|| {
                prctl(
                    &format!("new keys {which:#x}"),
                    RESET_KEYS,
                    [which, 0, 0, 0],
                );
                println!("changed: {:?}", changed(&before));
            }),
        );
    }
    let thread = std::thread::spawn(move || {
        prctl("in a thread", RESET_KEYS, [4, 0, 0, 0]);
        println!("there: {:?}", changed(&before));
    });
    thread.join().expect("it ends");
    println!("here: {:?}", changed(&before));
    prctl("enabled", GET_ENABLED, [0; 4]);
    prctl("enabled, an argument too many", GET_ENABLED, [0, 0, 0, 1]);
    prctl("all but those asked for", SET_ENABLED, [1, 2, 0, 0]);
    prctl("the key of all else", SET_ENABLED, [16, 16, 0, 0]);
    prctl("set, an argument too many", SET_ENABLED, [1, 1, 1, 0]);
    prctl("IB and DA off", SET_ENABLED, [6, 0, 0, 0]);
    prctl("enabled", GET_ENABLED, [0; 4]);
    let now = signed();
    for (name, row) in NAMES.iter().zip(&now) {
        let plain = row.iter().enumerate();
        let same = plain.filter(|(at, value)| **value == 0x1234_5678_9000 + *at as u64 * 8);
        println!("{name} off: {}", same.count() == COUNT);
    }
    tell_end(
        "child",
        in_child(|| {
            prctl("forked", GET_ENABLED, [0; 4]);
            prctl("IB on", SET_ENABLED, [2, 2, 0, 0]);
        }),
    );
    prctl("the parent", GET_ENABLED, [0; 4]);
    prctl("on again", SET_ENABLED, [15, 15, 0, 0]);
    println!("as before: {:?}", changed(&before));
}

/// Programs with different keys alternate on the same CPU.
fn beside() {
    let mut children = Vec::new();
    for kind in 0..4 {
        // SAFETY: the child ends by _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut set: libc::cpu_set_t = mem::zeroed();
                libc::CPU_SET(0, &mut set);
                libc::sched_setaffinity(0, size_of_val(&set), &set);
                libc::prctl(RESET_KEYS, 31, 0, 0, 0);
                if kind == 3 {
                    libc::prctl(SET_ENABLED, 15, 5, 0, 0);
                }
                let before = signed();
                let lost = (0..300).filter(|_| {
                    libc::sched_yield();
                    !changed(&before).is_empty()
                });
                libc::_exit(lost.count().min(99) as c_int);
            }
            children.push(child);
        }
    }
    for child in children {
        let mut status = 0;
        // SAFETY: waits for a child of this process.
        unsafe { libc::waitpid(child, &mut status, 0) };
        tell_end("beside others", status);
    }
}

static mut EXPECTED: usize = 0;

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo, and the process has one thread.
    unsafe {
        let offset = ((*info).si_addr() as usize).wrapping_sub(EXPECTED) as isize;
        println!(
            "signal {signal} code {} address {offset:+}",
            (*info).si_code
        );
        libc::_exit(0);
    }
}

fn wrong() {
    let status = in_child(|| {
        // SAFETY: the handler has the signature that SA_SIGINFO requires; at most a signal comes.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &action, ptr::null_mut());
            libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
            for at in 0..COUNT as u64 {
                // Some signatures are right by chance.
                asm!(".arch_extension pauth", "adr {1}, 2f", "str {1}, [{2}]", "2: autia {0}, {3}",
                    inout(reg) (0x1234_5678_9000 + at * 8) | 3 << 48 => _, out(reg) _,
                    in(reg) &raw mut EXPECTED, in(reg) 42u64);
            }
        }
        println!("no fault");
    });
    tell_end("a wrong signature", status);
}

unsafe fn set_of(pid: i32, kind: usize, write: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = vec![0u8; 128];
    let mut range = [bytes.as_mut_ptr() as usize, bytes.len()];
    if let Some(write) = write {
        range = [write.as_ptr() as usize, write.len()];
    }
    let request = match write {
        Some(_) => libc::PTRACE_SETREGSET,
        None => libc::PTRACE_GETREGSET,
    };
    // SAFETY: the range is live.
    let done = unsafe { ptrace(request as u32, pid, kind, (&raw mut range) as usize) };
    let verb = if write.is_some() { "set" } else { "get" };
    tell(&format!("{verb} {kind:#x}, {} bytes", range[1]), done);
    bytes.truncate(if write.is_none() && done == 0 {
        range[1]
    } else {
        0
    });
    bytes
}

/// Whether these are the masks for data and instruction addresses: all bits of a signature, and
/// none of an address.
fn is_mask(bytes: &[u8]) -> [bool; 2] {
    let signatures = signed()[..4]
        .iter()
        .flatten()
        .fold(0, |all, value| all | value)
        >> 47
        << 47;
    [0, 8].map(|at| {
        let word = bytes
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok());
        word.map(u64::from_ne_bytes) == Some(signatures)
    })
}

unsafe fn traced() {
    let before = signed();
    // SAFETY: the child ends by _exit, and the parent waits for it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            ptrace(libc::PTRACE_TRACEME as u32, 0, 0, 0);
            for _ in 0..3 {
                libc::raise(libc::SIGSTOP);
                println!("tracee: {:?}", changed(&before));
                let enabled = libc::prctl(GET_ENABLED, 0, 0, 0, 0);
                println!("tracee: enabled {enabled:#x}");
            }
            libc::_exit(0);
        }
        println!("{}", wait(child));
        let mask = set_of(child, MASK, None);
        println!("mask right: {:?}", is_mask(&mask));
        println!("enabled {:x?}", set_of(child, ENABLED, None));
        let keys = set_of(child, ADDRESS_KEYS, None);
        let own = set_of(child, GENERIC_KEYS, None);
        set_of(child, MASK, Some(&[0; 16]));
        set_of(child, ENABLED, Some(&16u64.to_ne_bytes()));
        set_of(child, ENABLED, Some(&9u64.to_ne_bytes()));
        set_of(child, ENABLED, Some(&[1; 4]));
        set_of(child, ADDRESS_KEYS, Some(&[1; 8]));
        // Only the IA key.
        set_of(child, ADDRESS_KEYS, Some(&[1; 16]));
        set_of(child, GENERIC_KEYS, Some(&[2; 16]));
        ptrace(libc::PTRACE_CONT as u32, child, 0, 0);
        println!("{}", wait(child));
        set_of(child, ENABLED, Some(&15u64.to_ne_bytes()));
        set_of(child, ADDRESS_KEYS, Some(&keys));
        ptrace(libc::PTRACE_CONT as u32, child, 0, 0);
        println!("{}", wait(child));
        set_of(child, GENERIC_KEYS, Some(&own));
        ptrace(libc::PTRACE_CONT as u32, child, 0, 0);
        println!("{}", wait(child));
    }
}

/// The notes about it in a core file.
fn core() {
    let status = in_child(|| {
        let limit = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: ends the process.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &limit);
            libc::prctl(SET_ENABLED, 8, 0, 0, 0);
            libc::abort();
        }
    });
    tell_end("core", status);
    let file = fs::read("core").unwrap_or_default();
    let word = |at: usize, len: usize| {
        let bytes = file.get(at..at + len).unwrap_or_default();
        bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | *byte as usize)
    };
    // The first program header is of the notes.
    let header = word(32, 8);
    let (mut at, len) = (word(header + 8, 8), word(header + 32, 8));
    let end = at + len;
    while at + 12 <= end {
        let (name, size, kind) = (word(at, 4), word(at + 4, 4), word(at + 8, 4));
        let content = at + 12 + name.next_multiple_of(4);
        if [MASK, ADDRESS_KEYS, GENERIC_KEYS, ENABLED].contains(&kind) {
            let owner = String::from_utf8_lossy(&file[at + 12..at + 12 + name]);
            println!("{owner:?} {kind:#x}: {size} bytes");
            match kind {
                MASK => println!("right: {:?}", is_mask(&file[content..content + size])),
                ENABLED => println!("{:x?}", &file[content..content + size]),
                _ => {}
            }
        }
        at = content + size.next_multiple_of(4);
    }
    let _ = fs::remove_file("core");
}
