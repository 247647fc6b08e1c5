//! Waiters for one message, semaphore or part of a file among others: they continue when it becomes
//! available, and not before.

use std::ptr;

use libc::{F_RDLCK, F_SETLK, F_SETLKW, F_UNLCK, F_WRLCK, IPC_PRIVATE, c_int, c_long, pid_t};

use crate::doing::await_state;
use crate::{tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and children end by _exit.
    unsafe {
        messages();
        shut_out();
        semaphores();
        bytes();
        turns();
        other_events();
    }
}

/// Starts a child that waits in `wait`, and exits with its result, within two minutes.
pub unsafe fn waiter(wait: impl FnOnce() -> c_int) -> pid_t {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(120);
            libc::_exit(wait());
        }
        await_state(child, "S");
        child
    }
}

pub unsafe fn end(what: &str, child: pid_t) {
    unsafe {
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell_end(what, status);
    }
}

unsafe fn receive(id: c_int, wanted: c_long, flags: c_int) -> c_int {
    unsafe {
        let mut message: c_long = 0;
        match libc::msgrcv(id, (&raw mut message).cast(), 0, wanted, flags) {
            -1 => 100 + *libc::__errno_location(),
            _ => message as c_int,
        }
    }
}

/// A receiver of some types, and messages of which only the last is for it.
unsafe fn messages() {
    const EXCEPT: c_int = 0o20000;
    unsafe {
        let id = libc::msgget(IPC_PRIVATE, 0o600);
        for (wanted, flags, sent) in [
            (0, 0, &[5][..]),
            (7, 0, &[6, 8, 7]),
            (-3, 0, &[9, 4, 3]),
            (-3, 0, &[1]),
            (5, EXCEPT, &[5, 5, 6]),
        ] {
            let child = waiter(|| receive(id, wanted, flags));
            for kind in sent {
                let message: c_long = *kind;
                libc::msgsnd(id, (&raw const message).cast(), 0, 0);
            }
            end(&format!("{wanted} {flags:o} of {sent:?}"), child);
            while receive(id, 0, libc::IPC_NOWAIT) < 100 {}
        }
        libc::msgctl(id, libc::IPC_RMID, ptr::null_mut());
    }
}

/// A receiver that loses its permission, and one whose queue is removed.
unsafe fn shut_out() {
    unsafe {
        let id = libc::msgget(IPC_PRIVATE, 0o666);
        let child = waiter(|| {
            libc::setuid(1000);
            receive(id, 7, 0)
        });
        let mut status: libc::msqid_ds = std::mem::zeroed();
        libc::msgctl(id, libc::IPC_STAT, &mut status);
        status.msg_perm.mode = 0o600;
        tell("shut", libc::msgctl(id, libc::IPC_SET, &mut status));
        end("shut out", child);
        let child = waiter(|| receive(id, 7, 0));
        libc::msgctl(id, libc::IPC_RMID, ptr::null_mut());
        end("gone", child);
    }
}

unsafe fn operate(id: c_int, at: u16, change: i16) -> c_int {
    unsafe {
        let mut one = libc::sembuf {
            sem_num: at,
            sem_op: change,
            sem_flg: 0,
        };
        libc::semop(id, &mut one, 1)
    }
}

/// Two operations in one call: the second one blocks while the first could be done.
unsafe fn semaphores() {
    unsafe {
        let id = libc::semget(IPC_PRIVATE, 3, 0o600);
        let child = waiter(|| {
            let mut both = [(0, -2), (1, 0)].map(|(sem_num, sem_op)| libc::sembuf {
                sem_num,
                sem_op,
                sem_flg: 0,
            });
            libc::semop(id, both.as_mut_ptr(), 2)
        });
        operate(id, 2, 1);
        operate(id, 1, 1);
        operate(id, 0, 1);
        operate(id, 0, 1);
        await_state(child, "S");
        operate(id, 2, -1);
        operate(id, 1, -1);
        end("both", child);
        let values = [0, 1, 2].map(|at| libc::semctl(id, at, libc::GETVAL));
        println!("{values:?}");
        libc::semctl(id, 0, libc::IPC_RMID);
    }
}

unsafe fn lock(file: c_int, command: c_int, kind: c_int, first: i64, len: i64) -> c_int {
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind as _;
        (lock.l_start, lock.l_len) = (first, len);
        libc::fcntl(file, command, &mut lock)
    }
}

