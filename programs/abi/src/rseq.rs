//! Restartable sequences, and membarrier(2).

use std::arch::global_asm;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: the areas outlive the threads that register them, or are unregistered.
    unsafe {
        registering();
        sections();
        undeliverable();
        barriers();
    }
}

/// `struct rseq` (include/uapi/linux/rseq.h).
#[repr(C, align(32))]
struct Area {
    start: u32,
    id: u32,
    section: usize,
    flags: u32,
    node: u32,
    concurrency: u32,
    end: u32,
}

impl Area {
    const fn new() -> Self {
        Area {
            start: 0,
            id: u32::MAX,
            section: 0,
            flags: 0,
            node: 0,
            concurrency: 0,
            end: 0,
        }
    }
}

const SIGNATURE: u32 = 0x5305_3053;
const UNREGISTER: i32 = 1;

unsafe fn rseq(area: *const Area, len: u32, flags: i32, signature: u32) -> i64 {
    unsafe { libc::syscall(libc::SYS_rseq, area, len, flags, signature) }
}

unsafe fn registering() {
    unsafe {
        let mut area = Area::new();
        let at = &raw mut area;
        tell("too short", rseq(at, 16, 0, SIGNATURE));
        tell("misaligned", rseq(at.byte_add(8), 32, 0, SIGNATURE));
        tell("odd flags", rseq(at, 32, 2, SIGNATURE));
        tell(
            "beyond memory",
            rseq(usize::MAX as *const Area, 32, 0, SIGNATURE),
        );
        tell("take back none", rseq(at, 32, UNREGISTER, SIGNATURE));
        tell("register", rseq(at, 32, 0, SIGNATURE));
        let id = at.read_volatile().id;
        println!("a CPU: {}", id < 64 && at.read_volatile().start == id);
        tell("again", rseq(at, 32, 0, SIGNATURE));
        tell("again, another signature", rseq(at, 32, 0, 1));
        tell("another", rseq(at.add(1), 32, 0, SIGNATURE));
        tell_end(
            "a child's",
            in_child(|| {
                let id = at.read_volatile().id;
                let back = rseq(at, 32, UNREGISTER, SIGNATURE);
                libc::_exit((id < 64) as i32 + 2 * (back == 0) as i32);
            }),
        );
        let address = at as usize;
        let other = move || rseq(address as *const Area, 32, UNREGISTER, SIGNATURE);
        println!("a thread's: {}", thread::spawn(other).join().unwrap());
        tell("back, another signature", rseq(at, 32, UNREGISTER, 1));
        tell("back", rseq(at, 32, UNREGISTER, SIGNATURE));
        println!("no CPU: {}", at.read_volatile().id == u32::MAX);
    }
}

// A critical section that only an abort ends; the word before the abort handler is the signature.
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .data.rel.ro, \"aw\"",
    ".balign 32",
    "rseq_section: .word 0, 0",
    ".quad 2f, 3f - 2f, 4f",
    ".popsection",
    ".pushsection .text",
    ".global rseq_loop",
    "rseq_loop:",
    "   adrp x1, rseq_section",
    "   add x1, x1, :lo12:rseq_section",
    "   str x1, [x0]",
    "2: b 2b",
    "3: mov w0, #0",
    "   ret",
    "   .word 0x53053053",
    "4: mov w0, #1",
    "   ret",
    ".popsection",
);
#[cfg(target_arch = "riscv64")]
global_asm!(
    ".pushsection .data.rel.ro, \"aw\"",
    ".balign 32",
    "rseq_section: .word 0, 0",
    ".quad 2f, 3f - 2f, 4f",
    ".popsection",
    ".pushsection .text",
    ".option push",
    // With compressed instructions the signature would be unaligned.
    ".balign 4",
    ".option rvc",
    "   c.nop",
    ".option norvc",
    ".global rseq_loop",
    "rseq_loop:",
    "   lla a1, rseq_section",
    "   sd a1, 0(a0)",
    "2: j 2b",
    "3: li a0, 0",
    "   ret",
    "   .word 0x53053053",
    "4: li a0, 1",
    "   ret",
    ".option pop",
    ".popsection",
);

