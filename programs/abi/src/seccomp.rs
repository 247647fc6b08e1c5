//! Filters of system calls.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::thread;

use libc::{c_long, sock_filter};

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: children, which end by _exit, install the filters.
    unsafe {
        refused();
        strict();
        verdicts();
        tell_end("two filters", in_child(|| both()));
        tell_end("a trap", in_child(|| trapped()));
        tell_end("inherited", in_child(|| inherited()));
        tell_end("all threads", in_child(|| all_threads()));
        tell_end("ended threads", in_child(|| ended_threads()));
        tell_end("arguments", in_child(|| arguments()));
        tell_end("listened", in_child(|| listened()));
        tell_end("answered once", in_child(|| answered_once()));
        tell_end("entered once", in_child(|| entered_once()));
        for flags in [0, WAIT_KILLABLE] {
            tell_end("a signal meanwhile", in_child(|| signalled(flags)));
        }
        tell_end("no call's number", in_child(|| unknown()));
    }
}

const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const TRACE: u32 = 0x7ff0_0000;
const ERRNO: u32 = 0x0005_0000;
const TRAP: u32 = 0x0003_0000;
const KILL_THREAD: u32 = 0;
const KILL_PROCESS: u32 = 0x8000_0000;
const TSYNC: u32 = 1;

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

fn op(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

unsafe fn seccomp(operation: u32, flags: u32, argument: *const libc::c_void) -> c_long {
    unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, argument) }
}

unsafe fn install(filter: &mut [sock_filter], flags: u32) -> c_long {
    unsafe {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        seccomp(1, flags, (&raw const program).cast())
    }
}

/// Adds a filter with the result `verdict` for calls with `number`, which allows all others.
unsafe fn forbid(number: c_long, verdict: u32, flags: u32) -> c_long {
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mut filter = [
            op(LOAD, 0, 0, 0),
            op(EQUAL, 0, 1, number as u32),
            op(RETURN, 0, 0, verdict),
            op(RETURN, 0, 0, ALLOW),
        ];
        install(&mut filter, flags)
    }
}

/// Adds a filter that asks a tracer about calls with `number`.
pub unsafe fn ask_tracer(number: c_long) {
    unsafe {
        tell("filter", forbid(number, TRACE | 5, 0));
    }
}

/// Adds a filter that allows all calls, with logging.
pub unsafe fn log_all() {
    unsafe { tell("filter", install(&mut [op(RETURN, 0, 0, ALLOW)], 2)) };
}

unsafe fn refused() {
    unsafe {
        tell("no operation", seccomp(9, 0, ptr::null()));
        tell("strict with flags", seccomp(0, 1, ptr::null()));
        tell("no filter", seccomp(1, 0, ptr::null()));
        tell("an empty filter", install(&mut [], 0));
        tell("no return", install(&mut [op(LOAD, 0, 0, 0)], 0));
        tell(
            "beyond the data",
            install(&mut [op(LOAD, 0, 0, 64), op(RETURN, 0, 0, ALLOW)], 0),
        );
        tell(
            "odd flags",
            install(&mut [op(RETURN, 0, 0, ALLOW)], 1 << 20),
        );
        for action in [
            ALLOW,
            LOG,
            TRACE,
            ERRNO,
            TRAP,
            KILL_THREAD,
            KILL_PROCESS,
            0x1234_0000,
        ] {
            tell("known", seccomp(2, 0, (&raw const action).cast()));
        }
        tell("mode", libc::prctl(libc::PR_GET_SECCOMP));
        tell_end(
            "an ordinary user",
            in_child(|| {
                libc::setuid(1000);
                let mut filter = [op(RETURN, 0, 0, ALLOW)];
                tell("a filter", install(&mut filter, 0));
                tell(
                    "gives up privileges",
                    libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                );
                tell("a filter", install(&mut filter, 0));
                tell("mode", libc::prctl(libc::PR_GET_SECCOMP));
            }),
        );
    }
}

unsafe fn strict() {
    unsafe {
        let end = |work: &dyn Fn()| {
            in_child(|| {
                libc::prctl(libc::PR_SET_SECCOMP, 1);
                work();
                libc::syscall(libc::SYS_exit, 6);
            })
        };
        tell_end(
            "strict, writes",
            end(&|| _ = libc::write(1, c"written\n".as_ptr().cast(), 8)),
        );
        tell_end(
            "strict, asks",
            end(&|| _ = libc::syscall(libc::SYS_getppid)),
        );
    }
}