/// Waiters for a byte range of a file, and changes of that range and of others.
unsafe fn bytes() {
    unsafe {
        let file = libc::memfd_create(c"locked".as_ptr(), 0);
        for (what, kind, first, change) in [
            ("given up", F_WRLCK, 5, F_UNLCK),
            ("first byte", F_WRLCK, 2, F_UNLCK),
            ("last byte", F_RDLCK, 9, F_UNLCK),
            ("shared", F_RDLCK, 6, F_RDLCK),
        ] {
            lock(file, F_SETLK, F_WRLCK, 2, 8);
            lock(file, F_SETLK, F_WRLCK, 20, 8);
            let child = waiter(|| lock(file, F_SETLKW, kind, first, 1));
            lock(file, F_SETLK, F_UNLCK, 20, 8);
            lock(file, F_SETLK, F_RDLCK, 30, 8);
            lock(file, F_SETLK, change, first, 1);
            end(what, child);
            lock(file, F_SETLK, F_UNLCK, 0, 0);
        }
        circle(file);
        libc::close(file);
    }
}

/// Two processes each wait for the other's byte: the second gets EDEADLK.
unsafe fn circle(file: c_int) {
    unsafe {
        lock(file, F_SETLK, F_WRLCK, 2, 1);
        let child = waiter(|| {
            lock(file, F_SETLK, F_WRLCK, 1, 1);
            lock(file, F_SETLKW, F_WRLCK, 2, 1)
        });
        tell("a circle", lock(file, F_SETLKW, F_WRLCK, 1, 1));
        lock(file, F_SETLK, F_UNLCK, 2, 1);
        end("its other part", child);
    }
}

/// The number of a process's voluntary context switches.
fn switches(pid: pid_t) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with("voluntary"));
    line.unwrap_or_default().to_owned()
}

/// Starts three waiters, of which `act` releases `some`: those end, and the others sleep
/// undisturbed.
pub unsafe fn crowd(what: &str, some: usize, wait: impl Fn() -> c_int, act: impl FnOnce()) {
    unsafe {
        let children = [(); 3].map(|()| waiter(&wait));
        let before = children.map(switches);
        act();
        let mut left = children.to_vec();
        for _ in 0..some {
            let mut status = 0;
            let child = libc::waitpid(-1, &mut status, 0);
            tell_end(what, status);
            left.retain(|&other| other != child);
        }
        let mut undisturbed = true;
        for &child in &left {
            await_state(child, "S");
            let at = children.iter().position(|&other| other == child);
            undisturbed &= at.is_some_and(|at| switches(child) == before[at]);
        }
        println!("{what}: {} left, undisturbed: {undisturbed}", left.len());
        for child in left {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
}

unsafe fn read(fd: c_int, len: usize) -> c_int {
    let mut bytes = [0u8; 4096];
    unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), len) as c_int }
}

unsafe fn write(fd: c_int, len: usize) -> c_int {
    let bytes = [0u8; 4096];
    unsafe { libc::write(fd, bytes.as_ptr().cast(), len) as c_int }
}

/// Calls that each consume a part, or make room for one.
unsafe fn turns() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let [reader, writer] = ends;
        let one = || {
            libc::close(writer);
            read(reader, 1)
        };
        crowd("pipe, a byte", 1, one, || _ = write(writer, 1));
        crowd("pipe, two bytes", 2, one, || _ = write(writer, 2));
        crowd("pipe, its end", 3, one, || _ = libc::close(writer));
        libc::close(reader);

        libc::pipe(ends.as_mut_ptr());
        let [reader, writer] = ends;
        libc::fcntl(writer, libc::F_SETPIPE_SZ, 4096 * 4);
        while libc::poll(&mut poll_of(writer, libc::POLLOUT), 1, 0) == 1 {
            write(writer, 4096);
        }
        let all = || write(writer, 4096) / 64;
        crowd("full pipe, a page", 1, all, || _ = read(reader, 4096));
        let close = || {
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::close(reader);
            write(writer, 4096)
        };
        crowd("full pipe, no reader", 3, close, || _ = libc::close(reader));
        libc::close(writer);

        for (what, kind) in [
            ("datagrams", libc::SOCK_DGRAM),
            ("records", libc::SOCK_SEQPACKET),
        ] {
            libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr());
            let [ours, theirs] = ends;
            crowd(what, 1, || read(ours, 9), || _ = write(theirs, 5));
            let peek = || libc::recv(ours, [0u8; 9].as_mut_ptr().cast(), 9, libc::MSG_PEEK) as _;
            crowd(&format!("{what}, a look"), 1, peek, || _ = write(theirs, 6));
            ends.iter().for_each(|&end| _ = libc::close(end));
        }
        connections();
        udp();
        queue();
    }
}

