//! Signal handlers: in Arm and Thumb code, with and without siginfo, returning by the library's
//! code or the kernel's; and changes of the saved state that a handler may not make.

use std::arch::{asm, global_asm};
use std::io::Write;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libc::{c_int, c_void, siginfo_t, ucontext_t};

use crate::in_child;

static SEEN: AtomicU32 = AtomicU32::new(0);

/// Ends the process from a handler.
pub fn flush_and_exit() -> ! {
    _ = std::io::stdout().flush();
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

/// `struct sigaction` of the kernel's interface.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: u32,
    restorer: usize,
    mask: u64,
}

/// Installs a handler that returns by the kernel's code.
fn handle(signal: c_int, handler: usize, flags: c_int) {
    let action = [handler as u32, flags as u32, 0, 0, 0];
    // SAFETY: the structure is complete.
    let set = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &action, 0, 8) };
    assert_eq!(set, 0);
    const { assert!(mem::offset_of!(KernelAction, restorer) == 8) };
}

extern "C" fn arm(signal: c_int) {
    SEEN.store(signal as u32, Relaxed);
    clobber();
}

extern "C" fn from_thumb(signal: c_int) {
    SEEN.store(100 + signal as u32, Relaxed);
    clobber();
}

global_asm!(
    ".thumb",
    ".p2align 2",
    ".thumb_func",
    "thumb:",
    "push {{r4, lr}}",
    "bl {from_thumb}",
    "pop {{r4, pc}}",
    ".thumb_func",
    "thumb_info:",
    "push {{r4, lr}}",
    "bl {arm_info}",
    "pop {{r4, pc}}",
    ".thumb_func",
    "elsewhere:",
    "bl {went_on}",
    ".thumb_func",
    "tkill:",
    "push {{r7, lr}}",
    "movw r7, {tkill}",
    "svc #0",
    "pop {{r7, pc}}",
    ".arm",
    from_thumb = sym from_thumb,
    arm_info = sym arm_info,
    went_on = sym went_on,
    tkill = const libc::SYS_tkill,
);

unsafe extern "C" {
    /// Handlers in Thumb code, and Thumb code to continue in.
    fn thumb(signal: c_int);
    fn thumb_info(signal: c_int, info: *mut siginfo_t, context: *mut c_void);
    fn elsewhere();
    /// Calls tkill(2) from Thumb code.
    fn tkill(tid: libc::c_long, signal: c_int) -> c_int;
}

extern "C" fn arm_info(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both pointers.
    unsafe {
        let own = (*info).si_pid() == libc::getpid();
        let told = (*info).si_signo == signal && (*info).si_code == libc::SI_TKILL && own;
        let mode = (*context.cast::<ucontext_t>()).uc_mcontext.arm_cpsr & 0x1f;
        SEEN.store(
            200 + signal as u32 + 1000 * u32::from(told) + 0x10000 * mode,
            Relaxed,
        );
    }
    clobber();
}

/// Overwrites all registers that a function may change.
fn clobber() {
    // SAFETY: only registers that a called function may change.
    unsafe {
        asm!(
            "vmov d0, r0, r0", "vmov d7, r0, r0", "mov r0, #0", "mov r1, #0", "mov r2, #0", "mov r3, #0", "mov r12, #0",
            "cmp r0, r0",
            out("d0") _, out("d7") _, out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r12") _,
        )
    };
}

/// Sends the process a signal by tkill(2); returns whether registers are unchanged afterwards.
fn interrupted(signal: c_int) -> bool {
    let (low, high, integer, flags): (u32, u32, u32, u32);
    // SAFETY: the call changes only r0, and the handler nothing.
    unsafe {
        let tid = libc::syscall(libc::SYS_gettid);
        asm!(
            "vmov s0, {first}",
            "vmov s15, {second}",
            "mov r12, {first}",
            "cmn {first}, {first}",
            "mov r0, {tid}",
            "svc #0",
            "mrs {flags}, cpsr",
            "vmov {low}, s0",
            "vmov {high}, s15",
            "mov {integer}, r12",
            first = in(reg) 0x8123_4567u32,
            second = in(reg) 0x89ab_cdefu32,
            tid = in(reg) tid,
            flags = out(reg) flags,
            low = out(reg) low,
            high = out(reg) high,
            integer = out(reg) integer,
            in("r7") libc::SYS_tkill,
            in("r1") signal,
            out("r0") _, out("r12") _, out("d0") _, out("d7") _,
        );
    }
    // Adding 0x8123_4567 to itself sets carry and overflow.
    low == 0x8123_4567 && high == 0x89ab_cdef && integer == low && flags >> 28 == 0b0011
}

/// Sends the process a signal from Thumb code.
fn interrupted_thumb(signal: c_int) -> bool {
    // SAFETY: sends a signal that has a handler.
    unsafe { tkill(libc::syscall(libc::SYS_gettid), signal) == 0 }
}

/// The bits that a handler sets in the saved CPSR, and those that it clears.
static mut CHANGE: (usize, usize) = (0, 0);

