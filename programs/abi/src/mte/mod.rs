//! Memory tagging (FEAT_MTE2, FEAT_MTE3): tagged memory, tag checks of accesses, and access to tags
//! by others.

use std::arch::asm;
use std::fs;
use std::io::Write;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use libc::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE};
use libc::{c_int, c_void, siginfo_t};

use crate::{in_child, tell, tell_end, tell_ok};

mod memory;
mod seen;

const PROT_MTE: c_int = 0x20;
const TAGGED: c_int = PROT_READ | PROT_WRITE | PROT_MTE;
const PAGE: usize = 4096;
const GRANULE: usize = 16;

const SET: c_int = 55;
const GET: c_int = 56;
const ENABLE: usize = 1;
const SYNC: usize = 2;
const ASYNC: usize = 4;
const ALL_TAGS: usize = 0xfffe << 3;
const SA_EXPOSE_TAGBITS: c_int = 0x800;

/// State of the handler: the number of signals, and the addresses of expected faults.
static CAUGHT: AtomicU32 = AtomicU32::new(0);
static EXPECTED: AtomicUsize = AtomicUsize::new(0);

/// Runs this part.
pub fn run() {
    // SAFETY: accessed memory is mapped, or its fault is expected; children end by _exit.
    unsafe {
        libc::alarm(200);
        shown();
        controls();
        mapped();
        checked();
        calls();
        later();
        overridden();
        memory::run();
        threads();
        seen::run();
    }
}

/// Continues after an exec of this program.
pub fn after_exec() {
    // SAFETY: nothing can be wrong here.
    unsafe {
        tell("after exec", libc::prctl(GET, 0, 0, 0, 0));
        println!("a tag by chance: {}", by_chance(0, 0) >> 56);
    }
}

unsafe fn map(rights: c_int, flags: c_int, len: usize) -> usize {
    unsafe {
        let at = libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0);
        if at == libc::MAP_FAILED {
            println!("mmap: {}", crate::error());
            libc::_exit(1);
        }
        at as usize
    }
}

unsafe fn private(rights: c_int, pages: usize) -> usize {
    unsafe { map(rights, MAP_PRIVATE | MAP_ANONYMOUS, pages * PAGE) }
}

fn with(address: usize, tag: usize) -> usize {
    address & !(0xff << 56) | tag << 56
}

/// Executes STG.
unsafe fn set_tag(address: usize, tag: usize) {
    let tagged = with(address, tag);
    unsafe { asm!(".arch_extension memtag", "stg {0}, [{0}]", in(reg) tagged) };
}

/// Executes LDG.
unsafe fn tag(address: usize) -> usize {
    let mut loaded = with(address, 0);
    unsafe { asm!(".arch_extension memtag", "ldg {0}, [{0}]", inout(reg) loaded) };
    loaded >> 56
}

/// Executes IRG.
unsafe fn by_chance(address: usize, excluded: usize) -> usize {
    let mut to = address;
    unsafe { asm!(".arch_extension memtag", "irg {0}, {0}, {1}", inout(reg) to, in(reg) excluded) };
    to
}

unsafe fn load(address: usize) -> u8 {
    let value: u32;
    unsafe { asm!("ldrb {0:w}, [{1}]", out(reg) value, in(reg) address) };
    value as u8
}

unsafe fn store(address: usize, value: u8) {
    unsafe { asm!("strb {0:w}, [{1}]", in(reg) u32::from(value), in(reg) address) };
}

fn check(mode: usize) {
    // SAFETY: sets a mode of tag checks.
    let done = unsafe { libc::prctl(SET, mode, 0, 0, 0) };
    if done != 0 {
        println!("mode {mode:#x}: {}", crate::error());
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo and context.
    unsafe {
        CAUGHT.fetch_add(1, Relaxed);
        let at = (*info).si_addr() as usize;
        let code = (*info).si_code;
        let context = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        let overrides: usize;
        asm!(".arch_extension memtag", "mrs {0}, tco", out(reg) overrides);
        let (tag, offset) = (
            at >> 56,
            with(at, 0).wrapping_sub(EXPECTED.load(Relaxed)) as isize,
        );
        let offset = if at == 0 || code < 8 { 0 } else { offset };
        let was = context.pstate >> 25 & 1;
        println!(
            "  signal {signal} code {code} at {offset:+} tag {tag:x} tco {} was {was}",
            overrides >> 25 & 1,
        );
        if code != 8 {
            context.pc += 4;
        }
    }
}

unsafe fn handle(flags: c_int) {
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
    }
}

fn caught() -> u32 {
    CAUGHT.load(Relaxed)
}

fn begin(what: &str) {
    println!("{what}");
    let _ = std::io::stdout().flush();
}

