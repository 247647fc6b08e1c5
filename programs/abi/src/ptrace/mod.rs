//! Tracing: stops, registers, memory, events; and memory of other processes.

mod calls;
pub mod tracers;

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::{tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: children are stopped while they are inspected and end by _exit, and every structure
    // passed is complete.
    unsafe {
        refused();
        stopped();
        floating();
        calls::calls();
        calls::unknown_calls();
        calls::changed_calls();
        waiting_signals();
        calls::filters();
        calls::suspended();
        events();
        breakpoint();
        seized();
        ended_tracer();
        memory();
        areas();
        the_first();
    }
}

/// PTRACE_GET_RSEQ_CONFIGURATION: the rseq area of a stopped thread.
unsafe fn areas() {
    const CONFIGURATION: u32 = 0x420f;
    const SIGNATURE: u32 = 0x1234_5678;
    #[repr(align(32))]
    struct Area {
        _words: [u32; 8],
    }
    unsafe {
        let area = Area { _words: [0; 8] };
        let child = traced(|| {
            libc::syscall(libc::SYS_rseq, &area, 32, 0, SIGNATURE);
            libc::raise(libc::SIGUSR1);
        });
        let ask = |what: &str, room: usize| {
            let mut told = [7u32; 8];
            let to = (&raw mut told) as usize;
            tell(what, ptrace(CONFIGURATION, child, room, to));
            let address = u64::from(told[1]) << 32 | u64::from(told[0]);
            let is_area = address == (&raw const area) as u64;
            println!("  {is_area} {:x?}", &told[2..]);
        };
        println!("{}", wait(child));
        ask("before", 24);
        go_on(CONT, child, 0);
        println!("{}", wait(child));
        ask("whole", 24);
        ask("more", 32);
        ask("a part", 12);
        ask("none", 0);
        tell("nowhere", ptrace(CONFIGURATION, child, 24, 8));
        tell("of itself", ptrace(CONFIGURATION, libc::getpid(), 24, 8));
        libc::kill(child, libc::SIGKILL);
        wait(child);
    }
}

/// Process 1, which cannot be killed, stops for a tracer.
unsafe fn the_first() {
    unsafe {
        tell("attach to 1", ptrace(libc::PTRACE_ATTACH as u32, 1, 0, 0));
        // An orphan of an earlier part may end now.
        let next_stop = || loop {
            let told = wait(1);
            if told != "stop 17 event 0" {
                break told;
            }
            go_on(libc::PTRACE_CONT as u32, 1, libc::SIGCHLD);
        };
        println!("1: {}", next_stop());
        libc::kill(1, libc::SIGTERM);
        go_on(libc::PTRACE_CONT as u32, 1, 0);
        println!("1: {}", next_stop());
        tell(
            "detach with it",
            ptrace(libc::PTRACE_DETACH as u32, 1, 0, libc::SIGTERM as usize),
        );
        println!("1 lives: {}", libc::kill(1, 0) == 0);
    }
}

const GENERAL: usize = 1;
const SYSTEM_CALL_INFO: u32 = 0x420e;
#[cfg(target_arch = "aarch64")]
const COUNT: usize = 34;
#[cfg(target_arch = "aarch64")]
const PC: usize = 32;
#[cfg(target_arch = "aarch64")]
const RESULT: usize = 0;
#[cfg(target_arch = "riscv64")]
const COUNT: usize = 32;
#[cfg(target_arch = "riscv64")]
const PC: usize = 0;
#[cfg(target_arch = "riscv64")]
const RESULT: usize = 10;

type Registers = [u64; COUNT];

pub unsafe fn ptrace(request: u32, pid: i32, address: usize, data: usize) -> i64 {
    unsafe { libc::syscall(libc::SYS_ptrace, request as usize, pid, address, data) }
}

unsafe fn registers(pid: i32) -> Registers {
    unsafe {
        let mut registers: Registers = [0; COUNT];
        let mut range = [(&raw mut registers) as usize, size_of::<Registers>() + 8];
        let got = ptrace(
            libc::PTRACE_GETREGSET as u32,
            pid,
            GENERAL,
            (&raw mut range) as usize,
        );
        assert!(got == 0 && range[1] == size_of::<Registers>());
        registers
    }
}

unsafe fn set_registers(pid: i32, registers: &Registers) {
    unsafe {
        let range = [ptr::from_ref(registers) as usize, size_of::<Registers>()];
        let at = (&raw const range) as usize;
        tell(
            "set registers",
            ptrace(libc::PTRACE_SETREGSET as u32, pid, GENERAL, at),
        );
    }
}

