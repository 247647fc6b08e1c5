//! SVE: vector lengths, and registers that must survive other programs, signals, forks and tracers.
//!
//! No compared value stays in registers over a system call, which only preserves V0 to V31.

use std::arch::asm;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

use crate::held::{MANY, Shared, count_kept, fill};
use crate::{in_child, tell, tell_end};

const QUAD: usize = 16;
const PR_SVE_SET_VL: i32 = 50;
const PR_SVE_GET_VL: i32 = 51;
const DEFERRED: usize = 1 << 18;
const INHERITED: usize = 1 << 17;
const NT_ARM_SVE: usize = 0x405;
const SVE_MAGIC: u32 = 0x5356_4501;
const EXTRA_MAGIC: u32 = 0x4558_5401;

/// Runs this part.
pub fn run() {
    // SAFETY: children end by _exit or are waited for, and every structure passed is complete.
    unsafe {
        println!("sve: {}", libc::getauxval(libc::AT_HWCAP) >> 22 & 1);
        lengths();
        let shared = Shared::new();
        for length in [16, 64, 256] {
            set_length(length);
            preempted(shared, length);
            forked(length);
            called(length);
            signalled(shared, length);
            traced(shared, length);
        }
        unused();
    }
}

/// Prints the length, and that after a further execve, with the arguments so far.
pub fn after_exec() {
    get_length();
    if std::env::args().nth(2).is_none() {
        exec_self("again");
    }
}

unsafe fn prctl(option: i32, argument: usize) -> i32 {
    unsafe { libc::prctl(option, argument, 0, 0, 0) }
}

fn set_length(argument: usize) {
    // SAFETY: no vector register is in use.
    tell(&format!("set {argument:#x}"), unsafe {
        prctl(PR_SVE_SET_VL, argument)
    });
}

fn get_length() {
    // SAFETY: only a query.
    tell("length", unsafe { prctl(PR_SVE_GET_VL, 0) });
}

fn exec_self(last: &str) {
    let words = [c"abi".as_ptr(), c"sve-exec".as_ptr()];
    let last = std::ffi::CString::new(last).expect("no zero");
    let last = if last.is_empty() {
        ptr::null()
    } else {
        last.as_ptr()
    };
    let arguments = [words[0], words[1], last, ptr::null()];
    // SAFETY: the array ends with a null pointer.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr()) };
}

fn lengths() {
    get_length();
    for argument in [0, 24, 8208, 1 << 20 | 16, 32, 100 * QUAD, 8192, 64] {
        set_length(argument);
    }
    for argument in [DEFERRED | 48, INHERITED | 32, DEFERRED | INHERITED | 128] {
        let status = in_child(|| {
            set_length(argument);
            get_length();
            exec_self("");
        });
        tell_end("child", status);
    }
    let status = in_child(|| {
        set_length(32);
        tell_end("child of its own", in_child(get_length));
        exec_self("");
    });
    tell_end("child", status);
}

/// Z0 to Z31, P0 to P15 and FFR.
#[derive(Clone, PartialEq)]
struct Image(Vec<u8>);

impl Image {
    fn new(length: usize) -> Image {
        Image(vec![0; 32 * length + 17 * length / 8])
    }

    /// Fills an image pseudo-randomly; each `seed` gives other values. In FFR the low bits must be
    /// set.
    fn of(length: usize, seed: u32) -> Image {
        let mut image = Image::new(length);
        fill(&mut image.0, seed);
        let start = image.0.len() - length / 8;
        let bits = 3 + seed as usize % (length - 3);
        for (at, byte) in image.0[start..].iter_mut().enumerate() {
            *byte = (0..8).map(|bit| u8::from(at * 8 + bit < bits) << bit).sum();
        }
        image
    }
}

macro_rules! all_registers {
    ($asm:ident!($($body:tt)*), $($rest:tt)*) => {
        $asm!(
            ".arch_extension sve",
            $($body)*
            $($rest)*
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _, out("v28") _, out("v29") _, out("v30") _, out("v31") _,
            options(nostack),
        )
    };
}