unsafe fn shown() {
    unsafe {
        let hwcap2 = libc::getauxval(libc::AT_HWCAP2);
        println!("hwcap2: mte {} mte3 {}", hwcap2 >> 18 & 1, hwcap2 >> 22 & 1);
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let names = text.lines().find(|line| line.starts_with("Features"));
        let names = names.unwrap_or_default().split(' ');
        println!(
            "{:?}",
            names
                .filter(|name| name.starts_with("mte"))
                .collect::<Vec<_>>()
        );
        let field: usize;
        asm!("mrs {0}, S3_0_C0_C4_1", out(reg) field);
        println!("field: {}", field >> 8 & 0xf);
        let preferred = "/sys/devices/system/cpu/cpu0/mte_tcf_preferred";
        println!("{:?}", fs::read_to_string(preferred).ok());
        for value in [
            "sync\n", "asymm", "sync\n\n", "async ", "nothing", "", "async",
        ] {
            let written = fs::write(preferred, value).err();
            let error = written.and_then(|error| error.raw_os_error());
            println!(
                "{value:?}: {error:?} {:?}",
                fs::read_to_string(preferred).ok()
            );
        }
    }
}

unsafe fn controls() {
    unsafe {
        tell("at first", libc::prctl(GET, 0, 0, 0, 0));
        println!("a tag by chance: {:x}", by_chance(0, 0) >> 56);
        for mode in [
            SYNC,
            ASYNC,
            SYNC | ASYNC,
            1 << 3,
            0xffff << 3,
            1 << 19,
            1 << 20,
        ] {
            tell("set", libc::prctl(SET, mode, 0, 0, 0));
            tell("  get", libc::prctl(GET, 0, 0, 0, 0));
        }
        check(ENABLE | SYNC | 0x0120 << 3);
        let mut seen = 0;
        (0..200).for_each(|_| seen |= 1 << (by_chance(0, 0) >> 56));
        println!("tags by chance: {seen:#x}");
        seen = 0;
        (0..100).for_each(|_| seen |= 1 << (by_chance(0, 0x20) >> 56));
        println!("tags by chance: {seen:#x}");
        tell_end(
            "inherited",
            in_child(|| {
                tell("child", libc::prctl(GET, 0, 0, 0, 0));
                let mut seen = 0;
                (0..200).for_each(|_| seen |= 1 << (by_chance(0, 0) >> 56));
                println!("tags by chance: {seen:#x}");
                let program = crate::path(c"/proc/self/exe");
                let words = [
                    crate::path(c"abi"),
                    crate::path(c"mte-after-exec"),
                    ptr::null(),
                ];
                libc::execv(program, words.as_ptr());
            }),
        );
        check(0);
    }
}

fn flags_of(address: usize) -> String {
    let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut inside = false;
    for line in text.lines() {
        let ends = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'));
        let ends = ends.and_then(|(start, end)| {
            let start = usize::from_str_radix(start, 16).ok()?;
            Some(start..usize::from_str_radix(end, 16).ok()?)
        });
        if let Some(range) = ends {
            inside = range.contains(&address);
        }
        if inside && line.starts_with("VmFlags") {
            let tagged = line.split_whitespace().any(|flag| flag == "mt");
            return format!("tagged {tagged}");
        }
    }
    "none".to_owned()
}