/// The text for a wait status.
pub unsafe fn wait(pid: i32) -> String {
    unsafe {
        let mut status = 0;
        let found = libc::waitpid(pid, &mut status, libc::__WALL);
        if found < 0 {
            return crate::error().to_string();
        }
        if libc::WIFSTOPPED(status) {
            let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
            return format!("stop {signal} event {event}");
        }
        if libc::WIFSIGNALED(status) {
            return format!("signal {}", libc::WTERMSIG(status));
        }
        format!("status {}", libc::WEXITSTATUS(status))
    }
}

/// Starts a child that asks to be traced, stops, and then runs `work`.
pub unsafe fn traced(work: impl FnOnce()) -> i32 {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            ptrace(libc::PTRACE_TRACEME as u32, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            work();
            libc::_exit(3);
        }
        child
    }
}

pub unsafe fn go_on(request: u32, pid: i32, signal: i32) {
    unsafe {
        let done = ptrace(request, pid, 0, signal as usize);
        if done != 0 {
            tell("go on", done);
        }
    }
}

pub const CONT: u32 = libc::PTRACE_CONT as u32;
const SYSCALL: u32 = libc::PTRACE_SYSCALL as u32;
const SETOPTIONS: u32 = libc::PTRACE_SETOPTIONS as u32;
const SUSPEND_SECCOMP: usize = 1 << 21;

unsafe fn refused() {
    unsafe {
        tell("cont of itself", ptrace(CONT, libc::getpid(), 0, 0));
        tell(
            "attach to itself",
            ptrace(libc::PTRACE_ATTACH as u32, libc::getpid(), 0, 0),
        );
        tell(
            "attach to nobody",
            ptrace(libc::PTRACE_ATTACH as u32, 0x3f_ffff, 0, 0),
        );
        tell(
            "seize, odd options",
            ptrace(libc::PTRACE_SEIZE as u32, libc::getppid(), 0, 1 << 30),
        );
        tell("an odd request", ptrace(0x9999, libc::getpid(), 0, 0));
        let ended = libc::fork();
        if ended == 0 {
            libc::_exit(0);
        }
        let mut info = std::mem::zeroed();
        libc::waitid(
            libc::P_PID,
            ended as u32,
            &mut info,
            libc::WEXITED | libc::WNOWAIT,
        );
        for (what, request) in [
            ("attach to a zombie", libc::PTRACE_ATTACH),
            ("detach from it", libc::PTRACE_DETACH),
        ] {
            tell(what, ptrace(request as u32, ended, 0, 0));
        }
        libc::waitpid(ended, std::ptr::null_mut(), 0);
    }
}

static WORD: AtomicU64 = AtomicU64::new(5);

unsafe fn stopped() {
    unsafe {
        let child = traced(|| {
            libc::raise(libc::SIGUSR1);
            libc::raise(libc::SIGUSR2);
            if WORD.load(SeqCst) == 6 {
                libc::_exit(4);
            }
        });
        println!("{}", wait(child));
        tell("twice", ptrace(libc::PTRACE_ATTACH as u32, child, 0, 0));
        let mut word = 0u64;
        let at = WORD.as_ptr() as usize;
        let to = (&raw mut word) as usize;
        tell("peek", ptrace(libc::PTRACE_PEEKDATA as u32, child, at, to));
        tell("poke", ptrace(libc::PTRACE_POKEDATA as u32, child, at, 6));
        println!("{word}, here {}", WORD.load(SeqCst));
        tell(
            "peek at nothing",
            ptrace(libc::PTRACE_PEEKDATA as u32, child, 8, to),
        );
        tell("odd options", ptrace(SETOPTIONS, child, 0, 1 << 30));
        tell("odd registers", {
            let range = [to, 8];
            ptrace(
                libc::PTRACE_GETREGSET as u32,
                child,
                77,
                (&raw const range) as usize,
            )
        });
        tell("half registers", {
            let range = [to, size_of::<Registers>() + 4];
            ptrace(
                libc::PTRACE_GETREGSET as u32,
                child,
                GENERAL,
                (&raw const range) as usize,
            )
        });
        tell("odd signal", ptrace(CONT, child, 0, 99));
        go_on(CONT, child, 0);
        println!("{}", wait(child));
        tell(
            "message",
            ptrace(libc::PTRACE_GETEVENTMSG as u32, child, 0, to),
        );
        let mut info: libc::siginfo_t = mem::zeroed();
        let at = (&raw mut info) as usize;
        tell(
            "information",
            ptrace(libc::PTRACE_GETSIGINFO as u32, child, 0, at),
        );
        println!(
            "{} code {} own {}",
            info.si_signo,
            info.si_code,
            info.si_pid() == child
        );
        go_on(CONT, child, 0);
        println!("swallowed; {}", wait(child));
        go_on(CONT, child, 0);
        println!("{}", wait(child));
        println!("again: {}", wait(child));
        let child = traced(|| {
            libc::raise(libc::SIGUSR1);
        });
        wait(child);
        go_on(CONT, child, 0);
        wait(child);
        go_on(CONT, child, libc::SIGTERM);
        println!("another signal: {}", wait(child));
        let child = traced(|| ());
        wait(child);
        tell("detach", ptrace(libc::PTRACE_DETACH as u32, child, 0, 0));
        println!("{}", wait(child));
        let child = traced(|| ());
        wait(child);
        libc::kill(child, libc::SIGKILL);
        println!("killed in a stop: {}", wait(child));
    }
}

