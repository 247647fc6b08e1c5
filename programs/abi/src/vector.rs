//! RISC-V vectors: the programs that may use them, and registers that must survive other programs,
//! signals and tracers.
//!
//! No compared value stays in registers over a system call, which preserves none.

use std::arch::asm;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

use crate::held::{MANY, Shared, count_kept, fill};
use crate::{in_child, tell, tell_end};

const PR_RISCV_V_SET_CONTROL: i32 = 69;
const PR_RISCV_V_GET_CONTROL: i32 = 70;
const OFF: usize = 1;
const ON: usize = 2;
const NEXT: usize = 1 << 2;
const INHERIT: usize = 1 << 4;
const NT_RISCV_VECTOR: usize = 0x901;
const VECTOR_MAGIC: u32 = 0x5346_5457;
/// Runs this part.
pub fn run() {
    // SAFETY: only queries.
    let [caps, stack] =
        unsafe { [libc::AT_HWCAP, libc::AT_MINSIGSTKSZ].map(|n| libc::getauxval(n)) };
    println!("vectors: {}, a signal's stack: {stack}", caps >> 21 & 1);
    controlled();
    let shared = Shared::new();
    // SAFETY: children end by _exit or are waited for, and every structure passed is complete.
    unsafe {
        unused();
        println!("a register: {} bytes", length());
        inherited();
        preempted(shared);
        signalled(shared);
        traced(shared);
    }
}

/// Prints the settings, and the effect of an instruction, after an execve.
pub fn after_exec() {
    get_control();
    // SAFETY: reads the vector length.
    tell_end(
        "an instruction",
        in_child(|| unsafe {
            length();
        }),
    );
}

fn set_control(argument: usize) {
    // SAFETY: no vector register is in use.
    let result = unsafe { libc::prctl(PR_RISCV_V_SET_CONTROL, argument, 0, 0, 0) };
    tell(&format!("set {argument:#x}"), result);
}

fn get_control() {
    // SAFETY: only a query.
    tell("control", unsafe {
        libc::prctl(PR_RISCV_V_GET_CONTROL, 0, 0, 0, 0)
    });
}

fn exec_self() {
    let words = [c"abi".as_ptr(), c"vector-exec".as_ptr(), ptr::null()];
    // SAFETY: the array ends with a null pointer.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), words.as_ptr()) };
}

fn controlled() {
    get_control();
    for argument in [
        0,
        OFF,
        ON,
        3,
        3 * NEXT,
        32,
        INHERIT,
        INHERIT | (ON * NEXT),
        0,
    ] {
        set_control(argument);
        get_control();
    }
    for argument in [OFF * NEXT, (OFF * NEXT) | INHERIT] {
        let status = in_child(|| {
            set_control(argument);
            // SAFETY: reads the vector length.
            tell_end(
                "still allowed",
                in_child(|| unsafe {
                    length();
                }),
            );
            exec_self();
        });
        tell_end("child", status);
    }
}

/// The length of a register in bytes.
unsafe fn length() -> usize {
    let length;
    unsafe { asm!("csrr {}, 0xc22", out(reg) length) };
    length
}

/// vl, vtype and vcsr, and v0 to v31.
#[derive(Clone, PartialEq, Debug)]
struct Image {
    control: [usize; 3],
    bytes: Vec<u8>,
}

impl Image {
    unsafe fn zero() -> Image {
        Image {
            control: [0; 3],
            bytes: vec![0; 32 * unsafe { length() }],
        }
    }

    /// Fills an image pseudo-randomly; each `seed` gives other values.
    unsafe fn of(seed: u32) -> Image {
        let mut image = unsafe { Image::zero() };
        fill(&mut image.bytes, seed);
        let seed = seed as usize;
        // Elements of 8 to 64 bits, in one register or two.
        image.control = [1 + seed % 2, ((seed % 4) << 3) | (seed / 4 % 2), seed % 8];
        image
    }
}