unsafe fn verdicts() {
    unsafe {
        for (what, verdict) in [
            ("an error", ERRNO | libc::EXDEV as u32),
            ("a large error", ERRNO | 0xffff),
            ("no tracer", TRACE | 7),
            ("a log", LOG),
            ("the end of the thread", KILL_THREAD),
            ("the end of the process", KILL_PROCESS),
            ("no verdict", 0x4321_0000),
        ] {
            tell_end(
                what,
                in_child(|| {
                    tell("filter", forbid(libc::SYS_getpgid, verdict, 0));
                    let found = libc::syscall(libc::SYS_getpgid, 0x3f_ffff);
                    tell("a call", found);
                    println!("number {}", *libc::__errno_location());
                }),
            );
        }
    }
}

unsafe fn both() {
    unsafe {
        forbid(libc::SYS_getpgid, ERRNO | 1, 0);
        forbid(libc::SYS_getpgid, ERRNO | 2, 0);
        tell("the newest of equals", libc::syscall(libc::SYS_getpgid, 0));
        forbid(libc::SYS_getpgid, ALLOW, 0);
        tell("the strictest", libc::syscall(libc::SYS_getpgid, 0));
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        status
            .lines()
            .filter(|line| line.contains("Seccomp") || line.contains("NoNewPrivs"))
            .for_each(|line| println!("{line}"));
    }
}

extern "C" fn trap(number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete siginfo_t: address, then number and architecture of the
    // call.
    unsafe {
        let words = info.cast::<i32>();
        let call = words.add(6).read();
        println!(
            "signal {number} code {} errno {} call {}",
            (*info).si_code,
            (*info).si_errno,
            call == libc::SYS_getpgid as i32
        );
    }
}

unsafe fn trapped() {
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &action, ptr::null_mut());
        forbid(libc::SYS_getpgid, TRAP | 33, 0);
        println!("comes back with {}", libc::syscall(libc::SYS_getpgid, 4321));
        libc::signal(libc::SIGSYS, libc::SIG_DFL);
        libc::syscall(libc::SYS_getpgid, 4321);
    }
}

unsafe fn inherited() {
    unsafe {
        forbid(libc::SYS_getpgid, ERRNO | 5, 0);
        tell_end(
            "a child",
            in_child(|| tell("a call", libc::syscall(libc::SYS_getpgid, 0))),
        );
        thread::spawn(|| tell("a thread's", libc::syscall(libc::SYS_getpgid, 0)))
            .join()
            .unwrap();
    }
}

unsafe fn all_threads() {
    unsafe {
        static STEP: AtomicI32 = AtomicI32::new(0);
        static STRANGE: AtomicBool = AtomicBool::new(false);
        let other = thread::spawn(|| {
            STEP.store(1, SeqCst);
            // It runs all the time, and never enters the kernel by itself.
            while STEP.load(SeqCst) == 1 {}
            let found = libc::syscall(libc::SYS_getpgid, 0);
            tell("the other thread's", found);
            tell(
                "a filter of its own",
                forbid(libc::SYS_getsid, ERRNO | 6, 0),
            );
            STRANGE.store(true, SeqCst);
            while STEP.load(SeqCst) == 2 {
                thread::yield_now();
            }
        });
        while STEP.load(SeqCst) == 0 {
            thread::yield_now();
        }
        tell("for all", forbid(libc::SYS_getpgid, ERRNO | 5, TSYNC));
        STEP.store(2, SeqCst);
        while !STRANGE.load(SeqCst) {
            thread::yield_now();
        }
        println!(
            "not for a stranger: {}",
            forbid(libc::SYS_getsid, ERRNO | 5, TSYNC) > 0
        );
        tell(
            "told by an error",
            forbid(libc::SYS_getsid, ERRNO | 5, TSYNC | 16),
        );
        STEP.store(3, SeqCst);
        other.join().unwrap();
    }
}