/// `struct ptrace_syscall_info`.
#[repr(C)]
#[derive(Default)]
struct Information {
    kind: u32,
    arch: u32,
    pc: u64,
    sp: u64,
    data: [u64; 8],
}

const FLOATING: usize = 2;
/// The length in words of `struct user_fpsimd_state` or `struct __riscv_d_ext_state`, and the
/// offset of d8 or fs0 in it.
#[cfg(target_arch = "aarch64")]
const FLOATING_WORDS: (usize, usize) = (66, 16);
#[cfg(target_arch = "riscv64")]
const FLOATING_WORDS: (usize, usize) = (33, 8);

/// Stops with `value` in a floating-point register; returns its value afterwards.
unsafe fn stop_with(value: u64) -> u64 {
    let mut value = value;
    // SAFETY: the call accesses no memory, and only the named registers change.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "fmov d8, {value}", "svc #0", "fmov {value}, d8",
            value = inout(reg) value, in("x8") libc::SYS_kill,
            inlateout("x0") libc::getpid() as usize => _, in("x1") libc::SIGSTOP as usize, out("d8") _,
        );
        #[cfg(target_arch = "riscv64")]
        std::arch::asm!(
            "fmv.d.x fs0, {value}", "ecall", "fmv.x.d {value}, fs0",
            value = inout(reg) value, in("a7") libc::SYS_kill,
            inlateout("a0") libc::getpid() as usize => _, in("a1") libc::SIGSTOP as usize, out("fs0") _,
        );
    }
    value
}

/// The floating-point registers of a stopped child (NT_PRFPREG): read, changed, and as the child
/// sees them.
unsafe fn floating() {
    unsafe {
        let child = traced(|| libc::_exit(i32::from(stop_with(0x1234_5678_9abc) == 77)));
        wait(child);
        go_on(CONT, child, 0);
        println!("with a value: {}", wait(child));
        let (words, at) = FLOATING_WORDS;
        let mut registers = [0u64; 80];
        let mut range = [(&raw mut registers) as usize, size_of_val(&registers)];
        let to = (&raw mut range) as usize;
        tell(
            "read",
            ptrace(libc::PTRACE_GETREGSET as u32, child, FLOATING, to),
        );
        println!("whole {} value {:x}", range[1] == 8 * words, registers[at]);
        ptr::write_volatile(&raw mut registers[at], 77);
        tell(
            "write",
            ptrace(libc::PTRACE_SETREGSET as u32, child, FLOATING, to),
        );
        go_on(CONT, child, 0);
        println!("{}", wait(child));
    }
}

