//! Signal frames that cannot be written: the process gets SIGSEGV, which it may catch.

use std::mem;
use std::ptr;

use libc::{
    SA_ONSTACK, SA_RESETHAND, SA_SIGINFO, SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, SIGHUP, SIGSEGV,
    SIGUSR1, SIGUSR2, c_int, c_void, siginfo_t, sigset_t, ucontext_t,
};

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    for (what, part) in [
        ("caught", caught as unsafe fn()),
        ("caught again", again),
        ("reset", reset),
        ("suspended", suspended),
        ("with others pending", pending),
        ("blocked", blocked),
        ("ignored", ignored),
        ("by default", by_default),
        ("its own", its_own),
        ("in the handler", nested),
        ("at the end of addresses", at_the_end),
    ] {
        println!("{what}");
        // SAFETY: every part uses live values of its own, in a process of its own.
        tell_end(what, in_child(|| unsafe { part() }));
    }
}

fn set_of(signals: &[c_int]) -> sigset_t {
    // SAFETY: all zeroes is an empty set.
    unsafe {
        let mut set = mem::zeroed();
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

fn members(set: &sigset_t) -> Vec<c_int> {
    let is_member = |&signal: &c_int| unsafe { libc::sigismember(set, signal) } == 1;
    (1..32).filter(is_member).collect()
}

extern "C" fn tells(signal: c_int, info: *const siginfo_t, context: *const c_void) {
    // SAFETY: the handler gets the kernel's own values.
    unsafe {
        let mut now: sigset_t = mem::zeroed();
        libc::sigprocmask(SIG_BLOCK, ptr::null(), &mut now);
        let before = (*context.cast::<ucontext_t>()).uc_sigmask;
        let address = (signal == SIGSEGV).then(|| (*info).si_addr());
        println!(
            "signal {signal}: code {}, address {address:?}, blocked {:?}, before {:?}",
            (*info).si_code,
            members(&now),
            members(&before),
        );
    }
}

unsafe fn handle(signal: c_int, flags: c_int) {
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = tells as *const () as usize;
        action.sa_flags = SA_SIGINFO | flags;
        action.sa_mask = set_of(&[SIGHUP]);
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// An alternate stack that cannot be written.
unsafe fn stack() {
    unsafe {
        let size = 1 << 16;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(ptr::null_mut(), size, libc::PROT_READ, flags, -1, 0);
        let mut stack: libc::stack_t = mem::zeroed();
        stack.ss_sp = at;
        stack.ss_size = size;
        tell("sigaltstack", libc::sigaltstack(&stack, ptr::null_mut()));
    }
}

unsafe fn send(signal: c_int) {
    unsafe { tell("raise", libc::raise(signal)) }
}

unsafe fn caught() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        handle(SIGSEGV, 0);
        send(SIGUSR1);
        let mut now: sigset_t = mem::zeroed();
        libc::sigprocmask(SIG_BLOCK, ptr::null(), &mut now);
        println!("after it blocked {:?}", members(&now));
    }
}

unsafe fn again() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        handle(SIGSEGV, 0);
        for _ in 0..3 {
            send(SIGUSR1);
        }
        handle(SIGUSR1, 0);
        send(SIGUSR1);
    }
}

/// SA_RESETHAND takes effect before the frame is written.
unsafe fn reset() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK | SA_RESETHAND);
        handle(SIGSEGV, 0);
        send(SIGUSR1);
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(SIGUSR1, ptr::null(), &mut action);
        println!("default: {}", action.sa_sigaction == libc::SIG_DFL);
    }
}

/// The mask from before sigsuspend is restored.
unsafe fn suspended() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        handle(SIGSEGV, 0);
        libc::sigprocmask(SIG_SETMASK, &set_of(&[SIGUSR1, SIGUSR2]), ptr::null_mut());
        send(SIGUSR1);
        tell("sigsuspend", libc::sigsuspend(&set_of(&[SIGUSR2])));
        let mut now: sigset_t = mem::zeroed();
        libc::sigprocmask(SIG_BLOCK, ptr::null(), &mut now);
        println!("after it blocked {:?}", members(&now));
    }
}

