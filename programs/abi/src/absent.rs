//! Requests for newer CPU features on CPUs without them.

use std::arch::asm;
use std::mem;
use std::ptr;

use libc::{PROT_EXEC, PROT_READ, c_int};

use crate::ptrace::{ptrace, wait};
use crate::{in_child, tell, tell_end};

const PROT_BTI: c_int = 0x10;

/// Runs this part.
pub fn run() {
    // SAFETY: children end by _exit or are waited for, and every structure passed is complete.
    unsafe {
        for option in [54, 60, 61] {
            for keys in [0, 1, 15, 16] {
                let done = libc::prctl(option, keys, 0, 0, 0);
                tell(&format!("prctl {option} {keys}"), done);
            }
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = PROT_READ | PROT_EXEC | PROT_BTI;
        let page = libc::mmap(ptr::null_mut(), 4096, rights, flags, -1, 0);
        tell("mmap, guarded", i64::from(page != libc::MAP_FAILED));
        tell("mprotect, guarded", libc::mprotect(page, 4096, rights));
        registers();
        // These instructions are hints without effect.
        let mut address = 0x5000u64;
        asm!("mov x17, {0}", "mov x16, 7", "hint #8", "hint #34", "mov {0}, x17", inout(reg) address,
            out("x16") _, out("x17") _);
        println!("signed: {address:#x}");
    }
    let instructions = [
        ("pacia", 0xdac1_0020u32),
        ("pacga", 0x9ac1_3020),
        ("cpyfp", 0x1901_0440),
        ("irg", 0x9adf_1000),
    ];
    for (name, word) in instructions {
        tell_end(name, in_child(|| execute(word)));
    }
}

fn execute(word: u32) {
    // SAFETY: new memory; the instruction changes x0, or the child ends.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = PROT_READ | PROT_EXEC | libc::PROT_WRITE;
        let page = libc::mmap(ptr::null_mut(), 4096, rights, flags, -1, 0);
        page.cast::<[u32; 2]>().write([word, 0xd65f_03c0]);
        asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) page);
        mem::transmute::<*mut libc::c_void, extern "C" fn()>(page)();
    }
}

unsafe fn registers() {
    // SAFETY: as in `run`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            ptrace(libc::PTRACE_TRACEME as u32, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            libc::_exit(0);
        }
        println!("{}", wait(child));
        for (kind, len) in [(0x406, 16), (0x40a, 8), (0x407, 64), (0x408, 16)] {
            for request in [libc::PTRACE_GETREGSET, libc::PTRACE_SETREGSET] {
                let mut bytes = [0u8; 64];
                let mut range = [bytes.as_mut_ptr() as usize, len];
                let done = ptrace(request as u32, child, kind, (&raw mut range) as usize);
                tell(&format!("{request:#x} {kind:#x}"), done);
            }
        }
        ptrace(libc::PTRACE_CONT as u32, child, 0, 0);
        println!("{}", wait(child));
    }
}
