//! More datagram sockets than memory has room for, filled by broadcasts: the queued data is limited
//! for the whole machine, and freed with the sockets.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use libc::{
    AF_INET, RLIMIT_NOFILE, SO_BROADCAST, SO_REUSEADDR, SOCK_DGRAM, SOL_SOCKET, c_int, rlimit,
};

use super::USER;
use crate::inet::{bind, own_port, send_to};
use crate::unix::set;
use crate::{tell, tell_end};

const PROCESSES: usize = 4;
const EACH: usize = 1500;
const SENDERS: usize = 4;
const ALL: u32 = 0x7fff_ffff;
const LIMIT: rlimit = rlimit {
    rlim_cur: EACH as u64 + 100,
    rlim_max: EACH as u64 + 100,
};

/// Runs this part.
pub fn run() {
    // SAFETY: all pointers are to live values.
    unsafe {
        let bystander = vec![1u8; 24 << 20];
        let port = own_port(socket(0));
        let mut children: Vec<_> = (0..PROCESSES).map(|_| child(|| receive(port))).collect();
        children.iter().for_each(|&child| await_pause(child));
        children.extend((0..SENDERS).map(|_| child(|| send(port))));
        let began = Instant::now();
        let mut rounds = 0;
        // Some rounds take longer on a slow host.
        while began.elapsed() < Duration::from_secs(8) || rounds <= 5 {
            // A process of root.
            let done = libc::fork();
            if done == 0 {
                libc::_exit(0);
            }
            rounds += c_int::from(libc::waitpid(done, std::ptr::null_mut(), 0) == done);
            thread::sleep(Duration::from_millis(50));
        }
        println!("root's work goes on: {}", rounds > 5);
        for child in children {
            libc::kill(child, libc::SIGKILL);
            let mut status = 0;
            tell("ended", libc::waitpid(child, &mut status, 0) == child);
        }
        let intact = bystander.iter().all(|&byte| byte == 1);
        tell_end("what root has", i32::from(!intact));
    }
}

/// Waits until a child has its sockets and sleeps, or was killed for their memory.
fn await_pause(child: c_int) {
    let state = |text: String| text.contains(") S ") || text.contains(") Z ");
    while !fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(state) {
        thread::sleep(Duration::from_millis(10));
    }
}

/// A socket bound to a port with SO_REUSEADDR, or to any port for 0.
unsafe fn socket(port: u16) -> c_int {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
        set(file, SOL_SOCKET, SO_REUSEADDR, 1);
        bind(file, AF_INET, 0, port);
        file
    }
}

/// Starts a process of the hostile user that runs `work` for ever.
unsafe fn child(work: impl FnOnce()) -> c_int {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::setrlimit(RLIMIT_NOFILE, &LIMIT);
            libc::setgid(USER);
            libc::setuid(USER);
            work();
            libc::_exit(0);
        }
        child
    }
}

unsafe fn receive(port: u16) {
    unsafe {
        for _ in 0..EACH {
            socket(port);
        }
        loop {
            libc::pause();
        }
    }
}

unsafe fn send(port: u16) {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
        set(file, SOL_SOCKET, SO_BROADCAST, 1);
        let bytes = vec![1; 60_000];
        loop {
            send_to(file, &bytes, AF_INET, ALL, port);
        }
    }
}
