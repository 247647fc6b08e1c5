//! The vDSO: the kernel's code that runs in programs. A separate shared object, built by build.rs.
//!
//! The time is computed from the counter and three numbers in the page before the object, which the
//! kernel writes rarely and one at a time.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::ptr::{addr_of, read_volatile};

#[path = "data.rs"]
mod data;
use data::Data;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

const SECOND: u64 = 1_000_000_000;

/// System calls (`include/uapi/asm-generic/unistd.h`).
const CLOCK_GETTIME: usize = 113;
const CLOCK_GETRES: usize = 114;
const GETTIMEOFDAY: usize = 169;

/// Clocks based on the time of day: CLOCK_REALTIME and its coarse variant.
const REAL: [i32; 2] = [0, 5];
/// Clocks that start at boot: CLOCK_MONOTONIC, its raw and coarse variants, CLOCK_BOOTTIME.
const SINCE_BOOT: [i32; 4] = [1, 4, 6, 7];
/// Clocks with a coarse resolution; all others have that of the counter.
const COARSE: [i32; 2] = [5, 6];
/// CONFIG_HZ = 250: the resolution of coarse clocks on Linux.
const COARSE_RESOLUTION: i64 = 4_000_000;

#[cfg(target_arch = "aarch64")]
mod machine {
    use super::*;

    pub fn counter() -> u64 {
        let ticks;
        // SAFETY: reads the counter, ordered after preceding instructions (Arm ARM, CNTVCT_EL0).
        unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack)) };
        ticks
    }

    pub fn data() -> *const Data {
        let data;
        // SAFETY: computes an address.
        unsafe {
            asm!("adrp {0}, vdso_data", "add {0}, {0}, :lo12:vdso_data", out(reg) data, options(nomem, nostack, pure))
        };
        data
    }

    pub fn call(number: usize, a: usize, b: usize) -> i32 {
        let result: isize;
        // SAFETY: the call that the program requested.
        unsafe { asm!("svc #0", in("x8") number, inlateout("x0") a => result, in("x1") b, options(nostack)) };
        result as i32
    }

    // Unwinders recognize the two instructions: no unwind information, and none for the code before
    // them.
    global_asm!(
        ".pushsection .text.sigreturn, \"ax\"",
        ".global __kernel_rt_sigreturn",
        ".type __kernel_rt_sigreturn, %function",
        "__kernel_rt_sigreturn:",
        "   mov x8, #139",
        "   svc #0",
        ".size __kernel_rt_sigreturn, . - __kernel_rt_sigreturn",
        ".popsection",
    );

    // BTI C before each function, regardless of its alignment (vdso.ld).
    #[cfg(guarded)]
    global_asm!(
        ".macro landing_pad name",
        ".pushsection .text.pad.\\name, \"ax\"",
        ".balign 64",
        ".rept 15",
        "   nop",
        ".endr",
        ".global __kernel_\\name",
        ".type __kernel_\\name, %function",
        "__kernel_\\name:",
        "   hint #34",
        ".popsection",
        ".endm",
        "landing_pad clock_gettime",
        "landing_pad clock_getres",
        "landing_pad gettimeofday",
    );
}

#[cfg(target_arch = "riscv64")]
mod machine {
    use super::*;

    pub fn counter() -> u64 {
        let ticks;
        // SAFETY: reads the counter.
        unsafe { asm!("rdtime {}", out(reg) ticks, options(nostack)) };
        ticks
    }

    pub fn data() -> *const Data {
        let data;
        // SAFETY: computes an address.
        unsafe { asm!("lla {}, vdso_data", out(reg) data, options(nomem, nostack, pure)) };
        data
    }

    pub const HWPROBE: usize = 258;

    pub fn call5(number: usize, [a, b, c, d, e]: [usize; 5]) -> i32 {
        let result: isize;
        // SAFETY: the call that the program requested.
        unsafe {
            asm!("ecall", in("a7") number, inlateout("a0") a => result, in("a1") b, in("a2") c, in("a3") d, in("a4") e,
                options(nostack))
        };
        result as i32
    }

    pub fn call(number: usize, a: usize, b: usize) -> i32 {
        let result: isize;
        // SAFETY: the call that the program requested.
        unsafe { asm!("ecall", in("a7") number, inlateout("a0") a => result, in("a1") b, options(nostack)) };
        result as i32
    }

    global_asm!(
        ".pushsection .text.sigreturn, \"ax\"",
        ".global __vdso_rt_sigreturn",
        ".type __vdso_rt_sigreturn, @function",
        "__vdso_rt_sigreturn:",
        "   li a7, 139",
        "   ecall",
        ".size __vdso_rt_sigreturn, . - __vdso_rt_sigreturn",
        ".popsection",
        ".pushsection .text, \"ax\"",
        ".macro system_call name, number",
        ".global __vdso_\\name",
        ".type __vdso_\\name, @function",
        "__vdso_\\name:",
        "   li a7, \\number",
        "   ecall",
        "   ret",
        ".size __vdso_\\name, . - __vdso_\\name",
        ".endm",
        "system_call getcpu, 168",
        "system_call flush_icache, 259",
        ".popsection",
    );
}

