//! The kernel's user helpers at the top of the address space, the thread pointer, and code
//! generated at run time.

use std::arch::asm;
use std::mem;
use std::ptr;

use crate::tell;

const CACHEFLUSH: libc::c_long = 0xf_0002;
const SET_TLS: libc::c_long = 0xf_0005;

fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe { asm!("mrc p15, 0, {}, c13, c0, 3", out(reg) pointer) };
    pointer
}

/// Runs this part.
pub fn run() {
    // SAFETY: the helpers' addresses are documented (Linux's kernel_user_helpers.rst).
    unsafe {
        let version = ptr::with_exposed_provenance::<i32>(0xffff_0ffc).read_volatile();
        println!("version {version}");
        let exchange: extern "C" fn(i32, i32, *mut i32) -> i32 = mem::transmute(0xffff_0fc0usize);
        let mut word = 5;
        let done = exchange(5, 6, &mut word);
        println!("cmpxchg: {done} {word}");
        let refused = exchange(5, 7, &mut word) != 0;
        println!("cmpxchg of another value: {refused} {word}");
        let exchange: extern "C" fn(*const i64, *const i64, *mut i64) -> i32 =
            mem::transmute(0xffff_0f60usize);
        let mut long = 1i64 << 40;
        let done = exchange(&(1 << 40), &-2, &mut long);
        println!("cmpxchg64: {done} {long}");
        let refused = exchange(&-3, &0, &mut long) != 0;
        println!("cmpxchg64 of another value: {refused} {long}");
        mem::transmute::<usize, extern "C" fn()>(0xffff_0fa0)();
        let get_tls: extern "C" fn() -> usize = mem::transmute(0xffff_0fe0usize);
        println!("get_tls: {}", get_tls() == thread_pointer());
        let own = thread_pointer();
        // Nothing between the two calls may use thread-local storage.
        let (set, seen, back): (isize, usize, isize);
        asm!(
            "mov r0, {other}",
            "svc #0",
            "mov {set}, r0",
            "mrc p15, 0, {seen}, c13, c0, 3",
            "mov r0, {own}",
            "svc #0",
            other = in(reg) 0x1234_5678,
            own = in(reg) own,
            set = out(reg) set,
            seen = out(reg) seen,
            in("r7") SET_TLS,
            out("r0") back,
        );
        println!("set_tls: {set} {seen:#x} {back}");

        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let code = libc::mmap(ptr::null_mut(), 4096, rights, flags, -1, 0).cast::<u32>();
        for answer in [42, 43] {
            // mov r0, #answer; bx lr
            code.write_volatile(0xe3a0_0000 | answer);
            code.add(1).write_volatile(0xe12f_ff1e);
            tell(
                "cacheflush",
                libc::syscall(CACHEFLUSH, code, code.add(2), 0).into(),
            );
            println!(
                "made: {}",
                mem::transmute::<*mut u32, extern "C" fn() -> i32>(code)()
            );
        }
        tell(
            "cacheflush, upside down",
            libc::syscall(CACHEFLUSH, code.add(2), code, 0).into(),
        );
        tell(
            "cacheflush of a hole",
            libc::syscall(CACHEFLUSH, 0x10, 0x20, 0).into(),
        );
    }
}
