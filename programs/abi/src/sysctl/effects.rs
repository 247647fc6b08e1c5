//! Effects of the settings.

use std::ptr;

use libc::c_int;

use super::{content, write};
use crate::{error, in_child, tell, tell_end};

/// Runs these tests.
pub unsafe fn run() {
    unsafe {
        with("fs/mqueue/msg_max", "3", || {
            tell_end("queues", in_child(|| queues()));
        });
        with("kernel/msgmax", "10", || {
            with("kernel/msgmnb", "20", messages);
        });
        with("kernel/sem", "3 5 2 10", semaphores);
        with("net/core/somaxconn", "1", waiting);
        // Other tests may still use an earlier port.
        let first = free_pair();
        let range = format!("{first} {}", first + 1);
        with_as(
            "net/ipv4/ip_local_port_range",
            &range,
            "20000 20001",
            || ports(first),
        );
        with("net/ipv4/ip_unprivileged_port_start", "80", || {
            tell_end("a user's ports", in_child(|| low_ports()));
        });
        with("net/unix/max_dgram_qlen", "2", datagrams);
        with("fs/nr_open", "128", || {
            tell_end("descriptors", in_child(|| descriptors()));
        });
        with("vm/max_map_count", "100", || {
            tell_end("areas", in_child(|| areas()));
        });
        with("kernel/sched_rr_timeslice_ms", "7", || {
            tell_end("turns", in_child(|| turns()));
        });
    }
}

/// Runs `f` with another value of a setting.
fn with(path: &str, value: &str, f: impl FnOnce()) {
    with_as(path, value, value, f);
}

/// The same with a value that differs from run to run, shown as `shown`.
fn with_as(path: &str, value: &str, shown: &str, f: impl FnOnce()) {
    let before = content(path);
    println!("{path} {shown}: {}", write(path, value));
    f();
    write(path, &before);
}

unsafe fn queues() {
    unsafe {
        libc::setuid(1000);
        let open = |what: &str, attributes: *const libc::mq_attr| {
            let flags = libc::O_CREAT | libc::O_RDWR;
            let name = c"sysctl".as_ptr();
            let queue = libc::syscall(libc::SYS_mq_open, name, flags, 0o600, attributes);
            tell(what, if queue < 0 { -1 } else { 0 });
            let mut now: libc::mq_attr = std::mem::zeroed();
            libc::syscall(libc::SYS_mq_getsetattr, queue, 0, &raw mut now);
            println!("  {} of {}", now.mq_maxmsg, now.mq_msgsize);
            libc::syscall(libc::SYS_mq_unlink, name);
            libc::close(queue as c_int);
        };
        let mut wanted: libc::mq_attr = std::mem::zeroed();
        (wanted.mq_maxmsg, wanted.mq_msgsize) = (3, 8192);
        open("three", &wanted);
        wanted.mq_maxmsg = 4;
        open("four", &wanted);
        open("as usual", std::ptr::null());
    }
}

fn messages() {
    // SAFETY: the messages are live.
    unsafe {
        let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
        let message = [1u64, 0, 0];
        let send = |what: &str, len| {
            let sent = libc::msgsnd(queue, message.as_ptr().cast(), len, libc::IPC_NOWAIT);
            tell(what, sent);
        };
        send("a long one", 11);
        for _ in 0..3 {
            send("one", 10);
        }
        let mut info: libc::msqid_ds = std::mem::zeroed();
        libc::msgctl(queue, libc::IPC_STAT, &mut info);
        println!("room for {}", info.msg_qbytes);
        libc::msgctl(queue, libc::IPC_RMID, &mut info);
    }
}

fn semaphores() {
    // SAFETY: the operations are live.
    unsafe {
        let get = |count| libc::semget(libc::IPC_PRIVATE, count, 0o600);
        tell("four", get(4));
        let first = get(3);
        tell("three", first.min(0));
        tell("three more", get(3));
        let second = get(2);
        tell("two more", second.min(0));
        let mut operations = [libc::sembuf {
            sem_num: 0,
            sem_op: 1,
            sem_flg: 0,
        }; 3];
        for count in [2, 3] {
            let done = libc::semop(first, operations.as_mut_ptr(), count);
            tell(&format!("{count} operations"), done);
        }
        for set in [first, second] {
            libc::semctl(set, 0, libc::IPC_RMID);
        }
    }
}

unsafe fn unix_socket(kind: c_int, name: &[u8], bound: bool) -> c_int {
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, kind | libc::SOCK_NONBLOCK, 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
            *to = *from as _;
        }
        let call = if bound { libc::bind } else { libc::connect };
        let len = 2 + 1 + name.len() as u32;
        let done = call(socket, (&raw const address).cast(), len);
        if done < 0 { -1 } else { socket }
    }
}