extern "C" fn forge(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a complete context, and the process has one thread.
    unsafe {
        let cpsr = &raw mut (*context.cast::<ucontext_t>()).uc_mcontext.arm_cpsr;
        let (set, cleared) = CHANGE;
        cpsr.write((cpsr.read() as usize & !cleared | set) as _);
    }
}

extern "C" fn went_on() -> ! {
    print!("went on in Thumb, ");
    flush_and_exit();
}

extern "C" fn move_on(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: as in `forge`; the stack stays aligned.
    unsafe {
        let registers = &raw mut (*context.cast::<ucontext_t>()).uc_mcontext;
        (*registers).arm_pc = elsewhere as *const () as usize as _;
        (*registers).arm_cpsr |= 1 << 5;
    }
}

/// Restores the default action: Rust's handler would resume the program at the fault.
fn die_of_faults() {
    // SAFETY: sets the default action.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
}

/// Runs this part.
pub fn run() {
    let plain = libc::SA_NODEFER;
    let with_info = plain | libc::SA_SIGINFO;
    for (name, handler, flags) in [
        ("Arm", arm as *const () as usize, plain),
        ("Thumb", thumb as *const () as usize, plain),
        ("Arm, siginfo", arm_info as *const () as usize, with_info),
        (
            "Thumb, siginfo",
            thumb_info as *const () as usize,
            with_info,
        ),
    ] {
        handle(libc::SIGUSR1, handler, flags);
        for interrupted in [interrupted, interrupted_thumb] {
            let kept = interrupted(libc::SIGUSR1);
            println!("{name}: {:#x} kept {kept}", SEEN.swap(0, Relaxed));
        }
    }
    // The library's way: with SA_RESTORER, on an alternate stack. SAFETY: the stack and the handler
    // are valid.
    unsafe {
        let stack = libc::stack_t {
            ss_sp: Box::leak(Box::new([0u8; 65536])).as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: 65536,
        };
        libc::sigaltstack(&stack, ptr::null_mut());
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = thumb_info as *const () as usize;
        action.sa_flags = with_info | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR2, &action, ptr::null_mut());
        let kept = interrupted(libc::SIGUSR2);
        println!("library: {:#x} kept {kept}", SEEN.swap(0, Relaxed));
        libc::sigaction(libc::SIGUSR2, ptr::null(), &mut action);
        println!(
            "told back: {}",
            action.sa_sigaction == thumb_info as *const () as usize
        );
        let mut none: libc::stack_t = mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut none);
        println!("alternate stack: {} {}", none.ss_size, none.ss_flags);
    }
    for (what, set, cleared) in [
        ("to 64 bits", 0, 0x10),
        ("to EL1 of 64 bits", 0x05, 0x1f),
        ("to the supervisor's mode", 0x13, 0x1f),
        ("to the system's mode", 0x1f, 0x1f),
        ("to masked interrupts", 0x80, 0),
        ("to masked fast interrupts", 0x40, 0),
        ("to masked aborts", 0x100, 0),
        ("to other flags", 0xf000_0000, 0),
        ("to an illegal state", 1 << 20, 0),
    ] {
        in_child(what, || {
            die_of_faults();
            // SAFETY: the handler does not run yet.
            unsafe { CHANGE = (set, cleared) };
            handle(libc::SIGUSR1, forge as *const () as usize, with_info);
            interrupted_thumb(libc::SIGUSR1);
            print!("went on, ");
        });
    }
    in_child("to other code", || {
        handle(libc::SIGUSR1, move_on as *const () as usize, with_info);
        interrupted(libc::SIGUSR1);
    });
    in_child("sigreturn without a frame", || {
        die_of_faults();
        // SAFETY: it ends with a signal.
        unsafe { asm!("mov sp, #16", "svc #0", in("r7") 173, options(noreturn)) };
    });
    // SAFETY: every pointer passed is to a live value.
    unsafe { ready() };
}

/// The siginfo of asynchronous I/O (O_ASYNC) has the band and the file with any signal.
unsafe fn ready() {
    const F_SETSIG: c_int = 10;
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        for signal in [libc::SIGRTMIN(), libc::SIGIO, libc::SIGUSR1, libc::SIGCHLD] {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut set, signal);
            libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            libc::fcntl(ends[0], F_SETSIG, signal);
            libc::fcntl(ends[0], libc::F_SETOWN, libc::getpid());
            libc::fcntl(ends[0], libc::F_SETFL, libc::O_ASYNC);
            libc::write(ends[1], c"x".as_ptr().cast(), 1);
            let mut info = [0i32; 32];
            let got = libc::sigwaitinfo(&set, info.as_mut_ptr().cast());
            println!(
                "ready: {} code {} band {:#x} file {}",
                got == signal && info[0] == signal,
                info[2],
                info[3],
                info[4] == ends[0]
            );
            libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        }
        ends.iter().for_each(|&end| _ = libc::close(end));
    }
}
