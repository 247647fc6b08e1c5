//! Instructions that copy and set memory (FEAT_MOPS), in sequences of three; also if a thread
//! reaches the second or third with the state that the first leaves on another kind of CPU.

use std::arch::asm;
use std::mem;
use std::ptr;

use libc::{PROT_READ, PROT_WRITE, c_int, c_void, siginfo_t};

use crate::{in_child, tell_end};

const SIZE: usize = 3 * 4096;

/// The instruction of the three at which the sequence is entered, and the flags at that point.
#[derive(Clone, Copy, Debug)]
enum Enter {
    First,
    Second,
    Third,
}

/// N and C of NZCV: option B; with N the copy goes backward.
const FORWARD_B: u64 = 1 << 29;
const BACKWARD_B: u64 = 1 << 29 | 1 << 31;

macro_rules! row {
    ($first:literal, $second:literal, $third:literal; $enter:expr, $flags:expr, $to:expr, $from:expr, $len:expr) => {
        asm!(
            ".arch_extension mops",
            "adr {place}, 2f",
            "add {place}, {place}, {skip}",
            "msr nzcv, {flags}",
            "br {place}",
            "2:",
            $first, $second, $third,
            place = out(reg) _,
            skip = in(reg) 4 * $enter as u64,
            flags = in(reg) $flags,
            inout("x0") $to => _,
            inout("x1") $from => _,
            inout("x2") $len => _,
        )
    };
}

unsafe fn copy(enter: Enter, flags: u64, to: *mut u8, from: *const u8, len: usize) {
    unsafe {
        row!("cpyp [x0]!, [x1]!, x2!", "cpym [x0]!, [x1]!, x2!", "cpye [x0]!, [x1]!, x2!";
            enter, flags, to, from, len)
    }
}

unsafe fn set(enter: Enter, flags: u64, to: *mut u8, value: u64, len: usize) {
    unsafe {
        row!("setp [x0]!, x2!, x1", "setm [x0]!, x2!, x1", "sete [x0]!, x2!, x1";
            enter, flags, to, value, len)
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo.
    unsafe {
        let (address, code) = ((*info).si_addr() as usize, (*info).si_code);
        println!(
            "signal {signal} code {code} address {:+}",
            address as isize - LIMIT as isize
        );
        libc::_exit(0);
    }
}

static mut LIMIT: usize = 0;

fn map(len: usize, rights: c_int) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory.
    unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0).cast() }
}

/// Runs this part.
pub fn run() {
    // SAFETY: reads the auxiliary vector.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    println!("mops: {}", hwcap2 >> 43 & 1);
    let from: Vec<u8> = (0..SIZE).map(|at| (at * 7 % 251) as u8).collect();
    let ways = [
        (Enter::First, 0),
        (Enter::Second, FORWARD_B),
        (Enter::Third, FORWARD_B),
        (Enter::Second, BACKWARD_B),
        (Enter::Third, BACKWARD_B),
    ];
    for (enter, flags) in ways {
        let mut to = vec![0u8; SIZE];
        let backward = if flags == BACKWARD_B { SIZE } else { 0 };
        // SAFETY: both buffers are this long; backward copies begin after their ends.
        unsafe {
            let (to, from) = (to.as_mut_ptr(), from.as_ptr());
            copy(enter, flags, to.add(backward), from.add(backward), SIZE);
        }
        println!("copy {enter:?} {flags:#x}: {}", to == from);
    }
    for (enter, flags) in &ways[..3] {
        let mut to = vec![0u8; SIZE];
        // SAFETY: the buffer has this many bytes.
        unsafe { set(*enter, *flags, to.as_mut_ptr(), 0x5a, SIZE) };
        let right = to.iter().filter(|byte| **byte == 0x5a).count();
        println!("set {enter:?} {flags:#x}: {right}");
    }
    for (name, value) in [("fresh pages", 0u8), ("shared pages", 1)] {
        let to = map(1 << 20, PROT_READ | PROT_WRITE);
        // SAFETY: the buffer has this many bytes.
        let status = unsafe {
            set(Enter::First, 0, to, u64::from(value), 1 << 20);
            in_child(|| {
                set(Enter::First, 0, to, 9, 1 << 20);
                let bytes = std::slice::from_raw_parts(to, 1 << 20);
                println!("{name}: {}", bytes.iter().all(|byte| *byte == 9));
            })
        };
        tell_end(name, status);
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(to, 1 << 20) };
        println!("the parent's: {}", bytes.iter().all(|byte| *byte == value));
    }
    tell_end(
        "beyond the end",
        in_child(|| {
            // SAFETY: the handler has the signature that SA_SIGINFO requires; it ends the process.
            unsafe {
                let mut action: libc::sigaction = mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
                let to = map(8192, PROT_READ | PROT_WRITE);
                libc::mprotect(to.add(4096).cast(), 4096, PROT_READ);
                LIMIT = to as usize + 4096;
                set(Enter::First, 0, to, 1, 8192);
            }
        }),
    );
}