/// Keeps `image` in the registers from when it adds one to `ready` until `until` reaches `count`;
/// returns their values then.
unsafe fn hold(image: &Image, shared: &Shared, until: &AtomicU32, count: u32) -> Image {
    let [vl, vtype, vcsr] = image.control;
    let mut found = image.clone();
    found.bytes.fill(0);
    unsafe {
        asm!(
            ".option push",
            ".option arch, +v",
            "vl8re8.v v0, ({from})",
            "add {from}, {from}, {step}",
            "vl8re8.v v8, ({from})",
            "add {from}, {from}, {step}",
            "vl8re8.v v16, ({from})",
            "add {from}, {from}, {step}",
            "vl8re8.v v24, ({from})",
            "vsetvl zero, {vl}, {vtype}",
            "csrw vcsr, {vcsr}",
            "amoadd.w.aqrl zero, {one}, ({ready})",
            "2: lw {word}, ({until})",
            "bltu {word}, {count}, 2b",
            "csrr {vl}, vl",
            "csrr {vtype}, vtype",
            "csrr {vcsr}, vcsr",
            "vs8r.v v0, ({to})",
            "add {to}, {to}, {step}",
            "vs8r.v v8, ({to})",
            "add {to}, {to}, {step}",
            "vs8r.v v16, ({to})",
            "add {to}, {to}, {step}",
            "vs8r.v v24, ({to})",
            ".option pop",
            from = inout(reg) image.bytes.as_ptr() => _,
            to = inout(reg) found.bytes.as_mut_ptr() => _,
            step = in(reg) image.bytes.len() / 4,
            vl = inout(reg) vl => found.control[0],
            vtype = inout(reg) vtype => found.control[1],
            vcsr = inout(reg) vcsr => found.control[2],
            one = in(reg) 1,
            ready = in(reg) &shared.ready,
            until = in(reg) until,
            count = in(reg) count,
            word = out(reg) _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _, out("v28") _, out("v29") _, out("v30") _, out("v31") _,
            options(nostack),
        )
    };
    found
}

/// A child of a process that uses vectors finds none of its parent's values.
unsafe fn inherited() {
    unsafe {
        let always = AtomicU32::new(1);
        let here = Shared {
            ready: AtomicU32::new(0),
            go: AtomicU32::new(0),
        };
        let image = Image::of(3);
        println!("kept: {}", hold(&image, &here, &always, 1) == image);
        let status = in_child(|| {
            let mut bytes = vec![1; 32 * length()];
            asm!(
                ".option push", ".option arch, +v", "vs8r.v v8, ({to})", ".option pop",
                to = in(reg) bytes.as_mut_ptr(), options(nostack),
            );
            let quarter = bytes.len() / 4;
            let parents = &image.bytes[8 * length()..][..quarter];
            println!("child has its parent's: {}", bytes[..quarter] == *parents);
        });
        tell_end("child", status);
    }
}

/// More processes than CPUs keep their registers apart.
unsafe fn preempted(shared: &Shared) {
    let kept = count_kept(shared, |seed| unsafe {
        let image = Image::of(seed);
        hold(&image, shared, &shared.ready, MANY) == image
    });
    println!("{kept} of {MANY} kept their registers");
}

/// The value that the handler of SIGUSR1 expects, and the state of the processes that it releases.
static WANTED: AtomicUsize = AtomicUsize::new(0);
static LET_GO: AtomicUsize = AtomicUsize::new(0);
/// The record's magic number and size, vl, vtype, vcsr and length, and whether it held the expected
/// values.
static RECORD: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];

