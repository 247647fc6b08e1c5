//! Hardware breakpoints and watchpoints, set by a tracer (arm64).

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::ptrace::{go_on, ptrace, traced, wait};
use crate::tell;

const BREAK: usize = 0x402;
const WATCH: usize = 0x403;
/// Bits of a control register: enable, loads, stores, and bytes of the word.
const ON: u64 = 1;
const LOADS: u64 = 1 << 3;
const STORES: u64 = 2 << 3;
const FOUR: u64 = 0xf << 5;
const EIGHT: u64 = 0xff << 5;

static WATCHED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

#[inline(never)]
extern "C" fn stops_here() -> u64 {
    std::hint::black_box(WATCHED[1].load(SeqCst))
}

/// Sets points from the first one on.
unsafe fn set(child: i32, kind: usize, points: &[(usize, u64)]) -> i64 {
    let words = points.iter().flat_map(|point| [point.0 as u64, point.1]);
    let words: Vec<u64> = [0].into_iter().chain(words).collect();
    let range = [words.as_ptr() as usize, size_of_val(&words[..])];
    let at = (&raw const range) as usize;
    unsafe { ptrace(libc::PTRACE_SETREGSET as u32, child, kind, at) }
}

unsafe fn get(child: i32, kind: usize) -> ([u64; 40], usize) {
    let mut words = [0; 40];
    let mut range = [words.as_mut_ptr() as usize, size_of_val(&words)];
    let at = (&raw mut range) as usize;
    let got = unsafe { ptrace(libc::PTRACE_GETREGSET as u32, child, kind, at) };
    tell("get", got);
    (words, range[1])
}

/// Continues the child, and prints its next stop.
unsafe fn next(child: i32, expected: usize) {
    unsafe {
        go_on(libc::PTRACE_CONT as u32, child, 0);
        let what = wait(child);
        let mut info: libc::siginfo_t = mem::zeroed();
        let at = (&raw mut info) as usize;
        if what.starts_with("stop") {
            ptrace(libc::PTRACE_GETSIGINFO as u32, child, 0, at);
            println!(
                "{what} code {}, as expected {}",
                info.si_code,
                info.si_addr() as usize == expected
            );
        } else {
            println!("{what}");
        }
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: the child is stopped while it is inspected, and ends by _exit.
    unsafe {
        let child = traced(|| {
            stops_here();
            WATCHED[0].store(1, SeqCst);
            stops_here();
            WATCHED[0].load(SeqCst);
            let inner = libc::fork();
            if inner == 0 {
                stops_here();
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(inner, &mut status, 0);
            libc::_exit(status);
        });
        wait(child);
        for kind in [BREAK, WATCH] {
            let (words, len) = get(child, kind);
            println!(
                "{len} bytes, some {}, all free {}",
                words[0] & 0xff > 0,
                words[1..].iter().all(|&word| word == 0)
            );
        }
        let function = stops_here as *const () as usize;
        let word = WATCHED[0].as_ptr() as usize;
        tell("no bytes", set(child, WATCH, &[(word, ON | STORES)]));
        tell(
            "bytes apart",
            set(child, WATCH, &[(word, ON | STORES | 5 << 5)]),
        );
        tell(
            "a load of an instruction",
            set(child, BREAK, &[(function, ON | LOADS | FOUR)]),
        );
        tell(
            "eight bytes of instructions",
            set(child, BREAK, &[(function, ON | EIGHT)]),
        );
        tell(
            "neither load nor store",
            set(child, WATCH, &[(word, ON | EIGHT)]),
        );
        tell("break", set(child, BREAK, &[(function, ON | FOUR)]));
        let (words, _) = get(child, BREAK);
        println!("{} {:#x}", words[1] == function as u64, words[2]);
        next(child, function);
        tell("no more", set(child, BREAK, &[(function, FOUR)]));
        tell("watch", set(child, WATCH, &[(word, ON | STORES | EIGHT)]));
        next(child, word);
        let end = [(word, 0), (word + 4, ON | LOADS | FOUR)];
        tell("watch loads of its end", set(child, WATCH, &end));
        let (words, _) = get(child, WATCH);
        println!("{} {:#x}", words[3] == word as u64, words[4]);
        next(child, word);
        tell("no more", set(child, WATCH, &[(word, 0), (word, 0)]));
        // A child of the tracee inherits none.
        tell("break", set(child, BREAK, &[(function, ON | FOUR)]));
        next(child, 0);
    }
}
