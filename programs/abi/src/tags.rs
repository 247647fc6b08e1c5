//! Addresses with a tag in their top byte, and the calls that accept them
//! (PR_SET_TAGGED_ADDR_CTRL).

use std::fs;
use std::ptr;

use libc::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE, c_int, c_long, c_void};

use crate::{in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const SET: c_int = 55;
const GET: c_int = 56;
const ENABLE: usize = 1;
const TAG: usize = 0x2a << 56;
const DISABLED: &str = "/proc/sys/abi/tagged_addr_disabled";

/// Runs this part.
pub fn run() {
    // SAFETY: accessed memory is mapped, and children end by _exit.
    unsafe {
        settings();
        println!("without");
        calls();
        println!("with");
        tell("set", libc::prctl(SET, ENABLE, 0, 0, 0));
        calls();
        inherited();
        disabled();
        traced_sets();
    }
}

/// A tracer's view of the mode, which it can set (NT_ARM_TAGGED_ADDR_CTRL), and the length of the
/// set of thread pointers (NT_ARM_TLS).
unsafe fn traced_sets() {
    use crate::ptrace::{ptrace, traced, wait};
    const GET_SET: u32 = 0x4204;
    const SET_SET: u32 = 0x4205;
    unsafe {
        let child = traced(|| libc::_exit(libc::prctl(GET, 0, 0, 0, 0)));
        println!("{}", wait(child));
        let access = |what: &str, request: u32, kind: usize, words: &mut [u64], len: usize| {
            let mut piece = [words.as_mut_ptr() as usize, len];
            let at = (&raw mut piece) as usize;
            tell(what, ptrace(request, child, kind, at));
            println!("  {} bytes", piece[1]);
        };
        let mut mode = [9u64; 3];
        access("mode", GET_SET, 0x409, &mut mode, 24);
        println!("  {mode:?}");
        access("half of it", GET_SET, 0x409, &mut mode, 4);
        for value in [0, 2, u64::MAX, 1] {
            access("set", SET_SET, 0x409, &mut [value], 8);
            access("get", GET_SET, 0x409, &mut mode, 8);
            println!("  {:?}", mode[0]);
        }
        let mut pointers = [9u64; 3];
        access("pointers", GET_SET, 0x401, &mut pointers, 24);
        println!("  {:?}", &pointers[1..]);
        access("set them", SET_SET, 0x401, &mut pointers, 16);
        access("set the first", SET_SET, 0x401, &mut pointers, 8);
        let before = pointers[0];
        access("again", GET_SET, 0x401, &mut pointers, 16);
        println!("  {}", pointers[0] == before);
        ptrace(libc::PTRACE_CONT as u32, child, 0, 0);
        println!("{}", wait(child));
    }
}

/// Continues after an exec of this program.
pub fn after_exec() {
    // SAFETY: nothing can be wrong here.
    unsafe { tell("after exec", libc::prctl(GET, 0, 0, 0, 0)) };
}

unsafe fn settings() {
    unsafe {
        tell("at first", libc::prctl(GET, 0, 0, 0, 0));
        tell("more arguments", libc::prctl(GET, 0, 1, 0, 0));
        for value in [ENABLE | 2, 1 << 3, usize::MAX, 8] {
            tell("set", libc::prctl(SET, value, 0, 0, 0));
        }
        tell("more arguments", libc::prctl(SET, ENABLE, 1, 0, 0));
        tell("on", libc::prctl(SET, ENABLE, 0, 0, 0));
        tell("now", libc::prctl(GET, 0, 0, 0, 0));
        tell("off", libc::prctl(SET, 0, 0, 0, 0));
        tell("now", libc::prctl(GET, 0, 0, 0, 0));
    }
}

fn tagged<T>(address: *mut T) -> *mut T {
    (address as usize | TAG) as *mut T
}

unsafe fn calls() {
    unsafe {
        let map = || {
            let rights = PROT_READ | PROT_WRITE;
            libc::mmap(
                ptr::null_mut(),
                4 * PAGE,
                rights,
                MAP_PRIVATE | MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let at = map();
        let byte = at.cast::<u8>();
        byte.write_volatile(5);
        println!("by an instruction: {}", tagged(byte).read_volatile());
        let mut ends = [0; 2];
        tell("pipe", libc::pipe(ends.as_mut_ptr()));
        let [reader, writer] = ends;
        tell("write", libc::write(writer, tagged(at), 3) as i64);
        libc::write(writer, at, 3);
        tell("read", libc::read(reader, tagged(at), 1) as i64);
        let pieces = [libc::iovec {
            iov_base: tagged(at),
            iov_len: 1,
        }];
        tell("writev", libc::writev(writer, pieces.as_ptr(), 1) as i64);
        let mut list = pieces;
        list[0].iov_base = at;
        tell(
            "its list",
            libc::writev(writer, tagged(list.as_mut_ptr()), 1) as i64,
        );
        let mut name = *b"/dev/null\0";
        let open = libc::open(tagged(name.as_mut_ptr()).cast(), libc::O_RDONLY);
        tell_ok("a path", open >= 0);
        let mut time = [0i64; 2];
        let got = libc::syscall(libc::SYS_clock_gettime, 0, tagged(time.as_mut_ptr()));
        tell("a time", got);
        tell(
            "a limit",
            libc::syscall(libc::SYS_getrlimit, 3, tagged(time.as_mut_ptr())),
        );
        let word = at.cast::<u32>();
        word.write_volatile(9);
        let futex = |operation: c_int, value: c_int| {
            libc::syscall(
                libc::SYS_futex,
                tagged(word),
                operation,
                value,
                ptr::null::<u8>(),
            )
        };
        for (name, private) in [("shared", 0), ("private", libc::FUTEX_PRIVATE_FLAG)] {
            tell(
                &format!("wait, {name}"),
                futex(libc::FUTEX_WAIT | private, 1),
            );
            tell(
                &format!("wake, {name}"),
                futex(libc::FUTEX_WAKE | private, 1),
            );
        }
        let set = libc::syscall(libc::SYS_rt_sigprocmask, 0, 0, tagged(time.as_mut_ptr()), 8);
        tell("a mask", set);
        let far = libc::read(reader, (usize::MAX << 52) as *mut c_void, 1);
        tell("the kernel's", far as i64);
        let beyond = libc::read(reader, (TAG | 1 << 52) as *mut c_void, 1);
        tell("beyond", beyond as i64);
        let end = libc::read(reader, (TAG | (1 << 48)) as *mut c_void, 1);
        tell("at the end", end as i64);

        // System calls about memory.
        let t = tagged(at);
        tell("mprotect", libc::mprotect(t, PAGE, PROT_READ | PROT_WRITE));
        tell("madvise", libc::madvise(t, PAGE, libc::MADV_NORMAL));
        tell("give back", libc::madvise(t, PAGE, libc::MADV_DONTNEED));
        let mut there = 0u8;
        tell("mincore", libc::mincore(t, PAGE, &mut there));
        tell("mlock", libc::mlock(t, PAGE));
        tell("munlock", libc::munlock(t, PAGE));
        tell("msync", libc::msync(t, PAGE, libc::MS_ASYNC));
        let moved = libc::mremap(t, 4 * PAGE, 2 * PAGE, 0);
        println!(
            "mremap: {}",
            if moved == at {
                "the address"
            } else {
                "another"
            }
        );
        if moved == libc::MAP_FAILED {
            tell("mremap", -1);
        }
        let target = map();
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let to: c_long = libc::syscall(libc::SYS_mremap, at, PAGE, PAGE, flags, tagged(target));
        tell_ok("to a tag", to != -1);
        let rights = PROT_READ | PROT_WRITE;
        let fixed = MAP_PRIVATE | MAP_ANONYMOUS | libc::MAP_FIXED;
        let made = libc::mmap(tagged(target), PAGE, rights, fixed, -1, 0);
        tell_ok("mmap there", made != libc::MAP_FAILED);
        let hint = MAP_PRIVATE | MAP_ANONYMOUS;
        let made = libc::mmap(tagged(target), PAGE, rights, hint, -1, 0);
        tell_ok("mmap near there", made != libc::MAP_FAILED);
        let end = libc::syscall(libc::SYS_brk, 0) as usize;
        let moved = libc::syscall(libc::SYS_brk, end | TAG) as usize;
        println!("brk: {}", moved == end);
        tell("munmap", libc::munmap(t, PAGE));
        tell("munmap", libc::munmap(tagged(target), 4 * PAGE));
        for file in [reader, writer, open] {
            libc::close(file);
        }
    }
}

unsafe fn inherited() {
    unsafe {
        let child = in_child(|| tell("child", libc::prctl(GET, 0, 0, 0, 0)));
        tell_end("child", child);
        let child = in_child(|| {
            let program = c"/proc/self/exe";
            let arguments = [
                program.as_ptr(),
                c"tags".as_ptr(),
                c"exec".as_ptr(),
                ptr::null(),
            ];
            libc::execv(program.as_ptr(), arguments.as_ptr());
        });
        tell_end("exec", child);
    }
}

unsafe fn disabled() {
    unsafe {
        println!("disabled: {:?}", fs::read_to_string(DISABLED).ok());
        if fs::write(DISABLED, "1").is_err() {
            return;
        }
        tell("it stays", libc::prctl(GET, 0, 0, 0, 0));
        tell("again", libc::prctl(SET, ENABLE, 0, 0, 0));
        tell("off", libc::prctl(SET, 0, 0, 0, 0));
        tell("on", libc::prctl(SET, ENABLE, 0, 0, 0));
        println!(
            "2: {:?}",
            fs::write(DISABLED, "2").map_err(|error| error.raw_os_error())
        );
        _ = fs::write(DISABLED, "0");
    }
}