unsafe fn mapped() {
    unsafe {
        begin("mapped");
        let page = private(TAGGED, 4);
        println!("{}", flags_of(page));
        set_tag(page + 32, 5);
        println!("{:x} {:x}", tag(page + 32), tag(page + 48));
        let plain = private(PROT_READ | PROT_WRITE, 2);
        println!("{}", flags_of(plain));
        set_tag(plain, 5);
        println!("{:x}", tag(plain));
        store(plain, 7);
        let protect = |at: usize, rights| {
            tell("mprotect", libc::mprotect(at as *mut c_void, PAGE, rights));
        };
        protect(plain, TAGGED);
        println!(
            "{} {} {:x} {}",
            flags_of(plain),
            flags_of(plain + PAGE),
            tag(plain),
            load(plain)
        );
        set_tag(plain, 9);
        protect(plain, PROT_READ);
        println!("{} {:x}", flags_of(plain), tag(plain));
        protect(plain, PROT_NONE);
        protect(plain, PROT_READ | PROT_WRITE);
        println!("{} {:x}", flags_of(plain), tag(plain));
        let unread = private(PROT_READ | PROT_MTE, 1);
        println!("zero page: {:x} {}", tag(unread), load(unread));
        protect(unread, TAGGED);
        set_tag(unread, 3);
        println!("{:x} {:x}", tag(unread), tag(unread + GRANULE));
        let other = private(TAGGED, 1);
        println!("zero page: {:x}", tag(other));
        // The stack, and the heap.
        let word = [0usize; 1024];
        let at = word.as_ptr() as usize & !(PAGE - 1);
        protect(at, TAGGED);
        println!("stack: {}", flags_of(at));
        let heap = libc::sbrk(2 * PAGE as isize) as usize;
        let heap = heap.next_multiple_of(PAGE);
        protect(heap, TAGGED);
        println!("heap: {}", flags_of(heap));
        let wrong = |what: &str, path: &std::ffi::CStr, flags| {
            let file = libc::open(path.as_ptr(), libc::O_RDWR);
            let at = libc::mmap(ptr::null_mut(), PAGE, TAGGED, flags, file, 0);
            tell_ok(what, at != libc::MAP_FAILED);
            libc::close(file);
        };
        wrong("zero", c"/dev/zero", MAP_PRIVATE);
        let vdso = libc::getauxval(libc::AT_SYSINFO_EHDR) as usize;
        protect(vdso, PROT_READ | PROT_MTE);
        let moved = libc::mremap(
            page as *mut c_void,
            4 * PAGE,
            8 * PAGE,
            libc::MREMAP_MAYMOVE,
        );
        let moved = moved as usize;
        println!(
            "moved: {} {:x} {:x}",
            flags_of(moved),
            tag(moved + 32),
            tag(moved + 5 * PAGE)
        );
        tell(
            "discard",
            libc::madvise(moved as *mut c_void, PAGE, libc::MADV_DONTNEED),
        );
        println!("{:x}", tag(moved + 32));
        // Unmaps the page after the part that changes.
        libc::munmap((moved + 2 * PAGE) as *mut c_void, PAGE);
        let mixed = libc::mprotect(moved as *mut c_void, 4 * PAGE, TAGGED);
        tell("a hole", mixed);
        // Two MiB, which may be one huge page.
        let large = private(TAGGED, 1024).next_multiple_of(2 << 20);
        store(large, 1);
        println!("{:x} {:x}", tag(large), tag(large + (2 << 20) - GRANULE));
        set_tag(large + 5 * PAGE, 6);
        libc::munmap((large + 6 * PAGE) as *mut c_void, PAGE);
        println!("{:x} {:x}", tag(large + 5 * PAGE), tag(large + 7 * PAGE));
    }
}

unsafe fn checked() {
    unsafe {
        let page = private(TAGGED, 2);
        EXPECTED.store(page, Relaxed);
        (0..PAGE)
            .step_by(GRANULE)
            .for_each(|at| set_tag(page + at, 4));
        for (name, flags) in [("sync", 0), ("sync, exposed", SA_EXPOSE_TAGBITS)] {
            begin(name);
            handle(flags);
            check(ENABLE | SYNC | ALL_TAGS);
            store(with(page + 3, 4), 1);
            println!("right: {}", load(with(page + 3, 4)));
            begin("load");
            load(with(page + 3, 5));
            begin("load without");
            load(page + 20);
            begin("store");
            store(with(page + 3, 0x1e), 1);
            begin("store with high bits");
            store(with(page + 3, 0xf4), 2);
            begin("no memory");
            load(with(
                page - page % (1 << 40) + (1 << 40) - 64 * PAGE + 1,
                0x37,
            ));
            check(0);
            load(with(page + 3, 5));
        }
        handle(0);
    }
}

unsafe fn calls() {
    unsafe {
        let page = private(TAGGED, 3);
        (0..PAGE)
            .step_by(GRANULE)
            .for_each(|at| set_tag(page + at, 4));
        let mut ends = [0; 2];
        libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK);
        let [reader, writer] = ends;
        let null = libc::open(c"/dev/zero".as_ptr(), libc::O_RDWR);
        for (name, mode) in [
            ("none", 0),
            ("sync", SYNC),
            ("async", ASYNC),
            ("both", SYNC | ASYNC),
        ] {
            begin(name);
            handle(0);
            check(ENABLE | mode | ALL_TAGS);
            for tag in [4, 0, 7] {
                let at = with(page + 64, tag) as *mut c_void;
                tell("write", libc::write(writer, at, 48) as i64);
                tell("read", libc::read(reader, at, 48) as i64);
                tell("zeroes", libc::read(null, at, 64) as i64);
                tell("uname", libc::uname(at.cast()));
                tell("open", libc::open(at.cast(), 0));
                tell("futex", libc::syscall(libc::SYS_futex, at, 1, 1));
                tell("wait", libc::syscall(libc::SYS_futex, at, 0, 99, 0));
                tell(
                    "requeue",
                    libc::syscall(libc::SYS_futex, at, 4, 0, 0, at, 99),
                );
            }
            check(ENABLE);
        }
        for end in [reader, writer, null] {
            libc::close(end);
        }
        check(0);
    }
}

