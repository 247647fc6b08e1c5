//! Reads of ID registers, which the kernel emulates for programs: the instructions that it accepts,
//! and the addresses from which it reads them.

use std::arch::asm;
use std::io::Write;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use libc::{PROT_EXEC, PROT_READ, PROT_WRITE, c_int, c_void, siginfo_t};

use crate::{in_child, tell_end};

/// The address of the next expected fault.
static mut EXPECTED: usize = 0;

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo, and the process has one thread.
    unsafe {
        let offset = ((*info).si_addr() as usize).wrapping_sub(EXPECTED) as isize;
        let code = (*info).si_code;
        println!("signal {signal} code {code} address {offset:+}");
        libc::_exit(0);
    }
}

/// Runs `work` in a child that prints whether its fault is at the address in `EXPECTED`.
fn faulting(what: &str, work: impl FnOnce()) {
    print!("{what}: ");
    let _ = std::io::stdout().flush();
    let status = in_child(|| {
        // SAFETY: the handler has the signature that SA_SIGINFO requires.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL] {
                libc::sigaction(signal, &action, ptr::null_mut());
            }
        }
        work();
        println!("no fault");
    });
    if status != 0 {
        tell_end("", status);
    }
}

/// Executes an instruction that moves between x9 and a system register, and stores its address in
/// `EXPECTED`; returns x9.
macro_rules! execute {
    ($instruction:literal) => {{
        let value: usize;
        // SAFETY: it causes at most a signal.
        unsafe {
            asm!("adr x10, 2f", "str x10, [{to}]", concat!("2: ", $instruction),
                to = in(reg) &raw mut EXPECTED, inlateout("x9") 1usize => value, out("x10") _)
        };
        value
    }};
}

/// `mrs x0, midr_el1`, `ret`.
const READ_MIDR: [u32; 2] = [0xd538_0000, 0xd65f_03c0];

/// A page with a read of MIDR_EL1, which needs the right to execute.
fn page_that_reads() -> *mut c_void {
    // SAFETY: the page is only for this code.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
        page.cast::<[u32; 2]>().write(READ_MIDR);
        asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) page);
        page
    }
}

/// Calls a read of MIDR_EL1 in a page with these rights; prints whether its value is right.
fn from_page(rights: c_int) {
    let page = page_that_reads();
    let right = execute!("mrs x9, midr_el1");
    // SAFETY: the page holds a function.
    unsafe {
        EXPECTED = page as usize;
        libc::mprotect(page, 4096, rights);
        let read = mem::transmute::<*mut c_void, extern "C" fn() -> usize>(page)();
        print!("right: {}, ", read == right);
    }
}

/// The page whose rights change, and the number of unexpected signals.
static GOING: AtomicUsize = AtomicUsize::new(0);
static STRANGE: AtomicUsize = AtomicUsize::new(0);

/// Either the instruction could not be fetched; or it trapped, and the kernel could no longer read
/// it. It is then retried.
extern "C" fn on_gone(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo.
    let (offset, code) = unsafe {
        let address = (*info).si_addr() as usize;
        (address.wrapping_sub(GOING.load(Relaxed)), (*info).si_code)
    };
    let known = match signal {
        libc::SIGSEGV => code == SEGV_ACCERR && offset < mem::size_of_val(&READ_MIDR),
        _ => code == ILL_ILLOPC && offset == 0,
    };
    if !known {
        STRANGE.fetch_add(1, Relaxed);
    }
}

/// Values of `si_code`: an access that the page's rights forbid, and an undefined instruction.
const SEGV_ACCERR: c_int = 2;
const ILL_ILLOPC: c_int = 1;

/// Executes code in a page from which another thread repeatedly removes the rights.
fn from_going_page() {
    const TIMES: usize = 3000;
    let page = page_that_reads() as usize;
    GOING.store(page, Relaxed);
    let ended = AtomicBool::new(false);
    let right = execute!("mrs x9, midr_el1");
    // SAFETY: the page holds a function, and its faults are handled.
    let wrong = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_gone as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
        libc::sigaction(libc::SIGILL, &action, ptr::null_mut());
        let read = mem::transmute::<usize, extern "C" fn() -> usize>(page);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    libc::mprotect(page as _, 4096, libc::PROT_NONE);
                    libc::mprotect(page as _, 4096, PROT_READ | PROT_EXEC);
                }
                ended.store(true, Relaxed);
            });
            let mut wrong = 0;
            while !ended.load(Relaxed) {
                wrong += usize::from(read() != right);
            }
            wrong
        })
    };
    println!("{wrong} wrong, {} strange signals", STRANGE.load(Relaxed));
}