fn nanoseconds(real: bool) -> u64 {
    let data = machine::data();
    // SAFETY: the kernel maps the page before this object, and writes its words atomically.
    let (boot, by_tick, offset) = unsafe {
        (
            read_volatile(addr_of!((*data).boot_ticks)),
            read_volatile(addr_of!((*data).ns_by_tick)),
            read_volatile(addr_of!((*data).realtime_offset)),
        )
    };
    let ticks = machine::counter().wrapping_sub(boot);
    let ns = (ticks as u128 * by_tick as u128 >> 32) as u64;
    if real { ns.wrapping_add(offset) } else { ns }
}

/// clock_gettime(2).
#[cfg_attr(
    all(target_arch = "aarch64", not(guarded)),
    unsafe(export_name = "__kernel_clock_gettime")
)]
#[cfg_attr(guarded, unsafe(no_mangle))]
#[cfg_attr(target_arch = "riscv64", unsafe(export_name = "__vdso_clock_gettime"))]
pub unsafe extern "C" fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32 {
    let real = REAL.contains(&clock);
    if !real && !SINCE_BOOT.contains(&clock) {
        return machine::call(CLOCK_GETTIME, clock as isize as usize, time as usize);
    }
    let ns = nanoseconds(real);
    // SAFETY: the program's own memory and pointer: the program is responsible for a bad one.
    unsafe { *time = [(ns / SECOND) as i64, (ns % SECOND) as i64] };
    0
}

/// gettimeofday(2).
#[cfg_attr(
    all(target_arch = "aarch64", not(guarded)),
    unsafe(export_name = "__kernel_gettimeofday")
)]
#[cfg_attr(guarded, unsafe(no_mangle))]
#[cfg_attr(target_arch = "riscv64", unsafe(export_name = "__vdso_gettimeofday"))]
pub unsafe extern "C" fn gettimeofday(time: *mut [i64; 2], zone: *mut [i32; 2]) -> i32 {
    if !zone.is_null() {
        return machine::call(GETTIMEOFDAY, time as usize, zone as usize);
    }
    if !time.is_null() {
        let us = nanoseconds(true) / 1000;
        // SAFETY: as in `clock_gettime`.
        unsafe { *time = [(us / 1_000_000) as i64, (us % 1_000_000) as i64] };
    }
    0
}

/// clock_getres(2).
#[cfg_attr(
    all(target_arch = "aarch64", not(guarded)),
    unsafe(export_name = "__kernel_clock_getres")
)]
#[cfg_attr(guarded, unsafe(no_mangle))]
#[cfg_attr(target_arch = "riscv64", unsafe(export_name = "__vdso_clock_getres"))]
pub unsafe extern "C" fn clock_getres(clock: i32, resolution: *mut [i64; 2]) -> i32 {
    if !REAL.contains(&clock) && !SINCE_BOOT.contains(&clock) {
        return machine::call(CLOCK_GETRES, clock as isize as usize, resolution as usize);
    }
    if !resolution.is_null() {
        let ns = if COARSE.contains(&clock) { COARSE_RESOLUTION } else { 1 };
        // SAFETY: as in `clock_gettime`.
        unsafe { *resolution = [0, ns] };
    }
    0
}

/// `struct riscv_hwprobe`.
#[cfg(target_arch = "riscv64")]
#[repr(C)]
pub struct Pair {
    key: i64,
    value: u64,
}

/// riscv_hwprobe(2): uses the page for all CPUs, otherwise makes the system call.
#[cfg(target_arch = "riscv64")]
#[unsafe(export_name = "__vdso_riscv_hwprobe")]
pub unsafe extern "C" fn riscv_hwprobe(
    pairs: *mut Pair,
    count: usize,
    set_len: usize,
    set: *mut u8,
    flags: u32,
) -> i32 {
    if flags != 0 || set_len != 0 || !set.is_null() {
        let arguments = [pairs as usize, count, set_len, set as usize, flags as usize];
        return machine::call5(machine::HWPROBE, arguments);
    }
    for index in 0..count {
        // SAFETY: the program's own memory and pointer; and a word of the page that the kernel
        // maps.
        unsafe {
            let pair = &mut *pairs.wrapping_add(index);
            *pair = if (0..data::PROBES as i64).contains(&pair.key) {
                let answers = addr_of!((*machine::data()).probes).cast::<u64>();
                Pair {
                    key: pair.key,
                    value: read_volatile(answers.wrapping_add(pair.key as usize)),
                }
            } else {
                Pair { key: -1, value: 0 }
            };
        }
    }
    0
}