unsafe fn later() {
    unsafe {
        let page = private(TAGGED, 1);
        set_tag(page, 4);
        for (name, mode) in [("async", ASYNC), ("both", SYNC | ASYNC)] {
            begin(name);
            handle(SA_EXPOSE_TAGBITS);
            check(ENABLE | mode | ALL_TAGS);
            CAUGHT.store(0, Relaxed);
            let mut id = 0i64;
            // The call comes after the signal, and is made nevertheless.
            asm!(
                "strb wzr, [{wrong}]",
                "svc #0",
                wrong = in(reg) with(page, 5),
                in("x8") libc::SYS_getpid,
                lateout("x0") id,
            );
            println!("{} {}", caught(), id == i64::from(libc::getpid()));
            store(with(page, 5), 1);
            libc::sched_yield();
            println!("{}", caught());
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut set, libc::SIGSEGV);
            libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            store(with(page, 5), 1);
            libc::getpid();
            libc::sched_yield();
            let mut pending: libc::sigset_t = mem::zeroed();
            libc::sigpending(&mut pending);
            println!(
                "held back: {} {}",
                caught(),
                libc::sigismember(&pending, libc::SIGSEGV)
            );
            libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
            println!("{}", caught());
            libc::signal(libc::SIGSEGV, libc::SIG_IGN);
            store(with(page, 5), 1);
            libc::sched_yield();
            println!("ignored");
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            check(0);
            let status = in_child(|| {
                check(ENABLE | mode | ALL_TAGS);
                store(with(page, 5), 1);
                libc::sched_yield();
            });
            tell_end("by default", status);
            // No other process sees it.
            let status = in_child(|| {
                check(ENABLE | mode | ALL_TAGS);
                for _ in 0..50 {
                    load(page + 64);
                    libc::sched_yield();
                }
            });
            tell_end("another", status);
        }
        let status = in_child(|| {
            check(ENABLE | ASYNC | ALL_TAGS);
            store(with(page, 5), 1);
            loop {
                std::hint::spin_loop();
            }
        });
        tell_end("without a call", status);
    }
}

unsafe fn overridden() {
    unsafe {
        begin("overridden");
        let page = private(TAGGED, 1);
        EXPECTED.store(page, Relaxed);
        set_tag(page, 4);
        handle(0);
        check(ENABLE | SYNC | ALL_TAGS);
        asm!(".arch_extension memtag", "msr tco, #1");
        load(with(page, 5));
        libc::sched_yield();
        load(with(page, 5));
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        tell(
            "write",
            libc::write(ends[1], with(page, 5) as *const c_void, 4) as i64,
        );
        // Tags are checked in a handler, and afterwards as before.
        *(8 as *mut u8) = 1;
        load(with(page, 5));
        let now: usize;
        asm!(".arch_extension memtag", "mrs {0}, tco", out(reg) now);
        println!("tco {}", now >> 25 & 1);
        asm!(".arch_extension memtag", "msr tco, #0");
        load(with(page, 5));
        check(0);
    }
}

unsafe fn threads() {
    unsafe {
        begin("threads");
        let page = private(TAGGED, 1);
        EXPECTED.store(page, Relaxed);
        set_tag(page, 4);
        handle(0);
        check(ENABLE | SYNC | ALL_TAGS);
        std::thread::spawn(move || {
            tell("inherited", libc::prctl(GET, 0, 0, 0, 0));
            check(0);
            for _ in 0..100 {
                load(with(page, 5));
                libc::sched_yield();
            }
        })
        .join()
        .expect("it ends");
        tell("own", libc::prctl(GET, 0, 0, 0, 0));
        let unchecked = std::thread::spawn(move || {
            check(0);
            for _ in 0..2000 {
                load(with(page, 5));
                libc::sched_yield();
            }
        });
        CAUGHT.store(0, Relaxed);
        for round in 0..1000 {
            load(with(page, 4));
            if round % 250 == 0 {
                load(with(page, 5));
            }
            libc::sched_yield();
        }
        unchecked.join().expect("it ends");
        println!("{}", caught());
        // Concurrent changes of rights keep tags.
        let other = std::thread::spawn(move || {
            for _ in 0..500 {
                libc::mprotect(page as *mut c_void, PAGE, PROT_READ | PROT_WRITE);
                libc::mprotect(page as *mut c_void, PAGE, PROT_READ);
                libc::mprotect(page as *mut c_void, PAGE, TAGGED);
            }
        });
        let mut wrong = 0;
        for _ in 0..2000 {
            wrong += usize::from(tag(page) != 4);
        }
        other.join().expect("it ends");
        println!("{wrong}");
        check(0);
    }
}
