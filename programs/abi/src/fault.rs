//! Faults as a signal handler sees them: the signal, its code, the address.

use std::io::Write;
use std::mem;
use std::ptr;

use libc::{
    MAP_ANONYMOUS, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE, c_int, c_void, siginfo_t,
};

use crate::{in_child, path, tell_end, touch};

const PAGE: usize = 4096;

/// An unmapped address, far below where the kernel places mappings.
const HOLE: usize = 0x10_0000_0000;

/// The address of the next expected fault.
static mut EXPECTED: usize = 0;

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo, and the process has one thread.
    unsafe {
        let offset = ((*info).si_addr() as usize).wrapping_sub(EXPECTED) as isize;
        println!(
            "signal {signal} code {} address {offset:+} context {}",
            (*info).si_code,
            !context.is_null()
        );
        libc::_exit(0);
    }
}

/// Runs `work` in a child that prints whether its fault is at `expected`.
fn faulting(what: &str, expected: *const u8, work: impl FnOnce()) {
    print!("{what}: ");
    let _ = std::io::stdout().flush();
    let status = in_child(|| {
        // SAFETY: the handler has the signature that SA_SIGINFO requires.
        unsafe {
            EXPECTED = expected as usize;
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
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
        println!("no fault");
    });
    if status != 0 {
        tell_end("", status);
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: the faults are in children, at addresses mapped for them.
    unsafe {
        let map = |pages: usize, protection| {
            libc::mmap(
                ptr::null_mut(),
                pages * PAGE,
                protection,
                MAP_PRIVATE | MAP_ANONYMOUS,
                -1,
                0,
            )
            .cast::<u8>()
        };
        let both = PROT_READ | PROT_WRITE;
        let (read_only, forbidden, data) = (map(1, PROT_READ), map(1, PROT_NONE), map(1, both));
        let hole = ptr::without_provenance_mut::<u8>(HOLE);
        faulting("null", ptr::null(), || touch(ptr::null()));
        faulting("not mapped, read", hole.add(5), || touch(hole.add(5)));
        faulting("not mapped, write", hole.add(6), || {
            hole.add(6).write_volatile(1)
        });
        faulting("read-only, write", read_only.add(7), || {
            read_only.add(7).write_volatile(1)
        });
        faulting("no access, read", forbidden.add(8), || {
            touch(forbidden.add(8))
        });
        faulting("data, executed", data, || {
            mem::transmute::<*mut u8, extern "C" fn()>(data)()
        });
        faulting("nothing, executed", hole, || {
            mem::transmute::<*mut u8, extern "C" fn()>(hole)()
        });
        let kernel = (usize::MAX - 0xfff) as *const u8;
        faulting("the kernel's, read", kernel, || touch(kernel));

        let file = libc::open(path(c"short"), libc::O_RDWR | libc::O_CREAT, 0o600);
        libc::ftruncate(file, 10);
        let mapped =
            libc::mmap(ptr::null_mut(), 2 * PAGE, both, libc::MAP_SHARED, file, 0).cast::<u8>();
        faulting("beyond the file", mapped.add(PAGE + 3), || {
            touch(mapped.add(PAGE + 3))
        });

        let stack = map(16, both);
        faulting("on another stack", hole, || {
            let alternate = libc::stack_t {
                ss_sp: stack.cast(),
                ss_flags: 0,
                ss_size: 16 * PAGE,
            };
            libc::sigaltstack(&alternate, ptr::null_mut());
            hole.write_volatile(1);
        });
        kernel_answers(hole, read_only);
    }
}

/// Bad pointers in system calls cause errors, not signals.
unsafe fn kernel_answers(hole: *mut u8, read_only: *mut u8) {
    unsafe {
        let (mut pipe, zero) = ([0; 2], libc::open(path(c"/dev/zero"), libc::O_RDONLY));
        libc::pipe(pipe.as_mut_ptr());
        crate::tell("read into a hole", libc::read(zero, hole.cast(), 10) as i64);
        crate::tell(
            "read into what is read-only",
            libc::read(zero, read_only.cast(), 10) as i64,
        );
        crate::tell(
            "write from a hole",
            libc::write(pipe[1], hole.cast(), 10) as i64,
        );
        crate::tell("open a hole", libc::open(hole.cast(), libc::O_RDONLY));
        crate::tell(
            "stat into a hole",
            libc::syscall(libc::SYS_fstat, zero, hole),
        );
        crate::tell("pipe into a hole", libc::syscall(libc::SYS_pipe2, hole, 0));
        crate::tell(
            "read into the kernel's",
            libc::read(zero, (usize::MAX - 0xfff) as *mut c_void, 10) as i64,
        );
        crate::tell(
            "time into a hole",
            libc::syscall(libc::SYS_clock_gettime, 0, hole),
        );
        crate::tell("an unknown call", libc::syscall(499));
        crate::tell("a call beyond all", libc::syscall(0x7fff_ffff));
    }
}
