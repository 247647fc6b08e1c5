//! Tracing a 32-bit program: its registers, memory and signals.

use std::arch::asm;
use std::ptr;

use libc::{c_int, c_long};

use crate::tell;

const PEEKTEXT: c_int = 1;
const PEEKUSR: c_int = 3;
const POKETEXT: c_int = 4;
const POKEUSR: c_int = 6;
const CONT: c_int = 7;
const GETREGS: c_int = 12;
const SETREGS: c_int = 13;
const GET_THREAD_AREA: c_int = 22;
const SET_SYSCALL: c_int = 23;
const SYSCALL: c_int = 24;
const GETVFPREGS: c_int = 27;
const SETVFPREGS: c_int = 28;
const SETOPTIONS: c_int = 0x4200;
const GETSIGINFO: c_int = 0x4202;
const GETREGSET: c_int = 0x4204;
const SETREGSET: c_int = 0x4205;

/// Register sets.
const GENERAL: usize = 1;
const FLOATING: usize = 2;
const VFP: usize = 0x400;

static mut WORD: u32 = 0x1111;

/// Runs this part.
pub fn run() {
    // SAFETY: the child executes only the traced code.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            traced();
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        println!("stopped by {}", libc::WSTOPSIG(status));
        registers(child);
        vectors(child);
        sets(child);
        memory(child);
        // The child now makes a different system call.
        tell("PTRACE_SYSCALL", trace(SYSCALL, child, 0, 0).into());
        libc::waitpid(child, &mut status, 0);
        tell(
            "PTRACE_SET_SYSCALL",
            trace(SET_SYSCALL, child, 0, 20).into(),
        );
        trace(SYSCALL, child, 0, 0);
        libc::waitpid(child, &mut status, 0);
        let mut words = [0u32; 18];
        trace(GETREGS, child, 0, words.as_mut_ptr() as usize);
        println!("it asked for its number: {}", words[0] == child as u32);
        trace(CONT, child, 0, 0);
        libc::waitpid(child, &mut status, 0);
        println!("status {:#x}", status);
        wide();
    }
}

unsafe fn trace(request: c_int, child: c_int, address: usize, data: usize) -> c_long {
    // SAFETY: the caller's data outlives the call.
    unsafe { libc::syscall(libc::SYS_ptrace, request, child, address, data) }
}

/// The child: stops with known registers, and exits with the value that they were changed to.
unsafe fn traced() -> ! {
    unsafe {
        libc::syscall(libc::SYS_ptrace, 0, 0, 0, 0);
        let (four, five, double): (u32, u32, f64);
        asm!(
            "bkpt #0",
            "svc #0",
            inout("r4") 0x4444u32 => four,
            inout("r5") 0x5555u32 => five,
            in("r7") libc::SYS_getppid,
            inout("r0") 1u32 => _,
            inout("d8") 1.5f64 => double,
        );
        let whole = four == 0x4040
            && five == 0x5050
            && double == 2.5
            && (&raw const WORD).read_volatile() == 0x2222;
        libc::_exit(if whole { 42 } else { 1 });
    }
}