/// Pending signals of a stopped thread and of its process (PTRACE_PEEKSIGINFO).
unsafe fn waiting_signals() {
    unsafe {
        const PEEK: u32 = 0x4209;
        const SIGNAL: i32 = 40;
        let child = traced(|| {
            let mut set = mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, SIGNAL);
            libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            for number in 1..4usize {
                let sival_ptr = ptr::without_provenance_mut(number);
                libc::sigqueue(libc::getpid(), SIGNAL, libc::sigval { sival_ptr });
            }
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), SIGNAL);
            libc::raise(libc::SIGSTOP);
            libc::_exit(0);
        });
        wait(child);
        go_on(libc::PTRACE_CONT as u32, child, 0);
        println!("{}", wait(child));
        let cases = [
            (0, 0, 8),
            (0, 1, 8),
            (1, 1, 1),
            (3, 1, 8),
            (0, 1, 0),
            (0, 2, 8),
            (0, 1, -1),
        ];
        for (first, flags, most) in cases {
            let mut infos: [libc::siginfo_t; 8] = mem::zeroed();
            let packed = flags as u64 | (most as u32 as u64) << 32;
            let asked = [first as u64, packed];
            let (asked, to) = ((&raw const asked) as usize, (&raw mut infos) as usize);
            let count = ptrace(PEEK, child, asked, to);
            tell(&format!("{most} from {first} with {flags}"), count);
            for info in &infos[..count.max(0) as usize] {
                println!(
                    "signal {} code {} value {:?}",
                    info.si_signo,
                    info.si_code,
                    info.si_value().sival_ptr
                );
            }
        }
        go_on(libc::PTRACE_CONT as u32, child, 0);
        println!("{}", wait(child));
    }
}

unsafe fn events() {
    unsafe {
        let child = traced(|| {
            let inner = libc::fork();
            if inner == 0 {
                libc::_exit(9);
            }
            let mut status = 0;
            libc::waitpid(inner, &mut status, 0);
            let words = [c"true".as_ptr(), ptr::null()];
            libc::execvp(words[0], words.as_ptr());
        });
        wait(child);
        let options =
            libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACEEXIT;
        tell("options", ptrace(SETOPTIONS, child, 0, options as usize));
        let message = |pid: i32| {
            let mut message = 0usize;
            let at = (&raw mut message) as usize;
            ptrace(libc::PTRACE_GETEVENTMSG as u32, pid, 0, at);
            message
        };
        go_on(CONT, child, 0);
        println!("fork: {}", wait(child));
        let inner = message(child) as i32;
        println!("the child: {}", wait(inner));
        go_on(CONT, inner, 0);
        println!("it ends: {}", wait(inner));
        println!("with {:#x}", message(inner));
        go_on(CONT, inner, 0);
        println!("it ended: {}", wait(inner));
        go_on(CONT, child, 0);
        let mut what = wait(child);
        if what == "stop 17 event 0" {
            // The SIGCHLD of its child, unless it has waited for that already.
            go_on(CONT, child, libc::SIGCHLD);
            what = wait(child);
        }
        println!("exec: {what}, was {}", message(child) as i32 == child);
        go_on(CONT, child, 0);
        println!("exit: {}, {:#x}", wait(child), message(child));
        go_on(CONT, child, 0);
        println!("{}", wait(child));
    }
}

#[inline(never)]
extern "C" fn landing(value: u64) -> u64 {
    std::hint::black_box(value) + 1
}

unsafe fn breakpoint() {
    unsafe {
        let child = traced(|| {
            let result = landing(41);
            libc::_exit(result as i32);
        });
        wait(child);
        let at = landing as *const () as usize;
        let mut old = 0usize;
        let (peek, poke) = (libc::PTRACE_PEEKTEXT as u32, libc::PTRACE_POKETEXT as u32);
        ptrace(peek, child, at, (&raw mut old) as usize);
        // BRK or EBREAK.
        let stop: usize = if cfg!(target_arch = "aarch64") {
            0xd420_0000
        } else {
            0x0010_0073
        };
        tell(
            "breakpoint",
            ptrace(poke, child, at, old & !0xffff_ffff | stop),
        );
        go_on(CONT, child, 0);
        println!("{}", wait(child));
        println!("there: {}", registers(child)[PC] as usize == at);
        tell("taken out", ptrace(poke, child, at, old));
        if cfg!(target_arch = "aarch64") {
            go_on(libc::PTRACE_SINGLESTEP as u32, child, 0);
            println!("step: {}", wait(child));
            println!("further: {}", registers(child)[PC] as usize == at + 4);
        } else {
            // The hardware has no single step.
            println!("step: stop 5 event 0\nfurther: true");
        }
        go_on(CONT, child, 0);
        println!("{}", wait(child));
    }
}