fn waiting() {
    // SAFETY: all pointers are to live values.
    unsafe {
        let listens = unix_socket(libc::SOCK_STREAM, b"waiting", true);
        libc::listen(listens, 50);
        let wait = (0..20).take_while(|_| unix_socket(libc::SOCK_STREAM, b"waiting", false) >= 0);
        println!("{} connect", wait.count());
        libc::close(listens);
    }
}

fn datagrams() {
    // SAFETY: all pointers are to live values.
    unsafe {
        let listens = unix_socket(libc::SOCK_DGRAM, b"datagrams", true);
        let sends = unix_socket(libc::SOCK_DGRAM, b"datagrams", false);
        let sent = (0..20).take_while(|_| libc::write(sends, c"x".as_ptr().cast(), 1) == 1);
        println!("{} sent", sent.count());
        libc::close(listens);
        libc::close(sends);
    }
}

/// Binds a TCP socket to a port, or to any for 0; returns the port.
unsafe fn bound(port: u16) -> Result<u16, &'static str> {
    unsafe { bound_file(port) }.map(|(_, port)| port)
}

/// The same, with the socket.
unsafe fn bound_file(port: u16) -> Result<(c_int, u16), &'static str> {
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as u16;
        address.sin_port = port.to_be();
        let mut len = size_of::<libc::sockaddr_in>() as u32;
        if libc::bind(socket, (&raw const address).cast(), len) < 0 {
            return Err(error());
        }
        libc::getsockname(socket, (&raw mut address).cast(), &mut len);
        Ok((socket, u16::from_be(address.sin_port)))
    }
}

/// The first of two consecutive free ports.
unsafe fn free_pair() -> u16 {
    let is_free = |first: &u16| {
        let pair = [*first, first + 1].map(|port| unsafe { bound_file(port) });
        let files = pair.iter().filter_map(|one| one.as_ref().ok());
        files.for_each(|(file, _)| _ = unsafe { libc::close(*file) });
        pair.iter().all(Result::is_ok)
    };
    (20_000..30_000).step_by(2).find(is_free).unwrap_or(20_000)
}

/// Binds three sockets while two ports exist, which are shown as 20000 and 20001.
fn ports(first: u16) {
    tell_end(
        "ports",
        in_child(|| {
            // SAFETY: all pointers are to live values.
            let mut ports = [(); 3].map(|()| unsafe { bound(0) });
            ports
                .iter_mut()
                .flatten()
                .for_each(|port| *port = *port - first + 20_000);
            ports.sort();
            println!("{ports:?}");
        }),
    );
}

unsafe fn low_ports() {
    unsafe {
        libc::setuid(1000);
        for port in [79, 80, 81] {
            println!("{port}: {:?}", bound(port));
        }
    }
}

unsafe fn descriptors() {
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let (low, high) = (128, 129);
        tell("dup2", libc::dup2(0, high));
        tell("fcntl", libc::fcntl(0, libc::F_DUPFD, high));
        tell("the last", libc::dup2(0, low - 1));
        limit.rlim_cur = low as u64;
        for most in [129, 128] {
            limit.rlim_max = most;
            tell(
                &format!("limit {most}"),
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit),
            );
        }
    }
}

/// With as many areas as allowed, an munmap that would split one fails.
unsafe fn areas() {
    const PAGE: usize = 4096;
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let map =
            |pages: usize, rights| libc::mmap(ptr::null_mut(), pages * PAGE, rights, flags, -1, 0);
        let (rights, others) = (libc::PROT_READ, libc::PROT_NONE);
        // Neighbours with different rights do not merge.
        let whole = map(5, rights | libc::PROT_WRITE | libc::PROT_EXEC);
        let made = (0..200).take_while(|at| {
            let rights = if at % 2 == 0 { rights } else { others };
            map(1, rights) != libc::MAP_FAILED
        });
        println!("full: {}", made.count() < 100);
        let page = |number: usize| whole.byte_add(number * PAGE);
        tell("the middle", libc::munmap(page(2), PAGE));
        tell("protect the middle", libc::mprotect(page(2), PAGE, others));
        tell("the first", libc::munmap(page(0), PAGE));
        tell("the last", libc::munmap(page(4), PAGE));
        tell("the middle", libc::munmap(page(2), PAGE));
        tell("all", libc::munmap(page(1), 3 * PAGE));
        tell(
            "another",
            if map(1, rights) == libc::MAP_FAILED {
                -1
            } else {
                0
            },
        );
    }
}

unsafe fn turns() {
    unsafe {
        let (call, policy) = (libc::SYS_sched_setscheduler, libc::SCHED_RR);
        tell("SCHED_RR", libc::syscall(call, 0, policy, &1u32));
        let mut turn: libc::timespec = std::mem::zeroed();
        libc::sched_rr_get_interval(0, &mut turn);
        println!("{} s {} ns", turn.tv_sec, turn.tv_nsec);
    }
}