/// SECCOMP_FILTER_FLAG_TSYNC ignores the filters of ended threads.
unsafe fn ended_threads() {
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mut refused = 0;
        for _ in 0..100 {
            let filtered = thread::spawn(|| install(&mut [op(RETURN, 0, 0, ALLOW)], 0));
            _ = filtered.join();
            refused += i32::from(install(&mut [op(RETURN, 0, 0, ALLOW)], TSYNC) != 0);
        }
        tell("refused", refused);
    }
}

/// A filter sees the arguments, the architecture and the address of a call.
unsafe fn arguments() {
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mut filter = [
            op(LOAD, 0, 0, 0),
            op(EQUAL, 0, 7, libc::SYS_getpgid as u32),
            op(LOAD, 0, 0, 16),
            op(EQUAL, 0, 5, 0x1234_5678),
            op(LOAD, 0, 0, 20),
            op(EQUAL, 0, 3, 0x9abc),
            op(LOAD, 0, 0, 4),
            op(0x45, 0, 1, 0x8000_0000),
            op(RETURN, 0, 0, ERRNO | 77),
            op(RETURN, 0, 0, ALLOW),
        ];
        tell("filter", install(&mut filter, 0));
        libc::syscall(libc::SYS_getpgid, 0x9abc_1234_5678usize);
        println!("number {}", *libc::__errno_location());
        libc::syscall(libc::SYS_getpgid, 0x9abd_1234_5678usize);
        println!("number {}", *libc::__errno_location());
    }
}

/// Filters see unknown system-call numbers too.
unsafe fn unknown() {
    unsafe {
        for number in [500, 512, 600, 1023, 1024, 5000, 0x7fff_ffff, -2, -512, -1] {
            tell("a call", libc::syscall(number));
            tell("filter", forbid(number, ERRNO | 77, 0));
            libc::syscall(number);
            println!("{number}: number {}", *libc::__errno_location());
        }
    }
}

/// `struct seccomp_notif` and `struct seccomp_notif_resp`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Notice {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    pc: u64,
    arguments: [u64; 6],
}

#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const NEW_LISTENER: u32 = 8;
const NOTIFY: u32 = 0x7fc0_0000;
const RECEIVE: c_long = 0xc050_2100;
const SEND: c_long = 0xc018_2101;
const IS_VALID: c_long = 0x4008_2102;
const ADD_FILE: c_long = 0x4018_2103;

unsafe fn control<T>(file: c_long, request: c_long, argument: &mut T) -> c_long {
    unsafe { libc::syscall(libc::SYS_ioctl, file, request, argument) }
}

/// Receives a notification, and prints the parts that are the same in each run.
unsafe fn question(file: c_long) -> Notice {
    unsafe {
        let mut notice = Notice::default();
        tell("receive", control(file, RECEIVE, &mut notice));
        println!(
            "a call {} {:?}",
            c_long::from(notice.number) == libc::SYS_getpgid,
            notice.arguments[0]
        );
        println!("of somebody {}", notice.pid > 1 && notice.pc != 0);
        notice
    }
}

