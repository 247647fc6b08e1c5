//! A VMM, and another thread of its process, that use SVE while their guest does.

use std::arch::{asm, global_asm};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use kvm_ioctls::VcpuFd;

use crate::code;
use crate::host::{self, PC, set};

const IOCTL: usize = 29;
const RUN: usize = 0xae80;
/// The number of the other thread's checks, and the length of its work before each.
const ROUNDS: usize = 200;
const WORK: usize = 200_000;

/// The guest's code, which begins its memory.
pub fn guest() -> &'static [u32] {
    code!(own_start, own_end)
}

/// Checks both threads' vectors, on one CPU, while the guest of this vCPU, which has SVE, changes
/// all vectors.
pub fn tell(vcpu: &VcpuFd) {
    set(vcpu, PC, host::MEMORY).expect("pc");
    host::stay();
    let (before, done) = (len(), AtomicBool::new(false));
    let (mut runs, mut lost) = (0, 0);
    let wrong = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let wrong = (0..ROUNDS).filter(|_| !compute(WORK)).count();
            done.store(true, Relaxed);
            wrong
        });
        while !done.load(Relaxed) {
            let (result, vectors) = run(vcpu);
            assert_eq!(result, 0);
            let kept =
                |(number, bytes): (u8, &[u8; 16])| bytes.iter().all(|byte| *byte == number + 1);
            lost += usize::from(!(0..).zip(&vectors).all(kept));
            runs += 1;
        }
        other.join().expect("a thread")
    });
    println!("runs: {}", if runs > 0 { "some" } else { "none" });
    println!("monitor's vectors: {lost} lost");
    println!("another thread's: {wrong} lost");
    println!(
        "their length: {}",
        if len() == before { "kept" } else { "lost" }
    );
}

/// The length of a vector in bytes.
fn len() -> usize {
    let len;
    // SAFETY: reads the vector length.
    unsafe { asm!(".arch_extension sve", "rdvl {}, #1", ".arch_extension nosve", out(reg) len) };
    len
}

/// Calls KVM_RUN with vector n filled with bytes n + 1; returns its result, and the part of the
/// vectors that a system call preserves.
fn run(vcpu: &VcpuFd) -> (i64, [[u8; 16]; 32]) {
    let mut vectors = [[0; 16]; 32];
    let result;
    // SAFETY: the request takes no argument, and the array has room for 32 vectors of FP.
    unsafe {
        asm!(
            "bl own_fill",
            "svc #0",
            "st1 {{v0.16b-v3.16b}}, [x9], #64",
            "st1 {{v4.16b-v7.16b}}, [x9], #64",
            "st1 {{v8.16b-v11.16b}}, [x9], #64",
            "st1 {{v12.16b-v15.16b}}, [x9], #64",
            "st1 {{v16.16b-v19.16b}}, [x9], #64",
            "st1 {{v20.16b-v23.16b}}, [x9], #64",
            "st1 {{v24.16b-v27.16b}}, [x9], #64",
            "st1 {{v28.16b-v31.16b}}, [x9], #64",
            inout("x0") i64::from(vcpu.as_raw_fd()) => result,
            in("x1") RUN,
            in("x2") 0,
            in("x8") IOCTL,
            inout("x9") vectors.as_mut_ptr() => _,
            clobber_abi("C"),
        );
    }
    (result, vectors)
}

/// Fills vectors, computes for `work` rounds without a system call, and returns whether the vectors
/// are unchanged.
fn compute(work: usize) -> bool {
    let different: usize;
    // SAFETY: changes only registers.
    unsafe {
        asm!(
            "bl own_fill",
            "2: subs x9, x9, #1",
            "b.ne 2b",
            "bl own_compare",
            inout("x9") work => _,
            out("x0") different,
            clobber_abi("C"),
        );
    }
    different == 0
}

global_asm!(
    ".arch_extension sve",
    ".macro each what:vararg",
    "   .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    "   \\what \\number",
    "   .endr",
    ".endm",
    ".macro fills number",
    "   mov z\\number\\().b, #(\\number + 1)",
    ".endm",
    // Sets x0 if a vector differs; p0 is all true.
    ".macro compares number",
    "   cmpne p1.b, p0/z, z\\number\\().b, #((\\number + 1) & 15)",
    "   cset x10, ne",
    "   orr x0, x0, x10",
    ".endm",
    ".macro folds number",
    "   and z\\number\\().b, z\\number\\().b, #15",
    ".endm",
    ".pushsection .text.own, \"ax\"",
    "own_fill:",
    "   ptrue p0.b",
    "   each fills",
    "   ret",
    "own_compare:",
    "   mov x0, #0",
    "   each folds",
    "   each compares",
    "   ret",
    ".popsection",
    ".pushsection .rodata.own, \"a\"",
    ".balign 2048",
    ".global own_start, own_end",
    "own_start:",
    "   mov x20, #0x0b000000",
    "   mov x0, #0x330000",
    "   msr cpacr_el1, x0",
    "   isb",
    "   mov x0, #15",
    "   msr s3_0_c1_c2_0, x0",
    "   isb",
    ".macro dirties number",
    "   mov z\\number\\().b, #-1",
    ".endm",
    "1:",
    "   ptrue p0.b",
    "   each dirties",
    "   mov x1, #1000",
    "2: subs x1, x1, #1",
    "   b.ne 2b",
    "   str x0, [x20]",
    "   b 1b",
    "own_end:",
    ".popsection",
    ".arch_extension nosve",
);
