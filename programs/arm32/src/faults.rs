//! Faults as a signal handler sees them: the signal, its code, the address.

use std::arch::{asm, global_asm};
use std::mem;
use std::ptr;

use libc::{PROT_NONE, PROT_READ, PROT_WRITE, c_int, c_void, siginfo_t};

use crate::in_child;

/// The address of the next expected fault.
static mut EXPECTED: usize = 0;

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo, and the process has one thread.
    unsafe {
        let offset = ((*info).si_addr() as usize).wrapping_sub(EXPECTED) as isize;
        print!(
            "signal {signal} code {} address {offset:+}, ",
            (*info).si_code
        );
        crate::signals::flush_and_exit();
    }
}

/// Runs `work` in a child that prints whether its fault is at `expected`.
fn faulting(what: &str, expected: usize, work: impl FnOnce()) {
    in_child(what, || {
        // SAFETY: the handler has the signature that SA_SIGINFO requires.
        unsafe {
            EXPECTED = expected;
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            for signal in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGILL,
                libc::SIGTRAP,
                libc::SIGFPE,
            ] {
                libc::sigaction(signal, &action, ptr::null_mut());
            }
        }
        work();
        print!("no fault, ");
    });
}

/// Executes an undefined Arm instruction, whose address is stored in EXPECTED.
fn undefined() {
    // SAFETY: it ends in the handler.
    unsafe {
        asm!("adr {at}, 2f", "str {at}, [{to}]", "2: udf #0", at = out(reg) _, to = in(reg) &raw mut EXPECTED)
    };
}

global_asm!(
    ".thumb",
    ".p2align 2",
    ".thumb_func",
    "undefined_at:",
    "adr r1, 2f",
    "str r1, [r0]",
    ".p2align 2",
    "2: udf #0",
    ".arm",
);

unsafe extern "C" {
    /// Stores the address of an undefined Thumb instruction, and executes it.
    fn undefined_at(at: *mut usize);
}

global_asm!(
    ".global undefined_breakpoint, waits, thumb_breakpoint, wide_breakpoint",
    "undefined_breakpoint:",
    "adr r1, 2f",
    "str r1, [r0]",
    "2: .word 0xe7f001f0",
    "bx lr",
    "waits:",
    "adr r1, 2f",
    "str r1, [r0]",
    "2: wfi",
    "bx lr",
    ".thumb",
    ".p2align 2",
    ".thumb_func",
    "thumb_breakpoint:",
    "adr r1, 2f",
    "str r1, [r0]",
    ".p2align 2",
    "2: .short 0xde01",
    ".p2align 2",
    ".thumb_func",
    "wide_breakpoint:",
    "adr r1, 2f",
    "str r1, [r0]",
    ".p2align 2",
    "2: .short 0xf7f0, 0xa000",
    ".arm",
);

unsafe extern "C" {
    /// Store the address of the instruction that debuggers use as breakpoint, in Arm and Thumb, or
    /// of WFI, and execute it.
    fn undefined_breakpoint(at: *mut usize);
    fn thumb_breakpoint(at: *mut usize);
    fn wide_breakpoint(at: *mut usize);
    fn waits(at: *mut usize);
}

/// Executes the instruction of such a function.
fn at(instruction: unsafe extern "C" fn(*mut usize)) {
    // SAFETY: it ends in the handler.
    unsafe { instruction(&raw mut EXPECTED) };
}

/// Executes an undefined Thumb instruction.
fn undefined_thumb() {
    // SAFETY: it ends in the handler.
    unsafe { undefined_at(&raw mut EXPECTED) };
}

/// Reads a register that only the kernel may read.
fn privileged() {
    // SAFETY: it ends in the handler.
    unsafe {
        asm!("adr {at}, 2f", "str {at}, [{to}]", "2: mrc p15, 0, {at}, c1, c0, 0", at = out(reg) _, to = in(reg) &raw mut EXPECTED)
    };
}

/// Reads CNTPCT.
fn physical_counter() {
    // SAFETY: it ends in the handler.
    unsafe {
        asm!("adr {at}, 2f", "str {at}, [{to}]", "2: mrrc p15, 0, {at}, {to}, c14", at = out(reg) _, to = inout(reg) &raw mut EXPECTED => _)
    };
}

/// Reads DBGDSCRint.
fn debug_channel() {
    // SAFETY: it ends in the handler.
    unsafe {
        asm!("adr {at}, 2f", "str {at}, [{to}]", "2: mrc p14, 0, {at}, c0, c1, 0", at = out(reg) _, to = in(reg) &raw mut EXPECTED)
    };
}

fn breakpoint() {
    // SAFETY: it ends in the handler.
    unsafe {
        asm!("adr {at}, 2f", "str {at}, [{to}]", "2: bkpt #0", at = out(reg) _, to = in(reg) &raw mut EXPECTED)
    };
}

/// Runs this part.
pub fn run() {
    // SAFETY: the faults are in children, at addresses mapped for them.
    unsafe {
        let map = |protection| {
            libc::mmap(
                ptr::null_mut(),
                4096,
                protection,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            ) as usize
        };
        let read = |at: usize| _ = ptr::with_exposed_provenance::<u8>(at).read_volatile();
        let write = |at: usize| ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1);
        let run = |at: usize| mem::transmute::<usize, extern "C" fn()>(at)();
        let (read_only, forbidden, data) =
            (map(PROT_READ), map(PROT_NONE), map(PROT_READ | PROT_WRITE));
        faulting("null", 0, || read(0));
        faulting("read-only, write", read_only + 7, || write(read_only + 7));
        faulting("no access, read", forbidden + 8, || read(forbidden + 8));
        faulting("data, executed", data, || run(data));
        faulting("vectors, write", 0xffff_0010, || write(0xffff_0010));
        faulting("the last page", 0xffff_fffc, || read(0xffff_fffc));
        faulting("undefined", 0, undefined);
        faulting("undefined, Thumb", 0, undefined_thumb);
        faulting("privileged", 0, privileged);
        faulting("the physical counter", 0, physical_counter);
        faulting("the debug channel", 0, debug_channel);
        faulting("a breakpoint", 0, breakpoint);
        faulting("a debugger's breakpoint", 0, || at(undefined_breakpoint));
        faulting("a debugger's breakpoint, Thumb", 0, || at(thumb_breakpoint));
        faulting("a debugger's wide breakpoint, Thumb", 0, || {
            at(wide_breakpoint)
        });
        faulting("waiting for interrupts", 0, || at(waits));
        faulting(
            "misaligned exclusive",
            data + 2,
            || asm!("ldrex {0}, [{1}]", out(reg) _, in(reg) data + 2),
        );
    }
}
