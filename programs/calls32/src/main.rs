//! Times a system call and faults in a 32-bit program, and prints lines like `programs/crossings`:
//! `name least median ns window`. Under QEMU's `-icount shift=0` a nanosecond is an instruction.
//!
//!     calls32 [ROW]

use std::{env, ptr};

/// Measured batches, after one to warm up.
const BATCHES: usize = 5;
/// Operations in one batch.
const TIMES: usize = 1000;
const PAGE: usize = 4096;

fn main() {
    row::<8>(
        "null_call",
        "getppid, the loop's 3 instructions included",
        || {},
        null_calls,
    );
    let memory = anonymous(TIMES * PAGE);
    let pages = || (0..TIMES).map(|page| memory.wrapping_add(page * PAGE));
    // SAFETY: the mapping has this length, and nothing else uses it.
    let forget = || unsafe { libc::madvise(memory.cast(), TIMES * PAGE, libc::MADV_DONTNEED) };
    let absent = || assert_eq!(forget(), 0);
    let read = || {
        for page in pages() {
            // SAFETY: as above.
            unsafe { page.read_volatile() };
        }
    };
    // SAFETY: as above.
    let write = || pages().for_each(|page| unsafe { page.write_volatile(1) });
    read();
    row::<9>(
        "anon_read",
        "first read of a page of anonymous memory (zero page), tables there",
        absent,
        read,
    );
    row::<10>(
        "anon_write",
        "first write to a page of anonymous memory, zeroing inside, tables there",
        absent,
        write,
    );
    // Only on request, since it measures another system.
    if env::args().len() > 1 {
        catch_undefined();
        row::<11>(
            "undefined",
            "UDF to a SIGILL handler that skips it and returns",
            || {},
            undefined,
        );
    }
}

/// Times `work`, which does [`TIMES`] operations, and prints a line, if the row is requested.
/// `prepare` is not timed. `TAG` marks the work for QEMU's plugin.
fn row<const TAG: usize>(name: &str, window: &str, prepare: impl Fn(), work: impl Fn()) {
    if env::args().nth(1).is_some_and(|wanted| wanted != name) {
        return;
    }
    let mut times: Vec<_> = (0..=BATCHES)
        .map(|_| {
            prepare();
            let start = now();
            mark::<TAG>();
            work();
            mark::<0>();
            now() - start
        })
        .skip(1)
        .collect();
    times.sort_unstable();
    let each = |time: u64| format!("{:.1}", time as f64 / TIMES as f64);
    println!(
        "{name} {} {} ns {window}",
        each(times[0]),
        each(times[BATCHES / 2])
    );
}

/// Installs a SIGILL handler that skips the undefined instruction.
fn catch_undefined() {
    extern "C" fn skip(_: i32, _: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        #[cfg(target_arch = "arm")]
        // SAFETY: the kernel passes a complete context.
        unsafe {
            (*_context.cast::<libc::ucontext_t>()).uc_mcontext.arm_pc += 4
        };
    }
    // SAFETY: the handler has the signature that SA_SIGINFO requires.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = skip as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGILL, &action, ptr::null_mut());
    }
}

/// Executes instructions that no kernel emulates.
fn undefined() {
    #[cfg(target_arch = "arm")]
    for _ in 0..TIMES {
        // SAFETY: the handler skips it.
        unsafe { core::arch::asm!("udf #1", options(nostack)) };
    }
}

/// Executes `dbg #TAG`, a hint that has no effect but that QEMU's plugin sees.
#[inline(always)]
fn mark<const TAG: usize>() {
    #[cfg(target_arch = "arm")]
    // SAFETY: a hint for debuggers.
    unsafe {
        core::arch::asm!("dbg #{}", const TAG, options(nostack, preserves_flags))
    };
}

/// `CLOCK_MONOTONIC` in nanoseconds.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Maps anonymous memory in small pages.
fn anonymous(length: usize) -> *mut u8 {
    let (prot, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping of our own.
    unsafe {
        let memory = libc::mmap(ptr::null_mut(), length, prot, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        // A kernel without huge pages refuses this advice, and does not need it.
        libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
        memory.cast()
    }
}

/// Calls getppid by the instruction itself.
#[cfg(target_arch = "arm")]
fn null_calls() {
    // SAFETY: the call takes no argument and changes only r0.
    unsafe {
        core::arch::asm!("2:", "svc #0", "subs {times}, {times}, #1", "bne 2b",
            times = inout(reg) TIMES => _, in("r7") libc::SYS_getppid, out("r0") _, options(nostack));
    }
}

/// Calls getppid by libc, if the program is not for 32-bit Arm.
#[cfg(not(target_arch = "arm"))]
fn null_calls() {
    for _ in 0..TIMES {
        // SAFETY: the call takes no argument.
        unsafe { libc::getppid() };
    }
}
