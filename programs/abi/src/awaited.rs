//! Waiters for one message, semaphore or part of a file among others: they go on when what they
//! wait for comes, and not before.

use std::ptr;

use libc::{F_RDLCK, F_SETLK, F_SETLKW, F_UNLCK, F_WRLCK, IPC_PRIVATE, c_int, c_long, pid_t};

use crate::doing::await_state;
use crate::{tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is that of a live value of the right kind, and children end by
    // _exit.
    unsafe {
        messages();
        shut_out();
        semaphores();
        bytes();
    }
}

/// A child that waits in `wait`, and ends with its result; within half a minute.
unsafe fn waiter(wait: impl FnOnce() -> c_int) -> pid_t {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(30);
            libc::_exit(wait());
        }
        await_state(child, "S");
        child
    }
}

unsafe fn end(what: &str, child: pid_t) {
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

/// A receiver of some types, and messages of which the last is for it.
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

/// A receiver that loses its right, and one whose queue goes.
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

/// Two operations at once, the second of which waits when the first can be done.
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

/// Waiters for bytes of a file, and changes beside them and of them.
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

/// Two that each wait for the other's byte: the second is told.
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