unsafe fn registers(child: c_int) {
    unsafe {
        let mut words = [0u32; 19];
        words[18] = 99;
        let at = words.as_mut_ptr() as usize;
        tell("PTRACE_GETREGS", trace(GETREGS, child, 0, at).into());
        println!(
            "  r4 {:x} r5 {:x} r7 {} mode {:x} r0 {} beyond {}",
            words[4],
            words[5],
            words[7],
            words[16] & 0x1f,
            words[0],
            words[18]
        );
        // Skips the breakpoint.
        words[15] += 4;
        words[4] = 0x4040;
        tell("PTRACE_SETREGS", trace(SETREGS, child, 0, at).into());
        let privileged = words[16];
        words[16] = 0x13;
        tell(
            "to the supervisor's mode",
            trace(SETREGS, child, 0, at).into(),
        );
        words[16] = privileged;
        tell("from a hole", trace(SETREGS, child, 0, 0x10).into());
        let mut word = 0u32;
        let to = &raw mut word as usize;
        for offset in [4 * 4, 15 * 4, 17, 72, 292, 296, 0x10000] {
            (&raw mut word).write(0);
            let got = trace(PEEKUSR, child, offset, to);
            tell(&format!("PTRACE_PEEKUSR {offset}"), got.into());
            match offset {
                60 => println!("  {}", word == words[15]),
                0x10000 => println!("  {}", word != 0),
                _ => println!("  {word:x}"),
            }
        }
        for (offset, word) in [(20, 0x5050), (21, 0), (100, 1), (296, 1)] {
            tell(
                &format!("PTRACE_POKEUSR {offset}"),
                trace(POKEUSR, child, offset, word).into(),
            );
        }
        tell(
            "PTRACE_GET_THREAD_AREA",
            trace(GET_THREAD_AREA, child, 0, to).into(),
        );
        println!("  {}", word != 0);
    }
}

unsafe fn vectors(child: c_int) {
    unsafe {
        let mut bytes = [0u8; 264];
        bytes[260..].fill(9);
        let at = bytes.as_mut_ptr() as usize;
        tell("PTRACE_GETVFPREGS", trace(GETVFPREGS, child, 0, at).into());
        let eighth = f64::from_ne_bytes(bytes[64..72].try_into().unwrap());
        println!("  d8 {eighth} beyond {:?}", &bytes[260..]);
        bytes[64..72].copy_from_slice(&2.5f64.to_ne_bytes());
        tell("PTRACE_SETVFPREGS", trace(SETVFPREGS, child, 0, at).into());
    }
}

unsafe fn sets(child: c_int) {
    unsafe {
        let mut bytes = [0u8; 1024];
        for (kind, len) in [
            (GENERAL, 1024),
            (GENERAL, 8),
            (GENERAL, 7),
            (FLOATING, 1024),
            (VFP, 1024),
            (0x401, 64),
        ] {
            let mut room = [bytes.as_mut_ptr() as u32, len];
            let at = room.as_mut_ptr() as usize;
            tell(
                &format!("PTRACE_GETREGSET {kind:#x} of {len}"),
                trace(GETREGSET, child, kind, at).into(),
            );
            println!("  {}", room[1]);
        }
        let mut room = [bytes.as_mut_ptr() as u32, 72];
        let at = room.as_mut_ptr() as usize;
        trace(GETREGSET, child, GENERAL, at);
        tell(
            "PTRACE_SETREGSET",
            trace(SETREGSET, child, GENERAL, at).into(),
        );
    }
}

unsafe fn memory(child: c_int) {
    unsafe {
        let at = &raw mut WORD as usize;
        let mut word = 0u32;
        let to = &raw mut word as usize;
        tell("PTRACE_PEEKTEXT", trace(PEEKTEXT, child, at, to).into());
        println!("  {word:x}");
        tell("PTRACE_POKETEXT", trace(POKETEXT, child, at, 0x2222).into());
        tell("of a hole", trace(PEEKTEXT, child, 0x10, to).into());
        let mut info = [0i32; 32];
        tell(
            "PTRACE_GETSIGINFO",
            trace(GETSIGINFO, child, 0, info.as_mut_ptr() as usize).into(),
        );
        println!("  {:?} {}", &info[..3], info[3] != 0);
        let local = [&raw mut word as u32, 4];
        let remote = [at as u32, 4];
        let (local, remote) = (local.as_ptr(), remote.as_ptr());
        tell(
            "process_vm_readv",
            libc::syscall(libc::SYS_process_vm_readv, child, local, 1, remote, 1, 0).into(),
        );
        println!("  {word:x}");
        let none = ptr::null::<u8>();
        tell("no tracer", trace(GETREGS, 1, 0, none as usize).into());
    }
}