/// A listener decides on calls.
unsafe fn listened() {
    unsafe {
        let mut sizes = [0u16; 3];
        tell("sizes", seccomp(3, 0, sizes.as_mut_ptr().cast()));
        println!("{sizes:?}");
        let action = NOTIFY;
        tell("known", seccomp(2, 0, (&raw const action).cast()));
        tell(
            "ambiguous",
            forbid(libc::SYS_getpgid, NOTIFY, NEW_LISTENER | TSYNC),
        );
        static FILE: AtomicI32 = AtomicI32::new(-1);
        let few = libc::rlimit {
            rlim_cur: 64,
            rlim_max: 64,
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &few);
        let asks = thread::spawn(|| {
            tell("nobody", forbid(libc::SYS_getsid, NOTIFY, 0));
            tell("a call", libc::syscall(libc::SYS_getsid, 0));
            let file = forbid(libc::SYS_getpgid, NOTIFY, NEW_LISTENER);
            tell(
                "two listeners",
                forbid(libc::SYS_getpgid, NOTIFY, NEW_LISTENER),
            );
            FILE.store(file as i32, SeqCst);
            let results = [(); 5].map(|()| {
                let result = libc::syscall(libc::SYS_getpgid, 77usize);
                (result, *libc::__errno_location())
            });
            println!("{:?} {:?}", results[0], results[1]);
            println!(
                "another's {:?} {}",
                results[2],
                results[3].0 == -1 && results[3].1 == libc::ESRCH
            );
            println!("a file {}", libc::fcntl(results[4].0 as i32, libc::F_GETFD));
        });
        while FILE.load(SeqCst) < 0 {
            thread::yield_now();
        }
        let file = c_long::from(FILE.load(SeqCst));
        tell("closed by exec", libc::fcntl(file as i32, libc::F_GETFD));
        let mut one = question(file);
        tell("valid", control(file, IS_VALID, &mut one.id));
        tell("room that is used", control(file, RECEIVE, &mut one));
        let mut answer = Answer {
            id: one.id,
            value: 1234,
            error: 0,
            flags: 0,
        };
        answer.flags = 2;
        tell("flags", control(file, SEND, &mut answer));
        answer.flags = 1;
        tell("goes on, and not", control(file, SEND, &mut answer));
        answer.flags = 0;
        tell("a value", control(file, SEND, &mut answer));
        answer.id = one.id + 1000;
        tell("no question", control(file, SEND, &mut answer));
        tell("valid", control(file, IS_VALID, &mut answer.id));
        answer.id = question(file).id;
        (answer.value, answer.error) = (0, -libc::EXDEV);
        tell("an error", control(file, SEND, &mut answer));
        answer.id = question(file).id;
        (answer.value, answer.error) = (7, 0);
        tell("a value", control(file, SEND, &mut answer));
        answer.id = question(file).id;
        (answer.value, answer.flags) = (0, 1);
        tell("goes on", control(file, SEND, &mut answer));
        let id = question(file).id;
        for to in [64, i32::MAX as u64, 0xffff_fff0] {
            tell(
                "beyond the limit",
                control(file, ADD_FILE, &mut [id, 1, to]),
            );
        }
        // The notification's ID, flags (send too) and the file; the target descriptor, and its
        // flags.
        let mut added = [id, 2, u64::from(libc::O_CLOEXEC as u32) << 32];
        let result = control(file, ADD_FILE, &mut added);
        let mut entry = libc::pollfd {
            fd: file as i32,
            events: libc::POLLIN | libc::POLLOUT,
            revents: 0,
        };
        asks.join().unwrap();
        println!("added {}", result > 2);
        tell("left alone", libc::poll(&mut entry, 1, 5000));
        println!("events {:#x}", entry.revents);
        tell("receive", control(file, RECEIVE, &mut Notice::default()));
        tell("no request", control(file, 0x1234, &mut 0u64));
    }
}

const WAIT_KILLABLE: u32 = 32;

/// Starts a thread that runs `asks`, whose calls a listener decides; returns both.
unsafe fn asker(flags: u32, asks: fn()) -> (thread::JoinHandle<()>, c_long) {
    static FILE: AtomicI32 = AtomicI32::new(-1);
    let thread = thread::spawn(move || {
        // SAFETY: the filter outlives the call.
        let file = unsafe { forbid(libc::SYS_getpgid, NOTIFY, NEW_LISTENER | flags) };
        FILE.store(file as i32, SeqCst);
        asks();
    });
    while FILE.load(SeqCst) < 0 {
        thread::yield_now();
    }
    (thread, FILE.load(SeqCst).into())
}

/// If a reply and a file that is sent as the reply come at once, one is accepted and the other
/// refused.
unsafe fn answered_once() {
    const ROUNDS: usize = 200;
    static RESULT: AtomicI32 = AtomicI32::new(0);
    let asks = || {
        for _ in 0..ROUNDS {
            // SAFETY: the call takes no pointer.
            let result = unsafe { libc::syscall(libc::SYS_getpgid, 77usize) };
            RESULT.store(result as i32, SeqCst);
        }
    };
    unsafe {
        let (thread, file) = asker(0, asks);
        let (mut one, mut right) = (0, 0);
        for _ in 0..ROUNDS {
            let mut notice = Notice::default();
            control(file, RECEIVE, &mut notice);
            RESULT.store(-1, SeqCst);
            let id = notice.id;
            let (sent, added) = thread::scope(|scope| {
                let add = scope.spawn(move || control(file, ADD_FILE, &mut [id, 2, 0]));
                let (value, error, flags) = (123_456, 0, 0);
                let mut answer = Answer {
                    id,
                    value,
                    error,
                    flags,
                };
                let sent = control(file, SEND, &mut answer);
                (sent == 0, add.join().unwrap_or(-1))
            });
            one += usize::from(sent != (added >= 0));
            while RESULT.load(SeqCst) == -1 {
                thread::yield_now();
            }
            let expected = if sent { 123_456 } else { added };
            right += usize::from(RESULT.load(SeqCst) == expected as i32);
            libc::close(added as i32);
        }
        println!("one of two {one}, and that is the answer {right}");
        _ = thread.join();
    }
}