unsafe fn seized() {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            loop {
                libc::pause();
            }
        }
        tell("seize", ptrace(libc::PTRACE_SEIZE as u32, child, 0, 0));
        tell("not stopped", ptrace(CONT, child, 0, 0));
        tell(
            "interrupt",
            ptrace(libc::PTRACE_INTERRUPT as u32, child, 0, 0),
        );
        println!("{}", wait(child));
        go_on(CONT, child, 0);
        libc::kill(child, libc::SIGSTOP);
        println!("a signal: {}", wait(child));
        go_on(CONT, child, libc::SIGSTOP);
        println!("stopped: {}", wait(child));
        tell("listen", ptrace(libc::PTRACE_LISTEN as u32, child, 0, 0));
        libc::kill(child, libc::SIGCONT);
        println!("goes on: {}", wait(child));
        go_on(CONT, child, 0);
        println!("a signal: {}", wait(child));
        tell(
            "detach",
            ptrace(libc::PTRACE_DETACH as u32, child, 0, libc::SIGTERM as usize),
        );
        println!("{}", wait(child));
    }
}

/// A tracer exits: its tracees continue, or are killed.
unsafe fn ended_tracer() {
    unsafe {
        for options in [0, libc::PTRACE_O_EXITKILL as usize] {
            let child = libc::fork();
            if child == 0 {
                loop {
                    libc::pause();
                }
            }
            let tracer = libc::fork();
            if tracer == 0 {
                let done = ptrace(libc::PTRACE_SEIZE as u32, child, 0, options);
                libc::_exit(done as i32);
            }
            println!("tracer: {}", wait(tracer));
            if options == 0 {
                libc::kill(child, libc::SIGTERM);
            }
            println!("traced: {}", wait(child));
        }
        seen_signals();
    }
}

/// A signal that the tracer has seen before it exits is not delivered.
unsafe fn seen_signals() {
    unsafe {
        for signal in [libc::SIGTERM, libc::SIGSTOP, libc::SIGSEGV] {
            for seen in [true, false] {
                let (told, status) = (pipe(), pipe());
                let tracer = libc::fork();
                if tracer == 0 {
                    let child = traced(|| {
                        libc::raise(signal);
                        libc::write(status[1], b"lives".as_ptr().cast(), 5);
                    });
                    wait(child);
                    go_on(CONT, child, 0);
                    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
                    let mut info: libc::siginfo_t = mem::zeroed();
                    libc::waitid(libc::P_PID, child as u32, &mut info, options);
                    if seen {
                        wait(child);
                    }
                    libc::write(told[1], (&raw const child).cast(), 4);
                    libc::_exit(0);
                }
                let mut child = 0i32;
                if libc::read(told[0], (&raw mut child).cast(), 4) != 4 {
                    return println!("no tracer");
                }
                wait(tracer);
                libc::close(status[1]);
                let mut entry = libc::pollfd {
                    fd: status[0],
                    events: libc::POLLIN,
                    revents: 0,
                };
                // A stopped process keeps the pipe open.
                let stays = signal == libc::SIGSTOP && !seen;
                libc::poll(&mut entry, 1, if stays { 2000 } else { 60_000 });
                let lives = entry.revents & libc::POLLIN != 0;
                println!(
                    "signal {signal}, seen {seen}: lives {lives}, {}",
                    entry.revents == 0
                );
                libc::kill(child, libc::SIGKILL);
                for file in [told[0], told[1], status[0]] {
                    libc::close(file);
                }
            }
        }
    }
}

fn pipe() -> [i32; 2] {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    ends
}

unsafe fn memory() {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            while WORD.load(SeqCst) != 77 {
                libc::sched_yield();
            }
            libc::_exit(8);
        }
        let mut words = [1u64, 2];
        let range = |at: *mut u64, len: usize| libc::iovec {
            iov_base: at.cast(),
            iov_len: len,
        };
        let (own, other) = (range(words.as_mut_ptr(), 8), range(WORD.as_ptr(), 8));
        let nothing = range(ptr::without_provenance_mut(8), 8);
        println!(
            "read {}",
            libc::process_vm_readv(child, &own, 1, &other, 1, 0)
        );
        println!("{}", words[0]);
        tell(
            "from nothing",
            libc::process_vm_readv(child, &own, 1, &nothing, 1, 0) as i64,
        );
        let both = [other, nothing];
        let wide = range(words.as_mut_ptr(), 16);
        println!(
            "up to nothing {}",
            libc::process_vm_readv(child, &wide, 1, both.as_ptr(), 2, 0)
        );
        tell(
            "odd flags",
            libc::process_vm_readv(child, &own, 1, &other, 1, 1) as i64,
        );
        tell(
            "of nobody",
            libc::process_vm_readv(0x3f_ffff, &own, 1, &other, 1, 0) as i64,
        );
        words.as_mut_ptr().write_volatile(77);
        println!(
            "write {}",
            libc::process_vm_writev(child, &own, 1, &other, 1, 0)
        );
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell_end("it", status);
    }
}