/// `struct __riscv_ctx_hdr`, and the vector record after it.
#[repr(C)]
struct Record {
    magic: u32,
    size: u32,
    vstart: usize,
    control: [usize; 3],
    length: usize,
    data: *mut u8,
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the frame comes from the kernel, and the statics' targets live until the signal has
    // come.
    unsafe {
        // The machine context has 32 registers and 528 bytes, the last 8 of which are the header of
        // a record; in libc's structure it is at 176.
        let record = &mut *context.byte_add(176 + 256 + 520).cast::<Record>();
        let tell = |at: usize, value: usize| RECORD[at].store(value, SeqCst);
        tell(0, record.magic as usize);
        tell(1, record.size as usize);
        if record.magic == VECTOR_MAGIC {
            for (at, control) in record.control.iter().enumerate() {
                tell(2 + at, *control);
            }
            tell(5, record.length);
            if let Some(wanted) = (WANTED.load(SeqCst) as *mut Image).as_mut() {
                let found = std::slice::from_raw_parts_mut(record.data, wanted.bytes.len());
                tell(6, usize::from(found == wanted.bytes.as_slice()));
                // A byte of v9, and the rounding mode.
                found[9 * record.length + 3] ^= 0xff;
                record.control[2] ^= 2;
                wanted.bytes.copy_from_slice(found);
                wanted.control = record.control;
                let here = Shared {
                    ready: AtomicU32::new(0),
                    go: AtomicU32::new(0),
                };
                hold(&Image::zero(), &here, &AtomicU32::new(1), 1);
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

fn tell_record(whose: &str) {
    let [magic, size, vl, vtype, vcsr, length, same] =
        [0, 1, 2, 3, 4, 5, 6].map(|at| RECORD[at].load(SeqCst));
    println!(
        "record of {whose}: magic {magic:#x}, {size} bytes, vl {vl}, vtype {vtype:#x}, vcsr {vcsr}, registers of {length}, \
         as held {same}"
    );
}

/// The frame of a thread that does not use vectors.
unsafe fn unused() {
    let status = in_child(|| {
        // SAFETY: the handler only looks.
        unsafe {
            handle();
            libc::raise(libc::SIGUSR1);
        }
        tell_record("a thread without");
    });
    tell_end("child", status);
}

/// A signal frame holds the registers; changes to it reach the program, and nothing else does.
unsafe fn signalled(shared: &Shared) {
    unsafe {
        handle();
        shared.reset();
        let mut image = Image::of(5);
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
        let found = hold(&held, shared, &shared.go, 1);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell_record("a thread with vectors");
        println!("as the handler left them: {}", found == image);
        WANTED.store(0, SeqCst);
        LET_GO.store(0, SeqCst);
    }
}

unsafe fn registers(request: u32, pid: i32, bytes: &mut [u8]) -> (i64, usize) {
    let mut range = [bytes.as_mut_ptr() as usize, bytes.len()];
    let at = (&raw mut range) as usize;
    let kind = NT_RISCV_VECTOR;
    let result = unsafe { libc::syscall(libc::SYS_ptrace, request as usize, pid, kind, at) };
    (result, range[1])
}

/// A tracer reads and changes the registers.
unsafe fn traced(shared: &Shared) {
    const HEAD: usize = 40;
    unsafe {
        let image = Image::of(9);
        let mut changed = image.clone();
        changed.bytes[17 * length() + 3] ^= 0xff;
        changed.control[2] ^= 3;
        shared.reset();
        let child = libc::fork();
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            let found = hold(&image, shared, &shared.go, 1);
            libc::_exit(i32::from(found != changed));
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        let mut bytes = vec![0; 16384];
        let get = libc::PTRACE_GETREGSET as u32;
        let set = libc::PTRACE_SETREGSET as u32;
        tell(
            "get before the first use",
            registers(get, child, &mut bytes).0,
        );
        libc::ptrace(libc::PTRACE_CONT, child, 0, 0);
        shared.await_ready();
        libc::kill(child, libc::SIGSTOP);
        libc::waitpid(child, &mut status, 0);
        let (result, size) = registers(get, child, &mut bytes);
        tell("get registers", result);
        println!("set of {size} bytes");
        let size = HEAD + image.bytes.len();
        let word = |bytes: &[u8], at: usize| bytes[8 * at];
        println!(
            "vstart {}, control as held: {}, length {}",
            word(&bytes, 0),
            (0..3).all(|at| usize::from(word(&bytes, at + 1)) == image.control[at]),
            word(&bytes, 4)
        );
        println!("as held: {}", bytes[HEAD..size] == image.bytes);
        bytes[8 * 4] ^= 1;
        tell(
            "set another length",
            registers(set, child, &mut bytes[..size]).0,
        );
        bytes[8 * 4] ^= 1;
        tell("set half a word", registers(set, child, &mut bytes[..42]).0);
        bytes[8 * 3] ^= 3;
        bytes[HEAD..size].copy_from_slice(&changed.bytes);
        tell("set registers", registers(set, child, &mut bytes[..size]).0);
        shared.go.store(1, SeqCst);
        libc::ptrace(libc::PTRACE_CONT, child, 0, 0);
        libc::waitpid(child, &mut status, 0);
        tell_end("traced", status);
    }
}