unsafe fn poll_of(fd: c_int, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// A socket at a loopback port, and its address.
unsafe fn on_loopback(kind: c_int) -> (c_int, libc::sockaddr_in) {
    unsafe {
        let socket = libc::socket(libc::AF_INET, kind, 0);
        let mut name: libc::sockaddr_in = std::mem::zeroed();
        name.sin_family = libc::AF_INET as _;
        name.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let mut len = size_of_val(&name) as u32;
        libc::bind(socket, (&raw const name).cast(), len);
        libc::getsockname(socket, (&raw mut name).cast(), &mut len);
        (socket, name)
    }
}

unsafe fn connect(kind: c_int, name: &libc::sockaddr_in) -> c_int {
    unsafe {
        let socket = libc::socket(libc::AF_INET, kind, 0);
        let len = size_of_val(name) as u32;
        libc::connect(socket, ptr::from_ref(name).cast(), len);
        socket
    }
}

unsafe fn connections() {
    unsafe {
        let (listener, name) = on_loopback(libc::SOCK_STREAM);
        libc::listen(listener, 8);
        let accept = || c_int::from(libc::accept(listener, ptr::null_mut(), ptr::null_mut()) > 0);
        let mut clients = Vec::new();
        crowd("a connection", 1, accept, || {
            clients.push(connect(libc::SOCK_STREAM, &name));
        });
        crowd("two connections", 2, accept, || {
            clients.extend([(); 2].map(|()| connect(libc::SOCK_STREAM, &name)));
        });
        clients.push(listener);
        clients.iter().for_each(|&one| _ = libc::close(one));
    }
}

unsafe fn udp() {
    unsafe {
        let (receiver, name) = on_loopback(libc::SOCK_DGRAM);
        let sender = connect(libc::SOCK_DGRAM, &name);
        let receive = || read(receiver, 9);
        crowd("UDP", 1, receive, || _ = write(sender, 3));
        libc::close(receiver);
        libc::close(sender);
    }
}

unsafe fn queue() {
    unsafe {
        let name = c"/awaited";
        let mut attributes: libc::mq_attr = std::mem::zeroed();
        (attributes.mq_maxmsg, attributes.mq_msgsize) = (1, 8);
        let flags = libc::O_CREAT | libc::O_RDWR;
        let queue = libc::mq_open(name.as_ptr(), flags, 0o600, &attributes);
        libc::mq_unlink(name.as_ptr());
        let send = || libc::mq_send(queue, c"word".as_ptr(), 4, 0);
        let receive = || libc::mq_receive(queue, [0; 8].as_mut_ptr(), 8, ptr::null_mut()) as c_int;
        crowd("a message", 1, receive, || _ = send());
        send();
        crowd("place for one", 1, send, || _ = receive());
        libc::mq_close(queue);
    }
}

/// Pollers for other events than those that occur.
unsafe fn other_events() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let [reader, writer] = ends;
        let poll = |fd, events| libc::poll(&mut poll_of(fd, events), 1, -1);
        crowd("no event", 0, || poll(reader, 0), || _ = write(writer, 1));
        let both = || {
            let mut both = [poll_of(reader, 0), poll_of(reader, libc::POLLIN)];
            libc::poll(both.as_mut_ptr(), 2, -1)
        };
        read(reader, 1);
        crowd("no event, and one", 3, both, || _ = write(writer, 1));
        ends.iter().for_each(|&end| _ = libc::close(end));

        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr());
        let [ours, theirs] = ends;
        write(ours, 9);
        let poll_in = || poll(ours, libc::POLLIN);
        crowd("read at the other end", 0, poll_in, || _ = read(theirs, 9));
        crowd("written", 3, poll_in, || _ = write(theirs, 1));
        ends.iter().for_each(|&end| _ = libc::close(end));

        let counter = libc::eventfd(5, 0);
        let poll_pri = || poll(counter, libc::POLLPRI);
        crowd("counter", 0, poll_pri, || _ = read(counter, 8));
        libc::close(counter);
    }
}
