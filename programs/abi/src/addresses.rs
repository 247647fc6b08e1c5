//! The addresses of a program's parts, the size of its address space, and accesses beyond it.
//! RISC-V only, whose machines differ in this.

use std::{mem, ptr};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED_NOREPLACE, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_READ, PROT_WRITE, c_int, c_void,
};

use crate::{error, in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;

/// Runs this part.
pub fn run() {
    // SAFETY: mappings replace none, and accesses that fault are in a child.
    unsafe {
        parts();
        for bit in [37, 38, 39, 46, 47, 48, 55, 56, 62, 63] {
            println!("around 2^{bit}:");
            for address in [(1 << bit) - 2 * PAGE, 1 << bit] {
                mapped_at(address);
                system_calls(address);
                touched(address);
            }
        }
    }
}

/// The number of significant bits of an address.
fn bits(address: usize) -> u32 {
    usize::BITS - address.leading_zeros()
}

unsafe fn map(at: usize, len: usize, flags: c_int) -> *mut c_void {
    let flags = flags | MAP_PRIVATE | MAP_ANONYMOUS;
    unsafe { libc::mmap(at as *mut c_void, len, PROT_READ | PROT_WRITE, flags, -1, 0) }
}

unsafe fn parts() {
    unsafe {
        let local = 0u8;
        println!("stack: {}", bits(ptr::from_ref(&local).addr()));
        println!("mapping: {}", bits(map(0, PAGE, 0).addr()));
        let vdso = libc::getauxval(libc::AT_SYSINFO_EHDR) as usize;
        println!("vDSO: {}", bits(vdso));
        // More bytes than any mode but the widest has; none of them is ever accessed.
        for shift in [36, 37, 38, 45, 46, 47, 55] {
            let flags = libc::MAP_NORESERVE;
            let result = map(0, 1 << shift, flags);
            tell_ok(&format!("2^{shift} bytes"), result != MAP_FAILED);
            if result != MAP_FAILED {
                libc::munmap(result, 1 << shift);
            }
        }
    }
}

/// Maps at a hint, and at a fixed address.
unsafe fn mapped_at(address: usize) {
    unsafe {
        let hinted = map(address, PAGE, 0);
        println!("hint taken: {}", hinted.addr() == address);
        libc::munmap(hinted, PAGE);
        let fixed = map(address, PAGE, MAP_FIXED_NOREPLACE);
        if fixed == MAP_FAILED {
            println!("fixed: {}", error());
        } else {
            fixed.cast::<u8>().write(7);
            println!("fixed: written {}", fixed.cast::<u8>().read());
        }
        tell(
            "protected",
            libc::mprotect(address as *mut c_void, PAGE, PROT_READ),
        );
        let moved = map(0, PAGE, 0);
        let to = address as *mut c_void;
        let moved = libc::mremap(moved, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        println!(
            "moved: {}",
            if moved == MAP_FAILED {
                error()
            } else {
                "there"
            }
        );
        tell("locked", libc::mlock(address as *const c_void, PAGE));
        tell("advised", libc::madvise(to, PAGE, libc::MADV_DONTNEED));
        tell("unmapped", libc::munmap(to, PAGE));
    }
}

/// Errors of system calls for an unmapped address.
unsafe fn system_calls(address: usize) {
    unsafe {
        let at = address as *mut c_void;
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        tell("written from", libc::write(ends[1], at, 8) as i64);
        libc::write(ends[1], [0u8; 8].as_ptr().cast(), 8);
        tell("read to", libc::read(ends[0], at, 8) as i64);
        for end in ends {
            libc::close(end);
        }
        tell("name", libc::access(at.cast(), 0));
        tell(
            "wake",
            libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAKE, 1),
        );
        let private = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        tell(
            "private wake",
            libc::syscall(libc::SYS_futex, at, private, 1),
        );
        let mut present = 0u8;
        tell("in memory", libc::mincore(at, PAGE, &mut present));
    }
}

/// The signal of an access to an unmapped address.
unsafe fn touched(address: usize) {
    extern "C" fn handler(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel passes a complete siginfo.
        let (code, at) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
        println!(
            "code {code} at its address: {}",
            at & (PAGE - 1) == 0 && at != 0
        );
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    unsafe {
        let status = in_child(|| {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
            (address as *mut u8).write_volatile(1);
        });
        tell_end("touched", status);
    }
}