/// For each capability its name in cpuinfo, its bit of AT_HWCAP, the register and the field that
/// report it, and the field's minimum.
fn capabilities() -> [(&'static str, u32, usize, u32, i64); 15] {
    let features = execute!("mrs x9, id_aa64pfr0_el1");
    let instructions = execute!("mrs x9, id_aa64isar0_el1");
    let more = execute!("mrs x9, id_aa64isar1_el1");
    [
        ("fp", 0, features, 16, 0),
        ("asimd", 1, features, 20, 0),
        ("aes", 3, instructions, 4, 1),
        ("pmull", 4, instructions, 4, 2),
        ("sha1", 5, instructions, 8, 1),
        ("sha2", 6, instructions, 12, 1),
        ("crc32", 7, instructions, 16, 1),
        ("atomics", 8, instructions, 20, 2),
        ("fphp", 9, features, 16, 1),
        ("asimdrdm", 12, instructions, 28, 1),
        ("dcpop", 16, more, 0, 1),
        ("asimddp", 20, instructions, 44, 1),
        ("sve", 22, features, 32, 1),
        ("flagm", 27, instructions, 52, 1),
        ("sb", 29, more, 36, 1),
    ]
}

/// Prints whether the auxiliary vector, /proc/cpuinfo and the registers agree.
fn compare() {
    // SAFETY: reads the auxiliary vector.
    let hwcap = unsafe { libc::getauxval(libc::AT_HWCAP) };
    let shown = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = shown.lines().find_map(|line| line.strip_prefix("Features"));
    let names: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    println!("cpuid: {} {}", hwcap >> 11 & 1, names.contains(&"cpuid"));
    for (name, bit, register, shift, least) in capabilities() {
        let field = (register as i64) << (60 - shift) >> 60;
        let signed = name == "fp" || name == "asimd" || name == "fphp";
        let value = if signed { field } else { field & 0xf };
        let told = [value >= least, hwcap >> bit & 1 == 1, names.contains(&name)];
        if told != [told[0]; 3] {
            println!(
                "{name}: by the register {}, by AT_HWCAP {}, by cpuinfo {}",
                told[0], told[1], told[2]
            );
        }
    }
}

/// Runs this part.
pub fn run() {
    compare();
    println!("MIDR_EL1: {}", execute!("mrs x9, midr_el1") != 0);
    println!("MPIDR_EL1: {:#x}", execute!("mrs x9, mpidr_el1"));
    println!("REVIDR_EL1: {:#x}", execute!("mrs x9, revidr_el1"));
    println!("a reserved one: {:#x}", execute!("mrs x9, S3_0_C0_C7_7"));
    println!("into nothing: {:#x}", execute!("mrs xzr, id_aa64pfr0_el1"));
    faulting("a write", || _ = execute!("msr S3_0_C0_C4_0, x9"));
    faulting("SCTLR_EL1", || _ = execute!("mrs x9, sctlr_el1"));
    faulting("SCTLR_EL1, written", || _ = execute!("msr sctlr_el1, x9"));
    faulting("CCSIDR_EL1", || _ = execute!("mrs x9, ccsidr_el1"));
    faulting("a register of EL2", || _ = execute!("mrs x9, S3_4_C1_C1_0"));
    faulting("MDCCSR_EL0", || _ = execute!("mrs x9, mdccsr_el0"));
    faulting("DBGDTRRX_EL0", || _ = execute!("mrs x9, dbgdtrrx_el0"));
    faulting("DBGDTRTX_EL0", || _ = execute!("msr dbgdtrtx_el0, x9"));
    faulting("CNTPCT_EL0", || _ = execute!("mrs x9, cntpct_el0"));
    faulting("CNTV_CTL_EL0", || _ = execute!("mrs x9, cntv_ctl_el0"));
    faulting("CNTP_CVAL_EL0", || _ = execute!("mrs x9, cntp_cval_el0"));
    println!("CNTVCT_EL0: {}", execute!("mrs x9, cntvct_el0") != 0);
    println!("CNTFRQ_EL0: {}", execute!("mrs x9, cntfrq_el0") != 0);
    faulting("no register at all", || {
        _ = execute!("mrs x9, S3_7_C15_C15_7")
    });
    faulting("undefined", || _ = execute!("udf #1"));
    faulting("from a page to be read", || {
        from_page(PROT_READ | PROT_EXEC)
    });
    faulting("from a page only to be executed", || from_page(PROT_EXEC));
    faulting("from a page not to be executed", || from_page(PROT_READ));
    faulting("from a page that comes and goes", from_going_page);
}