/// Loads all registers.
macro_rules! load {
    () => {
        "ldr p0, [{from_p}, #16, mul vl]
        wrffr p0.b
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        ldr z\\n, [{from}, #\\n, mul vl]
        .endr
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        ldr p\\n, [{from_p}, #\\n, mul vl]
        .endr"
    };
}

/// Stores all registers.
macro_rules! store {
    () => {
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        str z\\n, [{to}, #\\n, mul vl]
        .endr
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        str p\\n, [{to_p}, #\\n, mul vl]
        .endr
        rdffr p0.b
        str p0, [{to_p}, #16, mul vl]"
    };
}

/// Keeps `image` in the registers from when it adds one to `ready` until `until` reaches `count`;
/// returns their values then.
// The compiler counts an `.irp` as a few instructions: in a large function its own branches would
// not reach.
#[inline(never)]
unsafe fn hold(
    image: &Image,
    length: usize,
    shared: &Shared,
    until: &AtomicU32,
    count: u32,
) -> Image {
    let mut found = Image::new(length);
    let (from, to) = (image.0.as_ptr(), found.0.as_mut_ptr());
    unsafe {
        all_registers!(
            asm!(
                load!(),
                "2: ldaxr {word:w}, [{ready}]",
                "add {word:w}, {word:w}, #1",
                "stlxr {failed:w}, {word:w}, [{ready}]",
                "cbnz {failed:w}, 2b",
                "3: ldar {word:w}, [{until}]",
                "cmp {word:w}, {count:w}",
                "b.lo 3b",
                store!(),
            ),
            from = in(reg) from,
            from_p = in(reg) from.add(32 * length),
            to = in(reg) to,
            to_p = in(reg) to.add(32 * length),
            ready = in(reg) &shared.ready,
            until = in(reg) until,
            count = in(reg) count,
            word = out(reg) _,
            failed = out(reg) _,
        )
    };
    found
}

/// More processes than CPUs keep their registers apart.
unsafe fn preempted(shared: &Shared, length: usize) {
    let kept = count_kept(shared, |seed| {
        let image = Image::of(length, seed);
        // SAFETY: vectors have this length.
        unsafe { hold(&image, length, shared, &shared.ready, MANY) == image }
    });
    println!("{length} bytes: {kept} of {MANY} kept their registers");
}

/// A system call preserves V0 to V31, and zeroes all else.
#[inline(never)]
unsafe fn called(length: usize) {
    let image = Image::of(length, 78);
    let mut found = Image::new(length);
    let (from, to) = (image.0.as_ptr(), found.0.as_mut_ptr());
    unsafe {
        all_registers!(
            asm!(
                load!(),
                "svc #0",
                store!(),
            ),
            from = in(reg) from,
            from_p = in(reg) from.add(32 * length),
            to = in(reg) to,
            to_p = in(reg) to.add(32 * length),
            out("x0") _,
            in("x8") libc::SYS_getppid,
        )
    };
    let vectors = |image: &Image, part: std::ops::Range<usize>| -> Vec<u8> {
        let of = |n: usize| image.0[n * length..][..length][part.clone()].to_vec();
        (0..32).flat_map(of).collect()
    };
    let kept = vectors(&image, 0..QUAD) == vectors(&found, 0..QUAD);
    let rest = [
        vectors(&found, QUAD..length),
        found.0[32 * length..].to_vec(),
    ]
    .concat();
    println!(
        "a call keeps V: {kept}, zeroes the rest: {}",
        rest.iter().all(|&byte| byte == 0)
    );
}

/// A fork preserves V0 to V31 in parent and child.
unsafe fn forked(length: usize) {
    let image = Image::of(length, 77);
    let mut found = Image::new(length);
    let (from, to) = (image.0.as_ptr(), found.0.as_mut_ptr());
    let child: i64;
    unsafe {
        all_registers!(
            asm!(
                load!(),
                "svc #0",
                store!(),
            ),
            from = in(reg) from,
            from_p = in(reg) from.add(32 * length),
            to = in(reg) to,
            to_p = in(reg) to.add(32 * length),
            inout("x0") i64::from(libc::SIGCHLD) => child,
            in("x1") 0i64,
            in("x2") 0i64,
            in("x3") 0i64,
            in("x4") 0i64,
            in("x8") libc::SYS_clone,
        )
    };
    let low = |image: &Image, n: usize| image.0[n * length..n * length + QUAD].to_vec();
    let same = (0..32).all(|n| low(&image, n) == low(&found, n));
    if child == 0 {
        unsafe { libc::_exit(i32::from(!same)) };
    }
    let mut status = 0;
    unsafe { libc::waitpid(child as i32, &mut status, 0) };
    println!("parent after a fork: {same}");
    tell_end("child after a fork", status);
}

/// The value that the handler of SIGUSR1 expects, and the state of the processes that it releases.
static WANTED: AtomicUsize = AtomicUsize::new(0);
static LET_GO: AtomicUsize = AtomicUsize::new(0);
/// The record's length and size, whether it was in the frame itself, and whether it held the
/// expected values.
static RECORD: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// The SVE record in a frame, and whether it is in the frame itself.
unsafe fn record(context: *const libc::c_void) -> Option<(*mut u8, bool)> {
    unsafe {
        // The records in `uc_mcontext` follow fault address, 31 registers, sp, pc and pstate,
        // aligned to 16.
        let machine = &raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        let mut at = (machine as usize + 8 * 35).next_multiple_of(16) as *mut u8;
        let mut own = true;
        loop {
            let [magic, size] = at.cast::<[u32; 2]>().read();
            match magic {
                0 => return None,
                SVE_MAGIC => return Some((at, own)),
                EXTRA_MAGIC => {
                    at = at.add(8).cast::<*mut u8>().read();
                    own = false;
                }
                _ => at = at.add(size as usize),
            }
        }
    }
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the frame comes from the kernel, and the statics' targets live until the signal has
    // come.
    unsafe {
        if let Some((at, own)) = record(context) {
            let size = at.add(4).cast::<u32>().read() as usize;
            let length = at.add(8).cast::<u16>().read() as usize;
            RECORD[0].store(length, SeqCst);
            RECORD[1].store(size, SeqCst);
            RECORD[2].store(usize::from(own), SeqCst);
            let wanted = WANTED.load(SeqCst) as *mut Image;
            if size > QUAD && !wanted.is_null() {
                let found = std::slice::from_raw_parts_mut(at.add(QUAD), (*wanted).0.len());
                RECORD[3].store(usize::from(found == (*wanted).0.as_slice()), SeqCst);
                // P3, and the last byte of Z7 if that is not in V7.
                let predicate = 32 * length + 3 * length / 8;
                found[predicate] ^= 0xff;
                if length > QUAD {
                    found[8 * length - 1] ^= 0xff;
                }
                (*wanted).0.copy_from_slice(found);
                hold(
                    &Image::new(length),
                    length,
                    &*(LET_GO.load(SeqCst) as *const Shared),
                    &AtomicU32::new(1),
                    1,
                );
            }
        }
        if let Some(shared) = (LET_GO.load(SeqCst) as *const Shared).as_ref() {
            shared.go.store(1, SeqCst);
        }
    }
}

unsafe fn handle() {
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
    }
}

/// A signal frame holds the registers; changes to it reach the program, and nothing else does.
unsafe fn signalled(shared: &Shared, length: usize) {
    unsafe {
        handle();
        shared.reset();
        let mut image = Image::of(length, 5);
        WANTED.store(&raw mut image as usize, SeqCst);
        LET_GO.store(ptr::from_ref(shared) as usize, SeqCst);
        let parent = libc::getpid();
        let child = libc::fork();
        if child == 0 {
            shared.await_ready();
            libc::kill(parent, libc::SIGUSR1);
            libc::_exit(0);
        }
        let held = image.clone();
        let found = hold(&held, length, shared, &shared.go, 1);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        let [length, size, own, same] = [0, 1, 2, 3].map(|at| RECORD[at].load(SeqCst));
        println!("record of {length}-byte vectors: {size} bytes, own room {own}, as held {same}");
        println!("as the handler left them: {}", found == image);
        WANTED.store(0, SeqCst);
        LET_GO.store(0, SeqCst);
    }
}

/// The frame of a thread that does not use SVE.
unsafe fn unused() {
    let status = in_child(|| {
        // SAFETY: the handler only looks.
        unsafe {
            handle();
            libc::raise(libc::SIGUSR1);
        }
        let [length, size] = [0, 1].map(|at| RECORD[at].load(SeqCst));
        println!("record of a thread without: {length}-byte vectors, {size} bytes");
    });
    tell_end("child", status);
}

unsafe fn registers(request: u32, pid: i32, bytes: &mut [u8]) -> (i64, usize) {
    let mut range = [bytes.as_mut_ptr() as usize, bytes.len()];
    let at = (&raw mut range) as usize;
    let result = unsafe { libc::syscall(libc::SYS_ptrace, request as usize, pid, NT_ARM_SVE, at) };
    (result, range[1])
}

/// A tracer reads and changes the registers.
unsafe fn traced(shared: &Shared, length: usize) {
    unsafe {
        shared.reset();
        let image = Image::of(length, 9);
        let mut changed = image.clone();
        changed.0[9 * length + 3] ^= 0xff;
        changed.0[32 * length + 5 * length / 8] ^= 0xff;
        let child = libc::fork();
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            let found = hold(&image, length, shared, &shared.go, 1);
            libc::_exit(i32::from(found != changed));
        }
        shared.await_ready();
        libc::kill(child, libc::SIGSTOP);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        let mut bytes = vec![0; 16384];
        let (result, size) = registers(libc::PTRACE_GETREGSET as u32, child, &mut bytes);
        tell("get registers", result);
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        println!("set of {size} bytes, {} told, {} at most", word(0), word(4));
        println!(
            "length {}, {} at most, flags {}",
            half(8),
            half(10),
            half(12)
        );
        let end = QUAD + image.0.len();
        println!("as held: {}", bytes[QUAD..end] == image.0);
        bytes[QUAD..end].copy_from_slice(&changed.0);
        let (result, _) = registers(libc::PTRACE_SETREGSET as u32, child, &mut bytes[..size]);
        tell("set registers", result);
        shared.go.store(1, SeqCst);
        libc::ptrace(libc::PTRACE_CONT, child, 0, 0);
        libc::waitpid(child, &mut status, 0);
        tell_end("traced", status);
    }
}