/// To a 32-bit tracer, a 64-bit tracee has the registers of a 32-bit one.
unsafe fn wide() {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::setuid(77);
            libc::syscall(libc::SYS_ptrace, 0, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            let name = c"busybox".as_ptr();
            let arguments = [name, c"true".as_ptr(), ptr::null()];
            libc::execv(c"/bin/busybox".as_ptr(), arguments.as_ptr());
            libc::_exit(1);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell(
            "PTRACE_O_TRACEEXEC",
            trace(SETOPTIONS, child, 0, 0x10).into(),
        );
        trace(CONT, child, 0, 0);
        libc::waitpid(child, &mut status, 0);
        println!("stopped {status:#x}");
        let mut info = [9i32; 32];
        let to = info.as_mut_ptr() as usize;
        tell("PTRACE_GETSIGINFO", trace(GETSIGINFO, child, 0, to).into());
        println!("  {:x?} {} {:?}", &info[..3], info[3] == child, &info[4..6]);

        let mut words = [9u32; 80];
        let at = words.as_mut_ptr() as usize;
        tell("PTRACE_GETREGS", trace(GETREGS, child, 0, at).into());
        println!(
            "  mode {:x} beyond {:?}",
            words[16] & 0x1ff,
            beyond(&words, 18)
        );
        let (pc, five) = (words[15], words[5]);
        let mut word = [9u32; 4];
        let to = word.as_mut_ptr() as usize;
        for offset in [60, 64, 71, 72, 272, 296] {
            let got = trace(PEEKUSR, child, offset, to);
            tell(&format!("PTRACE_PEEKUSR {offset}"), got.into());
            println!(
                "  {}",
                word[0] == words.get(offset / 4).copied().unwrap_or(0)
            );
            word[0] = 9;
        }
        tell("PTRACE_POKEUSR", trace(POKEUSR, child, 24, 0x6060).into());
        trace(GETREGS, child, 0, at);
        println!(
            "  r6 {:x} others {}",
            words[6],
            (pc, five) == (words[15], words[5])
        );
        words[16] |= 0x10;
        tell("to 32 bits", trace(SETREGS, child, 0, at).into());
        tell("to 32 bits", trace(POKEUSR, child, 64, 0x10).into());
        words[16] &= !0x10;
        words[7] = 0x7070;
        tell("PTRACE_SETREGS", trace(SETREGS, child, 0, at).into());
        words[..18].fill(9);
        trace(GETREGS, child, 0, at);
        println!("  r7 {:x} pc {}", words[7], words[15] == pc);
        let area = trace(GET_THREAD_AREA, child, 0, to);
        tell("PTRACE_GET_THREAD_AREA", area.into());
        println!("  beyond {}", beyond(&word, 1));
        words.fill(9);
        tell("PTRACE_GETVFPREGS", trace(GETVFPREGS, child, 0, at).into());
        println!("  beyond {}", beyond(&words, 65));
        tell("PTRACE_SETVFPREGS", trace(SETVFPREGS, child, 0, at).into());
        for kind in [GENERAL, FLOATING, VFP, 0x401] {
            words.fill(9);
            let mut room = [at as u32, 320];
            let set = room.as_mut_ptr() as usize;
            let got = trace(GETREGSET, child, kind, set);
            tell(&format!("PTRACE_GETREGSET {kind:#x}"), got.into());
            println!("  {}", room[1]);
            (set as *mut u32).add(1).write(8);
            let got = trace(SETREGSET, child, kind, set);
            tell(&format!("PTRACE_SETREGSET {kind:#x}"), got.into());
        }
        tell(
            "PTRACE_SET_SYSCALL",
            trace(SET_SYSCALL, child, 0, 20).into(),
        );
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
        println!("status {status:#x}");
    }
}

/// Whether the words from `first` on are unchanged.
fn beyond(words: &[u32], first: usize) -> &'static str {
    if words[first..].iter().all(|&word| word == 9) {
        "untouched"
    } else {
        "changed"
    }
}
