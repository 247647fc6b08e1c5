//! exec(2) beside a thread that makes threads, beside a reader of its process's memory, and with a
//! socket that lingers.

use std::ffi::CString;
use std::fs;
use std::mem;
use std::ptr;
use std::time::{Duration, Instant};

use libc::{AF_INET, SIGKILL, SO_LINGER, SOCK_STREAM, SOL_SOCKET, WNOHANG, c_int, pid_t};

use super::become_user;
use crate::inet::{self, own_port};
use crate::{in_child, tell, tell_end};

const LOCAL: u32 = 0x7f00_0001;
const PROGRAM: &str = "/proc/self/exe";
/// The environment variable that says how often the program executes itself, and with which size.
const TURNS: &str = "TURNS";

/// Runs this part.
pub fn run() {
    if let Ok(turns) = std::env::var(TURNS) {
        return again(turns.parse().unwrap_or(0));
    }
    become_user();
    // SAFETY: the call takes no pointer. Others of this user may look at the process again.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    let failed = (0..5).filter(|_| in_child(beside_new_threads) != 0);
    println!("programs that did not begin: {}", failed.count());
    beside_reader();
    with_lingering();
}

fn execute(arguments: &[CString], environment: &[CString]) -> ! {
    let pointers = |texts: &[CString]| -> Vec<_> {
        let all = texts.iter().map(|text| text.as_ptr());
        all.chain([ptr::null()]).collect()
    };
    let program = CString::new(PROGRAM).expect("no zero in it");
    // SAFETY: the arrays end with a null pointer, and their texts live.
    unsafe {
        libc::execve(
            program.as_ptr(),
            pointers(arguments).as_ptr(),
            pointers(environment).as_ptr(),
        );
        libc::_exit(127)
    }
}

fn text(bytes: &str) -> CString {
    CString::new(bytes).expect("no zero in it")
}

fn this_part() -> Vec<CString> {
    ["abi", "hostile", "executes"].map(text).into()
}

/// A thread copies the large table of descriptors for each thread that it makes, so that it is in
/// clone(2) when exec begins to end the threads.
fn beside_new_threads() {
    const FILES: c_int = 1000;
    const STACK: usize = 16384;
    // SAFETY: the new threads have stacks of their own, and only call pause(2).
    unsafe {
        libc::alarm(60);
        for _ in 0..FILES {
            libc::dup(0);
        }
        std::thread::spawn(|| {
            let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
            loop {
                let stack = Vec::<u8>::with_capacity(STACK).leak();
                let top = stack.as_mut_ptr().add(STACK).cast();
                libc::clone(rest, top, flags | libc::CLONE_SYSVSEM, ptr::null_mut());
            }
        });
        libc::usleep(20_000);
    }
    execute(&this_part(), &[text("TURNS=0")]);
}

extern "C" fn rest(_: *mut libc::c_void) -> c_int {
    loop {
        // SAFETY: the call only waits.
        unsafe { libc::pause() };
    }
}

/// A program that executes itself, alternately with many and few arguments.
fn again(turns: u32) {
    if turns == 0 {
        return;
    }
    let mut arguments = this_part();
    if turns.is_multiple_of(2) {
        arguments.extend(std::iter::repeat_n(text(&"a".repeat(4000)), 20));
    }
    let secret = format!("SECRET={}", "z".repeat(20_000));
    execute(
        &arguments,
        &[text(&format!("TURNS={}", turns - 1)), text(&secret)],
    );
}

fn begin(work: impl FnOnce()) -> pid_t {
    // SAFETY: the program has one thread here.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            work();
            libc::_exit(0);
        }
        child
    }
}

/// The arguments of a process that begins another program never show its environment.
fn beside_reader() {
    let child = begin(|| again(100));
    let path = format!("/proc/{child}/cmdline");
    let (mut status, mut shown) = (0, false);
    // SAFETY: the status lives.
    while unsafe { libc::waitpid(child, &mut status, WNOHANG) } == 0 {
        shown |= fs::read(&path).is_ok_and(|text| text.contains(&b'z'));
    }
    tell_end("it executed itself", status);
    println!("its environment was shown: {shown}");
}

/// A program begins, and closes a socket that lingers: others can look at it meanwhile.
fn with_lingering() {
    let mut ends = [0; 2];
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC);
        let listener = libc::socket(AF_INET, SOCK_STREAM, 0);
        inet::bind(listener, AF_INET, LOCAL, 0);
        libc::listen(listener, 1);
        let child = begin(|| {
            let socket = libc::socket(AF_INET, SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            tell(
                "connect",
                inet::connect(socket, AF_INET, LOCAL, own_port(listener)),
            );
            let lingers = libc::linger {
                l_onoff: 1,
                l_linger: 100,
            };
            let len = mem::size_of_val(&lingers) as u32;
            libc::setsockopt(
                socket,
                SOL_SOCKET,
                SO_LINGER,
                (&raw const lingers).cast(),
                len,
            );
            let bytes = [0u8; 65536];
            while libc::send(
                socket,
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            ) > 0
            {}
            execute(&this_part(), &[text("TURNS=0")]);
        });
        libc::close(ends[1]);
        // Its end of the pipe is closed before the socket, which has a higher number.
        libc::read(ends[0], [0u8; 1].as_mut_ptr().cast(), 1);
        let start = Instant::now();
        let looked = fs::read(format!("/proc/{child}/environ")).is_ok();
        let in_time = start.elapsed() < Duration::from_secs(50);
        println!("looked at in time: {}", looked && in_time);
        libc::kill(child, SIGKILL);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell_end("killed", status);
    }
}