/// SIGSEGV precedes the other pending signals.
unsafe fn pending() {
    unsafe {
        stack();
        handle(SIGHUP, SA_ONSTACK);
        handle(SIGUSR1, 0);
        handle(SIGSEGV, 0);
        let set = set_of(&[SIGHUP, SIGUSR1]);
        libc::sigprocmask(SIG_BLOCK, &set, ptr::null_mut());
        send(SIGHUP);
        send(SIGUSR1);
        tell(
            "unblock",
            libc::sigprocmask(SIG_UNBLOCK, &set, ptr::null_mut()),
        );
    }
}

unsafe fn blocked() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        handle(SIGSEGV, 0);
        libc::sigprocmask(SIG_BLOCK, &set_of(&[SIGSEGV]), ptr::null_mut());
        send(SIGUSR1);
    }
}

unsafe fn ignored() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        libc::signal(SIGSEGV, libc::SIG_IGN);
        send(SIGUSR1);
    }
}

unsafe fn by_default() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        libc::signal(SIGSEGV, libc::SIG_DFL);
        send(SIGUSR1);
    }
}

/// The frame for SIGSEGV cannot be written either.
unsafe fn its_own() {
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        handle(SIGSEGV, SA_ONSTACK);
        send(SIGUSR1);
    }
}

/// A second SIGUSR1, raised in the handler of SIGSEGV, finds SIGSEGV blocked.
unsafe fn nested() {
    extern "C" fn raises(_: c_int) {
        println!("in the handler");
        // SAFETY: it only sends a signal.
        unsafe { send(SIGUSR1) };
    }
    unsafe {
        stack();
        handle(SIGUSR1, SA_ONSTACK);
        libc::signal(SIGSEGV, raises as *const () as usize);
        send(SIGUSR1);
    }
}

/// An alternate stack whose end wraps to address 0.
unsafe fn at_the_end() {
    unsafe {
        let mut stack: libc::stack_t = mem::zeroed();
        stack.ss_size = 1 << 16;
        stack.ss_sp = ptr::without_provenance_mut(0usize.wrapping_sub(stack.ss_size));
        tell("sigaltstack", libc::sigaltstack(&stack, ptr::null_mut()));
        handle(SIGUSR1, SA_ONSTACK);
        handle(SIGSEGV, 0);
        send(SIGUSR1);
    }
}

/// A frame that does not fit into the rest of the alternate stack is not written below it
/// (riscv64).
#[cfg(target_arch = "riscv64")]
pub fn overflow() {
    // SAFETY: the process ends here, and uses only the stack that it maps.
    let end = in_child(|| unsafe {
        let size = 1 << 20;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(ptr::null_mut(), size, both, flags, -1, 0);
        let mut stack: libc::stack_t = mem::zeroed();
        stack.ss_sp = memory.byte_add(size / 2);
        stack.ss_size = size / 4;
        tell("sigaltstack", libc::sigaltstack(&stack, ptr::null_mut()));
        handle(SIGUSR1, SA_ONSTACK);
        handle(SIGSEGV, 0);
        let (pid, tid) = (libc::getpid(), libc::gettid());
        std::arch::asm!(
            "mv s10, sp",
            "mv sp, {little_left}",
            "ecall",
            "mv sp, s10",
            little_left = in(reg) stack.ss_sp.byte_add(512),
            in("a7") libc::SYS_tgkill,
            inout("a0") pid => _,
            in("a1") tid,
            in("a2") SIGUSR1,
            out("s10") _,
        );
        println!("lives");
    });
    tell_end("no room", end);
}

#[cfg(not(target_arch = "riscv64"))]
pub fn overflow() {}