extern "C" fn ignore(_signal: i32) {}

unsafe fn handle(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// The time until the next alarm, in µs.
static PAUSE: AtomicI32 = AtomicI32::new(0);

/// Doubles the time until the next alarm, so that the interrupted call completes eventually.
extern "C" fn strike_later(_signal: i32) {
    let pause = PAUSE.load(SeqCst);
    PAUSE.store((2 * pause).min(500_000), SeqCst);
    strike_after(pause);
}

fn strike_after(microseconds: i32) {
    // SAFETY: the timer outlives the call, which a handler may make.
    unsafe {
        let mut timer: libc::itimerval = mem::zeroed();
        timer.it_value.tv_usec = microseconds.into();
        libc::syscall(libc::SYS_setitimer, 0, &timer, ptr::null::<u8>());
    }
}

/// However often a signal interrupts the thread that adds a file, the file is added once.
unsafe fn entered_once() {
    const ROUNDS: usize = 300;
    let asks = || {
        // SAFETY: the set outlives the calls; the call takes no pointer.
        unsafe {
            let mut all = mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, ptr::null_mut());
            libc::syscall(libc::SYS_getpgid, 77usize);
        }
    };
    unsafe {
        handle(libc::SIGALRM, strike_later, libc::SA_RESTART);
        let (thread, file) = asker(0, asks);
        let mut notice = Notice::default();
        control(file, RECEIVE, &mut notice);
        let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let before = open();
        let add = || {
            PAUSE.store(50, SeqCst);
            strike_after(50);
            control(file, ADD_FILE, &mut [notice.id, 0, 0]) >= 0
        };
        let added = (0..ROUNDS).filter(|_| add()).count();
        handle(libc::SIGALRM, ignore, libc::SA_RESTART);
        strike_after(0);
        println!("added {added}, open {}", open() - before);
        let (value, error, flags) = (0, 0, 0);
        let mut answer = Answer {
            id: notice.id,
            value,
            error,
            flags,
        };
        tell("answered", control(file, SEND, &mut answer));
        _ = thread.join();
    }
}

/// A signal ends a call that waits for its reply; with WAIT_KILLABLE_RECV only as long as nobody
/// has received the notification.
unsafe fn signalled(flags: u32) {
    static THREAD: AtomicI32 = AtomicI32::new(0);
    static RESULT: AtomicI32 = AtomicI32::new(0);
    let asks = || {
        // SAFETY: the calls take no pointer.
        unsafe {
            THREAD.store(libc::syscall(libc::SYS_gettid) as i32, SeqCst);
            let result = libc::syscall(libc::SYS_getpgid, 77usize);
            let is_interrupted = result == -1 && *libc::__errno_location() == libc::EINTR;
            RESULT.store(
                if is_interrupted {
                    -libc::EINTR
                } else {
                    result as i32
                },
                SeqCst,
            );
        }
    };
    unsafe {
        handle(libc::SIGUSR1, ignore, 0);
        tell("no listener", forbid(libc::SYS_getsid, ALLOW, flags));
        let (thread, file) = asker(flags, asks);
        let mut notice = Notice::default();
        control(file, RECEIVE, &mut notice);
        libc::syscall(
            libc::SYS_tgkill,
            libc::getpid(),
            THREAD.load(SeqCst),
            libc::SIGUSR1,
        );
        if flags == 0 {
            while control(file, IS_VALID, &mut notice.id) == 0 {
                thread::yield_now();
            }
        } else {
            libc::usleep(50_000);
        }
        tell("valid", control(file, IS_VALID, &mut notice.id));
        let (value, error, flags) = (1234, 0, 0);
        let mut answer = Answer {
            id: notice.id,
            value,
            error,
            flags,
        };
        tell("answered", control(file, SEND, &mut answer));
        _ = thread.join();
        println!("the call {}", RESULT.load(SeqCst));
    }
}