unsafe extern "C" {
    /// Stays in the critical section until that is aborted; returns 1.
    fn rseq_loop(section: *mut usize) -> i32;
}

static CAUGHT: AtomicBool = AtomicBool::new(false);

extern "C" fn caught(_: i32) {
    CAUGHT.store(true, SeqCst);
}

/// Sends SIGALRM at this interval in microseconds; 0 stops that.
unsafe fn ring(every: u32) {
    unsafe {
        let span = libc::timeval {
            tv_sec: 0,
            tv_usec: every as _,
        };
        let timer = libc::itimerval {
            it_interval: span,
            it_value: span,
        };
        libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut());
    }
}

unsafe fn sections() {
    unsafe {
        let mut area = Area::new();
        rseq(&raw const area, 32, 0, SIGNATURE);
        let section = &raw mut area.section;
        libc::signal(libc::SIGALRM, caught as *const () as libc::sighandler_t);
        ring(100_000);
        let mut ended = rseq_loop(section);
        while !CAUGHT.load(SeqCst) {
            // Something else aborted it before.
            ended = rseq_loop(section);
        }
        println!("a signal: {ended}");
        ring(0);
        println!("it is over: {}", section.read_volatile() == 0);
        let mut one: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(0, &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &one);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            // This thread runs on the same CPU.
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    std::hint::spin_loop()
                }
            });
            println!("another thread: {}", rseq_loop(section));
            done.store(true, Relaxed);
        });
        rseq(&raw const area, 32, UNREGISTER, SIGNATURE);
        tell_end(
            "another signature",
            in_child(|| {
                rseq(&raw const area, 32, 0, 1);
                ring(100_000);
                rseq_loop(section);
            }),
        );
    }
}

unsafe fn barriers() {
    unsafe {
        let barrier =
            |command: i32, flags: u32| libc::syscall(libc::SYS_membarrier, command, flags, 0);
        tell("barriers", barrier(0, 0));
        tell("odd flags", barrier(0, 1));
        tell("odd command", barrier(3, 0));
        tell("another odd command", barrier(1 << 20, 0));
        tell("registered", barrier(512, 0));
        for (what, command) in [("private", 8), ("of code", 32), ("of sequences", 128)] {
            tell(what, barrier(command, 0));
            tell("register", barrier(command * 2, 0));
            tell("then", barrier(command, 0));
        }
        tell("registered", barrier(512, 0));
        tell("global", barrier(1, 0));
        tell("global, expedited", barrier(2, 0));
        let (flag, seen) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                flag.store(true, Relaxed);
                while !seen.load(Relaxed) {
                    std::hint::spin_loop()
                }
            });
            while !flag.load(Relaxed) {
                std::hint::spin_loop()
            }
            tell("beside a running thread", barrier(8, 0));
            seen.store(true, Relaxed);
        });
    }
}

/// An invalid critical section at the delivery of a signal causes SIGSEGV, whose delivery fails
/// too, and kills the process.
unsafe fn undeliverable() {
    extern "C" fn handler(_: i32) {}
    for signal in [libc::SIGUSR1, libc::SIGSEGV] {
        let end = in_child(|| {
            // SAFETY: the process ends here.
            unsafe {
                let area = Box::leak(Box::new(Area::new()));
                tell("register", rseq(area, 32, 0, SIGNATURE));
                for handled in [libc::SIGUSR1, libc::SIGSEGV] {
                    libc::signal(handled, handler as *const () as usize);
                }
                (&raw mut area.section).write_volatile(8);
                libc::raise(signal);
                println!("lives");
            }
        });
        tell_end(&format!("a bad section at signal {signal}"), end);
    }
}
